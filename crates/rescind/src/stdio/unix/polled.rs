//! Descriptors that are registered with epoll.
//!
//! tokio's pipe ends are used for their registration only. The calls are ours, so that a socket can be told not to block,
//! and so that a call that took less than it could saves the next one, which would only return "not yet".

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll, ready},
};

use rustix::io::Errno;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::descriptor::Means;

/// A pipe or socket that is read when it is ready.
pub(crate) type PolledInput = Polled<Receiver>;

/// A pipe or socket that is written when it is ready.
pub(crate) type PolledOutput = Polled<Sender>;

/// A registered descriptor, whose flags are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Polled<R: AsFd> {
    registered: R,
    means: Means,
}

impl PolledInput {
    /// Fails where epoll refuses.
    pub(super) fn new((fd, means): (OwnedFd, Means)) -> io::Result<Self> {
        Ok(Self { registered: Receiver::from_owned_fd_unchecked(fd)?, means })
    }

    /// Reads once. A read that did not fill the buffer has emptied the pipe.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.registered.poll_read_ready(cx))?;
            let mut read = Err(Errno::AGAIN);
            let _ = self.registered.try_io(|| {
                read = self.means.read(self.registered.as_fd(), buffer);
                note(read, read.is_ok_and(|read| read > 0 && read < buffer.len()))
            });
            if let Some(done) = done(read) {
                return Poll::Ready(done);
            }
        }
    }
}

impl PolledOutput {
    /// Fails where epoll refuses.
    pub(super) fn new((fd, means): (OwnedFd, Means)) -> io::Result<Self> {
        Ok(Self { registered: Sender::from_owned_fd_unchecked(fd)?, means })
    }

    /// Writes once. A write that was cut short has filled the pipe.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.registered.poll_write_ready(cx))?;
            let mut written = Err(Errno::AGAIN);
            let _ = self.registered.try_io(|| {
                written = self.means.write(self.registered.as_fd(), bytes);
                note(written, written.is_ok_and(|written| written < bytes.len()))
            });
            if let Some(done) = done(written) {
                return Poll::Ready(done);
            }
        }
    }
}

impl<R: AsFd> Polled<R> {
    /// Asks the kernel for a larger pipe, so that large messages pass in fewer steps. May do nothing: a limit of the system
    /// or the user may forbid it, and a socket is not a pipe.
    pub(super) fn widen(&self, bytes: usize) {
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&self.registered, bytes);
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }
}

impl<R: AsFd> Drop for Polled<R> {
    fn drop(&mut self) {
        self.means.give_back(self.registered.as_fd());
    }
}

/// Tells the registration whether the descriptor is still ready.
fn note(outcome: rustix::io::Result<usize>, exhausted: bool) -> io::Result<()> {
    if exhausted || outcome == Err(Errno::AGAIN) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// The result of a call, unless it has to be made again.
fn done(outcome: rustix::io::Result<usize>) -> Option<io::Result<usize>> {
    match outcome {
        Ok(bytes) => Some(Ok(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Write, pipe},
        task::{Context, Poll, Waker},
    };

    use super::{super::descriptor, PolledInput};

    /// No event would tell of them again.
    #[tokio::test]
    async fn bytes_behind_a_read_that_filled_its_buffer_are_read_at_once() {
        let (reader, mut writer) = pipe().unwrap();
        let input = PolledInput::new(descriptor::own(reader.into()).unwrap()).unwrap();
        writer.write_all(b"eightnow").unwrap();
        let mut buffer = [0; 4];
        let first = std::future::poll_fn(|cx| input.poll_read(cx, &mut buffer)).await.unwrap();
        assert_eq!((first, &buffer), (4, b"eigh"));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(input.poll_read(&mut cx, &mut buffer), Poll::Ready(Ok(4))));
        assert_eq!(&buffer, b"tnow");
        assert!(input.poll_read(&mut cx, &mut buffer).is_pending());
    }
}
