//! Descriptors that become readable when the client is gone.
//!
//! tokio's `Receiver` is used only to register a descriptor, as in `stdio/unix/polled.rs`.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    task::{Context, Poll},
};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
    process::{PidfdFlags, getppid, pidfd_open},
};
use tokio::net::unix::pipe::Receiver;

/// The reader of an output.
///
/// epoll always reports errors and hang-ups, and an epoll descriptor can itself be polled. So a pipe that loses its last
/// reader is noticed without a write.
#[derive(Debug)]
pub(super) struct ReaderSign {
    hangup: Receiver,
    _output: OwnedFd,
}

impl ReaderSign {
    /// `None` if the output can have no reader.
    pub(super) fn of(output: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let output = output.try_clone_to_owned()?;
        let hangup = epoll::create(CreateFlags::CLOEXEC)?;
        match epoll::add(&hangup, &output, EventData::new_u64(0), EventFlags::empty()) {
            Ok(()) => {
                let hangup = Receiver::from_owned_fd_unchecked(hangup)?;
                Ok(Some(Self { hangup, _output: output }))
            }
            // A file, or a device such as `/dev/null`.
            Err(Errno::PERM) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.hangup.poll_read_ready(cx).map(drop)
    }
}

/// The process that started this one.
#[derive(Debug)]
pub(super) struct ParentSign(Receiver);

impl ParentSign {
    /// `None` if it cannot be observed or has exited already: the process that adopted this one outlives it.
    pub(super) fn begin() -> Option<Self> {
        let parent = getppid()?;
        let exit = pidfd_open(parent, PidfdFlags::empty()).ok()?;
        // The parent may have exited in between, and its number may have been reused.
        (getppid() == Some(parent)).then(|| Receiver::from_owned_fd_unchecked(exit).ok().map(Self))?
    }

    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_read_ready(cx).map(drop)
    }
}
