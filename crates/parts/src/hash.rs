//! The hash of ids and names: seeded by the driver, the same on every run with the same seed.

use core::hash::{BuildHasher, Hash};

use foldhash::{SharedSeed, fast::SeedableRandomState};

use rescind_wire::id::RequestId;

/// Hashes under one seed, which peers do not know.
#[derive(Clone, Copy, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Hashes under `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The hash of any value.
    #[inline]
    pub fn hash(self, value: &(impl Hash + ?Sized)) -> u64 {
        SeedableRandomState::with_seed(self.0, SharedSeed::global_fixed()).hash_one(value)
    }

    /// The hash of an id.
    #[inline]
    pub fn id(self, id: &RequestId) -> u64 {
        match id.as_integer() {
            Some(integer) => self.integer(integer),
            None => self.hash(id),
        }
    }

    /// The hash of an id that is an integer.
    ///
    /// Most peers count their requests, and most requests are asked for in the order in which they were made. So
    /// sixteen neighbours lie side by side in a table, where one load from memory brings them all; where the sixteen
    /// lie, a peer cannot know. One that leaves fifteen of each sixteen out gets a table as good as any other: the
    /// sixteen places are then filled by as many strangers.
    #[inline]
    pub fn integer(self, integer: i64) -> u64 {
        let place = (integer & 15) as u64;
        // The upper bits tell those in one place apart, before anything is loaded.
        (self.hash(&(integer >> 4)) & !15 | place) ^ (place << 60)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Where the hash of an integer lies in a table of this many places, and what it is told apart by there.
    fn place(integer: i64, places: u64) -> (u64, u64) {
        let hash = Seed::new(7).integer(integer);
        (hash % places, hash >> 57)
    }

    #[test]
    fn sixteen_neighbours_lie_side_by_side_and_are_told_apart() {
        for first in [0, 16, 4096, -16, i64::MAX - 15] {
            let found: Vec<_> = (0..16).map(|offset| place(first + offset, 1 << 16)).collect();
            assert!(found.iter().zip(0..).all(|((at, _), offset)| *at == found[0].0 + offset), "{found:?}");
            assert_eq!(found.iter().map(|(_, tag)| tag).collect::<HashSet<_>>().len(), 16, "{found:?}");
        }
    }

    #[test]
    fn a_peer_that_leaves_fifteen_of_sixteen_ids_out_gets_a_table_as_good_as_any() {
        // As many strangers as there are sixteens of places: about a third of those stay empty, as with any hash.
        let starts: HashSet<_> = (0..4096).map(|number| place(number * 16, 1 << 16).0).collect();
        assert!((2400..2800).contains(&starts.len()), "{}", starts.len());
    }

    #[test]
    fn an_id_and_its_integer_have_one_hash() {
        let seed = Seed::new(7);
        assert_eq!(seed.id(&RequestId::integer(5)), seed.integer(5));
        assert_ne!(seed.id(&RequestId::string("5")), seed.integer(5));
    }
}
