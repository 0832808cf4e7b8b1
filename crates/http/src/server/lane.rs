//! Timers of one length: they become due in the order in which they were armed.

use std::{collections::VecDeque, time::Duration};

use rescind_proto::time::Instant;

/// A queue of timers of one length.
#[derive(Clone, Debug)]
pub(crate) struct Lane<K> {
    length: Duration,
    /// How much sooner a timer may be due, so that it is due with the one before it.
    slack: Duration,
    queue: VecDeque<(Instant, K)>,
}

impl<K: Copy> Lane<K> {
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, slack: Duration::ZERO, queue: VecDeque::new() }
    }

    /// A queue of timers that are armed again when they are due: at once would be for ever.
    pub(crate) fn repeated(length: Duration) -> Self {
        Self::new(length.max(Duration::from_millis(1)))
    }

    /// The same with slack. Without it, ten thousand timers wake the driver ten thousand times.
    pub(crate) fn with_slack(self, slack: Duration) -> Self {
        Self { slack, ..self }
    }

    pub(crate) fn arm(&mut self, now: Instant, key: K) {
        let due = now + self.length;
        // Time never runs backwards, so the queue stays in order.
        let last = self.queue.back().map(|(last, _)| *last).filter(|last| due.since(*last) <= self.slack);
        self.queue.push_back((last.unwrap_or(due), key));
    }

    /// When the first of them is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// Takes the first of them if it is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let key = self.queue.pop_front().map(|(_, key)| key);
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        key
    }

    /// Drops timers that are not needed any more, once they may be most of them: `needed` are.
    pub(crate) fn compact(&mut self, needed: usize, is_needed: impl Fn(K) -> bool) {
        if self.queue.len() > 2 * needed + 64 {
            self.queue.retain(|(_, key)| is_needed(*key));
        }
    }

    /// What is armed, and for when.
    pub(crate) fn armed(&self) -> impl Iterator<Item = (Instant, K)> {
        self.queue.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn held(&self) -> usize {
        self.queue.capacity() * size_of::<(Instant, K)>()
    }

    /// Drops timers in front that are not needed any more, so that the driver is not woken for them.
    pub(crate) fn skip(&mut self, is_needed: impl Fn(K) -> bool) {
        while let Some((_, key)) = self.queue.front()
            && !is_needed(*key)
        {
            self.queue.pop_front();
        }
    }
}
