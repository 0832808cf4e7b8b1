//! The library of Rescind: clients and servers whose requests can be cancelled, and a relay between those of others.
//!
//! [`cancellation`] is the chapter to begin with: who cancels whom, what a handler sees, what a receipt claims.
//!
//! The engine, [`rescind_proto`], decides; this crate reads, writes, waits and
//! starts processes.

#![warn(missing_docs)]

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(all(feature = "acp", feature = "mcp"))]
pub mod cancellation;
pub mod launch;
#[cfg(feature = "lsp")]
pub mod lsp;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "peer")]
pub mod peer;
pub mod relay;

mod stdio;

/// Has the code of the page tested.
#[cfg(all(doctest, feature = "acp", feature = "schemars"))]
#[doc = include_str!("../../../docs/coming-from.md")]
mod coming_from {}
