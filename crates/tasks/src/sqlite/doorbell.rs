//! The doorbell of a process: a message to it carries no data, and its receiver reads the database.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::Doorbell;
#[cfg(windows)]
pub(super) use windows::Doorbell;

/// The suffix of its file, after the name of the process.
pub(super) const BELL: &str = "bell";
