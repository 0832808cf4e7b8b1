//! How a request ends for its requester: with answers of our own, with silence, or without it; and when it is forgotten.

use core::time::Duration;

use super::{
    Core, Followup, Relay, RelayEvent, Settled, Step, Timer,
    exchange::{Down, Exchange, Up},
    link::{Part, Tag},
    task_work::TaskPart,
    view::is_shown,
};
use crate::{
    cause::{CauseCode, sanitised},
    dialect::CancelReply,
    error_code,
    id::RequestId,
    json,
    link::{Clock, RequestKey},
    message,
    receipt::{Outcome, Receipt},
    side::Side,
    table::Ring,
    time::Instant,
};

/// The words for a requester when the other side kept silent (D34).
const UNCONFIRMED: &str = "cancelled; not confirmed, the work may still be running";

impl Step<'_> {
    /// Ends a request that its requester cancelled, as its dialect wants it: with silence, with an answer now if the other
    /// side never received it, or with the answer that the other side owes.
    pub(super) fn settle_cancelled(&mut self) {
        if self.exchange.dialect.is_silent() {
            return self.settle(Settled::Silent);
        }
        if matches!(self.exchange.up, Up::Never | Up::Lost) {
            return self.answer_cancelled();
        }
        // A cancel that cannot be sent is not answered: the requester waits for the work, at most the grace.
        let is_unsent = |outcome| matches!(outcome, Outcome::NotSendable | Outcome::Unknown);
        if self.cancel().is_some_and(|cancel| is_unsent(cancel.receipt.outcome)) {
            self.start_grace(self.core.config.grace);
        }
    }

    /// Ends the request for its requester: what comes later is recognised for a while (D8). Nothing happens to one that
    /// has ended.
    #[inline]
    pub(super) fn settle(&mut self, how: Settled) {
        if !self.exchange.is_live() {
            return;
        }
        self.retire(how);
        let Self { now, request, exchange, core, .. } = self;
        if let Some(arguments) = core.arguments.as_deref_mut() {
            arguments.forget(*request);
        }
        if let Some(session) = exchange.session() {
            match request.from {
                Side::Client => {
                    core.turns.remove(session, request.key);
                    if exchange.cancel.is_some() && core.is_turn(exchange) {
                        core.followups.push(Followup::TurnOver(session.into()));
                    }
                }
                Side::Server => core.cards.remove(session, request.key),
            }
        }
        if let Some(rare) = exchange.rare.as_deref_mut() {
            let notices = core::mem::take(&mut rare.notices);
            // A requester that wants no answer wants to receive nothing of it (MCP-P03, MCP-H04).
            if let Settled::Silent | Settled::Gone = how {
                for ticket in notices {
                    core.links[request.from].outbox.withdraw(ticket);
                }
            }
            if let Some(part) = rare.thread.as_deref() {
                if let Some(threads) = core.threads.as_deref_mut() {
                    threads.note_settled(*now, request.key, &exchange.id, part);
                }
                if let Some(sessions) = core.sessions.as_deref_mut().filter(|_| part.is_work()) {
                    sessions.forget(request.key);
                }
            }
            if let Some(TaskPart::Work(work)) = &mut rare.task {
                core.tasks[request.from].remove(&work.task, request.key);
                core.timers.stop(&mut work.next_look);
            }
            if rare.is_question {
                core.followups.push(Followup::QuestionOver(request.from.other()));
            }
        }
        let asked = exchange.cancel.as_deref().map(|cancel| cancel.receipt.asked);
        core.reports.tally.settled(how, asked.map(|asked| now.since(asked)));
        self.stop_clocks();
        self.mark_changed();
        self.note_ended();
        if how == Settled::Silent && self.core.config.emit.silences {
            let (from, id) = (self.request.from, self.exchange.id.clone());
            self.core.reports.emit(RelayEvent::Silenced { from, id });
        }
        // A task has an event of its own.
        if self.core.config.emit.requests && self.exchange.task_work().is_none() {
            let (request, id, method) = self.named();
            self.core.reports.emit(RelayEvent::Settled { request, id, method, how });
        }
    }

    /// Makes a tombstone of the request.
    #[inline]
    pub(super) fn retire(&mut self, how: Settled) {
        let ring = if self.exchange.is_open_upstream() { Ring::Abandoned } else { Ring::Over };
        self.rings.retire(self.request.key, &*self.exchange, self.now, ring);
        self.exchange.down = Down::Done(how, self.now);
        self.has_settled = true;
    }

    /// Answers with the method's own cancellation result or the dialect's error; the receipt goes into its data.
    pub(super) fn answer_cancelled(&mut self) {
        if let Some(own) = self.exchange.dialect.cancel_result(self.method()) {
            let result = self.cancelled_result(own.json);
            return self.answer(Settled::AnsweredHere { code: None }, |id, out| message::result(id, &result, out));
        }
        let (code, text) = match self.exchange.dialect.settlement {
            CancelReply::Answered(error) => (error.code, error.message),
            // Not reached: in a silent dialect a cancel is not answered.
            CancelReply::Silent => (error_code::INTERNAL_ERROR, "cancelled"),
        };
        let is_unconfirmed = self.exchange.is_open_upstream() || self.exchange.up == Up::Lost;
        let data = self.error_data(None);
        let text = if is_unconfirmed { UNCONFIRMED } else { text };
        match self.operators_reason() {
            Some(reason) => self.answer_error(code, &format!("{text}; {reason}"), Some(&data)),
            None => self.answer_error(code, text, Some(&data)),
        }
    }

    /// That an operator stopped the request, and why, if the operator gave a reason (D63): clients, and the models behind
    /// them, read nothing but an error's message.
    pub(super) fn operators_reason(&self) -> Option<String> {
        let cause = &self.exchange.cancel.as_deref()?.receipt.cause;
        let reason = cause.text().filter(|_| cause.code == CauseCode::Operator)?;
        Some(format!("{}: {}", CauseCode::Operator.phrase(), sanitised(reason)))
    }

    /// The method's own cancellation result; one that an operator caused says so in its `_meta`.
    fn cancelled_result(&self, own: &str) -> Vec<u8> {
        let cancel = self.exchange.cancel.as_deref();
        let stopped = cancel.filter(|cancel| cancel.receipt.cause.code == CauseCode::Operator);
        let Some((cancel, members)) = stopped.zip(own.strip_suffix('}')) else { return own.into() };
        let mut out = members.as_bytes().to_vec();
        out.extend_from_slice(br#","_meta":{"rescind/receipt":"#);
        write_receipt(&cancel.receipt, &mut out);
        out.extend_from_slice(b"}}");
        out
    }

    pub(super) fn answer_error(&mut self, code: i32, text: &str, data: Option<&[u8]>) {
        self.answer(Settled::AnsweredHere { code: Some(code) }, |id, out| {
            message::error(Some(id), code, text, data, out);
        });
    }

    /// Takes back the progress that still waits to be written, since the request's answer is about to (D62): a client that
    /// reads both at once takes such progress for unknown, and may end the connection.
    pub(super) fn withdraw_progress(&mut self) {
        let dialect = self.exchange.dialect;
        if self.exchange.rare.is_none() || !dialect.progress.is_some_and(|form| form.active_only) {
            return;
        }
        // What a subscription has been sent belongs before its answer.
        if dialect.subscription.is_some_and(|form| form.method == self.method()) {
            return;
        }
        for ticket in core::mem::take(&mut self.exchange.rare().notices) {
            self.core.links[self.request.from].outbox.withdraw(ticket);
        }
    }

    /// Queues an answer of our own for the requester, if it has none yet.
    pub(super) fn answer(&mut self, how: Settled, write: impl FnOnce(&RequestId, &mut Vec<u8>)) {
        self.stop_clocks();
        if !self.exchange.is_waiting() {
            return;
        }
        if self.exchange.is_work() {
            return self.settle(Settled::Gone);
        }
        self.withdraw_progress();
        let id = &self.exchange.id;
        let tag = Tag::Of(self.request, Part::Answer);
        let ticket = self.core.write(self.request.from, tag, |out| write(id, out));
        if ticket.is_none() {
            return self.settle(Settled::Gone);
        }
        self.exchange.down = Down::Answering(ticket, how);
        self.mark_changed();
    }

    /// The data of an error of ours: the clock, if one ran out, and the receipt.
    pub(super) fn error_data(&self, clock: Option<(Clock, Duration)>) -> Vec<u8> {
        let Some(cancel) = &self.exchange.cancel else { return b"{}".to_vec() };
        let clock =
            clock.map(|(clock, limit)| format!(r#""clock":"{}","afterMs":{},"#, clock.as_str(), limit.as_millis()));
        let mut out = format!(r#"{{{}"receipt":"#, clock.unwrap_or_default()).into_bytes();
        write_receipt(&cancel.receipt, &mut out);
        out.push(b'}');
        out
    }
}

impl Relay {
    /// Forgets settled requests of which there are too many. Those that are too old have a timer.
    #[inline]
    pub(super) fn prune(&mut self, now: Instant, side: Side) {
        if self.tables[side].has_too_many() || !self.tombstones_due.is_armed() {
            self.forget(now, side);
        }
    }

    #[inline(never)]
    pub(super) fn forget(&mut self, now: Instant, side: Side) {
        let Self { core: Core { reports, config, unkept_released, .. }, tables, .. } = self;
        let (_, longest) = config.remember;
        tables[side].prune(now, |key, exchange| {
            if !is_shown(side, exchange) {
                return;
            }
            // What is shown after its end is shown until now.
            if reports.is_observed() {
                reports.mark_forgotten(RequestKey { from: side, key }, exchange);
            }
            let is_old = matches!(exchange.down, Down::Done(_, at) if now.since(at) >= longest);
            *unkept_released += u64::from(!is_old);
        });
        // One timer for both sides: the older of the two must not wait for the younger.
        if let Some(oldest) = Side::BOTH.into_iter().filter_map(|side| self.tables[side].oldest()).min() {
            let (_, longest) = self.core.config.remember;
            self.core.timers.arm_by(&mut self.tombstones_due, oldest + longest, Timer::Tombstones);
        }
        let Self { core, tables, .. } = self;
        let is_muted = |key| tables.client.get(key).is_some_and(Exchange::is_open_upstream);
        core.muted.retain(|(_, key)| is_muted(*key));
    }
}

/// A receipt as JSON: who asked, and what is known.
pub(super) fn write_receipt(receipt: &Receipt, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(r#"{{"cause":"{}""#, receipt.cause.code.as_str()).as_bytes());
    if let Some(text) = receipt.cause.text() {
        out.extend_from_slice(br#","reason":"#);
        json::write_string(out, text);
    }
    out.extend_from_slice(format!(r#","outcome":"{}"}}"#, receipt.outcome.as_str()).as_bytes());
}
