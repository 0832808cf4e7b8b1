//! A watch that sees, without a byte being written, that no client is left to wait for an answer (D44).
//!
//! tokio's pipe end is used for its registration only, as in `stdio/polled.rs`.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

use rescind_proto::relay::EndReason;
use tokio::net::unix::pipe::Receiver;

/// A watch on the client. It holds a copy of the client's output, and so keeps that open.
#[derive(Debug)]
pub(crate) struct Presence {
    sign: Option<Sign>,
    /// Its output has no reader that could be watched.
    is_blind: bool,
}

/// A descriptor that becomes readable.
#[derive(Debug)]
enum Sign {
    /// When the reader of the client's output is gone.
    Reader { watch: Receiver, _output: OwnedFd },
    /// When the process that started this one has ended.
    Parent(Receiver),
}

impl Presence {
    /// Watches the reader of `output`, if it has one: a pipe, a socket, a terminal.
    pub(crate) fn of(output: BorrowedFd<'_>) -> io::Result<Self> {
        let sign = reader_of(output)?;
        Ok(Self { is_blind: sign.is_none(), sign })
    }

    /// The client's input has ended. Where its output is a file or nothing at all, only the process that started this
    /// one is left to be watched.
    pub(crate) fn end_input(&mut self) {
        if self.is_blind && self.sign.is_none() {
            self.sign = parent().map(Sign::Parent);
        }
    }

    /// Ready once, when the client is gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let (watch, reason) = match &self.sign {
            None => return Poll::Pending,
            Some(Sign::Reader { watch, .. }) => (watch, EndReason::ReaderGone),
            Some(Sign::Parent(watch)) => (watch, EndReason::ParentGone),
        };
        let _gone = ready!(watch.poll_read_ready(cx));
        self.sign = None;
        Poll::Ready(reason)
    }
}

/// Errors and hang-ups are reported by epoll unasked, and an epoll descriptor can itself be waited for. That of a
/// pipe without readers tells so while writing would still wait for nothing.
#[cfg(target_os = "linux")]
fn reader_of(output: BorrowedFd<'_>) -> io::Result<Option<Sign>> {
    use rustix::{
        event::epoll::{self, CreateFlags, EventData, EventFlags},
        io::Errno,
    };
    let output = output.try_clone_to_owned()?;
    let watch = epoll::create(CreateFlags::CLOEXEC)?;
    match epoll::add(&watch, &output, EventData::new_u64(0), EventFlags::empty()) {
        Ok(()) => {
            let watch = Receiver::from_owned_fd_unchecked(watch)?;
            Ok(Some(Sign::Reader { watch, _output: output }))
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

/// `None` where that cannot be watched, and where it is gone already: whatever took this process over outlives it.
#[cfg(target_os = "linux")]
fn parent() -> Option<Receiver> {
    use rustix::process::{PidfdFlags, getppid, pidfd_open};
    let parent = getppid()?;
    let watch = pidfd_open(parent, PidfdFlags::empty()).ok()?;
    // Its number may have become another's in between.
    (getppid() == Some(parent)).then(|| Receiver::from_owned_fd_unchecked(watch).ok())?
}

#[cfg(not(target_os = "linux"))]
fn parent() -> Option<Receiver> {
    None
}
