//! The requests of one side: those in flight, and those still remembered (D7, D8, D32).
//!
//! What only a relay needs stands here: the ids that requests have on the other side, where those differ, and the ids
//! that must not be used there again.
//!
//! An exchange has two faces, `Up` (what the other side knows) and `Down` (what its requester was given). One that has
//! settled stays in its place as its own tombstone: one insertion, one look-up and one removal, whatever becomes of it.

use core::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use hashbrown::HashTable;

use super::exchange::Exchange;
use crate::{
    hash::Seed,
    id::RequestId,
    slab::Key,
    table::{Bounds, Entry, Index, Ring, Table},
    time::Instant,
};

/// Where replacement ids start; they count down (D32).
const FIRST_OWN: i64 = (1 << 31) - 1;

/// Forgotten ids that were cancelled and never answered, or answered while their cancel left, kept as hashes; past this many every
/// id that is not provably new is replaced.
const MAX_SPENT: usize = 65_536;

/// Tokens of forgotten tasks, kept as hashes; past this many no progress is taken for that of none.
const MAX_TASK_TOKENS: usize = 65_536;

/// How many more are remembered while they may still be answered (D8).
const PATIENCE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Exchanges {
    table: Table<Exchange>,
    upstream: Upstream,
    /// Exchanges whose id is a string that a careless peer could take for an integer.
    numeric_strings: usize,
    /// Hashes of the tokens of forgotten tasks, which may report for as long as they run (MCP-P01).
    task_tokens: HashTable<u64>,
    /// Bytes that the ids, tokens and sessions of all of them own: the peer chooses how long those are.
    pub(super) kept: usize,
    over: Bounds,
    abandoned: Bounds,
    seed: Seed,
}

/// The ids of requests on the other side.
#[derive(Clone, Debug)]
struct Upstream {
    /// Exchanges that go by another id there, under that.
    renamed: Index,
    spent: HashTable<u64>,
    /// `spent` has overflowed: only integers above `highest` are known to be new.
    spent_lost: bool,
    highest: i64,
    next_own: i64,
}

impl Upstream {
    fn is_spent(&self, hash: u64) -> bool {
        !self.spent.is_empty() && self.spent.find(hash, |&spent| spent == hash).is_some()
    }

    /// An id cancelled and never answered is not used again on this connection (D32), and neither is one that was answered
    /// while its cancel left.
    fn spend(&mut self, hash: u64) {
        if self.spent.len() >= MAX_SPENT {
            self.spent_lost = true;
            return;
        }
        if self.spent.find(hash, |&spent| spent == hash).is_none() {
            self.spent.insert_unique(hash, hash, |&spent| spent);
        }
    }

    /// Whether `id` was spent, or can no longer be told from one that was.
    fn may_be_spent(&self, hash: u64, id: &RequestId) -> bool {
        (self.spent_lost && id.as_integer().is_none_or(|value| value <= self.highest)) || self.is_spent(hash)
    }
}

impl Entry for Exchange {
    type Id = RequestId;

    #[inline]
    fn id(&self) -> &RequestId {
        &self.id
    }

    #[inline]
    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.token.iter().chain(self.partial())
    }
}

/// What is asked of every table is asked of this one. It is filled and emptied by its own functions alone: they count.
impl Deref for Exchanges {
    type Target = Table<Exchange>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Exchanges {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

impl Exchanges {
    /// Settled requests are remembered as D8 says, `most` of them and as long as `least` and `longest`.
    pub(super) const fn new(seed: Seed, most: usize, (least, longest): (Duration, Duration)) -> Self {
        Self {
            table: Table::new(seed),
            upstream: Upstream {
                renamed: Index::new(),
                spent: HashTable::new(),
                spent_lost: false,
                highest: i64::MIN,
                next_own: FIRST_OWN,
            },
            numeric_strings: 0,
            task_tokens: HashTable::new(),
            kept: 0,
            over: Bounds { most, hard: usize::MAX, least: Duration::ZERO, longest },
            abandoned: Bounds { most, hard: most.saturating_mul(PATIENCE), least, longest },
            seed,
        }
    }

    /// Bytes of memory held, capacities included. Costs time in proportion to the entries.
    pub(super) fn held(&self) -> usize {
        let boxes = self.iter().map(|(_, exchange)| exchange.boxed()).sum::<usize>();
        self.table.held()
            + self.kept
            + self.upstream.renamed.held()
            + self.upstream.spent.allocation_size()
            + self.task_tokens.allocation_size()
            + boxes
    }

    /// Keys of the exchanges that `wanted` chooses, oldest first.
    pub(super) fn by_age(&self, wanted: impl Fn(&Exchange) -> bool) -> Vec<Key> {
        self.table.keys_by(|exchange| wanted(exchange).then_some(exchange.asked))
    }

    /// What is known under `id` before a new request takes it, for the price of one look: its hash, the newest request of
    /// the requester, and whether the other side could confuse it with another request that it knows or may know.
    #[inline]
    pub(super) fn probe(&self, id: &RequestId) -> (u64, Option<Key>, bool) {
        let hash = self.table.hash(id);
        // It is one of ours there, or was spent, or can no longer be told from one that was.
        let is_taken = self.own(hash, id).is_some() || self.upstream.may_be_spent(hash, id);
        if self.table.find(hash, |ex| ex.id == *id).is_none() {
            return (hash, None, is_taken);
        }
        (hash, self.newest(hash, id), is_taken || self.is_kept_upstream(hash, id))
    }

    /// Whether a peer that reads ids carelessly could take `id` for no id at all, or for that of another request
    /// it may still be working on: `0` and `""` are false in some languages, and `"5"` becomes 5 in others.
    pub(super) fn is_ambiguous(&self, id: &RequestId) -> bool {
        if id.is_falsy() {
            return true;
        }
        let is_open = |id: &RequestId| self.is_kept_upstream(self.seed.id(id), id);
        match id.as_integer() {
            Some(value) => self.numeric_strings > 0 && is_open(&RequestId::string(&value.to_string())),
            None => id.loose().is_some_and(|value| is_open(&RequestId::integer(value))),
        }
    }

    fn is_kept_upstream(&self, hash: u64, id: &RequestId) -> bool {
        self.known_upstream(hash, id).is_some_and(|key| self.get(key).is_some_and(Exchange::keeps_upstream_id))
    }

    /// Takes a request in, under the hash of its id that [`probe`](Self::probe) found.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, exchange: Exchange) -> Key {
        if let Some(value) = exchange.upstream().as_integer() {
            self.upstream.highest = self.upstream.highest.max(value);
        }
        self.numeric_strings += usize::from(is_numeric_string(&exchange.id));
        self.kept += exchange.kept();
        let renamed = exchange.renamed.as_ref().map(|id| self.seed.id(id));
        let key = self.table.insert(hash, exchange);
        if let Some(renamed) = renamed {
            self.upstream.renamed.insert(renamed, key.index());
        }
        key
    }

    /// The newest exchange that its requester calls `id`.
    pub(super) fn by_requester(&self, id: &RequestId) -> Option<Key> {
        self.newest(self.table.hash(id), id)
    }

    fn newest(&self, hash: u64, id: &RequestId) -> Option<Key> {
        self.table.find(hash, |ex| !ex.replaced && ex.id == *id)
    }

    /// The exchange that the other side calls `id`.
    #[inline]
    pub(super) fn by_upstream(&self, id: &RequestId) -> Option<Key> {
        self.known_upstream(self.table.hash(id), id)
    }

    #[inline]
    fn known_upstream(&self, hash: u64, id: &RequestId) -> Option<Key> {
        // A replaced id that was answered belongs to its successor now, which has another if its cancel was leaving.
        let is = |ex: &Exchange| ex.renamed.is_none() && ex.id == *id && (!ex.replaced || ex.keeps_upstream_id());
        if let Some(own) = self.own(hash, id) {
            return Some(own);
        }
        self.table.find(hash, is)
    }

    /// Whether the other side may still answer a request of our own under this id, whose hash this is.
    pub(super) fn is_own(&self, hash: u64, id: &RequestId) -> bool {
        self.own(hash, id).is_some() || self.upstream.is_spent(hash)
    }

    /// The exchange that goes by `id` upstream because we gave it that.
    #[inline]
    fn own(&self, hash: u64, id: &RequestId) -> Option<Key> {
        if self.upstream.renamed.is_empty() {
            return None;
        }
        self.table.look_up(&self.upstream.renamed, hash, |ex| ex.renamed.as_ref() == Some(id))
    }

    /// A new request of the requester takes the id over from the settled exchange `key`.
    pub(super) fn replace(&mut self, key: Key) {
        let Some(exchange) = self.table.get_mut(key) else { return };
        exchange.replaced = true;
        // It is not looked for by its id any more, unless that is still its own on the other side.
        if !exchange.keeps_upstream_id() {
            self.table.unlist(key);
        }
    }

    /// An id of ours for the other side, of the same JSON type as `like`, that it has never seen.
    pub(super) fn own_id(&mut self, like: &RequestId) -> RequestId {
        loop {
            let number = self.upstream.next_own;
            self.upstream.next_own -= 1;
            let id = if like.is_string() {
                RequestId::string(&format!("rescind-{number}"))
            } else {
                RequestId::integer(number)
            };
            if self.by_upstream(&id).is_none() && !self.has_spent(&id) {
                return id;
            }
        }
    }

    /// Whether a forgotten task may report under this token: all can, once there were more than are kept.
    pub(super) fn may_report(&self, token: &RequestId) -> bool {
        let hash = self.seed.id(token);
        self.task_tokens.len() >= MAX_TASK_TOKENS || self.task_tokens.find(hash, |&kept| kept == hash).is_some()
    }

    /// Whether a forgotten request with this id on the other side was never answered there, or only while its cancel left.
    pub(super) fn has_spent(&self, id: &RequestId) -> bool {
        self.upstream.is_spent(self.seed.id(id))
    }

    /// Whether there are so many tombstones that some have to go whatever their age, or may.
    #[inline]
    pub(super) fn has_too_many(&self) -> bool {
        self.table.is_full(Ring::Over, &self.over) || self.table.is_full(Ring::Abandoned, &self.abandoned)
    }

    /// Forgets the oldest tombstones, and shows each to `forgotten`. A few more may stay until a batch is full.
    pub(super) fn prune(&mut self, now: Instant, mut forgotten: impl FnMut(Key, &Exchange)) {
        let Self { table, upstream, numeric_strings, task_tokens, kept, seed, .. } = self;
        let mut forget = |key: Key, exchange: &Exchange| {
            forgotten(key, exchange);
            if let Some(id) = &exchange.renamed {
                upstream.renamed.remove(seed.id(id), key.index());
            }
            if exchange.keeps_upstream_id() {
                upstream.spend(seed.id(exchange.upstream()));
            }
            if exchange.keeps_token()
                && let Some(hash) = exchange.token.as_ref().map(|token| seed.id(token))
                && task_tokens.len() < MAX_TASK_TOKENS
                && task_tokens.find(hash, |&kept| kept == hash).is_none()
            {
                task_tokens.insert_unique(hash, hash, |&kept| kept);
            }
            *numeric_strings -= usize::from(is_numeric_string(&exchange.id));
            *kept -= exchange.kept();
        };
        table.prune(Ring::Over, now, &self.over, &mut forget);
        table.prune(Ring::Abandoned, now, &self.abandoned, &mut forget);
    }

    /// Entries of every collection that must be empty once nothing is in flight or remembered.
    pub(super) fn residue(&self) -> usize {
        self.table.residue() + self.upstream.renamed.len()
    }

    /// Feeds what decides which ids are given out next into a hasher.
    #[expect(clippy::disallowed_methods, reason = "a sum is the same in any order")]
    pub(super) fn hash_names(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        let Upstream { renamed: _, spent, spent_lost, highest, next_own } = &self.upstream;
        let spent = spent.iter().fold(spent.len() as u64, |all, hash| all.wrapping_add(*hash));
        let tokens = self.task_tokens.iter().fold(self.task_tokens.len() as u64, |all, hash| all.wrapping_add(*hash));
        (spent, spent_lost, highest, next_own, tokens).hash(state);
    }
}

fn is_numeric_string(id: &RequestId) -> bool {
    id.is_string() && id.loose().is_some()
}

#[cfg(test)]
mod tests {
    use rescind_testkit::tamper::every_change_shows;

    use super::*;
    use crate::{dialect::mcp, method::Method, relay::exchange::Rare};

    #[test]
    fn what_is_held_includes_spent_ids_and_what_few_requests_have() {
        let mut exchanges = Exchanges::new(Seed::new(0), 0, (Duration::ZERO, Duration::ZERO));
        let (dialect, id) = (&mcp::LATEST, RequestId::integer(1));
        let hash = exchanges.probe(&id).0;
        let key = exchanges.insert(hash, Exchange::new(id, dialect, dialect, Instant::ORIGIN, Method::OTHER));
        let plain = exchanges.held();
        exchanges.get_mut(key).expect("it is in flight").rare();
        let rare = exchanges.held();
        assert_eq!(rare - plain, size_of::<Rare>());
        exchanges.upstream.spend(1);
        assert_eq!(exchanges.held() - rare, exchanges.upstream.spent.allocation_size());
    }

    #[test]
    fn every_change_of_which_ids_are_new_shows_in_the_hash() {
        let mut start = Exchanges::new(Seed::new(0), 0, (Duration::ZERO, Duration::ZERO));
        start.upstream.spend(1);
        every_change_shows(
            &start,
            Exchanges::hash_names,
            &[
                ("the next of ours", |exchanges| _ = exchanges.own_id(&RequestId::integer(1))),
                ("how many are spent", |exchanges| exchanges.upstream.spend(2)),
                ("which one is spent", |exchanges| {
                    exchanges.upstream.spent.clear();
                    exchanges.upstream.spend(2);
                }),
                ("that more are spent than are known", |exchanges| exchanges.upstream.spent_lost = true),
                ("the highest", |exchanges| exchanges.upstream.highest = 1),
                ("which forgotten task may report", |exchanges| {
                    _ = exchanges.task_tokens.insert_unique(7, 7, |&kept| kept)
                }),
            ],
        );
    }
}
