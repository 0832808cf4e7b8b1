//! How a request ends for its requester: answers of our own, and what is remembered afterwards.

use super::{
    End, EndedBy, Relay, RelayEvent, Settled, StuckSign, Tag, Timer,
    exchange::{Down, Exchange, RequestClocks, Running, Up},
};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    dialect::CancelReply,
    error_code,
    id::RequestId,
    json,
    link::{Clock, LateKind, Rejected, RequestKey},
    message,
    receipt::{Outcome, Receipt},
    rule::Rule,
    side::Side,
    time::Instant,
};
use core::time::Duration;

/// How much of a dropped message an event keeps.
const EXCERPT: usize = 256;

/// What a requester is told when the other side kept silent (D34).
const UNCONFIRMED: &str = "cancelled; not confirmed, the work may still be running";

impl Relay {
    /// Ends a request that its requester cancelled, as its dialect wants it: with silence, with an answer
    /// now if the other side never heard of it, or with the answer that the other side owes.
    pub(super) fn settle_cancelled(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        if exchange.settles_silently() && !self.config.has(SeededBug::AnsweredSilentDialect) {
            return self.settle(now, request, Settled::Silent);
        }
        if matches!(exchange.up, Up::Never | Up::Lost) {
            return self.answer_cancelled(now, request);
        }
        // Nobody will answer a cancel that cannot be sent: the requester waits for the work, at most the grace.
        let unsent = |outcome: Outcome| matches!(outcome, Outcome::NotSendable | Outcome::Unknown);
        if exchange.cancel.as_ref().is_some_and(|cancel| unsent(cancel.receipt.outcome)) {
            let until = now + self.config.grace;
            if let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) {
                cancel.grace = Some(until);
            }
            self.timers.arm(until, Timer::Grace(request));
        }
    }

    /// The requester has all it will ever get; what comes later is recognised for a while (D8).
    pub(super) fn settle(&mut self, now: Instant, request: RequestKey, how: Settled) {
        let Some(exchange) = self.tables[request.from].settle(request.key, now, how) else { return };
        let is_timed = exchange.clocks.is_some();
        let rare = exchange.rare.as_deref_mut();
        let is_question = rare.as_ref().is_some_and(|rare| rare.is_question);
        let notices = rare.map(|rare| core::mem::take(&mut rare.notices));
        let asked = exchange.cancel.as_deref().map(|cancel| cancel.receipt.asked);
        if let (Side::Client, Some(session)) = (request.from, &exchange.session) {
            self.turns.remove(session, request.key);
        }
        if is_timed {
            self.disarm_clocks(request);
        }
        if is_question {
            self.question_over(now, request.from.other());
        }
        // Whoever wants no answer wants to hear nothing of it (MCP-P03, MCP-H04).
        if let (Some(notices), Settled::Silent | Settled::Gone) = (notices, how) {
            for ticket in notices {
                self.links[request.from].outbox.withdraw(ticket);
            }
        }
        self.tally.settled(how, asked.map(|asked| now.since(asked)));
        self.mark_changed(request);
        if self.config.emit.requests {
            self.events.push_back(RelayEvent::Settled { request, how });
        }
        self.prune(now, request.from);
    }

    /// Answers with the method's own cancellation result or the dialect's error; the receipt goes into its data.
    pub(super) fn answer_cancelled(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        let dialect = exchange.dialect;
        if let Some(own) = dialect.cancel_result(self.methods.name(exchange.method)) {
            let result = self.cancelled_result(request, own.json);
            return self.answer(now, request, Settled::AnsweredHere { code: None }, |id, out| {
                message::result(id, &result, out);
            });
        }
        let (code, text) = match dialect.settlement {
            CancelReply::Answered(error) => (error.code, error.message),
            // Not reached: a silent dialect gets no answer to its cancel.
            CancelReply::Silent => (error_code::INTERNAL_ERROR, "cancelled"),
        };
        let unconfirmed = exchange.is_open_upstream() || exchange.up == Up::Lost;
        let data = self.error_data(request, None);
        self.answer_error(now, request, code, if unconfirmed { UNCONFIRMED } else { text }, Some(&data));
    }

    /// The method's own cancellation result; one that an operator caused says so in its `_meta`.
    fn cancelled_result(&self, request: RequestKey, own: &str) -> Vec<u8> {
        let cancel = self.exchange(request).and_then(|ex| ex.cancel.as_deref());
        match (cancel.filter(|cancel| cancel.receipt.cause.code == CauseCode::Operator), own.strip_suffix('}')) {
            (Some(cancel), Some(members)) => {
                let mut out = members.as_bytes().to_vec();
                out.extend_from_slice(br#","_meta":{"rescind/receipt":"#);
                write_receipt(&cancel.receipt, &mut out);
                out.extend_from_slice(b"}}");
                out
            }
            _ => own.into(),
        }
    }

    pub(super) fn answer_error(
        &mut self,
        now: Instant,
        request: RequestKey,
        code: i32,
        text: &str,
        data: Option<&[u8]>,
    ) {
        self.answer(now, request, Settled::AnsweredHere { code: Some(code) }, |id, out| {
            message::error(Some(id), code, text, data, out);
        });
    }

    /// Queues an answer of our own for the requester.
    fn answer(
        &mut self,
        now: Instant,
        request: RequestKey,
        how: Settled,
        write: impl FnOnce(&RequestId, &mut Vec<u8>),
    ) {
        self.disarm_clocks(request);
        let Some(exchange) = self.tables[request.from].get(request.key) else { return };
        if exchange.down != Down::Waiting {
            return;
        }
        let id = exchange.id.clone();
        let Some(ticket) = self.say(request.from, Tag::Answer(request), |out| write(&id, out)) else {
            return self.settle(now, request, Settled::Gone);
        };
        if let Some(exchange) = self.exchange_mut(request) {
            exchange.down = Down::Answering(ticket, how);
        }
        self.mark_changed(request);
    }

    /// Queues a message of our own for `to`, unless nothing can be written there.
    pub(super) fn say(
        &mut self,
        to: Side,
        tag: Tag,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<crate::outbox::Ticket> {
        let framing = self.framing;
        let link = &mut self.links[to];
        (!link.write_closed).then(|| link.outbox.push(tag.into(), |out| message::frame(framing, out, write)))
    }

    /// Answers bad input; what this costs is the sender's own debt (D13), and bounded for each batch (D36).
    pub(super) fn refuse(&mut self, to: Side, id: Option<&RequestId>, code: i32, text: &str) {
        let Some(allowance) = &mut self.allowance else {
            self.write_refusal(to, id, code, text);
            return;
        };
        if allowance.refusals == 0 {
            return;
        }
        let cost = self.write_refusal(to, id, code, text);
        let Some(allowance) = &mut self.allowance else { return };
        allowance.refusals = allowance.refusals.saturating_sub(cost);
        if allowance.refusals == 0 {
            let text = "too many refusals for one batch: what else of it is refused is not answered";
            self.write_refusal(to, None, error_code::INVALID_REQUEST, text);
        }
    }

    fn write_refusal(&mut self, to: Side, id: Option<&RequestId>, code: i32, text: &str) -> usize {
        if self.links[to].write_closed {
            return 0;
        }
        let before = self.links[to].outbox.backlog();
        let nameless = self.negotiation.of(to, self.framing).stray_error;
        self.say(to, Tag::Refusal, |out| match id {
            Some(id) => message::error(Some(id), code, text, None, out),
            None if nameless == crate::dialect::StrayError::NoId => message::error(None, code, text, None, out),
            // JSON-RPC's own form; a revision that has none is told in it all the same, once.
            None => message::error(Some(&RequestId::NULL), code, text, None, out),
        });
        let cost = self.links[to].outbox.backlog() - before;
        self.links[to].own_backlog += cost;
        cost
    }

    /// What the data of an error of ours says: the clock, if one ran out, and the receipt.
    pub(super) fn error_data(&self, request: RequestKey, clock: Option<(Clock, Duration)>) -> Vec<u8> {
        let mut out = vec![b'{'];
        if let Some((clock, limit)) = clock {
            out.extend_from_slice(br#""clock":"#);
            json::write_string(&mut out, clock.as_str());
            out.extend_from_slice(br#","afterMs":"#);
            json::write_integer(&mut out, i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
        }
        if let Some(cancel) = self.exchange(request).and_then(|ex| ex.cancel.as_deref()) {
            if clock.is_some() {
                out.push(b',');
            }
            out.extend_from_slice(br#""receipt":"#);
            write_receipt(&cancel.receipt, &mut out);
        }
        out.push(b'}');
        out
    }

    /// The server has ended: nobody is left hanging (D35).
    pub(super) fn server_gone(&mut self, now: Instant) {
        for key in self.tables[Side::Client].by_age(|ex| ex.is_open_upstream() || ex.down == Down::Waiting) {
            let request = RequestKey { from: Side::Client, key };
            let Some(exchange) = self.exchange_mut(request) else { continue };
            exchange.up = Up::Lost;
            let cancelled = exchange.cancel.is_some();
            let confirms = !exchange.upstream_dialect.is_silent();
            if let Some(cancel) = exchange.cancel.as_deref_mut()
                && cancel.receipt.outcome.is_cut_short(confirms)
            {
                cancel.receipt.outcome = Outcome::Unknown;
                self.report_receipt(request);
            }
            self.disarm_all(request);
            self.mark_changed(request);
            if cancelled {
                self.answer_cancelled(now, request);
            } else {
                self.answer_gone(now, request);
            }
        }
        for key in self.tables[Side::Server].by_age(Exchange::is_live) {
            let request = RequestKey { from: Side::Server, key };
            self.cancel_upstream(now, request, Cause::new(CauseCode::Disconnect));
            if let Some(grace) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()?.grace.take()) {
                self.timers.disarm(grace, Timer::Grace(request));
            }
            self.report_receipt(request);
            self.settle(now, request, Settled::Gone);
        }
    }

    /// The words and data with which requests of an ended server are answered: how it ended, and who ended it (D44).
    pub(super) fn server_exit_error(&self) -> (String, Vec<u8>) {
        let (how, status) = match self.server_end {
            Some(End::Exited(code)) => (format!("exited with code {code}"), Some(("exitCode", code))),
            Some(End::Signalled(signal)) => (format!("was ended by signal {signal}"), Some(("signal", signal))),
            Some(End::Closed) | None => ("closed its output".to_owned(), None),
        };
        let unasked = match self.server_end {
            Some(End::Exited(_)) => " by itself",
            Some(End::Signalled(_)) => ", which neither its client nor rescind had sent,",
            Some(End::Closed) | None => "",
        };
        let text = match self.ended_by {
            None => format!("the server {how}{unasked} before it answered"),
            Some(by) => format!("the server {how} before it answered: {by}"),
        };
        let mut data = vec![b'{'];
        if let Some((name, number)) = status {
            json::write_string(&mut data, name);
            data.push(b':');
            json::write_integer(&mut data, i64::from(number));
            data.extend_from_slice(br#","endedBy":"#);
            json::write_string(&mut data, self.ended_by.map_or("server", EndedBy::as_str));
            match self.ended_by {
                None => {}
                Some(EndedBy::Client(signal)) => {
                    data.extend_from_slice(br#","clientSignal":"#);
                    json::write_integer(&mut data, i64::from(signal));
                }
                Some(EndedBy::Shim(reason)) => {
                    data.extend_from_slice(br#","because":"#);
                    json::write_string(&mut data, reason.as_str());
                }
            }
        }
        data.push(b'}');
        (text, data)
    }

    /// The oldest tombstones have had their time.
    pub(super) fn tombstones_due(&mut self, now: Instant) {
        self.tombstones_due = None;
        for side in Side::BOTH {
            self.forget(now, side);
        }
    }

    /// Forgets settled requests of which there are too many. Those that are too old have a timer.
    #[inline]
    pub(super) fn prune(&mut self, now: Instant, side: Side) {
        let is_full = self.tables[side].has_too_many();
        if is_full || self.tombstones_due.is_none() || !self.muted.is_empty() {
            self.forget(now, side);
        }
    }

    #[inline(never)]
    fn forget(&mut self, now: Instant, side: Side) {
        if self.config.has(SeededBug::LeakedTombstone) {
            return;
        }
        let (_, longest) = self.config.remember;
        self.tables[side].prune(now);
        // One timer for both sides: the older of the two must not wait for the younger.
        if self.tombstones_due.is_none()
            && let Some(oldest) = Side::BOTH.into_iter().filter_map(|side| self.tables[side].oldest()).min()
        {
            let due = oldest + longest;
            self.tombstones_due = Some(due);
            self.timers.arm(due, Timer::Tombstones);
        }
        if !self.muted.is_empty() {
            let Self { muted, tables, .. } = self;
            muted.retain(|(_, key)| tables[Side::Client].get(*key).is_some());
        }
    }

    /// Stops the clocks of a request that has been answered or cancelled.
    pub(super) fn disarm_clocks(&mut self, request: RequestKey) {
        let Some(clocks) = self.exchange_mut(request).and_then(|ex| ex.clocks.take()) else { return };
        let RequestClocks { response, total } = *clocks;
        for (clock, running) in [(Clock::Response, response), (Clock::Total, total)] {
            if let Some(Running { armed, .. }) = running {
                self.timers.disarm(armed, Timer::Clock(request, clock));
            }
        }
    }

    /// Stops the clocks and the grace: the other side has answered, or never will.
    pub(super) fn disarm_all(&mut self, request: RequestKey) {
        self.disarm_clocks(request);
        if let Some(grace) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()?.grace.take()) {
            self.timers.disarm(grace, Timer::Grace(request));
        }
    }

    pub(super) fn report_opened(&mut self, request: RequestKey) {
        self.tally.requests[request.from] += 1;
        self.mark_changed(request);
        if !self.config.emit.requests {
            return;
        }
        let Some(exchange) = self.exchange(request) else { return };
        let event = RelayEvent::Opened {
            request,
            id: exchange.id.clone(),
            upstream: exchange.upstream().clone(),
            method: self.methods.name(exchange.method).into(),
        };
        self.events.push_back(event);
    }

    pub(super) fn report_late(&mut self, now: Instant, from: Side, request: RequestKey, id: RequestId, what: LateKind) {
        self.tally.late.count(what.as_str());
        if let Some(exchange) = self.exchange_mut(request) {
            let late = &mut exchange.rare.get_or_insert_default().late;
            late.at = now;
            match what {
                LateKind::Result | LateKind::Error => late.answers += 1,
                LateKind::Progress | LateKind::Subscription => late.notices += 1,
            }
        }
        if matches!(what, LateKind::Progress | LateKind::Subscription) {
            self.note_work(now, request);
        }
        self.mark_changed(request);
        if self.config.emit.notices {
            self.remark(RelayEvent::Late { from, id, what });
        }
    }

    pub(super) fn report_receipt(&mut self, request: RequestKey) {
        let Self { tables, tally, .. } = self;
        if let Some(cancel) = tables[request.from].get_mut(request.key).and_then(|ex| ex.cancel.as_deref_mut()) {
            tally.receipt(cancel);
        }
        self.mark_changed(request);
        if !self.config.emit.notices {
            return;
        }
        let Some(exchange) = self.exchange(request) else { return };
        let Some(cancel) = &exchange.cancel else { return };
        let event = RelayEvent::Receipt {
            request,
            id: exchange.id.clone(),
            method: self.methods.name(exchange.method).into(),
            receipt: cancel.receipt.clone(),
        };
        self.remark(event);
    }

    pub(super) fn report_stuck(&mut self, request: RequestKey, sign: StuckSign) {
        self.tally.stuck += 1;
        self.mark_changed(request);
        let Some(exchange) = self.exchange(request) else { return };
        let event = RelayEvent::Stuck {
            request,
            id: exchange.id.clone(),
            method: self.methods.name(exchange.method).into(),
            sign,
        };
        self.events.push_back(event);
    }

    pub(super) fn report_drop(&mut self, from: Side, why: Rejected, bytes: &[u8]) {
        self.tally.dropped += 1;
        if self.config.emit.notices {
            let excerpt = bytes[..bytes.len().min(EXCERPT)].into();
            self.remark(RelayEvent::Rejected { from, why, excerpt });
        }
    }

    pub(super) fn report_violation(&mut self, by: Side, rule: Rule, id: Option<RequestId>) {
        self.violations[by].count(rule);
        if self.config.emit.notices {
            self.remark(RelayEvent::Violation { by, rule, id });
        }
    }
}

/// A receipt as JSON: who asked, and what is known.
fn write_receipt(receipt: &Receipt, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"cause":"#);
    json::write_string(out, receipt.cause.code.as_str());
    if let Some(text) = receipt.cause.text() {
        out.extend_from_slice(br#","reason":"#);
        json::write_string(out, text);
    }
    out.extend_from_slice(br#","outcome":"#);
    json::write_string(out, receipt.outcome.as_str());
    out.push(b'}');
}
