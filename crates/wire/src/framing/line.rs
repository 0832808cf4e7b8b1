//! One message a line.
//!
//! `\n` ends a line, a `\r` before it belongs to the line end. Lines without a
//! byte other than white space and a byte order mark are no messages and are
//! dropped.

use core::{mem, ops::Range};

use super::{
    Bytes, Chunk, Framed, Leftover, Overlong,
    buffer::Buffer,
    mark::{MARK, is_blank},
    overlong::OverlongScan,
};

/// A line that has not ended.
#[derive(Debug, Default, Clone)]
pub(super) struct Line {
    /// In place of the buffer, once the line is too long.
    pub(super) overlong: Option<Box<OverlongScan>>,
}

impl Line {
    #[inline(always)]
    pub(super) fn decode<'d, 'i: 'd>(&mut self, buffer: &'d mut Buffer, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        loop {
            let Some(end) = memchr::memchr(b'\n', input) else {
                self.keep(buffer, mem::take(input));
                return None;
            };
            let (line, rest) = input.split_at(end + 1);
            *input = rest;
            let buffered = buffer.held().len();
            if self.overlong.is_some() || buffered + end > buffer.max_message {
                return Some(Chunk::Overlong(self.end_overlong(buffer, &line[..end])));
            }
            if buffered == 0 {
                if let Some(body) = body_of(line) {
                    return Some(Chunk::Frame(Framed { bytes: Bytes::Input(line), body }));
                }
                continue;
            }
            buffer.append(line);
            if let Some(body) = body_of(buffer.held()) {
                return Some(Chunk::Frame(Framed { bytes: Bytes::Buffer(buffer.give_all()), body }));
            }
            buffer.clear();
        }
    }

    pub(super) fn finish(&mut self, line: Vec<u8>) -> Option<Leftover> {
        match self.overlong.take() {
            Some(scan) => Some(Leftover::Overlong(scan.finish())),
            None => body_of(&line).is_some().then_some(Leftover::Line(line)),
        }
    }

    fn keep(&mut self, buffer: &mut Buffer, part: &[u8]) {
        if self.overlong.is_none() && buffer.held().len() + part.len() > buffer.max_message {
            self.overlong.get_or_insert_default().feed(&buffer.take());
        }
        match &mut self.overlong {
            Some(scan) => scan.feed(part),
            None => buffer.append(part),
        }
    }

    fn end_overlong(&mut self, buffer: &mut Buffer, rest: &[u8]) -> Overlong {
        let mut scan = self.overlong.take().unwrap_or_default();
        scan.feed(&buffer.take());
        scan.feed(rest);
        scan.finish()
    }
}

/// The line without its end; `None` if it is blank.
fn body_of(line: &[u8]) -> Option<Range<usize>> {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    let body = body.strip_suffix(b"\r").unwrap_or(body);
    // A message starts with a bracket: only a line that does not is looked at in full.
    if body.first().is_none_or(|first| first.is_ascii_whitespace() || *first == MARK[0]) && is_blank(body) {
        return None;
    }
    Some(0..body.len())
}
