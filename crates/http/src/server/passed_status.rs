//! The status with which the server behind refused a request, where its client should see it.

use http::{HeaderName, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, frame::ResponseBody, json};

use super::door::Refusal;
use crate::status_note;

/// A status of the server behind, and when it wants to be asked again.
#[derive(Debug)]
pub(crate) struct PassedStatus {
    pub(crate) status: StatusCode,
    retry_after: Option<HeaderValue>,
}

impl PassedStatus {
    /// Reads it from the error that stands for it (`Failure::answer` of the client's side).
    pub(crate) fn read(body: &ResponseBody<'_>) -> Option<Self> {
        Self::of_note(note_of(body)?)
    }

    /// Reads it from an object that notes it.
    pub(crate) fn of_note(note: &[u8]) -> Option<Self> {
        let (status, retry_after) = (status_in(note)?, header_in(note, "retryAfter"));
        status_note::passes(status).then_some(Self { status, retry_after })
    }

    pub(crate) fn header(self) -> Option<(HeaderName, HeaderValue)> {
        self.retry_after.map(|retry_after| (header::RETRY_AFTER, retry_after))
    }
}

/// The server's refusal in place of an answer: it wants to know who asks, or does not admit them.
#[derive(Debug)]
pub(crate) struct Unauthorized {
    pub(crate) status: StatusCode,
    challenge: Option<HeaderValue>,
}

impl Unauthorized {
    /// Reads it from the error that stands for it (`Failure::answer` of the client's side).
    pub(crate) fn read(body: &ResponseBody<'_>) -> Option<Self> {
        let note = note_of(body)?;
        let (status, challenge) = (status_in(note)?, header_in(note, "wwwAuthenticate"));
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN).then_some(Self { status, challenge })
    }

    /// Refuses a request that was not passed on, for the same reason.
    pub(crate) fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(self.status, error_code::UPSTREAM_GONE, "the server wants to know who asks");
        match self.header() {
            Some((name, value)) => refusal.with_header(name, value),
            None => refusal,
        }
    }

    pub(crate) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.challenge.clone().map(|challenge| (header::WWW_AUTHENTICATE, challenge))
    }
}

fn note_of<'a>(body: &ResponseBody<'a>) -> Option<&'a [u8]> {
    let ResponseBody::Error(error) = body else { return None };
    let is_upstream = body.error_code() == Some(i64::from(error_code::UPSTREAM_GONE));
    json::member(error, "data").filter(|_| is_upstream)
}

fn status_in(note: &[u8]) -> Option<StatusCode> {
    let status = json::member(note, "httpStatus").and_then(json::integer)?;
    StatusCode::from_u16(status.try_into().ok()?).ok()
}

fn header_in(note: &[u8], name: &str) -> Option<HeaderValue> {
    let text = json::member(note, name).and_then(json::text)?;
    HeaderValue::from_str(&text).ok()
}
