//! The requests of one side: those in flight, and those still remembered (D7, D8).
//!
//! As in a relay, what is remembered of a request is the request itself, left in its place. The way in is
//! [`insert`](Table::insert), the way out [`forget`](Table::forget).

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;

use super::{ObservedEnd, observed::Observed};
use crate::{
    hash::Seed,
    id::RequestId,
    slab::{Key, Slab},
    time::Instant,
    turns::Turns,
};

/// How many more are remembered while they may still be answered.
const PATIENCE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Table {
    slab: Slab<Observed>,
    ids: HashTable<u32>,
    /// Under each token that a request asked with.
    tokens: HashTable<Slot>,
    turns: Turns,
    /// Over, and owed nothing; oldest first.
    done: VecDeque<(Key, Instant)>,
    /// Over while an answer may still come; oldest first.
    abandoned: VecDeque<(Key, Instant)>,
    /// The places of all requests in flight, each bit added up without a carry: of one alone, its place.
    live_places: u32,
    /// One that may still be answered has been forgotten: a loose match is a guess from now on (D10).
    forgot_abandoned: bool,
    seed: Seed,
}

/// A place in the slab under something else than the request's id.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    at: u32,
}

impl Table {
    pub(super) const fn new(seed: Seed) -> Self {
        Self {
            slab: Slab::new(),
            ids: HashTable::new(),
            tokens: HashTable::new(),
            turns: Turns::new(seed),
            done: VecDeque::new(),
            abandoned: VecDeque::new(),
            live_places: 0,
            forgot_abandoned: false,
            seed,
        }
    }

    /// Requests in flight.
    pub(super) fn live(&self) -> usize {
        self.slab.len() - self.remembered()
    }

    /// Requests that are over and remembered.
    pub(super) fn remembered(&self) -> usize {
        self.done.len() + self.abandoned.len()
    }

    /// The one request in flight, if there is no other.
    pub(super) fn only_live(&self) -> Option<Key> {
        (self.live() == 1).then(|| self.slab.key_at(self.live_places)).flatten()
    }

    pub(super) fn get(&self, key: Key) -> Option<&Observed> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Observed> {
        self.slab.get_mut(key)
    }

    /// All of them, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Observed)> {
        self.slab.iter()
    }

    /// Keys of the requests in flight, oldest first.
    pub(super) fn live_by_age(&self) -> Vec<Key> {
        let live = self.iter().filter(|(_, request)| request.is_live());
        let mut found: Vec<_> = live.map(|(key, request)| (request.since, key)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, key)| key).collect()
    }

    pub(super) fn insert(&mut self, request: Observed) -> Key {
        let Self { slab, ids, tokens, turns, seed, .. } = self;
        let key = slab.insert(request);
        let Some(request) = slab.get(key) else { return key };
        let at = key.index();
        ids.insert_unique(seed.id(&request.id), at, |&at| slab.at(at).map_or(0, |other| seed.id(&other.id)));
        for token in [&request.token, &request.partial].into_iter().flatten() {
            let hash = seed.id(token);
            tokens.insert_unique(hash, Slot { hash, at }, |slot| slot.hash);
        }
        if let Some(session) = &request.session {
            turns.insert(session, key);
        }
        self.live_places ^= at;
        key
    }

    /// The newest request of this id.
    pub(super) fn by_id(&self, id: &RequestId) -> Option<Key> {
        self.find(&self.ids, self.seed.id(id), |request| !request.replaced && request.id == *id)
    }

    /// An earlier request of this id that may still be answered.
    pub(super) fn abandoned(&self, id: &RequestId) -> Option<Key> {
        let is = |request: &Observed| request.replaced && request.may_be_answered() && request.id == *id;
        self.find(&self.ids, self.seed.id(id), is)
    }

    /// The request in flight that a response with this id answers though it is spelt otherwise, if that is certain
    /// (D10).
    pub(super) fn by_loose_id(&self, value: i64) -> Option<Key> {
        if self.forgot_abandoned {
            return None;
        }
        let open = |id| self.by_id(&id).filter(|key| self.get(*key).is_some_and(Observed::is_live));
        match (open(RequestId::integer(value)), open(RequestId::string(&value.to_string()))) {
            (Some(key), None) | (None, Some(key)) => Some(key),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    /// The request that asked for progress under `token`; one in flight before one that is over.
    pub(super) fn by_token(&self, token: &RequestId) -> Option<Key> {
        if self.tokens.is_empty() {
            return None;
        }
        let hash = self.seed.id(token);
        let is = |request: &Observed| [&request.token, &request.partial].into_iter().flatten().any(|own| own == token);
        self.find_slot(&self.tokens, hash, |request| is(request) && request.is_live())
            .or_else(|| self.find_slot(&self.tokens, hash, is))
    }

    /// The newest turn of this session in flight.
    pub(super) fn open_turn(&self, session: &[u8]) -> Option<Key> {
        self.turns.of(session).next_back()
    }

    fn find(&self, index: &HashTable<u32>, hash: u64, is: impl Fn(&Observed) -> bool) -> Option<Key> {
        let found = index.find(hash, |&at| self.slab.at(at).is_some_and(&is))?;
        self.slab.key_at(*found)
    }

    fn find_slot(&self, index: &HashTable<Slot>, hash: u64, is: impl Fn(&Observed) -> bool) -> Option<Key> {
        let found = index.find(hash, |slot| self.slab.at(slot.at).is_some_and(&is))?;
        self.slab.key_at(found.at)
    }

    /// A request in flight is over for its requester; `false` if it was already.
    pub(super) fn settle(&mut self, key: Key, now: Instant, how: ObservedEnd) -> bool {
        let Some(request) = self.slab.get_mut(key).filter(|request| request.is_live()) else { return false };
        request.over = Some((now, how));
        let ring = if request.may_be_answered() { &mut self.abandoned } else { &mut self.done };
        ring.push_back((key, now));
        if let Some(session) = &request.session {
            self.turns.remove(session, key);
        }
        self.live_places ^= key.index();
        true
    }

    /// Forgets what has been remembered long enough (D8).
    pub(super) fn prune(&mut self, now: Instant, most: usize, (least, longest): (Duration, Duration)) {
        while let Some((key, at)) = self.done.front().copied()
            && (self.done.len() > most || now.since(at) >= longest)
        {
            self.done.pop_front();
            self.forget(key);
        }
        while let Some((key, at)) = self.abandoned.front().copied() {
            let longest = if self.abandoned.len() > most { least.min(longest) } else { longest };
            if self.abandoned.len() <= most.saturating_mul(PATIENCE) && now.since(at) < longest {
                return;
            }
            self.abandoned.pop_front();
            self.forgot_abandoned |= self.get(key).is_some_and(|request| request.answer.is_none());
            self.forget(key);
        }
    }

    /// Removes a request from everything but the ring, which its caller has popped.
    fn forget(&mut self, key: Key) {
        let Some(request) = self.slab.get(key) else { return };
        remove(&mut self.ids, self.seed.id(&request.id), key);
        for token in [&request.token, &request.partial].into_iter().flatten() {
            remove_slot(&mut self.tokens, self.seed.id(token), key);
        }
        self.slab.discard(key);
    }

    /// Entries of every collection.
    pub(super) fn residue(&self) -> usize {
        self.slab.len() + self.ids.len() + self.tokens.len() + self.turns.len() + self.remembered()
    }

    /// Panics where the indexes and the requests do not agree.
    pub(super) fn check(&self) {
        let live = self.iter().filter(|(_, request)| request.is_live());
        let (count, places) = live.fold((0, 0), |(count, places), (key, _)| (count + 1, places ^ key.index()));
        assert_eq!((count, places), (self.live(), self.live_places), "invariant 8: the count is off");
        assert_eq!(self.ids.len(), self.slab.len(), "invariant 6: a request is not in the index, or twice");
        for (key, request) in self.iter() {
            if !request.replaced {
                assert_eq!(self.by_id(&request.id), Some(key), "invariant 5: {} finds another", request.id);
            }
            for token in [&request.token, &request.partial].into_iter().flatten() {
                assert!(self.by_token(token).is_some(), "invariant 6: the token of {} is lost", request.id);
            }
        }
        for (key, request) in self.iter() {
            let Some(session) = &request.session else { continue };
            let known = self.turns.of(session).any(|turn| turn == key);
            assert_eq!(known, request.is_live(), "invariant 6: a turn is in the index as long as it is in flight");
        }
    }
}

fn remove(index: &mut HashTable<u32>, hash: u64, key: Key) {
    if let Ok(entry) = index.find_entry(hash, |&at| at == key.index()) {
        entry.remove();
    }
}

fn remove_slot(index: &mut HashTable<Slot>, hash: u64, key: Key) {
    if let Ok(entry) = index.find_entry(hash, |slot| slot.at == key.index()) {
        entry.remove();
    }
}
