//! Our requests: those in flight, and those whose cancel may still teach us something (D15, D28).
//!
//! An id that was answered needs no tombstone: ids are ours, count up and are
//! never used twice, so one below the next that is in no table was settled. A
//! cancelled request stays, as a ghost, because its receipt is still open.

use core::{num::NonZeroU64, time::Duration};
use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::{
    dialect::Dialect,
    hash::Seed,
    id::RequestId,
    method::Method,
    outbox::Ticket,
    receipt::Receipt,
    slab::{Key, Slab},
    standstill::Standstill,
    table::Bounds,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// One of our requests, from the call until nothing more can be learnt of it.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: i64,
    /// What the peer speaks, for this request (D2).
    pub(crate) dialect: &'static Dialect,
    /// Its frame: the outbox knows whether it has begun to leave.
    pub(crate) frame: Ticket,
    pub(crate) started: Instant,
    pub(crate) clocks: CallClocks,
    /// When its timer is armed, which may be before its clocks are due.
    pub(crate) armed: TimerKey,
    pub(crate) token: Option<Box<RequestId>>,
    /// Those it belongs to; most belong to nobody.
    pub(crate) kin: Option<Box<ParentLink>>,
    pub(crate) cancel: Option<Box<Cancelling>>,
    pub(crate) method: Method,
    pub(crate) part: Part,
    pub(crate) standing: Standing,
    /// The protocol has no way to cancel it (D18, D38).
    pub(crate) uncancellable: bool,
    pub(crate) is_task: bool,
    /// Somebody wants to hear what comes of its cancel.
    pub(crate) is_watched: bool,
    /// A person answers it: while it is open the peer's deadlines stand still (D49).
    pub(crate) is_question: bool,
}

/// How far a request is from being forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its caller waits.
    Open,
    /// The caller has its settlement (invariant 3).
    Settled,
    /// Settled, and kept only for what may come late.
    Tombstone,
}

/// A million of them wait at once: what few have stands in a box.
const _: () = assert!(size_of::<Outgoing>() <= 112);

/// A request among those that serve one request of the peer (D26).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentLink {
    /// The request of the peer.
    pub(crate) parent: Key,
    /// The child of the same parent that came before this one, and the one after.
    pub(crate) older: Option<Key>,
    pub(crate) newer: Option<Key>,
}

/// What a method means to the machine, found once when the request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Plain,
    /// `initialize`.
    Handshake,
    /// The turn of a session (D37).
    Prompt,
    /// A permission request within a turn.
    Permission,
    /// A request that the server may end with a cancel of its own (MCP-M02).
    Subscription,
}

/// The clocks of one request (D16); [`NEVER`] is a clock that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallClocks {
    /// On the clock that stands while the peer has a question open (D49).
    pub(crate) response: Instant,
    /// The response clock's limit in nanoseconds, if it runs: half the room of a `Duration`.
    pub(crate) limit: Option<NonZeroU64>,
    /// Progress restarts the response clock.
    pub(crate) is_reset: bool,
    pub(crate) total: Instant,
}

impl CallClocks {
    /// The response clock's limit, if it runs.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.limit.map(|limit| Duration::from_nanos(limit.get()))
    }

    /// The response clock's limit, if progress resets it.
    pub(crate) fn reset(&self) -> Option<Duration> {
        self.limit().filter(|_| self.is_reset)
    }
}

/// A cancel of the request, from asking to the last that is learnt of it.
#[derive(Clone, Debug)]
pub(crate) struct Cancelling {
    pub(crate) receipt: Receipt,
    /// The cancel in the outbox, while it may still be taken back (D15).
    pub(crate) frame: Option<Ticket>,
    /// Until when the caller waits for the answer nevertheless (D4).
    pub(crate) wait: Instant,
}

impl Outgoing {
    /// Whether the caller has its settlement (invariant 3).
    pub(crate) const fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Settled | Standing::Tombstone)
    }

    /// Whether it is kept only for what may come late.
    pub(crate) const fn is_tombstone(&self) -> bool {
        matches!(self.standing, Standing::Tombstone)
    }

    /// The peer's request that this one serves.
    pub(crate) fn parent(&self) -> Option<Key> {
        self.kin.as_ref().map(|kin| kin.parent)
    }

    /// When something is next due for it, as long as `asked` goes on as it does now.
    pub(crate) fn due(&self, asked: &Standstill) -> Instant {
        self.first(asked.due(self.clocks.response))
    }

    /// When something can be due for it at the earliest.
    pub(crate) fn earliest(&self, now: Instant, asked: &Standstill) -> Instant {
        self.first(asked.earliest(now, self.clocks.response))
    }

    fn first(&self, response: Instant) -> Instant {
        match &self.cancel {
            _ if self.is_settled() => NEVER,
            Some(cancel) => cancel.wait.min(response).min(self.clocks.total),
            None => response.min(self.clocks.total),
        }
    }
}

/// The table of our requests.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    slab: Slab<Outgoing>,
    ids: HashTable<u32>,
    tokens: HashTable<u32>,
    /// Settled, cancelled, the cancel written, nothing heard since; oldest first, with some that are gone.
    tombstones: VecDeque<(Key, Instant)>,
    retired: usize,
    /// Not settled.
    waiting: usize,
    next_id: i64,
    bounds: Bounds,
    seed: Seed,
}

impl Calls {
    /// Bytes of memory held, capacities included, without what few requests have.
    pub(crate) fn held(&self) -> usize {
        let indexes = self.ids.allocation_size() + self.tokens.allocation_size();
        self.slab.held() + indexes + self.tombstones.capacity() * size_of::<(Key, Instant)>()
    }

    pub(crate) const fn new(bounds: Bounds, seed: Seed) -> Self {
        Self {
            slab: Slab::new(),
            ids: HashTable::new(),
            tokens: HashTable::new(),
            tombstones: VecDeque::new(),
            retired: 0,
            waiting: 0,
            next_id: 1,
            bounds,
            seed,
        }
    }

    /// Requests whose caller still waits.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Everything in the table, ghosts included.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) const fn tombstones(&self) -> usize {
        self.retired
    }

    pub(crate) const fn take_id(&mut self) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(crate) const fn next_id(&self) -> i64 {
        self.next_id
    }

    /// Whether a request of ours ever had this id.
    pub(crate) const fn was_ours(&self, id: i64) -> bool {
        id >= 1 && id < self.next_id
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Outgoing> {
        self.slab.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Outgoing> {
        self.slab.get_mut(key)
    }

    pub(crate) fn kin_mut(&mut self, key: Key) -> Option<&mut ParentLink> {
        self.slab.get_mut(key)?.kin.as_deref_mut()
    }

    /// All of them in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Outgoing)> {
        self.slab.iter()
    }

    /// Keys of all of them: the same order on every run.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.slab.iter().map(|(key, _)| key).collect()
    }

    pub(crate) fn insert(&mut self, call: Outgoing) -> Key {
        let Self { slab, ids, tokens, seed, .. } = self;
        let (id, has_token) = (call.id, call.token.is_some());
        let key = slab.insert(call);
        let at = key.index();
        ids.insert_unique(seed.integer(id), at, |&at| slab.at(at).map_or(0, |call| seed.integer(call.id)));
        if has_token {
            let hash = |&at: &u32| token_at(slab, at).map_or(0, |token| seed.id(token));
            tokens.insert_unique(hash(&at), at, hash);
        }
        self.waiting += 1;
        key
    }

    pub(crate) fn by_id(&self, id: i64) -> Option<Key> {
        let found = self.ids.find(self.seed.integer(id), |&at| self.slab.at(at).is_some_and(|call| call.id == id))?;
        self.slab.key_at(*found)
    }

    /// The request in flight that asked for progress under `token`.
    pub(crate) fn by_token(&self, token: &RequestId) -> Option<Key> {
        if self.tokens.is_empty() {
            return None;
        }
        let is = |&at: &u32| token_at(&self.slab, at) == Some(token);
        self.slab.key_at(*self.tokens.find(self.seed.id(token), is)?)
    }

    /// The caller has its settlement: nobody waits, and its token is no longer active (MCP-P03).
    pub(crate) fn settle(&mut self, key: Key) -> Option<Box<RequestId>> {
        let call = self.slab.get_mut(key).filter(|call| !call.is_settled())?;
        call.standing = Standing::Settled;
        self.waiting -= 1;
        let token = call.token.as_deref()?;
        if let Ok(entry) = self.tokens.find_entry(self.seed.id(token), |&at| at == key.index()) {
            entry.remove();
        }
        self.slab.get_mut(key)?.token.take()
    }

    /// A settled request whose cancel was written stays until it is answered or forgotten.
    pub(crate) fn retire(&mut self, now: Instant, key: Key) {
        let Some(call) = self.slab.get_mut(key).filter(|call| !call.is_tombstone()) else {
            return;
        };
        call.standing = Standing::Tombstone;
        self.tombstones.push_back((key, now));
        self.retired += 1;
        if self.tombstones.len() > 2 * self.retired + 32 {
            let slab = &self.slab;
            self.tombstones.retain(|(key, _)| slab.get(*key).is_some());
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Outgoing> {
        let call = self.slab.remove(key)?;
        if let Ok(entry) = self.ids.find_entry(self.seed.integer(call.id), |&at| at == key.index()) {
            entry.remove();
        }
        if call.is_tombstone() {
            self.retired -= 1;
        }
        debug_assert!(call.is_settled(), "invariant 3: {} left without a settlement", call.id);
        Some(call)
    }

    /// The next ghost that is too old, or too much; the caller removes it.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Key> {
        loop {
            let &(key, at) = self.tombstones.front()?;
            if self.slab.get(key).is_some() {
                let age = now.since(at);
                let Bounds { most, least, longest, .. } = self.bounds;
                let many = self.retired > most && age >= least || self.retired > self.bounds.hard;
                if age < longest && !many {
                    return None;
                }
                self.tombstones.pop_front();
                return Some(key);
            }
            self.tombstones.pop_front();
        }
    }

    /// When the oldest ghost may be forgotten.
    pub(crate) fn expired_due(&self) -> Option<Instant> {
        let Bounds { most, least, longest, .. } = self.bounds;
        let age = if self.retired > most { least.min(longest) } else { longest };
        self.tombstones.front().map(|(_, at)| *at + age)
    }

    /// Ghosts with the time since which they are.
    pub(crate) fn retired(&self) -> impl Iterator<Item = (Key, Instant)> {
        self.tombstones.iter().copied().filter(|(key, _)| self.slab.get(*key).is_some())
    }

    /// Entries of the token index, for the invariants.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens.len()
    }
}

fn token_at(slab: &Slab<Outgoing>, at: u32) -> Option<&RequestId> {
    slab.at(at)?.token.as_deref()
}
