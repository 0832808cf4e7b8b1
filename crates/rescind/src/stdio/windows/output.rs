//! The output of one side.

use std::{
    io,
    task::{Context, Poll, ready},
};

use tokio::net::windows::named_pipe::NamedPipeServer;

use super::Descriptor;
use crate::stdio::threaded::ThreadedOutput;

/// A handle that is written; dropping it closes the handle.
#[derive(Debug)]
pub(crate) enum Output {
    Piped(NamedPipeServer),
    Threaded(ThreadedOutput),
}

impl Output {
    /// Takes the end of a pipe that this process made.
    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) const fn own(pipe: NamedPipeServer) -> io::Result<Self> {
        Ok(Self::Piped(pipe))
    }

    /// Takes an inherited handle of any kind.
    pub(crate) fn inherited(handle: Descriptor) -> io::Result<Self> {
        ThreadedOutput::new(handle).map(Self::Threaded)
    }

    /// Takes some of these bytes, at least one. They are written before any that are taken later.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let pipe = match self {
            Self::Threaded(threaded) => return threaded.poll_write(cx, bytes),
            Self::Piped(pipe) => pipe,
        };
        loop {
            ready!(pipe.poll_write_ready(cx))?;
            match pipe.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Ready when all bytes that were taken have reached the system.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Piped(_) => Poll::Ready(Ok(())),
            Self::Threaded(threaded) => threaded.poll_flush(cx),
        }
    }

    /// The size of a pipe cannot be changed.
    pub(crate) const fn widen(&self, _bytes: usize) {}
}
