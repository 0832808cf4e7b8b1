//! What has become of messages for the server that were handed to what stands before it, and could be taken back (D51).

use super::{
    Followup, Relay, Step,
    exchange::{Cancelling, ThreadPart, Up},
};
use crate::{
    link::{Departure, RequestKey},
    receipt::Outcome,
    side::Side,
    time::Instant,
};

impl Relay {
    /// Records what has become of a message for `side` that was taken and had not left, where its driver has to report it
    /// ([`RelayConfig::server_departs`](super::RelayConfig::server_departs)). Departures come in the order in which they
    /// came to be, and before the answer that followed. One of a request that is not known, or has left, changes nothing.
    pub fn handle_departure(&mut self, now: Instant, side: Side, departure: &Departure) {
        match &mut self.bridge {
            Some(bridge) if side == Side::Server => bridge.handle_departure(now, departure),
            Some(_) | None => self.departed(now, side, departure),
        }
        self.finish(now);
    }

    /// The same, of a message by the id that the relay has given it.
    pub(super) fn departed(&mut self, now: Instant, to: Side, departure: &Departure) {
        let from = to.other();
        let Some(id) = departure.id() else { return self.task_session_lost(from) };
        let Some(key) = self.tables[from].by_upstream(id) else { return };
        self.step(now, RequestKey { from, key }, |step| match departure {
            Departure::Request(_) => step.taken_left(),
            Departure::Cancel(_) => {
                step.taken_left();
                step.taken_cancel_left();
            }
            Departure::Returned(_) => step.returned(),
            Departure::Withdrawn(_) => step.taken_back(),
            Departure::Session => {}
        });
    }

    /// Nothing can be written to the server any more: whether a cancel that was handed on has left is not known.
    pub(super) fn lose_taken_cancels(&mut self, now: Instant) {
        let is_asked = |cancel: &Cancelling| cancel.receipt.outcome == Outcome::Asked;
        for key in self.tables.client.by_age(|ex| ex.cancel.as_deref().is_some_and(is_asked)) {
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.learn(Outcome::Unknown));
        }
    }

    /// Whether what is written to the server leaves later, from now on.
    pub(super) fn set_departs(&mut self) {
        self.core.links[Side::Server].departs = self.bridge.is_some() || self.core.config.server_departs;
    }
}

impl Step<'_> {
    fn taken_left(&mut self) {
        if self.exchange.up == Up::Handed {
            self.request_left();
        }
    }

    fn taken_cancel_left(&mut self) {
        let outbox = &self.core.links[self.request.from.other()].outbox;
        let Some(cancel) = &self.exchange.cancel else { return };
        let waits_here = cancel.frame.is_some_and(|frame| outbox.holds(frame));
        let is_none = matches!(cancel.receipt.outcome, Outcome::NeverSent | Outcome::NotSendable);
        if !waits_here && !is_none && cancel.receipt.written.is_none() {
            self.cancel_written();
        }
    }

    /// The request has not left after all.
    fn returned(&mut self) {
        let is_cancelled = self.exchange.cancel.as_ref().is_some_and(|cancel| cancel.receipt.written.is_some());
        if self.exchange.up == Up::Sent && !is_cancelled {
            self.request_is(Up::Handed);
        }
    }

    /// Nothing more of the request goes to the other side, and no cancel.
    fn taken_back(&mut self) {
        let is_asked = |cancel: &&mut Cancelling| cancel.receipt.outcome == Outcome::Asked;
        let Some(cancel) = self.exchange.cancel.as_deref_mut().filter(is_asked) else { return };
        cancel.frame = None;
        let (up, outcome) = match self.exchange.up {
            Up::Handed => (Up::Never, Outcome::NeverSent),
            // What it was given of the request it has answered.
            Up::Sent => (Up::Answered, Outcome::CompletedFirst),
            Up::Assembling | Up::Held | Up::Queued(_) | Up::Answered | Up::Never | Up::Lost => return,
        };
        self.exchange.up = up;
        self.note_task_cancel_withdrawn();
        self.note_turn_ended();
        self.stop_grace();
        self.learn(outcome);
        if !self.exchange.dialect.is_silent() {
            self.answer_cancelled();
        }
    }

    /// The request has left whole.
    pub(super) fn request_left(&mut self) {
        self.request_is(Up::Sent);
        if self.exchange.rare.is_some() {
            self.rare_left();
        }
    }

    /// What leaves with a request that is more than a call.
    fn rare_left(&mut self) {
        if let (true, Some(session)) = (self.is_turn(), self.exchange.session()) {
            self.core.followups.push(Followup::TurnBegun(session.into(), self.request.key));
        }
        if let Some(&ThreadPart::Interrupts { turn: Some(turn), .. }) = self.exchange.thread() {
            self.core.followups.push(Followup::InterruptLeft(turn));
        }
        self.note_task_cancel_left();
    }

    pub(super) fn request_is(&mut self, up: Up) {
        self.exchange.up = up;
        if up != Up::Handed {
            self.let_own_go();
        }
        self.mark_changed();
    }
}
