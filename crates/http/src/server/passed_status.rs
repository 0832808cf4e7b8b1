//! The status with which the server behind refused a request, where its client should see it.

use http::{HeaderName, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, frame::ResponseBody, json};

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
        let ResponseBody::Error(error) = body else { return None };
        if body.error_code() != Some(i64::from(error_code::UPSTREAM_GONE)) {
            return None;
        }
        Self::of_note(json::member(error, "data")?)
    }

    /// Reads it from an object that notes it.
    pub(crate) fn of_note(note: &[u8]) -> Option<Self> {
        let status = json::member(note, "httpStatus").and_then(json::integer)?;
        let status = StatusCode::from_u16(status.try_into().ok()?).ok()?;
        let retry_after = json::member(note, "retryAfter").and_then(json::text);
        let retry_after = retry_after.and_then(|text| HeaderValue::from_str(&text).ok());
        status_note::passes(status).then_some(Self { status, retry_after })
    }

    pub(crate) fn header(self) -> Option<(HeaderName, HeaderValue)> {
        self.retry_after.map(|retry_after| (header::RETRY_AFTER, retry_after))
    }
}
