//! A connection to a shim: a socket, or a pipe of Windows.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{Connection, check, open, server};
#[cfg(windows)]
pub(super) use windows::{Connection, check, open, server};
