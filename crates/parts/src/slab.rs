//! A slab with generations: a key of something gone never finds its successor.

use core::num::{NonZeroU32, NonZeroU64};

/// Names an entry of a [`Slab`]; never equal to the key of a later entry in the same place.
///
/// Its place stands above its generation in one word: a processor waits for what is written by halves and soon after
/// read as a whole. Not zero, so an absent key takes no more room than a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(NonZeroU64);

impl Key {
    /// A key that was written down: it finds its entry, or nothing.
    pub fn from_parts(index: u32, generation: NonZeroU32) -> Self {
        Self(NonZeroU64::from(generation) | u64::from(index) << u32::BITS)
    }

    /// A key from its [word](Self::word); `None` if that is zero.
    pub fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    /// The key in one word, which is not zero.
    pub const fn word(self) -> u64 {
        self.0.get()
    }

    /// Its place: the number of the entry in the order of [`Slab::iter`].
    pub const fn index(self) -> u32 {
        (self.0.get() >> u32::BITS) as u32
    }

    /// How many entries had the place before it, and one.
    pub const fn generation(self) -> u32 {
        self.0.get() as u32
    }
}

/// Entries by key. Insertion, look-up and removal take constant time; a place that is free is taken again.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    /// The place that is taken next; [`NONE`] if there is an entry in each.
    free: u32,
    len: u32,
}

/// No place: the bound on entries is the caller's, and no memory holds so many.
const NONE: u32 = u32::MAX;

/// The generation in front, beside what an entry is found by: they are looked at together.
#[derive(Clone, Debug)]
#[repr(C)]
struct Place<T> {
    generation: NonZeroU32,
    /// The free place that is taken after this one, if this one is free.
    next_free: u32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    /// No entries, and no memory.
    pub const fn new() -> Self {
        Self { places: Vec::new(), free: NONE, len: 0 }
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes of memory held, capacities included, without what the entries own.
    pub const fn held(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>()
    }

    /// Takes an entry in.
    pub fn insert(&mut self, entry: T) -> Key {
        self.len += 1;
        if let Some(place) = self.places.get_mut(self.free as usize) {
            let index = core::mem::replace(&mut self.free, place.next_free);
            place.entry = Some(entry);
            return Key::from_parts(index, place.generation);
        }
        if self.places.is_empty() {
            // Many a table has one entry and no more.
            self.places.reserve_exact(1);
        }
        let index = u32::try_from(self.places.len()).unwrap_or(NONE);
        self.places.push(Place { generation: NonZeroU32::MIN, next_free: NONE, entry: Some(entry) });
        Key::from_parts(index, NonZeroU32::MIN)
    }

    /// Takes an entry out; `None` if it is gone.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.vacate(key)?.take()
    }

    /// Drops an entry where it lies: large ones are not moved to be thrown away.
    pub fn discard(&mut self, key: Key) {
        if let Some(entry) = self.vacate(key) {
            *entry = None;
        }
    }

    /// Frees a place, in which the entry still lies.
    fn vacate(&mut self, key: Key) -> Option<&mut Option<T>> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation.get() != key.generation() || place.entry.is_none() {
            return None;
        }
        place.generation = place.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        place.next_free = core::mem::replace(&mut self.free, key.index());
        self.len -= 1;
        Some(&mut place.entry)
    }

    /// The entry, unless it is gone.
    pub fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index() as usize)?;
        if place.generation.get() == key.generation() { place.entry.as_ref() } else { None }
    }

    /// The entry, to be changed, unless it is gone.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation.get() == key.generation() { place.entry.as_mut() } else { None }
    }

    /// The entry at a bare index, as a hash index stores it.
    pub fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.entry.as_ref()
    }

    /// The key of the entry at a bare index.
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let place = self.places.get(index as usize)?;
        place.entry.is_some().then_some(Key::from_parts(index, place.generation))
    }

    /// All entries, to be changed, in index order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.entry.as_mut())
    }

    /// All entries in index order: the same order on every run.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key::from_parts(index as u32, place.generation);
            place.entry.as_ref().map(|entry| (key, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_something_gone_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn places_are_taken_again_the_last_one_first_and_none_is_lost_or_taken_twice() {
        let (mut slab, mut free, mut keys) = (Slab::new(), Vec::new(), Vec::<(Key, u32)>::new());
        let (mut state, mut places) = (1_u64, 0);
        for value in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let dice = (state >> 33) as usize;
            // It fills and empties in turn.
            if dice % 100 < if value / 1000 % 2 == 0 { 60 } else { 40 } || keys.is_empty() {
                let key = slab.insert(value);
                assert_eq!(key.index(), free.pop().unwrap_or(places));
                places = places.max(key.index() + 1);
                keys.push((key, value));
            } else {
                let (key, value) = keys.swap_remove(dice / 100 % keys.len());
                if dice.is_multiple_of(2) {
                    assert_eq!(slab.remove(key), Some(value));
                } else {
                    slab.discard(key);
                }
                assert_eq!((slab.remove(key), slab.get(key)), (None, None));
                slab.discard(key);
                free.push(key.index());
            }
            assert_eq!(slab.len(), keys.len());
        }
        assert!(keys.iter().all(|(key, value)| slab.get(*key) == Some(value)));
        assert_eq!(slab.iter().count(), keys.len());
    }
}
