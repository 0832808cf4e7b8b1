//! The cancellation engine of Rescind.
//!
//! JSON-RPC request lifecycles as values: bytes and times go in, bytes and
//! events come out. No I/O, no clock, no threads, no random order.

#![warn(missing_docs)]

#[macro_use]
mod words;

pub use rescind_wire::{excerpt, frame, framing, json, kind, message};

pub mod bridge;
pub mod cause;
pub mod connection;
pub mod dialect;
pub mod error_code;
pub mod holder;
pub mod id;
pub mod link;
pub mod monitor;
pub mod receipt;
pub mod relay;
pub mod rule;
pub mod side;
pub mod time;

mod early_cancels;
mod hash;
mod method;
mod outbox;
mod slab;
mod standstill;
mod table;
mod timer_queue;
mod tombstones;
mod turns;
