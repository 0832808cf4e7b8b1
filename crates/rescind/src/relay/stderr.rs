//! Messages on stderr while a link is up.
//!
//! Stderr may be a pipe that the client never reads and that the server, which
//! shares it, has filled. So a thread writes, and only that thread blocks.

#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;
use std::{io, time::Duration};

use super::sink::Sink;

/// Time to write the last messages at the end of a link.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Stderr, written by a thread of its own, which the first message starts: a stderr that nobody reads delays only what is
/// written to it. The thread still writes what waits when this is dropped.
#[derive(Debug, Default)]
pub struct Stderr(Option<Sink>);

impl Stderr {
    /// Nothing was written yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Writes a message, sooner or later. Messages are dropped while 4 MiB wait, without an error.
    pub fn write(&mut self, text: &str) {
        if self.0.is_none() {
            self.0 = start().ok();
        }
        if let Some(sink) = &mut self.0
            && sink.has_room(text.len())
        {
            sink.line().extend_from_slice(text.as_bytes());
            sink.commit();
        }
    }

    /// Waits until every message is written, for a second at most.
    pub fn finish(&mut self) {
        if let Some(mut sink) = self.0.take() {
            sink.finish(FLUSH_TIMEOUT);
        }
    }
}

fn start() -> io::Result<Sink> {
    #[cfg(unix)]
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let stderr = io::stderr().as_handle().try_clone_to_owned()?;
    Sink::new(stderr.into(), "stderr")
}
