//! What a relay reports to its driver: a closed list.

use core::time::Duration;
use std::sync::Arc;

use crate::{
    id::RequestId,
    link::{CancelNotice, Clock, LateKind, Rejected, RequestKey},
    receipt::{Outcome, Receipt},
    rule::Rule,
    side::Side,
};

/// Something that happened, in the order in which it happened.
///
/// It never grows: a recording that left one out could not be replayed.
#[derive(Clone, Debug, PartialEq)]
pub enum RelayEvent {
    /// A request was taken in (with [`Emit::requests`](super::Emit)).
    Opened {
        /// Names the request in later events.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its id on the other side.
        upstream: RequestId,
        /// Its method.
        method: Arc<str>,
    },
    /// It became known what followed work, or a question of the server about it, is part of (with
    /// [`Emit::requests`](super::Emit)): of a turn of a thread, or of the foreground work of its session (D55, D58).
    PartOf {
        /// The work, or the question.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Arc<str>,
        /// What it is part of.
        parent: RequestKey,
        /// The id of that.
        parent_id: RequestId,
    },
    /// The requester has its answer, or its silence, for good (with [`Emit::requests`](super::Emit)).
    Settled {
        /// The request.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Arc<str>,
        /// How it ended for the requester.
        how: Settled,
    },
    /// A request was settled in silence: nothing will be sent to its requester for it (with
    /// [`Emit::silences`](super::Emit)).
    Silenced {
        /// Who sent the request.
        from: Side,
        /// Its id, as that side knows it.
        id: RequestId,
    },
    /// A cancel arrived or was decided here (D31).
    Cancel(CancelNotice),
    /// What is known of a cancel changed (D28).
    Receipt {
        /// The request.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Arc<str>,
        /// What is known now.
        receipt: Receipt,
    },
    /// A request became a task, or this is what came of a task whose handle was received by nobody (D38).
    Task {
        /// The request.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// The task's id, chosen by the other side: untrusted.
        task: Box<str>,
        /// What is new.
        news: TaskNews,
    },
    /// A clock of ours ran out; the request was cancelled and answered (D16).
    TimedOut {
        /// The request.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Arc<str>,
        /// Which clock.
        clock: Clock,
        /// After how long.
        after: Duration,
    },
    /// A cancelled request is still being worked on after its grace.
    Stuck {
        /// The request.
        request: RequestKey,
        /// Its id, as that side knows it.
        id: RequestId,
        /// Its method.
        method: Arc<str>,
        /// What showed it.
        sign: StuckSign,
    },
    /// Something arrived for a request that is over, and was swallowed (D33).
    Late {
        /// Who sent it.
        from: Side,
        /// The id or token that it named.
        id: RequestId,
        /// What it was.
        what: LateKind,
    },
    /// A message that is not passed on, and why.
    Rejected {
        /// Who sent it.
        from: Side,
        /// Why.
        why: Rejected,
        /// At most 256 bytes: the method of a refused request ([`Rejected::DuplicateId`], [`Rejected::Overloaded`]), the lengths
        /// of a [`Rejected::TooLarge`] in words, and otherwise the beginning of the message, which may hold secrets.
        excerpt: Box<[u8]>,
    },
    /// A side broke a rule of its protocol. What was done about it is in another event.
    Violation {
        /// Who.
        by: Side,
        /// Which rule.
        rule: Rule,
        /// The request concerned.
        id: Option<RequestId>,
    },
    /// A side has read nothing of its backlog for too long (D13). The driver should end that side.
    GivenUp {
        /// Who.
        side: Side,
        /// Unwritten bytes.
        unsent: usize,
    },
    /// A frame passed a point (with [`Emit::frames`](super::Emit)).
    Frame {
        /// The point.
        hop: Hop,
        /// The frame with its framing.
        bytes: Box<[u8]>,
    },
}

words! {
    /// How a request ended for its requester.
    ///
    /// It never grows: the other side's answer, one of the relay's, silence and no reader are all that a requester can
    /// be given.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Settled {
        /// With the other side's answer.
        Answered = "answered",
        /// With an answer of ours, this code or a cancellation result.
        AnsweredHere {
            /// The error code, if it was an error.
            code: Option<i32>,
        } = "answered_here",
        /// With silence, as its dialect asks of a cancelled request.
        Silent = "silent",
        /// The requester went away.
        Gone = "gone",
    }
}

words! {
    /// What is new of a request that is a task.
    ///
    /// It never grows: a request becomes a task and that may reach nobody: a log names both.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TaskNews {
        /// Its answer is the handle of a task: from now on only that task can be cancelled (MCP-C13).
        Made = "made",
        /// The handle came after its requester, a clock or an operator had cancelled, and was swallowed: the relay cancels
        /// the task itself, and this is what is known of that. `Asked` is the request of its own, `Sent` a bare
        /// acknowledgement of it, which promises nothing (TASK-21).
        Orphaned(Outcome) = "orphaned",
    }
}

words! {
    /// What shows that a cancelled request is still being worked on.
    ///
    /// It never grows: work shows that it goes on by speaking, or by not answering where it must.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum StuckSign {
        /// Its progress still arrives.
        Progress = "progress",
        /// Its dialect owes an answer and none has come.
        NoAnswer = "no_answer",
    }
}

/// The four points where a frame can be seen.
///
/// It never grows: a frame is read or it is written.
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
