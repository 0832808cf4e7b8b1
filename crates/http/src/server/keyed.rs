//! Tables that are asked by key. A debug build counts how often, so that a test holds what a POSTed call costs.

use core::{
    hash::{BuildHasher, Hash},
    ops::{Deref, DerefMut},
};
use std::collections::{BTreeMap, btree_map::Entry};

use hashbrown::{Equivalent, HashMap};
use rescind_proto::holder::{Holder, Shares};

/// A table that counts its look-ups by key in a debug build. What goes through all of it is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed<T>(pub(crate) T);

impl<T> Deref for Keyed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Keyed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<K: Ord, V> Keyed<BTreeMap<K, V>> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        note_look_up();
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        note_look_up();
        self.0.get_mut(key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        note_look_up();
        self.0.contains_key(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        note_look_up();
        self.0.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        note_look_up();
        self.0.remove(key)
    }

    /// The place of a key among all, for those who check: nothing else of a key matters.
    pub(crate) fn rank(&self, key: K) -> Option<usize> {
        self.0.contains_key(&key).then(|| self.0.range(..key).count())
    }

    /// Removes what is at this key, if it is such.
    pub(crate) fn remove_if(&mut self, key: K, is: impl FnOnce(&mut V) -> bool) -> Option<V> {
        note_look_up();
        match self.0.entry(key) {
            Entry::Occupied(mut entry) => is(entry.get_mut()).then(|| entry.remove()),
            Entry::Vacant(_) => None,
        }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Keyed<HashMap<K, V, S>> {
    pub(crate) fn get<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<&V> {
        note_look_up();
        self.0.get(key)
    }

    pub(crate) fn contains_key<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> bool {
        note_look_up();
        self.0.contains_key(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        note_look_up();
        self.0.insert(key, value)
    }

    pub(crate) fn remove<Q: Equivalent<K> + Hash + ?Sized>(&mut self, key: &Q) -> Option<V> {
        note_look_up();
        self.0.remove(key)
    }
}

impl<K: Copy + Ord> Keyed<Shares<K>> {
    pub(crate) fn set(&mut self, holder: &Holder, key: K, size: usize) {
        note_look_up();
        self.0.set(holder, key, size);
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static LOOK_UPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts one look-up.
#[inline]
pub(crate) fn note_look_up() {
    #[cfg(debug_assertions)]
    LOOK_UPS.set(LOOK_UPS.get() + 1);
}

/// How many look-ups by key all servers of this thread have made; only a debug build counts them.
#[cfg(debug_assertions)]
#[doc(hidden)]
#[must_use]
pub fn look_ups() -> u64 {
    LOOK_UPS.get()
}
