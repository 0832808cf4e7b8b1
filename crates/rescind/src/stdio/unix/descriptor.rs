//! Descriptors on which no call blocks, and whose shared flags stay unchanged.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{FileType, OFlags},
    net::{RecvFlags, SendFlags},
};

/// A write to a socket without a reader is an error, and no signal. Apple has no such flag: Rust ignores SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: SendFlags = SendFlags::empty();

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// The means by which no call on a descriptor blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// The flag is set on an open file description of our own.
    OwnFlag,
    /// Each call sets a flag of its own: a socket.
    EachCall,
    /// The flag is set on a shared description, and these were its flags before.
    Borrowed(OFlags),
}

/// Takes a pipe end that this process made, and that no other process has open.
pub(super) fn own(fd: OwnedFd) -> io::Result<(OwnedFd, Means)> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok((fd, Means::OwnFlag))
}

/// Takes an inherited pipe or socket; `None` for a descriptor that must be left to a thread.
pub(super) fn inherited(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<Option<(OwnedFd, Means)>> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::Socket {
        return Ok(Some((fd.try_clone_to_owned()?, Means::EachCall)));
    }
    if kind != FileType::Fifo {
        return Ok(None);
    }
    // A named pipe that is opened when its last writer has gone never tells its end: it waits for the next one.
    if let Some(again) = open_again(fd, direction).filter(|_| direction == Direction::Write || !has_ended(fd)) {
        return Ok(Some((again, Means::OwnFlag)));
    }
    let before = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, before | OFlags::NONBLOCK)?;
    Ok(Some((fd.try_clone_to_owned()?, Means::Borrowed(before))))
}

impl Means {
    pub(super) fn read(self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::EachCall => rustix::net::recv(fd, buffer, RecvFlags::DONTWAIT).map(|(read, _)| read),
            Self::OwnFlag | Self::Borrowed(_) => rustix::io::read(fd, buffer),
        }
    }

    pub(super) fn write(self, fd: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Self::EachCall => rustix::net::send(fd, bytes, SendFlags::DONTWAIT | NO_SIGNAL),
            Self::OwnFlag | Self::Borrowed(_) => rustix::io::write(fd, bytes),
        }
    }

    /// Restores the flags that were changed.
    pub(super) fn give_back(self, fd: BorrowedFd<'_>) {
        if let Self::Borrowed(before) = self {
            let _ = rustix::fs::fcntl_setfl(fd, before);
        }
    }
}

/// Whether no process has the pipe open for writing any more.
fn has_ended(fd: BorrowedFd<'_>) -> bool {
    let mut ends = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ends, Some(&now)).is_ok_and(|_| ends[0].revents().contains(PollFlags::HUP))
}

/// Opens the same pipe again, under a description of our own, whose flags are not shared.
///
/// `None` where the system cannot do that, or this user may not.
#[cfg(target_os = "linux")]
fn open_again(fd: BorrowedFd<'_>, direction: Direction) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let access = match direction {
        Direction::Read => OFlags::RDONLY,
        Direction::Write => OFlags::WRONLY,
    };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, rustix::fs::Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_again(_fd: BorrowedFd<'_>, _direction: Direction) -> Option<OwnedFd> {
    None
}
