//! How a request ends for its requester, and when it is forgotten.

use super::{
    Relay, RelayEvent, Settled,
    clocks::Timer,
    exchange::{Down, Up},
    step::{Followup, Step},
};
use crate::{bug::SeededBug, receipt::Outcome, side::Side, table::Ring, time::Instant, timer_queue::TimerKey};

impl Step<'_> {
    /// Ends a request that its requester cancelled, as its dialect wants it: with silence, with an answer now if the other
    /// side never received it, or with the answer that the other side owes.
    pub(super) fn settle_cancelled(&mut self) {
        if self.exchange.dialect.is_silent() && !self.core.config.has(SeededBug::AnsweredSilentDialect) {
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
        if let (Side::Client, Some(session)) = (request.from, &exchange.session) {
            core.turns.remove(session, request.key);
        }
        if let Some(rare) = exchange.rare.as_deref_mut() {
            let notices = core::mem::take(&mut rare.notices);
            // A requester that wants no answer wants to receive nothing of it (MCP-P03, MCP-H04).
            if let Settled::Silent | Settled::Gone = how {
                for ticket in notices {
                    core.links[request.from].outbox.withdraw(ticket);
                }
            }
            if rare.is_question {
                core.followups.push(Followup::QuestionOver(request.from.other()));
            }
        }
        let asked = exchange.cancel.as_deref().map(|cancel| cancel.receipt.asked);
        core.reports.tally.settled(how, asked.map(|asked| now.since(asked)));
        self.stop_clocks();
        self.mark_changed();
        if self.core.config.emit.requests {
            self.core.reports.emit(RelayEvent::Settled { request: self.request, how });
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
}

impl Relay {
    /// The oldest tombstones have had their time.
    pub(super) fn tombstones_due(&mut self, now: Instant) {
        self.tombstones_due = TimerKey::NOT;
        for side in Side::BOTH {
            self.forget(now, side);
        }
    }

    /// Forgets settled requests of which there are too many. Those that are too old have a timer.
    #[inline]
    pub(super) fn prune(&mut self, now: Instant, side: Side) {
        let is_full = self.tables[side].has_too_many();
        if is_full || !self.tombstones_due.is_armed() || !self.core.muted.is_empty() {
            self.forget(now, side);
        }
    }

    #[inline(never)]
    fn forget(&mut self, now: Instant, side: Side) {
        if self.core.config.has(SeededBug::LeakedTombstone) {
            return;
        }
        self.tables[side].prune(now);
        // One timer for both sides: the older of the two must not wait for the younger.
        if !self.tombstones_due.is_armed()
            && let Some(oldest) = Side::BOTH.into_iter().filter_map(|side| self.tables[side].oldest()).min()
        {
            let (_, longest) = self.core.config.remember;
            self.tombstones_due = self.core.timers.arm(oldest + longest, Timer::Tombstones);
        }
        let Self { core, tables, .. } = self;
        core.muted.retain(|(_, key)| tables[Side::Client].get(*key).is_some());
    }
}
