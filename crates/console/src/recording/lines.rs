//! Reads the lines of a file of any size, one at a time.

use std::io::{self, BufRead};

use super::entry::LinePosition;

/// The longest line that is read, in bytes: the longest message that a shim accepts by default, escaped as JSON.
pub(super) const MAX_LINE: usize = 160 << 20;

/// The buffer capacity kept for the next line.
const KEPT_CAPACITY: usize = 1 << 20;

/// What was read.
#[derive(Debug)]
pub(crate) enum LineRead<'a> {
    /// A line without its line break, and its position.
    RecordedLine {
        text: &'a [u8],
        position: LinePosition,
        /// It ends with a line break.
        is_whole: bool,
    },
    /// A line of more than [`MAX_LINE`] bytes.
    TooLong,
}

/// Reads lines and tracks their positions.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) const fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), offset: 0, number: 0 }
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<LineRead<'_>>> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
        let offset = self.offset;
        let mut too_long = false;
        let is_whole = loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            too_long |= self.buffer.len() + piece.len() > MAX_LINE;
            if !too_long {
                self.buffer.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            self.offset += used as u64;
            if end.is_some() || used == 0 {
                break end.is_some();
            }
        };
        if self.offset == offset {
            return Ok(None);
        }
        self.number += 1;
        if too_long {
            return Ok(Some(LineRead::TooLong));
        }
        let position = LinePosition { offset, length: self.buffer.len(), number: self.number };
        Ok(Some(LineRead::RecordedLine { text: &self.buffer, position, is_whole }))
    }
}
