//! Batches: arrays of messages, each answered with an array (MCP-B01).
//!
//! The answers of a batch go out together once its last request is settled. Members that were cancelled are missing from
//! the array; if all are, nothing is sent: there is no empty array in JSON-RPC. A batch can have millions of members, so
//! what is said of those that cannot be served is bounded (D36).

/// Bytes of refusals in the answer of one batch, at most.
const MAX_REFUSALS: usize = 64 << 10;

/// Rejected members of one batch that are reported, at most.
const MAX_REPORTS: usize = 1024;

/// A batch that is being answered.
#[derive(Clone, Debug, Hash)]
pub(super) struct Batch {
    /// Members that may still add an answer, and one more until all of them were looked at.
    pub(super) open: usize,
    /// The answers so far, with a comma between two.
    pub(super) answers: Vec<u8>,
    /// Bytes of refusals that may still be added.
    pub(super) refusals: usize,
    /// Rejected members that may still be reported.
    pub(super) reports: usize,
}

impl Batch {
    pub(super) const fn new() -> Self {
        Self { open: 1, answers: Vec::new(), refusals: MAX_REFUSALS, reports: MAX_REPORTS }
    }

    /// Adds an answer, which can no longer be withdrawn, and returns how many bytes that takes.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.answers.len();
        if before > 0 {
            self.answers.push(b',');
        }
        write(&mut self.answers);
        self.answers.len() - before
    }

    /// Whether one more rejected member is reported; counts it if so.
    pub(super) fn may_report(&mut self) -> bool {
        self.reports.checked_sub(1).map(|left| self.reports = left).is_some()
    }
}
