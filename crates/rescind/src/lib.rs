//! The library of Rescind: what drives the engine on real descriptors and processes.
//!
//! The engine, [`rescind_proto`], decides; this crate reads, writes, waits and
//! starts processes.

#![warn(missing_docs)]

pub mod launch;
#[cfg(feature = "peer")]
pub mod peer;
pub mod relay;

mod stdio;
