//! Entries found by key, by id and by token: what stands under every table of the machines.
//!
//! A table holds what has an id and may settle before it is forgotten. An entry that has settled stays in its place as
//! its own tombstone, so there is one lifetime and one index per request. Each entry has one way in,
//! [`insert`](Table::insert), and two ways out: [`remove`](Table::remove) at any time, or
//! [`retire`](Table::retire), after which [`prune`](Table::prune) or [`expired`](Table::expired) forgets it when it is
//! too old or one too many (D8).
//!
//! How a machine's own table stands on it:
//!
//! 1. Implement [`Entry`] for what it holds: the id (a received id, or a number of ours) and the tokens.
//! 2. Wrap `Table<E>` and add what only that machine counts. Count on the way in, beside `insert`; undo it in the closure
//!    that `prune` calls, or beside `remove`.
//! 3. What is looked for among entries of the same id (the newest, one that may still be answered) is the predicate of
//!    [`find`](Table::find). A predicate does not bound how many it passes over: [`unlist`](Table::unlist) an entry that
//!    was replaced as soon as nobody asks for it by its id.
//! 4. On settling, change the entry and `retire` it into the ring whose [`Bounds`] it is under. What is never a
//!    tombstone is only ever removed.
//! 5. [`check`](Table::check), [`held`](Table::held) and [`residue`](Table::residue) are parts of the machine's own.
//!
//! Nothing iterates an index: entries come in the order of their places, which is the same on every run.

mod index;
mod ring;

use core::hint::black_box;

use hashbrown::{HashTable, hash_table};
use rescind_wire::id::RequestId;

pub use index::Index;
pub use ring::Bounds;

use crate::{
    hash::Seed,
    slab::{Key, Slab},
    time::Instant,
};
use ring::{Tombstone, Tombstones};

/// Something that a table holds.
pub trait Entry {
    /// The type of its id.
    type Id: TableId;

    /// What the id index finds it by; never changes.
    fn id(&self) -> &Self::Id;

    /// What the token index finds it by; never changes but by [`Table::unlist_tokens`].
    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        core::iter::empty()
    }
}

/// An id of entries.
pub trait TableId: PartialEq {
    /// Its hash, the same on every run with the same seed.
    fn hash(&self, seed: Seed) -> u64;
}

impl TableId for RequestId {
    #[inline]
    fn hash(&self, seed: Seed) -> u64 {
        seed.id(self)
    }
}

impl TableId for i64 {
    #[inline]
    fn hash(&self, seed: Seed) -> u64 {
        seed.integer(*self)
    }
}

/// Where a tombstone lies: each ring has bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Nothing is owed for it any more.
    Over,
    /// It may still be answered.
    Abandoned,
}

/// Entries by key, by id and by token. A driver hands in the seed of its hashes.
#[derive(Clone, Debug)]
pub struct Table<E> {
    slab: Slab<E>,
    /// Entries by their id, but for those that were [unlisted](Table::unlist). A million of them are in flight at once, so
    /// it holds places and nothing else.
    ids: HashTable<u32>,
    tokens: Index,
    rings: Rings,
}

/// What a table knows of its tombstones, apart from the entries: so an entry can be settled by who works on it.
#[derive(Clone, Debug)]
pub struct Rings {
    /// By [`Ring`].
    tombstones: [Tombstones; 2],
    /// Entries in flight: those that were not retired.
    live: usize,
    /// The places of all entries in flight, combined by exclusive or: the place of the only one, if there is one.
    live_places: u32,
    seed: Seed,
}

impl Rings {
    /// Makes a tombstone of an entry in flight. What says so in the entry itself is the caller's to change.
    #[inline]
    pub fn retire<E: Entry>(&mut self, key: Key, entry: &E, now: Instant, ring: Ring) {
        self.forget_live(key);
        let tombstone = Tombstone { key, at: now, hash: entry.id().hash(self.seed) };
        self.ring_mut(ring).queue.push_back(tombstone);
    }

    /// Entries in flight.
    pub const fn live(&self) -> usize {
        self.live
    }

    const fn note_live(&mut self, key: Key) {
        self.live += 1;
        self.live_places ^= key.index();
    }

    const fn forget_live(&mut self, key: Key) {
        self.live -= 1;
        self.live_places ^= key.index();
    }

    const fn ring(&self, ring: Ring) -> &Tombstones {
        &self.tombstones[ring as usize]
    }

    const fn ring_mut(&mut self, ring: Ring) -> &mut Tombstones {
        &mut self.tombstones[ring as usize]
    }
}

impl<E: Entry> Table<E> {
    /// No entries, and no memory.
    pub const fn new(seed: Seed) -> Self {
        Self {
            slab: Slab::new(),
            ids: HashTable::new(),
            tokens: Index::new(),
            rings: Rings { tombstones: [const { Tombstones::new() }; 2], live: 0, live_places: 0, seed },
        }
    }

    /// Everything in the table.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Entries in flight: those that were not retired.
    #[inline]
    pub const fn live(&self) -> usize {
        self.rings.live()
    }

    /// Tombstones.
    pub fn retired(&self) -> usize {
        self.rings.tombstones.iter().map(Tombstones::len).sum()
    }

    /// The entry in flight, if it is the only one.
    pub fn only_live(&self) -> Option<Key> {
        if self.live() == 1 { self.slab.key_at(self.rings.live_places) } else { None }
    }

    /// The entry, in flight or a tombstone; `None` once it is forgotten.
    pub fn get(&self, key: Key) -> Option<&E> {
        self.slab.get(key)
    }

    /// The entry, to be changed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut E> {
        self.slab.get_mut(key)
    }

    /// All entries, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &E)> {
        self.slab.iter()
    }

    /// All entries, to be changed, in the order of their places.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.slab.iter_mut()
    }

    /// Keys of the entries to which `order` gives a place, in that order.
    pub fn keys_by<O: Ord>(&self, order: impl Fn(&E) -> Option<O>) -> Vec<Key> {
        let mut found: Vec<_> = self.iter().filter_map(|(key, entry)| Some((order(entry)?, key))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, key)| key).collect()
    }

    /// The hash of an id, for [`find`](Self::find) and [`insert`](Self::insert).
    #[inline]
    pub fn hash(&self, id: &E::Id) -> u64 {
        id.hash(self.rings.seed)
    }

    /// Takes an entry in under the hash of its id.
    #[inline]
    pub fn insert(&mut self, hash: u64, entry: E) -> Key {
        let Self { slab, ids, rings: Rings { seed, .. }, .. } = self;
        let key = slab.insert(entry);
        ids.insert_unique(hash, key.index(), |at| slab.at(*at).map_or(0, |entry| entry.id().hash(*seed)));
        self.rings.note_live(key);
        for token in self.slab.get(key).into_iter().flat_map(E::tokens) {
            self.tokens.insert(self.rings.seed.id(token), key.index());
        }
        key
    }

    /// Takes an entry in under the hash of its id, unless there is one with this id.
    pub fn insert_new(&mut self, hash: u64, entry: E) -> Result<Key, E> {
        let Self { slab, ids, rings: Rings { seed, .. }, .. } = self;
        let is = |at: &u32| slab.at(*at).is_some_and(|known| known.id() == entry.id());
        let place = ids.entry(hash, is, |at| slab.at(*at).map_or(0, |entry| entry.id().hash(*seed)));
        let hash_table::Entry::Vacant(place) = place else { return Err(entry) };
        let key = slab.insert(entry);
        place.insert(key.index());
        self.rings.note_live(key);
        for token in self.slab.get(key).into_iter().flat_map(E::tokens) {
            self.tokens.insert(self.rings.seed.id(token), key.index());
        }
        Ok(key)
    }

    /// The entry that `is` confirms among those whose id has this hash.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(&E) -> bool) -> Option<Key> {
        self.slab.key_at(*self.ids.find(hash, |at| self.slab.at(*at).is_some_and(&is))?)
    }

    /// The entry that `is` confirms under a hash of an index of the caller's own.
    #[inline]
    pub fn look_up(&self, index: &Index, hash: u64, is: impl Fn(&E) -> bool) -> Option<Key> {
        self.slab.key_at(index.find(hash, |at| self.slab.at(at).is_some_and(&is))?)
    }

    /// The entry with this id, where no two have the same.
    #[inline]
    pub fn by_id(&self, id: &E::Id) -> Option<Key> {
        self.find(self.hash(id), |entry| entry.id() == id)
    }

    /// The entry that reports under `token`; one that is `wanted` before others.
    pub fn by_token(&self, token: &RequestId, wanted: impl Fn(&E) -> bool) -> Option<Key> {
        if self.tokens.is_empty() {
            return None;
        }
        let hash = self.rings.seed.id(token);
        let is = |entry: &E| entry.tokens().any(|own| own == token);
        let found = self.look_up(&self.tokens, hash, |entry| is(entry) && wanted(entry));
        found.or_else(|| self.look_up(&self.tokens, hash, is))
    }

    /// No id finds this entry any more.
    pub fn unlist(&mut self, key: Key) {
        let Some(entry) = self.slab.get(key) else { return };
        unlist(&mut self.ids, entry.id().hash(self.rings.seed), key);
    }

    /// No token finds this entry any more.
    pub fn unlist_tokens(&mut self, key: Key) {
        for token in self.slab.get(key).into_iter().flat_map(E::tokens) {
            self.tokens.remove(self.rings.seed.id(token), key.index());
        }
    }

    /// An entry, and what it is settled with ([`Rings::retire`]).
    #[inline]
    pub fn entry_mut(&mut self, key: Key) -> Option<(&mut E, &mut Rings)> {
        Some((self.slab.get_mut(key)?, &mut self.rings))
    }

    /// Makes a tombstone of an entry in flight, as [`Rings::retire`] does.
    pub fn retire(&mut self, key: Key, now: Instant, ring: Ring) -> Option<&mut E> {
        let (entry, rings) = self.entry_mut(key)?;
        rings.retire(key, entry, now, ring);
        Some(entry)
    }

    /// Removes an entry, in flight or from the `ring` in which it lies.
    pub fn remove(&mut self, key: Key, ring: Option<Ring>) -> Option<E> {
        let entry = self.slab.remove(key)?;
        unlist(&mut self.ids, entry.id().hash(self.rings.seed), key);
        for token in entry.tokens() {
            self.tokens.remove(self.rings.seed.id(token), key.index());
        }
        match ring {
            None => self.rings.forget_live(key),
            Some(ring) => self.rings.ring_mut(ring).note_gone(|key| self.slab.get(key).is_some()),
        }
        Some(entry)
    }

    /// Removes the entry in flight that `is` confirms among those whose id has this hash: found and removed at once.
    pub fn take(&mut self, hash: u64, is: impl Fn(&E) -> bool) -> Option<(Key, E)> {
        let Self { slab, ids, .. } = self;
        let place = ids.find_entry(hash, |at| slab.at(*at).is_some_and(&is)).ok()?;
        let key = slab.key_at(place.remove().0)?;
        let entry = slab.remove(key)?;
        for token in entry.tokens() {
            self.tokens.remove(self.rings.seed.id(token), key.index());
        }
        self.rings.forget_live(key);
        Some((key, entry))
    }

    /// Whether a ring has so many that some have to go, or may.
    #[inline]
    pub fn is_full(&self, ring: Ring, bounds: &Bounds) -> bool {
        self.rings.ring(ring).is_full(bounds)
    }

    /// Forgets the oldest of a ring, a batch at a time: those that are too old, and those that are too many. A few more
    /// may stay until a batch is full. `forget` sees each before it goes.
    #[inline]
    pub fn prune(&mut self, ring: Ring, now: Instant, bounds: &Bounds, mut forget: impl FnMut(Key, &E)) {
        while let count @ 1.. = self.rings.ring(ring).expired(now, bounds) {
            self.forget(ring, count, &mut forget);
        }
    }

    /// Forgets the oldest `count` of a ring.
    ///
    /// They were settled long ago and have left the caches. Looking at all of them before removing the first lets their
    /// memory arrive together instead of one after the other: at a million requests a third of the time.
    #[inline(never)]
    fn forget(&mut self, ring: Ring, count: usize, forget: &mut impl FnMut(Key, &E)) {
        let oldest = self.rings.ring(ring).queue.iter().take(count);
        black_box(oldest.filter(|tombstone| self.is_listed(tombstone)).count());
        for _ in 0..count {
            let Some(Tombstone { key, hash, .. }) = self.rings.ring_mut(ring).queue.pop_front() else { return };
            let Some(entry) = self.slab.get(key) else {
                self.rings.ring_mut(ring).gone -= 1;
                continue;
            };
            forget(key, entry);
            unlist(&mut self.ids, hash, key);
            for token in entry.tokens() {
                self.tokens.remove(self.rings.seed.id(token), key.index());
            }
            self.slab.discard(key);
        }
        self.keep_oldest(ring);
    }

    /// Looks at everything that is touched when a tombstone is forgotten.
    fn is_listed(&self, tombstone: &Tombstone) -> bool {
        let is_there = self.slab.get(tombstone.key).is_some();
        self.ids.find(tombstone.hash, |at| *at == tombstone.key.index()).is_some() && is_there
    }

    /// The next of a ring that is too old or one too many. It has left the ring: the caller removes it, as one in flight.
    pub fn expired(&mut self, ring: Ring, now: Instant, bounds: &Bounds) -> Option<Key> {
        if self.rings.ring(ring).expired(now, bounds) == 0 { None } else { self.pop_oldest(ring) }
    }

    /// The oldest of a ring, which leaves it, as with [`expired`](Self::expired).
    pub fn pop_oldest(&mut self, ring: Ring) -> Option<Key> {
        let key = self.rings.ring_mut(ring).queue.pop_front()?.key;
        self.rings.note_live(key);
        self.keep_oldest(ring);
        Some(key)
    }

    fn keep_oldest(&mut self, ring: Ring) {
        self.rings.ring_mut(ring).keep_oldest(|key| self.slab.get(key).is_some());
    }

    /// When the oldest of a ring may be forgotten.
    pub fn due(&self, ring: Ring, bounds: &Bounds) -> Option<Instant> {
        self.rings.ring(ring).due(bounds)
    }

    /// When the oldest tombstone was laid.
    pub fn oldest(&self) -> Option<Instant> {
        self.rings.tombstones.iter().filter_map(Tombstones::oldest).min()
    }

    /// Tombstones with the time since which they are, oldest first in each ring.
    pub fn tombstones(&self) -> impl Iterator<Item = (Key, Instant)> {
        let all = self.rings.tombstones.iter().flat_map(|ring| &ring.queue);
        all.filter(|tombstone| self.slab.get(tombstone.key).is_some()).map(|tombstone| (tombstone.key, tombstone.at))
    }

    /// Bytes of memory held, capacities included, without what entries own.
    pub fn held(&self) -> usize {
        let rings: usize = self.rings.tombstones.iter().map(Tombstones::held).sum();
        self.slab.held() + self.ids.allocation_size() + self.tokens.held() + rings
    }

    /// Entries of every collection: zero once nothing is in flight or remembered (invariant 6).
    pub fn residue(&self) -> usize {
        let rings: usize = self.rings.tombstones.iter().map(|ring| ring.queue.len()).sum();
        self.slab.len() + self.ids.len() + self.tokens.len() + rings
    }

    /// Entries of the id index and of the token index, for the invariants.
    pub fn listed(&self) -> (usize, usize) {
        (self.ids.len(), self.tokens.len())
    }

    /// Panics where counts, rings and entries do not agree; `is_live` says which entries were not retired.
    pub fn check(&self, is_live: impl Fn(&E) -> bool) {
        let live = self.iter().filter(|(_, entry)| is_live(entry));
        let (count, places) = live.fold((0, 0), |(count, places), (key, _)| (count + 1, places ^ key.index()));
        assert_eq!((count, places), (self.live(), self.rings.live_places), "invariant 8: the count is off");
        let buried = self.tombstones().filter(|(key, _)| self.get(*key).is_some_and(|entry| !is_live(entry))).count();
        assert_eq!(buried, self.retired(), "invariant 6: a settled request is in no ring and will never be forgotten");
        let (ids, tokens) = self.listed();
        let known: usize = self.iter().map(|(_, entry)| entry.tokens().count()).sum();
        assert!(ids <= self.len(), "invariant 6: an entry is in the index twice");
        assert!(tokens <= known, "invariant 6: a token of nobody is in the index");
    }
}

fn unlist(ids: &mut HashTable<u32>, hash: u64, key: Key) {
    if let Ok(place) = ids.find_entry(hash, |at| *at == key.index()) {
        place.remove();
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use rescind_testkit::tamper::every_check_can_fail;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { most: 3, hard: 12, least: Duration::from_secs(5), longest: Duration::from_secs(60) };

    #[derive(Clone, Debug, PartialEq)]
    struct Numbered {
        id: i64,
        token: Option<RequestId>,
        ring: Option<Ring>,
    }

    impl Entry for Numbered {
        type Id = i64;

        fn id(&self) -> &i64 {
            &self.id
        }

        fn tokens(&self) -> impl Iterator<Item = &RequestId> {
            self.token.iter()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(seconds))
    }

    fn insert(table: &mut Table<Numbered>, id: i64) -> Key {
        let token = (id % 2 == 0).then(|| RequestId::integer(id));
        table.insert(table.hash(&id), Numbered { id, token, ring: None })
    }

    #[test]
    fn an_id_is_taken_in_once_and_taken_out_with_its_token() {
        let mut table = Table::new(Seed::new(7));
        let new = |id| Numbered { id, token: Some(RequestId::integer(id)), ring: None };
        let hash = table.hash(&1);
        let key = table.insert_new(hash, new(1)).unwrap();
        assert_eq!(table.insert_new(hash, new(1)), Err(new(1)));
        assert_eq!(table.by_token(&RequestId::integer(1), |_| true), Some(key));
        table.check(|_| true);
        assert_eq!(table.take(hash, |entry| entry.id == 2), None);
        assert_eq!(table.take(hash, |entry| entry.id == 1), Some((key, new(1))));
        table.check(|_| true);
        assert_eq!((table.live(), table.residue()), (0, 0));
    }

    fn retire(table: &mut Table<Numbered>, key: Key, now: u64, ring: Ring) {
        table.retire(key, at(now), ring).unwrap().ring = Some(ring);
    }

    #[test]
    fn an_entry_is_found_by_all_its_names_until_it_is_forgotten() {
        let mut table = Table::new(Seed::new(1));
        let key = insert(&mut table, 2);
        assert_eq!((table.by_id(&2), table.only_live()), (Some(key), Some(key)));
        retire(&mut table, key, 0, Ring::Over);
        assert_eq!((table.by_token(&RequestId::integer(2), |_| true), table.only_live()), (Some(key), None));
        table.prune(Ring::Over, at(59), &BOUNDS, |_, _| panic!("its time has not come"));
        let mut forgotten = Vec::new();
        table.prune(Ring::Over, at(60), &BOUNDS, |key, entry| forgotten.push((key, entry.id)));
        assert_eq!((forgotten, table.residue()), (vec![(key, 2)], 0));
    }

    #[test]
    fn the_least_age_protects_what_is_too_much_but_not_from_the_hard_bound() {
        let mut table = Table::new(Seed::new(1));
        for id in 0..20 {
            let key = insert(&mut table, id);
            retire(&mut table, key, 0, Ring::Abandoned);
        }
        table.prune(Ring::Abandoned, at(0), &BOUNDS, |_, _| ());
        assert_eq!((table.len(), table.by_id(&7), table.due(Ring::Abandoned, &BOUNDS)), (12, None, Some(at(5))));
        table.prune(Ring::Abandoned, at(5), &BOUNDS, |_, _| ());
        assert_eq!((table.len(), table.due(Ring::Abandoned, &BOUNDS)), (3, Some(at(60))));
    }

    #[test]
    fn any_mixture_of_ways_in_and_out_leaves_nothing_behind() {
        let mut dice = 7_u64;
        let mut roll = |sides: usize| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) as usize % sides
        };
        let mut table = Table::new(Seed::new(1));
        let mut keys = Vec::new();
        for now in 0..20_000 {
            match roll(6) {
                0..=2 => keys.push(insert(&mut table, now as i64)),
                3 if !keys.is_empty() => {
                    let key = keys[roll(keys.len())];
                    let ring = if roll(2) == 0 { Ring::Over } else { Ring::Abandoned };
                    if table.get(key).is_some_and(|entry| entry.ring.is_none()) {
                        retire(&mut table, key, now, ring);
                    }
                }
                4 if !keys.is_empty() => {
                    let key = keys.swap_remove(roll(keys.len()));
                    let ring = table.get(key).and_then(|entry| entry.ring);
                    table.remove(key, ring);
                    assert_eq!(table.get(key), None);
                }
                _ => {
                    table.prune(Ring::Over, at(now), &BOUNDS, |_, entry| assert_eq!(entry.ring, Some(Ring::Over)));
                    if let Some(key) = table.expired(Ring::Abandoned, at(now), &BOUNDS) {
                        assert!(table.remove(key, None).is_some());
                    }
                    keys.retain(|key| table.get(*key).is_some());
                }
            }
            table.check(|entry| entry.ring.is_none());
        }
        keys.into_iter().for_each(|key| {
            let ring = table.get(key).and_then(|entry| entry.ring);
            table.remove(key, ring);
        });
        assert_eq!((table.residue(), table.rings.live_places), (0, 0));
    }

    #[test]
    fn every_check_of_a_table_can_fail() {
        let mut sound = Table::new(Seed::new(1));
        let keys = [0, 1, 2].map(|id| insert(&mut sound, id));
        retire(&mut sound, keys[0], 0, Ring::Over);
        retire(&mut sound, keys[1], 0, Ring::Abandoned);
        let check = |table: &Table<Numbered>| table.check(|entry| entry.ring.is_none());
        every_check_can_fail(
            &sound,
            check,
            include_str!("table.rs"),
            &[
                ("the count is off", |table| _ = table.slab.insert(Numbered { id: 3, token: None, ring: None })),
                ("the count is off", |table| table.rings.live_places = 0),
                ("in no ring", |table| {
                    table.rings.tombstones[0].queue[0].key = table.by_id(&2).expect("it is in flight")
                }),
                ("in the index twice", |table| (0..9).for_each(|_| _ = table.ids.insert_unique(0, 0, |_| 0))),
                ("a token of nobody", |table| table.tokens.insert(0, 0)),
            ],
        );
    }
}
