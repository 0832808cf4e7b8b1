//! Timers of one length: they become due in the order in which they were armed.

use std::{collections::VecDeque, time::Duration};

use rescind_proto::time::Instant;

/// A queue of timers of one length.
#[derive(Clone, Debug)]
pub(crate) struct Lane<K> {
    length: Duration,
    queue: VecDeque<(Instant, K)>,
}

impl<K: Copy> Lane<K> {
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, queue: VecDeque::new() }
    }

    pub(crate) fn arm(&mut self, now: Instant, key: K) {
        // Time never runs backwards, so the queue stays in order.
        self.queue.push_back((now + self.length, key));
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

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn held(&self) -> usize {
        self.queue.capacity() * size_of::<(Instant, K)>()
    }

    /// Drops timers in front that are not needed any more, so that nobody is woken for them.
    pub(crate) fn skip(&mut self, is_needed: impl Fn(K) -> bool) {
        while let Some((_, key)) = self.queue.front()
            && !is_needed(*key)
        {
            self.queue.pop_front();
        }
    }
}
