//! The turn of an ACP session, as a relay sees it (D37, ACP-08).

use super::{
    Relay, Step,
    exchange::{Exchange, Up},
    link::{Part, Passed, Tag},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::TurnForm,
    id::RequestId,
    link::{LateKind, RequestKey},
    receipt::Outcome,
    side::Side,
    time::Instant,
};

impl Relay {
    /// The client cancels a session's turn: it passes, and counts as a cancel of the prompt.
    pub(super) fn handle_turn_cancel(&mut self, now: Instant, session: Option<&[u8]>) -> Passed {
        let request = session.and_then(|session| self.open_prompt(session));
        let passed = request.and_then(|request| self.with(now, request, |step| step.cancel_turn()));
        passed.unwrap_or(Passed::PLAIN)
    }

    /// Whether a turn's update goes on: not after we have answered the turn for the agent (D34).
    pub(super) fn handle_turn_update(&mut self, now: Instant, session: Option<&[u8]>) -> bool {
        let Some(session) = session else { return true };
        let is_muted = |key| self.tables.client.get(key).is_some_and(Exchange::is_open_upstream);
        let mut muted = self.core.muted.iter().filter(|(muted, _)| **muted == *session).map(|(_, key)| *key);
        if let Some(key) = muted.find(|key| is_muted(*key)) {
            let id = RequestId::from_json(session).unwrap_or(RequestId::NULL);
            self.step(now, RequestKey { from: Side::Client, key }, |step| {
                step.report_late(id, LateKind::Progress);
                step.note_alive();
            });
            return false;
        }
        if let Some(request) = self.open_prompt(session) {
            self.step(now, request, |step| {
                step.exchange.rare().progress.note(now, None);
                step.reset_response_clock();
                step.mark_changed();
            });
        }
        true
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
        let table = &self.tables[Side::Client];
        let mut turns = self.core.turns.of(session).rev();
        let key = turns.find(|key| table.get(*key).is_some_and(Exchange::is_waiting))?;
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
