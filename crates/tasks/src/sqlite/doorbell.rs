//! The doorbell of a process: a message to it carries no data, and its receiver reads the database.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

#[cfg(unix)]
pub(super) use unix::Doorbell;
#[cfg(windows)]
pub(super) use windows::Doorbell;

/// The suffix of its file, after the name of the process.
pub(super) const BELL: &str = "bell";

impl Doorbell {
    /// Errors of a wait in which it did not ring.
    const IS_NOTHING: [ErrorKind; 4] =
        [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted, ErrorKind::ConnectionReset];

    /// Waits until it rings, with a limit. Returns whether it rang.
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        self.bell.set_nonblocking(false)?;
        self.bell.set_read_timeout(at_most)?;
        let rang = match self.bell.recv(&mut [0]) {
            Ok(_) => true,
            // On Windows the port of a process that has ended answers one of ours with a reset.
            Err(error) if Self::IS_NOTHING.contains(&error.kind()) => false,
            Err(error) => return Err(error),
        };
        // One check of the database answers every message so far.
        self.bell.set_nonblocking(true)?;
        while rang && self.bell.recv(&mut [0]).is_ok() {}
        Ok(rang)
    }
}
