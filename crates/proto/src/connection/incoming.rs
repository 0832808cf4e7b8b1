//! The peer's requests: queued, running, stopping, ended (D12, D21–D24).
//!
//! Two things are kept apart, for they end at different times: what the
//! handler is doing ([`Work`]) and what the requester was told ([`ResponseState`]). Who
//! cancelled is a third ([`Stop`]), recorded and never inferred (D25).

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::{
    cause::Cause,
    connection::payload::Payload,
    dialect::{CancelReply, CancelResult, Dialect},
    hash::Seed,
    id::{IncomingId, RequestId},
    method::Method,
    outbox::Ticket,
    rule::Rule,
    slab::{Key, Slab},
    standstill::Standstill,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// One of the peer's requests, until its handler has ended and its answer has left.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) id: IncomingId,
    /// What the requester speaks, for this request (D2).
    pub(crate) dialect: &'static Dialect,
    pub(crate) work: Work,
    pub(crate) response: ResponseState,
    pub(crate) stop: Option<Box<Stop>>,
    pub(crate) arrived: Instant,
    /// The requester's deadline (D17), on the clock that stands while we have a question open (D49).
    pub(crate) deadline: Instant,
    /// When our own limit for it is over (MCP-C14).
    pub(crate) limit: Instant,
    /// When its timer is armed.
    pub(crate) armed: TimerKey,
    /// What few requests have; each entry would pay for it.
    pub(crate) rare: Option<Box<Rare>>,
    /// The newest of our requests that serve this one (D26); changed by [`Requests::set_child`].
    pub(crate) child: Option<Key>,
    pub(crate) method: Method,
    /// The rule that forbids cancelling it.
    pub(crate) uncancellable: Option<Rule>,
    pub(crate) shielded: bool,
    pub(crate) kind: Kind,
    /// A later request has taken its id over.
    pub(crate) replaced: bool,
    pub(crate) suspension: Suspension,
    /// A person answers it, and has not: meanwhile the response clocks of our calls stand still (D49).
    pub(crate) is_open_question: bool,
}

/// What a request means to the machine beyond its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// A turn, or a permission request within one (D37).
    InTurn,
    /// The server may end it with a cancel of its own (MCP-M02).
    Subscription,
}

/// A million of them wait at once: what few have stands in a box.
const _: () = assert!(size_of::<Incoming>() <= 144);

/// What few requests have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    pub(crate) grace: Grace,
    /// The method's own cancellation result.
    own: Option<&'static CancelResult>,
    /// The batch that its answer belongs to (MCP-B01).
    batch: Option<Key>,
    /// Frames written for it that may not have left yet (MCP-P03).
    pub(crate) frames: VecDeque<Ticket>,
    pub(crate) delivery: Delivery,
}

/// Whether somebody wants to know that the answer has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Delivery {
    #[default]
    Unwatched,
    Watched,
    /// It has left.
    Made,
}

impl Rare {
    pub(crate) fn new(own: Option<&'static CancelResult>, batch: Option<Key>) -> Option<Box<Self>> {
        (own.is_some() || batch.is_some()).then(|| Box::new(Self { own, batch, ..Self::default() }))
    }
}

/// Whether a handler that has answered goes on with another request of the peer (D48).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Suspension {
    #[default]
    Never,
    /// It waits for that request, or works for one that has a slot.
    Waits,
    /// It waited once and does not any more: it is at work until it has ended, and holds a slot.
    Over,
}

/// What the handler is doing.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Too many run.
    Waiting(Payload),
    /// It may start: the event is queued and not yet polled.
    Offered(Payload),
    Running,
    /// Its token has fired; at this time it is dropped.
    Stopping(Instant),
    /// It was to be dropped, and has not ended yet.
    Dropping,
    Ended,
}

impl Work {
    /// Bytes kept until the handler starts.
    const fn payload_len(&self) -> usize {
        match self {
            Self::Waiting(payload) | Self::Offered(payload) => payload.len(),
            Self::Running | Self::Stopping(_) | Self::Dropping | Self::Ended => 0,
        }
    }
}

/// What the requester was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResponseState {
    Nothing,
    /// It cancelled and wants silence: nothing will ever be told (MCP-C06).
    Silence,
    /// An answer waits to be written.
    Answering(Ticket),
    /// The answer is out, or part of a batch.
    Answered,
}

/// A cancel of the request, whoever asked.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) cause: Cause,
    pub(crate) asked: Instant,
    /// The requester asked too: only that silences the answer (D25).
    pub(crate) by_peer: bool,
    /// The handler was shielded: the token did not fire (D22).
    pub(crate) refused: bool,
}

/// How long a handler may take to stop (D22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grace {
    /// As configured for whatever asked it to stop.
    #[default]
    Default,
    /// This long.
    After(Duration),
    /// As long as it likes: it is never dropped.
    Never,
}

/// How long after its requester's deadline a request is stopped: the deadline is the net under a lost cancel, and the
/// requester's own clock the only judge (D17). It is added here and never passed on, so that it does not add up.
const NET: Duration = Duration::from_secs(1);

impl Incoming {
    /// When it is stopped for want of time, as long as `asking` goes on as it does now.
    pub(crate) fn due(&self, asking: &Standstill) -> Instant {
        self.limit.min(asking.due(self.deadline) + NET)
    }

    /// When that can be at the earliest.
    pub(crate) fn earliest(&self, now: Instant, asking: &Standstill) -> Instant {
        self.limit.min(asking.earliest(now, self.deadline) + NET)
    }

    /// How much time its requester and our own limit still give it.
    pub(crate) fn remaining(&self, now: Instant, asking: &Standstill) -> Option<Duration> {
        let ends = self.limit.min(asking.earliest(now, self.deadline));
        (ends != NEVER).then(|| ends.since(now))
    }

    pub(crate) const fn has_started(&self) -> bool {
        !matches!(self.work, Work::Waiting(_) | Work::Offered(_))
    }

    /// Whether a handler runs, whatever it was told.
    pub(crate) const fn runs(&self) -> bool {
        matches!(self.work, Work::Running | Work::Stopping(_) | Work::Dropping)
    }

    /// Whether its handler waits for the peer, so that it holds no slot.
    const fn waits_for_peer(&self) -> bool {
        self.child.is_some() || self.is_suspended()
    }

    pub(crate) const fn is_suspended(&self) -> bool {
        matches!(self.suspension, Suspension::Waits)
    }

    /// Whether the requester still waits for something.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.response, ResponseState::Nothing | ResponseState::Answering(_))
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn grace(&self) -> Grace {
        self.rare.as_ref().map_or(Grace::Default, |rare| rare.grace)
    }

    /// The method's own cancellation result.
    pub(crate) fn own(&self) -> Option<&'static CancelResult> {
        self.rare.as_ref()?.own
    }

    pub(crate) fn set_own(&mut self, own: Option<&'static CancelResult>) {
        if own.is_some() || self.rare.is_some() {
            self.rare().own = own;
        }
    }

    /// It leaves the batch that its answer belonged to.
    pub(crate) fn take_batch(&mut self) -> Option<Key> {
        self.rare.as_mut()?.batch.take()
    }

    pub(crate) const fn is_silent(&self) -> bool {
        matches!(self.dialect.settlement, CancelReply::Silent)
    }

    pub(crate) fn cancelled_by_peer(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.by_peer)
    }
}

/// The table of the peer's requests.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    slab: Slab<Incoming>,
    ids: HashTable<u32>,
    /// Those that wait to be offered, oldest first, with some that are gone.
    line: VecDeque<Key>,
    waiting: usize,
    offered: usize,
    running: usize,
    /// Bytes kept of requests whose handler has not started, and of all ids.
    bytes: usize,
    /// Of those that run, the ones that [wait for the peer](Incoming::waits_for_peer).
    asking: usize,
    /// Of those, the suspended ones.
    suspended: usize,
    max_running: usize,
    max_queued: usize,
    seed: Seed,
}

impl Requests {
    pub(crate) const fn new(max_running: usize, max_queued: usize, seed: Seed) -> Self {
        Self {
            slab: Slab::new(),
            ids: HashTable::new(),
            line: VecDeque::new(),
            waiting: 0,
            offered: 0,
            running: 0,
            bytes: 0,
            asking: 0,
            suspended: 0,
            max_running,
            max_queued,
            seed,
        }
    }

    /// Everything in the table.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Handlers that have started and not ended.
    pub(crate) const fn running(&self) -> usize {
        self.running
    }

    /// Requests whose handler has not started.
    pub(crate) const fn queued(&self) -> usize {
        self.waiting + self.offered
    }

    /// Bytes kept of requests whose handler has not started, and of the ids of all.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        self.slab.held() + self.ids.allocation_size() + self.line.capacity() * size_of::<Key>() + self.bytes
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Incoming> {
        self.slab.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Incoming> {
        self.slab.get_mut(key)
    }

    /// All of them in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Incoming)> {
        self.slab.iter()
    }

    /// Keys of all of them: the same order on every run.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.slab.iter().map(|(key, _)| key).collect()
    }

    /// Whether one more can be taken (D12). Suspended handlers keep nobody out: it may be what they wait for.
    pub(crate) const fn has_room(&self) -> bool {
        self.running - self.suspended + self.queued() < self.max_running.saturating_add(self.max_queued)
    }

    /// Handlers that wait for a request of ours to be answered, or for another request of the peer.
    pub(crate) const fn asking(&self) -> usize {
        self.asking
    }

    /// Handlers that wait for another request of the peer.
    pub(crate) const fn suspended(&self) -> usize {
        self.suspended
    }

    /// Whether one more may be offered. A handler that waits for its peer holds no slot: the peer may need one to
    /// answer it, and both would wait for ever.
    pub(crate) const fn may_offer(&self) -> bool {
        self.running - self.asking + self.offered < self.max_running
    }

    /// Changes which request of ours is the newest that serves this one; gives the one before.
    pub(crate) fn set_child(&mut self, key: Key, child: Option<Key>) -> Option<Key> {
        self.change_wait(key, |request| core::mem::replace(&mut request.child, child))?
    }

    /// The handler waits for another request of the peer, which has a slot of its own.
    pub(crate) fn suspend(&mut self, key: Key) {
        self.change_wait(key, |request| request.suspension = Suspension::Waits);
    }

    /// The handler waits for no other request of the peer any more: it is at work again, or has ended.
    pub(crate) fn resume(&mut self, key: Key) {
        self.change_wait(key, |request| {
            if request.is_suspended() {
                request.suspension = Suspension::Over;
            }
        });
    }

    /// Changes what a handler waits for, and counts.
    fn change_wait<T>(&mut self, key: Key, change: impl FnOnce(&mut Incoming) -> T) -> Option<T> {
        let request = self.slab.get_mut(key)?;
        let before = (request.waits_for_peer(), request.is_suspended());
        let changed = change(request);
        self.asking = self.asking + usize::from(request.waits_for_peer()) - usize::from(before.0);
        self.suspended = self.suspended + usize::from(request.is_suspended()) - usize::from(before.1);
        Some(changed)
    }

    /// The newest request of this id.
    pub(crate) fn by_id(&self, id: &RequestId) -> Option<Key> {
        let is = |&at: &u32| self.slab.at(at).is_some_and(|request| request.id.0 == *id);
        self.slab.key_at(*self.ids.find(self.seed.id(id), is)?)
    }

    /// Takes a request in; one with the same id must have been [replaced](Self::supersede).
    pub(crate) fn insert(&mut self, request: Incoming) -> Key {
        match request.work {
            Work::Waiting(_) => self.waiting += 1,
            Work::Offered(_) => self.offered += 1,
            Work::Running | Work::Stopping(_) | Work::Dropping | Work::Ended => {}
        }
        let waits = matches!(request.work, Work::Waiting(_));
        self.bytes += request.work.payload_len() + request.id.0.heap_bytes();
        let Self { slab, ids, seed, .. } = self;
        let hash = seed.id(&request.id.0);
        let key = slab.insert(request);
        ids.insert_unique(hash, key.index(), |&at| slab.at(at).map_or(0, |other| seed.id(&other.id.0)));
        if waits {
            self.line.push_back(key);
        }
        key
    }

    /// The id belongs to a later request from now on: the peer cannot name this one any more (D8).
    pub(crate) fn replace(&mut self, key: Key) {
        self.unindex(key);
        if let Some(request) = self.slab.get_mut(key) {
            request.replaced = true;
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        let Some(request) = self.slab.get(key) else { return };
        self.bytes -= request.work.payload_len() + request.id.0.heap_bytes();
        if !request.replaced {
            self.unindex(key);
        }
        self.slab.discard(key);
    }

    /// Moves the handler to another state, and counts.
    pub(crate) fn set_work(&mut self, key: Key, work: Work) -> Option<Work> {
        let request = self.slab.get_mut(key)?;
        let before = core::mem::replace(&mut request.work, work);
        let after = &request.work;
        self.bytes += after.payload_len();
        self.bytes -= before.payload_len();
        match before {
            Work::Waiting(_) => self.waiting -= 1,
            Work::Offered(_) => self.offered -= 1,
            Work::Running | Work::Stopping(_) | Work::Dropping => self.running -= 1,
            Work::Ended => {}
        }
        match after {
            Work::Waiting(_) => self.waiting += 1,
            Work::Offered(_) => self.offered += 1,
            Work::Running | Work::Stopping(_) | Work::Dropping => self.running += 1,
            Work::Ended => {}
        }
        Some(before)
    }

    /// Takes the next request in line, if it may start: it is offered now.
    pub(crate) fn next_in_line(&mut self) -> Option<Key> {
        while self.may_offer() {
            let key = self.line.pop_front()?;
            match self.slab.get_mut(key).map(|request| &mut request.work) {
                Some(work @ Work::Waiting(_)) => {
                    if let Work::Waiting(payload) = core::mem::replace(work, Work::Ended) {
                        *work = Work::Offered(payload);
                    }
                    self.waiting -= 1;
                    self.offered += 1;
                    return Some(key);
                }
                Some(Work::Offered(_) | Work::Running | Work::Stopping(_) | Work::Dropping | Work::Ended) | None => {}
            }
        }
        None
    }

    /// Drops what is gone from the line, so that a flood of requests and cancels cannot lengthen it.
    pub(crate) fn tidy_line(&mut self) {
        if self.line.len() > 2 * self.waiting + 32 {
            let slab = &self.slab;
            self.line.retain(|key| slab.get(*key).is_some_and(|request| matches!(request.work, Work::Waiting(_))));
        }
    }

    /// Those in line, oldest first, with some that are gone.
    pub(crate) fn line(&self) -> impl Iterator<Item = Key> {
        self.line.iter().copied()
    }

    /// Entries of the id index, for the invariants.
    pub(crate) fn indexed(&self) -> usize {
        self.ids.len()
    }

    fn unindex(&mut self, key: Key) {
        let Some(request) = self.slab.get(key) else { return };
        if let Ok(entry) = self.ids.find_entry(self.seed.id(&request.id.0), |&at| at == key.index()) {
            entry.remove();
        }
    }
}
