//! What a monitor tells: a closed list.
//!
//! Events name requests by their keys; what is known of one stands in its [view](super::RequestView). So an event costs
//! nothing to make, and whoever judges a link by rules has both: what happened, and to what.

use crate::{
    dialect::{CancelForm, Dialect},
    id::RequestId,
    link::{LateKind, Rejected, RequestKey, Verdict},
    receipt::{Answer, Outcome},
    side::Side,
};

/// Something that passed, in the order in which it passed.
#[derive(Clone, Debug, PartialEq)]
pub enum MonitorEvent {
    /// A request.
    Opened {
        /// Names it from now on.
        request: RequestKey,
    },
    /// Progress of a request in flight, or of a task.
    Progress {
        /// The request.
        request: RequestKey,
    },
    /// A cancel, or what became clear of one that was held.
    Cancel(ObservedCancel),
    /// What is known of a cancel changed (D28).
    Receipt {
        /// The request that it cancels.
        request: RequestKey,
        /// What is known now.
        outcome: Outcome,
    },
    /// A request is over for its requester.
    Settled {
        /// The request.
        request: RequestKey,
        /// How.
        how: ObservedEnd,
    },
    /// Something came for a request that is over for its requester (D8).
    Late {
        /// The request.
        request: RequestKey,
        /// What it was.
        what: LateKind,
        /// It is an answer, and not the first.
        again: bool,
    },
    /// The answer of a request is the handle of a task (D38).
    Task {
        /// The request.
        request: RequestKey,
    },
    /// A request with the id of one in flight; it is not followed (D7).
    Duplicate {
        /// The one in flight.
        request: RequestKey,
    },
    /// A request took the id of one that is over and remembered.
    Reused {
        /// The new one.
        request: RequestKey,
        /// The one before.
        earlier: RequestKey,
    },
    /// An answer to no request that is known: one from before the monitor began, one that was not followed, one that
    /// was forgotten, or none at all.
    Unasked {
        /// Who sent it.
        from: Side,
        /// The id it names.
        id: Option<RequestId>,
        /// What it is.
        answer: Answer,
    },
    /// Progress under a token that no known request asked with.
    StrayProgress {
        /// Who sent it.
        from: Side,
    },
    /// An array of messages passed; its members are told of on their own (MCP-B01).
    Batch {
        /// Who sent it.
        from: Side,
        /// Its members.
        members: usize,
    },
    /// A message that cannot be read, whole or in part, or a request that is not followed because a bound of the
    /// monitor is reached.
    Rejected {
        /// Who sent it.
        from: Side,
        /// Why.
        why: Rejected,
    },
    /// Something told what both sides speak (D2).
    Dialect {
        /// What.
        dialect: &'static Dialect,
    },
    /// A side will send nothing more.
    Ended {
        /// Who.
        side: Side,
    },
}

/// A cancel that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCancel {
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
}

/// How a request ended for its requester, as far as the wire shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservedEnd {
    /// With an answer.
    Answered(ObservedAnswer),
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
pub struct ObservedAnswer {
    /// Its kind. One that could not be read counts as an error without a code.
    pub answer: Answer,
    /// The code, of an error.
    pub code: Option<i64>,
    /// It says "cancelled": the dialect's error, or the method's own result.
    pub cancelled: bool,
    /// Its id matches only loosely, `5.0` or `"5"` for 5 (D10).
    pub loose: bool,
    /// An earlier request with this id was cancelled and never answered: the answer may be that one's.
    pub doubtful: bool,
}
