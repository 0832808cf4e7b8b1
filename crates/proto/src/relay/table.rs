//! The requests of one side: those in flight, and those still remembered (D7, D8, D32).
//!
//! A tombstone is the exchange itself, left in its place after it settled, so
//! that there is one lifetime and one index. The way in is
//! [`insert`](Table::insert), the way out [`forget`](Table::forget).

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;

use super::{
    Settled,
    exchange::{Down, Exchange},
};
use crate::{
    hash::Seed,
    id::RequestId,
    slab::{Key, Slab},
    time::Instant,
};

/// Where replacement ids start; they count down (D32).
const FIRST_OWN: i64 = (1 << 31) - 1;

/// Forgotten ids that were cancelled and never answered, kept as hashes; past this many every
/// id that is not provably new is replaced.
const MAX_SPENT: usize = 65_536;

/// Tombstones that go at once.
const BATCH: usize = 32;

/// Exchanges that a processor's caches hold for certain.
const CACHED: usize = 8192;

#[derive(Clone, Debug)]
pub(super) struct Table {
    slab: Slab<Exchange>,
    /// Every exchange under its requester's id.
    ids: HashTable<u32>,
    /// Exchanges that go by another id upstream, under that.
    renamed: HashTable<u32>,
    /// Exchanges under the tokens of their progress and of their partial results.
    tokens: HashTable<TokenSlot>,
    /// Settled, and owed nothing by the other side; oldest first.
    over: VecDeque<Tombstone>,
    /// Settled while the other side may still answer; oldest first.
    abandoned: VecDeque<Tombstone>,
    spent: HashTable<u64>,
    /// `spent` has overflowed: only integers above `highest` are known to be new.
    spent_lost: bool,
    highest: i64,
    next_own: i64,
    /// Exchanges whose id is a string that a careless peer could take for an integer.
    numeric_strings: usize,
    /// Bytes that the ids, tokens and sessions of all of them own: the peer chooses how long those are.
    kept: usize,
    /// The places of all requests in flight, combined by exclusive or: the place of the only one, if there is one.
    live_places: u32,
    seed: Seed,
}

/// Where an exchange lies that may report under a token.
#[derive(Clone, Copy, Debug)]
struct TokenSlot {
    at: u32,
    /// The token is that of its partial results.
    is_partial: bool,
}

/// An exchange that has settled.
#[derive(Clone, Copy, Debug)]
struct Tombstone {
    key: Key,
    at: Instant,
    /// Its id's hash, so that the index can be left without a look at the exchange.
    hash: u64,
}

/// What a [`Table`] knows under an id.
pub(super) struct Probe {
    /// The id's hash.
    pub(super) hash: u64,
    /// The newest request of the requester under it.
    pub(super) previous: Option<Key>,
    /// Whether the other side could confuse it with another request that it knows or may know.
    pub(super) taken_upstream: bool,
}

impl Table {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            slab: Slab::new(),
            ids: HashTable::new(),
            renamed: HashTable::new(),
            tokens: HashTable::new(),
            over: VecDeque::new(),
            abandoned: VecDeque::new(),
            spent: HashTable::new(),
            spent_lost: false,
            highest: i64::MIN,
            next_own: FIRST_OWN,
            numeric_strings: 0,
            kept: 0,
            live_places: 0,
            seed,
        }
    }

    /// Requests in flight.
    pub(super) fn live(&self) -> usize {
        self.slab.len() - self.over.len() - self.abandoned.len()
    }

    /// Bytes that the ids, tokens and sessions of all exchanges own.
    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes of memory held, capacities included. Costs time in proportion to the entries.
    pub(super) fn held(&self) -> usize {
        let indexes = self.ids.allocation_size() + self.renamed.allocation_size() + self.tokens.allocation_size();
        let rings = (self.over.capacity() + self.abandoned.capacity()) * size_of::<Tombstone>();
        let boxes = self.iter().map(|(_, exchange)| exchange.boxed()).sum::<usize>();
        self.slab.held() + self.kept + indexes + self.spent.allocation_size() + rings + boxes
    }

    /// The request in flight, if it is the only one.
    pub(super) fn only_live(&self) -> Option<Key> {
        if self.live() == 1 { self.slab.key_at(self.live_places) } else { None }
    }

    pub(super) fn get(&self, key: Key) -> Option<&Exchange> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Exchange> {
        self.slab.get_mut(key)
    }

    /// Forgets of every exchange that it waits among the changes.
    pub(super) fn clear_changed(&mut self) {
        self.slab.iter_mut().for_each(|exchange| exchange.changed = false);
    }

    /// All exchanges, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Exchange)> {
        self.slab.iter()
    }

    /// Keys of the exchanges that `wanted` chooses, oldest first.
    pub(super) fn by_age(&self, wanted: impl Fn(&Exchange) -> bool) -> Vec<Key> {
        let mut found: Vec<_> = self.iter().filter(|(_, ex)| wanted(ex)).map(|(key, ex)| (ex.asked, key)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, key)| key).collect()
    }

    /// What is known under `id` before a new request takes it, for the price of one look.
    pub(super) fn probe(&self, id: &RequestId) -> Probe {
        let hash = self.seed.id(id);
        let previous = self.ids.find(hash, |&at| self.slab.at(at).is_some_and(|ex| ex.id == *id));
        if previous.is_none() {
            return Probe { hash, previous: None, taken_upstream: self.is_taken_elsewhere(hash, id) };
        }
        let taken_upstream = self.is_open_upstream(hash, id) || self.is_taken_elsewhere(hash, id);
        Probe { hash, previous: self.newest(hash, id), taken_upstream }
    }

    /// Whether a peer that reads ids carelessly could take `id` for no id at all, or for that of another request
    /// it may still be working on: `0` and `""` are false in some languages, and `"5"` becomes 5 in others.
    pub(super) fn is_ambiguous(&self, id: &RequestId) -> bool {
        if id.is_falsy() {
            return true;
        }
        let is_open = |id: &RequestId| self.is_open_upstream(self.seed.id(id), id);
        match id.as_integer() {
            Some(value) => self.numeric_strings > 0 && is_open(&RequestId::string(&value.to_string())),
            None => id.loose().is_some_and(|value| is_open(&RequestId::integer(value))),
        }
    }

    fn is_open_upstream(&self, hash: u64, id: &RequestId) -> bool {
        self.known_upstream(hash, id).is_some_and(|key| self.get(key).is_some_and(Exchange::is_open_upstream))
    }

    /// Takes a request in, under the hash of its id that [`probe`](Self::probe) found.
    pub(super) fn insert(&mut self, hash: u64, exchange: Exchange) -> Key {
        if let Some(value) = exchange.upstream().as_integer() {
            self.highest = self.highest.max(value);
        }
        self.numeric_strings += usize::from(is_numeric_string(&exchange.id));
        self.kept += exchange.kept();
        let Self { slab, ids, renamed, tokens, seed, .. } = self;
        let key = slab.insert(exchange);
        let Some(exchange) = slab.get(key) else { return key };
        let at = key.index();
        self.live_places ^= at;
        ids.insert_unique(hash, at, |&at| slab.at(at).map_or(0, |ex| seed.id(&ex.id)));
        if let Some(id) = &exchange.renamed {
            let rehash = |&at: &u32| slab.at(at).and_then(|ex| ex.renamed.as_ref()).map_or(0, |id| seed.id(id));
            renamed.insert_unique(seed.id(id), at, rehash);
        }
        let rehash = |slot: &TokenSlot| {
            let token = |ex| if slot.is_partial { Exchange::partial(ex) } else { ex.token.as_ref() };
            slab.at(slot.at).and_then(token).map_or(0, |token| seed.id(token))
        };
        for (is_partial, token) in [(false, exchange.token.as_ref()), (true, exchange.partial())] {
            if let Some(token) = token {
                tokens.insert_unique(seed.id(token), TokenSlot { at, is_partial }, rehash);
            }
        }
        key
    }

    /// Removes an exchange from everything but the two rings, which their owners pop.
    fn forget(&mut self, Tombstone { key, hash, .. }: Tombstone) {
        let Some(exchange) = self.slab.get(key) else { return };
        remove(&mut self.ids, hash, key);
        if let Some(id) = &exchange.renamed {
            remove(&mut self.renamed, self.seed.id(id), key);
        }
        self.numeric_strings -= usize::from(is_numeric_string(&exchange.id));
        self.kept -= exchange.kept();
        for token in exchange.tokens() {
            if let Ok(entry) = self.tokens.find_entry(self.seed.id(token), |slot| slot.at == key.index()) {
                entry.remove();
            }
        }
        let spent = exchange.is_open_upstream().then(|| self.seed.id(exchange.upstream()));
        self.slab.discard(key);
        if let Some(hash) = spent {
            self.spend(hash);
        }
    }

    /// The newest exchange that its requester calls `id`.
    pub(super) fn by_requester(&self, id: &RequestId) -> Option<Key> {
        self.newest(self.seed.id(id), id)
    }

    fn newest(&self, hash: u64, id: &RequestId) -> Option<Key> {
        self.find(&self.ids, hash, |ex| !ex.replaced && ex.id == *id)
    }

    /// The exchange that the other side calls `id`.
    pub(super) fn by_upstream(&self, id: &RequestId) -> Option<Key> {
        self.known_upstream(self.seed.id(id), id)
    }

    fn known_upstream(&self, hash: u64, id: &RequestId) -> Option<Key> {
        // A superseded id that was answered belongs to its successor now.
        let is = |ex: &Exchange| ex.renamed.is_none() && ex.id == *id && (!ex.replaced || ex.is_open_upstream());
        self.own(hash, id).or_else(|| self.find(&self.ids, hash, is))
    }

    /// The exchange that goes by `id` upstream because we gave it that.
    #[inline]
    fn own(&self, hash: u64, id: &RequestId) -> Option<Key> {
        if self.renamed.is_empty() {
            return None;
        }
        self.find(&self.renamed, hash, |ex| ex.renamed.as_ref() == Some(id))
    }

    /// The exchange that asked for progress or partial results under `token`; one in flight before one that is over.
    pub(super) fn by_token(&self, token: &RequestId) -> Option<Key> {
        if self.tokens.is_empty() {
            return None;
        }
        let hash = self.seed.id(token);
        let find = |is: &dyn Fn(&Exchange) -> bool| {
            let is = |slot: &TokenSlot| {
                self.slab.at(slot.at).is_some_and(|ex| ex.tokens().any(|own| own == token) && is(ex))
            };
            self.slab.key_at(self.tokens.find(hash, is)?.at)
        };
        find(&Exchange::is_live).or_else(|| find(&|_| true))
    }

    #[inline]
    fn find(&self, index: &HashTable<u32>, hash: u64, is: impl Fn(&Exchange) -> bool) -> Option<Key> {
        let found = index.find(hash, |&at| self.slab.at(at).is_some_and(&is))?;
        self.slab.key_at(*found)
    }

    /// A new request of the requester takes `id` over from the settled exchange `key`.
    pub(super) fn replace(&mut self, key: Key) {
        if let Some(exchange) = self.slab.get_mut(key) {
            exchange.replaced = true;
        }
    }

    /// Whether `id` is one of ours upstream, or was spent there, or can no longer be told from one that was.
    fn is_taken_elsewhere(&self, hash: u64, id: &RequestId) -> bool {
        self.own(hash, id).is_some()
            || (self.spent_lost && id.as_integer().is_none_or(|value| value <= self.highest))
            || self.is_spent(hash)
    }

    /// An id of ours for the other side, of the same JSON type as `like`, that it has never seen.
    pub(super) fn own_id(&mut self, like: &RequestId) -> RequestId {
        loop {
            let number = self.next_own;
            self.next_own -= 1;
            let id = if like.is_string() {
                RequestId::string(&format!("rescind-{number}"))
            } else {
                RequestId::integer(number)
            };
            if self.by_upstream(&id).is_none() && !self.is_spent(self.seed.id(&id)) {
                return id;
            }
        }
    }

    /// Whether a forgotten request with this id on the other side was never answered there.
    pub(super) fn has_spent(&self, id: &RequestId) -> bool {
        !self.spent.is_empty() && self.is_spent(self.seed.id(id))
    }

    fn is_spent(&self, hash: u64) -> bool {
        !self.spent.is_empty() && self.spent.find(hash, |&spent| spent == hash).is_some()
    }

    /// An id cancelled and never answered is not used again on this connection (D32).
    fn spend(&mut self, hash: u64) {
        if self.spent.len() >= MAX_SPENT {
            self.spent_lost = true;
            return;
        }
        if self.spent.find(hash, |&spent| spent == hash).is_none() {
            self.spent.insert_unique(hash, hash, |&spent| spent);
        }
    }

    /// Makes a tombstone of an exchange that is in flight, and gives it for what else its end asks for.
    pub(super) fn settle(&mut self, key: Key, now: Instant, how: Settled) -> Option<&mut Exchange> {
        let exchange = self.slab.get_mut(key).filter(|exchange| exchange.is_live())?;
        exchange.down = Down::Done(how, now);
        self.live_places ^= key.index();
        let tombstone = Tombstone { key, at: now, hash: self.seed.id(&exchange.id) };
        if exchange.is_open_upstream() { &mut self.abandoned } else { &mut self.over }.push_back(tombstone);
        Some(exchange)
    }

    /// Whether there are so many tombstones that some have to go whatever their age, or may.
    #[inline]
    pub(super) fn has_too_many(&self, most: usize) -> bool {
        self.over.len().max(self.abandoned.len()) > most + slack(most)
    }

    /// Drops the oldest tombstones: those past `most`, those older than `longest`; an abandoned one is kept
    /// for at least `least`, up to sixteen times as many (D8). A few more may stay until a batch is full.
    pub(super) fn prune(&mut self, now: Instant, most: usize, (least, longest): (Duration, Duration)) {
        let slack = slack(most);
        while let count @ 1.. = due(&self.over, now, most, slack, longest) {
            self.retire(|table| &mut table.over, count);
        }
        loop {
            let longest = if self.abandoned.len() > most + slack { least.min(longest) } else { longest };
            let count @ 1.. = due(&self.abandoned, now, most.saturating_mul(16), slack, longest) else { return };
            self.retire(|table| &mut table.abandoned, count);
        }
    }

    /// Forgets the oldest `count` of a ring.
    ///
    /// They were settled long ago and have left the caches. Looking at all of them before removing the first
    /// lets their memory arrive together instead of one after the other: at a million requests a third of the
    /// time.
    fn retire(&mut self, ring: fn(&mut Self) -> &mut VecDeque<Tombstone>, count: usize) {
        let mut batch = [None; BATCH];
        for (place, tombstone) in batch.iter_mut().zip(ring(self).drain(..count)) {
            *place = Some(tombstone);
        }
        if self.slab.len() > CACHED {
            let mut seen = 0;
            for tombstone in batch.iter().flatten() {
                let found = self.ids.find(tombstone.hash, |&at| at == tombstone.key.index());
                seen += usize::from(found.is_some()) + usize::from(self.slab.get(tombstone.key).is_some());
            }
            core::hint::black_box(seen);
        }
        for tombstone in batch.into_iter().flatten() {
            self.forget(tombstone);
        }
    }

    /// When the oldest tombstone was laid.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let ages = [self.over.front(), self.abandoned.front()];
        ages.into_iter().flatten().map(|tombstone| tombstone.at).min()
    }

    /// Entries of every collection that must be empty once nothing is in flight or remembered.
    pub(super) fn residue(&self) -> usize {
        let indexes = self.ids.len() + self.renamed.len() + self.tokens.len();
        self.slab.len() + indexes + self.over.len() + self.abandoned.len()
    }

    /// Feeds what decides which ids are given out next into a hasher.
    pub(super) fn hash_names(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        (self.next_own, self.spent.len(), self.spent_lost, self.highest).hash(state);
    }

    /// Tombstones, for the invariants and the state hash.
    pub(super) fn tombstones(&self) -> impl Iterator<Item = (Key, Instant)> {
        self.over.iter().chain(&self.abandoned).map(|tombstone| (tombstone.key, tombstone.at))
    }
}

/// Tombstones beyond the bound that may stay until a batch is full.
const fn slack(most: usize) -> usize {
    if most / 64 < BATCH { most / 64 } else { BATCH }
}

/// How many of the oldest in a ring have to go now, at most a batch.
#[inline]
fn due(ring: &VecDeque<Tombstone>, now: Instant, most: usize, slack: usize, longest: Duration) -> usize {
    let Some(oldest) = ring.front() else { return 0 };
    if ring.len() > most + slack {
        return (ring.len() - most).min(BATCH);
    }
    if now.since(oldest.at) < longest {
        return 0;
    }
    expired(ring, now, longest)
}

#[cold]
fn expired(ring: &VecDeque<Tombstone>, now: Instant, longest: Duration) -> usize {
    ring.iter().take(BATCH).take_while(|tombstone| now.since(tombstone.at) >= longest).count()
}

fn is_numeric_string(id: &RequestId) -> bool {
    id.is_string() && id.loose().is_some()
}

fn remove(index: &mut HashTable<u32>, hash: u64, key: Key) {
    if let Ok(entry) = index.find_entry(hash, |&at| at == key.index()) {
        entry.remove();
    }
}
