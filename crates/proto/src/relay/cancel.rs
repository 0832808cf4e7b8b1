//! Cancels: those that a side sends, each of which ends here (D32), and those that the relay sends in its own name, for
//! the requester, a clock, an operator, or the end of the link.

use super::{
    Followup, Relay, Settled, Step, Timer,
    exchange::{Cancelling, Down, Exchange, ThreadPart, Up},
    link::{Part, Tag},
    task_work::TaskPart,
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{Cancellers, Dialect, TurnForm},
    early_cancels::Hold,
    error_code,
    id::RequestId,
    json,
    link::{
        LateKind, RequestKey, Verdict,
        cancel::{self, Cancel},
    },
    message,
    outbox::Ticket,
    receipt::{Outcome, Receipt},
    side::{Side, Sides},
    time::Instant,
    timer_queue::TimerKey,
};

impl Relay {
    pub(super) fn handle_cancel(&mut self, now: Instant, from: Side, method: &str, params: Option<&[u8]>) {
        let dialect = self.core.spoken(from);
        let is_guess = !self.core.negotiation.is_settled();
        let also: &[&'static Dialect] = if is_guess { &Dialect::ALL } else { &[] };
        let Some(cancel) = cancel::read(dialect, also, method, params) else {
            return self.report_cancel(from, None, None, None, Verdict::Malformed);
        };
        let guess = Sides::from_fn(|side| self.core.spoken(side));
        self.core.negotiation.saw_cancel(from, self.core.framing, cancel.form);
        if is_guess && self.core.negotiation.is_settled() {
            self.reread_dialects(now, guess);
        }
        let request = self.tables[from].by_requester(&cancel.id).map(|key| RequestKey { from, key });
        if let (Some(bridge), Side::Client) = (&mut self.bridge, from)
            && request.is_none_or(|request| !self.tables[from].get(request.key).is_some_and(Exchange::is_waiting))
        {
            bridge.handle_late_cancel(now, &cancel.id);
        }
        let verdict = match request {
            Some(request) => {
                let verdict = self.with(now, request, |step| step.cancel_by_requester(cancel.reason.as_deref()));
                verdict.unwrap_or(Verdict::Unknown)
            }
            None if self.ends_subscription(now, from, dialect, &cancel) => return,
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
        let is_subscription = |ex: &&Exchange| ex.up.may_be_answered() && methods.name(ex.method) == form.method;
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

    /// Cancels a request that is in flight, on behalf of the operator of this relay, and ends it for its requester as its
    /// dialect settles a cancel: an error of ours in MCP, the cancellation error or the method's own cancellation result
    /// elsewhere; the turn of an ACP session when its agent answers, or after the turn's own limit (D34, D37). The receipt
    /// follows as events. `false` if it is over already, or is such a turn and cancelled.
    ///
    /// With a turn in flight the children of its session are cancelled, and theirs, as far as they may be (D54):
    /// [`children_of`](Self::children_of) names them. So is the background work of its session (D55):
    /// [`background_of`](Self::background_of) names it.
    pub fn stop(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) -> bool {
        let is_waiting = self.exchange(request).is_some_and(|exchange| exchange.is_waiting() && !exchange.is_held());
        self.note_alone(now, request, false);
        let is_stopped = self.stop_one(now, request, reason);
        if is_waiting && !self.core.children.is_empty() {
            for child in self.children_of(request) {
                self.stop_child(now, child, reason);
            }
        }
        if is_waiting && self.core.sessions.is_some() {
            for item in self.background_of(request) {
                self.stop_alone(now, item, reason);
            }
        }
        is_stopped
    }

    /// Does what [`stop`](Self::stop) does, and leaves the children of a turn's session alone; with a turn of a thread the
    /// agents that it has opened, and the commands that outlive it (D58).
    pub fn stop_alone(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) -> bool {
        // One that was not heeded is asked for anew.
        let is_asked = |exchange: &Exchange| exchange.cancel.as_deref().is_some_and(|cancel| !cancel.stuck);
        if !self.exchange(request).is_some_and(is_asked) {
            self.note_alone(now, request, true);
        }
        self.stop_one(now, request, reason)
    }

    fn stop_one(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) -> bool {
        let was_cancelled = self.with(now, request, |step| {
            if !step.exchange.is_waiting() || (step.is_ended_by_its_agent() && step.awaits_answer()) {
                return None;
            }
            step.forget_unheeded();
            let was_cancelled = step.exchange.cancel.is_some();
            step.cancel_upstream(Cause::by(CauseCode::Operator, reason));
            Some(was_cancelled)
        });
        let was_cancelled = was_cancelled.flatten();
        let is_task = was_cancelled.is_none() && self.stop_made_task(now, request, reason);
        // The answer shows what has become of it.
        self.cross(now);
        if let Some(was_cancelled) = was_cancelled {
            self.step(now, request, |step| step.answer_stopped(was_cancelled));
        }
        self.finish(now);
        was_cancelled.is_some() || is_task
    }

    /// Ends the waiting of a client whose turn was cancelled and that its agent has not ended, once an operator orders its
    /// cancel again (D61): the client gets the method's own cancellation result now, and the turn is shown as released, or as
    /// stuck after its limit. `false` if no client waits for such a turn, or this is the operator's first order, since the
    /// turn was cancelled by another: then the next one does it.
    pub fn release(&mut self, now: Instant, request: RequestKey) -> bool {
        let is_released = self.with(now, request, |step| {
            let may_be_released = step.core.may_be_released(step.request.from, step.exchange);
            let Some(cancel) = step.cancel().filter(|_| may_be_released) else { return false };
            let is_ordered = core::mem::replace(&mut cancel.is_ordered, true);
            if is_ordered {
                step.mute_turn();
                step.answer_cancelled();
            }
            is_ordered
        });
        self.finish(now);
        is_released == Some(true)
    }

    /// Records that `side` has gone away: each of its requests in flight is cancelled at the other side, cause
    /// `disconnect` (D27). One whose dialect wants silence is over; another may still get the answer it is owed.
    ///
    /// For a driver that stands for the endpoint itself; a shim leaves it to the server to end what it has begun.
    pub fn handle_disconnect(&mut self, now: Instant, side: Side) {
        // Tasks outlive their requester's connection.
        for key in self.tables[side].by_age(|ex| ex.is_waiting() && ex.cancel.is_none() && ex.task_work().is_none()) {
            self.disconnect(now, RequestKey { from: side, key });
        }
        self.finish(now);
    }

    /// Records that `side` has closed the stream on which the answer to its request `id` would travel, which cancels that
    /// request, cause `disconnect` (MCP-H03). Whether a closed stream means that is for the driver to look up
    /// ([`HttpForm::stream_closed`](crate::dialect::HttpForm)). Nothing happens to a request that is over.
    pub fn handle_stream_closed(&mut self, now: Instant, side: Side, id: &RequestId) {
        let is_waiting = |ex: &Exchange| ex.is_waiting() && ex.cancel.is_none();
        if let Some(key) = self.tables[side].by_requester(id)
            && self.tables[side].get(key).is_some_and(is_waiting)
        {
            self.disconnect(now, RequestKey { from: side, key });
        }
        self.finish(now);
    }

    fn disconnect(&mut self, now: Instant, request: RequestKey) {
        self.step(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Disconnect)));
        self.step(now, request, |step| {
            step.report_decided();
            if step.exchange.dialect.is_silent() {
                step.settle(Settled::Gone);
            } else {
                step.settle_cancelled();
            }
        });
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
                self.let_close_withdrawn();
                Verdict::Accepted
            }
            // The answer may still be withdrawn from a requester that wants none any more (D36).
            Down::Answering(Some(ticket), _) if dialect.is_silent() => {
                if self.core.links[from].outbox.withdraw(ticket).is_none() {
                    return Verdict::Completed;
                }
                if self.exchange.cancel.is_none() {
                    // The cancel of the task whose handle it was is to come.
                    let is_handle = matches!(self.exchange.task(), Some(TaskPart::Became(_)));
                    let outcome = if is_handle { Outcome::Asked } else { Outcome::CompletedFirst };
                    self.begin_cancel(Cause::new(CauseCode::Caller), outcome, None);
                }
                self.settle(Settled::Silent);
                self.core.followups.push(Followup::Orphaned(self.request));
                Verdict::Accepted
            }
            Down::Done(Settled::Silent, _) => Verdict::Repeated,
            Down::Answering(..) | Down::Ours | Down::Done(..) => Verdict::Completed,
        }
    }

    /// Asks the other side to stop, as far as it knows of the request and can be asked (D15, D18, D32). What the requester
    /// is given is the caller's matter.
    pub(super) fn cancel_upstream(&mut self, cause: Cause) {
        if self.exchange.cancel.is_some() {
            return;
        }
        let to = self.request.from.other();
        let is_withdrawn = match self.exchange.up {
            Up::Assembling => true,
            Up::Held => self.unhold().is_some(),
            Up::Queued(Some(ticket)) => self.core.links[to].outbox.withdraw(ticket).is_some(),
            Up::Queued(None) | Up::Handed | Up::Sent | Up::Answered | Up::Never | Up::Lost => false,
        };
        if is_withdrawn {
            self.exchange.up = Up::Never;
            self.note_task_cancel_withdrawn();
        }
        let outcome = match self.exchange.up {
            Up::Never => Outcome::NeverSent,
            Up::Answered => Outcome::CompletedFirst,
            Up::Lost => Outcome::Unknown,
            _ if self.core.links[to].write_closed => Outcome::Unknown,
            _ if self.is_unsendable() => Outcome::NotSendable,
            Up::Assembling | Up::Held | Up::Queued(_) | Up::Handed | Up::Sent => Outcome::Asked,
        };
        let is_task = self.exchange.task_work().is_some();
        let is_sent = outcome == Outcome::Asked && !self.holds_its_cancel();
        let frame = if is_sent { self.send_cancel_of(&cause) } else { None };
        self.begin_cancel(cause, outcome, frame);
        // A side that owes an answer to the cancel has the grace to give it.
        let silent = self.exchange.upstream_dialect.is_silent() && self.exchange.dialect.is_silent() && !is_task;
        if outcome == Outcome::Asked && !silent {
            self.start_grace(self.grace());
        }
    }

    /// Whether the other side's dialect has no way to cancel this request, or none now.
    fn is_unsendable(&self) -> bool {
        let (exchange, from) = (&*self.exchange, self.request.from);
        let dialect = exchange.upstream_dialect;
        let is_turn = exchange.session().is_some() && self.upstream_turn().is_some();
        let forbidden = self.core.negotiation.forbids_cancel(from, dialect);
        match (exchange.thread(), exchange.session()) {
            (Some(ThreadPart::Background { kind, item, .. }), Some(session)) => {
                return !self.core.can_cancel_item(session, *kind, item);
            }
            (Some(part), _) => return !self.core.has_cancel_of(part),
            (None, _) => {}
        }
        if exchange.is_task {
            return !self.lets_tasks_be_cancelled();
        }
        dialect.opaque
            || dialect.uncancellable(self.method()).is_some()
            // The gate is that of a request's cancel; every agent understands a turn's (D37).
            || forbidden.is_some_and(|rule| !is_turn || dialect.gate.is_none_or(|gate| gate.rule != rule))
            || (dialect.cancellers == Cancellers::Client && from == Side::Server)
    }

    /// Records the cancel of the request: every cancel starts here. It is counted now, since the request may be forgotten
    /// before an event is emitted.
    pub(super) fn begin_cancel(&mut self, cause: Cause, outcome: Outcome, frame: Option<Ticket>) {
        let receipt = Receipt { cause, asked: self.now, written: None, outcome };
        self.core.reports.tally.begun(&receipt);
        let is_ordered = receipt.cause.code == CauseCode::Operator;
        let cancel = Cancelling { receipt, frame, grace: TimerKey::NOT, stuck: false, works_on: false, is_ordered };
        self.exchange.cancel = Some(Box::new(cancel));
        self.note_wait_cancelled();
        if !self.core.children.is_empty() {
            self.note_children();
        }
        self.stop_limits();
        self.mark_changed();
    }

    /// Sends the cancel, or leaves it to a request of our own (D55, D56, D58).
    fn send_cancel_of(&mut self, cause: &Cause) -> Option<Ticket> {
        let followup = match self.exchange.thread() {
            None if self.exchange.task_work().is_some() => Followup::CancelWork(self.request),
            None | Some(ThreadPart::Foreground) => return Some(self.send_cancel(cause)),
            Some(ThreadPart::Background { .. }) => Followup::CancelItem(self.request),
            Some(_) => Followup::CancelWork(self.request),
        };
        self.core.followups.push(followup);
        None
    }

    /// Queues the cancel behind its own request and before whatever else it may pass (D13).
    fn send_cancel(&mut self, cause: &Cause) -> Ticket {
        let to = self.request.from.other();
        let form = self.core.negotiation.cancel_form(to, self.exchange.upstream_dialect);
        // A requester that gave no reason gave none.
        let reason = if cause.code == CauseCode::Caller { cause.text() } else { Some(cause.wire_reason()) };
        let is_whole = self.is_cancelled_with_session(cause.code == CauseCode::Caller);
        let turn = self.upstream_turn().zip(self.exchange.session()).filter(|_| is_whole);
        let upstream = self.exchange.upstream();
        let framing = self.core.framing;
        let write = |out: &mut Vec<u8>| {
            message::frame(framing, out, |out| match turn {
                Some((turn, session)) => message::notification(turn.cancel, out, |out| {
                    json::write_string(out, turn.session);
                    out.push(b':');
                    out.extend_from_slice(session);
                }),
                None => cancel::write(form, upstream, reason, out),
            });
        };
        let outbox = &mut self.core.links[to].outbox;
        let tag = Tag::Of(self.request, Part::Cancel).into();
        // What is written in an array cannot be passed.
        let is_in_array = self.exchange.up == Up::Queued(None);
        let ticket = if is_in_array { outbox.push(tag, write) } else { outbox.push_urgent(tag, write) };
        if let Some((TurnForm { cards: Some(_), .. }, session)) = turn {
            self.core.followups.push(Followup::TurnCancelled(session.into(), cause.code));
        }
        ticket
    }

    /// The cancel has left; from here on only the other side can show more.
    pub(super) fn cancel_written(&mut self) {
        let now = self.now;
        let Some(cancel) = self.cancel() else { return };
        cancel.receipt.written = Some(now);
        let outcome = cancel.receipt.outcome;
        self.learn(if outcome == Outcome::Asked { Outcome::Sent } else { outcome });
    }

    /// Notes what is known of the cancel now.
    pub(super) fn learn(&mut self, outcome: Outcome) {
        let Some(cancel) = &mut self.exchange.cancel else { return };
        self.core.reports.tally.learnt(cancel.receipt.outcome, outcome);
        cancel.receipt.outcome = outcome;
        self.report_receipt();
        self.tell_origin();
    }

    /// Whether a cancelled request will still be answered: by the other side, or by its grace.
    fn awaits_answer(&self) -> bool {
        self.exchange.cancel.as_deref().is_some_and(|cancel| cancel.grace.is_armed())
    }

    /// Whether it ends when its agent reports that, and not when it is cancelled: a turn, its prompt, and followed work.
    fn is_ended_by_its_agent(&self) -> bool {
        let is_prompt = || self.exchange.dialect.turn.is_some_and(|turn| self.method() == turn.prompt);
        self.exchange.is_work() || is_prompt()
    }

    /// Ends a request for its requester that the operator has stopped.
    fn answer_stopped(&mut self, was_cancelled: bool) {
        if self.exchange.is_work() || (self.is_ended_by_its_agent() && self.awaits_answer()) {
            // The agent's own answer ends the turn, and what it still reports until then is passed on (D34, D37).
        } else if self.exchange.dialect.opaque && self.exchange.up != Up::Never {
            // Nothing was asked of the server, so its requester goes on waiting (D57). Or the server answers (D58).
        } else if self.exchange.dialect.is_silent() || self.exchange.dialect.opaque {
            let data = self.error_data(None);
            let reason = self.operators_reason();
            let text = reason.as_deref().unwrap_or(CauseCode::Operator.phrase());
            self.answer_error(error_code::STOPPED_BY_OPERATOR, text, Some(&data));
        } else {
            self.mute_turn();
            self.answer_cancelled();
        }
        // Who cancelled first stays the one who did; only the waiting is ended.
        if !was_cancelled {
            self.report_decided();
        }
    }
}
