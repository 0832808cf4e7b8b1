//! The turn of an ACP session, as a relay sees it (D37, ACP-08).

use core::time::Duration;

use super::{
    Followup, Relay, Step, Timer,
    exchange::Exchange,
    link::{Part, Passed, Tag},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::TurnForm,
    frame::Params,
    id::RequestId,
    link::{LateKind, RequestKey},
    receipt::Outcome,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::TimerKey,
    turns::one_spelling,
};

impl Relay {
    /// The client cancels a session's turn: it passes, and counts as a cancel of the prompt.
    pub(super) fn handle_turn_cancel(&mut self, now: Instant, session: Option<&[u8]>) -> Passed {
        let Some(session) = session else { return Passed::PLAIN };
        self.take_back_prompts(now, session);
        self.let_close_cards(now, session);
        let waiting = || self.core.spoken(Side::Client).turn?.work.and_then(|_| self.waiting_prompt(session));
        let passed = match self.open_prompt(session).or_else(waiting) {
            Some(request) => self.with(now, request, |step| step.cancel_turn()),
            None => self.handle_child_cancel(now, session),
        };
        passed.unwrap_or(Passed::PLAIN)
    }

    /// The client has stopped the work of a session, and so has to close its cards: for that they have a time.
    pub(super) fn let_close_cards(&mut self, now: Instant, session: &[u8]) {
        for card in self.open_cards(session, |_| true) {
            self.step(now, card, |step| step.let_close());
        }
    }

    /// Whether a session's update goes on: not one of a turn that we have answered for the agent (D34). It is progress of
    /// what the client waits for in that session (D16).
    pub(super) fn handle_turn_update(&mut self, now: Instant, turn: &TurnForm, params: &Params<'_>) -> bool {
        let Some(session) = params.session_id else { return true };
        self.handle_child_news(now, turn, session, params.raw);
        self.note_child_alive(now, session);
        if turn.work.is_some() {
            self.handle_session_work(now, turn, session, params.raw);
        }
        if let Some(request) = self.muted_turn(turn, session, params.raw) {
            let id = RequestId::from_json(session).unwrap_or(RequestId::NULL);
            self.step(now, request, |step| {
                step.report_late(id, LateKind::Progress);
                step.note_alive();
            });
            return false;
        }
        let mut place = 0;
        while let Some(key) = self.core.turns.nth(session, place) {
            place += 1;
            self.step(now, RequestKey { from: Side::Client, key }, |step| {
                if step.exchange.is_waiting() && !step.exchange.is_held() {
                    step.exchange.rare().progress.note(now, None);
                    step.reset_response_clock();
                    step.mark_changed();
                }
            });
        }
        true
    }

    /// The agent has been given a prompt: what the earlier turns of the session still report can be this one's, and so
    /// none of them is muted any more (D34).
    pub(super) fn turn_begun(&mut self, now: Instant, session: &[u8], begun: Key) {
        let client = &mut self.tables.client;
        for key in self.core.turns.of(session).filter(|key| *key != begun) {
            if let Some(earlier) = client.get_mut(key).filter(|exchange| exchange.up.may_be_answered()) {
                earlier.rare().is_followed = true;
            }
        }
        let session = &*one_spelling(session);
        // One that has not left itself is not an earlier one.
        let is_earlier = |key| key != begun && client.get(key).is_some_and(|turn| turn.up.may_be_answered());
        self.core.muted.retain(|(muted, key)| **muted != *session || !is_earlier(*key));
        self.turn_ended(now, session);
    }

    /// The turn that this update belongs to, if we have answered that for the agent, which has not.
    fn muted_turn(&self, turn: &TurnForm, session: &[u8], params: Option<&[u8]>) -> Option<RequestKey> {
        let muted = self.muted(session)?;
        let kind = params.and_then(|params| turn.kind_of(params));
        let is_beside = kind.is_some_and(|kind| turn.beside.contains(&&*kind));
        // What comes while the session is loaded is its history.
        let of = |key| self.tables.client.get(key);
        let is_load = |key| of(key).is_some_and(|request| request.is_waiting() && self.core.is_load(request));
        let is_another = is_beside || self.core.turns.of(session).any(is_load);
        (!is_another).then_some(muted)
    }

    /// Takes in a request that has just been opened, if it is a card. Whether it is shown: not when we have cancelled its
    /// turn or its child, or answered the turn for the agent. One of a turn that the client has stopped has its own time.
    pub(super) fn open_card(&mut self, now: Instant, request: RequestKey) -> bool {
        let Some(session) = self.card_session(request) else { return true };
        let muted = self.muted(session);
        let turn = muted.or_else(|| self.open_prompt(session));
        if let Some(root) = self.child_stopped_here(session) {
            self.step(now, request, |step| step.close_card(root));
            return false;
        }
        let Some(cancel) = turn.and_then(|turn| self.exchange(turn)?.cancel.as_deref()) else { return true };
        if muted.is_none() && cancel.frame.is_none() {
            self.step(now, request, |step| step.let_close());
            return true;
        }
        let root = cancel.receipt.cause.code;
        self.step(now, request, |step| step.close_card(root));
        false
    }

    /// Closes those of the waiting cards of a session that `is_due` chooses.
    pub(super) fn close_cards(
        &mut self,
        now: Instant,
        session: &[u8],
        root: CauseCode,
        is_due: impl Fn(&Exchange) -> bool,
    ) {
        for card in self.open_cards(session, is_due) {
            self.step(now, card, |step| step.close_card(root));
        }
    }

    /// Those of the waiting cards of a session that `wanted` chooses, oldest first.
    fn open_cards(&self, session: &[u8], wanted: impl Fn(&Exchange) -> bool) -> Vec<RequestKey> {
        let is_open = |ex: &Exchange| ex.is_waiting() && wanted(ex);
        let cards = self.core.cards.of(session);
        let cards = cards.filter(|key| self.tables.server.get(*key).is_some_and(is_open));
        cards.map(|key| RequestKey { from: Side::Server, key }).collect()
    }

    /// The session of a card that waits and that its client has to close by itself; `None` for any other request.
    fn card_session(&self, request: RequestKey) -> Option<&[u8]> {
        let exchange = self.exchange(request).filter(|exchange| exchange.is_question() && exchange.is_waiting())?;
        exchange.dialect.turn.filter(|turn| request.from == Side::Server && turn.cards.is_some())?;
        exchange.session()
    }

    /// The turn of this session that we have answered for the agent, and that it has not ended.
    pub(super) fn muted(&self, session: &[u8]) -> Option<RequestKey> {
        let session = &*one_spelling(session);
        let is_open = |key| self.tables.client.get(key).is_some_and(Exchange::is_open_upstream);
        let mut muted = self.core.muted.iter().filter(|(muted, _)| **muted == *session).map(|(_, key)| *key);
        muted.find(|key| is_open(*key)).map(|key| RequestKey { from: Side::Client, key })
    }

    /// The prompt of this session that waits for its answer, and not for the turn before it.
    pub(super) fn open_prompt(&self, session: &[u8]) -> Option<RequestKey> {
        let of = |key: &Key| self.tables.client.get(*key);
        let is_turn = |request: &Exchange| request.is_waiting() && !request.is_held() && self.core.is_turn(request);
        let is_open = |key: &Key| of(key).is_some_and(is_turn);
        let key = self.core.turns.of(session).rev().find(is_open)?;
        Some(RequestKey { from: Side::Client, key })
    }
}

impl Step<'_> {
    fn cancel_turn(&mut self) -> Passed {
        if self.exchange.cancel.is_some() {
            // The first one counts, and so this one must not pass it.
            return Passed::PLAIN;
        }
        self.begin_cancel(Cause::new(CauseCode::Caller), Outcome::Asked, None);
        self.start_grace(self.grace());
        self.report_decided();
        let urgent = self.exchange.up.may_be_answered();
        Passed { tag: Tag::Of(self.request, Part::Cancel), urgent, splice: None }
    }

    /// We answer a turn that the agent has not: its updates are swallowed until it does, or is given the next.
    pub(super) fn mute_turn(&mut self) {
        if self.is_turn()
            && self.exchange.is_open_upstream()
            && let Some(session) = self.exchange.session()
        {
            if !self.exchange.is_followed() {
                self.core.muted.push((one_spelling(session).into(), self.request.key));
            }
            self.core.followups.push(Followup::TurnOver(session.into()));
        }
    }

    /// The client has stopped the turn of the card, and so has to answer it: for that it has a time, which nothing moves.
    fn let_close(&mut self) {
        if let Some(patience) = self.exchange.dialect.turn.and_then(|turn| turn.cards) {
            self.let_close_within(patience);
        }
    }

    fn let_close_within(&mut self, patience: Duration) {
        if !self.exchange.is_closing() {
            self.exchange.rare().card = self.core.timers.arm(self.now + patience, Timer::Card(self.request));
        }
    }

    /// The agent has withdrawn the request itself. If it is a card, its client has a time to answer it (ACP-53, D37).
    pub(super) fn let_close_withdrawn(&mut self) {
        let work = self.exchange.dialect.turn.and_then(|turn| turn.work);
        if let Some(work) = work.filter(|_| self.request.from == Side::Server && self.exchange.is_question())
            && self.exchange.session().is_some()
        {
            self.let_close_within(work.cards);
        }
    }

    pub(super) fn card_due(&mut self) {
        self.exchange.rare().card = TimerKey::NOT;
        if self.exchange.is_waiting() {
            self.close_card(CauseCode::Caller);
        }
    }

    /// Answers a card "cancelled" for the client, and cancels it there.
    fn close_card(&mut self, root: CauseCode) {
        let was_cancelled = self.exchange.cancel.is_some();
        self.cancel_upstream(Cause::parent(root));
        self.answer_cancelled();
        // Who cancelled it first stays the one who did.
        if !was_cancelled {
            self.report_decided();
        }
    }
}
