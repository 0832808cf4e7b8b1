//! Cancels that a side sends. Each ends here, whatever it says (D32); what it leads to is in `stop`.

use super::{
    Followup, Relay, Settled, Step, Timer,
    exchange::{Down, Exchange, Up},
    link::Tag,
};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    dialect::Dialect,
    early_cancels::Hold,
    link::{
        LateKind, RequestKey, Verdict,
        cancel::{self, Cancel},
    },
    receipt::Outcome,
    side::{Side, Sides},
    time::Instant,
};

impl Relay {
    pub(super) fn handle_cancel(&mut self, now: Instant, from: Side, method: &str, params: Option<&[u8]>) {
        let dialect = self.core.spoken(from);
        let is_guess = !self.core.negotiation.is_settled();
        let also: &[&'static Dialect] = if is_guess { &Dialect::ALL } else { &[] };
        let Ok(cancel) = cancel::read(dialect, also, method, params) else {
            return self.report_cancel(from, None, None, None, Verdict::Malformed);
        };
        let guess = Sides::from_fn(|side| self.core.spoken(side));
        self.core.negotiation.saw_cancel(from, self.core.framing, cancel.form);
        if is_guess && self.core.negotiation.is_settled() {
            self.reread_dialects(now, guess);
        }
        let request = self.tables[from].by_requester(&cancel.id).map(|key| RequestKey { from, key });
        let verdict = match request {
            Some(request) => self.cancel_known(now, request, &cancel),
            None if self.ends_subscription(now, from, dialect, &cancel) => return,
            None if self.core.config.has(SeededBug::CrossDirectionLookup) => {
                let key = self.tables[from.other()].by_upstream(&cancel.id);
                key.map_or(Verdict::Unknown, |key| {
                    self.cancel_known(now, RequestKey { from: from.other(), key }, &cancel)
                })
            }
            None => self.cancel_unknown(now, from, dialect, &cancel),
        };
        if let Verdict::Forbidden(rule) = verdict {
            self.core.report_violation(from, rule, Some(cancel.id.clone()));
        }
        self.report_cancel(from, request, Some(cancel.id), cancel.reason.map(Into::into), verdict);
        // What the cancel led to is reported after the cancel itself.
        if let (Verdict::Accepted, Some(request)) = (verdict, request) {
            self.step(now, request, |step| step.report_receipt());
        }
    }

    /// The spelling of a cancel has told which dialects were spoken all along (D2): in every request in flight whose own
    /// were this guess.
    fn reread_dialects(&mut self, now: Instant, guess: Sides<&'static Dialect>) {
        let found = Sides::from_fn(|side| self.core.spoken(side));
        for from in Side::BOTH {
            let is_guess =
                |ex: &Exchange| ex.is_live() && ex.dialect == guess[from] && ex.upstream_dialect == guess[from.other()];
            for key in self.tables[from].by_age(is_guess) {
                self.step(now, RequestKey { from, key }, |step| {
                    (step.exchange.dialect, step.exchange.upstream_dialect) = (found[from], found[from.other()]);
                    step.mark_changed();
                });
            }
        }
    }

    fn cancel_known(&mut self, now: Instant, request: RequestKey, cancel: &Cancel<'_>) -> Verdict {
        let verdict = self.with(now, request, |step| step.cancel_by_requester(cancel.reason.as_deref()));
        verdict.unwrap_or(Verdict::Unknown)
    }

    fn cancel_unknown(&mut self, now: Instant, from: Side, dialect: &'static Dialect, cancel: &Cancel<'_>) -> Verdict {
        if let Some(rule) = self.core.negotiation.forbids_requester(from, dialect, None) {
            return Verdict::Forbidden(rule);
        }
        let early = &mut self.early_cancels[from];
        let reason = || cancel.reason.as_deref().map(Into::into);
        if !dialect.sticky || early.hold(now, cancel.id.clone(), reason()) != Hold::Held {
            return Verdict::Unknown;
        }
        self.arm_early_cancels(from);
        Verdict::Held
    }

    fn arm_early_cancels(&mut self, from: Side) {
        if let Some(due) = self.early_cancels[from].arm() {
            self.core.timers.arm(due, Timer::EarlyCancels(from));
        }
    }

    /// Reports the early cancels whose request never came.
    pub(super) fn early_cancels_due(&mut self, now: Instant, from: Side) {
        self.early_cancels[from].disarm();
        while let Some(early) = self.early_cancels[from].expire(now) {
            self.report_cancel(from, None, Some(early.id.0), early.reason, Verdict::Unknown);
        }
        self.arm_early_cancels(from);
    }

    /// Whether this is the one cancel that names the receiver's own request: a server ends a subscription (MCP-M02).
    fn ends_subscription(&mut self, now: Instant, from: Side, dialect: &'static Dialect, cancel: &Cancel<'_>) -> bool {
        let Some(form) = dialect.subscription.filter(|_| from == Side::Server) else { return false };
        let (table, methods) = (&self.tables.client, &self.core.methods);
        let is_subscription = |ex: &&Exchange| ex.up == Up::Sent && methods.name(ex.method) == form.method;
        let found = table.by_upstream(&cancel.id).and_then(|key| Some((key, table.get(key).filter(is_subscription)?)));
        let Some((key, exchange)) = found else { return false };
        let (request, is_waiting) = (RequestKey { from: Side::Client, key }, exchange.is_waiting());
        let (id, to_client) = (exchange.id.clone(), self.core.negotiation.cancel_form(Side::Client, exchange.dialect));
        self.step(now, request, |step| {
            step.exchange.up = Up::Answered;
            if !is_waiting {
                return step.report_late(cancel.id.clone(), LateKind::Subscription);
            }
            step.core.write(Side::Client, Tag::Plain, |out| {
                cancel::write(to_client, &id, cancel.reason.as_deref(), out);
            });
            step.settle(Settled::Answered);
        });
        if is_waiting {
            let reason = cancel.reason.as_deref().map(Into::into);
            self.report_cancel(from, Some(request), Some(id), reason, Verdict::Accepted);
        }
        true
    }
}

impl Step<'_> {
    /// Cancels the request for its requester, if that may and if there is something to cancel (D30).
    fn cancel_by_requester(&mut self, reason: Option<&str>) -> Verdict {
        let known = (self.method(), self.exchange.is_known_task());
        let (from, dialect) = (self.request.from, self.exchange.dialect);
        if let Some(rule) = self.core.negotiation.forbids_requester(from, dialect, Some(known)) {
            return Verdict::Forbidden(rule);
        }
        match self.exchange.down {
            Down::Waiting if self.exchange.cancel.is_some() => Verdict::Repeated,
            Down::Waiting => {
                self.cancel_upstream(Cause::by(CauseCode::Caller, reason));
                self.settle_cancelled();
                Verdict::Accepted
            }
            // The answer may still be withdrawn from a requester that wants none any more (D36).
            Down::Answering(Some(ticket), _) if dialect.is_silent() => {
                if self.core.links[from].outbox.withdraw(ticket).is_none() {
                    return Verdict::Completed;
                }
                if self.exchange.cancel.is_none() {
                    self.begin_cancel(Cause::new(CauseCode::Caller), Outcome::CompletedFirst, None);
                }
                self.settle(Settled::Silent);
                self.follow_with(Followup::Orphaned(self.request));
                Verdict::Accepted
            }
            Down::Done(Settled::Silent, _) => Verdict::Repeated,
            Down::Answering(..) | Down::Done(..) => Verdict::Completed,
        }
    }
}
