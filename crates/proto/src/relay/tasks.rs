//! The tasks at work that one side's requests became, by their id (D56).
//!
//! Each stands in that side's table as an entry of its own, from its handle until it is known to be over. So many are kept;
//! what is beyond is counted.

use core::hash::{Hash, Hasher};

use crate::{hash::Seed, id::RequestId, slab::Key, turns::Turns};

/// Tasks of one side that are kept at most.
const MAX_TASKS: usize = 1024;

/// The longest ids that are kept, as JSON in bytes.
const MAX_ID: usize = 512;

/// The most bytes that the tasks of both sides hold: their entries, ids and cancels, and the index.
pub(super) const MAX_HELD: usize = 2 * MAX_TASKS * (4 << 10);

#[derive(Clone, Debug)]
pub(super) struct Tasks {
    by_id: Turns,
    /// How many names there have been.
    named: u64,
    /// Handles of tasks that were not kept.
    unkept: u64,
}

impl Tasks {
    pub(super) const fn new(seed: Seed) -> Self {
        Self { by_id: Turns::new(seed), named: 0, unkept: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Handles of tasks that were not kept.
    pub(super) const fn unkept(&self) -> u64 {
        self.unkept
    }

    /// The task of this id, as JSON.
    pub(super) fn find(&self, task: &[u8]) -> Option<Key> {
        if self.len() == 0 { None } else { self.by_id.nth(task, 0) }
    }

    /// Whether one more of this id has room; counts one that has not.
    pub(super) fn has_room(&mut self, task: &[u8]) -> bool {
        let has_room = task.len() <= MAX_ID && self.len() < MAX_TASKS;
        self.unkept += u64::from(!has_room);
        has_room
    }

    /// A name under which an entry may stand on the other side: nothing is ever sent under that.
    pub(super) fn next_name(&mut self) -> RequestId {
        self.named += 1;
        RequestId::string(&format!("rescind task {}", self.named))
    }

    pub(super) fn insert(&mut self, task: &[u8], key: Key) {
        self.by_id.insert(task, key);
    }

    pub(super) fn remove(&mut self, task: &[u8], key: Key) {
        self.by_id.remove(task, key);
    }

    /// Bytes of memory that the index holds; the tasks themselves stand in the table of requests.
    pub(super) fn held(&self) -> usize {
        self.by_id.held()
    }

    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        (self.len(), self.unkept).hash(state);
    }
}
