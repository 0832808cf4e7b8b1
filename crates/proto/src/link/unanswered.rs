//! Requests that their transport ends itself, since the peer gives no answer to them.

use core::fmt;

use super::Rejected;

/// Why a transport ends a request in place of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The peer's answer cannot be used.
    Unreadable(Rejected),
    /// There is none.
    Failed(Box<TransportError>),
}

/// The end of a request without an answer, on a transport that knows more of it than that its connection ended: HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportError {
    /// The part at fault.
    pub fault: Fault,
    /// The status of the HTTP response, if there was one.
    pub status: Option<u16>,
    /// Whether the peer may have carried out the request, wholly or in part. `false`: it certainly did not.
    pub may_have_run: bool,
    /// A description for people. It may quote the peer: untrusted.
    pub text: Box<str>,
    /// What the server wants to know of its caller (`WWW-Authenticate`), as it wrote it. Only if authorization is at fault.
    pub challenge: Option<Box<str>>,
    /// When the server wants the request again (`Retry-After`), as it wrote it: seconds, or a date of HTTP.
    pub retry_after: Option<Box<str>>,
}

words! {
    /// The part at fault where a request has no answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Fault {
        /// The way to the server: no connection, one that broke, TLS.
        Transport = "transport",
        /// The server's HTTP layer, or a proxy before it: it refused the request, forgot its session, ended its response
        /// without an answer, or said something that is not one.
        Server = "server",
        /// The authorization: the server wants a token that it does not have.
        Authorization = "authorization",
        /// The caller: the request cannot be sent, or too much is in flight. Nothing was sent.
        Caller = "caller",
    }
}

impl TransportError {
    /// An error without a status.
    #[must_use]
    pub fn new(fault: Fault, may_have_run: bool, text: impl Into<Box<str>>) -> Self {
        Self { fault, status: None, may_have_run, text: text.into(), challenge: None, retry_after: None }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl core::error::Error for TransportError {}
