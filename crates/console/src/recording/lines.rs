//! The lines of a file of any size, one at a time.

use std::io::{self, BufRead};

use super::entry::Place;

/// The longest line that is read, in bytes: the longest message that a shim takes by default, written as JSON.
pub(super) const LONGEST: usize = 160 << 20;

/// Beyond this a buffer is not kept for the next line.
const ROOM: usize = 1 << 20;

/// What was read.
#[derive(Debug)]
pub(super) enum Read<'a> {
    /// A line without its line break, and where it stands.
    Line {
        text: &'a [u8],
        place: Place,
        /// Its line break is there.
        is_whole: bool,
    },
    /// A line of more than [`LONGEST`] bytes.
    TooLong,
}

/// Reads lines and counts where they stand.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), offset: 0, number: 0 }
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Read<'_>>> {
        self.buffer.clear();
        self.buffer.shrink_to(ROOM);
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
            too_long |= self.buffer.len() + piece.len() > LONGEST;
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
            return Ok(Some(Read::TooLong));
        }
        let place = Place { offset, length: self.buffer.len(), number: self.number };
        Ok(Some(Read::Line { text: &self.buffer, place, is_whole }))
    }
}
