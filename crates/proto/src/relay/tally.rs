//! Counts of what has happened.

use core::time::Duration;
use std::collections::BTreeMap;

use super::Settled;
use crate::{
    receipt::{Outcome, Receipt},
    rule::Violations,
    side::Sides,
};

/// Counts since a relay's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests taken in, by who sent them.
    pub requests: Sides<u64>,
    /// Requests that ended with the other side's answer.
    pub answered: u64,
    /// With an answer of ours.
    pub answered_here: u64,
    /// With silence.
    pub silent: u64,
    /// Without their requester.
    pub gone: u64,
    /// Cancels that were accepted or decided here, by [`CauseCode::as_str`](crate::cause::CauseCode::as_str).
    pub cancels: WordCounts,
    /// The same cancels by what is known of them now, by [`Outcome::as_str`](crate::receipt::Outcome::as_str).
    pub outcomes: WordCounts,
    /// Cancels from the wire that cancelled nothing, by [`Verdict::as_str`](crate::link::Verdict::as_str).
    pub unheeded: WordCounts,
    /// What came for requests that were over, by [`LateKind::as_str`](crate::link::LateKind::as_str).
    pub late: WordCounts,
    /// Requests that a clock ended, by [`Clock::as_str`](crate::link::Clock::as_str).
    pub timeouts: WordCounts,
    /// Requests that a limit ended, by the limit's name (D65); each limit has a count.
    pub limited: BTreeMap<Box<str>, u64>,
    /// Cancelled requests that were still worked on after their grace.
    pub stuck: u64,
    /// Messages that were not passed on.
    pub dropped: u64,
    /// The rules that each side broke, whether or not that was emitted as an event ([`Emit::notices`](super::Emit)).
    pub violations: Sides<Violations>,
    /// From asking for a cancel to the end of its request for the requester.
    pub cancel_to_settled: Histogram,
    /// From asking for a cancel to the other side's answer, where one came.
    pub cancel_to_answer: Histogram,
}

impl Tally {
    #[inline]
    pub(super) fn settled(&mut self, how: Settled, since_cancel: Option<Duration>) {
        match how {
            Settled::Answered => self.answered += 1,
            Settled::AnsweredHere { .. } => self.answered_here += 1,
            Settled::Silent => self.silent += 1,
            Settled::Gone => self.gone += 1,
        }
        if let Some(passed) = since_cancel {
            self.cancel_to_settled.record(passed);
        }
    }

    /// Counts a cancel by its cause, and by what is known of it.
    pub(super) fn begun(&mut self, receipt: &Receipt) {
        count(&mut self.cancels, receipt.cause.code.as_str());
        count(&mut self.outcomes, receipt.outcome.as_str());
    }

    /// Counts a cancel by what is known of it now, and no longer by what was known before.
    pub(super) fn learnt(&mut self, before: Outcome, now: Outcome) {
        count(&mut self.outcomes, now.as_str());
        self.outcomes.entry(before.as_str()).and_modify(|count| *count -= 1);
    }
}

/// Counts by words of a closed list; what has not happened takes no room.
pub type WordCounts = BTreeMap<&'static str, u64>;

pub(super) fn count(counts: &mut WordCounts, word: &'static str) {
    *counts.entry(word).or_default() += 1;
}

/// How long something took, in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many fell into each bucket.
    pub counts: [u64; Self::BOUNDS.len() + 1],
    /// The sum of all.
    pub sum: Duration,
}

impl Histogram {
    /// The upper bounds of all buckets but the last, in microseconds.
    pub const BOUNDS: [u64; 12] = [
        1_000,
        5_000,
        10_000,
        50_000,
        100_000,
        500_000,
        1_000_000,
        5_000_000,
        10_000_000,
        30_000_000,
        60_000_000,
        300_000_000,
    ];

    pub(super) fn record(&mut self, took: Duration) {
        let micros = took.as_micros();
        let bucket = Self::BOUNDS.partition_point(|bound| u128::from(*bound) < micros);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_bound() {
        let mut histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 300_000_000, 300_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(histogram.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(histogram.sum, Duration::from_micros(600_002_002));
    }

    #[test]
    fn words_stand_in_their_order() {
        let mut tally = Tally::default();
        for word in ["sent", "asked", "sent"] {
            count(&mut tally.outcomes, word);
        }
        tally.learnt(Outcome::Asked, Outcome::Unknown);
        assert_eq!(Vec::from_iter(tally.outcomes), [("asked", 0), ("sent", 2), ("unknown", 1)]);
    }
}
