//! Peers that see their cancels through: each test observes the work itself.
//!
//! A doc comment names the cases of the catalogue that a test shows.

mod cascade;
mod clocks;
mod context;
mod incoming;
mod link;
mod notices;
mod outgoing;
#[cfg(unix)]
mod owned;
mod storm;
mod trace_context;
mod undriven;
