//! Batches: an array of messages, answered with an array (MCP-B01).
//!
//! The answers of a batch go out together once its last request is settled.
//! Members that were cancelled are missing from the array; if all are, nothing
//! is sent: there is no empty array in JSON-RPC. A batch can have millions of
//! members, so what is said of those that cannot be served is bounded (D36).

use super::{Connection, Tag};
use crate::{bug::SeededBug, error_code, frame, message, slab::Key, time::Instant};

/// Bytes of refusals that the members of one batch are given at most.
const MAX_REFUSALS: usize = 64 << 10;

/// Members of one batch of which it is reported at most that they were refused.
const MAX_REPORTS: usize = 1024;

/// A batch that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Members that may still add an answer.
    pub(super) open: usize,
    /// The answers so far, with a comma between two.
    pub(super) answers: Vec<u8>,
    /// Bytes of refusals that may still be added.
    refusals: usize,
    /// Refusals that may still be reported.
    reports: usize,
}

impl Connection {
    pub(super) fn take_batch(&mut self, now: Instant, body: &[u8], batch: frame::Batch<'_>) {
        let bounded = !self.config.has(SeededBug::AnswerToEachMember);
        if bounded && !batch.has_message() {
            return self.refuse_garbage(body, "a batch without a message");
        }
        let (refusals, reports) = if bounded { (MAX_REFUSALS, MAX_REPORTS) } else { (usize::MAX, usize::MAX) };
        // Open until every member was looked at, so that none ends the batch before the next.
        let key = self.batches.insert(Batch { open: 1, answers: Vec::new(), refusals, reports });
        for member in batch.members() {
            match frame::parse_member(member) {
                Ok(message) => self.take_message(now, message, Some(key)),
                Err(malformed) => self.take_unread(now, member, malformed, Some(key)),
            }
        }
        self.leave_batch(key);
    }

    pub(super) fn join_batch(&mut self, key: Key) {
        if let Some(batch) = self.batches.get_mut(key) {
            batch.open += 1;
        }
    }

    /// Adds a refusal to a batch, while it may have more of them.
    pub(super) fn add_refusal(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(batch) = self.batches.get(key).filter(|batch| batch.refusals > 0) else { return };
        let before = batch.answers.len();
        self.add_to_batch(key, write);
        let Some(batch) = self.batches.get_mut(key) else { return };
        batch.refusals = batch.refusals.saturating_sub(batch.answers.len() - before);
        if batch.refusals == 0
            && let Some(id) = self.nameless()
        {
            let text = "too many refusals for one batch: what else of it is refused is not answered";
            self.add_to_batch(key, |out| message::error(id, error_code::INVALID_REQUEST, text, None, out));
        }
    }

    /// Whether the refusal of one more member is reported.
    pub(super) fn may_report(&mut self, key: Key) -> bool {
        let Some(batch) = self.batches.get_mut(key) else { return true };
        let may = batch.reports > 0;
        batch.reports = batch.reports.saturating_sub(1);
        may
    }

    /// Adds an answer to a batch; it can no longer be taken back.
    pub(super) fn add_to_batch(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(batch) = self.batches.get_mut(key) else { return };
        let before = batch.answers.len();
        if before > 0 {
            batch.answers.push(b',');
        }
        write(&mut batch.answers);
        self.owed += batch.answers.len() - before;
    }

    /// A member has nothing more to add; the last one to leave sends the answers.
    pub(super) fn leave_batch(&mut self, key: Key) {
        let Some(batch) = self.batches.get_mut(key) else { return };
        batch.open -= 1;
        if batch.open > 0 {
            return;
        }
        let Some(batch) = self.batches.remove(key) else { return };
        self.owed = self.owed.saturating_sub(batch.answers.len());
        if !batch.answers.is_empty() && !self.phase.write_closed {
            self.say(Tag::Owed, |out| {
                out.push(b'[');
                out.extend_from_slice(&batch.answers);
                out.push(b']');
            });
        }
    }
}
