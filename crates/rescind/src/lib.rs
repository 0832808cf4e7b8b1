//! The library of Rescind: clients and servers whose requests can be cancelled, and a relay between those of others.
//!
//! The engine, [`rescind_proto`], decides; this crate reads, writes, waits and
//! starts processes.

#![warn(missing_docs)]

#[cfg(feature = "acp")]
pub mod acp;
pub mod launch;
#[cfg(feature = "lsp")]
pub mod lsp;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "peer")]
pub mod peer;
pub mod relay;

mod stdio;
