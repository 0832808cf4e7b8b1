//! The transports, with real sockets and processes: each test observes the work itself.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod child;
mod link;
#[expect(dead_code, reason = "these tests use their part of it")]
#[path = "../peer/rig.rs"]
mod rig;
mod stdio;
mod streams;
mod websocket;
