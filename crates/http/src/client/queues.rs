//! HTTP requests that wait to be handed out, and how many of each kind the driver has.

use std::collections::BTreeSet;

use super::{FetchKey, HttpClientConfig};

/// Where a request waits for its turn. Those before it go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// For what is one at a time, and delayed by nothing: a handshake, the stream that listens, the end of a session.
    Free,
    /// For cancels.
    Cancel,
    /// For answers to questions of the server, and notifications: a server can cause any number of them.
    Post,
    /// For requests of the local client, and what has to be found out for one.
    Call,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    waiting: [BTreeSet<FetchKey>; 4],
    /// How many of each the driver has.
    handed: [usize; 4],
}

impl Queue {
    const IN_ORDER: [Self; 4] = [Self::Free, Self::Cancel, Self::Post, Self::Call];

    /// How many of this kind the driver may have.
    const fn most(self, config: &HttpClientConfig) -> usize {
        match self {
            Self::Free => usize::MAX,
            Self::Cancel => config.max_cancels,
            Self::Post => config.max_posts,
            Self::Call => config.max_fetches,
        }
    }
}

impl Queues {
    pub(crate) fn insert(&mut self, queue: Queue, key: FetchKey) {
        self.waiting[queue as usize].insert(key);
    }

    /// Takes back what waits.
    pub(crate) fn remove(&mut self, queue: Queue, key: FetchKey) {
        self.waiting[queue as usize].remove(&key);
    }

    /// The next one that may be handed out, which the driver has now.
    pub(crate) fn hand_out(&mut self, config: &HttpClientConfig) -> Option<FetchKey> {
        let mut free = Queue::IN_ORDER.into_iter().filter(|queue| self.handed[*queue as usize] < queue.most(config));
        let queue = free.find(|queue| !self.waiting[*queue as usize].is_empty())?;
        self.handed[queue as usize] += 1;
        self.waiting[queue as usize].pop_first()
    }

    /// The driver has done with one of these.
    pub(crate) const fn hand_back(&mut self, queue: Queue) {
        self.handed[queue as usize] -= 1;
    }

    /// What waits in one of them, and how much of that may be handed out now.
    pub(crate) fn take(&mut self, queue: Queue, config: &HttpClientConfig) -> (BTreeSet<FetchKey>, usize) {
        let room = queue.most(config).saturating_sub(self.handed[queue as usize]);
        (core::mem::take(&mut self.waiting[queue as usize]), room)
    }

    pub(crate) fn contains(&self, queue: Queue, key: FetchKey) -> bool {
        self.waiting[queue as usize].contains(&key)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.iter().map(BTreeSet::len).sum()
    }

    /// How many of each the driver has.
    pub(crate) const fn handed(&self) -> [usize; 4] {
        self.handed
    }
}
