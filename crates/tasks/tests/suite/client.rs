//! Following tasks, with the server in the test's hands, on a paused clock.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod cancel;
mod extension;
mod november;
mod orphan;
mod receipt;
mod rig;
