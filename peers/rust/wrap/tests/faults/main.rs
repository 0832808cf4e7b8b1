//! Faults of Rust SDKs, as they are and behind `relay::wrap`: each test prints one row of the table.
//!
//! Both ends live in one runtime whose clock is paused: it moves on only when nothing else can happen, so that
//! "never" is seen at once and every time is exact. What must hold behind the relay is asserted; so is the fault
//! without it where the pinned version shows it every time.

mod acp;
mod async_lsp;
mod rmcp_client;
mod rmcp_server;
mod tower_lsp;
