//! `Content-Length` header blocks, as LSP has them.
//!
//! A block is lines that end in `\r\n` (a bare `\n` is tolerated) and ends with
//! an empty line; empty lines and a byte order mark before a block are dropped.
//! Names are read in any case; names other than `Content-Length` are passed over.
//!
//! After a line or block that cannot be understood, a new block starts behind
//! it; or inside the line that broke it, if that line ends with
//! `Content-Length: <digits>`: nothing separates a body from the header behind
//! it, so a peer that miscounted glues the two together. (A JSON string cannot
//! hold the line break, so a payload cannot fake this.)

use core::ops::Range;

use super::{
    Broken, Bytes, Chunk, Framed, Leftover,
    buffer::Buffer,
    mark::{MARK, is_blank},
    overlong::OverlongScan,
};
use crate::json;

/// The longest header block, in bytes.
pub const MAX_BLOCK: usize = 8 * 1024;

/// The longest body that a header may announce, in bytes: more is no message but a broken header. Believed, it would
/// swallow whatever follows without a word.
pub const MAX_LENGTH: u64 = 1 << 32;

/// How far before a line's end a length is looked for.
const GLUED: usize = 64;

/// A declared length is believed up to this many bytes; beyond it memory follows what arrives.
const BELIEVED_LENGTH: usize = 1024 * 1024;

/// What is wrong with a header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A line that is no `name: value`.
    NoHeader,
    /// The block ended without a `Content-Length`.
    NoLength,
    /// A `Content-Length` that is no number, or one beyond [`MAX_LENGTH`].
    BadLength,
    /// Two lengths that differ.
    TwoLengths,
    /// Longer than [`MAX_BLOCK`]; what follows on the same line is dropped.
    TooLong,
}

/// Appends the header block of a body of `len` bytes.
pub fn write_header(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(b"Content-Length: ");
    json::write_integer(out, i64::try_from(len).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n\r\n");
}

/// Where in a block or its body the stream is; what there is of them is in the buffer.
#[derive(Debug, Clone)]
pub(super) enum Headers {
    Block(Block),
    /// In a body, which lies at these bytes of the buffer once they are there.
    Body(Range<usize>),
    /// In a body beyond the limit.
    Overlong {
        left: u64,
        scan: Box<OverlongScan>,
    },
    /// In a line too long to be a header, whose last bytes are in the buffer.
    Skip,
}

impl Headers {
    pub(super) const START: Self = Self::Block(Block { read: 0, length: None });

    pub(super) fn decode<'d, 'i: 'd>(&mut self, buffer: &'d mut Buffer, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        loop {
            match self {
                Self::Block(block) => {
                    if buffer.held().is_empty()
                        && let Some(framed) = whole_message(input, buffer.max_message)
                    {
                        return Some(Chunk::Frame(framed));
                    }
                    match block.read_on(buffer.held()) {
                        Step::More => buffer.append(take_line(input, MAX_BLOCK - buffer.held().len())?),
                        Step::Mark => buffer.drop_first(MARK.len()),
                        Step::Blank => {
                            buffer.clear();
                            *self = Self::START;
                        }
                        Step::End { length, block } => *self = Self::body(length, block, buffer),
                        Step::Broken { fault, end } => {
                            *self = if fault == Fault::TooLong { Self::Skip } else { Self::START };
                            return Some(Chunk::Broken(Broken { fault, raw: buffer.give(end) }));
                        }
                    }
                }
                Self::Body(body) => {
                    let body = body.clone();
                    buffer.append(take(input, body.end - buffer.held().len()));
                    if buffer.held().len() < body.end {
                        return None;
                    }
                    *self = Self::START;
                    return Some(Chunk::Frame(Framed { bytes: Bytes::Buffer(buffer.give_all()), body }));
                }
                Self::Overlong { left, scan } => {
                    let part = take(input, usize::try_from(*left).unwrap_or(usize::MAX));
                    scan.feed(part);
                    *left -= part.len() as u64;
                    if *left > 0 {
                        return None;
                    }
                    let overlong = core::mem::take(&mut **scan).finish();
                    *self = Self::START;
                    return Some(Chunk::Overlong(overlong));
                }
                Self::Skip => {
                    if skip_line(buffer, input)? {
                        *self = Self::START;
                    }
                }
            }
        }
    }

    pub(super) fn finish(&mut self, held: Vec<u8>) -> Option<Leftover> {
        match core::mem::replace(self, Self::START) {
            Self::Overlong { scan, .. } => Some(Leftover::Overlong(scan.finish())),
            Self::Block(_) | Self::Body(_) => (!is_blank(&held)).then_some(Leftover::Half(held)),
            Self::Skip => None,
        }
    }

    /// What follows a block of `block` bytes, which are all that the buffer holds.
    fn body(length: u64, block: usize, buffer: &mut Buffer) -> Self {
        match usize::try_from(length) {
            Ok(length) if length <= buffer.max_message => {
                buffer.reserve(length.min(BELIEVED_LENGTH));
                Self::Body(block..block.saturating_add(length))
            }
            _ => {
                buffer.clear();
                Self::Overlong { left: length, scan: Box::default() }
            }
        }
    }
}

/// The message with which the input starts, if all of it is there.
fn whole_message<'i>(input: &mut &'i [u8], max_message: usize) -> Option<Framed<'i>> {
    let step = Block::default().read_on(&input[..input.len().min(MAX_BLOCK)]);
    let Step::End { length, block } = step else { return None };
    let length = usize::try_from(length).ok().filter(|length| *length <= max_message)?;
    let whole = block.checked_add(length).filter(|whole| *whole <= input.len())?;
    Some(Framed { bytes: Bytes::Input(take(input, whole)), body: block..whole })
}

/// Drops a line but for its last bytes, and all of it once it has ended, unless it ends with a length. Returns whether it
/// has ended; `None` if the input is used up.
fn skip_line(buffer: &mut Buffer, input: &mut &[u8]) -> Option<bool> {
    let part = take_line(input, usize::MAX)?;
    // The end of the line so far is all that counts.
    let mut tail = buffer.take();
    tail.extend_from_slice(&part[part.len().saturating_sub(GLUED)..]);
    tail.drain(..tail.len().saturating_sub(GLUED));
    let has_ended = part.ends_with(b"\n");
    let kept = if has_ended { glued_length(&tail) } else { tail.len() };
    buffer.append(&tail[tail.len() - kept..]);
    Some(has_ended)
}

/// What the lines of a block have said so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Block {
    /// Bytes read, in whole lines.
    read: usize,
    length: Option<u64>,
}

enum Step {
    /// The next line is not whole.
    More,
    /// A byte order mark stands before the block.
    Mark,
    /// An empty line before any header.
    Blank,
    /// The block ends after `block` bytes and announces `length`.
    End { length: u64, block: usize },
    /// The bytes up to `end` are no block.
    Broken { fault: Fault, end: usize },
}

impl Block {
    /// Reads the lines of `bytes`, which start with the block, that were not there before.
    fn read_on(&mut self, bytes: &[u8]) -> Step {
        if self.read == 0 && bytes.starts_with(MARK) {
            return Step::Mark;
        }
        loop {
            let Some(end) = memchr::memchr(b'\n', &bytes[self.read..]) else {
                return if bytes.len() < MAX_BLOCK {
                    Step::More
                } else {
                    Step::Broken { fault: Fault::TooLong, end: MAX_BLOCK }
                };
            };
            let line = &bytes[self.read..self.read + end + 1];
            let empty_block = self.read == 0;
            self.read += line.len();
            let text = line.trim_ascii_end();
            if text.is_empty() {
                return match self.length {
                    Some(length) => Step::End { length, block: self.read },
                    None if empty_block => Step::Blank,
                    None => Step::Broken { fault: Fault::NoLength, end: self.read },
                };
            }
            if let Err(fault) = self.header(text) {
                let glued = if fault == Fault::NoHeader { glued_length(line) } else { 0 };
                return Step::Broken { fault, end: self.read - glued };
            }
        }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Fault> {
        let colon = memchr::memchr(b':', line).ok_or(Fault::NoHeader)?;
        let name = &line[..colon];
        if name.is_empty() || !name.iter().copied().all(is_name_byte) {
            return Err(Fault::NoHeader);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = digits(line[colon + 1..].trim_ascii());
            let length = length.filter(|length| *length <= MAX_LENGTH).ok_or(Fault::BadLength)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Fault::TwoLengths);
            }
        }
        Ok(())
    }
}

/// How many bytes at the end of `line` are a whole `Content-Length: <digits>` line of their own.
fn glued_length(line: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let tail = &line[line.len().saturating_sub(GLUED)..];
    let start = tail.windows(NAME.len()).rposition(|window| window.eq_ignore_ascii_case(NAME));
    match start.map(|start| &tail[start..]) {
        Some(header) if digits(header[NAME.len()..].trim_ascii()).is_some() => header.len(),
        _ => 0,
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// The token characters of HTTP.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn take<'i>(input: &mut &'i [u8], most: usize) -> &'i [u8] {
    let (part, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    part
}

/// The input up to the end of its line, at most `most` bytes; `None` if it is used up.
fn take_line<'i>(input: &mut &'i [u8], most: usize) -> Option<&'i [u8]> {
    if input.is_empty() {
        return None;
    }
    let line = memchr::memchr(b'\n', input).map_or(input.len(), |end| end + 1);
    Some(take(input, line.min(most)))
}
