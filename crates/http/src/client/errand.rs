//! Something to have from the server, or to say to it: requests that wait for their answers, a stream that listens, a
//! message without an answer.

use core::hash::BuildHasher;
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use foldhash::fast::FixedState;
use http::{HeaderValue, Method};
use rescind_parts::timer_queue::TimerKey;
use rescind_proto::{dialect::Dialect, id::RequestId, time::Instant};

use super::{
    ErrandKey, HttpClientConfig,
    event_reader::{Event, EventReader},
    fetch::{Aim, Fetch, Reader},
    headers::{self, Origin},
    queues::Queue,
};

/// Ids of events that are remembered of a stream: a server that repeats more than that on resuming repeats everything.
const MAX_REMEMBERED: usize = 64;

/// One errand, with the HTTP request that carries it and how far its stream was read.
///
/// ```text
///                 ┌────────────── its session is lost ───────────┐
///                 ▼                                              │
/// new ──┬──► Held ──► Carried, to send it ──┬──► its messages ───┼──► over
///       └─────────────────▲   ▲             │        │ broke     │
///                         │   │             │        ▼           │
///                         │   │             │      Away ──► Carried, to get the rest ──► its messages
///                         │   └─ try again ─┼────────┘
///                         │                 ▼ refused
///                         └── Surveying ◄───┴───► Carried, to probe ──► over
/// ```
///
/// It is over once each request of it was answered, or cancelled, or once the server has accepted a message without an
/// answer: then nothing is left of it.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) role: Role,
    pub(crate) dialect: &'static Dialect,
    /// The session that it belongs to; `None` outside one.
    pub(crate) session: Option<u64>,
    /// Whose it is.
    pub(crate) credentials: Option<HeaderValue>,
    /// What is POSTed, for as long as it may have to be sent again.
    pub(crate) body: Bytes,
    /// Bytes of `body` that the server has not taken.
    pub(crate) unsent: usize,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) stage: Stage,
    /// What has come of it.
    pub(crate) stream: Stream,
    /// How often in a row it was tried in vain.
    pub(crate) attempts: u32,
    /// It was refused once, and sent again.
    pub(crate) was_resent: bool,
    pub(crate) timer: TimerKey,
}

/// What an errand is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Requests of the local client.
    Calls,
    /// What the server says unasked.
    Listen,
    /// A handshake of ours, since the session was lost.
    Reopen,
    /// The list of tools, to find out which headers this call needs.
    Survey {
        call: ErrandKey,
        /// Pages that were asked for.
        pages: u32,
    },
    /// What has no answer.
    OneWay(Box<OneWay>),
}

/// A message that has no answer, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OneWay {
    pub(crate) kind: OneWayKind,
    /// Its method; empty for an answer.
    pub(crate) method: Box<str>,
    /// The revision that its headers name, if it belongs to no session.
    pub(crate) stateless: Option<HeaderValue>,
}

/// What a message without an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OneWayKind {
    /// The cancel of a request.
    Cancel {
        of: ErrandKey,
        id: RequestId,
        /// It was reported as left.
        has_left: bool,
    },
    /// The end of the handshake.
    Initialized,
    /// The answer to a question of the server.
    Answer,
    /// Any other message.
    Other,
    /// The end of a session.
    End {
        session: HeaderValue,
        /// Which server opened it.
        origin: Origin,
        /// Its revision.
        version: Option<HeaderValue>,
    },
}

/// Where an errand is.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// It waits until messages may be sent in the session.
    Held,
    /// An HTTP request carries it.
    Carried(Fetch),
    /// It has no connection until its timer tries again.
    Away,
    /// It was refused for its headers, in this answer, and the list of tools is read for better ones.
    Surveying(ErrandKey, Vec<u8>),
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
        cancel: Option<ErrandKey>,
        until: Instant,
    },
    /// Answered; its stream is let go at `until`.
    Answered {
        until: Instant,
    },
}

impl OneWay {
    /// Whether it does no harm if the server gets it twice.
    pub(crate) const fn is_harmless(&self) -> bool {
        matches!(self.kind, OneWayKind::Cancel { .. } | OneWayKind::Initialized)
    }

    /// Whether it is the end of a session.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self.kind, OneWayKind::End { .. })
    }
}

impl Errand {
    pub(crate) fn new(role: Role, dialect: &'static Dialect, session: Option<u64>, body: Bytes) -> Self {
        Self {
            role,
            dialect,
            session,
            credentials: None,
            unsent: body.len(),
            body,
            waiting: Vec::new(),
            stage: Stage::Away,
            stream: Stream::default(),
            attempts: 0,
            was_resent: false,
            timer: TimerKey::NOT,
        }
    }

    pub(crate) const fn is_stateless(&self) -> bool {
        self.session.is_none()
    }

    /// Whether the server answers it with messages.
    pub(crate) const fn has_stream(&self) -> bool {
        !matches!(self.role, Role::OneWay(_))
    }

    /// Whether it opens a session.
    pub(crate) fn is_handshake(&self) -> bool {
        self.role == Role::Reopen || self.waiting.iter().any(|waiting| waiting.kind == CallKind::Handshake)
    }

    /// The HTTP request that carries it.
    pub(crate) const fn fetch(&self) -> Option<&Fetch> {
        let Stage::Carried(fetch) = &self.stage else { return None };
        Some(fetch)
    }

    /// Whether a response of it is, or may be, open.
    pub(crate) const fn is_open(&self) -> bool {
        match self.fetch() {
            Some(Fetch { aim: Aim::Get, reader, .. }) => !matches!(reader, Reader::NoHead),
            Some(Fetch { aim, .. }) => matches!(aim, Aim::Send),
            None => false,
        }
    }

    /// Whether it is being sent: no response has begun, or one that refuses it.
    pub(crate) const fn is_posting(&self) -> bool {
        matches!(self.fetch(), Some(Fetch { aim: Aim::Send, reader: Reader::NoHead | Reader::Refusal(_), .. }))
    }

    /// Whether the server may have got its requests, and has not refused them.
    pub(crate) const fn is_out(&self) -> bool {
        match &self.stage {
            Stage::Carried(fetch) => match fetch.aim {
                Aim::Send => fetch.is_written() && !matches!(fetch.reader, Reader::Refusal(_)),
                Aim::Get => true,
                Aim::Probe(_) => false,
            },
            Stage::Away => true,
            Stage::Held | Stage::Surveying(..) => false,
        }
    }

    pub(crate) const fn one_way(&self) -> Option<&OneWay> {
        let Role::OneWay(one_way) = &self.role else { return None };
        Some(one_way)
    }

    /// Where an HTTP request that does this for it waits for its turn.
    pub(crate) fn queue(&self, aim: &Aim) -> Queue {
        match (&self.role, aim) {
            (Role::OneWay(one_way), _) => match one_way.kind {
                OneWayKind::Cancel { .. } => Queue::Cancel,
                OneWayKind::Initialized | OneWayKind::End { .. } => Queue::Free,
                OneWayKind::Answer | OneWayKind::Other => Queue::Post,
            },
            (Role::Listen, _) => Queue::Free,
            (Role::Calls | Role::Reopen | Role::Survey { .. }, Aim::Send) if self.is_handshake() => Queue::Free,
            (Role::Calls | Role::Reopen | Role::Survey { .. }, _) => Queue::Call,
        }
    }

    /// The method of such an HTTP request.
    pub(crate) fn method(&self, aim: &Aim) -> Method {
        match aim {
            Aim::Get | Aim::Probe(_) => Method::GET,
            Aim::Send if self.one_way().is_some_and(OneWay::is_end) => Method::DELETE,
            Aim::Send => Method::POST,
        }
    }

    /// How long the server may take to accept such an HTTP request.
    pub(crate) fn patience(&self, aim: &Aim, config: &HttpClientConfig) -> Option<Duration> {
        match (aim, self.one_way().map(|one_way| &one_way.kind)) {
            (Aim::Probe(_), _) => Some(config.probe_within),
            (_, Some(OneWayKind::Initialized)) => Some(config.greet_within),
            (_, Some(_)) => Some(config.accept_within),
            // Its caller has clocks of its own.
            (Aim::Send | Aim::Get, None) => None,
        }
    }

    /// Whether any of its requests still waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.state == CallState::InFlight)
    }

    /// The next event of its response that was not read before.
    pub(crate) fn next_event(&mut self, rest: &mut &[u8], seed: u64) -> Option<Event> {
        let Stage::Carried(Fetch { reader: Reader::Events(reader), .. }) = &mut self.stage else { return None };
        while let Some(event) = reader.read(rest) {
            // Outside a session nothing is resumed, and so nothing repeated (MCP-H06).
            if !event.has_own_id || self.session.is_none() || self.stream.note_event(reader, seed) {
                return Some(event);
            }
        }
        self.attempts = 0;
        self.stream.retry = reader.retry().or(self.stream.retry);
        None
    }

    /// What carries the cancels of its requests.
    pub(crate) fn cancels(&self) -> impl Iterator<Item = ErrandKey> {
        self.waiting.iter().filter_map(|waiting| match waiting.state {
            CallState::Cancelled { cancel, .. } => cancel,
            CallState::InFlight | CallState::Answered { .. } => None,
        })
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

/// The messages that come for an errand, and how far they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// The server has taken the requests, or let us listen.
    pub(crate) has_begun: bool,
    /// The server has let us listen, and then not again.
    pub(crate) is_refused: bool,
    /// The first message of a subscription, as a hash.
    acknowledged: Option<u64>,
    /// The last event that ended.
    pub(crate) last_id: Option<HeaderValue>,
    /// How long the server wants us to wait.
    pub(crate) retry: Option<Duration>,
    /// Events of earlier connections, as hashes of their ids.
    earlier: VecDeque<u64>,
    /// Those of this connection.
    current: VecDeque<u64>,
}

impl Stream {
    /// Notes the first message of a subscription; `false` if the local client has had the same before.
    pub(crate) fn note_acknowledgement(&mut self, message: &[u8], seed: u64) -> bool {
        let hash = FixedState::with_seed(seed).hash_one(message);
        self.acknowledged.replace(hash) != Some(hash)
    }

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
    pub(crate) fn end_connection(&mut self, reader: &EventReader) {
        self.retry = reader.retry().or(self.retry);
        self.earlier.append(&mut self.current);
        let surplus = self.earlier.len().saturating_sub(MAX_REMEMBERED);
        self.earlier.drain(..surplus);
    }
}
