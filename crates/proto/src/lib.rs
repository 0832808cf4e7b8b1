//! The cancellation engine of Rescind.
//!
//! JSON-RPC request lifecycles as values: bytes and times go in, bytes and
//! events come out. No I/O, no clock, no threads, no random order.

#![warn(missing_docs)]

#[macro_use]
mod words;

use rescind_parts::{hash, method, outbox, slab, table, timer_queue};
pub use rescind_parts::{holder, time};
pub use rescind_wire::{excerpt, frame, framing, json, kind, message};

pub mod bridge;
pub mod cause;
pub mod connection;
pub mod dialect;
pub mod error_code;
pub mod id;
pub mod link;
pub mod monitor;
pub mod receipt;
pub mod relay;
pub mod rule;
pub mod side;

mod early_cancels;
mod standstill;
mod tombstones;
mod turns;
