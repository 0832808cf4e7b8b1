//! A slab with generations: a key of something gone never finds its successor.

use core::num::{NonZeroU32, NonZeroU64};

/// Names an entry of a [`Slab`]; never equal to the key of a later entry in the same place.
///
/// Its place stands above its generation in one word: a processor waits for what is written by halves and soon after
/// read as a whole. Not zero, so an absent key takes no more room than a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key(NonZeroU64);

impl Key {
    /// A key that was written down: it finds its entry, or nothing.
    #[inline]
    pub(crate) fn from_parts(index: u32, generation: NonZeroU32) -> Self {
        Self(NonZeroU64::from(generation) | u64::from(index) << u32::BITS)
    }

    /// A key from its [word](Self::word); `None` if that is zero.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    pub(crate) const fn word(self) -> u64 {
        self.0.get()
    }

    pub(crate) const fn index(self) -> u32 {
        (self.0.get() >> u32::BITS) as u32
    }

    /// How many entries had the place before it, and one.
    pub(crate) const fn generation(self) -> u32 {
        self.0.get() as u32
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

/// The generation in front, beside what an entry is found by: they are looked at together.
#[derive(Clone, Debug)]
#[repr(C)]
struct Place<T> {
    generation: NonZeroU32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Bytes of memory held, capacities included, without what the entries own.
    pub(crate) const fn held(&self) -> usize {
        self.places.capacity() * size_of::<Place<T>>() + self.free.capacity() * size_of::<u32>()
    }

    /// The bound on entries is the caller's; `u32::MAX` of them would be 800 GB.
    pub(crate) fn insert(&mut self, entry: T) -> Key {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.entry = Some(entry);
            return Key::from_parts(index, place.generation);
        }
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place { generation: NonZeroU32::MIN, entry: Some(entry) });
        Key::from_parts(index, NonZeroU32::MIN)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation.get() != key.generation() {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = next(place.generation);
        self.free.push(key.index());
        Some(entry)
    }

    /// Drops an entry where it lies: large ones are not moved to be thrown away.
    pub(crate) fn discard(&mut self, key: Key) {
        if let Some(place) = self.places.get_mut(key.index() as usize)
            && place.generation.get() == key.generation()
            && place.entry.is_some()
        {
            place.entry = None;
            place.generation = next(place.generation);
            self.free.push(key.index());
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index() as usize)?;
        if place.generation.get() == key.generation() { place.entry.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index() as usize)?;
        if place.generation.get() == key.generation() { place.entry.as_mut() } else { None }
    }

    /// The entry at a bare index, as a hash index stores it.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.entry.as_ref()
    }

    /// The key of the entry at a bare index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        let place = self.places.get(index as usize)?;
        place.entry.is_some().then_some(Key::from_parts(index, place.generation))
    }

    /// All entries, to be changed, in index order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.entry.as_mut())
    }

    /// All entries in index order: the same order on every run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key::from_parts(index as u32, place.generation);
            place.entry.as_ref().map(|entry| (key, entry))
        })
    }
}

const fn next(generation: NonZeroU32) -> NonZeroU32 {
    match generation.checked_add(1) {
        Some(next) => next,
        None => NonZeroU32::MIN,
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
}
