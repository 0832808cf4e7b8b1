//! What a monitor tells: a closed list.
//!
//! Events name requests by their keys; what is known of one stands in its [view](super::RequestView). So an event costs
//! nothing to make, and whoever judges a link by rules has both: what happened, and to what.

use super::RequestKey;
use crate::{
    dialect::{CancelForm, Dialect},
    frame::Reason,
    id::RequestId,
    receipt::{self, Outcome},
    relay::{LateKind, Verdict},
    side::Side,
    time::Instant,
};

/// Something that passed, in the order in which it passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A request.
    Opened {
        /// Names it from now on.
        request: RequestKey,
        /// When.
        at: Instant,
    },
    /// Progress of a request in flight, or of a task.
    Progress {
        /// The request.
        request: RequestKey,
        /// When.
        at: Instant,
    },
    /// A cancel, or what became clear of one that was held.
    Cancel(CancelSeen),
    /// What is known of a cancel changed (D28).
    Receipt {
        /// The request that it cancels.
        request: RequestKey,
        /// What is known now.
        outcome: Outcome,
        /// When.
        at: Instant,
    },
    /// A request is over for its requester.
    Settled {
        /// The request.
        request: RequestKey,
        /// How.
        how: Settled,
        /// When.
        at: Instant,
    },
    /// Something came for a request that is over for its requester (D8).
    Late {
        /// The request.
        request: RequestKey,
        /// What it was.
        what: LateKind,
        /// It is an answer, and not the first.
        again: bool,
        /// When.
        at: Instant,
    },
    /// The answer of a request is the handle of a task (D38).
    Task {
        /// The request.
        request: RequestKey,
        /// When.
        at: Instant,
    },
    /// A request with the id of one in flight; it is not followed (D7).
    Duplicate {
        /// The one in flight.
        request: RequestKey,
        /// When.
        at: Instant,
    },
    /// A request took the id of one that is over and remembered.
    Reused {
        /// The new one.
        request: RequestKey,
        /// The one before.
        earlier: RequestKey,
        /// When.
        at: Instant,
    },
    /// An answer to no request that is known: one from before the monitor began, one that was not followed, one that
    /// was forgotten, or none at all.
    Unasked {
        /// Who sent it.
        from: Side,
        /// The id it names.
        id: Option<RequestId>,
        /// What it is.
        answer: receipt::Answer,
        /// When.
        at: Instant,
    },
    /// Progress under a token that no known request asked with.
    StrayProgress {
        /// Who sent it.
        from: Side,
        /// When.
        at: Instant,
    },
    /// An array of messages passed; its members are told of on their own (MCP-B01).
    Batch {
        /// Who sent it.
        from: Side,
        /// Its members.
        members: usize,
        /// When.
        at: Instant,
    },
    /// A message that cannot be read, whole or in part.
    Unread {
        /// Who sent it.
        from: Side,
        /// Why.
        why: Unread,
        /// When.
        at: Instant,
    },
    /// A request that is not followed, because a bound of the monitor is reached.
    Untracked {
        /// Who sent it.
        from: Side,
        /// Which bound.
        why: Untracked,
        /// When.
        at: Instant,
    },
    /// Something told what both sides speak (D2).
    Dialect {
        /// What.
        dialect: &'static Dialect,
        /// When.
        at: Instant,
    },
    /// A side will send nothing more.
    Ended {
        /// Who.
        side: Side,
        /// When.
        at: Instant,
    },
}

/// A cancel that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelSeen {
    /// Who sent it.
    pub from: Side,
    /// The request that it names, if that is known.
    pub request: Option<RequestKey>,
    /// The id that it names, if one could be read.
    pub id: Option<RequestId>,
    /// Its spelling, if it could be read; that of a turn is its own (D37).
    pub form: Option<CancelForm>,
    /// The reason in words, as received: untrusted, see [`sanitised`](crate::cause::sanitised).
    pub reason: Option<Box<str>>,
    /// What it is. `Accepted` says that its receiver has to heed it, not that it did.
    pub verdict: Verdict,
    /// When.
    pub at: Instant,
}

/// How a request ended for its requester, as far as the wire shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// With an answer.
    Answered(Answered),
    /// With silence, as its dialect asks of a cancelled request (MCP-C06).
    Silent,
    /// The server ended its subscription with a cancel of its own (MCP-M02).
    Closed,
    /// Whoever was to answer has ended.
    Lost,
    /// Its requester has ended.
    Gone,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answered {
    /// Its kind. One that could not be read counts as an error without a code.
    pub answer: receipt::Answer,
    /// The code, of an error.
    pub code: Option<i64>,
    /// It says "cancelled": the dialect's error, or the method's own result.
    pub cancelled: bool,
    /// Its id matches only loosely, `5.0` or `"5"` for 5 (D10).
    pub loose: bool,
    /// An earlier request with this id was cancelled and never answered: the answer may be that one's.
    pub doubtful: bool,
}

/// Why a message was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unread {
    /// Not JSON, or not UTF-8.
    NotJson,
    /// JSON, but no message.
    Invalid(Reason),
    /// A request whose id is null, in a dialect without such ids (MCP-I01).
    NullId,
    /// Longer than [`max_message`](super::Config::max_message): what follows from its envelope is told on its own.
    TooLarge,
    /// Bytes between messages.
    Broken,
    /// Bytes without an end when the side ended.
    Unfinished,
}

/// Why a request is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Untracked {
    /// [`max_in_flight`](super::Config::max_in_flight) of its side are in flight.
    TooMany,
    /// Its id is longer than [`max_text`](super::Config::max_text).
    LongId,
}
