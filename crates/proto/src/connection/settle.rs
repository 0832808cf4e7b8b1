//! What ends our requests: an answer, the peer's own cancel of a subscription, the end of the connection.

use super::{Connection, ConnectionEvent, OutgoingKey, Settlement, turn::What};
use crate::{
    connection::outgoing::Part,
    dialect::{CancelReply as Style, Dialect},
    frame::{Response, ResponseBody, ResponseId},
    id::RequestId,
    json,
    link::{LateKind, Rejected, Verdict},
    receipt::{Answer, Outcome},
    slab::Key,
    time::Instant,
    timer_queue::TimerKey,
    tombstones::SettledAs,
};

impl Connection {
    pub(super) fn take_response(&mut self, now: Instant, response: &Response<'_>) {
        let (ResponseBody::Result(text) | ResponseBody::Error(text)) = response.body;
        match self.find_call(response.id.as_ref()) {
            Found::Call(key) => self.answered(now, key, response.body),
            Found::Over(id) => self.report_late(id, response.body),
            Found::Nameless => self.refused(Rejected::StrayError, None, text, None),
            Found::Unknown(id) => self.refused(Rejected::UnknownResponse, id, text, None),
        }
    }

    /// Whether a malformed message stands where the answer of one of our requests is due.
    pub(super) fn is_awaited(&self, id: &RequestId) -> bool {
        id.as_integer().and_then(|id| self.outgoing.by_id(id)).is_some()
    }

    /// The answer arrived and cannot be used: its caller must not wait for ever.
    pub(super) fn fail_call(&mut self, now: Instant, id: &RequestId, why: Rejected) {
        let Some(key) = id.as_integer().and_then(|id| self.outgoing.by_id(id)) else { return };
        let Some(call) = self.outgoing.get(key).filter(|call| self.outbox.has_begun(call.frame)) else { return };
        let settled = call.is_settled();
        let response = ResponseBody::Error(b"{}");
        self.learn(now, key, response);
        if settled {
            self.report_late(id.clone(), response);
        } else {
            self.settle_call(now, key, Settlement::Unreadable(why));
        }
        self.remove_call(key);
    }

    /// The request that a response answers: exactly, or else as a careless peer would write its id (D10).
    fn find_call(&mut self, id: Option<&ResponseId>) -> Found {
        let (exact, loose, name) = match id {
            None => return Found::Nameless,
            Some(ResponseId::Exact(id)) if id.is_null() => return Found::Nameless,
            Some(ResponseId::Exact(id)) => (id.as_integer(), id.loose(), Some(id.clone())),
            Some(ResponseId::Loose(value)) => (None, Some(*value), None),
        };
        // Ours are integers: what resembles one resembles no other.
        let Some(value) = exact.or(loose) else { return Found::Unknown(name) };
        self.counters.loose_ids += u64::from(exact.is_none() && self.outgoing.was_ours(value));
        match self.outgoing.by_id(value) {
            // A request that has not begun to leave cannot be answered: the peer guessed its id.
            Some(key) if self.outgoing.get(key).is_some_and(|call| self.outbox.has_begun(call.frame)) => {
                Found::Call(key)
            }
            None if self.outgoing.was_ours(value) => Found::Over(RequestId::integer(value)),
            Some(_) | None => Found::Unknown(name),
        }
    }

    fn answered(&mut self, now: Instant, key: Key, response: ResponseBody<'_>) {
        let Some(call) = self.outgoing.get(key) else { return };
        let (id, settled, dialect) = (call.id, call.is_settled(), call.dialect);
        if let (Part::Handshake, ResponseBody::Result(result)) = (call.part, response) {
            self.negotiation.saw_initialize_result(result);
        }
        let cause = call.cancel.as_ref().map(|cancel| cancel.receipt.cause.clone());
        self.learn(now, key, response);
        if settled {
            self.report_late(RequestId::integer(id), response);
        } else {
            let how = match (response, cause) {
                (ResponseBody::Error(error), Some(cause)) if says_cancelled(dialect, error) => {
                    Settlement::Cancelled(cause)
                }
                (ResponseBody::Result(result), _) => Settlement::Result(result.into()),
                (ResponseBody::Error(error), _) => Settlement::PeerError(error.into()),
            };
            self.settle_call(now, key, how);
        }
        self.remove_call(key);
    }

    fn report_late(&mut self, id: RequestId, response: ResponseBody<'_>) {
        self.counters.late += 1;
        let what = match response {
            ResponseBody::Result(_) => LateKind::Result,
            ResponseBody::Error(_) => LateKind::Error,
        };
        self.tell(ConnectionEvent::Late { id, what });
    }

    /// What an answer says about the cancel, if there was one (D28).
    fn learn(&mut self, now: Instant, key: Key, response: ResponseBody<'_>) {
        let Some(call) = self.outgoing.get_mut(key) else { return };
        let (dialect, method) = (call.dialect, call.method);
        let Some(cancel) = &mut call.cancel else { return };
        let after = now.since(cancel.receipt.asked);
        let unwritten = cancel.frame.take();
        let confirmed = match response {
            ResponseBody::Error(error) => says_cancelled(dialect, error),
            ResponseBody::Result(result) => dialect
                .cancel_result(self.methods.name(method))
                .is_some_and(|own| json::lookup(result, own.path).and_then(json::text).as_deref() == Some(own.value)),
        };
        let outcome = match (cancel.receipt.outcome, response) {
            (Outcome::Asked, _) => Outcome::CompletedFirst,
            (Outcome::Sent, _) if confirmed => Outcome::Confirmed { after },
            (Outcome::Sent, ResponseBody::Result(_)) => Outcome::AnsweredAfter { after, answer: Answer::Result },
            (Outcome::Sent, ResponseBody::Error(_)) => Outcome::AnsweredAfter { after, answer: Answer::Error },
            (
                Outcome::NeverSent
                | Outcome::NotSendable
                | Outcome::Confirmed { .. }
                | Outcome::CompletedFirst
                | Outcome::AnsweredAfter { .. }
                | Outcome::Unknown,
                _,
            ) => return,
        };
        cancel.receipt.outcome = outcome;
        // An answer that came before the cancel was written disarms it (D15).
        if let Some(ticket) = unwritten {
            self.outbox.withdraw(ticket);
        }
        self.report_receipt(key);
    }

    /// The server ends our subscription (MCP-M02).
    pub(super) fn end_subscription(&mut self, now: Instant, key: Key, reason: Option<&str>) -> Verdict {
        let Some(call) = self.outgoing.get(key) else { return Verdict::Completed };
        if call.is_settled() {
            return Verdict::Completed;
        }
        self.settle_call(now, key, Settlement::Ended { reason: reason.map(Into::into) });
        self.remove_call(key);
        Verdict::Accepted
    }

    /// No answer can come any more.
    pub(super) fn close_calls(&mut self, now: Instant) {
        for key in self.outgoing.keys() {
            let Some(call) = self.outgoing.get_mut(key) else { continue };
            let (settled, request) = (call.is_settled(), call.frame);
            let confirms = !call.dialect.is_silent();
            if let Some(cancel) = &mut call.cancel
                && cancel.receipt.outcome.is_cut_short(confirms)
            {
                cancel.receipt.outcome = Outcome::Unknown;
                if let Some(frame) = cancel.frame.take() {
                    self.outbox.withdraw(frame);
                }
                self.report_receipt(key);
            }
            self.outbox.withdraw(request);
            if !settled {
                self.settle_call(now, key, Settlement::Closed);
            }
            self.remove_call(key);
        }
    }

    /// Tells the caller, once (invariant 3).
    pub(super) fn settle_call(&mut self, now: Instant, key: Key, how: Settlement) {
        let Some(call) = self.outgoing.get_mut(key) else { return };
        if call.is_settled() {
            return self.note(3, true);
        }
        let (is_task, is_question) = (call.is_task, call.is_question);
        self.timers.disarm(core::mem::replace(&mut call.armed, TimerKey::NOT));
        self.unlink_child(key);
        if is_question {
            for parked in self.asking.release(now) {
                self.arm_deadline(parked);
            }
        }
        // A task keeps its token beyond the answer (MCP-P01): its progress is somebody else's to know.
        if let Some(token) = self.outgoing.settle(key)
            && !is_task
        {
            self.spent_tokens.remember(now, *token, SettledAs::Answered);
        }
        self.tell(ConnectionEvent::Settled { request: OutgoingKey(key), how });
    }

    /// What remains of a settled request: nothing, or a ghost as long as its receipt is open.
    pub(super) fn rest(&mut self, now: Instant, key: Key) {
        let outcome = self.outgoing.get(key).and_then(|call| call.cancel.as_ref()).map(|cancel| cancel.receipt.outcome);
        match outcome {
            Some(Outcome::Asked) => {}
            Some(Outcome::Sent) => self.retire(now, key),
            Some(
                Outcome::NeverSent
                | Outcome::NotSendable
                | Outcome::Confirmed { .. }
                | Outcome::CompletedFirst
                | Outcome::AnsweredAfter { .. }
                | Outcome::Unknown,
            )
            | None => self.remove_call(key),
        }
    }

    /// Keeps a settled request for what may come late, and forgets those that are too many. Where the peer owes no
    /// answer and nobody would hear of one, there is nothing to keep: what comes late is known by its id.
    pub(super) fn retire(&mut self, now: Instant, key: Key) {
        if self.outgoing.get(key).is_some_and(|call| call.dialect.is_silent() && !self.is_heard(call)) {
            return self.remove_call(key);
        }
        self.outgoing.retire(now, key);
        while let Some(key) = self.outgoing.expired(now) {
            self.remove_call(key);
        }
    }

    pub(super) fn remove_call(&mut self, key: Key) {
        let Some(call) = self.outgoing.remove(key) else { return };
        match call.part {
            Part::Prompt => self.turns.remove(key, What::Prompt),
            Part::Permission => self.turns.remove(key, What::Permission),
            Part::Plain | Part::Handshake | Part::Subscription => {}
        }
    }
}

/// What a response's id led to.
enum Found {
    Call(Key),
    /// One of ours that is over.
    Over(RequestId),
    /// No id, or null.
    Nameless,
    Unknown(Option<RequestId>),
}

/// Whether an error is the dialect's "cancelled".
fn says_cancelled(dialect: &Dialect, error: &[u8]) -> bool {
    let Style::Answered(text) = dialect.settlement else { return false };
    let code = json::member(error, "code").and_then(RequestId::from_json).and_then(|code| code.as_integer());
    code == Some(i64::from(text.code))
}
