//! The hash of ids and names: seeded by the driver, the same on every run with the same seed.

use core::hash::{BuildHasher, Hash};

use foldhash::{SharedSeed, fast::SeedableRandomState};

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
}
