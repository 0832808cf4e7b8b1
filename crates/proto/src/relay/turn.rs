//! The turn of an ACP session, as a relay sees it (D37, ACP-08).

use super::{
    Passed, Relay, Tag,
    exchange::{Cancelling, Down, Exchange, Up},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::TurnForm,
    id::RequestId,
    link::{LateKind, RequestKey},
    receipt::Outcome,
    side::Side,
    slab::Key,
    time::Instant,
};

impl Relay {
    /// The client cancels a session's turn: it passes, and counts as a cancel of the prompt.
    pub(super) fn handle_turn_cancel(&mut self, now: Instant, session: Option<&[u8]>) -> Passed {
        let Some(request) = session.and_then(|session| self.open_prompt(session)) else { return Passed::PLAIN };
        let Some(exchange) = self.exchange(request) else { return Passed::PLAIN };
        let sent = exchange.up == Up::Sent;
        if exchange.cancel.is_some() {
            // The first one counts, and so this one must not pass it.
            return Passed::PLAIN;
        }
        let until = now + self.turn_limit(request);
        self.timers.arm(until, super::Timer::Grace(request));
        let cause = Cause::new(CauseCode::Caller);
        let mut cancelling = Cancelling::new(cause, now, Outcome::Asked);
        cancelling.grace = Some(until);
        self.begin_cancel(request, cancelling);
        self.disarm_clocks(request);
        self.report_decided(request);
        Passed { tag: Tag::Cancel(request).into(), urgent: sent, splice: None }
    }

    /// Whether a turn's update goes on: not after we have answered the turn for the agent (D34).
    pub(super) fn handle_turn_update(&mut self, now: Instant, session: Option<&[u8]>) -> bool {
        let Some(session) = session else { return true };
        if let Some((_, key)) = self.muted.iter().find(|(muted, _)| **muted == *session) {
            let request = RequestKey { from: Side::Client, key: *key };
            let id = RequestId::from_json(session).unwrap_or(RequestId::NULL);
            self.report_late(now, Side::Server, request, id, LateKind::Progress);
            self.note_alive(now, request);
            return false;
        }
        if let Some(request) = self.open_prompt(session) {
            if let Some(exchange) = self.exchange_mut(request) {
                exchange.rare.get_or_insert_default().progress.note(now, None);
            }
            self.reset_response_clock(now, request);
            self.mark_changed(request);
        }
        true
    }

    /// Our side cancels a turn: every permission request of the session is answered "cancelled" to the agent,
    /// and cancelled at the client.
    pub(super) fn close_permissions(&mut self, now: Instant, turn: &TurnForm, session: &[u8], root: CauseCode) {
        let methods = &self.methods;
        let wanted = |ex: &Exchange| {
            ex.down == Down::Waiting
                && ex.session.as_deref() == Some(session)
                && methods.name(ex.method) == turn.permission
        };
        for key in self.tables[Side::Server].by_age(wanted) {
            let request = RequestKey { from: Side::Server, key };
            self.cancel_upstream(now, request, Cause::parent(root));
            self.answer_cancelled(now, request);
            self.report_decided(request);
        }
    }

    /// We answer a turn that the agent has not: its updates are swallowed until it does.
    pub(super) fn mute_turn(&mut self, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        let is_prompt = exchange.dialect.turn.is_some_and(|turn| self.methods.name(exchange.method) == turn.prompt);
        if let (true, true, Some(session)) = (is_prompt, exchange.is_open_upstream(), &exchange.session) {
            self.muted.push((session.clone(), request.key));
        }
    }

    /// The agent has answered its turn.
    pub(super) fn unmute(&mut self, request: RequestKey) {
        if !self.muted.is_empty() && request.from == Side::Client {
            self.muted.retain(|(_, key)| *key != request.key);
        }
    }

    fn turn_limit(&self, request: RequestKey) -> core::time::Duration {
        let turn = self.exchange(request).and_then(|ex| ex.dialect.turn);
        turn.map_or(self.config.grace, |turn| turn.limit.max(self.config.grace))
    }

    /// The prompt of this session that waits for its answer.
    pub(super) fn open_prompt(&self, session: &[u8]) -> Option<RequestKey> {
        let is_open = |key: &Key| self.tables[Side::Client].get(*key).is_some_and(|ex| ex.down == Down::Waiting);
        let key = self.turns.of(session).rev().find(is_open)?;
        Some(RequestKey { from: Side::Client, key })
    }
}
