//! What Rescind's machines are made of. **Internal**: published since `rescind-proto` and `rescind-http` stand on it, and
//! changed with each release as they need.
//!
//! | module | one noun |
//! | --- | --- |
//! | [`time`] | an instant, which the driver hands in |
//! | [`back_off`] | when a program that has ended is started again (D64) |
//! | [`hash`] | the hash of ids and names, the same on every run with the same seed |
//! | [`slab`] | entries by key: a key of something gone never finds its successor |
//! | [`table`] | entries by key, id and token, and their tombstones (D8) |
//! | [`outbox`] | frames that wait to be written: two lanes, withdrawal, memory that follows what waits (D13) |
//! | [`timer_queue`] | timers that are mostly armed in order |
//! | [`method`] | names, each kept once |
//! | [`holder`] | clients that share something, and what each may have of it |
//!
//! No I/O, no clock, no threads, no random order.

#![warn(missing_docs)]
#![expect(clippy::new_without_default, clippy::len_without_is_empty, reason = "no machine asks for them")]

pub mod back_off;
pub mod hash;
pub mod holder;
pub mod method;
pub mod outbox;
pub mod slab;
pub mod table;
pub mod time;
pub mod timer_queue;
