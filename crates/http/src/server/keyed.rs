//! Tables that are asked by key. A debug build counts how often, so that a test holds what a POSTed call costs.

use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, btree_map::Entry};

/// A table each use of which counts as a look-up by key in a debug build. What goes through all of it, or asks how much
/// there is, need not count: that takes the table itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyed<T>(pub(crate) T);

impl<T> Deref for Keyed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        note_look_up();
        &self.0
    }
}

impl<T> DerefMut for Keyed<T> {
    fn deref_mut(&mut self) -> &mut T {
        note_look_up();
        &mut self.0
    }
}

impl<K: Ord, V> Keyed<BTreeMap<K, V>> {
    /// The place of a key among all, for those who check: nothing else of a key matters.
    pub(crate) fn rank(&self, key: K) -> Option<usize> {
        self.contains_key(&key).then(|| self.range(..key).count())
    }

    /// Removes what is at this key, if it is such.
    pub(crate) fn remove_if(&mut self, key: K, is: impl FnOnce(&mut V) -> bool) -> Option<V> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => is(entry.get_mut()).then(|| entry.remove()),
            Entry::Vacant(_) => None,
        }
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
