//! Sign-ins at a scripted server, whose person and browser are in the test's hands.

#![expect(clippy::unwrap_used, reason = "what a helper does not find is a failure of the test")]

mod browser;
mod device;
mod discovery;
mod hostile;
mod renewal;
mod rig;
mod script;
mod tabs;
mod vault;
