//! Messages of the peer, taken in.

use super::{Connection, ConnectionEvent, Payload, Tag};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    connection::incoming::Incoming,
    connection::outgoing::Part,
    dialect::{Cancellers, Dialect, ProgressForm, StrayError},
    error_code,
    frame::{self, Frame, Malformed, Mend, Notification, Params},
    framing::{self, Overlong},
    id::RequestId,
    json,
    kind::MessageKind,
    link::{LateKind, Rejected, Verdict, cancel},
    message,
    method::Method,
    rule::Rule,
    slab::Key,
    time::Instant,
};

/// How much of a message is shown of one that went nowhere.
const EXCERPT: usize = 256;

impl Connection {
    pub(super) fn take_body(&mut self, now: Instant, body: &[u8]) {
        self.counters.received += 1;
        match frame::parse(body) {
            // A server's array may hold answers that callers wait for, whatever its revision.
            Ok(Frame::Batch(batch)) if self.spoken().batches || self.config.role == crate::side::Side::Client => {
                self.take_batch(now, body, batch);
            }
            Ok(Frame::Batch(_)) => {
                self.refused(Rejected::Batch, None, body, None);
                self.refuse_nameless(error_code::INVALID_REQUEST, "no batches in this protocol", None);
            }
            Ok(message) => self.take_message(now, message, None),
            Err(malformed) => self.take_unread(now, body, malformed, None),
        }
    }

    /// A message that cannot be read as it is: taken in mended if it can be (D43).
    pub(super) fn take_unread(&mut self, now: Instant, body: &[u8], malformed: Malformed, batch: Option<Key>) {
        if self.config.has(SeededBug::UnreadableAnswerLost) {
            return self.refuse_garbage(body, "not JSON");
        }
        match frame::mend(body, self.config.max_message) {
            Mend::Mended(mended) => {
                if let Ok(message) = frame::parse_member(&mended) {
                    self.take_message(now, message, batch);
                }
            }
            Mend::TooLong(len) => self.take_overlong(&Overlong { len, ..framing::learn(body) }, now),
            Mend::No => self.take_malformed(now, body, malformed, batch),
        }
    }

    /// One message that is no batch.
    pub(super) fn take_message(&mut self, now: Instant, message: Frame<'_>, batch: Option<Key>) {
        // A peer that should not have made an array is not sent one.
        let batch = batch.filter(|_| self.spoken().batches);
        match message {
            Frame::Request(request) => self.take_request(now, request, batch),
            Frame::Notification(notification) => self.take_notification(now, &notification),
            Frame::Response(response) => self.take_response(now, &response),
            // The caller has taken batches apart; a nested one is malformed.
            Frame::Batch(_) => {}
        }
    }

    fn take_notification(&mut self, now: Instant, notification: &Notification<'_>) {
        let Notification { method, params } = notification;
        let dialect = self.spoken();
        if self.negotiation.is_cancel(dialect, method) {
            return self.take_cancel(now, dialect, method, params);
        }
        if let Some(form) = &dialect.progress
            && *method == form.method
            && self.take_progress(now, form, params)
        {
            return;
        }
        if let Some(turn) = dialect.turn
            && *method == turn.cancel
        {
            self.take_turn_cancel(now, params.session_id);
        }
        self.tell(ConnectionEvent::Notification(Payload::new(method, params)));
    }

    /// Whether the progress was for one of our requests, in flight or over.
    fn take_progress(&mut self, now: Instant, form: &ProgressForm, params: &Params<'_>) -> bool {
        let Some(raw) = params.raw else { return false };
        let Some(token) = json::member(raw, form.token).and_then(RequestId::from_json) else { return false };
        if let Some(key) = self.outgoing.by_token(&token) {
            if let Some(call) = self.outgoing.get_mut(key)
                && let Some(limit) = call.clocks.reset()
            {
                call.clocks.response = self.asked.reading(now) + limit; // MCP-T04; the timer notices when it fires
            }
            self.tell(ConnectionEvent::Progress { request: super::OutgoingKey(key), params: raw.into() });
            return true;
        }
        let is_spent = self.spent_tokens.settled_as(&token).is_some();
        if is_spent {
            self.counters.late += 1;
            self.tell(ConnectionEvent::Late { id: token, what: LateKind::Progress });
        }
        is_spent
    }

    /// A cancel acts the moment it is parsed (D11).
    fn take_cancel(&mut self, now: Instant, dialect: &'static Dialect, method: &str, params: &Params<'_>) {
        self.counters.cancels_received += 1;
        let also: &[_] = if self.negotiation.is_settled() { &[] } else { &Dialect::ALL };
        let Ok(cancel) = cancel::read(dialect, also, method, params.raw) else {
            return self.report_cancel(None, None, None, Verdict::Malformed); // D29
        };
        self.counters.dropped_reasons += u64::from(cancel.reason_dropped);
        let cancel::Cancel { id, reason, form, .. } = cancel;
        let guess = (!self.negotiation.is_settled()).then(|| self.spoken());
        self.negotiation.saw_cancel(self.peer(), self.config.framing, form);
        if let Some(guess) = guess.filter(|_| self.negotiation.is_settled()) {
            self.reread_dialect(guess);
        }
        let (method, verdict) = self.judge_cancel(now, &id, reason.as_deref());
        if let Verdict::Forbidden(rule) = verdict {
            self.violated(rule, Some(id.clone())); // D30
        }
        self.report_cancel(Some(id), method, reason.as_deref(), verdict);
    }

    /// The spelling of a cancel has told which dialect was spoken all along (D2): in every request of the peer that
    /// was taken to be in this one.
    fn reread_dialect(&mut self, guess: &Dialect) {
        let spoken = self.spoken();
        let guessed = self.incoming.iter().filter(|(_, request)| request.dialect.name == guess.name);
        for key in guessed.map(|(key, _)| key).collect::<Vec<_>>() {
            let Some(request) = self.incoming.get_mut(key) else { continue };
            request.dialect = spoken;
            request.set_own(spoken.cancel_result(self.methods.name(request.method)));
        }
    }

    /// Carries a readable cancel out, or says why not.
    fn judge_cancel(&mut self, now: Instant, id: &RequestId, reason: Option<&str>) -> (Option<Method>, Verdict) {
        let spoken = self.spoken();
        if let Some(rule) = self.negotiation.forbids_cancel(self.peer(), spoken) {
            return (None, Verdict::Forbidden(rule));
        }
        if let Some(found) = self.judge_subscription(now, id, reason) {
            return found;
        }
        let peer_may =
            |dialect: &Dialect| dialect.cancellers == Cancellers::Both || self.peer() == crate::side::Side::Client;
        if let Some(key) = self.incoming.by_id(id)
            && let Some(request) = self.incoming.get(key)
        {
            let method = Some(request.method);
            if !peer_may(request.dialect) {
                return (method, Verdict::Forbidden(Rule::McpM01));
            }
            if let Some(rule) = request.uncancellable {
                return (method, Verdict::Forbidden(rule));
            }
            let cause = Cause::new(CauseCode::Caller);
            let cause = reason.map_or_else(|| cause.clone(), |reason| cause.clone().with_text(reason));
            return (method, self.stop_request(now, key, cause, super::stop::By::Peer));
        }
        if self.remembered.settled_as(id).is_some() {
            return (None, Verdict::Completed);
        }
        if !peer_may(spoken) {
            return (None, Verdict::Forbidden(Rule::McpM01));
        }
        if spoken.sticky && self.phase.is_open() {
            return (None, self.hold_cancel(now, id, reason));
        }
        (None, Verdict::Unknown)
    }

    /// The one cancel that names a request of ours: the server ends our subscription (MCP-M02, invariant 5).
    fn judge_subscription(
        &mut self,
        now: Instant,
        id: &RequestId,
        reason: Option<&str>,
    ) -> Option<(Option<Method>, Verdict)> {
        let ours = id.as_integer().filter(|id| self.outgoing.was_ours(*id))?;
        let is_server = self.peer() == crate::side::Side::Server;
        let Some(key) = self.outgoing.by_id(ours) else {
            // The empty result came first; the pages want both, in this order.
            let is_over = is_server && self.spoken().subscription.is_some();
            return is_over.then_some((None, Verdict::Completed));
        };
        let call = self.outgoing.get(key)?;
        let is_subscription = is_server && call.part == Part::Subscription;
        if !is_subscription && !self.config.has(crate::bug::SeededBug::CrossDirectionLookup) {
            return None;
        }
        self.note(5, !is_subscription);
        let method = Some(self.outgoing.get(key)?.method);
        Some((method, self.end_subscription(now, key, reason)))
    }

    /// A body that is not a message. The request that it is, or answers, is ended; otherwise the client gets one
    /// error, and the server's goes to the log (D36, D43).
    fn take_malformed(&mut self, now: Instant, body: &[u8], malformed: Malformed, batch: Option<Key>) {
        let (why, kind, id, code, text) = match malformed {
            Malformed::Invalid { reason, kind, id } => {
                (Rejected::Invalid(reason), kind, id, error_code::INVALID_REQUEST, reason.as_str())
            }
            Malformed::NotJson => {
                let Overlong { kind, id, .. } = framing::learn(body);
                let text = if core::str::from_utf8(body).is_ok() { "not JSON" } else { "not UTF-8" };
                (Rejected::NotJson, kind, id, error_code::PARSE_ERROR, text)
            }
        };
        self.refused(why, id.clone(), body, batch);
        match kind {
            MessageKind::Request => {
                // Under the id of a request in flight the error would end that one.
                let name = id.filter(|id| !self.is_in_flight(id));
                match name {
                    Some(id) => self.refuse(&id, code, text, batch),
                    None => self.refuse_nameless(code, text, batch),
                }
            }
            MessageKind::Response | MessageKind::Unknown if id.as_ref().is_some_and(|id| self.is_awaited(id)) => {
                if let Some(id) = id {
                    self.fail_call(now, &id, why);
                }
            }
            // A bad notification or response must not be answered, where it is certain that it was one.
            MessageKind::Notification | MessageKind::Response if code != error_code::PARSE_ERROR => {}
            MessageKind::Notification | MessageKind::Response | MessageKind::Batch | MessageKind::Unknown => {
                self.refuse_nameless(code, text, batch);
            }
        }
    }

    /// Bytes that are no message at all.
    pub(super) fn take_garbage(&mut self, bytes: &[u8]) {
        self.counters.received += 1;
        self.refuse_garbage(bytes, "not a message");
    }

    pub(super) fn refuse_garbage(&mut self, bytes: &[u8], text: &str) {
        self.refused(Rejected::NotJson, None, bytes, None);
        self.refuse_nameless(error_code::PARSE_ERROR, text, None);
    }

    /// A message over the limit has ended; the one request it was, or answers, hears of it (D36).
    pub(super) fn take_overlong(&mut self, message: &Overlong, now: Instant) {
        let text = format!("the message has {} bytes; the limit is {}", message.len, self.config.max_message);
        self.refused(Rejected::TooLarge, message.id.clone(), text.as_bytes(), None);
        match (message.kind, &message.id) {
            (MessageKind::Response, Some(id)) => self.fail_call(now, id, Rejected::TooLarge),
            // Under the id of a request in flight the error would end that one.
            (MessageKind::Request, Some(id)) if !self.is_in_flight(id) => {
                self.refuse(id, error_code::TOO_LARGE, &text, None);
            }
            (MessageKind::Request | MessageKind::Batch | MessageKind::Unknown, _) => {
                self.refuse_nameless(error_code::TOO_LARGE, &text, None);
            }
            (MessageKind::Response | MessageKind::Notification, _) => {}
        }
    }

    /// Whether a request of the peer with this id has still to be answered; one that was cancelled into silence has not.
    pub(super) fn is_in_flight(&self, id: &RequestId) -> bool {
        self.incoming.by_id(id).and_then(|key| self.incoming.get(key)).is_some_and(Incoming::is_live)
    }

    /// Answers a request that was not taken in.
    pub(super) fn refuse(&mut self, id: &RequestId, code: i32, text: &str, batch: Option<Key>) {
        let write = |out: &mut Vec<u8>| message::error(Some(id), code, text, None, out);
        match batch {
            Some(batch) => self.add_refusal(batch, write),
            None if self.phase.write_closed => {}
            None => {
                self.say(Tag::Owed, write);
            }
        }
    }

    /// Answers what has no usable id.
    fn refuse_nameless(&mut self, code: i32, text: &str, batch: Option<Key>) {
        let Some(id) = self.nameless() else { return };
        let write = |out: &mut Vec<u8>| message::error(id, code, text, None, out);
        match batch {
            Some(batch) => self.add_refusal(batch, write),
            None => {
                self.say(Tag::Owed, write);
            }
        }
    }

    /// The id of an error that answers nothing in particular, in the form that the dialect has for it. A client's own
    /// peer, the server, is sent none: it sends no requests that could be lost this way.
    pub(super) fn nameless(&self) -> Option<Option<&'static RequestId>> {
        if self.config.role == crate::side::Side::Client || self.phase.write_closed {
            return None;
        }
        match self.spoken().stray_error {
            StrayError::NullId => Some(Some(&RequestId::NULL)),
            StrayError::NoId => Some(None),
            StrayError::Invalid => None,
        }
    }

    pub(super) fn refused(&mut self, why: Rejected, id: Option<RequestId>, message: &[u8], batch: Option<Key>) {
        self.counters.refused += 1;
        if batch.is_some_and(|batch| !self.may_report(batch)) {
            return;
        }
        let excerpt = message[..message.len().min(EXCERPT)].into();
        self.tell(ConnectionEvent::Rejected { why, id, excerpt });
    }

    pub(super) fn violated(&mut self, rule: Rule, id: Option<RequestId>) {
        self.counters.violations.count(rule);
        self.tell(ConnectionEvent::Violation { rule, id });
    }
}
