//! What ends our requests: an answer, the peer's own cancel of a subscription, the end of the connection.

use super::{
    Connection, ConnectionEvent, OutgoingKey, Settlement,
    link::Link,
    outgoing::{Outgoing, Standing},
    part::Part,
    turn,
};
use crate::{
    frame::{Response, ResponseBody, ResponseId},
    id::RequestId,
    link::{Rejected, Verdict},
    receipt::{Answer, Outcome},
    slab::Key,
    tombstones::SettledAs,
};

impl Connection {
    /// Receives a response, which answers one of our requests exactly, or else as a careless peer would write its id (D10).
    pub(super) fn receive_response(&mut self, response: &Response<'_>) {
        let Self { outgoing, link, .. } = self;
        let (ResponseBody::Result(text) | ResponseBody::Error(text)) = response.body;
        let (exact, loose, name) = match &response.id {
            Some(ResponseId::Exact(id)) if !id.is_null() => (id.as_integer(), id.loose(), Some(id.clone())),
            Some(ResponseId::Loose(value)) => (None, Some(*value), None),
            Some(ResponseId::Exact(_)) | None => {
                return link.report_rejected(Rejected::StrayError, None, text, None);
            }
        };
        // Ours are integers: what resembles one resembles no other.
        let ours = exact.or(loose).filter(|id| outgoing.was_ours(*id));
        link.counters.loose_ids += u64::from(exact.is_none() && ours.is_some());
        match ours.map(|id| (id, outgoing.by_id(&id))) {
            // A request that has not begun to leave cannot be answered: the peer guessed its id.
            Some((_, Some(key))) if outgoing.get(key).is_some_and(|call| link.outbox.has_begun(call.frame)) => {
                self.close_call(key, response.body, None);
            }
            Some((id, None)) => link.report_late(RequestId::integer(id), Answer::from(&response.body).into()),
            Some((_, Some(_))) | None => link.report_rejected(Rejected::UnknownResponse, name, text, None),
        }
    }

    /// Ends a request whose answer cannot be used, or was not the peer's: its caller must not wait for ever. `false` if
    /// there is no request of ours with this id.
    pub(super) fn fail_call(&mut self, id: &RequestId, how: Settlement) -> bool {
        let Some(key) = id.as_integer().and_then(|id| self.outgoing.by_id(&id)) else { return false };
        if self.outgoing.get(key).is_some_and(|call| self.link.outbox.has_begun(call.frame)) {
            self.close_call(key, ResponseBody::Error(b"{}"), Some(how));
        }
        true
    }

    /// Ends a request that was answered, in the way that its answer says, or as `unusable` if that cannot be used.
    fn close_call(&mut self, key: Key, response: ResponseBody<'_>, unusable: Option<Settlement>) {
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return };
        if call.part == Part::Foreground {
            // It was answered when it was inserted.
            return link.report_late(RequestId::integer(call.id), Answer::from(&response).into());
        }
        if let (Part::Handshake, ResponseBody::Result(result)) = (call.part, response) {
            link.negotiation.saw_initialize_result(result);
        }
        if matches!(response, ResponseBody::Result(_)) && unusable.is_none() && self.note_inserted(key) {
            return;
        }
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return };
        let closed = call.closed_session(&response);
        let says_cancelled =
            call.cancel.is_some() && call.dialect.says_cancelled(link.methods.name(call.method), &response);
        let answer = Answer::from(&response);
        // Where the transport ended it, the peer has answered nothing.
        let is_answered = !matches!(unusable, Some(Settlement::Transport(_)));
        let confirms = !call.dialect.is_silent();
        let outcome = call.cancel.as_ref().and_then(|it| match is_answered {
            true => it.receipt.answered(link.now, answer, says_cancelled),
            false => it.receipt.outcome.is_cut_short(confirms).then_some(Outcome::Unknown),
        });
        if let Some(outcome) = outcome {
            link.learn(key, call, outcome);
        }
        if call.is_settled() {
            link.report_late(RequestId::integer(call.id), answer.into());
        } else {
            let cause = call.cancel.as_ref().map(|cancel| &cancel.receipt.cause);
            let how = unusable.unwrap_or_else(|| match (response, cause) {
                (ResponseBody::Error(_), Some(cause)) if says_cancelled => Settlement::Cancelled(cause.clone()),
                (ResponseBody::Result(result), _) => Settlement::Result(result.into()),
                (ResponseBody::Error(error), _) => Settlement::PeerError(error.into()),
            });
            self.settle_call(key, how);
        }
        self.remove_call(key);
        if let Some(session) = closed {
            self.end_closed_session(&session);
        }
    }

    /// Ends our subscription, which the server cancelled (MCP-M02).
    pub(super) fn end_subscription(&mut self, key: Key, reason: Option<&str>) -> Verdict {
        if self.outgoing.open(key).is_none() {
            return Verdict::Completed;
        }
        self.settle_call(key, Settlement::Ended { reason: reason.map(Into::into) });
        self.remove_call(key);
        Verdict::Accepted
    }

    /// Ends all requests: no answer can come any more.
    pub(super) fn close_calls(&mut self) {
        for key in self.outgoing.keys() {
            let Self { outgoing, link, .. } = self;
            let Some(call) = outgoing.get_mut(key) else { continue };
            let confirms = !call.dialect.is_silent();
            if call.outcome().is_some_and(|outcome| outcome.is_cut_short(confirms)) {
                link.learn(key, call, Outcome::Unknown);
            }
            link.outbox.withdraw(call.frame);
            if !call.is_settled() {
                self.settle_call(key, Settlement::Closed);
            }
            self.remove_call(key);
        }
    }

    /// Settles a request for its caller, once (invariant 3).
    pub(super) fn settle_call(&mut self, key: Key, how: Settlement) {
        self.unlink_child(key);
        let Self { incoming, outgoing, link, .. } = self;
        let Some((call, token)) = outgoing.settle(key) else { return link.note_broken(3, true) };
        link.timers.stop(&mut call.timer);
        // A task keeps its token beyond the answer (MCP-P01): its progress is for others to know.
        if let Some(token) = token.filter(|_| !call.is_task) {
            link.spent_tokens.remember(link.now, token, SettledAs::Answered);
        }
        if call.is_question {
            for key in link.our_questions.release(link.now) {
                link.arm_deadline(incoming, key);
            }
        }
        link.emit(ConnectionEvent::Settled { request: OutgoingKey(key), how });
    }

    /// Settles a request before its answer, and keeps it as long as its receipt is open.
    pub(super) fn settle_and_keep(&mut self, key: Key, how: Settlement) {
        self.settle_call(key, how);
        self.keep_or_remove(key);
    }

    /// Keeps a settled request as long as its receipt is open; as a tombstone once its cancel was written. Nothing happens
    /// to one whose caller waits.
    pub(super) fn keep_or_remove(&mut self, key: Key) {
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.get(key).filter(|call| call.is_settled()) else { return };
        match call.outcome() {
            Some(Outcome::Asked) if !link.has_handed_cancel(call) => return,
            Some(Outcome::Asked) => {}
            // Where the peer owes no answer and none would be reported, what comes late is known by its id.
            Some(Outcome::Sent) if !call.dialect.is_silent() || link.reports_receipt(call) => {}
            Some(_) | None => return self.remove_call(key),
        }
        if call.standing == Standing::Settled {
            outgoing.retire(link.now, key);
            self.forget_calls();
        }
    }

    /// Forgets settled requests that are too old or too many. Of a cancel that has not left by then nothing will be known.
    pub(super) fn forget_calls(&mut self) {
        while let Some(key) = self.outgoing.expire(self.link.now) {
            let Self { outgoing, link, .. } = self;
            if let Some(call) = outgoing.get_mut(key).filter(|call| call.outcome() == Some(Outcome::Asked)) {
                link.learn(key, call, Outcome::Unknown);
            }
            self.remove_call(key);
        }
    }

    pub(super) fn remove_call(&mut self, key: Key) {
        let removed = self.outgoing.remove(key);
        if let Some((part, session)) = removed.as_ref().and_then(|call| Some((call.part, call.session()?))) {
            self.turns.remove(&turn::name(part, session), key);
        }
    }
}

impl Outgoing {
    /// The session that this answer to it has closed, if it reports its work by itself (ACP-57).
    fn closed_session(&self, response: &ResponseBody<'_>) -> Option<Box<[u8]>> {
        let (_, form) = self.dialect.session_work().filter(|_| self.part == Part::Close)?;
        let is_closed = matches!(response, ResponseBody::Result(_)) || response.error_code() == Some(form.no_session);
        self.session().filter(|_| is_closed).map(Into::into)
    }
}

impl Link {
    /// Notes what came of a cancel (D28). If it still waits to be written, it comes too late (D15).
    pub(super) fn learn(&mut self, key: Key, call: &mut Outgoing, outcome: Outcome) {
        let Some(cancel) = &mut call.cancel else { return };
        cancel.receipt.outcome = outcome;
        if let Some(frame) = cancel.frame.take() {
            self.outbox.withdraw(frame);
        }
        self.report_receipt(key, call);
    }
}
