//! What any Unix tells: that a pipe takes no more bytes, and the number of the parent.

use std::{
    io,
    os::fd::BorrowedFd,
    task::{Context, Poll, ready},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::FileType,
};
use tokio::net::unix::pipe::Sender;

use crate::process::parent::ParentWatch;

/// The reader of an output. The system wakes this process each time that some of it was read, and when its last reader is
/// gone.
///
/// tokio's `Sender` is used only to register a descriptor, as in `stdio/unix/polled.rs`.
#[derive(Debug)]
pub(super) struct ReaderSign(Sender);

impl ReaderSign {
    /// `None` if the output can have no reader: a file, or a device.
    pub(super) fn of(output: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        match FileType::from_raw_mode(rustix::fs::fstat(output)?.st_mode) {
            FileType::Fifo | FileType::Socket => {
                Sender::from_owned_fd_unchecked(output.try_clone_to_owned()?).map(|fd| Some(Self(fd)))
            }
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(None),
        }
    }

    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        while let Ok(()) = ready!(self.0.poll_write_ready(cx)) {
            if has_hung_up(&self.0) {
                break;
            }
            // Not ready any more, until the system reports the next change.
            let _ = self.0.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
        Poll::Ready(())
    }
}

fn has_hung_up(output: &Sender) -> bool {
    let mut fds = [PollFd::new(output, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::ERR;
    rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(gone))
}

/// The process that started this one.
pub(super) type ParentSign = ParentWatch;

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Write, os::fd::AsFd};

    use super::*;

    #[tokio::test]
    async fn a_pipe_that_loses_its_reader_is_noticed_without_a_write() {
        let (reader, mut writer) = io::pipe().unwrap();
        let sign = ReaderSign::of(writer.as_fd()).unwrap().unwrap();
        writer.write_all(b"unread").unwrap();
        for _ in 0..10 {
            assert!(!poll_fn(|cx| Poll::Ready(sign.poll_gone(cx).is_ready())).await);
            tokio::task::yield_now().await;
        }
        drop(reader);
        poll_fn(|cx| sign.poll_gone(cx)).await;
    }

    #[tokio::test]
    async fn a_file_has_no_reader() {
        let file = tempfile::tempfile().unwrap();
        assert!(ReaderSign::of(file.as_fd()).unwrap().is_none());
    }
}
