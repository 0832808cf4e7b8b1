//! The members of the envelope, and what they make together.

use std::{borrow::Cow, ops::Range};

use crate::{
    id::{RequestId, loose_integer},
    json::{self, Cursor, NotJson, Token},
    kind::MessageKind,
};

use super::{Frame, Malformed, Notification, Params, Reason, Request, Response, ResponseBody, ResponseId};

/// What one walk over an object found.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    id: Option<Id>,
    method: Option<Method<'a>>,
    has_params: bool,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    has_version: bool,
    /// The id stands there twice, or behind an escaped key.
    id_unsure: bool,
    fault: Option<Reason>,
}

/// Where the value of `id` stands, and what it is if it is a short integer.
struct Id {
    span: Range<usize>,
    short: Option<i64>,
}

impl Id {
    /// Reads the value at the cursor.
    #[inline(always)]
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, NotJson> {
        let start = cursor.at();
        let short = cursor.small_integer();
        if short.is_none() {
            cursor.checked_value()?;
        }
        Ok(Self { span: start..cursor.at(), short })
    }

    /// `None` if it can be no id.
    fn value(&self, body: &[u8]) -> Option<ResponseId> {
        match self.short {
            Some(value) => Some(ResponseId::Exact(RequestId::integer(value))),
            None => id_of(&body[self.span.clone()]),
        }
    }
}

/// The value of `method`, and where it stands.
struct Method<'a> {
    start: usize,
    token: Token<'a>,
}

impl<'a> Method<'a> {
    #[inline]
    fn read(&self, text: &'a str) -> Option<Cow<'a, str>> {
        let quoted = self.token.text;
        if self.token.escaped || quoted.first() != Some(&b'"') {
            return json::text(quoted);
        }
        let known = text.get(self.start + 1..self.start + quoted.len() - 1);
        known.or_else(|| core::str::from_utf8(self.token.inner()).ok()).map(Cow::Borrowed)
    }
}

enum Name {
    Version,
    Id,
    /// The version, which is 2.0, and behind it the id: as most write them.
    VersionAndId,
    Method,
    Params,
    Result,
    Error,
}

impl Name {
    #[inline]
    fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"jsonrpc" => Self::Version,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }

    /// The name that `text` starts with, quoted and with its colon, and how long that is.
    #[inline]
    fn at_start(text: &[u8]) -> Option<(Self, usize)> {
        // One comparison of known length for each letter: several bytes at once.
        match text.get(1)? {
            b'j' if text.starts_with(b"\"jsonrpc\":\"2.0\",\"id\":") => Some((Self::VersionAndId, 21)),
            b'j' => text.starts_with(b"\"jsonrpc\":").then_some((Self::Version, 10)),
            b'i' => text.starts_with(b"\"id\":").then_some((Self::Id, 5)),
            b'm' => text.starts_with(b"\"method\":").then_some((Self::Method, 9)),
            b'p' => text.starts_with(b"\"params\":").then_some((Self::Params, 9)),
            b'r' => text.starts_with(b"\"result\":").then_some((Self::Result, 9)),
            b'e' => text.starts_with(b"\"error\":").then_some((Self::Error, 8)),
            _ => None,
        }
    }
}

impl<'a> Envelope<'a> {
    /// Reads the object at the cursor, which must be the last thing in the text.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'a>, text: &'a str) -> Result<Frame<'a>, Malformed> {
        let mut envelope = Self::default();
        // Apart, and written in place: they are large to move.
        let mut params = Params::default();
        cursor.enter();
        let mut first = true;
        loop {
            if let Some(name) = cursor.next_key_of(first, Name::at_start) {
                envelope.member(cursor, Some(name), &mut params)?;
            } else if let Some(key) = cursor.next_key(first)? {
                let name = if key.escaped { envelope.escaped_name(&key)? } else { Name::of(key.inner()) };
                envelope.member(cursor, name, &mut params)?;
            } else {
                break;
            }
            first = false;
        }
        cursor.finish()?;
        envelope.frame(cursor.bytes(), text, &mut params)
    }

    #[inline(always)]
    fn member(&mut self, cursor: &mut Cursor<'a>, name: Option<Name>, params: &mut Params<'a>) -> Result<(), NotJson> {
        let repeated = match name {
            None => cursor.checked_value().map(|_| false)?,
            Some(Name::Version) => {
                if !cursor.skip(br#""2.0""#) {
                    cursor.checked_value()?;
                }
                core::mem::replace(&mut self.has_version, true)
            }
            Some(name @ (Name::Id | Name::VersionAndId)) => {
                let repeated = self.id.replace(Id::read(cursor)?).is_some();
                self.id_unsure |= repeated;
                repeated | (matches!(name, Name::VersionAndId) && core::mem::replace(&mut self.has_version, true))
            }
            Some(Name::Method) => {
                let start = cursor.at();
                self.method.replace(Method { start, token: cursor.checked_value()? }).is_some()
            }
            Some(Name::Params) if self.has_params => cursor.checked_value().map(|_| true)?,
            Some(Name::Params) => {
                self.has_params = true;
                params.read(cursor)?;
                false
            }
            Some(Name::Result) => self.result.replace(cursor.checked_value()?.text).is_some(),
            Some(Name::Error) => self.error.replace(cursor.checked_value()?.text).is_some(),
        };
        if repeated {
            self.fault.get_or_insert(Reason::RepeatedMember);
        }
        Ok(())
    }

    /// A key with escapes: never a member of the envelope, and a fault if it reads like one.
    #[cold]
    fn escaped_name(&mut self, key: &Token<'a>) -> Result<Option<Name>, NotJson> {
        let unescaped = json::unescape(key.text).ok_or(NotJson)?;
        if let Some(name) = Name::of(&unescaped) {
            self.id_unsure |= matches!(name, Name::Id);
            self.fault.get_or_insert(Reason::EscapedMember);
        }
        Ok(None)
    }

    /// What the members make together.
    #[inline(always)]
    fn frame(self, body: &'a [u8], text: &'a str, params: &mut Params<'a>) -> Result<Frame<'a>, Malformed> {
        // Serialisers that write every field write null for those that are absent.
        let result_counts = self.result.is_some_and(|result| result != b"null");
        let error = self.error.filter(|error| *error != b"null");
        let outcome = match (self.result, error) {
            (Some(_), Some(_)) if result_counts => Err(Reason::TwoOutcomes),
            (_, Some(error)) => Ok(ResponseBody::Error(error)),
            (Some(result), None) => Ok(ResponseBody::Result(result)),
            (None, None) => Err(Reason::NoKind),
        };
        let method = self.method.filter(|method| method.token.text != b"null" || outcome == Err(Reason::NoKind));
        let (id, id_span) = match self.id {
            Some(id) => (Some(id.value(body)), id.span),
            None => (None, 0..0),
        };
        let kind = match (&method, self.result.or(error)) {
            (Some(_), _) if id.is_some() || self.id_unsure => MessageKind::Request,
            (Some(_), _) => MessageKind::Notification,
            (None, Some(_)) => MessageKind::Response,
            (None, None) => MessageKind::Unknown,
        };
        let plain = !self.id_unsure;
        let fail = |reason, id| {
            let id = match id {
                Some(Some(ResponseId::Exact(id))) if plain => Some(id),
                _ => None,
            };
            Err(Malformed::Invalid { reason, kind, id })
        };
        if let Some(fault) = self.fault {
            return fail(fault, id);
        }
        let Some(method) = method else {
            return match (outcome, id) {
                (Err(reason), id) => fail(reason, id),
                (Ok(_), Some(None)) => fail(Reason::BadId, None),
                (Ok(body), id) => Ok(Frame::Response(Response { id: id.flatten(), id_span, body })),
            };
        };
        if result_counts || error.is_some() {
            return fail(Reason::MixedKinds, id);
        }
        let Some(method) = method.read(text) else { return fail(Reason::BadMethod, id) };
        match id {
            None => Ok(Frame::Notification(Notification { method, params: core::mem::take(params) })),
            Some(Some(ResponseId::Exact(id))) => {
                Ok(Frame::Request(Request { id, id_span, method, params: core::mem::take(params) }))
            }
            Some(_) => fail(Reason::BadId, None),
        }
    }
}

fn id_of(text: &[u8]) -> Option<ResponseId> {
    if let Some(id) = RequestId::from_json(text) {
        return Some(ResponseId::Exact(id));
    }
    if text.first() == Some(&b'"') {
        return None;
    }
    loose_integer(core::str::from_utf8(text).ok()?).map(ResponseId::Loose)
}
