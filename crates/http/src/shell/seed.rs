//! The seed of a machine's hash tables.

use std::hash::{BuildHasher, RandomState};

/// Returns the seed that was pinned, or draws one that a peer cannot guess if it is 0.
pub(super) fn pinned_or_drawn(seed: u64) -> u64 {
    if seed == 0 { RandomState::new().hash_one(0) } else { seed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_that_nobody_set_is_drawn_and_one_that_was_pinned_stays() {
        let drawn = [0; 20].map(pinned_or_drawn);
        assert!(drawn.iter().all(|seed| *seed != 0));
        assert!(drawn.windows(2).all(|two| two[0] != two[1]), "{drawn:?}");
        assert_eq!([1, 7, u64::MAX].map(pinned_or_drawn), [1, 7, u64::MAX]);
    }
}
