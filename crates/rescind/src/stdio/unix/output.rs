//! The output of one side.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll},
};

use super::{
    descriptor::{self, Direction},
    polled::PolledOutput,
};
use crate::stdio::threaded::ThreadedOutput;

/// A descriptor that is written; dropping it closes the descriptor.
#[derive(Debug)]
pub(crate) enum Output {
    Polled(PolledOutput),
    Threaded(ThreadedOutput),
}

impl Output {
    /// Takes the end of a pipe that this process made.
    pub(crate) fn own(fd: OwnedFd) -> io::Result<Self> {
        PolledOutput::new(descriptor::own(fd)?).map(Self::Polled)
    }

    /// Takes an inherited descriptor of any kind.
    pub(crate) fn inherited(fd: OwnedFd) -> io::Result<Self> {
        if let Some(found) = descriptor::inherited(fd.as_fd(), Direction::Write)?
            && let Ok(polled) = PolledOutput::new(found)
        {
            return Ok(Self::Polled(polled));
        }
        ThreadedOutput::new(fd).map(Self::Threaded)
    }

    /// Takes some of these bytes, at least one. They are written before any that are taken later.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Polled(polled) => polled.poll_write(cx, bytes),
            Self::Threaded(threaded) => threaded.poll_write(cx, bytes),
        }
    }

    /// Ready when all bytes that were taken have reached the kernel.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Polled(_) => Poll::Ready(Ok(())),
            Self::Threaded(threaded) => threaded.poll_flush(cx),
        }
    }

    /// Asks the kernel for a larger pipe, so that large messages pass in fewer steps. May do nothing.
    pub(crate) fn widen(&self, bytes: usize) {
        if let Self::Polled(polled) = self {
            polled.widen(bytes);
        }
    }
}
