//! For those who check the machine: its invariants, and a canonical hash of its state.

#[cfg(test)]
mod tests;

use core::hash::{Hash, Hasher};

use super::{Connection, Item, Singles, Timer};
use crate::{
    connection::incoming::{Incoming, ResponseState, Suspension, Work},
    receipt::Outcome,
    time::Instant,
    timer_queue::NEVER,
};

/// Up to this many requests debug builds check the invariants after every input.
const QUICK: usize = 64;

impl Connection {
    /// Panics, naming the invariant by its number in the module's documentation, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        for invariant in 1..=8 {
            assert!(self.broken & 1 << invariant == 0, "invariant {invariant} was broken");
        }
        self.check_outgoing();
        self.check_incoming();
        self.check_memory();
    }

    /// Bytes of memory held for messages and requests, capacities included.
    #[must_use]
    pub fn held(&self) -> usize {
        let decoder = self.decoder.as_ref().map_or(0, crate::framing::Decoder::held);
        let batches = self.batches.iter().map(|(_, batch)| batch.answers.capacity()).sum::<usize>();
        let tables = self.incoming.held() + self.outgoing.held() + self.remembered.held() + self.spent_tokens.held();
        decoder
            + batches
            + tables
            + self.outbox.held()
            + self.early_cancels.held()
            + self.events.capacity() * size_of::<Item>()
    }

    /// In debug builds, after every input, while that is quick.
    pub(super) fn check(&self) {
        if cfg!(debug_assertions) && self.outgoing.len() + self.incoming.len() < QUICK {
            self.check_invariants();
        }
    }

    fn check_outgoing(&self) {
        let (mut waiting, mut tombstones, mut tokens) = (0, 0, 0);
        for (key, call) in self.outgoing.iter() {
            let id = call.id;
            waiting += usize::from(!call.is_settled());
            tombstones += usize::from(call.is_tombstone());
            tokens += usize::from(call.token.is_some());
            let has_begun = self.outbox.has_begun(call.frame);
            if let Some(cancel) = &call.cancel {
                let is_out = cancel.frame.is_some() || cancel.receipt.written.is_some();
                assert!(!is_out || has_begun, "invariant 1: the cancel of {id} is ahead of the request");
                assert!(
                    !is_out || cancel.receipt.outcome != Outcome::NeverSent,
                    "invariant 2: a cancel goes out for {id}, which was withdrawn"
                );
                assert!(
                    !call.is_settled() || !cancel.receipt.outcome.is_final(),
                    "invariant 6: {id} is settled and its receipt is final"
                );
            }
            assert!(!call.is_settled() || call.cancel.is_some(), "invariant 6: {id} is settled and still there");
            assert!(
                !call.is_settled() || !call.armed.is_armed(),
                "invariant 6: a clock runs for {id}, which is settled"
            );
            let earliest = call.earliest(self.now, &self.asked);
            assert!(
                earliest >= call.armed.at || self.asked.has_parked(key),
                "invariant 6: nothing is armed for {id}, which is due"
            );
            assert_eq!(self.outgoing.by_id(id), Some(key), "invariant 6: our request {id} cannot be found");
            if let Some(parent) = call.parent() {
                let parent = self.incoming.get(parent);
                assert!(
                    parent.is_some_and(|parent| matches!(parent.work, Work::Running)),
                    "invariant 6: {id} outlives the request it serves"
                );
            }
        }
        assert_eq!(waiting, self.outgoing.waiting(), "invariant 8: the count of waiting callers is off");
        assert_eq!(tombstones, self.outgoing.tombstones(), "invariant 8: the count of tombstones is off");
        assert_eq!(tombstones, self.outgoing.retired().count(), "invariant 6: a tombstone is in no queue");
        assert_eq!(tokens, self.outgoing.tokens(), "invariant 6: a token leads nowhere");
        assert!(waiting <= self.config.max_in_flight, "invariant 8: too many in flight");
        let questions = self.outgoing.iter().filter(|(_, call)| call.is_question && !call.is_settled()).count();
        assert_eq!(questions, self.asking.holders(), "invariant 6: the peer's deadlines stand still for nothing");
    }

    fn check_incoming(&self) {
        let (mut running, mut queued, mut indexed, mut suspended, mut were_suspended) = (0, 0, 0, 0, 0);
        for (key, request) in self.incoming.iter() {
            let id = &request.id;
            running += usize::from(request.runs());
            queued += usize::from(!request.has_started());
            suspended += usize::from(request.runs() && request.is_suspended());
            were_suspended += usize::from(request.runs() && request.suspension != Suspension::Never);
            if !request.replaced {
                indexed += 1;
                assert_eq!(self.incoming.by_id(&id.0), Some(key), "invariant 6: {id:?} of the peer cannot be found");
            }
            if request.cancelled_by_peer() && request.is_silent() {
                assert!(
                    matches!(request.response, ResponseState::Silence | ResponseState::Answered),
                    "invariant 4: {id:?} was cancelled and is to be answered"
                );
            }
            match request.work {
                Work::Ended => assert!(request.is_live(), "invariant 6: {id:?} is over and still there"),
                Work::Stopping(drop_at) => {
                    assert!(request.armed.at <= drop_at, "invariant 6: no timer ends the grace of {id:?}");
                    assert!(request.stop.is_some(), "invariant 4: nobody knows who stopped {id:?}");
                }
                Work::Waiting(_) | Work::Offered(_) | Work::Running => {
                    // A shielded handler has let its deadline pass.
                    let is_watched = request.armed.at <= request.earliest(self.now, &self.asking)
                        || self.asking.has_parked(key)
                        || request.stop.is_some();
                    assert!(is_watched, "invariant 6: no timer for the deadline of {id:?}");
                }
                Work::Dropping => {}
            }
            if let ResponseState::Answering(ticket) = request.response {
                assert!(self.outbox.holds(ticket), "invariant 4: {id:?} waits for an answer that is not queued");
            }
        }
        let counted = (self.incoming.running(), self.incoming.queued());
        assert_eq!((running, queued), counted, "invariant 8: the count of handlers is off");
        assert_eq!(indexed, self.incoming.indexed(), "invariant 6: an id leads nowhere");
        let questions = self.incoming.iter().filter(|(_, request)| request.is_open_question).count();
        assert_eq!(questions, self.asked.holders(), "invariant 6: our clocks stand still for nothing");
        let waits = |request: &Incoming| request.runs() && (request.child.is_some() || request.is_suspended());
        let asking = self.incoming.iter().filter(|(_, request)| waits(request)).count();
        let counted = (self.incoming.asking(), self.incoming.suspended());
        assert_eq!((asking, suspended), counted, "invariant 8: the count of handlers that wait for the peer is off");
        let most = self.config.max_running.saturating_add(self.config.max_queued);
        assert!(running - were_suspended + queued <= most, "invariant 8: too many requests wait");
    }

    fn check_memory(&self) {
        let longest = self.config.remember.1;
        for tombstones in [&self.remembered, &self.spent_tokens] {
            assert!(
                tombstones.len() <= self.config.remembered.saturating_mul(crate::tombstones::YOUNG),
                "invariant 8: too much is remembered"
            );
            if let Some(oldest) = tombstones.oldest() {
                assert!(self.armed.tombstones.at <= oldest + longest, "invariant 6: a tombstone is never forgotten");
            }
        }
        for (_, since) in self.outgoing.retired() {
            assert!(
                self.armed.tombstones.at <= since + longest,
                "invariant 6: a cancelled request of ours is never forgotten"
            );
        }
        assert!(self.early_cancels.len() <= self.config.max_early_cancels, "invariant 8: too many early cancels");
        assert!(
            self.outbox.held() <= self.outbox.most_held(),
            "invariant 8: {} bytes are held for a backlog of {}",
            self.outbox.held(),
            self.outbox.backlog()
        );
        assert!(
            self.early_cancels.due().is_none_or(|due| self.armed.early_cancels.at <= due),
            "invariant 6: a cancel is held for ever"
        );
        assert!(
            self.turns.len() <= self.incoming.len() + self.outgoing.len(),
            "invariant 6: a turn outlives its request"
        );
        // A frame stays owed as a whole until its last byte has left.
        let is_owing = !self.outbox.is_empty() || self.batches.len() > 0;
        assert!(self.owed == 0 || is_owing, "invariant 7: a debt is left of nothing");
        self.check_timers();
    }

    /// Every armed timer is known to what armed it, and the other way round.
    fn check_timers(&self) {
        let calls = self.outgoing.iter().filter(|(_, call)| call.armed.is_armed()).count();
        let works = self.incoming.iter().filter(|(_, request)| request.armed.is_armed()).count();
        let Singles { early_cancels, tombstones, debt, drain } = self.armed;
        let single = [early_cancels, tombstones, debt, drain].into_iter().filter(|armed| armed.is_armed()).count();
        assert_eq!(calls + works + single, self.timers.len(), "invariant 6: a timer is armed for nothing");
        for (at, timer) in self.timers.iter() {
            let armed = match timer {
                Timer::Call(key) => self.outgoing.get(key).map(|call| call.armed),
                Timer::Work(key) => self.incoming.get(key).map(|request| request.armed),
                Timer::EarlyCancels => Some(early_cancels),
                Timer::Tombstones => Some(tombstones),
                Timer::Debt => Some(debt),
                Timer::Drain => Some(drain),
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
        self.negotiation.hash_state(state);
        (self.phase, self.owed, self.outgoing.next_id(), self.events.len()).hash(state);
        self.decoder.as_ref().map(crate::framing::Decoder::buffered).hash(state);
        self.outbox.hash_state(state);
        hash_due(self.armed.debt.at, now, state);
        hash_due(self.armed.drain.at, now, state);
        self.remembered.hash_state(now, state);
        self.spent_tokens.hash_state(now, state);
        self.early_cancels.hash_state(now, state);
        (self.asked.holders(), self.asking.holders()).hash(state);
        self.hash_outgoing(now, state);
        self.hash_incoming(now, state);
        self.turns.hash_state(state);
        for (_, batch) in self.batches.iter() {
            (batch.open, &batch.answers).hash(state);
        }
        for item in &self.events {
            if let Item::Start(key) = item {
                self.incoming.get(*key).map(|request| &request.id).hash(state);
            }
        }
    }

    fn hash_outgoing(&self, now: Instant, state: &mut impl Hasher) {
        let mut calls: Vec<_> = self.outgoing.iter().collect();
        calls.sort_unstable_by_key(|(_, call)| call.id);
        for (key, call) in calls {
            (
                call.id,
                call.dialect.name,
                self.methods.name(call.method),
                call.part,
                call.is_settled(),
                call.uncancellable,
            )
                .hash(state);
            (self.outbox.has_begun(call.frame), &call.token).hash(state);
            let parent = call.parent().and_then(|parent| self.incoming.get(parent));
            parent.map(|parent| &parent.id).hash(state);
            hash_due(call.clocks.response, self.asked.reading(now), state);
            hash_due(call.clocks.total, now, state);
            if let Some(cancel) = &call.cancel {
                (cancel.receipt.cause.code, core::mem::discriminant(&cancel.receipt.outcome)).hash(state);
                cancel.frame.is_some().hash(state);
                hash_due(cancel.wait, now, state);
            }
            if call.is_tombstone() {
                let since = self.outgoing.retired().find(|(tombstone, _)| *tombstone == key);
                since.map(|(_, since)| now.since(since)).hash(state);
            }
        }
    }

    fn hash_incoming(&self, now: Instant, state: &mut impl Hasher) {
        let mut requests: Vec<_> = self.incoming.iter().map(|(key, request)| (text_of(&request.id.0), key)).collect();
        requests.sort();
        for (text, key) in requests {
            let Some(request) = self.incoming.get(key) else { continue };
            (text, request.dialect.name, self.methods.name(request.method), request.replaced, request.shielded)
                .hash(state);
            request.suspension.hash(state);
            (core::mem::discriminant(&request.work), core::mem::discriminant(&request.response), request.grace())
                .hash(state);
            let frames = request.rare.as_ref().map(|rare| &rare.frames);
            frames.map(|frames| frames.iter().filter(|frame| self.outbox.holds(**frame)).count()).hash(state);
            request.rare.as_ref().map(|rare| rare.delivery).unwrap_or_default().hash(state);
            match request.work {
                Work::Stopping(drop_at) => hash_due(drop_at, now, state),
                Work::Waiting(_) | Work::Offered(_) | Work::Running | Work::Dropping | Work::Ended => {
                    hash_due(request.deadline, self.asking.reading(now), state);
                    hash_due(request.limit, now, state);
                }
            }
            if let Work::Waiting(payload) | Work::Offered(payload) = &request.work {
                payload.params().hash(state);
            }
            if let Some(stop) = &request.stop {
                (stop.cause.code, stop.by_peer, stop.refused).hash(state);
            }
        }
        for key in self.incoming.line() {
            if let Some(request) = self.incoming.get(key).filter(|request| matches!(request.work, Work::Waiting(_))) {
                request.id.hash(state);
            }
        }
    }
}

fn hash_due(due: Instant, now: Instant, state: &mut impl Hasher) {
    (due != NEVER).then(|| due.since(now)).hash(state);
}

fn text_of(id: &crate::id::RequestId) -> Vec<u8> {
    let mut text = Vec::new();
    id.write(&mut text);
    text
}
