//! Events of a monitor: a closed list.
//!
//! Events name requests by key, so they cost nothing to make. A request's [view](super::ObservedRequest) says what is
//! known of it.

use crate::{
    dialect::{CancelForm, Dialect},
    id::RequestId,
    link::{LateKind, Rejected, RequestKey, Verdict},
    receipt::{Answer, Outcome},
    side::Side,
};

/// Something that passed, in the order in which it passed.
///
/// It never grows: a reader of a recording that left one out would show another session than there was.
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
    /// A cancel, or news of an early cancel.
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
    /// A message came for a request that is over for its requester (D8).
    Late {
        /// The request.
        request: RequestKey,
        /// The kind of message.
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
    /// An array of messages passed; each member has events of its own (MCP-B01).
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
    /// A message showed the dialect of both sides (D2).
    Dialect {
        /// The dialect.
        dialect: &'static Dialect,
    },
    /// A side will send nothing more.
    Ended {
        /// The side.
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
    /// What its receiver has to do with it. `Accepted`: to heed it, which is not to say that it did.
    pub verdict: Verdict,
}

/// How a request ended for its requester, as far as the wire shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObservedEnd {
    /// With an answer.
    Answered(ObservedAnswer),
    /// With silence, as its dialect asks of a cancelled request (MCP-C06).
    Silent,
    /// The server ended its subscription with a cancel of its own (MCP-M02).
    Closed,
    /// The side that was to answer has ended.
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
