//! A request's body, while it is being read.

use core::hash::{Hash, Hasher};

use crate::server::door::Holder;

/// A body that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) holder: Holder,
    pub(crate) bytes: Vec<u8>,
    /// Its length, by its head.
    pub(crate) declared: Option<usize>,
    /// What had come when its patience was last looked at.
    pub(crate) seen: usize,
}

impl Body {
    /// Bytes of memory that it holds.
    pub(crate) const fn held(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }

    /// Feeds what decides its future into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (&self.holder, &self.bytes, self.declared, self.seen).hash(state);
    }

    /// Makes room for so many bytes more: at most twice what is needed, and never more than was declared.
    pub(crate) fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let doubled = needed.max(2 * self.bytes.capacity());
            let wanted = self.declared.map_or(doubled, |declared| doubled.min(declared)).max(needed);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }
}
