//! What an endpoint only counts.

use crate::rule::Violations;

/// How often things happened that nobody need hear of one by one, since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counters {
    /// Messages that left, whole; a batch is one.
    pub sent: u64,
    /// Messages that arrived, those that went nowhere among them; a batch is one.
    pub received: u64,
    /// Cancels that left.
    pub cancels_sent: u64,
    /// Cancels that arrived, whatever was done with them.
    pub cancels_received: u64,
    /// Cancels of no request, now or in memory; a held one counts when its request never came (D9).
    pub unknown_cancels: u64,
    /// Cancels that named nothing (D29): log the first, then count.
    pub malformed_cancels: u64,
    /// Cancel reasons that were no string (D29).
    pub dropped_reasons: u64,
    /// Responses and progress for requests that were over.
    pub late: u64,
    /// Responses whose id matched only loosely: a defect of the peer (D10).
    pub loose_ids: u64,
    /// Messages that went nowhere.
    pub refused: u64,
    /// Rules that the peer broke, by number.
    pub violations: Violations,
}
