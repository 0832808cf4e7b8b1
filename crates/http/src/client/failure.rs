//! The answer in place of a server that did not answer.

use http::StatusCode;
use rescind_proto::{
    error_code,
    id::RequestId,
    json,
    link::{Fault, Rejected, TransportError, Unanswered},
    message,
};

use super::words::Challenge;

/// The end of a request without an answer of the server, in words.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: i32,
    text: String,
    status: Option<StatusCode>,
    /// What the server wants to know of who asks.
    challenge: Option<Box<str>>,
    /// When the server wants the request to be tried again.
    retry_after: Option<Box<str>>,
    /// Whether the server may have carried out the request; `None` where that is not the question.
    may_have_run: Option<bool>,
    why: Why,
}

/// What a caller in this process can distinguish.
#[derive(Clone, Copy, Debug)]
enum Why {
    Fault(Fault),
    Unreadable(Rejected),
}

impl Failure {
    /// The request did not reach the server, or was refused.
    pub(crate) fn not_run(fault: Fault, text: impl Into<String>) -> Self {
        Self { may_have_run: Some(false), ..Self::new(error_code::UPSTREAM_GONE, Why::Fault(fault), text) }
    }

    /// It is not known what became of the request.
    pub(crate) fn unknown(fault: Fault, text: impl Into<String>) -> Self {
        Self { may_have_run: Some(true), ..Self::new(error_code::UPSTREAM_GONE, Why::Fault(fault), text) }
    }

    /// The local client may not send the request.
    pub(crate) fn of_caller(code: i32, text: impl Into<String>) -> Self {
        Self::new(code, Why::Fault(Fault::Caller), text)
    }

    /// The server has answered, and its answer cannot be passed on.
    pub(crate) fn unreadable(code: i32, why: Rejected, text: impl Into<String>) -> Self {
        Self::new(code, Why::Unreadable(why), text)
    }

    /// The server's answer is longer than may be kept.
    pub(crate) fn too_large(most: usize) -> Self {
        let text = format!("the answer is longer than the limit of {most} bytes");
        Self::unreadable(error_code::TOO_LARGE, Rejected::TooLarge, text)
    }

    fn new(code: i32, why: Why, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), status: None, challenge: None, retry_after: None, may_have_run: None, why }
    }

    /// The same, of a request that waited for what has failed.
    pub(crate) fn into_not_run(self, text: String) -> Self {
        let why = match self.why {
            Why::Unreadable(_) => Why::Fault(Fault::Server),
            fault @ Why::Fault(_) => fault,
        };
        Self { may_have_run: Some(false), code: error_code::UPSTREAM_GONE, text, why, ..self }
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    pub(crate) fn with_challenge(self, challenge: Option<&Challenge>) -> Self {
        Self { challenge: challenge.map(|challenge| challenge.whole.clone()), ..self }
    }

    pub(crate) fn with_retry_after(self, retry_after: Option<&str>) -> Self {
        Self { retry_after: retry_after.map(Into::into), ..self }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The same for a caller in this process.
    pub(crate) fn unanswered(&self) -> Unanswered {
        let fault = match self.why {
            Why::Unreadable(why) => return Unanswered::Unreadable(why),
            Why::Fault(fault) => fault,
        };
        let mut error = TransportError::new(fault, self.may_have_run.unwrap_or_default(), &*self.text);
        error.status = self.status.map(|status| status.as_u16());
        (error.challenge, error.retry_after) = (self.challenge.clone(), self.retry_after.clone());
        Unanswered::Failed(Box::new(error))
    }

    /// The error that answers a request.
    pub(crate) fn answer(&self, id: &RequestId) -> Vec<u8> {
        let mut members = Vec::new();
        members.extend(self.may_have_run.map(|truth| format!("\"mayHaveRun\":{truth}")));
        members.extend(self.status.map(|status| format!("\"httpStatus\":{}", status.as_u16())));
        let texts = [("wwwAuthenticate", &self.challenge), ("retryAfter", &self.retry_after)];
        members.extend(texts.into_iter().filter_map(|(name, text)| {
            let mut quoted = Vec::new();
            json::write_string(&mut quoted, text.as_ref()?);
            Some(format!("\"{name}\":{}", String::from_utf8_lossy(&quoted)))
        }));
        let data = format!("{{{}}}", members.join(","));
        let mut out = Vec::new();
        let data = (!members.is_empty()).then_some(data.as_bytes());
        message::error(Some(id), self.code, &self.text, data, &mut out);
        out
    }
}
