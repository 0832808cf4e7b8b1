//! A prompt that waits for the turn before it (D60).
//!
//! On the wire the updates of two turns of one session look alike. So a prompt is kept back while its session has
//! a cancelled turn that the agent has not answered: until it does, or for the grace. Meanwhile it is in flight, its clocks
//! run, and a cancel takes it back. Later prompts of its session wait behind it; what else its client sends passes.

use core::{ops::Range, time::Duration};

use super::{
    Followup, Relay, Step, Timer,
    exchange::{Exchange, HeldPrompt, Up},
    link::{Part, Passed, Tag},
};
use crate::{
    cause::{Cause, CauseCode},
    id::RequestId,
    link::RequestKey,
    side::Side,
    slab::Key,
    time::Instant,
};

/// How long a prompt waits at most, whatever the grace.
const LONGEST: Duration = Duration::from_secs(5);

impl Relay {
    /// Keeps a request back that was just taken in, if it is a prompt that has to wait. Returns what goes on otherwise.
    pub(super) fn unless_held(
        &mut self,
        now: Instant,
        request: RequestKey,
        body: &[u8],
        splice: Option<(Range<usize>, RequestId)>,
    ) -> Option<Passed> {
        let passed = Passed { splice, tag: Tag::Of(request, Part::Request), urgent: false };
        let Some(session) = self.exchange(request).filter(|prompt| self.waits(prompt)).and_then(Exchange::session)
        else {
            return Some(passed);
        };
        let session: Box<[u8]> = session.into();
        let core = &mut self.core;
        if core.held_bytes + core.links[Side::Server].outbox.backlog() > core.config.max_backlog {
            // Without room none of its session waits: a prompt passes no other.
            self.let_go(now, &session);
            return Some(passed);
        }
        core.held.insert(&session, request.key);
        core.held_bytes += body.len();
        self.step(now, request, |step| {
            let wait = step.core.config.grace.min(LONGEST);
            let due = step.core.timers.arm(now + wait, Timer::Held(request));
            let (body, splice) = (body.into(), passed.splice);
            step.exchange.rare().held = Some(Box::new(HeldPrompt { body, splice, due }));
            step.request_is(Up::Held);
        });
        None
    }

    /// Whether this request has to wait for another turn of its session.
    fn waits(&self, prompt: &Exchange) -> bool {
        let has_ended_turns = prompt.dialect.turn.is_some_and(|turn| turn.answered_at_end);
        let Some(session) = prompt.session().filter(|_| self.core.config.next_turn_waits && has_ended_turns) else {
            return false;
        };
        self.core.is_turn(prompt) && (self.core.held.of(session).next().is_some() || self.is_turn_ending(session))
    }

    /// Whether the last turn of a session that was passed on was cancelled, and its agent has not answered it.
    fn is_turn_ending(&self, session: &[u8]) -> bool {
        let has_gone = |turn: &Exchange| !matches!(turn.up, Up::Assembling | Up::Held | Up::Never);
        let is_last = |turn: &&Exchange| has_gone(turn) && !turn.is_followed() && self.core.is_turn(turn);
        let of = |key: Key| self.tables.client.get(key).filter(is_last);
        // One that is answered, and whose answer waits for the client, may stand before one that we have answered ourselves.
        match self.core.turns.of(session).rev().find_map(of).filter(|last| last.is_open_upstream()) {
            Some(last) => last.cancel.is_some(),
            None => self.muted(session).is_some(),
        }
    }

    /// A turn of this session has ended, or is followed: prompts that waited for that go on.
    pub(super) fn turn_ended(&mut self, now: Instant, session: &[u8]) {
        if self.core.held.of(session).next().is_some() && !self.is_turn_ending(session) {
            self.let_go(now, session);
        }
    }

    /// A prompt has waited long enough: it goes on, and those behind it.
    pub(super) fn held_due(&mut self, now: Instant, request: RequestKey) {
        if let Some(session) = self.exchange(request).and_then(Exchange::session) {
            let session: Box<[u8]> = session.into();
            self.let_go(now, &session);
        }
    }

    /// The prompts of a session wait no longer.
    fn let_go(&mut self, now: Instant, session: &[u8]) {
        while let Some(key) = self.core.held.nth(session, 0) {
            let request = RequestKey { from: Side::Client, key };
            let held = self.with(now, request, |step| {
                let held = step.unhold();
                step.exchange.rare().held_until = Some(now);
                held
            });
            let Some(HeldPrompt { body, splice, .. }) = held.flatten() else { return };
            let passed = Passed { splice, tag: Tag::Of(request, Part::Request), urgent: false };
            self.pass_alone(now, Side::Server, &body, passed);
        }
    }

    /// No prompt waits any longer: there will be no client to cancel one, or no agent to end its turn.
    pub(super) fn let_all_go(&mut self, now: Instant) {
        if self.core.held.len() > 0 {
            for key in self.tables.client.by_age(Exchange::is_held) {
                self.held_due(now, RequestKey { from: Side::Client, key });
            }
        }
    }

    /// The client stops the work of a session: prompts that wait in it are never sent.
    pub(super) fn take_back_prompts(&mut self, now: Instant, session: &[u8]) {
        let held: Vec<Key> = self.core.held.of(session).collect();
        for key in held {
            self.step(now, RequestKey { from: Side::Client, key }, |step| {
                step.cancel_upstream(Cause::new(CauseCode::Caller));
                step.settle_cancelled();
                step.report_decided();
            });
        }
    }
}

impl Step<'_> {
    /// Takes the prompt out of those that wait; `None` if it is not one of them. What becomes of it is the caller's matter.
    pub(super) fn unhold(&mut self) -> Option<HeldPrompt> {
        let rare = self.exchange.rare.as_deref_mut()?;
        let mut held = *rare.held.take()?;
        self.core.timers.stop(&mut held.due);
        self.core.held_bytes -= held.body.len();
        if let Some(session) = &rare.session {
            self.core.held.remove(session, self.request.key);
        }
        self.exchange.up = Up::Assembling;
        Some(held)
    }

    /// The turn will not be answered any more: the next one of its session has waited for that.
    pub(super) fn note_turn_ended(&mut self) {
        if self.core.held.len() > 0
            && let Some(session) = self.exchange.session()
        {
            self.core.followups.push(Followup::TurnEnded(session.into()));
        }
    }
}
