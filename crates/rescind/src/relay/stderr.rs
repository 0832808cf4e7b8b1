//! What is said on stderr while a link is up.
//!
//! A client may have given this process a pipe there that it never reads, and
//! the server shares that pipe and can fill it. So a thread writes, and only the
//! thread waits.

use std::{io, os::fd::AsFd, time::Duration};

use super::sink::Sink;

/// How long the end of a link waits for the last words to be taken.
const LAST: Duration = Duration::from_secs(1);

/// Stderr; its thread is started with the first words.
#[derive(Debug, Default)]
pub(super) struct Stderr(Option<Sink>);

impl Stderr {
    /// Says something. Words that nobody takes are no reason to fail: beyond a bound they are dropped.
    pub(super) fn say(&mut self, text: &str) {
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

    /// Waits until everything that was said is written, but not for long.
    pub(super) fn finish(&mut self) {
        if let Some(sink) = &mut self.0 {
            sink.finish(LAST);
        }
    }
}

fn start() -> io::Result<Sink> {
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    Sink::new(stderr.into(), "stderr")
}
