//! The turn of an ACP session, as a relay sees it (D37, ACP-08).

use super::{
    Relay, Step,
    exchange::{Exchange, Up},
    link::{Part, Passed, Tag},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::TurnForm,
    frame::Params,
    id::RequestId,
    json,
    link::{LateKind, RequestKey},
    receipt::Outcome,
    side::Side,
    slab::Key,
    time::Instant,
};

impl Relay {
    /// The client cancels a session's turn: it passes, and counts as a cancel of the prompt.
    pub(super) fn handle_turn_cancel(&mut self, now: Instant, session: Option<&[u8]>) -> Passed {
        let request = session.and_then(|session| self.open_prompt(session));
        let passed = request.and_then(|request| self.with(now, request, |step| step.cancel_turn()));
        passed.unwrap_or(Passed::PLAIN)
    }

    /// Whether a session's update goes on: not one of a turn that we have answered for the agent (D34). It is progress of
    /// what the client waits for in that session (D16).
    pub(super) fn handle_turn_update(&mut self, now: Instant, turn: &TurnForm, params: &Params<'_>) -> bool {
        let Some(session) = params.session_id else { return true };
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
                if step.exchange.is_waiting() {
                    step.exchange.rare().progress.note(now, None);
                    step.reset_response_clock();
                    step.mark_changed();
                }
            });
        }
        true
    }

    /// The turn that this update belongs to, if we have answered that for the agent, which has not.
    fn muted_turn(&self, turn: &TurnForm, session: &[u8], params: Option<&[u8]>) -> Option<RequestKey> {
        let of = |key| self.tables.client.get(key);
        let mut muted = self.core.muted.iter().filter(|(muted, _)| **muted == *session).map(|(_, key)| *key);
        let key = muted.find(|key| of(*key).is_some_and(Exchange::is_open_upstream))?;
        let kind = params.and_then(|params| json::lookup(params, turn.kind)).and_then(json::text);
        let is_beside = kind.is_some_and(|kind| turn.beside.contains(&&*kind));
        // What comes while the session is loaded is its history.
        let is_load = |key| of(key).is_some_and(|request| request.is_waiting() && !self.core.is_turn(request));
        let is_another = is_beside || self.core.turns.of(session).any(is_load);
        (!is_another).then_some(RequestKey { from: Side::Client, key })
    }

    /// Our side cancelled a turn: every permission request of the session is answered "cancelled" to the agent, and
    /// cancelled at the client.
    pub(super) fn close_permissions(&mut self, now: Instant, turn: &TurnForm, session: &[u8], root: CauseCode) {
        let methods = &self.core.methods;
        let is_open = |ex: &Exchange| {
            ex.is_waiting() && ex.session() == Some(session) && methods.name(ex.method) == turn.permission
        };
        for key in self.tables[Side::Server].by_age(is_open) {
            self.step(now, RequestKey { from: Side::Server, key }, |step| {
                step.cancel_upstream(Cause::parent(root));
                step.answer_cancelled();
                step.report_decided();
            });
        }
    }

    /// The prompt of this session that waits for its answer.
    fn open_prompt(&self, session: &[u8]) -> Option<RequestKey> {
        let of = |key: &Key| self.tables.client.get(*key);
        let is_open = |key: &Key| of(key).is_some_and(|request| request.is_waiting() && self.core.is_turn(request));
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
        let urgent = self.exchange.up == Up::Sent;
        Passed { tag: Tag::Of(self.request, Part::Cancel), urgent, splice: None }
    }

    /// We answer a turn that the agent has not: its updates are swallowed until it does.
    pub(super) fn mute_turn(&mut self) {
        if self.is_turn()
            && self.exchange.is_open_upstream()
            && let Some(session) = self.exchange.session()
        {
            self.core.muted.push((session.into(), self.request.key));
        }
    }
}
