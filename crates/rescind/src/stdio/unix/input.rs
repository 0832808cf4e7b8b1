//! The input of one side.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll},
};

use super::{
    descriptor::{self, Direction},
    polled::PolledInput,
};
use crate::stdio::threaded::ThreadedInput;

/// A descriptor that is read; dropping it closes the descriptor.
#[derive(Debug)]
pub(crate) enum Input {
    Polled(PolledInput),
    Threaded(ThreadedInput),
}

impl Input {
    /// Takes the end of a pipe that this process made.
    pub(crate) fn own(fd: OwnedFd) -> io::Result<Self> {
        PolledInput::new(descriptor::own(fd)?).map(Self::Polled)
    }

    /// Takes an inherited descriptor of any kind.
    pub(crate) fn inherited(fd: OwnedFd) -> io::Result<Self> {
        if let Some(found) = descriptor::inherited(fd.as_fd(), Direction::Read)?
            && let Ok(polled) = PolledInput::new(found)
        {
            return Ok(Self::Polled(polled));
        }
        ThreadedInput::new(fd).map(Self::Threaded)
    }

    /// Reads once; zero bytes are the end. Never called with an empty buffer.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Polled(polled) => polled.poll_read(cx, buffer),
            Self::Threaded(threaded) => threaded.poll_read(cx, buffer),
        }
    }

    /// Asks the kernel for a larger pipe, so that large messages pass in fewer steps. May do nothing.
    pub(crate) fn widen(&self, bytes: usize) {
        if let Self::Polled(polled) = self {
            polled.widen(bytes);
        }
    }
}
