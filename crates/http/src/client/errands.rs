//! All errands, and what they wait in: the session, the queues of HTTP requests, timers.
//!
//! Every way into one of these is undone by [`Errands::take_fetch`] or [`Errands::forget`], and by nothing else.

use core::{
    mem::replace,
    ops::{AddAssign, SubAssign},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rescind_parts::timer_queue::{TimerKey, TimerQueue};
use rescind_proto::{id::RequestId, link::Departure, time::Instant};

use super::{
    ErrandKey, FetchKey, HttpClientConfig, HttpClientEvent,
    errand::{CallState, Errand, OneWayKind, Role, Stage},
    event_reader::Event,
    fetch::{Aim, Fetch, Phase, Reader},
    headers::Target,
    message,
    queues::{Queue, Queues},
};

/// The errands of a client.
#[derive(Clone, Debug)]
pub(crate) struct Errands {
    entries: BTreeMap<ErrandKey, Errand>,
    /// Requests in flight, by id; those whose answer was not taken yet included.
    pub(crate) calls: HashMap<RequestId, ErrandKey, FixedState>,
    /// Those that wait until messages may be sent in the session, oldest first.
    pub(crate) held: BTreeSet<ErrandKey>,
    pub(crate) queues: Queues,
    pub(crate) backlog: Backlog,
    pub(crate) timers: TimerQueue<Timer>,
    pub(crate) events: VecDeque<HttpClientEvent>,
    /// Where the server is.
    target: Target,
    last_key: u64,
}

/// Whose timer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Errand(ErrandKey),
    Fetch(FetchKey),
}

impl Errands {
    pub(crate) fn new(config: &HttpClientConfig) -> Self {
        Self {
            entries: BTreeMap::new(),
            calls: HashMap::with_hasher(FixedState::with_seed(config.seed)),
            held: BTreeSet::new(),
            queues: Queues::default(),
            backlog: Backlog::default(),
            timers: TimerQueue::new(),
            events: VecDeque::new(),
            target: Target(config.url.clone()),
            last_key: 0,
        }
    }

    pub(crate) fn get(&self, key: ErrandKey) -> Option<&Errand> {
        self.entries.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: ErrandKey) -> Option<&mut Errand> {
        self.entries.get_mut(&key)
    }

    /// An HTTP request, and its errand.
    pub(crate) fn fetch(&self, key: FetchKey) -> Option<(&Errand, &Fetch)> {
        let errand = self.entries.get(&key.errand)?;
        Some((errand, errand.fetch().filter(|fetch| fetch.serial == key.serial)?))
    }

    pub(crate) fn fetch_mut(&mut self, key: FetchKey) -> Option<&mut Fetch> {
        let Stage::Carried(fetch) = &mut self.entries.get_mut(&key.errand)?.stage else { return None };
        Some(fetch).filter(|fetch| fetch.serial == key.serial)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ErrandKey, &Errand)> {
        self.entries.iter().map(|(key, errand)| (*key, errand))
    }

    /// The keys of those of which this is true.
    pub(crate) fn keys(&self, is: impl Fn(&Errand) -> bool) -> Vec<ErrandKey> {
        self.iter().filter(|(_, errand)| is(errand)).map(|(key, _)| key).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A number that nothing else has.
    pub(crate) const fn allocate(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    /// Keeps an errand, and its requests as in flight.
    pub(crate) fn insert(&mut self, errand: Errand) -> ErrandKey {
        let key = ErrandKey(self.allocate());
        if errand.role == Role::Calls {
            self.calls.extend(errand.waiting.iter().map(|waiting| (waiting.id.clone(), key)));
        }
        self.backlog += Backlog::of(&errand);
        self.entries.insert(key, errand);
        key
    }

    /// Lets an errand wait until the session takes messages.
    pub(crate) fn hold(&mut self, key: ErrandKey) {
        self.take_fetch(key);
        if let Some(errand) = self.entries.get_mut(&key) {
            errand.stage = Stage::Held;
            self.held.insert(key);
        }
    }

    /// Takes one that waits so out of there.
    pub(crate) fn take_held(&mut self, key: ErrandKey) {
        if self.held.remove(&key)
            && let Some(errand) = self.entries.get_mut(&key)
        {
            errand.stage = Stage::Away;
        }
    }

    /// Has an HTTP request to the server carry an errand, as soon as it may be handed out.
    pub(crate) fn carry(&mut self, key: ErrandKey, aim: Aim) {
        let Some(errand) = self.entries.get(&key) else { return };
        let queue = errand.queue(&aim);
        self.carry_with(key, Fetch::new(aim, self.target.clone(), queue));
    }

    pub(crate) fn carry_with(&mut self, key: ErrandKey, fetch: Fetch) {
        let fetch = Fetch { serial: self.allocate(), ..fetch };
        let Some(errand) = self.entries.get_mut(&key) else { return };
        self.queues.insert(fetch.queue, fetch.key(key));
        errand.stage = Stage::Carried(fetch);
    }

    /// Has an HTTP request wait for its turn in this queue.
    pub(crate) fn queue_at(&mut self, key: FetchKey, queue: Queue) {
        if let Some(fetch) = self.fetch_mut(key) {
            fetch.queue = queue;
            self.queues.insert(queue, key);
        }
    }

    /// Notes how far an HTTP request has come that the driver is to perform: the server has some time to accept it.
    pub(crate) fn hand_over(&mut self, now: Instant, key: FetchKey, phase: Phase, config: &HttpClientConfig) {
        let Some((errand, fetch)) = self.fetch(key) else { return };
        let patience = errand.patience(&fetch.aim, config);
        if let Some(fetch) = self.fetch_mut(key) {
            fetch.phase = phase;
        }
        self.arm_fetch(key, patience.map(|patience| now + patience));
    }

    /// Takes off an errand the HTTP request that carries it. The driver goes on with it unless it is aborted.
    pub(crate) fn take_fetch(&mut self, key: ErrandKey) -> Option<Fetch> {
        let errand = self.entries.get_mut(&key)?;
        let stage = replace(&mut errand.stage, Stage::Away);
        let Stage::Carried(mut fetch) = stage else {
            errand.stage = stage;
            return None;
        };
        self.timers.stop(&mut fetch.timer);
        if fetch.is_handed() {
            self.queues.hand_back(fetch.queue);
        } else {
            self.queues.remove(fetch.queue, fetch.key(key));
        }
        Some(fetch)
    }

    /// The same of an HTTP request that is over; `None` if it was given up before.
    pub(crate) fn end_fetch(&mut self, key: FetchKey) -> Option<Fetch> {
        self.fetch(key)?;
        self.take_fetch(key.errand)
    }

    /// The same, and the driver gives it up.
    pub(crate) fn abort(&mut self, key: ErrandKey) -> Option<Fetch> {
        let fetch = self.take_fetch(key)?;
        if fetch.is_handed() {
            self.events.push_back(HttpClientEvent::Abort(fetch.key(key)));
        }
        Some(fetch)
    }

    /// Forgets an errand, with all that is under way for it. What still waits for it is answered before.
    pub(crate) fn forget(&mut self, key: ErrandKey) {
        self.abort(key);
        self.arm(key, None);
        let Some(errand) = self.entries.remove(&key) else { return };
        self.backlog -= Backlog::of(&errand);
        self.held.remove(&key);
        if let Stage::Surveying(survey, _) = &errand.stage {
            self.forget(*survey);
        }
        for waiting in errand.waiting.into_iter().filter(|_| errand.role == Role::Calls) {
            if waiting.state == CallState::InFlight && self.calls.get(&waiting.id) == Some(&key) {
                self.calls.remove(&waiting.id);
            }
            if !waiting.has_left {
                self.events.push_back(Departure::Withdrawn(waiting.id).into());
            }
        }
    }

    /// Lets an errand go that nothing waits for any more: after a while if a response is open, so that the server can end
    /// it. What was cancelled is not resumed, and of what was answered nothing more comes.
    pub(crate) fn settle(&mut self, key: ErrandKey) {
        let Some(errand) = self.entries.get(&key).filter(|errand| errand.role == Role::Calls) else { return };
        let Some(until) = errand.until() else { return };
        if errand.is_open() {
            self.arm(key, Some(until));
        } else {
            self.forget(key);
        }
    }

    /// The server has taken the requests of an errand.
    pub(crate) fn begin(&mut self, key: ErrandKey) {
        let Some(errand) = self.entries.get_mut(&key) else { return };
        errand.stream.has_begun = true;
        self.backlog -= Backlog::of(errand);
        errand.unsent = 0;
        if !errand.is_subscription() {
            errand.body = Bytes::new();
        }
        self.arm(key, None);
        self.release_cancels(key);
        self.settle(key);
    }

    /// The next event of a response that was not read before, and whether it only shows which transport the server speaks;
    /// `None` once all of it was read, or nothing needs it any more.
    pub(crate) fn next_event(&mut self, key: FetchKey, rest: &mut &[u8], seed: u64) -> Option<(Event, bool)> {
        let is_probe = matches!(self.fetch(key)?.1.aim, Aim::Probe(_));
        let event = self.entries.get_mut(&key.errand)?.next_event(rest, seed)?;
        Some((event, is_probe))
    }

    /// Takes a request out of a batch that is still to be sent.
    pub(crate) fn leave_out(&mut self, key: ErrandKey, id: &RequestId) {
        let Some(errand) = self.entries.get_mut(&key) else { return };
        let Some(rest) = message::without(&errand.body, id) else { return };
        let left_out = errand.position(id).map(|at| errand.waiting.remove(at));
        if left_out.is_some_and(|waiting| !waiting.has_left) {
            self.events.push_back(Departure::Withdrawn(id.clone()).into());
        }
        let Some(rest) = rest else { return self.forget(key) };
        self.backlog -= Backlog::of(errand);
        (errand.unsent, errand.body) = (rest.len(), rest);
        self.backlog += Backlog::of(errand);
    }

    /// Wakes an errand at this time alone, or not.
    pub(crate) fn arm(&mut self, key: ErrandKey, due: Option<Instant>) {
        if let Some(errand) = self.entries.get_mut(&key) {
            rearm(&mut self.timers, &mut errand.timer, due, Timer::Errand(key));
        }
    }

    /// Wakes an HTTP request at this time alone, or not.
    pub(crate) fn arm_fetch(&mut self, key: FetchKey, due: Option<Instant>) {
        if let Some(Errand { stage: Stage::Carried(fetch), .. }) = self.entries.get_mut(&key.errand) {
            rearm(&mut self.timers, &mut fetch.timer, due, Timer::Fetch(key));
        }
    }

    /// Takes the next that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let timer = self.timers.pop_due(now)?;
        match timer {
            Timer::Errand(key) => self.get_mut(key)?.timer = TimerKey::NOT,
            Timer::Fetch(key) => self.fetch_mut(key)?.timer = TimerKey::NOT,
        }
        Some(timer)
    }

    /// The body of an HTTP request is being written, which takes along what it carries.
    pub(crate) fn begin_writing(&mut self, now: Instant, key: FetchKey) {
        let Some(errand) = self.entries.get_mut(&key.errand) else { return };
        let Stage::Carried(fetch) = &mut errand.stage else { return };
        fetch.phase = Phase::Written(now);
        if let Aim::Send = fetch.aim {
            errand.leave(&mut self.events);
        }
    }

    /// The server has refused the requests of an errand, which are to be sent again.
    pub(crate) fn come_back(&mut self, key: ErrandKey) {
        if let Some(errand) = self.entries.get_mut(&key) {
            errand.come_back(&mut self.events);
        }
    }

    /// Has an errand wait, and try again: as long as the server says, and longer the more attempts were in vain.
    pub(crate) fn try_later(&mut self, now: Instant, key: ErrandKey, config: &HttpClientConfig) {
        let Some(errand) = self.entries.get_mut(&key) else { return };
        let delay = config.delay(errand.attempts, errand.stream.retry, key.0);
        errand.attempts += 1;
        self.arm(key, Some(now + delay));
    }

    /// Has the rest of a response read, so that its connection can be used again; not for long.
    pub(crate) fn ignore(&mut self, now: Instant, key: FetchKey, config: &HttpClientConfig) {
        if let Some(fetch) = self.fetch_mut(key) {
            fetch.reader = Reader::Ignored { left: config.max_refusal };
            self.arm_fetch(key, Some(now + config.accept_within));
        }
    }

    /// Sends the cancels that wait for a sign that the server has their request: there is one, or nothing more to wait for.
    pub(crate) fn release_cancels(&mut self, key: ErrandKey) {
        let Some(errand) = self.entries.get(&key) else { return };
        for cancel in errand.cancels().collect::<Vec<_>>() {
            self.release(cancel);
        }
    }

    /// Sends now what waits for its timer.
    pub(crate) fn release(&mut self, key: ErrandKey) {
        if matches!(self.entries.get(&key), Some(Errand { stage: Stage::Away, .. })) {
            self.arm(key, None);
            self.carry(key, Aim::Send);
        }
    }

    /// The server has answered the cancel of this request, by `end`, or will not.
    pub(crate) fn cancel_settled(&mut self, key: ErrandKey, id: &RequestId, end: Instant) {
        let Some(errand) = self.entries.get_mut(&key) else { return };
        for waiting in errand.waiting.iter_mut().filter(|waiting| waiting.id == *id) {
            if let CallState::Cancelled { cancel, until } = &mut waiting.state {
                (*cancel, *until) = (None, end.min(*until));
            }
        }
        self.settle(key);
    }
}

fn rearm(timers: &mut TimerQueue<Timer>, armed: &mut TimerKey, due: Option<Instant>, timer: Timer) {
    timers.stop(armed);
    *armed = due.map_or(TimerKey::NOT, |due| timers.arm(due, timer));
}

/// Messages for the server that it has not taken: their bytes, and how many there are of those that are bounded by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Bytes of messages, answers not counted.
    pub(crate) bytes: usize,
    pub(crate) cancels: usize,
    /// Answers to its questions.
    pub(crate) answers: usize,
    pub(crate) answer_bytes: usize,
}

impl Backlog {
    /// One errand.
    pub(crate) fn of(errand: &Errand) -> Self {
        let bytes = errand.unsent;
        match errand.one_way().map(|one_way| &one_way.kind) {
            Some(OneWayKind::Answer) => Self { answers: 1, answer_bytes: bytes, ..Self::default() },
            Some(OneWayKind::Cancel { .. }) => Self { cancels: 1, bytes, ..Self::default() },
            Some(OneWayKind::Initialized | OneWayKind::Other | OneWayKind::End { .. }) | None => {
                Self { bytes, ..Self::default() }
            }
        }
    }

    /// Whether a message is within the bound: one alone always is.
    pub(crate) const fn takes(self, bytes: usize, most: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= most
    }
}

impl AddAssign for Backlog {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.cancels += other.cancels;
        self.answers += other.answers;
        self.answer_bytes += other.answer_bytes;
    }
}

impl SubAssign for Backlog {
    fn sub_assign(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.cancels -= other.cancels;
        self.answers -= other.answers;
        self.answer_bytes -= other.answer_bytes;
    }
}
