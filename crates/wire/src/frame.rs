//! The envelope of a message, in one pass.
//!
//! The rule to know first: `params`, `result` and `error` stay the bytes that
//! came in. What decides where a message goes (its ids, its method, the few
//! members of `params` that cancellation looks at) is read in the same pass
//! that finds where those bytes end. An envelope that two parsers could read
//! differently, through a repeated or an escaped member, is refused (D6).

mod envelope;
mod mend;
mod noise;
mod params;
mod spoilt;

use std::{borrow::Cow, ops::Range};

use crate::{
    framing,
    id::RequestId,
    json::{self, Cursor, NotJson},
    kind::MessageKind,
};

use envelope::Envelope;
pub use mend::{Mend, mend};
pub use noise::{Piece, apart, holds_message};
pub use params::Params;
pub use spoilt::{Named, name};

/// One message, or one batch of them.
///
/// It never grows: JSON-RPC has requests, notifications, responses and batches of them.
#[derive(Debug)]
pub enum Frame<'a> {
    /// Has a `method` and an `id`, `null` included: whether null ids are lawful is the dialect's to say.
    Request(Request<'a>),
    /// Has a `method` and no `id`.
    Notification(Notification<'a>),
    /// Has a `result` or an `error` and no `method`.
    Response(Response<'a>),
    /// An array of at least one element (MCP-B01).
    Batch(Batch<'a>),
}

/// A request as received.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: RequestId,
    /// Where the id's text stands in the body, for [`splice`].
    pub id_span: Range<usize>,
    /// Its method, unescaped.
    pub method: Cow<'a, str>,
    /// Its params, raw.
    pub params: Params<'a>,
}

/// A notification as received.
#[derive(Debug)]
pub struct Notification<'a> {
    /// Its method, unescaped.
    pub method: Cow<'a, str>,
    /// Its params, raw.
    pub params: Params<'a>,
}

/// A response as received.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id it answers; `None` if it has no `id` member.
    pub id: Option<ResponseId>,
    /// Where the id's text stands in the body, for [`splice`]; empty if there is none.
    pub id_span: Range<usize>,
    /// What it says.
    pub body: ResponseBody<'a>,
}

/// The id in a response.
///
/// It never grows: a response names a request, or null, or has no id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseId {
    /// An id, possibly null.
    Exact(RequestId),
    /// `5.0`, which a careless peer makes of 5: never an id of its own, only a loose match (D10).
    Loose(i64),
}

impl ResponseId {
    /// The id, if it is one.
    #[must_use]
    pub const fn as_exact(&self) -> Option<&RequestId> {
        match self {
            Self::Exact(id) => Some(id),
            Self::Loose(_) => None,
        }
    }
}

/// The half of a response that counts.
///
/// It never grows: JSON-RPC has a result or an error in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseBody<'a> {
    /// The raw `result`.
    Result(&'a [u8]),
    /// The raw `error`, which is not null.
    Error(&'a [u8]),
}

impl ResponseBody<'_> {
    /// The code of an error, if it is an integer.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        match self {
            Self::Error(error) => json::member(error, "code").and_then(json::integer),
            Self::Result(_) => None,
        }
    }

    /// Whether it is a result, or an error that clients can read: with an integer as its code and a string as its message.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match self {
            Self::Result(_) => true,
            Self::Error(error) => {
                self.error_code().is_some() && json::member(error, "message").is_some_and(json::is_string)
            }
        }
    }
}

/// A batch as received: an array whose brackets match; its elements are not looked into yet.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    raw: &'a [u8],
    len: usize,
}

impl<'a> Batch<'a> {
    /// How many elements it has: at least one.
    #[expect(clippy::len_without_is_empty, reason = "an empty batch is no frame")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether any member is a message, or at least names the request that it is or answers.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.members().any(|member| match parse_member(member) {
            Ok(_) => true,
            Err(Malformed::Invalid { id, .. }) => id.is_some(),
            Err(Malformed::NotJson) => framing::learn(member).id.is_some() || mend(member, usize::MAX) != Mend::No,
        })
    }

    /// The raw elements in their order, each for [`parse_member`].
    pub fn members(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        json::elements(self.raw).into_iter().flatten().map_while(Result::ok)
    }
}

/// Why a body is no frame.
///
/// It never grows: JSON-RPC has an error for what is no JSON and one for what is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON, or not UTF-8: -32700.
    NotJson,
    /// JSON, but no message: -32600 if it stands where a request could.
    Invalid {
        /// What is wrong with it.
        reason: Reason,
        /// What it seems to be: something that looks like a response must not be answered.
        kind: MessageKind,
        /// Its id, if there is one and only one, plainly written.
        id: Option<RequestId>,
    },
}

/// What makes JSON no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A string, number, boolean or null.
    NoObject,
    /// `[]`.
    EmptyBatch,
    /// An array inside a batch.
    NestedBatch,
    /// An envelope member occurs twice: one parser's id is another's decoy (D6).
    RepeatedMember,
    /// The key of an envelope member is written with escapes (D6).
    EscapedMember,
    /// The id is no string, integer or null.
    BadId,
    /// The method is no string, or one that UTF-8 cannot hold.
    BadMethod,
    /// A `method` beside a `result` or an `error`.
    MixedKinds,
    /// A `result` beside an `error`, neither of them null.
    TwoOutcomes,
    /// No `method`, no `result`, no `error`.
    NoKind,
    /// An error without an integer as its code or a string as its message. [`parse`] takes it: only who passes answers on
    /// has to ask.
    BadError,
}

impl Reason {
    /// A few words for an error message or a log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoObject => "not an object",
            Self::EmptyBatch => "empty batch",
            Self::NestedBatch => "batch inside a batch",
            Self::RepeatedMember => "a member such as id or method is given twice",
            Self::EscapedMember => "the name of a member such as id or method is written with escapes",
            Self::BadId => "id is neither a string nor an integer",
            Self::BadMethod => "method is not a string",
            Self::MixedKinds => "both request and response",
            Self::TwoOutcomes => "both result and error",
            Self::NoKind => "neither request nor response",
            Self::BadError => "an error without an integer as its code or a string as its message",
        }
    }
}

impl From<NotJson> for Malformed {
    fn from(_: NotJson) -> Self {
        Self::NotJson
    }
}

/// Reads one body: a message or a batch, white space around it allowed.
///
/// All of the body must be JSON and UTF-8 (D43). The members of a batch are checked one by one, since one of them may be
/// [mended](mend()). Not checked: whether two keys inside a payload are the same, whether surrogates make pairs, and how
/// large a number is.
///
/// # Errors
///
/// [`Malformed`], which tells what is not JSON from what is no message.
pub fn parse(body: &[u8]) -> Result<Frame<'_>, Malformed> {
    read(body, false)
}

/// Reads one element of a batch: as [`parse`], but an array is malformed. Spans count from its own start.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_member(raw: &[u8]) -> Result<Frame<'_>, Malformed> {
    read(raw, true)
}

/// Appends `body` with the bytes of one span replaced by `id` (D33).
pub fn splice(body: &[u8], span: Range<usize>, id: &RequestId, out: &mut Vec<u8>) {
    out.reserve(body.len() + 24);
    out.extend_from_slice(&body[..span.start]);
    id.write(out);
    out.extend_from_slice(&body[span.end..]);
}

/// Appends `body`, with the bytes of one span replaced by an id if there is one to replace.
pub fn splice_or_copy(body: &[u8], splice_in: Option<(Range<usize>, RequestId)>, out: &mut Vec<u8>) {
    match splice_in {
        Some((span, id)) => splice(body, span, &id, out),
        None => out.extend_from_slice(body),
    }
}

/// Where `part`, a slice of `body`, stands in it.
///
/// `None` if it is no part of `body`.
#[must_use]
pub fn span_of(body: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= body.len()).then_some(start..end)
}

fn read(body: &[u8], is_member: bool) -> Result<Frame<'_>, Malformed> {
    let mut cursor = Cursor::new(body);
    cursor.skip_space();
    let first = cursor.peek();
    match first {
        Some(b'{') => Envelope::read(&mut cursor, utf8(body).ok_or(Malformed::NotJson)?),
        Some(b'[') if !is_member => parse_batch(cursor),
        _ => {
            cursor.value()?;
            cursor.finish()?;
            Err(match first {
                Some(b'[') => invalid(Reason::NestedBatch, MessageKind::Batch),
                _ => invalid(Reason::NoObject, MessageKind::Unknown),
            })
        }
    }
}

/// The start of `body` as text, if all of it is UTF-8.
fn utf8(body: &[u8]) -> Option<&str> {
    // The last block reaches back over bytes that have been looked at: what is shorter than a block is slow to check.
    let whole = body.len() / 64 * 64;
    let text = simdutf8::basic::from_utf8(&body[..whole]).ok();
    let is_end_text = body.last_chunk::<64>().is_some_and(|end| simdutf8::basic::from_utf8(end).is_ok());
    text.filter(|_| is_end_text).or_else(|| simdutf8::basic::from_utf8(body).ok())
}

fn parse_batch(mut cursor: Cursor<'_>) -> Result<Frame<'_>, Malformed> {
    cursor.enter();
    let mut len = 0;
    while cursor.next_element(len == 0)? {
        cursor.value()?;
        len += 1;
    }
    cursor.finish()?;
    if len == 0 {
        return Err(invalid(Reason::EmptyBatch, MessageKind::Batch));
    }
    Ok(Frame::Batch(Batch { raw: cursor.bytes(), len }))
}

fn invalid(reason: Reason, kind: MessageKind) -> Malformed {
    Malformed::Invalid { reason, kind, id: None }
}
