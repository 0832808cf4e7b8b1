//! Tombstones in the order in which they were laid, and how long they stay.

use core::time::Duration;
use std::collections::VecDeque;

use crate::{slab::Key, time::Instant};

/// Tombstones that go at once: enough for their memory to arrive together.
pub(super) const BATCH: usize = 32;

/// How many are remembered, and how long (D8).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Beyond this many, one that is older than `least` is forgotten.
    pub most: usize,
    /// Beyond this many, a batch of the oldest is forgotten whatever its age: a peer must not choose how much is kept.
    pub hard: usize,
    /// Younger than this, one is kept until there are more than `hard`.
    pub least: Duration,
    /// Older ones are forgotten.
    pub longest: Duration,
}

impl Bounds {
    /// How many more may stay until a batch is full, or go with one that has to.
    fn slack(&self) -> usize {
        (self.most / 64).min(BATCH)
    }
}

/// An entry that has settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone {
    pub(super) key: Key,
    pub(super) at: Instant,
    /// Its id's hash, so that the index can be left without a look at the entry.
    pub(super) hash: u64,
}

/// Tombstones, oldest first. The oldest is one of an entry that is still there.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    pub(super) queue: VecDeque<Tombstone>,
    /// Those among them whose entry was removed before its time.
    pub(super) gone: usize,
}

impl Tombstones {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), gone: 0 }
    }

    /// Entries that lie here.
    pub(super) fn len(&self) -> usize {
        self.queue.len() - self.gone
    }

    pub(super) fn held(&self) -> usize {
        self.queue.capacity() * size_of::<Tombstone>()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.queue.front().map(|tombstone| tombstone.at)
    }

    /// When the oldest may be forgotten.
    pub(super) fn due(&self, bounds: &Bounds) -> Option<Instant> {
        self.oldest().map(|oldest| oldest + self.age(bounds))
    }

    /// How many of the oldest have to go now, at most a batch.
    #[inline]
    pub(super) fn expired(&self, now: Instant, bounds: &Bounds) -> usize {
        let Some(oldest) = self.oldest() else { return 0 };
        if self.len() > bounds.hard {
            // A few with it: one alone would wait for its memory, as each of them would.
            return (self.len() - bounds.hard + bounds.slack()).min(BATCH);
        }
        if now.since(oldest) < self.age(bounds) { 0 } else { self.count_expired(now, bounds) }
    }

    /// Whether some have to go, or may.
    #[inline]
    pub(super) fn is_full(&self, bounds: &Bounds) -> bool {
        self.len() > bounds.most.saturating_add(bounds.slack())
    }

    /// How old the oldest may become.
    #[inline]
    fn age(&self, bounds: &Bounds) -> Duration {
        if self.is_full(bounds) { bounds.least.min(bounds.longest) } else { bounds.longest }
    }

    #[cold]
    fn count_expired(&self, now: Instant, bounds: &Bounds) -> usize {
        let oldest = self.queue.iter().take(BATCH).enumerate();
        let is_expired = |(place, tombstone): &(usize, &Tombstone)| {
            let age = now.since(tombstone.at);
            age >= bounds.longest || (age >= bounds.least && self.len().saturating_sub(*place) > bounds.most)
        };
        oldest.take_while(is_expired).count()
    }

    /// An entry was removed that lies here.
    pub(super) fn note_gone(&mut self, is_there: impl Fn(Key) -> bool) {
        self.gone += 1;
        self.keep_oldest(&is_there);
        if self.gone > self.len() + BATCH {
            self.queue.retain(|tombstone| is_there(tombstone.key));
            self.gone = 0;
        }
        if self.queue.is_empty() {
            // A burst gives its room back.
            *self = Self::new();
        }
    }

    /// Drops those in front whose entry is gone.
    pub(super) fn keep_oldest(&mut self, is_there: impl Fn(Key) -> bool) {
        while self.gone > 0 && self.queue.pop_front_if(|tombstone| !is_there(tombstone.key)).is_some() {
            self.gone -= 1;
        }
    }
}
