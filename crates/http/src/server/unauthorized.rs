//! The server behind wants to know who asks, or refuses its client.

use http::{HeaderName, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, frame::ResponseBody, json};

use super::door::refusal::Refusal;

/// The server's refusal in place of an answer: it wants to know who asks, or does not admit them.
#[derive(Debug)]
pub(crate) struct Unauthorized {
    pub(crate) status: StatusCode,
    challenge: Option<HeaderValue>,
}

impl Unauthorized {
    /// Reads it from the error that stands for it (`Failure::answer` of the client's side).
    pub(crate) fn read(body: &ResponseBody<'_>) -> Option<Self> {
        let ResponseBody::Error(error) = body else { return None };
        if body.error_code() != Some(i64::from(error_code::UPSTREAM_GONE)) {
            return None;
        }
        let data = json::member(error, "data")?;
        let status = json::member(data, "httpStatus").and_then(json::integer)?;
        let status = StatusCode::from_u16(status.try_into().ok()?).ok()?;
        let challenge = json::member(data, "wwwAuthenticate").and_then(json::text);
        let challenge = challenge.and_then(|challenge| HeaderValue::from_str(&challenge).ok());
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
