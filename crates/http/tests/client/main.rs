//! The client's machine before scripted servers, beside the server's machine, and in its shell.

mod bounds;
mod cancel;
mod lost_sessions;
mod mirrors;
mod refusals;
mod rig;
mod sessions;
mod streams;
