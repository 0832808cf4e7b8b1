//! The answer to an HTTP request that is not served.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use rescind_proto::{error_code, id::RequestId, message};

/// A request that is not served: its status and an error without the id of a request, or with it where it could be read.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    code: i32,
    text: Box<str>,
    id: Option<RequestId>,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: i32, text: impl Into<Box<str>>) -> Self {
        Self { status, code, text: text.into(), id: None, header: None }
    }

    /// For what can be tried again after so many seconds.
    pub(crate) fn unavailable(seconds: u64, text: impl Into<Box<str>>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, error_code::OVERLOADED, text);
        refusal.with_header(header::RETRY_AFTER, seconds.into())
    }

    /// For what there is no room now.
    pub(crate) fn overloaded(text: impl Into<Box<str>>) -> Self {
        Self::unavailable(1, text)
    }

    /// Where all but the last connections wait for their answers.
    pub(crate) fn all_are_answering() -> Self {
        Self::overloaded("too many requests wait for their answers: only cancels and answers are taken now")
    }

    /// For what is not as the protocol has it.
    pub(crate) fn invalid(text: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text)
    }

    /// Names the request that is refused.
    pub(crate) fn of(self, id: &RequestId) -> Self {
        Self { id: Some(id.clone()), ..self }
    }

    pub(crate) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// The response as it is on a connection, which is closed after it.
    pub(crate) fn last_words(&self) -> Vec<u8> {
        let body = self.body();
        let mut out = format!("HTTP/1.1 {}\r\nconnection: close\r\ncontent-type: application/json\r\n", self.status);
        if let Some((name, value)) = &self.header {
            out.extend([name.as_str(), ": ", value.to_str().unwrap_or_default(), "\r\n"]);
        }
        out.extend(["content-length: ", &body.len().to_string(), "\r\n\r\n"]);
        [out.as_bytes(), &body].concat()
    }

    pub(crate) fn body(&self) -> Bytes {
        let mut out = Vec::new();
        message::error(self.id.as_ref(), self.code, &self.text, None, &mut out);
        out.into()
    }
}
