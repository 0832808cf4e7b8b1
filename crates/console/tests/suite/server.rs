//! The server of the page, spoken to byte by byte, with scripted shims behind it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is over")]

mod attacks;
mod events;
mod metrics;
mod rig;
