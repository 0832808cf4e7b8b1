//! Which tasks were made here, where several machines serve the same: a request about one is for the machine whose program
//! has it (TASK-26).

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::task_owners::MAX_TASK_ID;

/// Ids of tasks, the oldest of which are forgotten.
#[derive(Clone, Debug)]
pub(crate) struct MadeTasks {
    most: usize,
    known: HashSet<Arc<str>, FixedState>,
    /// The same, oldest first.
    order: VecDeque<Arc<str>>,
}

impl MadeTasks {
    /// Remembers so many at most.
    pub(crate) const fn new(most: usize, seed: u64) -> Self {
        Self { most, known: HashSet::with_hasher(FixedState::with_seed(seed)), order: VecDeque::new() }
    }

    pub(crate) fn insert(&mut self, id: &str) {
        if self.most == 0 || id.len() > MAX_TASK_ID || self.known.contains(id) {
            return;
        }
        if self.order.len() == self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let id: Arc<str> = id.into();
        self.known.insert(Arc::clone(&id));
        self.order.push_back(id);
    }

    pub(crate) fn contain(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let texts: usize = self.order.iter().map(|id| id.len()).sum();
        texts + (self.known.capacity() + self.order.capacity()) * size_of::<Arc<str>>()
    }

    /// Feeds what decides its future into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.order.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut made = MadeTasks::new(2, 0);
        for id in ["a", "b", "a", "c"] {
            made.insert(id);
        }
        made.insert(&"x".repeat(MAX_TASK_ID + 1));
        assert_eq!(["a", "b", "c"].map(|id| made.contain(id)), [false, true, true]);
        assert!(made.held() > 0);
        let mut none = MadeTasks::new(0, 0);
        none.insert("a");
        assert!(!none.contain("a"));
    }
}
