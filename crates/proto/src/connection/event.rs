//! What a connection emits to its driver: a closed list.

use core::time::Duration;

use super::{IncomingKey, OutgoingKey};
use crate::{
    cause::Cause,
    dialect::Dialect,
    frame::Params,
    id::{IncomingId, OutgoingId, RequestId},
    json,
    link::{Attachment, CancelNotice, Clock, LateKind, Rejected, TransportError},
    receipt::{Ending, Receipt},
    rule::Rule,
    time::Instant,
};

/// Something that happened, in the order in which it happened (D11).
///
/// It never grows: a driver that left one out would break a promise: a handler not stopped, a caller not woken.
#[derive(Clone, Debug, PartialEq)]
pub enum ConnectionEvent {
    /// Start the handler of this request; it counts as running from now on, until
    /// [`Connection::ended`](super::Connection::ended).
    Request(IncomingRequest),
    /// A notification for the handlers above; never a cancel or progress of our requests.
    Notification(Payload),
    /// One of our requests is over, exactly once (invariant 3).
    Settled {
        /// The request.
        request: OutgoingKey,
        /// How it ended.
        how: Settlement,
    },
    /// Progress of one of our requests.
    Progress {
        /// The request.
        request: OutgoingKey,
        /// The raw params of the notification.
        params: Box<[u8]>,
    },
    /// Fire the token of this handler, and with it cancel whatever it started elsewhere (D26).
    Cancelled {
        /// The request.
        request: IncomingKey,
        /// Who asked, and why; words in it are the peer's and untrusted.
        cause: Cause,
    },
    /// The grace is over: drop the handler's future, then report [`HandlerEnd::Dropped`](super::HandlerEnd).
    DropHandler {
        /// The request.
        request: IncomingKey,
    },
    /// A request that is [watched](super::Connection::watch_answer) is over, exactly once.
    Delivered {
        /// The request.
        request: IncomingKey,
        /// Its answer has left as a whole; otherwise nothing of it will.
        answered: bool,
    },
    /// A request of the peer ends in silence: nothing will be sent for it (with
    /// [`ConnectionConfig::reports_silences`](super::ConnectionConfig::reports_silences)).
    Silenced {
        /// Its id.
        id: IncomingId,
    },
    /// What came of a cancel of one of the peer's requests (D28).
    Stopped(Box<Stopped>),
    /// What is known of a cancel of one of our requests changed (D28).
    Receipt(Box<ReceiptNotice>),
    /// A cancel arrived; it was dealt with already (D31, case 8).
    Cancel(Box<CancelNotice>),
    /// Something arrived for one of our requests that is over, and was ignored (MCP-C08).
    Late {
        /// The id or progress token that it named.
        id: RequestId,
        /// What it was.
        what: LateKind,
    },
    /// A message that is not acted on.
    Rejected {
        /// Why.
        why: Rejected,
        /// Its id, if it has one.
        id: Option<RequestId>,
        /// Its beginning, at most 256 bytes.
        excerpt: Box<[u8]>,
    },
    /// The peer broke a rule of its protocol; what was done about it is in another event.
    Violation {
        /// Which rule.
        rule: Rule,
        /// The request concerned.
        id: Option<RequestId>,
    },
    /// The peer has read nothing of its backlog for too long (D13). The driver should end the connection.
    GivenUp {
        /// Unread bytes that the peer has caused.
        unsent: usize,
    },
    /// Nothing will happen any more: the input has ended, or [`shutdown`](super::Connection::shutdown) was
    /// asked for, and every request is settled and every byte written.
    Closed,
}

/// A request whose handler is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct IncomingRequest {
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
    /// What its transport says of it.
    pub attachment: Option<Attachment>,
}

impl IncomingRequest {
    /// The token under which the requester wants progress, as JSON.
    #[must_use]
    pub fn progress_token(&self) -> Option<&[u8]> {
        let params = Params { raw: self.payload.params(), meta: self.payload.meta(), ..Params::default() };
        self.dialect.progress.as_ref()?.asked_raw(&params)
    }
}

/// A method and its raw params, in one allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload {
    bytes: Box<[u8]>,
    method: u32,
    has_params: bool,
    has_meta: bool,
}

impl Payload {
    pub(super) fn new(method: &str, params: &Params<'_>) -> Self {
        let has_meta = params.meta.is_some();
        let params = params.raw;
        let mut bytes = Vec::with_capacity(method.len() + params.map_or(0, <[u8]>::len));
        bytes.extend_from_slice(method.as_bytes());
        bytes.extend_from_slice(params.unwrap_or_default());
        Self { bytes: bytes.into(), method: method.len() as u32, has_params: params.is_some(), has_meta }
    }

    /// Bytes that it holds.
    pub(super) const fn len(&self) -> usize {
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

    /// The `_meta` of the params. Most requests have none, and are not searched for it again.
    #[must_use]
    pub fn meta(&self) -> Option<&[u8]> {
        self.params().filter(|_| self.has_meta).and_then(|params| json::member(params, "_meta"))
    }
}

impl core::fmt::Debug for Payload {
    /// Params may hold secrets: only their length is shown.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}({} bytes)", self.method(), self.bytes.len() - self.method as usize)
    }
}

/// How one of our requests ended for its caller (D19).
///
/// It never grows: a caller is told how its request ended, in words of its own for each end.
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
    Unreadable(Rejected),
    /// The transport ended it: no answer came, or none can come.
    Transport(Box<TransportError>),
    /// The connection ended first.
    Closed,
}

/// What came of a cancel of one of the peer's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The request.
    pub request: IncomingKey,
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
    pub request: OutgoingKey,
    /// Its id.
    pub id: OutgoingId,
    /// Its method.
    pub method: Box<str>,
    /// What is known now.
    pub receipt: Receipt,
}
