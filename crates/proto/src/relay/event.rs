//! What a relay tells whoever drives it: a closed list.

use core::time::Duration;

use super::{Clock, RequestKey};
use crate::{
    cause::CauseCode,
    id::RequestId,
    receipt::{Outcome, Receipt},
    rule::Rule,
    side::Side,
    time::Instant,
};

/// Something that happened, in the order in which it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A request was taken in (with [`Emit::requests`](super::Emit)).
    Opened {
        /// Names the request in later events.
        request: RequestKey,
        /// Who sent it.
        from: Side,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its id on the other side.
        upstream: RequestId,
        /// Its method.
        method: Box<str>,
        /// When.
        at: Instant,
    },
    /// The requester has its answer, or its silence, for good (with [`Emit::requests`](super::Emit)).
    Settled {
        /// The request.
        request: RequestKey,
        /// How it ended for the requester.
        how: Settled,
        /// When.
        at: Instant,
    },
    /// A cancel arrived or was decided here (D31).
    Cancel(CancelNotice),
    /// What is known of a cancel changed (D28).
    Receipt {
        /// The request.
        request: RequestKey,
        /// Who sent the request.
        from: Side,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Box<str>,
        /// What is known now.
        receipt: Receipt,
        /// When.
        at: Instant,
    },
    /// A request became a task, or what came of one whose handle nobody received (D38).
    Task {
        /// The request.
        request: RequestKey,
        /// Who sent it.
        from: Side,
        /// Its id, as that side knows it.
        id: RequestId,
        /// The task's id, in the words of whoever runs it: untrusted.
        task: Box<str>,
        /// What is new.
        news: TaskNews,
        /// When.
        at: Instant,
    },
    /// A clock of ours ran out; the request was cancelled and answered (D16).
    TimedOut {
        /// The request.
        request: RequestKey,
        /// Which clock.
        clock: Clock,
        /// After how long.
        after: Duration,
    },
    /// A cancelled request showed, past its grace, that it is still being worked on.
    Stuck {
        /// The request.
        request: RequestKey,
        /// Who sent it.
        from: Side,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Box<str>,
        /// What showed it.
        sign: StuckSign,
        /// When.
        at: Instant,
    },
    /// Something arrived for a request that is over, and was swallowed (D33).
    Late {
        /// Who sent it.
        from: Side,
        /// The id or token that it named.
        id: RequestId,
        /// What it was.
        what: LateKind,
        /// When.
        at: Instant,
    },
    /// A message that is not passed on, and why.
    Dropped {
        /// Who sent it.
        from: Side,
        /// Why.
        why: Drop,
        /// At most 256 bytes: the method of a refused request ([`Drop::DuplicateId`], [`Drop::Overloaded`]), the lengths
        /// of a [`Drop::TooLarge`] in words, and otherwise the beginning of the message, which may hold secrets.
        excerpt: Box<[u8]>,
        /// When.
        at: Instant,
    },
    /// A side broke a rule of its protocol; what was done about it is in another event.
    Violation {
        /// Who.
        by: Side,
        /// Which rule.
        rule: Rule,
        /// The request concerned.
        id: Option<RequestId>,
        /// When.
        at: Instant,
    },
    /// A side has read nothing of what it is owed for too long (D13). The driver should end that side.
    GivenUp {
        /// Who.
        side: Side,
        /// Unread bytes.
        debt: usize,
    },
    /// A frame passed a point (with [`Emit::frames`](super::Emit)).
    Frame {
        /// The point.
        hop: Hop,
        /// When.
        at: Instant,
        /// The frame with its framing.
        bytes: Box<[u8]>,
    },
}

/// A cancel that arrived or was decided here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelNotice {
    /// Who sent the request that it names; for a cancel from the wire, who sent the cancel.
    pub from: Side,
    /// The id it names, if one could be read.
    pub id: Option<RequestId>,
    /// The method of the request, if the request is known.
    pub method: Option<Box<str>>,
    /// Who asked.
    pub cause: CauseCode,
    /// The reason in words, as received: untrusted, see [`sanitised`](crate::cause::sanitised).
    pub reason: Option<Box<str>>,
    /// What was done with it.
    pub verdict: Verdict,
    /// Requests of that side still in flight.
    pub in_flight: usize,
    /// When.
    pub at: Instant,
}

/// What was done with a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The request is in flight; it was withdrawn, or a cancel goes on to the other side. The receipt tells.
    Accepted,
    /// It had been cancelled before: nothing is sent twice (D15).
    Repeated,
    /// The request is over (MCP-C07).
    Completed,
    /// Held for a request that has not arrived (D9).
    Held,
    /// No such request, now or in memory; also a held one whose request never came.
    Unknown,
    /// Unreadable (D29).
    Malformed,
    /// Not this side's to send, or not now (D30).
    Refused(Rule),
}

impl Verdict {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Repeated => "repeated",
            Self::Completed => "completed",
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Malformed => "malformed",
            Self::Refused(_) => "refused",
        }
    }
}

/// How a request ended for its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// With the other side's answer.
    Answered,
    /// With an answer of ours, this code or a cancellation result.
    AnsweredHere {
        /// The error code, if it was an error.
        code: Option<i32>,
    },
    /// With silence, as its dialect asks of a cancelled request.
    Silent,
    /// The requester went away.
    Gone,
}

impl Settled {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::AnsweredHere { .. } => "answered_here",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

/// What is new of a request that is a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskNews {
    /// Its answer is the handle of a task: from now on only that task can be cancelled (MCP-C13).
    Made,
    /// The handle came after its requester, a clock or an operator had cancelled, and was swallowed: the relay cancels
    /// the task itself, and this is what is known of that. `Asked` is the request of its own, `Sent` a bare
    /// acknowledgement of it, which promises nothing (TASK-21).
    Orphaned(Outcome),
}

impl TaskNews {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Orphaned(_) => "orphaned",
        }
    }
}

/// What arrived late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateKind {
    /// A result.
    Result,
    /// An error.
    Error,
    /// Progress, or an update of a cancelled turn.
    Progress,
    /// A message of a cancelled subscription.
    Subscription,
}

impl LateKind {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Progress => "progress",
            Self::Subscription => "subscription",
        }
    }
}

/// What shows that a cancelled request is still being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StuckSign {
    /// Its progress still arrives.
    Progress,
    /// Its dialect owes an answer and none has come.
    NoAnswer,
}

impl StuckSign {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// Why a message is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Drop {
    /// Not JSON, or no message (answered to a client, logged for a server).
    Garbage,
    /// Longer than the limit.
    TooLarge,
    /// A response to nothing.
    UnknownResponse,
    /// An error that answers nobody, in a form its reader's revision does not know.
    StrayError,
    /// A request with the id of one in flight (D7).
    DuplicateId,
    /// One request more than the limit.
    Overloaded,
    /// Bytes without an end when the input ended.
    Unfinished,
}

impl Drop {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::TooLarge => "too_large",
            Self::UnknownResponse => "unknown_response",
            Self::StrayError => "stray_error",
            Self::DuplicateId => "duplicate_id",
            Self::Overloaded => "overloaded",
            Self::Unfinished => "unfinished",
        }
    }
}

/// The four points where a frame can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// Arrived from a side.
    From(Side),
    /// Left for a side: its last byte was written.
    To(Side),
}

impl Hop {
    /// The word for logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::From(Side::Client) => "from_client",
            Self::From(Side::Server) => "from_server",
            Self::To(Side::Client) => "to_client",
            Self::To(Side::Server) => "to_server",
        }
    }
}
