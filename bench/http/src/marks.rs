//! What the child has marked: a named pipe, which every child of a gateway appends lines to.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

/// Something a child has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A call of `hang`.
    Called { work: usize },
    /// A cancel, at a time of [`now`]; of no call that this child has read if it names no work.
    Cancelled { work: Option<usize>, at: u64 },
}

impl Mark {
    /// As one line: short enough for a pipe never to mix it with another's.
    pub(crate) fn line(self) -> String {
        match self {
            Self::Called { work } => format!("called {work}\n"),
            Self::Cancelled { work: Some(work), at } => format!("cancelled {work} {at}\n"),
            Self::Cancelled { work: None, at } => format!("cancelled - {at}\n"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["called", work] => Some(Self::Called { work: work.parse().ok()? }),
            ["cancelled", work, at] => Some(Self::Cancelled { work: work.parse().ok(), at: at.parse().ok()? }),
            _ => None,
        }
    }
}

/// Nanoseconds of the monotonic clock, which all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) path: PathBuf,
    pipe: BufReader<Receiver>,
    /// What has been read of a line.
    line: Vec<u8>,
}

impl Marks {
    /// Makes the pipe in `folder`; must be called within a runtime.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join("marks");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)?;
        // Open for writing, too, it has no end when a child has.
        let pipe = OpenOptions::new().read_write(true).open_receiver(&path)?;
        Ok(Self { path, pipe: BufReader::new(pipe), line: Vec::new() })
    }

    /// The next mark, whenever it comes; nothing is lost when this is dropped before.
    pub(crate) async fn next(&mut self) -> io::Result<Mark> {
        loop {
            let read = self.pipe.fill_buf().await?;
            let newline = memchr::memchr(b'\n', read);
            self.line.extend_from_slice(&read[..newline.unwrap_or(read.len())]);
            let used = newline.map_or(read.len(), |newline| newline + 1);
            self.pipe.consume(used);
            if newline.is_some() {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                return Mark::parse(&line).ok_or_else(|| io::Error::other(format!("no mark: {line}")));
            }
        }
    }
}
