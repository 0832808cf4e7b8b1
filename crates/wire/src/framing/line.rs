//! One message a line.
//!
//! `\n` ends a line, a `\r` before it belongs to the line end. Lines without a
//! byte other than white space are no messages and are dropped.

use core::{mem, ops::Range};

use super::{Bytes, Chunk, Framed, Leftover, Overlong, buffer::Buffer, overlong::OverlongScan};

#[derive(Debug, Clone)]
pub(super) struct Line {
    max_message: usize,
    /// The start of a line that has not ended.
    buffer: Buffer,
    /// In place of the buffer, once the line is too long.
    overlong: Option<Box<OverlongScan>>,
}

impl Line {
    pub(super) fn new(max_message: usize) -> Self {
        Self { max_message, buffer: Buffer::default(), overlong: None }
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
        self.overlong.is_none() && self.buffered() == 0
    }

    #[inline(always)]
    pub(super) fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        self.buffer.recycle();
        loop {
            let Some(end) = memchr::memchr(b'\n', input) else {
                self.keep(mem::take(input));
                return None;
            };
            let (line, rest) = input.split_at(end + 1);
            *input = rest;
            let buffered = self.buffered();
            if self.overlong.is_some() || buffered + end > self.max_message {
                return Some(Chunk::Overlong(self.end_overlong(&line[..end])));
            }
            if buffered == 0 {
                if let Some(body) = body_of(line) {
                    return Some(Chunk::Frame(Framed { bytes: Bytes::Input(line), body }));
                }
                continue;
            }
            self.buffer.append(line);
            if let Some(body) = body_of(self.buffer.held()) {
                return Some(Chunk::Frame(Framed { bytes: Bytes::Buffer(self.buffer.give_all()), body }));
            }
            self.buffer.clear();
        }
    }

    pub(super) fn finish(&mut self) -> Option<Leftover> {
        self.buffer.recycle();
        if self.overlong.is_some() {
            return Some(Leftover::Overlong(self.end_overlong(&[])));
        }
        let line = self.buffer.take();
        body_of(&line).is_some().then_some(Leftover::Line(line))
    }

    fn keep(&mut self, part: &[u8]) {
        if self.overlong.is_none() && self.buffered() + part.len() > self.max_message {
            let mut scan = Box::<OverlongScan>::default();
            scan.feed(&self.buffer.take());
            self.overlong = Some(scan);
        }
        match &mut self.overlong {
            Some(scan) => scan.feed(part),
            None => self.buffer.append(part),
        }
    }

    fn end_overlong(&mut self, rest: &[u8]) -> Overlong {
        let mut scan = self.overlong.take().unwrap_or_default();
        scan.feed(&self.buffer.take());
        scan.feed(rest);
        scan.finish()
    }
}

/// The line without its end; `None` if it is blank.
fn body_of(line: &[u8]) -> Option<Range<usize>> {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    let body = body.strip_suffix(b"\r").unwrap_or(body);
    // A message starts with a bracket: only a line that does not is looked at in full.
    if body.first().is_none_or(u8::is_ascii_whitespace) && body.trim_ascii_start().is_empty() {
        return None;
    }
    Some(0..body.len())
}
