//! Framing as pure codecs: bytes in, messages out, with limits.
//!
//! The rule to know first: a frame that lies whole inside the input is handed
//! out where it lies; only a frame that the input cuts is copied, once, and its
//! bytes are searched once. How a stream is cut never changes what comes out.

mod buffer;
mod headers;
mod line;
mod overlong;

use core::{mem, ops::Range};

pub use headers::{Fault, MAX_BLOCK, MAX_LENGTH, write_header};
pub use overlong::{Overlong, learn};

use headers::Headers;
use line::Line;

/// How messages are told apart on a stream.
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
                for at in memchr::memchr2_iter(b'\n', b'\r', body) {
                    out[start + at] = b' ';
                }
                out.push(b'\n');
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
    let Some((_end, body)) = line.split_last_mut() else { return };
    while let Some(at) = memchr::memchr2(b'\n', b'\r', body) {
        body[at] = b' ';
    }
}

/// What a decoder found.
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

    /// Where the message stands in [`Framed::raw`].
    #[must_use]
    pub fn body_span(&self) -> Range<usize> {
        self.body.clone()
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
    codec: Codec,
    max_message: usize,
}

#[derive(Debug, Clone)]
enum Codec {
    /// The bytes that may yet become `content-`, white space before them dropped.
    Unknown(Vec<u8>),
    Line(Line),
    Headers(Headers),
}

/// What the first bytes of a header block must be when the framing is to be detected.
const FIRST_HEADER: &[u8] = b"content-";

impl Decoder {
    /// A decoder for one direction of a link; with no framing it finds out from the first bytes.
    ///
    /// Detection: after white space, `Content-` in any case means headers, anything else lines.
    /// `max_message` counts the bytes of a message without its framing, but with the `\r` of a `\r\n`.
    #[must_use]
    pub fn new(framing: Option<Framing>, max_message: usize) -> Self {
        let codec = match framing {
            None => Codec::Unknown(Vec::new()),
            Some(framing) => Codec::of(framing, max_message),
        };
        Self { codec, max_message }
    }

    /// The framing, once known.
    #[must_use]
    pub fn framing(&self) -> Option<Framing> {
        match &self.codec {
            Codec::Unknown(_) => None,
            Codec::Line(_) => Some(Framing::Line),
            Codec::Headers(_) => Some(Framing::Headers),
        }
    }

    /// Bytes held for a message that has not ended.
    #[must_use]
    pub fn buffered(&self) -> usize {
        match &self.codec {
            Codec::Unknown(held) => held.len(),
            Codec::Line(line) => line.buffered(),
            Codec::Headers(headers) => headers.buffered(),
        }
    }

    /// Bytes of memory held, capacities included.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.codec {
            Codec::Unknown(held) => held.capacity(),
            Codec::Line(line) => line.held(),
            Codec::Headers(headers) => headers.held(),
        }
    }

    /// Whether the next byte begins a message.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        match &self.codec {
            Codec::Unknown(held) => held.is_empty(),
            Codec::Line(line) => line.is_between_messages(),
            Codec::Headers(headers) => headers.is_between_messages(),
        }
    }

    /// The next chunk of `input`, which loses the bytes that were used; `None` when all of it is.
    ///
    /// Call until `None`. Dropping a chunk loses nothing else.
    pub fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Chunk<'d>> {
        self.detect(input);
        match &mut self.codec {
            Codec::Unknown(_) => None,
            Codec::Line(line) => line.decode(input),
            Codec::Headers(headers) => headers.decode(input),
        }
    }

    /// Gives back the memory that is kept for more, if no message has begun.
    pub fn shrink(&mut self) {
        match &mut self.codec {
            Codec::Unknown(_) => {}
            Codec::Line(line) => line.shrink(),
            Codec::Headers(headers) => headers.shrink(),
        }
    }

    /// What the end of input leaves unfinished; the decoder is then as new, its framing kept.
    pub fn finish(&mut self) -> Option<Leftover> {
        match &mut self.codec {
            Codec::Unknown(held) => Some(mem::take(held)).filter(|held| !held.is_empty()).map(Leftover::Line),
            Codec::Line(line) => line.finish(),
            Codec::Headers(headers) => headers.finish(),
        }
    }

    /// Takes as much of `input` as tells the framing; `None` if it was known already, or is not yet.
    #[inline]
    pub fn detect(&mut self, input: &mut &[u8]) -> Option<Framing> {
        if let Codec::Unknown(_) = &self.codec { self.detect_first(input) } else { None }
    }

    #[cold]
    fn detect_first(&mut self, input: &mut &[u8]) -> Option<Framing> {
        let Codec::Unknown(held) = &mut self.codec else { return None };
        if held.is_empty() {
            *input = input.trim_ascii_start();
        }
        let wanted = &FIRST_HEADER[held.len()..];
        let seen = wanted.iter().zip(*input).take_while(|(wanted, byte)| byte.eq_ignore_ascii_case(wanted)).count();
        let framing = if seen == wanted.len() {
            Framing::Headers
        } else if seen == input.len() {
            held.extend_from_slice(input);
            *input = &[];
            return None;
        } else {
            Framing::Line
        };
        let mut codec = Codec::of(framing, self.max_message);
        let mut held: &[u8] = held;
        match &mut codec {
            Codec::Line(line) => drop(line.decode(&mut held)),
            Codec::Headers(headers) => drop(headers.decode(&mut held)),
            Codec::Unknown(_) => {}
        }
        self.codec = codec;
        Some(framing)
    }
}

impl Codec {
    fn of(framing: Framing, max_message: usize) -> Self {
        match framing {
            Framing::Line => Self::Line(Line::new(max_message)),
            Framing::Headers => Self::Headers(Headers::new(max_message)),
        }
    }
}
