//! The library of Rescind: what drives the engine on real descriptors and processes.
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
