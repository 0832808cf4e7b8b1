//! What every store does: each test runs on the store in memory and on the one in a file.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod bounds;
mod cancel;
mod input;
mod life;
mod race;
mod recovery;
mod rig;
