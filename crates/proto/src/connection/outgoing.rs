//! Our requests: those in flight, and those whose cancel may still teach us something (D15, D28).
//!
//! An id that was answered needs no tombstone: ids are ours, count up and are never used twice, so one below the next
//! that is in no table was settled. A cancelled request stays, as its own tombstone, while its receipt is open.

use core::{num::NonZeroU64, ops::Deref, time::Duration};

use super::part::Part;
use crate::{
    child::ChildEnd,
    dialect::Dialect,
    hash::Seed,
    id::RequestId,
    method::Method,
    outbox::Ticket,
    receipt::{Outcome, Receipt},
    slab::Key,
    standstill::Standstill,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// One of our requests, from the call until nothing more can be learnt of it.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) id: i64,
    /// What the peer speaks, for this request (D2).
    pub(super) dialect: &'static Dialect,
    /// Its frame: the outbox knows whether it has begun to leave.
    pub(super) frame: Ticket,
    pub(super) started: Instant,
    pub(super) clocks: CallClocks,
    /// Its timer, which may be armed before its clocks are due.
    pub(super) timer: TimerKey,
    /// Fields that few requests have; each entry would pay for them.
    pub(super) rare: Option<Box<Rare>>,
    pub(super) cancel: Option<Box<Cancelling>>,
    pub(super) method: Method,
    pub(super) part: Part,
    pub(super) standing: Standing,
    /// The protocol has no way to cancel it (D18, D38).
    pub(super) is_uncancellable: bool,
    pub(super) is_task: bool,
    /// Progress restarts its response clock.
    pub(super) is_reset: bool,
    /// It was reported to have left, where departures are reported.
    pub(super) has_left: bool,
    /// Its receipts are reported even where those of others are not.
    pub(super) is_watched: bool,
    /// Its cancel is that of its whole session (D37, D55).
    pub(super) is_cancelled_with_session: bool,
    /// A person answers it: while it is open the peer's deadlines stand still (D49).
    pub(super) is_question: bool,
}

/// A million of them wait at once.
const _: () = assert!(size_of::<Outgoing>() <= 104);

/// How far a request is from being forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// Its caller waits.
    Open,
    /// The caller has its settlement (invariant 3).
    Settled,
    /// Settled, and kept only for what may come late.
    Tombstone,
}

/// Fields that few requests have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// The request of the peer that it serves (D26).
    pub(super) parent: Option<Key>,
    /// The session of a turn, or of a card within one, as its caller wrote it.
    pub(super) session: Option<Box<[u8]>>,
    /// The progress token, while it is active.
    pub(super) token: Option<RequestId>,
    /// What was reported of the work of a prompt.
    pub(super) reported: Reported,
}

/// What was reported of the work that a prompt of ours has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Reported {
    #[default]
    Nothing,
    Begun,
    /// It was over before the prompt was answered: the update that said so, and how it ended.
    Over(Box<[u8]>, ChildEnd),
}

/// The clocks of one request (D16); [`NEVER`] is a clock that does not run.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallClocks {
    /// On the clock that stands while the peer has a question open (D49).
    pub(super) response: Instant,
    /// The response clock's limit in nanoseconds, if it runs: half the room of a `Duration`.
    pub(super) limit: Option<NonZeroU64>,
    pub(super) total: Instant,
}

impl CallClocks {
    /// The response clock's limit, if it runs.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.limit.map(|limit| Duration::from_nanos(limit.get()))
    }
}

/// A cancel of the request, from asking to the last that is learnt of it.
#[derive(Clone, Debug)]
pub(super) struct Cancelling {
    pub(super) receipt: Receipt,
    /// The cancel in the outbox, while it may still be withdrawn (D15).
    pub(super) frame: Option<Ticket>,
    /// Until when the caller waits for the answer nevertheless (D4).
    pub(super) wait: Instant,
}

impl Outgoing {
    /// Whether the caller has its settlement (invariant 3).
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Settled | Standing::Tombstone)
    }

    pub(super) fn parent(&self) -> Option<Key> {
        self.rare.as_ref()?.parent
    }

    pub(super) fn session(&self) -> Option<&[u8]> {
        self.rare.as_ref()?.session.as_deref()
    }

    /// The progress token, while it is active.
    fn token(&self) -> Option<&RequestId> {
        self.rare.as_ref()?.token.as_ref()
    }

    /// What is known of its cancel.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.cancel.as_ref().map(|cancel| cancel.receipt.outcome)
    }

    /// When something is next due for it, as long as `questions` goes on as it does now.
    pub(super) fn due(&self, questions: &Standstill) -> Instant {
        self.first(questions.due(self.clocks.response))
    }

    /// When something can be due for it at the earliest.
    pub(super) fn earliest(&self, now: Instant, questions: &Standstill) -> Instant {
        self.first(questions.earliest(now, self.clocks.response))
    }

    fn first(&self, response: Instant) -> Instant {
        let wait = self.cancel.as_ref().map_or(NEVER, |cancel| cancel.wait);
        if self.is_settled() { NEVER } else { wait.min(response).min(self.clocks.total) }
    }
}

impl Entry for Outgoing {
    type Id = i64;

    fn id(&self) -> &i64 {
        &self.id
    }

    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.token().into_iter()
    }
}

/// The table of our requests; it is changed only where the counts follow.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    table: Table<Outgoing>,
    /// Requests whose caller waits.
    pub(super) waiting: usize,
    /// The id of the next request.
    pub(super) next_id: i64,
    bounds: Bounds,
}

impl Deref for Calls {
    type Target = Table<Outgoing>;

    fn deref(&self) -> &Table<Outgoing> {
        &self.table
    }
}

/// Where the settled ones lie whose cancel was written: they may still be answered.
const RING: Ring = Ring::Abandoned;

impl Calls {
    pub(super) const fn new(bounds: Bounds, seed: Seed) -> Self {
        Self { table: Table::new(seed), waiting: 0, next_id: 1, bounds }
    }

    /// Whether a request of ours ever had this id.
    pub(super) const fn was_ours(&self, id: i64) -> bool {
        id >= 1 && id < self.next_id
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Outgoing> {
        self.table.get_mut(key)
    }

    /// The request, if its caller waits.
    pub(super) fn open(&mut self, key: Key) -> Option<&mut Outgoing> {
        self.table.get_mut(key).filter(|call| !call.is_settled())
    }

    /// Keys of all of them: the same order on every run.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }

    pub(super) fn insert(&mut self, call: Outgoing) -> Key {
        self.waiting += 1;
        self.table.insert(self.table.hash(&call.id), call)
    }

    /// Settles a request whose caller waits, and returns it with the token under which it got progress: that is no longer
    /// active (MCP-P03).
    pub(super) fn settle(&mut self, key: Key) -> Option<(&mut Outgoing, Option<RequestId>)> {
        if self.get(key)?.token().is_some() {
            self.table.unlist_tokens(key);
        }
        let Self { table, waiting, .. } = self;
        let call = table.get_mut(key).filter(|call| !call.is_settled())?;
        call.standing = Standing::Settled;
        *waiting -= 1;
        let token = call.rare.as_mut().and_then(|rare| rare.token.take());
        Some((call, token))
    }

    /// Keeps a settled request, whose cancel was written, until it is answered or forgotten.
    pub(super) fn retire(&mut self, now: Instant, key: Key) {
        if let Some(call) = self.table.retire(key, now, RING) {
            call.standing = Standing::Tombstone;
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Outgoing> {
        let ring = (self.get(key)?.standing == Standing::Tombstone).then_some(RING);
        let call = self.table.remove(key, ring)?;
        debug_assert!(call.is_settled(), "our request {} left without a settlement (invariant 3)", call.id);
        Some(call)
    }

    /// Finds the next tombstone that is too old or one too many; the caller removes it.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Key> {
        let key = self.table.expired(RING, now, &self.bounds)?;
        self.table.get_mut(key)?.standing = Standing::Settled;
        Some(key)
    }

    /// When the oldest tombstone may be forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.table.due(RING, &self.bounds)
    }

    /// Panics where the counts or the indexes do not agree with the entries.
    pub(super) fn check(&self) {
        let count = |is: fn(&Outgoing) -> bool| self.iter().filter(|(_, call)| is(call)).count();
        assert_eq!(count(|call| !call.is_settled()), self.waiting, "invariant 8: the count of waiting callers is off");
        let tombstones = count(|call| call.standing == Standing::Tombstone);
        let tokens = count(|call| call.token().is_some());
        assert_eq!(tombstones, self.retired(), "invariant 8: the count of tombstones is off");
        assert_eq!((self.len(), tokens), self.table.listed(), "invariant 6: an id or a token leads nowhere");
        self.table.check(|call| call.standing != Standing::Tombstone);
    }
}
