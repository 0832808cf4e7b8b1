//! Where entries lie in a slab, by the hash of something that they are found by.

use hashbrown::HashTable;

/// An index stores no key twice: it names places, and who asks looks there.
#[derive(Clone, Debug, Default)]
pub struct Index {
    slots: HashTable<Slot>,
}

/// Half of the hash stands beside the place: so the index grows without a look at any entry, and most places that hold
/// something else are passed over without one.
#[derive(Clone, Copy, Debug)]
struct Slot {
    half: u32,
    at: u32,
}

/// Both ends of a hash count in a table: the lower bits choose a place, the upper ones tell apart who shares it.
const fn half(hash: u64) -> u32 {
    (hash >> u32::BITS ^ hash) as u32
}

const fn whole(half: u32) -> u64 {
    (half as u64) << u32::BITS | half as u64
}

impl Index {
    /// Nothing is listed.
    pub const fn new() -> Self {
        Self { slots: HashTable::new() }
    }

    /// How many are listed.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of memory held, capacities included.
    pub fn held(&self) -> usize {
        self.slots.allocation_size()
    }

    /// Lists the entry at this place under this hash.
    #[inline]
    pub fn insert(&mut self, hash: u64, at: u32) {
        let half = half(hash);
        self.slots.insert_unique(whole(half), Slot { half, at }, |slot| whole(slot.half));
    }

    /// The place under this hash that `is` confirms.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let half = half(hash);
        self.slots.find(whole(half), |slot| slot.half == half && is(slot.at)).map(|slot| slot.at)
    }

    /// Removes a place; nothing happens if it is not under this hash.
    #[inline]
    pub fn remove(&mut self, hash: u64, at: u32) {
        let half = half(hash);
        if let Ok(slot) = self.slots.find_entry(whole(half), |slot| slot.half == half && slot.at == at) {
            slot.remove();
        }
    }
}
