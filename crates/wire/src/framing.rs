//! Framing as pure codecs: bytes in, messages out, with limits.
//!
//! The rule to know first: a frame that lies whole inside the input is handed
//! out where it lies; only a frame that the input cuts is copied, once, and its
//! bytes are searched once. How a stream is cut never changes what comes out.

mod buffer;
mod headers;
mod line;
mod mark;
mod overlong;

use core::{mem, ops::Range};

pub use headers::{Fault, MAX_BLOCK, MAX_LENGTH, write_header};
pub use mark::without_mark;
pub use overlong::{Overlong, learn};

use buffer::Buffer;
use headers::Headers;
use line::Line;
use mark::{MARK, is_blank};
pub(crate) use overlong::NAMES;

/// How messages are told apart on a stream.
///
/// It never grows: the protocols of this workspace frame by lines or by headers, and a decoder knows both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One message a line (MCP, ACP).
    Line,
    /// `Content-Length` header blocks (LSP).
    Headers,
}

impl Framing {
    /// Appends `body` framed; for lines, raw line breaks in it (white space between tokens) become spaces.
    pub fn write(self, out: &mut Vec<u8>, body: &[u8]) {
        match self {
            Self::Line => {
                let start = out.len();
                out.extend_from_slice(body);
                out.push(b'\n');
                join_lines(&mut out[start..]);
            }
            Self::Headers => {
                write_header(out, body.len());
                out.extend_from_slice(body);
            }
        }
    }
}

/// Replaces line breaks inside a framed line by spaces: between the tokens of a payload they would end it.
pub fn join_lines(line: &mut [u8]) {
    let Some((_end, mut body)) = line.split_last_mut() else { return };
    while let Some(at) = memchr::memchr2(b'\n', b'\r', body) {
        body[at] = b' ';
        body = &mut body[at + 1..];
    }
}

/// What a decoder found.
///
/// It never grows: a reader that left one out would lose bytes without a word.
#[derive(Debug)]
pub enum Chunk<'a> {
    /// A message, not yet parsed.
    Frame(Framed<'a>),
    /// A message longer than the limit has ended; its bytes are gone.
    Overlong(Overlong),
    /// Bytes that belong to no message; decoding goes on behind them ([`Fault`]).
    Broken(Broken<'a>),
}

/// A message with its framing.
#[derive(Debug)]
pub struct Framed<'a> {
    bytes: Bytes<'a>,
    body: Range<usize>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Input(&'a [u8]),
    Buffer(&'a mut Vec<u8>),
}

impl Framed<'_> {
    /// Everything, framing bytes included: what to pass on untouched.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Input(bytes) => bytes,
            Bytes::Buffer(bytes) => bytes,
        }
    }

    /// The message alone.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.raw()[self.body.clone()]
    }

    /// [`Framed::raw`] as a vector of one's own; no copy if the decoder had to gather the message anyway.
    #[must_use]
    pub fn into_raw(self) -> Vec<u8> {
        match self.bytes {
            Bytes::Input(bytes) => bytes.to_vec(),
            Bytes::Buffer(bytes) => mem::take(bytes),
        }
    }
}

/// Bytes that belong to no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken<'a> {
    /// What is wrong with them.
    pub fault: Fault,
    /// The bytes, at most [`MAX_BLOCK`] of them.
    pub raw: &'a [u8],
}

/// What the end of input left unfinished.
///
/// It never grows: a reader that left one out would lose the end of an input without a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A last line without its line break: whole or cut, only its parse can tell.
    Line(Vec<u8>),
    /// A header block or a body that was cut; or bytes passed over while looking for a header block.
    Half(Vec<u8>),
    /// An over-long message: whole if it was a line, else cut.
    Overlong(Overlong),
}

/// Takes a stream of bytes apart into messages.
///
/// Memory: at most `max_message` bytes and a header block, in one buffer that
/// grows by doubling and is given back after a large message.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The start of a message that has not ended. While the framing is not known: the bytes that may yet become
    /// `content-`, a byte order mark before them included and white space dropped.
    buffer: Buffer,
    codec: Codec,
}

#[derive(Debug, Clone)]
enum Codec {
    Unknown,
    Line(Line),
    Headers(Headers),
}

/// What the first bytes of a header block must be when the framing is to be detected.
const FIRST_HEADER: &[u8] = b"content-";

/// The same behind a byte order mark.
const MARKED_HEADER: &[u8] = b"\xEF\xBB\xBFcontent-";

impl Decoder {
    /// A decoder for one direction of a link; with no framing it finds out from the first bytes.
    ///
    /// Detection: after white space and a byte order mark, `Content-` in any case means headers, anything else lines.
    /// `max_message` counts the bytes of a message without its framing, but with the `\r` of a `\r\n`.
    #[must_use]
    pub fn new(framing: Option<Framing>, max_message: usize) -> Self {
        Self { buffer: Buffer::new(max_message), codec: framing.map_or(Codec::Unknown, Codec::of) }
    }

    /// The framing, once known.
    #[must_use]
    pub const fn framing(&self) -> Option<Framing> {
        match &self.codec {
            Codec::Unknown => None,
            Codec::Line(_) => Some(Framing::Line),
            Codec::Headers(_) => Some(Framing::Headers),
        }
    }

    /// Bytes held for a message that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.held().len()
    }

    /// Bytes of memory held, capacities included.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether the next byte begins a message.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        let is_at_start = match &self.codec {
            Codec::Unknown => true,
            Codec::Line(line) => line.overlong.is_none(),
            Codec::Headers(headers) => matches!(headers, Headers::Block(_)),
        };
        is_at_start && self.buffered() == 0
    }

    /// The next chunk of `input`, which loses the bytes that were used; `None` when all of it is.
    ///
    /// Call until `None`. Dropping a chunk loses nothing else.
    pub fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        self.detect(input);
        self.buffer.recycle();
        match &mut self.codec {
            Codec::Unknown => None,
            Codec::Line(line) => line.decode(&mut self.buffer, input),
            Codec::Headers(headers) => headers.decode(&mut self.buffer, input),
        }
    }

    /// Gives back the memory that is kept for more, if no message has begun.
    pub fn shrink(&mut self) {
        self.buffer.shrink();
    }

    /// What the end of input leaves unfinished; the decoder is then as new, its framing kept.
    pub fn finish(&mut self) -> Option<Leftover> {
        self.buffer.recycle();
        let held = self.buffer.take();
        match &mut self.codec {
            Codec::Unknown => (!is_blank(&held)).then_some(Leftover::Line(held)),
            Codec::Line(line) => line.finish(held),
            Codec::Headers(headers) => headers.finish(held),
        }
    }

    /// Takes as much of `input` as tells the framing; `None` if it was known already, or is not yet.
    #[inline]
    pub fn detect(&mut self, input: &mut &[u8]) -> Option<Framing> {
        if let Codec::Unknown = &self.codec { self.detect_first(input) } else { None }
    }

    #[cold]
    fn detect_first(&mut self, input: &mut &[u8]) -> Option<Framing> {
        if self.buffered() == 0 {
            *input = input.trim_ascii_start();
        }
        let first = self.buffer.held().first().or_else(|| input.first());
        let header = if first == MARK.first() { MARKED_HEADER } else { FIRST_HEADER };
        let wanted = &header[self.buffered()..];
        let seen = wanted.iter().zip(*input).take_while(|(wanted, byte)| byte.eq_ignore_ascii_case(wanted)).count();
        let framing = if seen == wanted.len() {
            Framing::Headers
        } else if seen == input.len() {
            self.buffer.append(mem::take(input));
            return None;
        } else {
            Framing::Line
        };
        self.codec = Codec::of(framing);
        Some(framing)
    }
}

impl Codec {
    fn of(framing: Framing) -> Self {
        match framing {
            Framing::Line => Self::Line(Line::default()),
            Framing::Headers => Self::Headers(Headers::START),
        }
    }
}
