//! Batches: arrays of messages, each answered with an array (MCP-B01).
//!
//! The answers of a batch go out together once its last request is settled. Members that were cancelled are missing from
//! the array; if all are, nothing is sent: there is no empty array in JSON-RPC. A batch can have millions of members, so
//! what is said of those that cannot be served is bounded (D36).

use crate::slab::{Key, Slab};

/// Bytes of refusals in the answer of one batch, at most.
const MAX_REFUSALS: usize = 64 << 10;

/// Rejected members of one batch that are reported, at most.
const MAX_REPORTS: usize = 1024;

/// A batch that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Members that may still add an answer.
    pub(super) open: usize,
    /// The answers so far, with a comma between two.
    pub(super) answers: Vec<u8>,
    /// Bytes of refusals that may still be added.
    pub(super) refusals: usize,
    /// Rejected members that may still be reported.
    pub(super) reports: usize,
}

/// The batches that are being answered.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    slab: Slab<Batch>,
}

impl Batches {
    pub(super) const fn new() -> Self {
        Self { slab: Slab::new() }
    }

    /// Opens a batch: it is not answered before its opener [leaves](Self::leave) it, too.
    pub(super) fn open(&mut self) -> Key {
        self.slab.insert(Batch { open: 1, answers: Vec::new(), refusals: MAX_REFUSALS, reports: MAX_REPORTS })
    }

    /// Lets one more member answer.
    pub(super) fn join(&mut self, key: Key) {
        if let Some(batch) = self.slab.get_mut(key) {
            batch.open += 1;
        }
    }

    /// Adds an answer, which can no longer be withdrawn, and returns how many bytes that takes.
    pub(super) fn add(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let Some(batch) = self.slab.get_mut(key) else { return 0 };
        let before = batch.answers.len();
        if before > 0 {
            batch.answers.push(b',');
        }
        write(&mut batch.answers);
        batch.answers.len() - before
    }

    /// Uses up `bytes` of the room for refusals. `true` if that was the last of it.
    pub(super) fn use_refusals(&mut self, key: Key, bytes: usize) -> bool {
        let Some(batch) = self.slab.get_mut(key) else { return false };
        batch.refusals = batch.refusals.saturating_sub(bytes);
        batch.refusals == 0
    }

    /// Whether one more refusal may be added.
    pub(super) fn may_refuse(&self, key: Key) -> bool {
        self.slab.get(key).is_some_and(|batch| batch.refusals > 0)
    }

    /// Whether one more rejected member is reported; counts it if so.
    pub(super) fn may_report(&mut self, key: Key) -> bool {
        let Some(batch) = self.slab.get_mut(key) else { return true };
        let may = batch.reports > 0;
        batch.reports = batch.reports.saturating_sub(1);
        may
    }

    /// Takes a member out that has nothing more to add. With the last one the batch is over, and its answers are returned.
    pub(super) fn leave(&mut self, key: Key) -> Option<Vec<u8>> {
        let batch = self.slab.get_mut(key)?;
        batch.open -= 1;
        if batch.open > 0 { None } else { self.slab.remove(key).map(|batch| batch.answers) }
    }

    /// Its place among all, for a hash.
    pub(super) fn place(&self, key: Key) -> Option<usize> {
        self.slab.iter().position(|(known, _)| known == key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Batch> {
        self.slab.iter().map(|(_, batch)| batch)
    }
}
