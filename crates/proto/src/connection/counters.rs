//! What a connection counts.

use crate::rule::Violations;

/// How often things happened since the connection began; most of them are not worth an event each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counters {
    /// Messages that left, whole; a batch is one.
    pub sent: u64,
    /// Messages that arrived, rejected ones included; a batch is one.
    pub received: u64,
    /// Cancels that left.
    pub cancels_sent: u64,
    /// Cancels that arrived, whatever was done with them.
    pub cancels_received: u64,
    /// Cancels of unknown requests; an early cancel counts when its request never came (D9).
    pub unknown_cancels: u64,
    /// Cancels that named nothing (D29): log the first, then count.
    pub malformed_cancels: u64,
    /// Cancel reasons that were no string (D29).
    pub dropped_reasons: u64,
    /// Responses and progress for requests that were over.
    pub late: u64,
    /// Responses whose id matched only loosely: a defect of the peer (D10).
    pub loose_ids: u64,
    /// Messages that were rejected.
    pub refused: u64,
    /// Rules that the peer broke, by number.
    pub violations: Violations,
}
