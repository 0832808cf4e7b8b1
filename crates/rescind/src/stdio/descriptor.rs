//! A descriptor on which no call waits, and whose shared flags are what they were.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    net::{RecvFlags, SendFlags},
};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Why no call on a descriptor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// The flag is set on an open file description that nobody else has.
    OwnFlag,
    /// Each call says so: a socket.
    EachCall,
    /// The flag is set on a shared description, and these were its flags before.
    Borrowed(OFlags),
}

/// A pipe end made by this process, which nobody else has open.
pub(super) fn own(fd: OwnedFd) -> io::Result<(OwnedFd, Means)> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok((fd, Means::OwnFlag))
}

/// An inherited pipe or socket; `None` for what must be left to a thread.
pub(super) fn inherited(fd: BorrowedFd<'_>, direction: Direction) -> io::Result<Option<(OwnedFd, Means)>> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
    if kind == FileType::Socket {
        return Ok(Some((fd.try_clone_to_owned()?, Means::EachCall)));
    }
    if kind != FileType::Fifo {
        return Ok(None);
    }
    if let Some(again) = open_again(fd, direction) {
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
            Self::EachCall => rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Self::OwnFlag | Self::Borrowed(_) => rustix::io::write(fd, bytes),
        }
    }

    /// Gives back whatever flag had to be borrowed.
    pub(super) fn give_back(self, fd: BorrowedFd<'_>) {
        if let Self::Borrowed(before) = self {
            let _ = rustix::fs::fcntl_setfl(fd, before);
        }
    }
}

/// The same pipe under a description of its own, whose flags nobody shares.
///
/// `None` where the system has no such door, or this user may not pass it.
#[cfg(target_os = "linux")]
fn open_again(fd: BorrowedFd<'_>, direction: Direction) -> Option<OwnedFd> {
    let access = match direction {
        Direction::Read => OFlags::RDONLY,
        Direction::Write => OFlags::WRONLY,
    };
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_again(_fd: BorrowedFd<'_>, _direction: Direction) -> Option<OwnedFd> {
    None
}
