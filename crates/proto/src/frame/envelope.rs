//! The members of the envelope, and what they make together.

use core::ops::Range;

use crate::{
    id::{RequestId, loose_integer},
    json::{self, Cursor, NotJson},
};

use super::{Frame, Kind, Malformed, Notification, Outcome, Params, Reason, Request, Response, ResponseId};

/// What one walk over an object found.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    id: Option<Range<usize>>,
    method: Option<&'a [u8]>,
    params: Option<Params<'a>>,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    has_version: bool,
    /// The id stands there twice, or behind an escaped key.
    id_unsure: bool,
    fault: Option<Reason>,
}

enum Name {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Name {
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
}

impl<'a> Envelope<'a> {
    /// Walks the object at the cursor, which must be the last thing in the text.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, NotJson> {
        let mut envelope = Self::default();
        cursor.enter();
        let mut first = true;
        while let Some(key) = cursor.next_key(first)? {
            first = false;
            envelope.member(cursor, key)?;
        }
        cursor.finish()?;
        Ok(envelope)
    }

    fn member(&mut self, cursor: &mut Cursor<'a>, key: Range<usize>) -> Result<(), NotJson> {
        let bytes = cursor.bytes();
        let plain = &bytes[key.start + 1..key.end - 1];
        let Some(name) = Name::of(plain) else {
            cursor.value()?;
            if plain.contains(&b'\\') {
                let unescaped = json::unescape(&bytes[key]).ok_or(NotJson)?;
                if let Some(name) = Name::of(&unescaped) {
                    self.id_unsure |= matches!(name, Name::Id);
                    self.fault.get_or_insert(Reason::EscapedMember);
                }
            }
            return Ok(());
        };
        let repeated = match name {
            Name::Version => {
                cursor.value()?;
                core::mem::replace(&mut self.has_version, true)
            }
            Name::Id => {
                let repeated = self.id.replace(cursor.value()?).is_some();
                self.id_unsure |= repeated;
                repeated
            }
            Name::Method => self.method.replace(&bytes[cursor.value()?]).is_some(),
            Name::Params => self.params.replace(Params::read(cursor)?).is_some(),
            Name::Result => self.result.replace(&bytes[cursor.value()?]).is_some(),
            Name::Error => self.error.replace(&bytes[cursor.value()?]).is_some(),
        };
        if repeated {
            self.fault.get_or_insert(Reason::RepeatedMember);
        }
        Ok(())
    }

    /// What the members make together.
    pub(super) fn into_frame(self, body: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        // Serialisers that write every field write null for those that are absent.
        let result_counts = self.result.is_some_and(|result| result != b"null");
        let error = self.error.filter(|error| *error != b"null");
        let outcome = match (self.result, error) {
            (Some(_), Some(_)) if result_counts => Err(Reason::TwoOutcomes),
            (_, Some(error)) => Ok(Outcome::Error(error)),
            (Some(result), None) => Ok(Outcome::Result(result)),
            (None, None) => Err(Reason::NoKind),
        };
        let method = self.method.filter(|method| *method != b"null" || outcome == Err(Reason::NoKind));
        let kind = match (method, self.result.or(error)) {
            (Some(_), _) if self.id.is_some() || self.id_unsure => Kind::Request,
            (Some(_), _) => Kind::Notification,
            (None, Some(_)) => Kind::Response,
            (None, None) => Kind::Unknown,
        };
        let id = self.id.clone().map(|span| read_id(&body[span]));
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
                (Ok(outcome), None) => Ok(Frame::Response(Response { id: None, id_span: 0..0, outcome })),
                (Ok(outcome), Some(id)) => {
                    Ok(Frame::Response(Response { id, id_span: self.id.unwrap_or_default(), outcome }))
                }
            };
        };
        if result_counts || error.is_some() {
            return fail(Reason::MixedKinds, id);
        }
        let Some(method) = json::text(method) else { return fail(Reason::BadMethod, id) };
        let params = self.params.unwrap_or_default();
        match id {
            None => Ok(Frame::Notification(Notification { method, params })),
            Some(Some(ResponseId::Exact(id))) => {
                Ok(Frame::Request(Request { id, id_span: self.id.unwrap_or_default(), method, params }))
            }
            Some(_) => fail(Reason::BadId, None),
        }
    }
}

fn read_id(text: &[u8]) -> Option<ResponseId> {
    if let Some(value) = json::small_integer(text) {
        return Some(ResponseId::Exact(RequestId::integer(value)));
    }
    if let Some(id) = RequestId::from_json(text) {
        return Some(ResponseId::Exact(id));
    }
    if text.first() == Some(&b'"') {
        return None;
    }
    loose_integer(core::str::from_utf8(text).ok()?).map(ResponseId::Loose)
}
