//! The one table of timers.

use std::collections::BTreeSet;

use crate::time::Instant;

/// Timers ordered by deadline, ties by the timer itself: the same order on every run.
///
/// `T` is a closed enum that says what is due, so that every kind of timer is
/// visible in one place.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T> {
    due: BTreeSet<(Instant, T)>,
}

impl<T: Ord + Copy> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { due: BTreeSet::new() }
    }

    pub(crate) fn arm(&mut self, at: Instant, timer: T) {
        self.due.insert((at, timer));
    }

    /// Removes a timer; nothing happens if it was not armed for `at`.
    pub(crate) fn disarm(&mut self, at: Instant, timer: T) {
        self.due.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the first timer whose deadline has come.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first()
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }
}
