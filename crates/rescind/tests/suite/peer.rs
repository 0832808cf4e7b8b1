//! Peers that see their cancels through: each test observes the work itself.
//!
//! A doc comment names the cases of the catalogue that a test shows.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod cascade;
mod clocks;
mod incoming;
mod link;
mod notices;
mod outgoing;
mod owned;
mod rig;
mod storm;
mod trace_context;
mod undriven;
