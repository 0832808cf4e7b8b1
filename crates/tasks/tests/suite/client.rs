//! Following tasks, with the server in the test's hands, on a paused clock.

mod cancel;
mod extension;
mod november;
mod orphan;
mod receipt;
mod rig;
