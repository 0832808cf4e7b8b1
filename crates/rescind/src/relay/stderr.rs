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

/// Stderr. The thread is started by the first message.
#[derive(Debug, Default)]
pub(super) struct Stderr(Option<Sink>);

impl Stderr {
    /// Writes a message. Messages that nobody reads are dropped past a bound, without an error.
    pub(super) fn write(&mut self, text: &str) {
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

    /// Waits a short time until every message is written.
    pub(super) fn finish(&mut self) {
        if let Some(sink) = &mut self.0 {
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
