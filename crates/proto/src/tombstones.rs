//! Tombstones: ids and tokens that are settled, so that what comes late for them is recognised (D8).
//!
//! The way in is [`remember`](Memory::remember), the way out
//! [`prune`](Memory::prune), called on every way in and when
//! [`due`](Memory::due) has come: nothing outlives the longest age.

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::{HashTable, hash_table::Entry};

use crate::{hash::Seed, id::RequestId, time::Instant};

/// How many times the usual bound may be remembered while it is young.
pub(crate) const YOUNG: usize = 4;

/// How much is remembered, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Beyond this many, one that is older than `least` is forgotten.
    pub(crate) most: usize,
    pub(crate) least: Duration,
    pub(crate) longest: Duration,
}

impl Bounds {
    /// What a leak amounts to; only for [`SeededBug::LeakedTombstone`](crate::bug::SeededBug).
    pub(crate) const ENDLESS: Self = Self { most: usize::MAX, least: Duration::MAX, longest: Duration::MAX };

    /// Beyond this many, the oldest is forgotten whatever its age: a peer must not choose our memory.
    pub(crate) const fn hard(&self) -> usize {
        self.most.saturating_mul(YOUNG)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    tombstones: VecDeque<Tombstone>,
    /// The number of `tombstones[0]`; numbers wrap.
    first: u32,
    /// Numbers of the newest stone of each id.
    index: HashTable<u32>,
    /// Bytes that long ids own.
    bytes: usize,
    bounds: Bounds,
    seed: Seed,
}

/// Bytes of long ids beyond which the oldest are forgotten whatever their age.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
struct Tombstone {
    id: RequestId,
    at: Instant,
    settled_as: SettledAs,
}

/// What the other side was told of a remembered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SettledAs {
    Answered,
    /// Nothing, as its dialect demands: formally it is unanswered for ever (MCP-I03).
    Silenced,
}

impl Tombstones {
    pub(crate) const fn new(bounds: Bounds, seed: Seed) -> Self {
        Self { tombstones: VecDeque::new(), first: 0, index: HashTable::new(), bytes: 0, bounds, seed }
    }

    /// What became of the newest request with this id, if it is remembered.
    pub(crate) fn settled_as(&self, id: &RequestId) -> Option<SettledAs> {
        if self.tombstones.is_empty() {
            return None;
        }
        let Self { tombstones, first, index, seed, .. } = self;
        let number = index.find(seed.id(id), |&number| tombstone(tombstones, *first, number).id == *id)?;
        Some(tombstone(tombstones, *first, *number).settled_as)
    }

    /// Lays a tombstone; an older one of the same id is no longer found.
    pub(crate) fn remember(&mut self, now: Instant, id: RequestId, settled_as: SettledAs) {
        self.bytes += id.heap_bytes();
        let Self { tombstones, first, index, seed, .. } = self;
        let number = first.wrapping_add(tombstones.len() as u32);
        tombstones.push_back(Tombstone { id, at: now, settled_as });
        let id = &tombstone(tombstones, *first, number).id;
        let entry = index.entry(
            seed.id(id),
            |&other| tombstone(tombstones, *first, other).id == *id,
            |&other| seed.id(&tombstone(tombstones, *first, other).id),
        );
        match entry {
            Entry::Occupied(mut older) => *older.get_mut() = number,
            Entry::Vacant(place) => {
                place.insert(number);
            }
        }
        self.prune(now);
    }

    /// Forgets what is too old, and what is too much.
    pub(crate) fn prune(&mut self, now: Instant) {
        while let Some(oldest) = self.tombstones.front() {
            let (age, len) = (now.since(oldest.at), self.tombstones.len());
            let Bounds { most, least, longest } = self.bounds;
            let is_small = len <= self.bounds.hard() && self.bytes <= MAX_BYTES;
            if age < longest && (len <= most || age < least) && is_small {
                return;
            }
            let Self { tombstones, first, index, seed, .. } = self;
            let found = index.find_entry(seed.id(&tombstones[0].id), |&number| number == *first);
            if let Ok(entry) = found {
                entry.remove();
            }
            self.bytes -= tombstones.pop_front().map_or(0, |tombstone| tombstone.id.heap_bytes());
            *first = first.wrapping_add(1);
        }
    }

    /// When the oldest stone may be forgotten.
    pub(crate) fn due(&self) -> Option<Instant> {
        let Bounds { most, least, longest } = self.bounds;
        let age = if self.tombstones.len() > most { least.min(longest) } else { longest };
        self.tombstones.front().map(|oldest| oldest.at + age)
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        self.tombstones.capacity() * size_of::<Tombstone>() + self.index.allocation_size() + self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.tombstones.len()
    }

    /// When the oldest stone was laid.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.tombstones.front().map(|oldest| oldest.at)
    }

    /// Feeds ids, fates and ages into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for tombstone in &self.tombstones {
            (&tombstone.id, now.since(tombstone.at), tombstone.settled_as).hash(state);
        }
    }
}

fn tombstone(tombstones: &VecDeque<Tombstone>, first: u32, number: u32) -> &Tombstone {
    &tombstones[number.wrapping_sub(first) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { most: 2, least: Duration::from_secs(5), longest: Duration::from_secs(600) };

    fn at(seconds: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(seconds))
    }

    fn tombstones() -> Tombstones {
        Tombstones::new(BOUNDS, Seed::new(1))
    }

    fn id(value: i64) -> RequestId {
        RequestId::integer(value)
    }

    #[test]
    fn the_least_age_protects_what_is_too_much_and_the_longest_ends_it() {
        let mut tombstones = tombstones();
        for value in 0..4 {
            tombstones.remember(at(0), id(value), SettledAs::Answered);
        }
        assert_eq!((tombstones.len(), tombstones.due()), (4, Some(at(5))));
        tombstones.prune(at(5));
        assert_eq!((tombstones.len(), tombstones.due()), (2, Some(at(600))));
        assert_eq!(tombstones.settled_as(&id(1)), None);
        assert_eq!(tombstones.settled_as(&id(2)), Some(SettledAs::Answered));
        tombstones.prune(at(600));
        assert_eq!((tombstones.len(), tombstones.due()), (0, None));
    }

    #[test]
    fn a_flood_is_bounded_whatever_its_age() {
        let mut tombstones = tombstones();
        for value in 0..1000 {
            tombstones.remember(at(0), id(value), SettledAs::Answered);
        }
        assert_eq!(tombstones.len(), BOUNDS.hard());
        assert_eq!(tombstones.index.len(), BOUNDS.hard());
        assert_eq!(tombstones.settled_as(&id(999)), Some(SettledAs::Answered));
    }

    #[test]
    fn the_newest_of_one_id_counts_and_outlives_the_older() {
        let mut tombstones = tombstones();
        tombstones.remember(at(0), id(7), SettledAs::Silenced);
        tombstones.remember(at(1), id(7), SettledAs::Answered);
        assert_eq!(tombstones.settled_as(&id(7)), Some(SettledAs::Answered));
        tombstones.prune(at(600));
        assert_eq!((tombstones.len(), tombstones.settled_as(&id(7))), (1, Some(SettledAs::Answered)));
        tombstones.prune(at(601));
        assert_eq!((tombstones.len(), tombstones.index.len()), (0, 0));
    }
}
