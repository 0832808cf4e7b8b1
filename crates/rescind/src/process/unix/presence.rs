//! Detects, without writing a byte, that the client is gone (D44).
//!
//! tokio's `Receiver` is used only to register a descriptor, as in `stdio/unix/polled.rs`.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

use tokio::net::unix::pipe::Receiver;

use crate::process::ended_by::EndReason;

/// Detects that the client is gone. It holds a copy of the client's output, and so keeps that open.
#[derive(Debug)]
pub(crate) struct Presence {
    sign: Option<Sign>,
    /// The reader of its output cannot be observed.
    is_blind: bool,
}

/// A descriptor that becomes readable.
#[derive(Debug)]
enum Sign {
    /// When the reader of the client's output is gone.
    Reader { hangup: Receiver, _output: OwnedFd },
    /// When the process that started this one has ended.
    Parent(Receiver),
}

impl Presence {
    /// Observes the reader of `output`, if it can have one: a pipe, a socket, a terminal.
    pub(crate) fn of(output: &OwnedFd) -> io::Result<Self> {
        let sign = reader_of(output.as_fd())?;
        Ok(Self { is_blind: sign.is_none(), sign })
    }

    /// Handles the end of the client's input. If its output is a file or nothing, observes the parent process from now on.
    pub(crate) fn end_input(&mut self) {
        if self.is_blind && self.sign.is_none() {
            self.sign = parent().map(Sign::Parent);
        }
    }

    /// Ready once, when the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let (receiver, reason) = match &self.sign {
            None => return Poll::Pending,
            Some(Sign::Reader { hangup, .. }) => (hangup, EndReason::ReaderGone),
            Some(Sign::Parent(exit)) => (exit, EndReason::ParentGone),
        };
        let _gone = ready!(receiver.poll_read_ready(cx));
        self.sign = None;
        Poll::Ready(reason)
    }
}

/// epoll always reports errors and hang-ups, and an epoll descriptor can itself be polled. So a pipe that loses its last
/// reader is noticed without a write.
#[cfg(target_os = "linux")]
fn reader_of(output: BorrowedFd<'_>) -> io::Result<Option<Sign>> {
    use rustix::{
        event::epoll::{self, CreateFlags, EventData, EventFlags},
        io::Errno,
    };
    let output = output.try_clone_to_owned()?;
    let hangup = epoll::create(CreateFlags::CLOEXEC)?;
    match epoll::add(&hangup, &output, EventData::new_u64(0), EventFlags::empty()) {
        Ok(()) => {
            let hangup = Receiver::from_owned_fd_unchecked(hangup)?;
            Ok(Some(Sign::Reader { hangup, _output: output }))
        }
        // A file, or a device such as `/dev/null`.
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reader_of(_output: BorrowedFd<'_>) -> io::Result<Option<Sign>> {
    Ok(None)
}

/// `None` if the parent cannot be observed or has exited already: the process that adopted this one outlives it.
#[cfg(target_os = "linux")]
fn parent() -> Option<Receiver> {
    use rustix::process::{PidfdFlags, getppid, pidfd_open};
    let parent = getppid()?;
    let exit = pidfd_open(parent, PidfdFlags::empty()).ok()?;
    // The parent may have exited in between, and its number may have been reused.
    (getppid() == Some(parent)).then(|| Receiver::from_owned_fd_unchecked(exit).ok())?
}

#[cfg(not(target_os = "linux"))]
fn parent() -> Option<Receiver> {
    None
}
