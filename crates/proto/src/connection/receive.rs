//! Messages of the peer, as they arrive; those that are not acted on are reported, and answered where an answer is due
//! (D36).

use super::{
    Connection, ConnectionEvent, OutgoingKey, Payload, Settlement,
    batch::Batch,
    link::{Link, Tag},
};
use crate::{
    dialect::{ProgressForm, StrayError},
    error_code,
    frame::{self, Frame, Malformed, Mend, Named, Notification, Params, Piece, ResponseBody, ResponseId},
    framing::{self, Chunk, Leftover, Overlong},
    id::RequestId,
    json,
    kind::MessageKind,
    link::{LateKind, Rejected, Unanswered},
    message,
    rule::Rule,
    side::Side,
    slab::Key,
};

/// Bytes of a rejected message that are shown, at most.
const EXCERPT: usize = 256;

impl Connection {
    pub(super) fn receive_chunk(&mut self, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Frame(framed) => self.receive_body(framed.body()),
            Chunk::Overlong(message) => self.receive_overlong(&message),
            Chunk::Broken(broken) => self.receive_garbage(broken.raw),
        }
    }

    /// Receives the last bytes of an input that ended in the middle of something.
    pub(super) fn receive_leftover(&mut self, leftover: Leftover) {
        match leftover {
            // A last line without its line break is a message if it can be read as one: `printf '…' | server`.
            Leftover::Line(line) if frame::holds_message(&line) => self.receive_body(&line),
            Leftover::Line(bytes) | Leftover::Half(bytes) => {
                self.link.report_rejected(Rejected::Unfinished, None, &bytes, None);
            }
            Leftover::Overlong(message) => self.receive_overlong(&message),
        }
    }

    /// Receives one message, out of its framing.
    pub(super) fn receive_body(&mut self, body: &[u8]) {
        self.link.counters.received += 1;
        match frame::parse(body) {
            // A server's array may hold answers that callers wait for, whatever its revision.
            Ok(Frame::Batch(batch)) if self.link.dialect().batches || self.link.role() == Side::Client => {
                self.receive_batch(body, batch);
            }
            Ok(Frame::Batch(_)) => {
                self.link.report_rejected(Rejected::Batch, None, body, None);
                self.link.refuse(None, error_code::INVALID_REQUEST, "no batches in this protocol", None);
            }
            Ok(message) => self.receive_message(message, None),
            Err(malformed) => match frame::apart(body) {
                Some(pieces) => self.receive_apart(&pieces),
                None => self.receive_unreadable(body, malformed, None),
            },
        }
    }

    /// Receives what stood on one line or in one body, piece by piece.
    #[cold]
    fn receive_apart(&mut self, pieces: &[Piece<'_>]) {
        for piece in pieces {
            match piece {
                Piece::Noise(noise) => self.link.report_rejected(Rejected::NotJson, None, noise, None),
                // One piece holds no others, so this goes one level down at most.
                Piece::Message(message) => self.receive_body(message),
            }
        }
    }

    /// Receives the answer that a transport gives in place of the peer. A filter may have made another message of it.
    pub(super) fn receive_unanswered(&mut self, answer: &[u8], why: &Unanswered) {
        if let Ok(Frame::Response(response)) = frame::parse(answer)
            && let (Some(ResponseId::Exact(id)), ResponseBody::Error(_)) = (&response.id, &response.body)
        {
            let how = match why {
                Unanswered::Unreadable(why) => Settlement::Unreadable(*why),
                Unanswered::Failed(error) => Settlement::Transport(error.clone()),
            };
            if self.fail_call(id, how) {
                self.link.counters.received += 1;
                return;
            }
        }
        self.receive_body(answer);
    }

    /// Receives bytes that are not a message at all.
    pub(super) fn receive_garbage(&mut self, bytes: &[u8]) {
        self.link.counters.received += 1;
        self.link.refuse_garbage(bytes, "not a message");
    }

    /// Receives the end of a message over the limit.
    pub(super) fn receive_overlong(&mut self, message: &Overlong) {
        self.link.counters.received += 1;
        self.refuse_overlong(message);
    }

    fn receive_batch(&mut self, body: &[u8], batch: frame::Batch<'_>) {
        if !batch.has_message() {
            return self.link.refuse_garbage(body, "a batch without a JSON-RPC message");
        }
        // Open until every member was looked at, so that none ends the batch before the next.
        let key = self.link.batches.insert(Batch::new());
        for member in batch.members() {
            match frame::parse_member(member) {
                Ok(message) => self.receive_message(message, Some(key)),
                Err(malformed) => self.receive_unreadable(member, malformed, Some(key)),
            }
        }
        self.link.leave_batch(key);
    }

    /// Receives one message that is not a batch.
    fn receive_message(&mut self, message: Frame<'_>, batch: Option<Key>) {
        // A peer that should not have made an array is not sent one.
        let batch = batch.filter(|_| self.link.dialect().batches);
        match message {
            Frame::Request(request) => self.receive_request(request, batch),
            Frame::Notification(notification) => self.receive_notification(&notification),
            Frame::Response(response) => self.receive_response(&response),
            // Batches are taken apart before this; a nested one is malformed.
            Frame::Batch(_) => debug_assert!(false, "a batch within a batch was parsed"),
        }
    }

    fn receive_notification(&mut self, notification: &Notification<'_>) {
        let Notification { method, params } = notification;
        let dialect = self.link.dialect();
        if self.link.negotiation.is_cancel(dialect, method) {
            return self.receive_cancel(dialect, method, params.raw);
        }
        if let Some(form) = &dialect.progress
            && *method == form.method
            && self.receive_progress(form, params)
        {
            return;
        }
        match dialect.turn {
            Some(turn) if *method == turn.cancel => self.receive_turn_cancel(params.session_id),
            Some(turn) if *method == turn.update => self.receive_update(turn, params.raw),
            Some(_) | None => {}
        }
        self.link.emit(ConnectionEvent::Notification(Payload::new(method, params)));
        // What it ends wakes up after its handlers (D11).
        if let Some(turn) = dialect.turn.filter(|turn| *method == turn.update) {
            self.receive_state(turn, params.session_id, params.raw);
        }
    }

    /// Receives progress. `false` if it is not for one of our requests, in flight or over.
    fn receive_progress(&mut self, form: &ProgressForm, params: &Params<'_>) -> bool {
        let Self { outgoing, link, .. } = self;
        let Some(raw) = params.raw else { return false };
        let Some(token) = json::member(raw, form.token).and_then(RequestId::from_json) else { return false };
        if let Some(key) = outgoing.by_token(&token, |_| true) {
            if let Some(call) = outgoing.get_mut(key)
                && let Some(limit) = call.clocks.limit().filter(|_| call.is_reset)
            {
                call.clocks.response = link.their_questions.reading(link.now) + limit; // MCP-T04; the timer notices when it fires
            }
            link.emit(ConnectionEvent::Progress { request: OutgoingKey(key), params: raw.into() });
            return true;
        }
        let is_spent = link.spent_tokens.settled_as(&token).is_some();
        if is_spent {
            link.report_late(token, LateKind::Progress);
        }
        is_spent
    }

    /// Receives a message that cannot be read as it is: mended if it can be (D43).
    fn receive_unreadable(&mut self, body: &[u8], malformed: Malformed, batch: Option<Key>) {
        match frame::mend(body, self.link.config.max_message) {
            Mend::Mended(mended) => {
                if let Ok(message) = frame::parse_member(&mended) {
                    self.receive_message(message, batch);
                }
            }
            Mend::TooLong(len) => self.refuse_overlong(&Overlong { len, ..framing::learn(body) }),
            Mend::No => self.refuse_malformed(body, malformed, batch),
        }
    }

    fn refuse_malformed(&mut self, body: &[u8], malformed: Malformed, batch: Option<Key>) {
        let (why, kind, id, code, text) = match malformed {
            Malformed::Invalid { reason, kind, id } => {
                (Rejected::Invalid(reason), kind, id, error_code::INVALID_REQUEST, reason.as_str())
            }
            Malformed::NotJson => {
                let Named { kind, id, is_printed } = frame::name(body);
                // A server that prints what it was asked has asked nothing.
                if is_printed && kind == MessageKind::Request && self.link.role() == Side::Client {
                    return self.link.report_rejected(Rejected::NotJson, None, body, batch);
                }
                let text = if core::str::from_utf8(body).is_ok() { "not JSON" } else { "not UTF-8" };
                (Rejected::NotJson, kind, id, error_code::PARSE_ERROR, text)
            }
        };
        self.link.report_rejected(why, id.clone(), body, batch);
        self.end_unusable(kind, id.as_ref(), why, code, text, batch);
    }

    fn refuse_overlong(&mut self, message: &Overlong) {
        let text = format!("the message has {} bytes; the limit is {}", message.len, self.link.config.max_message);
        self.link.report_rejected(Rejected::TooLarge, message.id.clone(), text.as_bytes(), None);
        // Only in what was plainly a request or a response does an id name one.
        let id = message.id.as_ref().filter(|_| message.kind != MessageKind::Unknown);
        self.end_unusable(message.kind, id, Rejected::TooLarge, error_code::TOO_LARGE, &text, None);
    }

    /// Ends the request that an unusable message is, or answers. Otherwise a client is sent one error; a server's messages
    /// are only reported (D36, D43).
    fn end_unusable(
        &mut self,
        kind: MessageKind,
        id: Option<&RequestId>,
        why: Rejected,
        code: i32,
        text: &str,
        batch: Option<Key>,
    ) {
        let may_answer = matches!(kind, MessageKind::Response | MessageKind::Unknown);
        if may_answer && id.is_some_and(|id| self.fail_call(id, Settlement::Unreadable(why))) {
            return;
        }
        // A bad notification or response must not be answered, where it is certain that it was one.
        let is_certain = code != error_code::PARSE_ERROR;
        if !(is_certain && matches!(kind, MessageKind::Notification | MessageKind::Response)) {
            // Under the id of a request in flight the error would end that one.
            let id = id.filter(|id| kind == MessageKind::Request && !self.is_in_flight(id));
            self.link.refuse(id, code, text, batch);
        }
    }

    /// Whether a request of the peer with this id is still to be answered; one that was cancelled into silence is not.
    pub(super) fn is_in_flight(&self, id: &RequestId) -> bool {
        self.incoming.by_id(id).and_then(|key| self.incoming.get(key)).is_some_and(|request| request.response.is_live())
    }
}

impl Link {
    /// Reports a message that goes nowhere; of a member of a batch only while it has few of them.
    pub(super) fn report_rejected(&mut self, why: Rejected, id: Option<RequestId>, message: &[u8], batch: Option<Key>) {
        self.counters.refused += 1;
        if batch.and_then(|batch| self.batches.get_mut(batch)).is_none_or(Batch::may_report) {
            let excerpt = message[..message.len().min(EXCERPT)].into();
            self.emit(ConnectionEvent::Rejected { why, id, excerpt });
        }
    }

    pub(super) fn report_violation(&mut self, rule: Rule, id: Option<RequestId>) {
        *self.counters.violations.entry(rule).or_default() += 1;
        self.emit(ConnectionEvent::Violation { rule, id });
    }

    /// Answers a request that is not taken in, or what has no usable id.
    pub(super) fn refuse(&mut self, id: Option<&RequestId>, code: i32, text: &str, batch: Option<Key>) {
        let named = id.filter(|id| self.dialect().null_ids || !id.is_null());
        let Some(id) = named.map(Some).or_else(|| self.nameless_id()) else { return };
        let write = |out: &mut Vec<u8>| message::error(id, code, text, None, out);
        match batch {
            Some(batch) => self.refuse_member(batch, write),
            None if self.phase.write_closed => {}
            None => _ = self.queue(Tag::Caused, write),
        }
    }

    /// Reports and answers bytes that are not a message at all.
    pub(super) fn refuse_garbage(&mut self, bytes: &[u8], text: &str) {
        self.report_rejected(Rejected::NotJson, None, bytes, None);
        self.refuse(None, error_code::PARSE_ERROR, text, None);
    }

    /// Adds a refusal to a batch, while it may have more of them.
    fn refuse_member(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(batch) = self.batches.get_mut(key).filter(|batch| batch.refusals > 0) else { return };
        let added = batch.add(write);
        batch.refusals = batch.refusals.saturating_sub(added);
        let was_last = batch.refusals == 0;
        self.backlog += added;
        if was_last && let Some(id) = self.nameless_id() {
            let text = "too many refusals for one batch: what else of it is refused is not answered";
            self.add_to_batch(key, |out| message::error(id, error_code::INVALID_REQUEST, text, None, out));
        }
    }

    /// The id of an error that answers nothing in particular, in the form that the dialect has for it. A client's own
    /// peer, the server, is sent none: it sends no requests that could be lost this way.
    fn nameless_id(&self) -> Option<Option<&'static RequestId>> {
        if self.role() == Side::Client || self.phase.write_closed {
            return None;
        }
        match self.dialect().stray_error {
            StrayError::NullId => Some(Some(&RequestId::NULL)),
            StrayError::NoId => Some(None),
            StrayError::Invalid => None,
        }
    }
}
