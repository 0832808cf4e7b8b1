//! The state as tests see it: its invariants, and a canonical hash.
//!
//! The hash takes every struct apart by all its fields, so that one added later is hashed or left out on purpose: states
//! that differ in a field left out by mistake would count as one.

use core::hash::{Hash, Hasher};

use super::{
    Connection,
    incoming::{ResponseState, Suspension, Work},
    link::{Alarm, Item, Link, Timer, until},
    outgoing::{self, CallClocks, Cancelling, Outgoing, Standing},
    part::Part,
    turn,
};
use crate::{
    framing::Decoder,
    receipt::{Outcome, Receipt},
    slab::Key,
    time::Instant,
    timer_queue::NEVER,
    tombstones::YOUNG,
};

/// Up to this many requests debug builds check the invariants after every input.
const QUICK: usize = 64;

impl Connection {
    /// Panics, naming the invariant by its number in the module's documentation, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        for invariant in 1..=8 {
            assert!(self.link.broken & 1 << invariant == 0, "invariant {invariant} was broken");
        }
        self.check_outgoing();
        self.check_incoming();
        self.check_memory();
        self.check_timers();
    }

    /// Bytes of memory held for messages and requests, capacities included.
    #[must_use]
    pub fn held(&self) -> usize {
        let Link { outbox, batches, tombstones, spent_tokens, early_cancels, events, .. } = &self.link;
        let answers: usize = batches.iter().map(|(_, batch)| batch.answers.capacity()).sum();
        let tables = self.incoming.held() + self.outgoing.held() + tombstones.held() + spent_tokens.held();
        let decoder = self.decoder.as_deref().map_or(0, Decoder::held);
        let events = events.capacity() * size_of::<Item>();
        decoder + answers + tables + outbox.held() + early_cancels.held() + events + self.at_work.held()
    }

    /// In debug builds, after every input, while that is quick.
    pub(super) fn check(&self) {
        if cfg!(debug_assertions) && self.outgoing.len() + self.incoming.len() < QUICK {
            self.check_invariants();
        }
    }

    fn check_outgoing(&self) {
        let link = &self.link;
        self.outgoing.check();
        for (key, call) in self.outgoing.iter() {
            let id = call.id;
            let is_out = |cancel: &Cancelling| cancel.frame.is_some() || cancel.receipt.written.is_some();
            if let Some(cancel) = call.cancel.as_deref().filter(|cancel| is_out(cancel)) {
                let has_begun = link.outbox.has_begun(call.frame);
                assert!(has_begun, "invariant 1: the cancel of {id} is ahead of the request");
                let was_withdrawn = cancel.receipt.outcome == Outcome::NeverSent;
                assert!(!was_withdrawn, "invariant 2: a cancel goes out for {id}, which was withdrawn");
            }
            if call.is_settled() {
                let Some(outcome) = call.outcome() else { panic!("invariant 6: {id} is settled and still there") };
                assert!(!outcome.is_final(), "invariant 6: {id} is settled and its receipt is final");
                assert!(!call.timer.is_armed(), "invariant 6: a clock runs for {id}, which is settled");
            }
            let is_timed =
                call.timer.at <= call.earliest(link.now, &link.their_questions) || link.their_questions.has_parked(key);
            assert!(is_timed, "invariant 6: nothing is armed for {id}, which is due");
            assert_eq!(self.outgoing.by_id(&id), Some(key), "invariant 6: our request {id} cannot be found");
            let parent = call.parent().map(|parent| self.incoming.get(parent));
            let is_served = parent.is_none_or(|parent| parent.is_some_and(|parent| parent.work == Work::Running));
            assert!(is_served, "invariant 6: {id} outlives the request it serves");
        }
        assert!(self.outgoing.waiting <= link.config.max_in_flight, "invariant 8: too many in flight");
        let questions = self.outgoing.iter().filter(|(_, call)| call.is_question && !call.is_settled()).count();
        assert_eq!(
            questions,
            link.our_questions.holders(),
            "invariant 6: the peer's deadlines stand still for nothing"
        );
    }

    fn check_incoming(&self) {
        let link = &self.link;
        self.incoming.check();
        let mut busy = 0;
        for (key, request) in self.incoming.iter() {
            let id = &request.id;
            busy += usize::from(request.work != Work::Ended && request.suspension == Suspension::Never);
            if !request.is_replaced {
                assert_eq!(self.incoming.by_id(&id.0), Some(key), "invariant 6: {id:?} of the peer cannot be found");
            }
            if request.cancelled_by_peer() && request.dialect.is_silent() {
                assert!(!request.response.is_live(), "invariant 4: {id:?} was cancelled and is to be answered");
            }
            match request.work {
                Work::Ended => assert!(request.response.is_live(), "invariant 6: {id:?} is over and still there"),
                Work::Stopping => {
                    let Some(stop) = &request.stop else { panic!("invariant 4: nobody knows who stopped {id:?}") };
                    let is_timed = request.timer.is_armed() || link.drop_at(request, stop.cause.code) == NEVER;
                    assert!(is_timed, "invariant 6: no timer ends the grace of {id:?}");
                }
                Work::Held | Work::Waiting | Work::Offered | Work::Running => {
                    // A shielded handler has let its deadline pass.
                    let is_timed = request.timer.at <= request.earliest(link.now, &link.our_questions)
                        || link.our_questions.has_parked(key)
                        || request.stop.is_some();
                    assert!(is_timed, "invariant 6: no timer for the deadline of {id:?}");
                }
                Work::Dropping => {}
            }
            if let ResponseState::Answering(ticket) = request.response {
                let is_waiting = link.outbox.holds(ticket) || link.detached > 0;
                assert!(is_waiting, "invariant 4: {id:?} waits for an answer that is not queued");
            }
        }
        let questions = self.incoming.iter().filter(|(_, request)| request.is_open_question).count();
        assert_eq!(questions, link.their_questions.holders(), "invariant 6: our clocks stand still for nothing");
        let most = link.config.max_running.saturating_add(link.config.max_queued);
        assert!(busy <= most, "invariant 8: too many requests wait");
    }

    fn check_memory(&self) {
        let Link { config, outbox, backlog, detached, batches, alarms, early_cancels, .. } = &self.link;
        let is_timed = |oldest: Instant| alarms[Alarm::Tombstones as usize].at <= oldest + config.remember.1;
        for tombstones in [&self.link.tombstones, &self.link.spent_tokens] {
            assert!(tombstones.len() <= config.remembered.saturating_mul(YOUNG), "invariant 8: too much is remembered");
            assert!(tombstones.oldest().is_none_or(is_timed), "invariant 6: a tombstone is never forgotten");
        }
        let is_forgotten = self.outgoing.oldest().is_none_or(is_timed);
        assert!(is_forgotten, "invariant 6: a cancelled request of ours is never forgotten");
        assert!(early_cancels.len() <= config.early_cancels.most, "invariant 8: too many early cancels");
        let (held, most) = (outbox.held(), outbox.bound());
        assert!(held <= most, "invariant 8: {held} bytes are held for a backlog of {}", outbox.backlog());
        let is_timed = early_cancels.due().is_none_or(|due| alarms[Alarm::EarlyCancels as usize].at <= due);
        assert!(is_timed, "invariant 6: a cancel is held for ever");
        let in_sessions = self.incoming.len() + self.outgoing.len();
        assert!(self.turns.len() <= in_sessions, "invariant 6: a turn outlives its request");
        // A frame counts as a whole until its last byte has left.
        let is_waiting = !outbox.is_empty() || *detached > 0 || batches.len() > 0;
        assert!(*backlog == 0 || is_waiting, "invariant 7: a backlog is left of nothing");
    }

    /// Checks that every armed timer is known to what armed it, and the other way round.
    fn check_timers(&self) {
        let calls = self.outgoing.iter().filter(|(_, call)| call.timer.is_armed()).count();
        let requests = self.incoming.iter().filter(|(_, request)| request.timer.is_armed()).count();
        let alarms = self.link.alarms.iter().filter(|alarm| alarm.is_armed()).count();
        assert_eq!(calls + requests + alarms, self.link.timers.len(), "invariant 6: a timer is armed for nothing");
        for (at, timer) in self.link.timers.iter() {
            let armed = match timer {
                Timer::Call(key) => self.outgoing.get(key).map(|call| call.timer),
                Timer::Request(key) => self.incoming.get(key).map(|request| request.timer),
                Timer::Alarm(alarm) => Some(self.link.alarms[alarm as usize]),
            };
            assert_eq!(armed.map(|armed| armed.at), Some(at), "invariant 6: {timer:?} is due at another time");
        }
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and no
    /// generation, counter or armed timer that only names or anticipates things.
    ///
    /// Requests are taken in the order of their ids, so that the places they happen to have do not count.
    /// Events not yet polled count only by how many there are: drain them first.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            incoming,
            outgoing,
            turns: _, // each request tells its session, and its place in it
            at_work,
            link,
            decoder,
        } = self;
        link.hash_state(now, state);
        decoder.as_deref().map(Decoder::buffered).hash(state);
        at_work.hash_state(state);
        outgoing.next_id.hash(state);
        let mut calls: Vec<_> = outgoing.iter().collect();
        calls.sort_unstable_by_key(|(_, call)| call.id);
        for (key, call) in calls {
            self.hash_call(key, call, now, state);
        }
        let mut requests: Vec<_> = incoming.iter().collect();
        requests.sort_by_cached_key(|(key, request)| (request.id.0.to_string(), *key));
        for (key, request) in requests {
            request.hash_state(now, link, state);
            let session = request.rare.as_ref().and_then(|rare| rare.session.as_ref());
            session.map(|session| (session, self.place(key, request.part, session))).hash(state);
        }
        incoming.line().for_each(|request| request.id.hash(state));
        incoming.hash_lines(state);
        for item in &link.events {
            if let Item::Start(key) = item {
                incoming.get(*key).map(|request| &request.id).hash(state);
            }
        }
    }

    fn hash_call(&self, key: Key, call: &Outgoing, now: Instant, state: &mut impl Hasher) {
        let Self { incoming, outgoing, link, .. } = self;
        let Outgoing {
            id,
            dialect,
            frame,
            started: _, // only reported
            clocks,
            timer: _, // follows the clocks
            rare,
            cancel,
            method,
            part,
            standing,
            is_uncancellable,
            is_task,
            is_reset,
            has_left,
            is_cancelled_with_session,
            is_watched: _, // only decides what is reported
            is_question,
        } = call;
        (id, dialect.name, link.methods.name(*method), part, standing, is_uncancellable, is_task, is_question)
            .hash(state);
        let CallClocks { response, limit, total } = clocks;
        (until(*response, link.their_questions.reading(now)), limit, is_reset, until(*total, now)).hash(state);
        (link.outbox.has_begun(*frame), has_left).hash(state);
        let none = outgoing::Rare::default();
        let outgoing::Rare { parent, session, token, reported } = rare.as_deref().unwrap_or(&none);
        (token, parent.map(|parent| incoming.get(parent).map(|parent| &parent.id))).hash(state);
        session.as_ref().map(|session| (session, self.place(key, *part, session))).hash(state);
        (reported, is_cancelled_with_session).hash(state);
        if let Some(cancel) = cancel {
            let Cancelling { receipt: Receipt { cause, asked: _, written, outcome }, frame, wait } = &**cancel;
            // When it was asked for and written is only reported.
            let frame = (frame.is_some(), written.is_some());
            (cause.code, frame, core::mem::discriminant(outcome), until(*wait, now)).hash(state);
        }
        if call.standing == Standing::Tombstone {
            let since = outgoing.tombstones().find(|(tombstone, _)| *tombstone == key);
            since.map(|(_, since)| now.since(since)).hash(state);
        }
    }

    /// How many requests of the same part and session are older.
    fn place(&self, key: Key, part: Part, session: &[u8]) -> Option<usize> {
        self.turns.of(&turn::name(part, session)).position(|known| known == key)
    }
}

impl Link {
    fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            config: _, // the same in all states, but for `drain_on_eof`, which the phase tells
            negotiation,
            outbox,
            backlog,
            detached,
            batches,
            tombstones,
            spent_tokens,
            early_cancels,
            methods: _, // names, hashed where they are used
            their_questions,
            our_questions,
            resumed: _, // empty between inputs
            timers: _,  // the entries and alarms tell what is due
            alarms,
            events,
            counters: _, // only reported
            phase,
            now: _,        // the argument stands for it
            broken: _,     // checked apart
            written: _,    // empty between inputs
            attachment: _, // the same
        } = self;
        negotiation.hash_state(state);
        (phase, backlog, detached, events.len()).hash(state);
        outbox.hash_state(state);
        // The other two follow their tables.
        [Alarm::Stall, Alarm::Drain].map(|alarm| until(alarms[alarm as usize].at, now)).hash(state);
        tombstones.hash_state(now, state);
        spent_tokens.hash_state(now, state);
        early_cancels.hash_state(now, state);
        // Clocks that stand are read where something is due by them.
        (their_questions.holders(), our_questions.holders()).hash(state);
        batches.iter().for_each(|(_, batch)| batch.hash(state));
    }
}

#[cfg(test)]
mod tests;
