//! `relay::wrap` between scripted ends, over pipes in memory: no time passes but by the paused clock.

#![cfg(feature = "wrap")]
#![expect(clippy::unwrap_used, reason = "a test whose ends cannot talk has failed")]

mod cancel;
mod clock;
mod end;
mod flow;
mod rig;
