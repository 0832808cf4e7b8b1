//! One HTTP request of ours and its response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use rescind_proto::{id::RequestId, time::Instant};

use super::{
    HttpClientConfig, StreamKey,
    event_reader::EventReader,
    headers::{Origin, Target},
    queues::Queue,
    words::Challenge,
};

/// A fetch: an HTTP request and its response.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) role: Role,
    pub(crate) target: Target,
    /// How many redirects led here.
    pub(crate) redirects: u32,
    pub(crate) phase: Phase,
    pub(crate) reader: Reader,
    /// The session whose id it carries.
    pub(crate) session: Option<u64>,
    /// Where it waits for its turn.
    pub(crate) queue: Queue,
    pub(crate) timer: Option<Instant>,
}

/// What a fetch is for.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Sends the requests of a stream.
    Post(StreamKey),
    /// Asks for a stream: to listen, or for what was missed of it.
    Get(StreamKey),
    /// Sends what has no answer.
    OneWay(Box<OneWay>),
    /// Asks whether the server speaks the transport of 2024-11-05.
    Probe(Box<Probe>),
    /// Ends a session.
    End {
        /// The session.
        session: HeaderValue,
        /// Who opened it.
        origin: Origin,
        /// Its revision.
        version: Option<HeaderValue>,
        /// The connection of the first attempt broke.
        is_repeated: bool,
    },
}

/// How far a fetch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for its timer.
    Waiting,
    /// It waits to be handed out.
    Queued,
    /// It was handed out, and nothing of its body was written.
    Handed,
    /// The server wants a token for it, and the driver sees to one. It counts as not sent.
    SigningIn,
    /// Its body is being written, since this time, or it has none.
    Written(Instant),
}

/// What is made of a response.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    /// It has not begun.
    NoHead,
    /// The whole body is a message, or several; else it is quoted as what was said in place of an answer.
    Whole(Box<Refusal>),
    /// A stream of events.
    Events(Box<EventReader>),
    /// It refuses a request.
    Refusal(Box<Refusal>),
    /// It is read to its end, unless that is too far, so that the connection can be used again.
    Ignored {
        /// Bytes that may still come.
        left: usize,
    },
}

/// A response that is not the answer that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What the server wants to be told of who asks.
    pub(crate) challenge: Option<Challenge>,
    /// When the server wants the request to be tried again.
    pub(crate) retry_after: Option<Box<str>>,
    /// What is wrong with it although its status says success.
    pub(crate) unusable: Option<String>,
    /// What was read of its body.
    pub(crate) body: Vec<u8>,
    /// The session whose id was refused.
    pub(crate) session: Option<u64>,
}

/// A message that is POSTed and has no answer.
#[derive(Clone, Debug)]
pub(crate) struct OneWay {
    pub(crate) kind: OneWayKind,
    pub(crate) body: Bytes,
    /// Its method; empty for an answer.
    pub(crate) method: Box<str>,
    /// The revision that its headers name, if it belongs to no session.
    pub(crate) stateless: Option<HeaderValue>,
    /// To whom it belongs.
    pub(crate) credentials: Option<HeaderValue>,
    /// How often it was tried in vain.
    pub(crate) attempts: u32,
    /// It is a cancel, and was reported as left.
    pub(crate) has_left: bool,
}

/// What a message without an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OneWayKind {
    /// The cancel of this request.
    Cancel(StreamKey, RequestId),
    /// The end of the handshake.
    Initialized,
    /// The answer to a question of the server.
    Answer,
    /// Anything else.
    Other,
}

/// A question to a server that has refused a request.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) stream: StreamKey,
    pub(crate) refusal: Refusal,
}

impl Role {
    /// Where what is of this kind waits for its turn, unless it is known better.
    const fn queue(&self) -> Queue {
        match self {
            Self::OneWay(one_way) => match one_way.kind {
                OneWayKind::Cancel(..) => Queue::Cancel,
                OneWayKind::Initialized => Queue::Free,
                OneWayKind::Answer | OneWayKind::Other => Queue::Post,
            },
            Self::End { .. } => Queue::Free,
            Self::Post(_) | Self::Get(_) | Self::Probe(_) => Queue::Call,
        }
    }

    /// How long the server may take to accept what is of this kind.
    pub(crate) fn patience(&self, config: &HttpClientConfig) -> Option<Duration> {
        match self {
            Self::OneWay(one_way) if one_way.kind == OneWayKind::Initialized => Some(config.greet_within),
            Self::OneWay(_) | Self::End { .. } => Some(config.accept_within),
            Self::Probe(_) => Some(config.probe_within),
            // Whoever waits for it has clocks of his own.
            Self::Post(_) | Self::Get(_) => None,
        }
    }
}

impl Refusal {
    /// Whether whoever asks is to say who he is, or that he may.
    pub(crate) fn wants_authorization(&self) -> bool {
        match self.status {
            StatusCode::UNAUTHORIZED => true,
            // Without a challenge it is for another reason.
            StatusCode::FORBIDDEN => self.challenge.is_some(),
            _ => false,
        }
    }
}

impl OneWay {
    /// Whether it does no harm if the server gets it twice.
    pub(crate) const fn is_harmless(&self) -> bool {
        matches!(self.kind, OneWayKind::Cancel(..) | OneWayKind::Initialized)
    }
}

impl Fetch {
    pub(crate) const fn new(role: Role, target: Target, phase: Phase) -> Self {
        let queue = role.queue();
        Self { role, target, redirects: 0, phase, reader: Reader::NoHead, session: None, queue, timer: None }
    }

    /// Whether the driver knows it.
    pub(crate) const fn is_handed(&self) -> bool {
        matches!(self.phase, Phase::Handed | Phase::SigningIn | Phase::Written(_))
    }

    /// Whether the server may have got it, and has not refused it.
    pub(crate) const fn may_be_processed(&self) -> bool {
        matches!(self.phase, Phase::Written(_)) && !matches!(self.reader, Reader::Refusal(_))
    }
}
