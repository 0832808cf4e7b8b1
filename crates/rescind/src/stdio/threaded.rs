//! Descriptors that only a blocking call can serve: files, terminals, `/dev/null`.
//!
//! A thread blocked in `read` on a terminal cannot be interrupted. It stays until the end of the process, and holds only
//! its buffer.

use std::{
    fs::File,
    io::{self, Read, Write},
    task::{Context, Poll, ready},
    thread,
};

use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{Descriptor, platform::turn::wait_for_turn};

/// The most bytes that are read, or taken for writing, at a time.
const CHUNK: usize = 64 * 1024;

/// Reads ahead by at most two chunks.
#[derive(Debug)]
pub(crate) struct ThreadedInput {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// The rest that did not fit into the caller's buffer, and how much of it was taken since.
    rest: Vec<u8>,
    taken: usize,
}

impl ThreadedInput {
    pub(crate) fn new(fd: Descriptor) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(1);
        thread::Builder::new().name("read".into()).spawn(move || read_all(File::from(fd), &sender))?;
        Ok(Self { chunks, rest: Vec::new(), taken: 0 })
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.taken == self.rest.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                None => return Poll::Ready(Ok(0)),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(chunk)) => (self.rest, self.taken) = (chunk, 0),
            }
        }
        let rest = &self.rest[self.taken..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.taken += read;
        Poll::Ready(Ok(read))
    }
}

fn read_all(mut file: File, chunks: &Sender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        wait_for_turn(&file);
        let chunk = match file.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => Ok(buffer[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if chunks.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// Takes one chunk at a time, as a pipe of that size would.
#[derive(Debug)]
pub(crate) struct ThreadedOutput {
    chunks: Sender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    is_busy: bool,
}

impl ThreadedOutput {
    pub(crate) fn new(fd: Descriptor) -> io::Result<Self> {
        let (chunks, to_write) = mpsc::channel(1);
        let (report, written) = mpsc::channel(1);
        thread::Builder::new().name("write".into()).spawn(move || write_all(File::from(fd), to_write, &report))?;
        Ok(Self { chunks, written, is_busy: false })
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let taken = bytes.len().min(CHUNK);
        match self.chunks.try_send(bytes[..taken].to_vec()) {
            Ok(()) => {
                self.is_busy = true;
                Poll::Ready(Ok(taken))
            }
            Err(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_busy {
            return Poll::Ready(Ok(()));
        }
        let written = ready!(self.written.poll_recv(cx));
        self.is_busy = false;
        Poll::Ready(written.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into())))
    }
}

fn write_all(mut file: File, mut chunks: Receiver<Vec<u8>>, report: &Sender<io::Result<()>>) {
    while let Some(chunk) = chunks.blocking_recv() {
        let written = file.write_all(&chunk);
        let failed = written.is_err();
        if report.blocking_send(written).is_err() || failed {
            return;
        }
    }
}
