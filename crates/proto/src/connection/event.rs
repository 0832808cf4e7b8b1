//! What an endpoint tells whoever drives it: a closed list.

use core::time::Duration;

use super::{IncomingKey, OutgoingKey, TraceContext};
use crate::{
    cause::{Cause, CauseCode, sanitised},
    dialect::Dialect,
    frame::Params,
    id::{IncomingId, OutgoingId, RequestId},
    json,
    receipt::{Ending, Receipt},
    rule::Rule,
    time::Instant,
};

/// Something that happened, in the order in which it happened (D11).
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Start the handler of this request; it counts as running from now on, until
    /// [`Connection::ended`](super::Connection::ended).
    Request(Request),
    /// A notification for the handlers above; cancels and the progress of our requests are none.
    Notification(Payload),
    /// One of our requests is over, exactly once (invariant 3).
    Settled {
        /// The request.
        key: OutgoingKey,
        /// How it ended.
        how: Settlement,
    },
    /// Progress of one of our requests.
    Progress {
        /// The request.
        key: OutgoingKey,
        /// The raw params of the notification.
        params: Box<[u8]>,
    },
    /// Fire the token of this handler, and with it cancel whatever it started elsewhere (D26).
    Cancelled {
        /// The request.
        key: IncomingKey,
        /// Who asked, and why; words in it are the peer's and untrusted.
        cause: Cause,
    },
    /// The grace is over: drop the handler's future, then report [`HandlerEnd::Dropped`](super::HandlerEnd).
    Drop {
        /// The request.
        key: IncomingKey,
    },
    /// A request that is [watched](super::Connection::watch_answer) is over, exactly once.
    Delivered {
        /// The request.
        key: IncomingKey,
        /// Its answer has left as a whole; otherwise nothing of it will.
        answered: bool,
    },
    /// What came of a cancel of one of the peer's requests (D28).
    Stopped(Box<Stopped>),
    /// What is known of a cancel of one of our requests changed (D28).
    Receipt(Box<ReceiptNotice>),
    /// A cancel arrived; it was dealt with already (D31, case 8).
    Cancel(Box<CancelNotice>),
    /// Something arrived for one of our requests that is over, and was swallowed (MCP-C08).
    Late {
        /// The id or progress token that it named.
        id: RequestId,
        /// What it was.
        what: LateKind,
    },
    /// A message that went nowhere, and why.
    Refused {
        /// Why.
        why: Refusal,
        /// Its id, if it has one.
        id: Option<RequestId>,
        /// The beginning of it, at most 256 bytes.
        excerpt: Box<[u8]>,
    },
    /// The peer broke a rule of its protocol; what was done about it is in another event.
    Violation {
        /// Which rule.
        rule: Rule,
        /// The request concerned.
        id: Option<RequestId>,
    },
    /// The peer has read nothing of what it is owed for too long (D13). The driver should end the connection.
    GivenUp {
        /// Unread bytes.
        debt: usize,
    },
    /// Nothing will happen any more: the input has ended, or [`shutdown`](super::Connection::shutdown) was
    /// asked for, and every request is settled and every byte written.
    Closed,
}

/// A request whose handler is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Names it in every call and event.
    pub key: IncomingKey,
    /// Its id.
    pub id: IncomingId,
    /// Method and params.
    pub payload: Payload,
    /// What the requester speaks, for this request (D2).
    pub dialect: &'static Dialect,
    /// When the requester stops waiting (D17); the token fires then.
    pub deadline: Option<Instant>,
}

impl Request {
    /// Under which the requester wants progress, as JSON.
    #[must_use]
    pub fn progress_token(&self) -> Option<&[u8]> {
        let params = self.payload.params()?;
        match self.dialect.progress.as_ref()?.asked_at {
            // Most requests have no metadata, and need not be searched for it again.
            ["_meta", ..] if !self.payload.has_meta => None,
            path => json::lookup(params, path),
        }
    }

    /// The trace that it belongs to, where its dialect has a place for that.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        if !self.payload.has_meta || !self.dialect.meta {
            return None;
        }
        TraceContext::of(self.payload.params()?)
    }
}

/// A method and its raw params, in one allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    bytes: Box<[u8]>,
    method: u32,
    has_params: bool,
    has_meta: bool,
}

impl Payload {
    pub(crate) fn new(method: &str, params: &Params<'_>) -> Self {
        let has_meta = params.meta.is_some();
        let params = params.raw;
        let mut bytes = Vec::with_capacity(method.len() + params.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(method.as_bytes());
        bytes.extend_from_slice(params.unwrap_or_default());
        Self { bytes: bytes.into(), method: method.len() as u32, has_params: params.is_some(), has_meta }
    }

    /// Bytes that it holds.
    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.method as usize]).unwrap_or_default()
    }

    /// The raw params, if there are any.
    #[must_use]
    pub fn params(&self) -> Option<&[u8]> {
        self.has_params.then(|| &self.bytes[self.method as usize..])
    }
}

impl core::fmt::Debug for Payload {
    /// Params may hold secrets: only their length is shown.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({} bytes)", self.method(), self.bytes.len() - self.method as usize)
    }
}

/// How one of our requests ended for its caller (D19).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The peer's result, raw.
    Result(Box<[u8]>),
    /// The peer's error object, raw.
    PeerError(Box<[u8]>),
    /// It was cancelled by us.
    Cancelled(Cause),
    /// A clock ran out (D16).
    TimedOut {
        /// Which.
        clock: Clock,
        /// After how long.
        after: Duration,
    },
    /// The server ended the subscription with a cancel of its own (MCP-M02); the reason is its words, untrusted.
    Ended {
        /// Why, in the server's words.
        reason: Option<Box<str>>,
    },
    /// The answer could not be read, or was longer than the limit.
    Unreadable(Refusal),
    /// The connection ended first.
    Closed,
}

/// The clocks of a request (D16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// Until the answer; progress resets it where the caller asked for that (MCP-T04).
    Response,
    /// Until the answer, whatever happens (MCP-T05).
    Total,
}

impl Clock {
    /// The word used in errors and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Total => "total",
        }
    }
}

/// What came of a cancel of one of the peer's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The request.
    pub key: IncomingKey,
    /// Its id.
    pub id: IncomingId,
    /// Its method.
    pub method: Box<str>,
    /// Who asked first, and why.
    pub cause: Cause,
    /// What the handler did.
    pub ending: Ending,
}

/// What is known of a cancel of one of our requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptNotice {
    /// The request, which is settled as a rule.
    pub key: OutgoingKey,
    /// Its id.
    pub id: OutgoingId,
    /// Its method.
    pub method: Box<str>,
    /// What is known now.
    pub receipt: Receipt,
}

/// A cancel that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelNotice {
    /// The id it names, if one could be read; a turn's cancel names a session, and so the turn's request.
    pub id: Option<RequestId>,
    /// The method of the request, if the request is known.
    pub method: Option<Box<str>>,
    /// Who asked: the peer that sent the request.
    pub cause: CauseCode,
    /// The reason in words: untrusted, see [`sanitised`](crate::cause::sanitised).
    pub reason: Option<Box<str>>,
    /// What was done with it.
    pub verdict: Verdict,
    /// The peer's requests still in flight.
    pub in_flight: usize,
}

impl core::fmt::Display for CancelNotice {
    /// For a log or a terminal: the reason is made fit for it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.id {
            Some(id) => write!(f, "cancel of request {}", sanitised(&id.to_string()))?,
            None => f.write_str("cancel of no request")?,
        }
        if let Some(method) = &self.method {
            write!(f, " ({method})")?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {}", sanitised(reason)),
            None => Ok(()),
        }
    }
}

/// What was done with a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The request is being stopped, or will never start.
    Accepted,
    /// It had been cancelled before.
    Repeated,
    /// The request is over (MCP-C07).
    Completed,
    /// The handler is shielded: it runs to its end (D22, MCP-C07).
    Shielded,
    /// Held for a request that has not arrived (D9).
    Held,
    /// No such request, now or in memory; also a held one whose request never came.
    Unknown,
    /// Unreadable (D29).
    Malformed,
    /// Not the peer's to send, or not now (D30).
    Forbidden(Rule),
}

/// What arrived late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateKind {
    /// A result.
    Result,
    /// An error.
    Error,
    /// Progress.
    Progress,
}

/// Why a message went nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Not JSON.
    NotJson,
    /// No message, or one that is not allowed here.
    Invalid,
    /// Longer than the limit.
    TooLarge,
    /// A response to nothing that we ever asked.
    UnknownResponse,
    /// An error that answers nobody: the peer could not read something of ours.
    StrayError,
    /// A request with the id of one in flight (D7).
    DuplicateId,
    /// A request with a null id where none may be null (MCP-I01).
    NullId,
    /// A batch where there are none, or a message that may not be in one (MCP-B01).
    Batch,
    /// One request more than the limit (D12).
    Overloaded,
    /// A request after [`shutdown`](super::Connection::shutdown).
    ShuttingDown,
    /// Bytes without an end when the input ended.
    Unfinished,
    /// A filter kept it back.
    Vetoed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_reads_well_and_its_reason_cannot_spoil_a_terminal() {
        let notice = |id: Option<RequestId>, method: Option<&str>, reason: Option<&str>| CancelNotice {
            id,
            method: method.map(Into::into),
            cause: CauseCode::Caller,
            reason: reason.map(Into::into),
            verdict: Verdict::Accepted,
            in_flight: 1,
        };
        let stop = notice(Some(RequestId::integer(5)), Some("tools/call"), Some("user pressed\n\u{1b}[2JStop"));
        assert_eq!(stop.to_string(), "cancel of request 5 (tools/call): user pressed\u{fffd}\u{fffd}[2JStop");
        assert_eq!(notice(Some(RequestId::string("a\nb")), None, None).to_string(), r#"cancel of request "a\nb""#);
        assert_eq!(notice(None, None, None).to_string(), "cancel of no request");
    }
}
