//! The end of our requests before their answer: cancelled, timed out, or ended with what they serve (D4, D14–D16, D19,
//! D26).

use core::time::Duration;

use super::{
    Connection, ConnectionEvent, OutgoingKey, ReceiptNotice, Settlement,
    incoming::{Incoming, Work},
    link::{Link, Tag},
    outgoing::{CallClocks, Cancelling, Outgoing},
    part::Part,
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::Cancellers,
    id::{OutgoingId, RequestId},
    json,
    link::{Clock, cancel},
    message,
    outbox::Ticket,
    receipt::{Outcome, Receipt},
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

impl Connection {
    /// Cancels one of our requests, which settles now (D4): what is learnt later is in the receipt (D28).
    ///
    /// The peer is sent one cancel, after the request; of a request not begun nothing is sent at all
    /// (D14, D15). `false` if it is settled already.
    pub fn cancel(&mut self, now: Instant, key: OutgoingKey, cause: Cause) -> bool {
        self.step(now, |this| this.cancel_call(key.0, cause, None))
    }

    /// Cancels one of our requests, but lets its caller wait for the answer, no longer than `grace` (D4).
    pub fn cancel_and_wait(&mut self, now: Instant, key: OutgoingKey, cause: Cause, grace: Duration) -> bool {
        self.step(now, |this| this.cancel_call(key.0, cause, Some(now + grace)))
    }

    /// Cancels everything of ours that is in flight.
    pub(super) fn cancel_all(&mut self, code: CauseCode) {
        for key in self.outgoing.keys() {
            self.cancel_call(key, Cause::new(code), None);
        }
    }

    /// Cancels a request, which settles now, or waits for the answer until `wait`.
    pub(super) fn cancel_call(&mut self, key: Key, cause: Cause, wait: Option<Instant>) -> bool {
        let how = Settlement::Cancelled(cause.clone());
        self.end_call(key, cause, how, wait)
    }

    /// Ends a request before its answer: the peer is sent a cancel if it may be, and has not been (D15). `false` if the
    /// request is settled already.
    fn end_call(&mut self, key: Key, cause: Cause, how: Settlement, wait: Option<Instant>) -> bool {
        let with_session = self.is_cancelled_with_session(key);
        self.end_call_with(key, cause, how, wait, with_session)
    }

    /// Ends a request before its answer, if a cancel is sent with that of its whole session.
    pub(super) fn end_call_with(
        &mut self,
        key: Key,
        cause: Cause,
        how: Settlement,
        wait: Option<Instant>,
        with_session: bool,
    ) -> bool {
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.open(key) else { return false };
        if let Some(cancel) = &mut call.cancel {
            // Asked for before: the first cause stays (D19).
            if let Some(wait) = wait {
                cancel.wait = cancel.wait.min(wait);
                link.arm_call(outgoing, key);
            } else {
                let how = Settlement::Cancelled(cancel.receipt.cause.clone());
                self.settle_and_keep(key, how);
            }
            return true;
        }
        let is_withdrawn = link.outbox.withdraw(call.frame).is_some();
        let outcome = if is_withdrawn {
            Outcome::NeverSent
        } else if link.is_sendable(call) {
            Outcome::Asked
        } else {
            Outcome::NotSendable
        };
        let is_asked = outcome == Outcome::Asked;
        call.is_cancelled_with_session = with_session;
        let frame = is_asked.then(|| link.write_cancel(key, call, cause.wire_reason()));
        // Where the agent says which cards are over, it is asked nothing before (ACP-53).
        let is_turn = is_asked && with_session && call.dialect.turn.is_some_and(|turn| turn.cards.is_some());
        let (root, turn) = (cause.code, call.session().filter(|_| is_turn).map(<[u8]>::to_vec));
        let receipt = Receipt { cause, asked: link.now, written: None, outcome };
        call.cancel = Some(Box::new(Cancelling { receipt, frame, wait: wait.unwrap_or(NEVER) }));
        link.report_receipt(key, call);
        if wait.is_none() || is_withdrawn {
            self.settle_and_keep(key, how);
        } else {
            link.arm_call(outgoing, key);
        }
        if let Some(session) = turn {
            self.cancel_cards(&session, root);
        }
        true
    }

    /// Notes what has become of a cancel: it has left as a whole, and from here on only the peer can show more; a filter
    /// kept it back, and the request goes on, as far as the peer knows; or it was taken back.
    pub(super) fn cancel_gone(&mut self, key: Key, outcome: Outcome) {
        let Self { outgoing, link, .. } = self;
        // Its request may have been answered while it was being written.
        let Some(call) = outgoing.get_mut(key) else { return };
        if let Some(cancel) = call.cancel.as_mut().filter(|_| outcome == Outcome::Sent) {
            let is_second = cancel.receipt.written.replace(link.now).is_some();
            link.note_broken(1, is_second);
            link.counters.cancels_sent += 1;
        }
        link.learn(key, call, outcome);
        self.keep_or_remove(key);
    }

    /// Handles a clock of a request, or the end of the time that its caller waits after a cancel.
    pub(super) fn handle_call_timer(&mut self, key: Key) {
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return debug_assert!(false, "a timer outlived its request") };
        call.timer = TimerKey::NOT;
        if call.due(&link.their_questions) > link.now {
            return link.arm_call(outgoing, key);
        }
        let CallClocks { response, total, .. } = call.clocks;
        let (clock, after) = match call.clocks.limit() {
            Some(limit) if link.their_questions.due(response) <= total => (Clock::Response, limit),
            Some(_) | None => (Clock::Total, total.since(call.started)),
        };
        // A cancel that was asked for before wins over the clock (D19).
        self.end_call(key, Cause::new(CauseCode::Timeout), Settlement::TimedOut { clock, after }, None);
    }

    /// Makes one of our requests a child of the peer's request that it serves, or ends it at once if that has ended or is
    /// to end.
    pub(super) fn link_child(&mut self, parent: Key, key: Key) {
        let Self { incoming, outgoing, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return };
        match incoming.get_mut(parent) {
            Some(mut request) if request.work == Work::Running => {
                request.change_children(|children| children.insert(call.id, key));
                call.rare.get_or_insert_default().parent = Some(parent);
                // The parent holds no slot while it waits.
                self.offer_next();
            }
            found => {
                let root = found.and_then(|request| request.stop.as_ref().map(|stop| stop.cause.code));
                self.cancel_call(key, Cause::parent(root), None);
            }
        }
    }

    /// Takes one of our requests out of its parent's children.
    pub(super) fn unlink_child(&mut self, key: Key) {
        let Self { incoming, outgoing, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return };
        let parent = call.rare.as_mut().and_then(|rare| rare.parent.take());
        if let Some(mut parent) = parent.and_then(|parent| incoming.get_mut(parent)) {
            parent.change_children(|children| children.remove(&call.id));
        }
    }

    /// Cancels those of our requests that serve a request of the peer which has ended or is to end.
    pub(super) fn cancel_children(&mut self, parent: Key, root: Option<CauseCode>) {
        while let Some(child) = self.incoming.get(parent).and_then(Incoming::newest_child) {
            self.cancel_call(child, Cause::parent(root), None);
            // Also if it was over already: it serves nothing any more.
            self.unlink_child(child);
        }
    }
}

impl Link {
    /// Whether the protocol has a way to cancel this request now (D18, ACP-20).
    fn is_sendable(&self, call: &Outgoing) -> bool {
        // A turn's cancel is older than every capability: each agent must understand it.
        !call.is_uncancellable
            && !self.phase.write_closed
            && (self.role() == Side::Client || call.dialect.cancellers == Cancellers::Both) // MCP-M01
            && (matches!(call.part, Part::Prompt | Part::Foreground)
                || self.negotiation.forbids_cancel(self.role(), call.dialect).is_none())
    }

    fn write_cancel(&mut self, key: Key, call: &Outgoing, reason: &str) -> Ticket {
        let is_unsent = !self.outbox.has_begun(call.frame);
        self.note_broken(1, is_unsent);
        if let (true, Some(turn), Some(session)) = (call.is_cancelled_with_session, call.dialect.turn, call.session()) {
            return self.queue(Tag::Cancel(key), |out| {
                message::notification(turn.cancel, out, |out| {
                    json::write_string(out, turn.session);
                    out.push(b':');
                    out.extend_from_slice(session);
                });
            });
        }
        let form = self.negotiation.cancel_form(self.peer(), call.dialect);
        self.queue(Tag::Cancel(key), |out| cancel::write(form, &RequestId::integer(call.id), Some(reason), out))
    }

    /// Whether what comes of this request's cancel is reported.
    pub(super) const fn reports_receipt(&self, call: &Outgoing) -> bool {
        call.is_watched || self.config.reports_cancels
    }

    pub(super) fn report_receipt(&mut self, key: Key, call: &Outgoing) {
        if let Some(cancel) = call.cancel.as_ref().filter(|_| self.reports_receipt(call)) {
            let notice = ReceiptNotice {
                request: OutgoingKey(key),
                id: OutgoingId(RequestId::integer(call.id)),
                method: self.methods.name(call.method).into(),
                receipt: cancel.receipt.clone(),
            };
            self.emit(ConnectionEvent::Receipt(Box::new(notice)));
        }
    }
}
