//! What the server says to one POST or one GET: requests that wait for their answers, and how to get back to where a
//! connection broke.

use core::hash::BuildHasher;
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use foldhash::fast::FixedState;
use http::HeaderValue;
use rescind_proto::{dialect::Dialect, id::RequestId, time::Instant};

use super::{FetchKey, StreamKey, event_reader::EventReader, headers};

/// Ids of events that are remembered of a stream: a server that repeats more than that on resuming repeats everything.
const MAX_REMEMBERED: usize = 64;

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) purpose: Purpose,
    pub(crate) dialect: &'static Dialect,
    /// The session that it belongs to; `None` for one of a revision without sessions.
    pub(crate) session: Option<u64>,
    /// To whom its requests belong.
    pub(crate) credentials: Option<HeaderValue>,
    /// What is POSTed, for as long as it may have to be sent again.
    pub(crate) body: Bytes,
    /// Bytes of `body` that the server has not taken.
    pub(crate) unsent: usize,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) stage: Stage,
    pub(crate) cursor: Cursor,
    /// How often in a row it was asked for again in vain.
    pub(crate) attempts: u32,
    /// The server has taken the requests, or let us listen.
    pub(crate) has_begun: bool,
    /// The server has let us listen, and then not again.
    pub(crate) is_refused: bool,
    /// It was refused once, and sent again.
    pub(crate) was_resent: bool,
    /// The first message of a subscription, as a hash.
    acknowledged: Option<u64>,
    pub(crate) timer: Option<Instant>,
}

/// Whom a stream is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests of the local client.
    Calls,
    /// What the server says unasked.
    Listen,
    /// A handshake of ours, since the session was lost.
    Reopen,
    /// The list of tools, to find out which headers this call needs.
    Survey {
        /// The stream of the call.
        call: StreamKey,
        /// Pages that were asked for.
        pages: u32,
    },
}

/// Where a stream is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It waits until messages may be sent, at this place.
    Held(u64),
    /// It is being sent; the response has not begun, or refuses it.
    Posting(FetchKey),
    /// Its messages come.
    Reading(FetchKey),
    /// It has no connection until its timer asks for it again.
    Away,
    /// It was asked for again.
    Asking(FetchKey),
    /// It was refused, and the server is asked whether it speaks another transport.
    Probing(FetchKey),
    /// It was refused for its headers, in this answer, and the list of tools is read for better ones.
    Surveying(StreamKey, Vec<u8>),
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: RequestId,
    pub(crate) kind: CallKind,
    pub(crate) state: CallState,
    /// It was reported as left.
    pub(crate) has_left: bool,
}

impl Waiting {
    /// A request that has not been sent.
    pub(crate) const fn new(id: RequestId, kind: CallKind) -> Self {
        Self { id, kind, state: CallState::InFlight, has_left: false }
    }
}

/// What of a request's method matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Opens a session.
    Handshake,
    /// Lists tools.
    ListTools,
    /// Calls a tool.
    CallTool,
    /// Stays open, and is sent again if it breaks (MCP-H06).
    Subscription,
    /// Any other.
    Plain,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallState {
    InFlight,
    /// Cancelled in a session; its stream is let go at `until`.
    Cancelled {
        /// What carries the cancel, until the server has answered it.
        cancel: Option<FetchKey>,
        until: Instant,
    },
    /// Answered; its stream is let go at `until`.
    Answered {
        until: Instant,
    },
}

impl Stream {
    pub(crate) fn new(purpose: Purpose, dialect: &'static Dialect, session: Option<u64>, body: Bytes) -> Self {
        Self {
            purpose,
            dialect,
            session,
            credentials: None,
            unsent: body.len(),
            body,
            waiting: Vec::new(),
            stage: Stage::Away,
            cursor: Cursor::default(),
            attempts: 0,
            has_begun: false,
            is_refused: false,
            was_resent: false,
            acknowledged: None,
            timer: None,
        }
    }

    pub(crate) const fn is_stateless(&self) -> bool {
        self.session.is_none()
    }

    /// The fetch that carries it now.
    pub(crate) const fn fetch(&self) -> Option<FetchKey> {
        match self.stage {
            Stage::Posting(key) | Stage::Reading(key) | Stage::Asking(key) | Stage::Probing(key) => Some(key),
            Stage::Held(_) | Stage::Away | Stage::Surveying(..) => None,
        }
    }

    /// Whether any of its requests still waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.state == CallState::InFlight)
    }

    /// Notes the first message of a subscription; `false` if the local client has had the same before.
    pub(crate) fn note_acknowledgement(&mut self, message: &[u8], seed: u64) -> bool {
        let hash = FixedState::with_seed(seed).hash_one(message);
        self.acknowledged.replace(hash) != Some(hash)
    }

    /// The place of the request with this id.
    pub(crate) fn position(&self, id: &RequestId) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.id == *id)
    }

    /// The place of the only request of it that is not answered, if it is the only one.
    pub(crate) fn only(&self) -> Option<usize> {
        let mut open =
            (0..self.waiting.len()).filter(|at| !matches!(self.waiting[*at].state, CallState::Answered { .. }));
        open.next().filter(|_| open.next().is_none())
    }

    /// Whether it is sent again where others are lost.
    pub(crate) fn is_subscription(&self) -> bool {
        matches!(&*self.waiting, [Waiting { kind: CallKind::Subscription, .. }])
    }

    /// When a stream that nobody waits for is let go; `None` while someone waits.
    pub(crate) fn until(&self) -> Option<Instant> {
        let ends = self.waiting.iter().map(|waiting| match waiting.state {
            CallState::InFlight => None,
            CallState::Cancelled { until, .. } | CallState::Answered { until } => Some(until),
        });
        ends.reduce(|one, other| Some(one?.max(other?))).flatten()
    }
}

/// How far a stream was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// The last event that ended.
    pub(crate) last_id: Option<HeaderValue>,
    /// How long the server wants us to wait.
    pub(crate) retry: Option<Duration>,
    /// Events of earlier connections, as hashes of their ids.
    earlier: VecDeque<u64>,
    /// Those of this connection.
    current: VecDeque<u64>,
}

impl Cursor {
    /// Notes the event that `reader` has just read, which brought an id; `false` if it was read before.
    pub(crate) fn note_event(&mut self, reader: &EventReader, seed: u64) -> bool {
        let Some(id) = reader.last_id() else {
            self.last_id = None;
            return true;
        };
        let hash = FixedState::with_seed(seed).hash_one(id);
        if self.earlier.contains(&hash) {
            return false;
        }
        self.last_id = headers::secret(id);
        if self.current.len() >= MAX_REMEMBERED {
            self.current.pop_front();
        }
        self.current.push_back(hash);
        true
    }

    /// The connection is over; another may repeat what it said.
    pub(crate) fn end_connection(&mut self) {
        self.earlier.append(&mut self.current);
        let surplus = self.earlier.len().saturating_sub(MAX_REMEMBERED);
        self.earlier.drain(..surplus);
    }
}
