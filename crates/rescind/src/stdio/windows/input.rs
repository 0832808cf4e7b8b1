//! The input of one side.

use std::{
    io,
    task::{Context, Poll, ready},
};

use tokio::net::windows::named_pipe::NamedPipeServer;

use super::Descriptor;
use crate::stdio::threaded::ThreadedInput;

/// A handle that is read; dropping it closes the handle.
#[derive(Debug)]
pub(crate) enum Input {
    Piped(NamedPipeServer),
    Threaded(ThreadedInput),
}

impl Input {
    /// Takes the end of a pipe that this process made.
    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) const fn own(pipe: NamedPipeServer) -> io::Result<Self> {
        Ok(Self::Piped(pipe))
    }

    /// Takes an inherited handle of any kind.
    pub(crate) fn inherited(handle: Descriptor) -> io::Result<Self> {
        ThreadedInput::new(handle).map(Self::Threaded)
    }

    /// Reads once; zero bytes are the end. Never called with an empty buffer.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let pipe = match self {
            Self::Threaded(threaded) => return threaded.poll_read(cx, buffer),
            Self::Piped(pipe) => pipe,
        };
        loop {
            ready!(pipe.poll_read_ready(cx))?;
            match pipe.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Its last writer has closed it.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Poll::Ready(Ok(0)),
                done => return Poll::Ready(done),
            }
        }
    }

    /// The size of a pipe cannot be changed.
    pub(crate) const fn widen(&self, _bytes: usize) {}
}
