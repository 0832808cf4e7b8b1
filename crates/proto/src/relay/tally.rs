//! Counts of what has happened.

use core::time::Duration;

use super::{Settled, exchange::Cancelling};
use crate::side::Sides;

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
    /// Cancelled requests that were still worked on after their grace.
    pub stuck: u64,
    /// Messages that were not passed on.
    pub dropped: u64,
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

    /// Counts a cancel under its cause once, and under its outcome as that changes.
    pub(super) fn receipt(&mut self, cancel: &mut Cancelling) {
        let outcome = cancel.receipt.outcome.as_str();
        match cancel.counted.replace(outcome) {
            None => self.cancels.count(cancel.receipt.cause.code.as_str()),
            Some(before) if before == outcome => return,
            Some(before) => self.outcomes.take_back(before),
        }
        self.outcomes.count(outcome);
    }
}

/// Counts by words of a closed list; what has not happened takes no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordCounts(Vec<(&'static str, u64)>);

impl WordCounts {
    /// The words and how often each, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }

    /// How often `word`.
    #[must_use]
    pub fn of(&self, word: &str) -> u64 {
        self.0.iter().find(|(known, _)| *known == word).map_or(0, |(_, count)| *count)
    }

    pub(super) fn count(&mut self, word: &'static str) {
        match self.0.binary_search_by_key(&word, |(known, _)| known) {
            Ok(place) => self.0[place].1 += 1,
            Err(place) => self.0.insert(place, (word, 1)),
        }
    }

    fn take_back(&mut self, word: &'static str) {
        if let Ok(place) = self.0.binary_search_by_key(&word, |(known, _)| known) {
            self.0[place].1 = self.0[place].1.saturating_sub(1);
        }
    }
}

/// How long something took, in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Self::BOUNDS.len() + 1],
    sum: Duration,
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

    /// How many fell into each bucket.
    #[must_use]
    pub const fn counts(&self) -> &[u64; Self::BOUNDS.len() + 1] {
        &self.counts
    }

    /// The sum of all.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

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
        assert_eq!(histogram.counts(), &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(histogram.sum(), Duration::from_micros(600_002_002));
    }

    #[test]
    fn words_stand_in_their_order() {
        let mut counts = WordCounts::default();
        for word in ["sent", "asked", "sent"] {
            counts.count(word);
        }
        counts.take_back("asked");
        assert_eq!(counts.iter().collect::<Vec<_>>(), [("asked", 0), ("sent", 2)]);
    }
}
