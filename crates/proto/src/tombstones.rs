//! Tombstones: ids and tokens that are settled, so that what comes late for them is recognised (D8).
//!
//! The way in is [`remember`](Tombstones::remember), the way out [`prune`](Tombstones::prune), called on every way in and
//! when [`due`](Tombstones::due) has come: nothing outlives the longest age.

use crate::{
    hash::Seed,
    id::RequestId,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
};

/// How many times the usual bound may be remembered while it is young.
pub(crate) const YOUNG: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    /// There while anything is remembered. All lie in the ring [`RING`] from the start; the newest of each id is found by
    /// it.
    table: Option<Box<Table<Tombstone>>>,
    /// Bytes that long ids own.
    bytes: usize,
    bounds: Bounds,
    seed: Seed,
}

const RING: Ring = Ring::Over;

/// Bytes of long ids beyond which the oldest are forgotten whatever their age.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
struct Tombstone {
    id: RequestId,
    settled_as: SettledAs,
}

impl Entry for Tombstone {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.id
    }
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
        Self { table: None, bytes: 0, bounds, seed }
    }

    /// What became of the newest request with this id, if it is remembered.
    pub(crate) fn settled_as(&self, id: &RequestId) -> Option<SettledAs> {
        let table = self.table.as_deref()?;
        table.get(table.by_id(id)?).map(|tombstone| tombstone.settled_as)
    }

    /// Lays a tombstone; an older one of the same id is no longer found.
    pub(crate) fn remember(&mut self, now: Instant, id: RequestId, settled_as: SettledAs) {
        let table = self.table.get_or_insert_with(|| Box::new(Table::new(self.seed)));
        let hash = table.hash(&id);
        if let Some(older) = table.find(hash, |tombstone| tombstone.id == id) {
            table.unlist(older);
        }
        self.bytes += id.heap_bytes();
        let key = table.insert(hash, Tombstone { id, settled_as });
        table.retire(key, now, RING);
        self.prune(now);
    }

    /// Forgets what is too old, and what is too much.
    pub(crate) fn prune(&mut self, now: Instant) {
        let Self { table: Some(table), bytes, bounds, .. } = self else { return };
        table.prune(RING, now, bounds, |_, tombstone| *bytes -= tombstone.id.heap_bytes());
        while *bytes > MAX_BYTES
            && let Some(oldest) = table.pop_oldest(RING)
        {
            *bytes -= table.remove(oldest, None).map_or(0, |tombstone| tombstone.id.heap_bytes());
        }
        if table.len() == 0 {
            self.table = None;
        }
    }

    /// When the oldest may be forgotten.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.table.as_deref()?.due(RING, &self.bounds)
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.table.as_deref().map_or(0, |table| size_of_val(table) + table.held())
    }

    pub(crate) fn len(&self) -> usize {
        self.table.as_deref().map_or(0, Table::len)
    }

    /// When the oldest was laid.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.table.as_deref()?.oldest()
    }

    /// Feeds ids, what became of them and ages into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        if let Some(table) = &self.table {
            for (key, at) in table.tombstones() {
                table.get(key).map(|tombstone| (&tombstone.id, now.since(at), tombstone.settled_as)).hash(state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { most: 2, hard: 8, least: Duration::from_secs(5), longest: Duration::from_secs(600) };

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
        assert_eq!(tombstones.len(), BOUNDS.hard);
        let table = tombstones.table.as_ref().unwrap();
        assert_eq!(table.listed().0, BOUNDS.hard);
        assert_eq!(tombstones.held(), size_of::<Table<Tombstone>>() + table.held());
        assert_eq!(tombstones.settled_as(&id(999)), Some(SettledAs::Answered));
    }

    #[test]
    fn long_ids_are_bounded_in_bytes_whatever_their_number() {
        let mut tombstones = Tombstones::new(Bounds { most: 1000, hard: 1000, ..BOUNDS }, Seed::new(1));
        let long = |value: u8| RequestId::string(&char::from(value).to_string().repeat(MAX_BYTES / 8));
        for value in b'a'..=b'z' {
            tombstones.remember(at(0), long(value), SettledAs::Answered);
        }
        assert!(tombstones.bytes <= MAX_BYTES, "{} bytes of ids", tombstones.bytes);
        assert_eq!(tombstones.settled_as(&long(b'a')), None);
        assert_eq!(tombstones.settled_as(&long(b'z')), Some(SettledAs::Answered));
    }

    #[test]
    fn past_the_hard_bound_a_batch_goes_at_once() {
        let mut tombstones = Tombstones::new(Bounds { most: 2048, hard: 4096, ..BOUNDS }, Seed::new(1));
        for value in 0..=4096 {
            tombstones.remember(at(0), id(value), SettledAs::Answered);
        }
        assert_eq!(tombstones.len(), 4097 - 32);
        assert_eq!(tombstones.settled_as(&id(31)), None);
        assert_eq!(tombstones.settled_as(&id(32)), Some(SettledAs::Answered));
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
        assert!(tombstones.table.is_none());
    }
}
