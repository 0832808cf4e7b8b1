//! Lines out of a stream, as many as a read brings.

use std::io;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A buffer that lines are cut from.
pub(super) struct Lines {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 64 << 10], start: 0, end: 0 }
    }

    /// Reads once; 0 at the end of the stream. Loses nothing when it is dropped.
    pub(super) async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.bytes.len() {
            self.bytes.resize(self.end * 2, 0);
        }
        let read = reader.read(&mut self.bytes[self.end..]).await?;
        self.end += read;
        Ok(read)
    }

    /// The next whole line, without its newline.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let start = self.start;
        let length = memchr::memchr(b'\n', &self.bytes[start..self.end])?;
        self.start = start + length + 1;
        Some(&self.bytes[start..start + length])
    }

    /// All whole lines, newlines included.
    pub(super) fn take_whole(&mut self) -> &[u8] {
        let start = self.start;
        self.start += memchr::memrchr(b'\n', &self.bytes[start..self.end]).map_or(0, |last| last + 1);
        &self.bytes[start..self.start]
    }
}

/// A message, its payload not looked into.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    pub(super) id: Option<u64>,
    pub(super) method: Option<&'a str>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}
