//! The client's machine before scripted servers, beside the server's machine, and in its shell.

mod cancel;
mod rig;
mod sessions;
mod streams;
