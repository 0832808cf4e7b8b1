//! Notifications: cancels end here; progress, updates of a turn and messages of a subscription go on for a request that is
//! not over; all others pass.

use super::{Relay, link::Passed, step::Step, tag::Tag};
use crate::{
    frame::{self, Notification},
    id::RequestId,
    json,
    link::{LateKind, RequestKey},
    side::Side,
    time::Instant,
};

impl Relay {
    pub(super) fn handle_notification(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        notification: &Notification<'_>,
    ) -> Option<Passed> {
        let dialect = self.core.spoken(from);
        let (method, params) = (&*notification.method, &notification.params);
        if self.core.negotiation.is_cancel(dialect, method) {
            self.handle_cancel(now, from, method, params.raw);
            return None;
        }
        if let Some(turn) = dialect.turn {
            if method == turn.cancel && from == Side::Client {
                return Some(self.handle_turn_cancel(now, params.session_id));
            }
            if method == turn.update && from == Side::Server {
                return self.handle_turn_update(now, params.session_id).then_some(Passed::PLAIN);
            }
        }
        if let Some(form) = dialect.progress
            && method == form.method
            && let Some(token) = params.raw.and_then(|params| json::member(params, form.token))
        {
            return self.handle_progress(now, from, token, params.raw);
        }
        if from == Side::Server && params.meta.is_some() {
            return self.handle_subscription(now, body, params.raw?);
        }
        Some(Passed::PLAIN)
    }

    fn handle_progress(&mut self, now: Instant, from: Side, token: &[u8], params: Option<&[u8]>) -> Option<Passed> {
        let token = RequestId::from_json(token);
        let found = token.as_ref().and_then(|token| self.tables[from.other()].by_token(token));
        let (Some(token), Some(key)) = (token, found) else { return Some(Passed::PLAIN) };
        self.with(now, RequestKey { from: from.other(), key }, |step| step.progress(token, params))?
    }

    /// A server's notification that may belong to a subscription: its id is mapped back, and those of a cancelled one
    /// are swallowed (D32, MCP-H04).
    fn handle_subscription(&mut self, now: Instant, body: &[u8], params: &[u8]) -> Option<Passed> {
        let form = self.core.spoken(Side::Client).subscription;
        let named = form.and_then(|form| json::lookup(params, form.path));
        let id = named.and_then(RequestId::from_json);
        let found = id.as_ref().and_then(|id| self.tables[Side::Client].by_upstream(id));
        let (Some(named), Some(id), Some(key)) = (named, id, found) else { return Some(Passed::PLAIN) };
        self.with(now, RequestKey { from: Side::Client, key }, |step| {
            if !step.exchange.is_waiting() {
                step.report_late(id, LateKind::Subscription);
                step.note_alive();
                return None;
            }
            let own = step.exchange.renamed.is_some().then(|| step.exchange.id.clone());
            let splice = own.and_then(|own| Some((frame::span_of(body, named)?, own)));
            Some(Passed { splice, tag: Tag::Notice(step.request).into(), urgent: false })
        })?
    }
}

impl Step<'_> {
    /// Progress came under `token`. It goes on, but not for a request that is over (MCP-P03), and restarts the response
    /// clock of one that is not.
    fn progress(&mut self, token: RequestId, params: Option<&[u8]>) -> Option<Passed> {
        if self.exchange.partial() == Some(&token) {
            self.exchange.rare().progress.note_sign(self.now);
        } else {
            self.exchange.rare().progress.note(self.now, params);
        }
        if self.exchange.keeps_token() {
            self.mark_changed();
            return Some(Passed::PLAIN);
        }
        // A cancelled request that still owes an answer may report until then (ACP-04, LSP-04).
        let passes = self.exchange.is_waiting();
        if passes {
            self.reset_response_clock();
            self.mark_changed();
        } else {
            self.report_late(token, LateKind::Progress);
        }
        self.note_alive();
        passes.then(|| Passed { tag: Tag::Notice(self.request).into(), ..Passed::PLAIN })
    }
}
