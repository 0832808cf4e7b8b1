//! Batches: an array of messages, answered with an array (MCP-B01).
//!
//! The answers of a batch go out together once its last request is settled.
//! Members that were cancelled are missing from the array; if all are, nothing
//! is sent: there is no empty array in JSON-RPC.

use super::{Connection, Tag};
use crate::{
    frame::{self, Frame},
    slab::Key,
    time::Instant,
};

/// A batch that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Members that may still add an answer.
    pub(super) open: usize,
    /// The answers so far, with a comma between two.
    pub(super) answers: Vec<u8>,
}

impl Connection {
    pub(super) fn take_batch(&mut self, now: Instant, batch: frame::Batch<'_>) {
        // Open until every member was looked at, so that none ends the batch before the next.
        let key = self.batches.insert(Batch { open: 1, answers: Vec::new() });
        for member in batch.members() {
            match frame::parse_member(member) {
                Ok(Frame::Batch(_)) => {}
                Ok(message) => self.take_message(now, message, Some(key)),
                Err(malformed) => self.take_malformed(now, member, malformed, Some(key)),
            }
        }
        self.leave_batch(key);
    }

    pub(super) fn join_batch(&mut self, key: Key) {
        if let Some(batch) = self.batches.get_mut(key) {
            batch.open += 1;
        }
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
        if !batch.answers.is_empty() && !self.phase.deaf {
            self.say(Tag::Owed, |out| {
                out.push(b'[');
                out.extend_from_slice(&batch.answers);
                out.push(b']');
            });
        }
    }
}
