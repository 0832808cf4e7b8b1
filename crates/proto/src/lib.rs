//! The cancellation engine of Rescind.
//!
//! JSON-RPC request lifecycles as values: bytes and times go in, bytes and
//! events come out. No I/O, no clock, no threads, no random order.

#![warn(missing_docs)]

pub mod id;
pub mod json;
pub mod time;
