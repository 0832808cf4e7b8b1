//! A slab with generations: a key of something gone never finds its successor.

use core::num::NonZeroU32;

/// Names an entry of a [`Slab`]; never equal to the key of a later entry in the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key {
    index: u32,
    /// Not zero: so an absent key takes no more room than a key.
    generation: NonZeroU32,
}

impl Key {
    pub(crate) const fn index(self) -> u32 {
        self.index
    }

    /// How many entries had the place before it, and one.
    pub(crate) const fn generation(self) -> NonZeroU32 {
        self.generation
    }

    /// The key in one word: its place above its generation.
    pub(crate) const fn packed(self) -> u64 {
        (self.index as u64) << u32::BITS | self.generation.get() as u64
    }

    /// A key that was [packed](Self::packed); `None` if its generation is zero, which no key has.
    #[inline]
    pub(crate) fn unpacked(word: u64) -> Option<Self> {
        let generation = NonZeroU32::new(word as u32)?;
        Some(Self { index: (word >> u32::BITS) as u32, generation })
    }

    /// A key that was written down: it finds its entry, or nothing.
    pub(crate) const fn from_parts(index: u32, generation: NonZeroU32) -> Self {
        Self { index, generation }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
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
            return Key { index, generation: place.generation };
        }
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place { generation: NonZeroU32::MIN, entry: Some(entry) });
        Key { index, generation: NonZeroU32::MIN }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = next(place.generation);
        self.free.push(key.index);
        Some(entry)
    }

    /// Drops an entry where it lies: large ones are not moved to be thrown away.
    pub(crate) fn discard(&mut self, key: Key) {
        if let Some(place) = self.places.get_mut(key.index as usize)
            && place.generation == key.generation
            && place.entry.is_some()
        {
            place.entry = None;
            place.generation = next(place.generation);
            self.free.push(key.index);
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.entry.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.entry.as_mut() } else { None }
    }

    /// The entry at a bare index, as a hash index stores it.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.entry.as_ref()
    }

    /// The key of the entry at a bare index.
    pub(crate) fn key_at(&self, index: u32) -> Option<Key> {
        let place = self.places.get(index as usize)?;
        place.entry.is_some().then_some(Key { index, generation: place.generation })
    }

    /// All entries, to be changed, in index order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.entry.as_mut())
    }

    /// All entries in index order: the same order on every run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key { index: index as u32, generation: place.generation };
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
