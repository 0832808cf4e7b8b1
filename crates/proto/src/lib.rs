//! The cancellation engine of Rescind.
//!
//! JSON-RPC request lifecycles as values: bytes and times go in, bytes and events come out. No I/O, no clock, no threads,
//! no random order: nothing iterates a hash table, and what reaches the wire or an event has one order, given by the
//! inputs. So a test owns every byte and every moment.
//!
//! | machine | what it is |
//! | --- | --- |
//! | [`Connection`](connection::Connection) | one endpoint: our requests and the peer's |
//! | [`Relay`](relay::Relay) | two sides joined |
//! | [`Bridge`](bridge::Bridge) | the two eras of MCP joined, behind a relay |
//! | [`Monitor`](monitor::Monitor) | a passive observer of a link |
//!
//! The contract of each stands with it, with a driver's loop for the first three. What differs between protocols is a field
//! of a [`Dialect`](dialect::Dialect), a const table for each revision (D1); [`rule`] is the catalogue of the sentences that
//! bind (MCP-C06 …), `docs/decisions.md` explains the numbers D1 ….
//!
//! Every bound is configuration with a default, and memory is bounded whatever a peer sends: `most_held` of a machine's
//! settings says what follows from them, `held` what it holds, and floods in the tests compare the two.
//!
//! # Dependencies
//!
//! Few, here and in the two crates below, and each for a reason: `memchr` finds the ends of lines and strings with the
//! widest vectors of the machine; `hashbrown`'s `HashTable` is an index over slots that stores no key twice; `foldhash` is
//! seeded by the driver, so that a peer cannot choose ids that collide; `itoa` writes ids; `simdutf8` checks text that is
//! not ASCII several times faster than the standard library, and needs `unsafe`; `fearless_simd`
//! classifies 64-byte blocks of JSON with the widest vectors of the machine, in safe code.

#![warn(missing_docs)]

#[macro_use]
mod words;

pub use rescind_parts::{back_off, holder, time};
use rescind_parts::{hash, method, outbox, slab, table, timer_queue};
pub use rescind_wire::{excerpt, frame, framing, json, kind, message};

pub mod bridge;
pub mod cause;
pub mod child;
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
pub mod task;
pub mod welcome;

mod children;
mod early_cancels;
mod family;
mod fingerprint;
mod standstill;
mod tombstones;
mod turns;
