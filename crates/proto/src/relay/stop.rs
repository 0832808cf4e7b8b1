//! Every cancel, whoever asked: the requester, a clock, an operator, or the end of the link.

use super::{
    Relay, RelayEvent, Settled, StuckSign, Timer,
    exchange::{Cancelling, Down, Exchange, Up},
};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    dialect::{CancelReply, Cancellers, Dialect},
    early_cancels::Hold,
    error_code,
    id::RequestId,
    link::{
        CancelNotice, Clock, LateKind, RequestKey, Verdict,
        cancel::{self, Cancel},
    },
    message,
    receipt::Outcome,
    rule::Rule,
    side::{Side, Sides},
    time::Instant,
    timer_queue::NEVER,
};

impl Relay {
    /// A cancel notification from `from`. It ends here, whatever it says (D32).
    pub(super) fn handle_cancel(&mut self, now: Instant, from: Side, method: &str, params: Option<&[u8]>) {
        let dialect = self.negotiation.of(from, self.framing);
        let also: &[&'static Dialect] = if self.negotiation.is_settled() { &[] } else { &Dialect::ALL };
        let Ok(cancel) = cancel::read(dialect, also, method, params) else {
            return self.report_cancel(from, None, None, None, Verdict::Malformed);
        };
        let guess = (!self.negotiation.is_settled()).then(|| self.dialects());
        self.negotiation.saw_cancel(from, self.framing, cancel.form);
        if let Some(guess) = guess.filter(|_| self.negotiation.is_settled()) {
            self.reread_dialects(guess);
        }
        let request = self.tables[from].by_requester(&cancel.id).map(|key| RequestKey { from, key });
        let verdict = match request {
            Some(request) => self.cancel_known(now, request, &cancel),
            None if self.ends_subscription(now, from, dialect, &cancel) => return,
            None if self.config.has(SeededBug::CrossDirectionLookup) => {
                let key = self.tables[from.other()].by_upstream(&cancel.id);
                key.map_or(Verdict::Unknown, |key| {
                    self.cancel_known(now, RequestKey { from: from.other(), key }, &cancel)
                })
            }
            None => self.cancel_unknown(now, from, dialect, &cancel),
        };
        if let Verdict::Forbidden(rule) = verdict {
            self.report_violation(from, rule, Some(cancel.id.clone()));
        }
        self.report_cancel(from, request, Some(cancel.id), cancel.reason.map(Into::into), verdict);
        // What the cancel led to is told after the cancel itself.
        if let (Verdict::Accepted, Some(request)) = (verdict, request) {
            self.report_receipt(request);
        }
    }

    /// The spelling of a cancel has told which dialects were spoken all along (D2): in every request in flight whose
    /// own were this guess.
    fn reread_dialects(&mut self, guess: Sides<&'static Dialect>) {
        let found = self.dialects();
        for from in Side::BOTH {
            let (was, now) = ((guess[from], guess[from.other()]), (found[from], found[from.other()]));
            let guessed =
                |ex: &Exchange| ex.is_live() && ex.dialect.name == was.0.name && ex.upstream_dialect.name == was.1.name;
            for key in self.tables[from].by_age(guessed) {
                if let Some(exchange) = self.tables[from].get_mut(key) {
                    (exchange.dialect, exchange.upstream_dialect) = now;
                }
                self.mark_changed(RequestKey { from, key });
            }
        }
    }

    /// What both sides speak, as far as it is known.
    fn dialects(&self) -> Sides<&'static Dialect> {
        Sides::from_fn(|side| self.negotiation.of(side, self.framing))
    }

    fn cancel_known(&mut self, now: Instant, request: RequestKey, cancel: &Cancel<'_>) -> Verdict {
        let Some(exchange) = self.exchange(request) else { return Verdict::Unknown };
        let dialect = exchange.dialect;
        if let Some(rule) = self.forbids_requester(request) {
            return Verdict::Forbidden(rule);
        }
        match exchange.down {
            Down::Waiting if exchange.cancel.is_some() => Verdict::Repeated,
            Down::Waiting => {
                let mut cause = Cause::new(CauseCode::Caller);
                if let Some(reason) = &cancel.reason {
                    cause = cause.with_text(reason);
                }
                self.cancel_upstream(now, request, cause);
                self.settle_cancelled(now, request);
                Verdict::Accepted
            }
            // The answer may still be taken back from a requester that wants none any more (D36).
            Down::Answering(ticket, _) if dialect.is_silent() => {
                if self.links[request.from].outbox.withdraw(ticket).is_none() {
                    return Verdict::Completed;
                }
                if self.exchange(request).is_some_and(|ex| ex.cancel.is_none()) {
                    let cause = Cause::new(CauseCode::Caller);
                    self.begin_cancel(request, Cancelling::new(cause, now, Outcome::CompletedFirst));
                }
                self.settle(now, request, Settled::Silent);
                self.cancel_orphan(now, request);
                Verdict::Accepted
            }
            Down::Done(Settled::Silent, _) => Verdict::Repeated,
            Down::Answering(..) | Down::Bundled(_) | Down::Done(..) => Verdict::Completed,
        }
    }

    /// The rule that forbids the requester to cancel this request (D30).
    fn forbids_requester(&self, request: RequestKey) -> Option<Rule> {
        let exchange = self.exchange(request)?;
        let known = (self.methods.name(exchange.method), exchange.is_known_task());
        self.negotiation.forbids_requester(request.from, exchange.dialect, Some(known))
    }

    fn cancel_unknown(&mut self, now: Instant, from: Side, dialect: &'static Dialect, cancel: &Cancel<'_>) -> Verdict {
        if let Some(rule) = self.negotiation.forbids_requester(from, dialect, None) {
            return Verdict::Forbidden(rule);
        }
        if !dialect.sticky {
            return Verdict::Unknown;
        }
        let held = &mut self.held[from];
        if held.hold(now, cancel.id.clone(), cancel.reason.as_deref().map(Into::into)) != Hold::Held {
            return Verdict::Unknown;
        }
        if let Some(due) = held.arm() {
            self.timers.arm(due, Timer::Held(from));
        }
        Verdict::Held
    }

    /// The one cancel that names the receiver's own request: a server ends a subscription (MCP-M02).
    fn ends_subscription(&mut self, now: Instant, from: Side, dialect: &'static Dialect, cancel: &Cancel<'_>) -> bool {
        if from != Side::Server {
            return false;
        }
        let Some(form) = dialect.subscription else { return false };
        let Some(key) = self.tables[Side::Client].by_upstream(&cancel.id) else { return false };
        let request = RequestKey { from: Side::Client, key };
        let Some(exchange) = self.exchange_mut(request) else { return false };
        let method = exchange.method;
        if exchange.up != Up::Sent || self.methods.name(method) != form.method {
            return false;
        }
        let Some(exchange) = self.exchange_mut(request) else { return false };
        exchange.up = Up::Answered;
        let waiting = exchange.down == Down::Waiting;
        let (id, dialect) = (exchange.id.clone(), exchange.dialect);
        if !waiting {
            let what = LateKind::Subscription;
            self.report_late(now, from, request, cancel.id.clone(), what);
            return true;
        }
        let to_client = self.negotiation.cancel_form(Side::Client, dialect);
        let reason = cancel.reason.as_deref();
        self.say(Side::Client, super::Tag::Plain, |out| cancel::write(to_client, &id, reason, out));
        self.settle(now, request, Settled::Answered);
        self.report_cancel(from, Some(request), Some(id), reason.map(Into::into), Verdict::Accepted);
        true
    }

    /// Tells the other side to stop, as far as it knows of the request and can be told (D15, D18, D32).
    /// What the requester is told is the caller's matter.
    pub(super) fn cancel_upstream(&mut self, now: Instant, request: RequestKey, cause: Cause) {
        let Some(exchange) = self.exchange(request) else { return };
        if exchange.cancel.is_some() {
            return;
        }
        let to = request.from.other();
        let (up, upstream_dialect, is_task) = (exchange.up, exchange.upstream_dialect, exchange.is_task);
        let method = self.methods.name(exchange.method);
        let is_turn = exchange.session.is_some() && upstream_dialect.turn.is_some_and(|turn| method == turn.prompt);
        let forbidden = self.negotiation.forbids_cancel(request.from, upstream_dialect);
        let unsendable = upstream_dialect.uncancellable(method).is_some()
            || is_task
            // The gate is that of a request's cancel; every agent understands a turn's (D37).
            || forbidden.is_some_and(|rule| !is_turn || upstream_dialect.gate.is_none_or(|gate| gate.rule != rule))
            || (upstream_dialect.cancellers == Cancellers::Client && request.from == Side::Server);
        let withdrawn = match up {
            Up::Assembling => true,
            Up::Queued(_) if self.config.has(SeededBug::CancelBeforeRequest) => false,
            Up::Queued(ticket) => self.links[to].outbox.withdraw(ticket).is_some(),
            Up::Bundled | Up::Sent | Up::Answered | Up::Never | Up::Lost => false,
        };
        let outcome = match up {
            _ if withdrawn => Outcome::NeverSent,
            Up::Never => Outcome::NeverSent,
            Up::Lost => Outcome::Unknown,
            Up::Answered => Outcome::CompletedFirst,
            Up::Assembling | Up::Queued(_) | Up::Bundled | Up::Sent if self.links[to].write_closed => Outcome::Unknown,
            Up::Assembling | Up::Queued(_) | Up::Bundled | Up::Sent if unsendable => Outcome::NotSendable,
            Up::Assembling | Up::Queued(_) | Up::Bundled | Up::Sent => Outcome::Asked,
        };
        let mut cancelling = Cancelling::new(cause, now, outcome);
        if outcome == Outcome::Asked {
            cancelling.frame = self.send_cancel(now, request, &cancelling.receipt.cause);
            // A side that owes an answer to the cancel is watched until the grace ends.
            let silent = matches!(upstream_dialect.settlement, CancelReply::Silent);
            let waits = self.exchange(request).is_some_and(|ex| !ex.settles_silently());
            if !silent || waits {
                let until = now + self.grace_of(request);
                cancelling.grace = Some(until);
                self.timers.arm(until, Timer::Grace(request));
            }
        }
        self.disarm_clocks(request);
        if let Some(exchange) = self.exchange_mut(request).filter(|_| withdrawn) {
            exchange.up = Up::Never;
        }
        self.begin_cancel(request, cancelling);
    }

    /// The way in of every cancel: it is counted here, for its request may be forgotten before anything is told of it.
    pub(super) fn begin_cancel(&mut self, request: RequestKey, cancelling: Cancelling) {
        let Self { tables, tally, .. } = self;
        if let Some(exchange) = tables[request.from].get_mut(request.key) {
            tally.receipt(exchange.cancel.insert(Box::new(cancelling)));
        }
        self.mark_changed(request);
    }

    /// Queues the cancel behind its own request and before whatever else it may pass (D13).
    fn send_cancel(&mut self, now: Instant, request: RequestKey, cause: &Cause) -> Option<crate::outbox::Ticket> {
        let to = request.from.other();
        let exchange = self.tables[request.from].get(request.key)?;
        let form = self.negotiation.cancel_form(to, exchange.upstream_dialect);
        let reason = match cause.code {
            // A requester that gave no reason gave none.
            CauseCode::Caller => cause.text(),
            CauseCode::Timeout
            | CauseCode::Parent
            | CauseCode::Disconnect
            | CauseCode::Shutdown
            | CauseCode::Operator
            | CauseCode::Policy => Some(cause.wire_reason()),
        };
        let turn = exchange.upstream_dialect.turn.filter(|turn| self.methods.name(exchange.method) == turn.prompt);
        let session = exchange.session.clone();
        let upstream = exchange.upstream().clone();
        let behind = exchange.up == Up::Bundled;
        let framing = self.framing;
        let write = |out: &mut Vec<u8>| {
            message::frame(framing, out, |out| match (turn, &session) {
                (Some(turn), Some(session)) => message::notification(turn.cancel, out, |out| {
                    crate::json::write_string(out, turn.session);
                    out.push(b':');
                    out.extend_from_slice(session);
                }),
                _ => cancel::write(form, &upstream, reason, out),
            });
        };
        let outbox = &mut self.links[to].outbox;
        let tag = super::Tag::Cancel(request).into();
        let ticket = if behind { outbox.push(tag, write) } else { outbox.push_urgent(tag, write) };
        if let (Some(turn), Some(session)) = (turn, &session) {
            self.close_permissions(now, turn, session, cause.code);
        }
        Some(ticket)
    }

    /// How long the other side may leave the cancelled request unanswered: a turn has a limit of its own (D34).
    fn grace_of(&self, request: RequestKey) -> core::time::Duration {
        let Some(exchange) = self.exchange(request) else { return self.config.grace };
        let turn = exchange.upstream_dialect.turn.filter(|turn| self.methods.name(exchange.method) == turn.prompt);
        turn.map_or(self.config.grace, |turn| turn.limit.max(self.config.grace))
    }

    /// A clock of ours ran out, unless progress has moved it (D16).
    pub(super) fn clock_due(&mut self, now: Instant, request: RequestKey, clock: Clock) {
        let Some(exchange) = self.exchange_mut(request) else { return };
        let Some(running) = exchange.clocks.as_deref_mut().and_then(|clocks| clocks.get_mut(clock).as_mut()) else {
            return;
        };
        let until = running.until;
        let due = match clock {
            Clock::Response => self.asked[request.from].due(until),
            Clock::Total => until,
        };
        if due > now {
            return self.arm_clock(request, clock, due);
        }
        let Some(exchange) = self.exchange_mut(request) else { return };
        let Some(running) = exchange.clocks.as_deref_mut().and_then(|clocks| clocks.get_mut(clock).as_mut()) else {
            return;
        };
        let limit = running.limit;
        if let Some(clocks) = exchange.clocks.as_deref_mut() {
            *clocks.get_mut(clock) = None;
        }
        self.tally.timeouts.count(clock.as_str());
        self.events.push_back(RelayEvent::TimedOut { request, clock, after: limit });
        self.cancel_upstream(now, request, Cause::new(CauseCode::Timeout));
        let data = self.error_data(request, Some((clock, limit)));
        let names = self.config.setting_names;
        let text = match clock {
            Clock::Response => format!("no answer or progress for {limit:?} ({})", names.response_timeout),
            Clock::Total => format!("no answer within {limit:?} ({})", names.total_timeout),
        };
        self.answer_error(now, request, error_code::TIMED_OUT, &text, Some(&data));
        self.report_decided(request);
    }

    /// Arms a clock anew; one that stands still waits until it goes on (D49).
    fn arm_clock(&mut self, request: RequestKey, clock: Clock, due: Instant) {
        let Self { asked, tables, timers, .. } = self;
        if due == NEVER {
            let table = &tables[request.from];
            return asked[request.from]
                .park(request.key, table.live(), |key| table.get(key).is_some_and(Exchange::is_live));
        }
        let clocks = tables[request.from].get_mut(request.key).and_then(|ex| ex.clocks.as_deref_mut());
        if let Some(running) = clocks.and_then(|clocks| clocks.get_mut(clock).as_mut()) {
            running.armed = due;
            timers.arm(due, Timer::Clock(request, clock));
        }
    }

    /// A question to `side` is over: with the last, the response clocks of its requests go on.
    pub(super) fn question_over(&mut self, now: Instant, side: Side) {
        for key in self.asked[side].release(now) {
            let request = RequestKey { from: side, key };
            let response = self.exchange(request).and_then(|ex| ex.clocks.as_deref()?.response);
            if let Some(running) = response {
                let due = self.asked[side].due(running.until);
                self.arm_clock(request, Clock::Response, due);
            }
        }
    }

    /// The grace of a cancelled request has passed (D34).
    pub(super) fn grace_due(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange_mut(request) else { return };
        // Silence shows nothing where silence is due.
        let owes = exchange.is_open_upstream() && !exchange.upstream_dialect.is_silent();
        let waiting = exchange.down == Down::Waiting;
        let Some(cancel) = exchange.cancel.as_deref_mut() else { return };
        cancel.grace = None;
        if owes && !cancel.stuck {
            cancel.stuck = true;
            self.report_stuck(request, StuckSign::NoAnswer);
        }
        if waiting {
            self.mute_turn(request);
            self.answer_cancelled(now, request);
        }
    }

    /// The other side shows that it still works on this request; past the grace of a cancel it is stuck.
    pub(super) fn note_alive(&mut self, now: Instant, request: RequestKey) {
        let grace = self.grace_of(request);
        let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) else { return };
        if !cancel.stuck && cancel.receipt.written.is_some_and(|written| now.since(written) >= grace) {
            cancel.stuck = true;
            self.report_stuck(request, StuckSign::Progress);
        }
    }

    /// Something late came of the work of a cancelled request: it goes on, until nothing has come for a grace.
    pub(super) fn note_work(&mut self, now: Instant, request: RequestKey) {
        let quiet = now + self.config.grace;
        let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) else { return };
        if !core::mem::replace(&mut cancel.works_on, true) {
            self.timers.arm(quiet, Timer::Quiet(request));
        }
    }

    /// Nothing may have come of that work for a grace.
    pub(super) fn quiet_due(&mut self, now: Instant, request: RequestKey) {
        let grace = self.config.grace;
        let Some(exchange) = self.exchange_mut(request) else { return };
        let last = exchange.rare.as_deref().map(|rare| rare.late.at).unwrap_or_default();
        let quiet = last + grace;
        let Some(cancel) = exchange.cancel.as_deref_mut() else { return };
        if quiet > now {
            return self.timers.arm(quiet, Timer::Quiet(request));
        }
        cancel.works_on = false;
        self.mark_changed(request);
    }

    /// Held cancels whose request never came.
    pub(super) fn held_due(&mut self, now: Instant, from: Side) {
        self.held[from].disarm();
        while let Some(held) = self.held[from].expire(now) {
            self.report_cancel(from, None, Some(held.id.0), held.reason, Verdict::Unknown);
        }
        if let Some(due) = self.held[from].arm() {
            self.timers.arm(due, Timer::Held(from));
        }
    }

    pub(super) fn stop_for_operator(&mut self, now: Instant, request: RequestKey, cause: Cause) -> bool {
        let Some(exchange) = self.exchange(request) else { return false };
        if exchange.down != Down::Waiting {
            return false;
        }
        let silent = exchange.settles_silently();
        let was_cancelled = exchange.cancel.is_some();
        let is_prompt = exchange.dialect.turn.is_some_and(|turn| self.methods.name(exchange.method) == turn.prompt);
        if is_prompt && self.awaits_answer(request) {
            return false;
        }
        self.cancel_upstream(now, request, cause);
        if is_prompt && self.awaits_answer(request) {
            // The agent's own answer ends the turn, and what it still reports until then is passed on (D34, D37).
        } else if silent {
            let data = self.error_data(request, None);
            self.answer_error(now, request, error_code::STOPPED_BY_OPERATOR, "stopped by operator", Some(&data));
        } else {
            self.mute_turn(request);
            self.answer_cancelled(now, request);
        }
        // Who cancelled first stays the one who did; only the waiting is ended.
        if !was_cancelled {
            self.report_decided(request);
        }
        true
    }

    /// Whether a cancelled request will still be answered: by the other side, or by its grace.
    fn awaits_answer(&self, request: RequestKey) -> bool {
        let cancel = self.exchange(request).and_then(|ex| ex.cancel.as_deref());
        cancel.is_some_and(|cancel| cancel.grace.is_some())
    }

    pub(super) fn cancel_for_disconnect(&mut self, now: Instant, from: Side) {
        for key in self.tables[from].by_age(|ex| ex.down == Down::Waiting && ex.cancel.is_none()) {
            let request = RequestKey { from, key };
            self.cancel_upstream(now, request, Cause::new(CauseCode::Disconnect));
            self.report_decided(request);
            if self.exchange(request).is_some_and(Exchange::settles_silently) {
                self.settle(now, request, Settled::Gone);
            } else {
                self.settle_cancelled(now, request);
            }
        }
    }

    /// Tells of a cancel that was decided here rather than received.
    pub(super) fn report_decided(&mut self, request: RequestKey) {
        if !self.config.emit.notices {
            return self.report_receipt(request);
        }
        let Some(exchange) = self.exchange(request) else { return };
        let Some(cancel) = &exchange.cancel else { return };
        let notice = CancelNotice {
            from: request.from,
            id: Some(exchange.id.clone()),
            method: Some(self.methods.name(exchange.method).into()),
            cause: cancel.receipt.cause.code,
            reason: cancel.receipt.cause.text().map(Into::into),
            verdict: Verdict::Accepted,
            in_flight: self.tables[request.from].live(),
        };
        self.remark(RelayEvent::Cancel(notice));
        self.report_receipt(request);
    }

    fn report_cancel(
        &mut self,
        from: Side,
        request: Option<RequestKey>,
        id: Option<RequestId>,
        reason: Option<Box<str>>,
        verdict: Verdict,
    ) {
        if verdict != Verdict::Accepted && verdict != Verdict::Held {
            self.tally.unheeded.count(verdict.as_str());
        }
        if !self.config.emit.notices {
            return;
        }
        let method = request.and_then(|request| self.exchange(request)).map(|ex| self.methods.name(ex.method).into());
        let in_flight = self.tables[from].live();
        let cause = CauseCode::Caller;
        self.remark(RelayEvent::Cancel(CancelNotice { from, id, method, cause, reason, verdict, in_flight }));
    }
}
