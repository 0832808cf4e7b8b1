//! The hash of ids and names: seeded by the driver, the same on every run with the same seed.

use core::hash::{BuildHasher, Hash};

use foldhash::{SharedSeed, fast::SeedableRandomState};

use crate::id::RequestId;

/// Hashes under one seed, which peers do not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn hash(self, value: &(impl Hash + ?Sized)) -> u64 {
        SeedableRandomState::with_seed(self.0, SharedSeed::global_fixed()).hash_one(value)
    }

    /// The hash of an id.
    #[inline]
    pub(crate) fn id(self, id: &RequestId) -> u64 {
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
    pub(crate) fn integer(self, integer: i64) -> u64 {
        let place = (integer & 15) as u64;
        // The upper bits tell those in one place apart, before anything is loaded.
        (self.hash(&(integer >> 4)) & !15 | place) ^ (place << 60)
    }
}
