//! What the local client says: requests, cancels, notifications, answers.

use bytes::Bytes;
use http::HeaderValue;
use rescind_proto::{
    dialect::Dialect,
    error_code,
    frame::{self, Batch, Frame, Malformed, Notification, Request},
    id::RequestId,
    json,
    kind::MessageKind,
    link::Departure,
    time::Instant,
};

use super::{
    ErrandKey, HttpClient,
    errand::{CallKind, CallState, Errand, OneWayKind, Role, Waiting},
    failure::Failure,
    fetch::{Aim, Fetch, Phase},
    headers, message,
    session::{INITIALIZED, SessionState},
};

/// A member of a batch as bytes, and what it is.
type Member<'a> = (&'a [u8], Result<Frame<'a>, Malformed>);

impl HttpClient {
    /// Takes in a message of the local client, with or without a line break.
    pub fn handle_message(&mut self, now: Instant, message: &[u8]) {
        if self.is_closing {
            return;
        }
        let message = message.trim_ascii();
        match frame::parse(message) {
            Ok(Frame::Batch(batch)) => self.handle_batch(now, message, &batch),
            single => self.handle_single(now, message, &single),
        }
    }

    fn handle_single(&mut self, now: Instant, message: &[u8], frame: &Result<Frame<'_>, Malformed>) {
        match frame {
            Ok(Frame::Request(request)) => self.handle_request(now, message, request),
            Ok(Frame::Notification(notification)) => self.handle_notification(now, message, notification),
            Ok(Frame::Response(_)) => self.handle_reply(message),
            Ok(Frame::Batch(_)) => {}
            Err(malformed) => self.handle_malformed(malformed),
        }
    }

    fn handle_malformed(&mut self, malformed: &Malformed) {
        self.dropped("", "the local client sent what is no message");
        if let Malformed::Invalid { reason, kind: MessageKind::Request | MessageKind::Unknown, id: Some(id) } =
            malformed
            && !self.errands.calls.contains_key(id)
        {
            let text = format!("not a request: {}", reason.as_str());
            self.refuse_call(id, &Failure::of_caller(error_code::INVALID_REQUEST, text));
        }
    }

    fn handle_request(&mut self, now: Instant, message: &[u8], request: &Request<'_>) {
        let dialect = self.session.dialect_of(request.params.meta);
        if let Err(failure) = self.check_room(&request.id, message.len()) {
            return self.refuse_call(&request.id, &failure);
        }
        if dialect.stateless && HeaderValue::from_str(&request.method).is_err() {
            let failure = Failure::of_caller(error_code::INVALID_REQUEST, "a header cannot hold the method's name");
            return self.refuse_call(&request.id, &failure);
        }
        let is_handshake = dialect.handshake == Some(&*request.method);
        let body = Bytes::copy_from_slice(message);
        if is_handshake {
            self.begin_handshake(now, &body, request.params.raw);
        }
        let kind = match &*request.method {
            _ if is_handshake => CallKind::Handshake,
            "tools/list" => CallKind::ListTools,
            "tools/call" => CallKind::CallTool,
            method if dialect.subscription.is_some_and(|form| form.method == method) => CallKind::Subscription,
            _ => CallKind::Plain,
        };
        let mut errand = Errand { dialect, ..self.errand(Role::Calls, body) };
        errand.session = errand.session.filter(|_| !dialect.stateless);
        errand.waiting.push(Waiting::new(request.id.clone(), kind));
        let key = self.errands.insert(errand);
        if dialect.stateless {
            self.stateless = request.params.meta.and_then(headers::version_in);
        } else if is_handshake {
            self.session.state = SessionState::Opening(key);
            return self.start(key);
        }
        self.send(now, key);
    }

    /// Whether a request may be sent.
    fn check_room(&self, id: &RequestId, bytes: usize) -> Result<(), Failure> {
        let refused = |code, what| Err(Failure::of_caller(code, what));
        let most = self.config.max_in_flight;
        if id.is_null() {
            refused(error_code::INVALID_REQUEST, "a request id must not be null")
        } else if self.errands.calls.contains_key(id) {
            refused(error_code::INVALID_REQUEST, "another request in flight has this id")
        } else if self.errands.calls.len() >= most {
            refused(error_code::OVERLOADED, "too many requests in flight; this one was not started")
        } else if self.errands.backlog.cancels >= most {
            refused(error_code::OVERLOADED, "the server takes in no cancels now; this request was not started")
        } else if !self.errands.backlog.takes(bytes, self.config.max_unsent) {
            refused(error_code::OVERLOADED, "the server takes in nothing now; this request was not started")
        } else {
            Ok(())
        }
    }

    /// Answers a request that is not taken in, and so never leaves.
    fn refuse_call(&mut self, id: &RequestId, failure: &Failure) {
        // By its id it could be taken for the one in flight.
        if !self.errands.calls.contains_key(id) {
            self.errands.events.push_back(Departure::Withdrawn(id.clone()).into());
        }
        self.inbox.push_failure(failure, id, None, None);
    }

    fn handle_notification(&mut self, now: Instant, message: &[u8], notification: &Notification<'_>) {
        let dialect = self.session.dialect_of(notification.params.meta);
        let method = &*notification.method;
        if method == dialect.cancel.method {
            return match named(notification, dialect) {
                Some(id) => self.handle_cancel(now, &id, message, method),
                None => self.dropped(method, "it names no request"),
            };
        }
        let is_stateless = dialect.stateless || self.session.state == SessionState::None && self.stateless.is_some();
        let version = notification.params.meta.and_then(headers::version_in).or_else(|| self.stateless.clone());
        let stateless = version.filter(|_| is_stateless);
        let is_initialized = method == INITIALIZED && !is_stateless;
        let kind = if is_initialized { OneWayKind::Initialized } else { OneWayKind::Other };
        let errand = self.one_way(kind, Bytes::copy_from_slice(message), method, stateless);
        self.send_one_way(now, errand);
    }

    /// The local client answers a question of the server.
    fn handle_reply(&mut self, message: &[u8]) {
        let backlog = &self.errands.backlog;
        match self.session.state {
            // What asked is gone.
            SessionState::Reopening(_) | SessionState::Lost => self.dropped("", "the session that asked has ended"),
            SessionState::None if self.stateless.is_some() => {
                self.dropped("", "nobody may have asked in a revision without sessions");
            }
            // Its requests are not delayed for that: the server is not read meanwhile.
            _ if backlog.answer_bytes + message.len() > self.config.max_unsent && backlog.answers > 0 => {
                self.dropped("", "the server takes in nothing now");
            }
            SessionState::None | SessionState::Opening(_) | SessionState::Greeting(_) | SessionState::Open => {
                self.answer(Bytes::copy_from_slice(message));
            }
        }
    }

    /// Sends an answer to a question of the server.
    pub(crate) fn answer(&mut self, body: Bytes) {
        let answer = self.errands.insert(self.one_way(OneWayKind::Answer, body, "", None));
        self.start(answer);
    }

    /// The local client cancels a request of its own.
    fn handle_cancel(&mut self, now: Instant, id: &RequestId, message: &[u8], method: &str) {
        let Some(&key) = self.errands.calls.get(id) else {
            return self.dropped(method, "it names no request in flight");
        };
        let found = self.errands.get(key).and_then(|errand| Some((errand, errand.position(id)?)));
        let is_answered = |errand: &Errand, at: usize| matches!(errand.waiting[at].state, CallState::Answered { .. });
        let Some((errand, at)) = found.filter(|(errand, at)| !is_answered(errand, *at)) else {
            // Its answer waits to be taken, and outside a session nothing is delivered after a cancel.
            if self.inbox.withdraws(key) {
                self.errands.events.push_back(Departure::Withdrawn(id.clone()).into());
                self.inbox.withdraw(key);
                self.errands.calls.remove(id);
            }
            return;
        };
        if let CallKind::Handshake = errand.waiting[at].kind {
            return self.dropped(method, "the handshake is never cancelled");
        }
        if !errand.is_out() {
            return self.withdraw_call(now, key, at);
        }
        if errand.is_stateless() {
            // Closing the stream is the cancel (MCP-H03).
            self.errands.events.push_back(Departure::Cancel(id.clone()).into());
            self.errands.forget(key);
            return self.inbox.withdraw(key);
        }
        let due = match errand.fetch() {
            Some(&Fetch { phase: Phase::Written(at), .. }) if errand.is_posting() => {
                Some(at + self.config.cancel_after)
            }
            Some(_) | None => None,
        };
        self.errands.calls.remove(id);
        let kind = OneWayKind::Cancel { of: key, id: id.clone(), has_left: false };
        let cancel = self.errands.insert(self.one_way(kind, Bytes::copy_from_slice(message), method, None));
        match due.filter(|due| *due > now) {
            Some(due) => self.errands.arm(cancel, Some(due)),
            None => self.start(cancel),
        }
        let until = now + self.config.cancel_patience;
        if let Some(errand) = self.errands.get_mut(key) {
            errand.waiting[at].state = CallState::Cancelled { cancel: Some(cancel), until };
        }
        self.errands.settle(key);
    }

    /// Takes back a request that the server has not got: it is as if it had never been made.
    fn withdraw_call(&mut self, now: Instant, key: ErrandKey, at: usize) {
        let Some(errand) = self.errands.get_mut(key) else { return };
        // If it had left, the server has refused it.
        errand.waiting[at].has_left = false;
        if !message::is_batch(&errand.body) {
            self.errands.forget(key);
            return self.inbox.withdraw(key);
        }
        let id = errand.waiting[at].id.clone();
        self.errands.calls.remove(&id);
        self.errands.leave_out(key, &id);
        let fetch = self.errands.get(key).and_then(Errand::fetch);
        if fetch.is_some_and(|fetch| matches!(fetch.aim, Aim::Send) && fetch.is_handed()) {
            // What the driver has is not what is to be sent.
            self.errands.abort(key);
            self.send(now, key);
        }
    }

    /// A batch passes as one where the revision has them (MCP-B01). A cancel in it is one like others.
    fn handle_batch(&mut self, now: Instant, message: &[u8], batch: &Batch<'_>) {
        let dialect = self.session.dialect();
        let members = batch.members().map(|member| (member, frame::parse_member(member))).collect::<Vec<Member<'_>>>();
        if !dialect.batches || members.iter().any(names_revision) {
            for (member, frame) in &members {
                self.handle_single(now, member, frame);
            }
            return;
        }
        let cancel = |(_, frame): &Member<'_>| match frame {
            Ok(Frame::Notification(notification)) => named(notification, dialect),
            Ok(Frame::Request(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => None,
        };
        let cancelled: Vec<RequestId> = members.iter().filter_map(cancel).collect();
        let (mut waiting, mut passed, mut cancels) = (Vec::<Waiting>::new(), Vec::new(), Vec::new());
        for (member, frame) in &members {
            match frame {
                Ok(Frame::Request(request)) => {
                    if cancelled.contains(&request.id) && !self.errands.calls.contains_key(&request.id) {
                        self.errands.events.push_back(Departure::Withdrawn(request.id.clone()).into());
                    } else if let Err(failure) = self.check_room(&request.id, message.len()) {
                        self.refuse_call(&request.id, &failure);
                    } else if waiting.iter().all(|waiting| waiting.id != request.id) {
                        waiting.push(Waiting::new(request.id.clone(), CallKind::Plain));
                        passed.push(*member);
                    }
                }
                Ok(Frame::Notification(notification)) if notification.method == dialect.cancel.method => {
                    cancels.push((*member, notification));
                }
                Ok(_) => passed.push(*member),
                Err(malformed) => self.handle_malformed(malformed),
            }
        }
        let body = message::array(&passed);
        if !waiting.is_empty() {
            let key = self.errands.insert(Errand { waiting, ..self.errand(Role::Calls, body) });
            self.send(now, key);
        } else if !passed.is_empty() {
            self.send_one_way(now, self.one_way(OneWayKind::Other, body, "a batch", None));
        }
        for (member, notification) in cancels {
            if named(notification, dialect).is_some_and(|id| self.errands.calls.contains_key(&id)) {
                self.handle_notification(now, member, notification);
            }
        }
    }
}

fn names_revision((_, member): &Member<'_>) -> bool {
    matches!(member, Ok(Frame::Request(request)) if request.params.meta.and_then(headers::version_in).is_some())
}

/// The request that a notification cancels.
fn named(notification: &Notification<'_>, dialect: &Dialect) -> Option<RequestId> {
    if notification.method != dialect.cancel.method {
        return None;
    }
    RequestId::from_json(json::member(notification.params.raw?, dialect.cancel.id)?)
}
