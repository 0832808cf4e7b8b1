//! What is in flight, for display.

use core::time::Duration;

use super::{
    Connection, Counters, IncomingKey, OutgoingKey,
    incoming::{Incoming, Work},
};
use crate::{
    cause::CauseCode,
    dialect::Dialect,
    id::{IncomingId, OutgoingId, RequestId},
    receipt::Outcome,
    time::Instant,
    timer_queue::NEVER,
};

/// One of our requests in flight.
#[derive(Clone, Debug)]
pub struct OutgoingView<'a> {
    /// Names it.
    pub key: OutgoingKey,
    /// Its id.
    pub id: OutgoingId,
    /// Its method.
    pub method: &'a str,
    /// When it was made.
    pub since: Instant,
    /// How far it is.
    pub state: OutgoingState,
    /// When it ends at the latest, if any clock runs for it; later if the peer has a question open (D49).
    pub deadline: Option<Instant>,
    /// The request of the peer that it serves (D26).
    pub parent: Option<IncomingKey>,
    /// Why it is being cancelled.
    pub cause: Option<CauseCode>,
    /// Whether it is over: its caller no longer waits, and its cancel was written where the protocol confirms none.
    pub is_over: bool,
}

/// How far one of our requests is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutgoingState {
    /// No byte of it was written, or what carries the connection can still take it back (D51).
    Queued,
    /// It is being written, or was.
    Sent,
    /// A cancel was asked for; its caller waits on, or only its receipt does.
    Cancelling,
}

/// One of the peer's requests in flight.
#[derive(Clone, Debug)]
pub struct IncomingView<'a> {
    /// Names it.
    pub key: IncomingKey,
    /// Its id.
    pub id: &'a IncomingId,
    /// Its method.
    pub method: &'a str,
    /// When it arrived.
    pub since: Instant,
    /// How far it is.
    pub state: IncomingState,
    /// When its requester stops waiting, or its time is up; later if we have a question open (D49).
    pub deadline: Option<Instant>,
    /// Who asked it to stop first.
    pub cause: Option<CauseCode>,
}

/// How far one of the peer's requests is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IncomingState {
    /// Its handler has not started.
    Queued,
    /// Its handler runs.
    Running,
    /// It was answered, and its handler waits for the peer's next request or serves that (D48).
    Suspended,
    /// Its handler was told to stop.
    Stopping,
    /// Its handler has ended; the answer waits to be written.
    Answering,
}

impl Connection {
    /// Our requests in flight, and those that are kept while their receipt is open: the same order on every run, not that
    /// of their making.
    pub fn outgoing(&self) -> impl Iterator<Item = OutgoingView<'_>> {
        let link = &self.link;
        self.outgoing.iter().map(|(key, call)| OutgoingView {
            key: OutgoingKey(key),
            id: OutgoingId(RequestId::integer(call.id)),
            method: link.methods.name(call.method),
            since: call.started,
            state: match &call.cancel {
                Some(_) => OutgoingState::Cancelling,
                None if link.has_left(call) => OutgoingState::Sent,
                None => OutgoingState::Queued,
            },
            deadline: Some(call.earliest(link.now, &link.their_questions)).filter(|due| *due != NEVER),
            parent: call.parent().map(IncomingKey),
            cause: call.cancel.as_ref().map(|cancel| cancel.receipt.cause.code),
            is_over: call.is_settled()
                && call.dialect.is_silent()
                && call.cancel.as_ref().is_none_or(|cancel| cancel.receipt.outcome != Outcome::Asked),
        })
    }

    /// The peer's requests in flight: the same order on every run, not that of their arrival.
    pub fn incoming(&self) -> impl Iterator<Item = IncomingView<'_>> {
        let link = &self.link;
        self.incoming.iter().map(|(key, request)| IncomingView {
            key: IncomingKey(key),
            id: &request.id,
            method: link.methods.name(request.method),
            since: request.arrived,
            state: match request.work {
                Work::Held | Work::Waiting | Work::Offered => IncomingState::Queued,
                Work::Running if request.is_suspended() => IncomingState::Suspended,
                Work::Running => IncomingState::Running,
                Work::Stopping | Work::Dropping => IncomingState::Stopping,
                Work::Ended => IncomingState::Answering,
            },
            deadline: request.remaining(link.now, &link.our_questions).map(|left| link.now + left),
            cause: request.stop.as_ref().map(|stop| stop.cause.code),
        })
    }

    /// Whether requests can still be made, the peer's and ours: until the end of input, or a shutdown.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.link.phase.is_open()
    }

    /// Whether this handler's token has fired, and the handler has not ended.
    #[must_use]
    pub fn is_stopping(&self, key: IncomingKey) -> bool {
        self.incoming.get(key.0).is_some_and(Incoming::is_stopping)
    }

    /// Requests of ours whose caller waits.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.outgoing.waiting
    }

    /// Everything that is kept of requests that are over: tombstones, spent tokens, early cancels, and
    /// cancelled requests whose receipt is open (D8).
    #[must_use]
    pub fn remembered(&self) -> usize {
        let link = &self.link;
        link.tombstones.len() + link.spent_tokens.len() + link.early_cancels.len() + self.outgoing.retired()
    }

    /// Bytes that wait to be written.
    #[must_use]
    pub const fn unsent(&self) -> usize {
        self.link.outbox.unsent()
    }

    /// Bytes that wait to be written, and the records of their frames: what the bounds are compared with (D13).
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.link.outbox.backlog()
    }

    /// How often things happened, whether or not each was an event.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.link.counters
    }

    /// The dialect spoken on this link; a guess until something telling has passed.
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.link.dialect()
    }

    /// Whether the other side declared this member of its `tasks` capability, `requests/tools/call` or `cancel`
    /// (TASK-11).
    #[must_use]
    pub fn peer_task_capability(&self, path: &str) -> bool {
        self.link.negotiation.task_capability(self.link.peer(), path.split('/'))
    }

    /// How much time this request's requester, or our own limit, still gives it (D17); `None` if neither set one.
    /// It stays the same while a question of ours is open on this connection (D49).
    #[must_use]
    pub fn remaining(&self, now: Instant, key: IncomingKey) -> Option<Duration> {
        self.incoming.get(key.0)?.remaining(now, &self.link.our_questions)
    }

    /// The id of one of our requests, as long as anything is known of it.
    #[must_use]
    pub fn id(&self, key: OutgoingKey) -> Option<OutgoingId> {
        self.outgoing.get(key.0).map(|call| OutgoingId(RequestId::integer(call.id)))
    }

    /// Whether anything is still known of one of our requests: it waits, or its receipt is open.
    #[must_use]
    pub fn knows(&self, key: OutgoingKey) -> bool {
        self.outgoing.get(key.0).is_some()
    }
}
