//! One request on its way through the relay: what each side knows of it.

use std::collections::VecDeque;

use super::{Clock, Settled, task::TaskPart};
use crate::{
    cause::Cause,
    dialect::{Dialect, Settlement},
    id::RequestId,
    method::Method,
    outbox::Ticket,
    receipt::{Outcome, Receipt},
    time::Instant,
};

/// A request, from its arrival until nothing of it is remembered.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// Its id, as the requester knows it.
    pub(super) id: RequestId,
    /// Its id on the other side, where that differs (D32).
    pub(super) renamed: Option<RequestId>,
    /// The token under which the requester asked for progress.
    pub(super) token: Option<RequestId>,
    /// The session of a turn or permission request, as JSON (D37).
    pub(super) session: Option<Box<[u8]>>,
    pub(super) clocks: Option<Box<Clocks>>,
    pub(super) cancel: Option<Box<Cancelling>>,
    pub(super) notices: Option<Box<Notices>>,
    /// The task that it became, or that it cancels in our name (D38).
    pub(super) task: Option<Box<TaskPart>>,
    /// What the requester speaks, for this request (D2).
    pub(super) dialect: &'static Dialect,
    /// What the other side speaks, for this request.
    pub(super) onward: &'static Dialect,
    pub(super) up: Up,
    pub(super) down: Down,
    pub(super) asked: Instant,
    pub(super) method: Method,
    /// It is a task: only `tasks/cancel` may cancel it (MCP-C13).
    pub(super) is_task: bool,
    /// A later request of the requester has taken the id over; this one is known by its other id only.
    pub(super) superseded: bool,
}

/// What the other side knows of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Up {
    /// Its batch is still being read.
    Assembling,
    /// It waits to be written, alone in its frame.
    Queued(Ticket),
    /// It waits to be written, with others in one frame, and so cannot be withdrawn.
    Bundled,
    /// It has been written whole.
    Sent,
    /// It has been answered.
    Answered,
    /// It was withdrawn and will never be known.
    Never,
    /// The other side ended.
    Lost,
}

/// What the requester has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Down {
    /// Nothing yet.
    Waiting,
    /// An answer waits to be written, alone in its frame.
    Answering(Ticket, Settled),
    /// An answer waits to be written, with others in one frame.
    Bundled(Settled),
    /// All it will ever be told.
    Done(Settled),
}

/// Clocks of one request (D16).
#[derive(Clone, Debug, Hash)]
pub(super) struct Clocks {
    pub(super) response: Option<Running>,
    pub(super) total: Option<Running>,
}

/// A clock that runs: its timer may be armed earlier than `until`, which progress moves without touching the timer.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Running {
    pub(super) limit: core::time::Duration,
    pub(super) until: Instant,
    pub(super) armed: Instant,
}

impl Clocks {
    pub(super) const fn get_mut(&mut self, clock: Clock) -> &mut Option<Running> {
        match clock {
            Clock::Response => &mut self.response,
            Clock::Total => &mut self.total,
        }
    }
}

/// Notifications about a request that wait to be written: taken back where silence becomes due (MCP-H04, D23).
#[derive(Clone, Debug, Default)]
pub(super) struct Notices {
    /// In the order in which they leave.
    pub(super) waiting: VecDeque<Ticket>,
}

/// A cancel of the request, from asking to the last that is learnt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cancelling {
    pub(super) receipt: Receipt,
    /// The cancel in the outbox, while it may still be taken back.
    pub(super) frame: Option<Ticket>,
    /// When the grace ends, while its timer is armed.
    pub(super) grace: Option<Instant>,
    /// It was shown that the work goes on past the grace; said once.
    pub(super) stuck: bool,
}

impl Cancelling {
    pub(super) const fn new(cause: Cause, asked: Instant, outcome: Outcome) -> Self {
        Self { receipt: Receipt { cause, asked, written: None, outcome }, frame: None, grace: None, stuck: false }
    }
}

impl Exchange {
    /// Its id on the other side.
    pub(super) fn upstream(&self) -> &RequestId {
        self.renamed.as_ref().unwrap_or(&self.id)
    }

    /// Whether the requester still has something to wait for or to receive.
    pub(super) const fn is_live(&self) -> bool {
        !matches!(self.down, Down::Done(_))
    }

    /// Whether the other side still owes something that could come late.
    pub(super) const fn is_open_upstream(&self) -> bool {
        matches!(self.up, Up::Assembling | Up::Queued(_) | Up::Bundled | Up::Sent)
    }

    /// Whether its progress goes on beyond the answer: a task's of 2025-11-25 does (MCP-P01), while anybody wants it.
    /// The extension has none.
    pub(super) const fn keeps_token(&self) -> bool {
        self.is_task && self.dialect.asks_for_tasks() && self.cancel.is_none()
    }

    /// Whether its requester knows that it is a task: by having asked for one, or by the handle, once that has left.
    pub(super) const fn is_known_task(&self) -> bool {
        self.is_task && (self.dialect.asks_for_tasks() || !self.is_live())
    }

    /// Whether silence is what its requester expects after cancelling.
    pub(super) const fn settles_silently(&self) -> bool {
        matches!(self.dialect.settlement, Settlement::Silent)
    }
}
