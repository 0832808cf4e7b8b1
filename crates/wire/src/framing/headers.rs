//! `Content-Length` header blocks, as LSP has them.
//!
//! A block is lines that end in `\r\n` (a bare `\n` is tolerated) and ends with
//! an empty line; empty lines before a block are dropped. Names are read in any
//! case; names other than `Content-Length` are passed over.
//!
//! After a line or block that cannot be understood, a new block starts behind
//! it; or inside the line that broke it, if that line ends with
//! `Content-Length: <digits>`: nothing separates a body from the header behind
//! it, so a peer that miscounted glues the two together. (A JSON string cannot
//! hold the line break, so a payload cannot fake this.)

use core::ops::Range;

use super::{Broken, Bytes, Chunk, Framed, Leftover, buffer::Buffer, overlong::OverlongScan};
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

#[derive(Debug, Clone)]
pub(super) struct Headers {
    max_message: usize,
    /// What there is of the current block and its body.
    buffer: Buffer,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
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
    pub(super) fn new(max_message: usize) -> Self {
        Self { max_message, buffer: Buffer::default(), state: State::START }
    }

    pub(super) fn buffered(&self) -> usize {
        self.buffer.held().len()
    }

    pub(super) fn held(&self) -> usize {
        self.buffer.capacity()
    }

    pub(super) fn shrink(&mut self) {
        self.buffer.shrink();
    }

    pub(super) fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Block(_)) && self.buffered() == 0
    }

    pub(super) fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        self.buffer.recycle();
        loop {
            match &mut self.state {
                State::Block(_) if self.buffer.held().is_empty() => {
                    if let Some(chunk) = self.block_in_input(input)? {
                        return Some(chunk);
                    }
                }
                State::Block(block) => match block.read_on(self.buffer.held()) {
                    Step::More => {
                        let room = MAX_BLOCK - self.buffer.held().len();
                        let part = take_line(input, room)?;
                        self.buffer.append(part);
                    }
                    Step::Blank => {
                        self.buffer.clear();
                        self.state = State::START;
                    }
                    Step::End { length, block } => {
                        self.state = State::body(length, block, self.max_message, &mut self.buffer)
                    }
                    Step::Broken { fault, end } => {
                        self.state = State::after(fault);
                        return Some(Chunk::Broken(Broken { fault, raw: self.buffer.give(end) }));
                    }
                },
                State::Body(body) => {
                    let body = body.clone();
                    let missing = body.end - self.buffer.held().len();
                    self.buffer.append(take(input, missing));
                    if self.buffer.held().len() < body.end {
                        return None;
                    }
                    self.state = State::START;
                    return Some(Chunk::Frame(Framed { bytes: Bytes::Buffer(self.buffer.give_all()), body }));
                }
                State::Overlong { left, scan } => {
                    let part = take(input, usize::try_from(*left).unwrap_or(usize::MAX));
                    scan.feed(part);
                    *left -= part.len() as u64;
                    if *left > 0 {
                        return None;
                    }
                    let overlong = core::mem::take(&mut **scan).finish();
                    self.state = State::START;
                    return Some(Chunk::Overlong(overlong));
                }
                State::Skip => self.skip(input)?,
            }
        }
    }

    pub(super) fn finish(&mut self) -> Option<Leftover> {
        self.buffer.recycle();
        let held = self.buffer.take();
        match core::mem::replace(&mut self.state, State::START) {
            State::Overlong { scan, .. } => Some(Leftover::Overlong(scan.finish())),
            State::Block(_) | State::Body(_) => (!held.trim_ascii().is_empty()).then_some(Leftover::Half(held)),
            State::Skip => None,
        }
    }

    /// Reads a block that starts with the input: without a copy, if all of it and its body are there.
    ///
    /// `None` when the input is used up, `Some(None)` when there is more to do.
    fn block_in_input<'d, 'i: 'd>(&mut self, input: &mut &'i [u8]) -> Option<Option<Chunk<'d>>> {
        let mut block = Block::default();
        let found = block.read_on(&input[..input.len().min(MAX_BLOCK)]);
        match found {
            Step::More => {
                self.buffer.append(take(input, usize::MAX));
                self.state = State::Block(block);
                return None;
            }
            Step::Blank => {
                take(input, block.read);
            }
            Step::End { length, block } => {
                let whole = usize::try_from(length).ok().and_then(|length| block.checked_add(length));
                if let Some(whole) = whole
                    && length <= self.max_message as u64
                    && whole <= input.len()
                {
                    let bytes = Bytes::Input(take(input, whole));
                    return Some(Some(Chunk::Frame(Framed { bytes, body: block..whole })));
                }
                self.buffer.append(take(input, block));
                self.state = State::body(length, block, self.max_message, &mut self.buffer);
            }
            Step::Broken { fault, end } => {
                self.state = State::after(fault);
                return Some(Some(Chunk::Broken(Broken { fault, raw: take(input, end) })));
            }
        }
        Some(None)
    }

    /// Drops the rest of a line, unless it ends with a length.
    fn skip(&mut self, input: &mut &[u8]) -> Option<()> {
        let part = take_line(input, usize::MAX)?;
        // The end of the line so far is all that counts.
        let mut tail = self.buffer.take();
        tail.extend_from_slice(&part[part.len().saturating_sub(GLUED)..]);
        let surplus = tail.len().saturating_sub(GLUED);
        if part.ends_with(b"\n") {
            self.buffer.append(&tail[tail.len() - glued_length(&tail[surplus..])..]);
            self.state = State::START;
        } else {
            self.buffer.append(&tail[surplus..]);
        }
        Some(())
    }
}

impl State {
    const START: Self = Self::Block(Block { read: 0, length: None });

    /// What follows a block of `block` bytes, which are all that the buffer holds.
    fn body(length: u64, block: usize, max_message: usize, buffer: &mut Buffer) -> Self {
        match usize::try_from(length) {
            Ok(length) if length <= max_message => {
                buffer.reserve(length.min(BELIEVED_LENGTH));
                Self::Body(block..block.saturating_add(length))
            }
            _ => {
                buffer.clear();
                Self::Overlong { left: length, scan: Box::default() }
            }
        }
    }

    fn after(fault: Fault) -> Self {
        match fault {
            Fault::TooLong => Self::Skip,
            Fault::NoHeader | Fault::NoLength | Fault::BadLength | Fault::TwoLengths => Self::START,
        }
    }
}

/// What the lines of a block have said so far.
#[derive(Debug, Default, Clone, Copy)]
struct Block {
    /// Bytes read, in whole lines.
    read: usize,
    length: Option<u64>,
}

enum Step {
    /// The next line is not whole.
    More,
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
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
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
