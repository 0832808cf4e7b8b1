//! One request, as far as the link has shown it.

use super::{ObservedAnswer, ObservedEnd};
use crate::{
    cause::cut,
    dialect::{Dialect, Reading},
    error_code,
    id::RequestId,
    link::{LateCounts, RequestKey},
    method::Method,
    receipt::{Outcome, Receipt},
    time::Instant,
};

/// A request, from its passing until it is forgotten.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) id: RequestId,
    /// The token under which it asked for progress.
    pub(super) token: Option<RequestId>,
    /// The token under which it asked for partial results.
    pub(super) partial: Option<RequestId>,
    /// The session of a turn or a load, or that it closes, as JSON.
    pub(super) session: Option<Box<[u8]>>,
    pub(super) dialect: &'static Dialect,
    pub(super) parent: Option<RequestKey>,
    pub(super) since: Instant,
    pub(super) method: Method,
    /// The tool or prompt that it names, as JSON.
    pub(super) name: Method,
    pub(super) progress: Option<Box<ObservedProgress>>,
    /// The id of the task that it became.
    pub(super) task: Option<Box<str>>,
    pub(super) cancel: Option<Box<Receipt>>,
    pub(super) answer: Option<ObservedAnswer>,
    pub(super) over: Option<(Instant, ObservedEnd)>,
    pub(super) late: LateCounts,
    /// Requests with its id that came while it was in flight, and are not known to be refused yet.
    pub(super) duplicates: u32,
    /// It is a turn (D37).
    pub(super) is_turn: bool,
    /// It closes its session (ACP-42).
    pub(super) is_close: bool,
    /// It is a task, or becomes one: only `tasks/cancel` may cancel it (MCP-C13).
    pub(super) is_task: bool,
    /// A later request has taken the id over.
    pub(super) replaced: bool,
    /// An earlier request had the id.
    pub(super) reuses: bool,
}

/// How far a request is, by its last progress. The updates of a session are only counted.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgress {
    /// When the last of it passed.
    pub at: Instant,
    /// How many messages of it passed.
    pub count: u64,
    /// How much is done, in units of the sender's own.
    pub done: Option<f64>,
    /// Of how much.
    pub total: Option<f64>,
    /// In words: untrusted, cut at [`max_text`](super::MonitorConfig::max_text).
    pub message: Option<Box<str>>,
}

impl Observed {
    /// The session of a turn or a load: its work shows in updates of that.
    pub(super) fn worked_in(&self) -> Option<&[u8]> {
        self.session.as_deref().filter(|_| !self.is_close)
    }

    /// Whether its requester still waits.
    pub(super) const fn is_live(&self) -> bool {
        self.over.is_none()
    }

    /// Whether it is over, and may be answered all the same.
    pub(super) const fn may_be_answered(&self) -> bool {
        self.answer.is_none() && matches!(self.over, None | Some((_, ObservedEnd::Silent | ObservedEnd::Gone)))
    }

    /// Whether its progress goes on beyond the answer: a task's of 2025-11-25 does (MCP-P01).
    pub(super) const fn keeps_token(&self) -> bool {
        self.is_task && self.dialect.asks_for_tasks() && self.cancel.is_none()
    }

    /// Whether its requester knows that it is a task.
    pub(super) const fn is_known_task(&self) -> bool {
        self.is_task && (self.dialect.asks_for_tasks() || !self.is_live())
    }

    /// Learns of the cancel from an answer, and returns the outcome if that is new (D28).
    pub(super) fn learn(&mut self, now: Instant, answered: ObservedAnswer) -> Option<Outcome> {
        let cancel = self.cancel.as_deref_mut()?;
        if cancel.outcome == Outcome::Sent && error_code::lets_go(answered.code) {
            return None;
        }
        cancel.outcome = cancel.answered(now, answered.answer, answered.cancelled)?;
        Some(cancel.outcome)
    }

    /// Notes progress; only the last message of it is kept.
    pub(super) fn note_progress(&mut self, now: Instant, reading: &Reading<'_>, max_text: usize) {
        let progress = self.progress.get_or_insert_with(|| {
            Box::new(ObservedProgress { at: now, count: 0, done: None, total: None, message: None })
        });
        progress.at = now;
        progress.count += 1;
        (progress.done, progress.total) = (reading.done, reading.total);
        let message = reading.message.as_deref().map(|message| cut(message, max_text));
        if progress.message.as_deref() != message {
            progress.message = message.map(Into::into);
        }
    }
}
