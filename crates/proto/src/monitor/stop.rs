//! Every cancel that passes.

use super::{Monitor, MonitorEvent, ObservedCancel, ObservedEnd};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{CancelForm, Dialect, TurnForm},
    early_cancels::{EarlyCancel, Hold},
    link::{
        LateKind, RequestKey, Verdict,
        cancel::{self, Cancel},
    },
    receipt::{Outcome, Receipt},
    rule::Rule,
    side::Side,
    time::Instant,
};

impl Monitor {
    pub(super) fn handle_cancel(&mut self, now: Instant, from: Side, method: &str, params: Option<&[u8]>) {
        let dialect = self.negotiation.of(from, self.framing);
        let also: &[&'static Dialect] = if self.negotiation.is_settled() { &[] } else { &Dialect::ALL };
        let Some(cancel) = cancel::read(dialect, also, method, params) else {
            return self.note_cancel(from, None, None, None, Verdict::Malformed);
        };
        let was_guess = !self.negotiation.is_settled();
        self.negotiation.saw_cancel(from, self.framing, cancel.form);
        if was_guess && self.negotiation.is_settled() {
            self.reread_dialects(dialect);
        }
        self.note_dialect();
        let request = self.requests[from].by_id(&cancel.id).map(|key| RequestKey { from, key });
        if let Some(request) = request {
            return self.cancel_known(now, request, Some(&cancel), cancel.form);
        }
        if let Some(request) = self.subscription_of(from, dialect, &cancel) {
            return self.close_subscription(now, from, request, &cancel);
        }
        let verdict = self.cancel_unknown(now, from, dialect, &cancel);
        self.note_cancel(from, None, Some(cancel.form), Some(&cancel), verdict);
    }

    /// Gives the dialect that the spelling of a cancel has shown to every request in flight that was read as a guess
    /// (D2).
    fn reread_dialects(&mut self, guess: &'static Dialect) {
        let found = self.dialect();
        for from in Side::BOTH {
            let live = self.requests[from].table.iter_mut().filter(|observed| observed.is_live());
            live.filter(|observed| *observed.dialect == *guess).for_each(|observed| observed.dialect = found);
        }
    }

    /// Handles a cancel that names a request of its sender, or its turn.
    fn cancel_known(&mut self, now: Instant, request: RequestKey, cancel: Option<&Cancel<'_>>, form: CancelForm) {
        let Some(observed) = self.observed(request) else { return };
        let known = (self.methods.name(observed.method), observed.is_known_task());
        // A turn is cancelled by a notification of its own, which no rule forbids.
        let forbidden =
            cancel.and_then(|_| self.negotiation.forbids_requester(request.from, observed.dialect, Some(known)));
        let verdict = match (forbidden, observed.over) {
            (Some(rule), _) => Verdict::Forbidden(rule),
            (None, None) if observed.cancel.is_some() => Verdict::Repeated,
            (None, None) => Verdict::Accepted,
            (None, Some((_, ObservedEnd::Silent))) => Verdict::Repeated,
            (None, Some(_)) => Verdict::Completed,
        };
        self.note_cancel(request.from, Some(request), Some(form), cancel, verdict);
        let reason = cancel.and_then(|cancel| cancel.reason.as_deref());
        if verdict == Verdict::Accepted {
            self.accept(now, request, reason);
        } else if verdict == Verdict::Completed {
            let is_answered = self.observed(request).is_some_and(|observed| observed.answer.is_some());
            let outcome = if is_answered { Outcome::CompletedFirst } else { Outcome::Unknown };
            self.begin_receipt(now, request, reason, outcome);
        }
    }

    /// Accepts a cancel of a request in flight. In a silent dialect that settles it (MCP-C06).
    fn accept(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) {
        self.begin_receipt(now, request, reason, Outcome::Sent);
        if self.observed(request).is_some_and(|observed| observed.dialect.is_silent()) {
            self.settle(now, request, ObservedEnd::Silent);
        }
    }

    /// Begins the receipt of a request that has none (D28).
    fn begin_receipt(&mut self, now: Instant, request: RequestKey, reason: Option<&str>, outcome: Outcome) {
        let Some(observed) = self.observed_mut(request).filter(|observed| observed.cancel.is_none()) else { return };
        let cause = Cause::by(CauseCode::Caller, reason);
        observed.cancel = Some(Box::new(Receipt { cause, asked: now, written: Some(now), outcome }));
        self.events.push_back(MonitorEvent::Receipt { request, outcome });
    }

    /// Handles the client's cancel of a session's turn, which cancels the prompt (D37). Without a turn it cancels
    /// nothing, which is lawful.
    pub(super) fn handle_turn_cancel(&mut self, now: Instant, turn: &TurnForm, session: Option<&[u8]>) {
        let form = CancelForm { method: turn.cancel, id: turn.session, reason: None };
        match self.open_turn(session) {
            Some(request) => self.cancel_known(now, request, None, form),
            None => self.note_cancel(Side::Client, None, Some(form), None, Verdict::Unknown),
        }
    }

    fn cancel_unknown(&mut self, now: Instant, from: Side, dialect: &'static Dialect, cancel: &Cancel<'_>) -> Verdict {
        if let Some(rule) = self.negotiation.forbids_requester(from, dialect, None) {
            return Verdict::Forbidden(rule);
        }
        if !dialect.sticky || cancel.id.heap_bytes() > self.config.max_text {
            return Verdict::Unknown;
        }
        match self.early_cancels[from].hold(now, cancel.id.clone(), cancel.reason.as_deref().map(Into::into)) {
            Hold::Held => Verdict::Held,
            Hold::Repeated | Hold::Full => Verdict::Unknown,
        }
    }

    /// Claims the cancel that was ahead of this request, if there is one (D9).
    pub(super) fn claim_early_cancel(&mut self, now: Instant, request: RequestKey) {
        if self.early_cancels[request.from].is_empty() {
            return;
        }
        let Some(observed) = self.requests[request.from].table.get(request.key) else { return };
        let forbidden = observed.dialect.uncancellable(self.methods.name(observed.method));
        let forbidden = forbidden.or_else(|| observed.is_task.then_some(Rule::McpC13));
        let Some(held) = self.early_cancels[request.from].claim(&observed.id) else { return };
        let verdict = forbidden.map_or(Verdict::Accepted, Verdict::Forbidden);
        self.note_early_cancel(request.from, Some(request), &held, verdict);
        if forbidden.is_none() {
            self.accept(now, request, held.reason.as_deref());
        }
    }

    /// The client's subscription that a server's cancel names: the only cancel for a request of its receiver (MCP-M02).
    fn subscription_of(&self, from: Side, dialect: &Dialect, cancel: &Cancel<'_>) -> Option<RequestKey> {
        let form = dialect.subscription.filter(|_| from == Side::Server)?;
        let request = RequestKey { from: Side::Client, key: self.requests.client.by_id(&cancel.id)? };
        (self.methods.name(self.observed(request)?.method) == form.method).then_some(request)
    }

    fn close_subscription(&mut self, now: Instant, from: Side, request: RequestKey, cancel: &Cancel<'_>) {
        let over = self.observed(request).and_then(|observed| observed.over);
        // Otherwise it crossed the client's own cancel, or came after the empty result that should go first.
        let verdict = if over.is_none() { Verdict::Accepted } else { Verdict::Completed };
        self.note_cancel(from, Some(request), Some(cancel.form), Some(cancel), verdict);
        match over {
            None => self.settle(now, request, ObservedEnd::Closed),
            Some((_, ObservedEnd::Silent)) => self.note_late(now, request, LateKind::Subscription, false),
            Some((_, ObservedEnd::Answered(_) | ObservedEnd::Closed | ObservedEnd::Lost | ObservedEnd::Gone)) => {}
        }
    }

    fn note_cancel(
        &mut self,
        from: Side,
        request: Option<RequestKey>,
        form: Option<CancelForm>,
        cancel: Option<&Cancel<'_>>,
        verdict: Verdict,
    ) {
        let id = cancel.map(|cancel| cancel.id.clone());
        let reason = cancel.and_then(|cancel| cancel.reason.as_deref()).map(Into::into);
        self.events.push_back(MonitorEvent::Cancel(ObservedCancel { from, request, id, form, reason, verdict }));
    }

    /// Notes what became of an early cancel.
    pub(super) fn note_early_cancel(
        &mut self,
        from: Side,
        request: Option<RequestKey>,
        cancel: &EarlyCancel,
        verdict: Verdict,
    ) {
        let (id, reason) = (Some(cancel.id.0.clone()), cancel.reason.clone());
        self.events.push_back(MonitorEvent::Cancel(ObservedCancel { from, request, id, form: None, reason, verdict }));
    }
}
