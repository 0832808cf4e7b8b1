//! What the local client says: requests, cancels, notifications, answers.

use bytes::Bytes;
use http::HeaderValue;
use rescind_proto::{
    dialect::{Dialect, negotiation::Negotiation},
    error_code,
    frame::{self, Batch, Frame, Malformed, Notification, Request},
    framing::Framing,
    id::RequestId,
    json,
    kind::MessageKind,
    link::Departure,
    side::Side,
    time::Instant,
};

use super::{
    Held, HttpClient, StreamKey,
    failure::Failure,
    fetch::{Fetch, OneWay, OneWayKind, Phase},
    headers,
    session::{INITIALIZED, SessionState},
    stream::{CallKind, CallState, Purpose, Stage, Stream, Waiting},
};

impl HttpClient {
    /// Takes in a message of the local client, with or without a line break.
    pub fn handle_message(&mut self, now: Instant, message: &[u8]) {
        if self.is_closing {
            return;
        }
        let message = message.trim_ascii();
        match frame::parse(message) {
            Ok(Frame::Batch(batch)) => self.handle_batch(now, message, batch),
            Ok(frame) => self.handle_single(now, message, &frame),
            Err(malformed) => self.handle_malformed(&malformed),
        }
    }

    fn handle_single(&mut self, now: Instant, message: &[u8], frame: &Frame<'_>) {
        match frame {
            Frame::Request(request) => self.handle_request(now, message, request),
            Frame::Notification(notification) => self.handle_notification(now, message, notification),
            Frame::Response(_) => self.handle_reply(message),
            Frame::Batch(_) => {}
        }
    }

    fn handle_malformed(&mut self, malformed: &Malformed) {
        self.dropped("", "the local client sent what is no message");
        if let Malformed::Invalid { reason, kind: MessageKind::Request | MessageKind::Unknown, id: Some(id) } =
            malformed
            && !self.calls.contains_key(id)
        {
            let text = format!("not a request: {}", reason.as_str());
            let failure = Failure::of_caller(error_code::INVALID_REQUEST, text);
            self.refuse_call(id, &failure);
        }
    }

    fn handle_request(&mut self, now: Instant, message: &[u8], request: &Request<'_>) {
        if let Err(failure) = self.check_room(std::slice::from_ref(&request.id), message.len()) {
            return self.refuse_call(&request.id, &failure);
        }
        let dialect = self.negotiation.of_request(Side::Client, Framing::Line, Negotiation::named(request.params.meta));
        let is_stateless = dialect.stateless;
        if is_stateless && HeaderValue::from_str(&request.method).is_err() {
            let failure = Failure::of_caller(error_code::INVALID_REQUEST, "a header cannot hold the method's name");
            return self.refuse_call(&request.id, &failure);
        }
        let is_handshake = dialect.handshake == Some(&*request.method);
        let body = Bytes::copy_from_slice(message);
        if is_handshake {
            self.begin_handshake(now, &body, request.params.raw);
        }
        let session = (!is_stateless).then_some(self.session.generation);
        let mut stream = Stream::new(Purpose::Calls, dialect, session, body);
        let kind = match &*request.method {
            _ if is_handshake => CallKind::Handshake,
            "tools/list" => CallKind::ListTools,
            "tools/call" => CallKind::CallTool,
            method if dialect.subscription.is_some_and(|form| form.method == method) => CallKind::Subscription,
            _ => CallKind::Plain,
        };
        stream.waiting.push(Waiting::new(request.id.clone(), kind));
        let key = self.insert_stream(stream);
        if is_stateless {
            self.stateless = request.params.meta.and_then(headers::version_in);
            self.start_post(key);
        } else if is_handshake {
            self.session.state = SessionState::Opening(key);
            self.start_post(key);
        } else {
            self.send_in_session(now, key);
        }
    }

    /// Keeps a stream, and its requests as in flight.
    pub(crate) fn insert_stream(&mut self, mut stream: Stream) -> StreamKey {
        stream.credentials = self.credentials.clone();
        let key = StreamKey(self.allocate_key());
        if stream.purpose == Purpose::Calls {
            self.calls.extend(stream.waiting.iter().map(|waiting| (waiting.id.clone(), key)));
        }
        self.unsent += stream.unsent;
        self.streams.insert(key, stream);
        key
    }

    /// Sends a stream's requests now, or as soon as the session takes messages.
    pub(crate) fn send_in_session(&mut self, now: Instant, key: StreamKey) {
        if matches!(self.session.state, SessionState::Lost) {
            self.reopen(now);
        }
        if self.is_gated() {
            self.hold(key);
        } else {
            self.start_post(key);
        }
    }

    /// Lets a stream's requests wait until the session takes messages.
    pub(crate) fn hold(&mut self, key: StreamKey) {
        let place = self.allocate_key();
        self.held.insert(place, Held::Stream(key));
        self.set_stage(key, Stage::Held(place));
    }

    /// Whether these requests may be sent.
    fn check_room(&self, ids: &[RequestId], bytes: usize) -> Result<(), Failure> {
        if ids.iter().any(RequestId::is_null) {
            return Err(Failure::of_caller(error_code::INVALID_REQUEST, "a request id must not be null"));
        }
        if ids.iter().any(|id| self.calls.contains_key(id)) {
            return Err(Failure::of_caller(error_code::INVALID_REQUEST, "another request in flight has this id"));
        }
        let overloaded = |what| Err(Failure::of_caller(error_code::OVERLOADED, what));
        if self.calls.len() + ids.len() > self.config.max_in_flight {
            return overloaded("too many requests in flight; this one was not started");
        }
        if self.cancels >= self.config.max_in_flight {
            return overloaded("the server takes in no cancels now; this request was not started");
        }
        if self.unsent + bytes > self.config.max_unsent && self.unsent > 0 {
            return overloaded("the server takes in nothing now; this request was not started");
        }
        Ok(())
    }

    fn handle_notification(&mut self, now: Instant, message: &[u8], notification: &Notification<'_>) {
        let dialect =
            self.negotiation.of_request(Side::Client, Framing::Line, Negotiation::named(notification.params.meta));
        if notification.method == dialect.cancel.method {
            let raw = notification.params.raw.and_then(|params| json::member(params, dialect.cancel.id));
            return match raw.and_then(RequestId::from_json) {
                Some(id) => self.handle_cancel(now, &id, message, &notification.method),
                None => self.dropped(&notification.method, "it names no request"),
            };
        }
        let is_stateless =
            dialect.stateless || (matches!(self.session.state, SessionState::None) && self.stateless.is_some());
        let version = notification.params.meta.filter(|_| is_stateless).and_then(headers::version_in);
        let kind = match &*notification.method {
            INITIALIZED if !is_stateless => OneWayKind::Initialized,
            _ => OneWayKind::Other,
        };
        let body = Bytes::copy_from_slice(message);
        let stateless = version.or_else(|| self.stateless.clone().filter(|_| is_stateless));
        self.send_one_way(now, OneWay { stateless, ..self.one_way(kind, body, &notification.method) });
    }

    /// The local client answers a question of the server.
    fn handle_reply(&mut self, message: &[u8]) {
        match self.session.state {
            // What asked is gone.
            SessionState::Reopening(_) | SessionState::Lost => self.dropped("", "the session that asked has ended"),
            SessionState::None if self.stateless.is_some() => {
                self.dropped("", "nobody may have asked in a revision without sessions");
            }
            // Its requests are not delayed for that: the server is not read meanwhile.
            _ if self.owed.bytes + message.len() > self.config.max_unsent && self.owed.answers > 0 => {
                self.dropped("", "the server takes in nothing now");
            }
            SessionState::None | SessionState::Opening(_) | SessionState::Greeting(_) | SessionState::Open => {
                let body = Bytes::copy_from_slice(message);
                self.start_one_way(self.one_way(OneWayKind::Answer, body, ""));
            }
        }
    }

    /// The local client cancels a request of its own.
    fn handle_cancel(&mut self, now: Instant, id: &RequestId, message: &[u8], method: &str) {
        let Some(&key) = self.calls.get(id) else {
            return self.dropped(method, "it names no request in flight");
        };
        let Some(stream) = self.streams.get(&key) else {
            // Its answer waits to be taken, and nothing else is left of it.
            return self.withdraw_answer(id, key);
        };
        let Some(at) = stream.position(id) else { return };
        match stream.waiting[at].state {
            CallState::InFlight => {}
            CallState::Answered { .. } => return self.withdraw_answer(id, key),
            CallState::Cancelled { .. } => return,
        }
        if let CallKind::Handshake = stream.waiting[at].kind {
            return self.dropped(method, "the handshake is never cancelled");
        }
        let is_out = match &stream.stage {
            Stage::Posting(fetch) => self.fetches.get(fetch).is_some_and(Fetch::may_be_processed),
            Stage::Reading(_) | Stage::Away | Stage::Asking(_) => true,
            Stage::Held(_) | Stage::Probing(_) | Stage::Surveying(..) => false,
        };
        if !is_out {
            return self.withdraw_call(now, key, at);
        }
        if stream.is_stateless() {
            // Closing the stream is the cancel (MCP-H03).
            self.events.push_back(Departure::Cancel(id.clone()).into());
            self.forget_stream(key);
            return self.inbox.withdraw(key);
        }
        self.calls.remove(id);
        let written = match &stream.stage {
            Stage::Posting(fetch) => self.fetches.get(fetch).and_then(|fetch| match fetch.phase {
                Phase::Written(at) => Some(at + self.config.cancel_after),
                Phase::Waiting | Phase::Queued | Phase::Handed | Phase::SigningIn => None,
            }),
            Stage::Held(_)
            | Stage::Reading(_)
            | Stage::Away
            | Stage::Asking(_)
            | Stage::Probing(_)
            | Stage::Surveying(..) => None,
        };
        let cancel = self.start_cancel(key, id, message, method, written.filter(|due| *due > now));
        let until = now + self.config.cancel_patience;
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.waiting[at].state = CallState::Cancelled { cancel: Some(cancel), until };
        }
        self.settle(key);
    }

    /// The cancel of a request whose answer was not taken yet: outside a session nothing is delivered after it.
    fn withdraw_answer(&mut self, id: &RequestId, key: StreamKey) {
        if self.inbox.withdraws(key) {
            self.events.push_back(Departure::Withdrawn(id.clone()).into());
            self.inbox.withdraw(key);
            self.calls.remove(id);
        }
    }

    /// Takes back a request that the server has not got: it is as if it had never been made.
    fn withdraw_call(&mut self, now: Instant, key: StreamKey, at: usize) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        // If it had left, the server has refused it.
        stream.waiting[at].has_left = false;
        if !matches!(frame::parse(&stream.body), Ok(Frame::Batch(_))) {
            self.forget_stream(key);
            return self.inbox.withdraw(key);
        }
        let id = stream.waiting[at].id.clone();
        self.calls.remove(&id);
        self.leave_out(key, &id);
        let Some(stream) = self.streams.get(&key) else { return };
        if let Stage::Posting(fetch) = stream.stage
            && self.fetches.get(&fetch).is_some_and(Fetch::is_handed)
        {
            // What the driver has is not what is to be sent.
            self.abort(fetch);
            self.send_in_session(now, key);
        }
    }

    /// Takes a request out of a batch that is still to be sent.
    pub(crate) fn leave_out(&mut self, key: StreamKey, id: &RequestId) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let Ok(Frame::Batch(batch)) = frame::parse(&stream.body) else { return };
        let is_named =
            |member: &&[u8]| matches!(frame::parse_member(member), Ok(Frame::Request(request)) if request.id == *id);
        let rest: Vec<&[u8]> = batch.members().filter(|member| !is_named(member)).collect();
        let (body, is_empty) = (array(&rest), rest.is_empty());
        self.unsent = self.unsent + body.len() - stream.unsent;
        (stream.unsent, stream.body) = (body.len(), body);
        let left_out = stream.position(id).map(|at| stream.waiting.remove(at));
        if let Some(Waiting { id, has_left: false, .. }) = left_out {
            self.events.push_back(Departure::Withdrawn(id).into());
        }
        if is_empty {
            self.forget_stream(key);
        }
    }

    /// A batch passes as one where the revision has them (MCP-B01). A cancel in it is one like others.
    fn handle_batch(&mut self, now: Instant, message: &[u8], batch: Batch<'_>) {
        let dialect = self.dialect();
        let members: Vec<(&[u8], Result<Frame<'_>, Malformed>)> =
            batch.members().map(|member| (member, frame::parse_member(member))).collect();
        if !dialect.batches || members.iter().any(|(_, member)| names_revision(member)) {
            for (member, frame) in members {
                match frame {
                    Ok(frame) => self.handle_single(now, member, &frame),
                    Err(malformed) => self.handle_malformed(&malformed),
                }
            }
            return;
        }
        let cancelled: Vec<RequestId> = members.iter().filter_map(|(_, member)| named(member, dialect)).collect();
        let mut stream = Stream::new(Purpose::Calls, dialect, Some(self.session.generation), Bytes::new());
        let (mut passed, mut cancels) = (Vec::new(), Vec::new());
        for (member, frame) in &members {
            match frame {
                Ok(Frame::Request(request)) => {
                    if cancelled.contains(&request.id) && !self.calls.contains_key(&request.id) {
                        self.events.push_back(Departure::Withdrawn(request.id.clone()).into());
                        continue;
                    }
                    if let Err(failure) = self.check_room(std::slice::from_ref(&request.id), message.len()) {
                        self.refuse_call(&request.id, &failure);
                        continue;
                    }
                    if stream.position(&request.id).is_none() {
                        stream.waiting.push(Waiting::new(request.id.clone(), CallKind::Plain));
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
        let body = array(&passed);
        if !stream.waiting.is_empty() {
            (stream.unsent, stream.body) = (body.len(), body);
            let key = self.insert_stream(stream);
            self.send_in_session(now, key);
        } else if !passed.is_empty() {
            self.send_one_way(now, self.one_way(OneWayKind::Other, body, "a batch"));
        }
        for (member, notification) in cancels {
            if named_request(notification, dialect).is_some_and(|id| self.calls.contains_key(&id)) {
                self.handle_notification(now, member, notification);
            }
        }
    }
}

/// An array of messages.
fn array(members: &[&[u8]]) -> Bytes {
    let mut body = vec![b'['];
    body.extend_from_slice(&members.join(&b','));
    body.push(b']');
    body.into()
}

fn names_revision(member: &Result<Frame<'_>, Malformed>) -> bool {
    matches!(member, Ok(Frame::Request(request)) if request.params.meta.and_then(headers::version_in).is_some())
}

/// The request that a member of a batch cancels.
fn named(member: &Result<Frame<'_>, Malformed>, dialect: &Dialect) -> Option<RequestId> {
    let Ok(Frame::Notification(notification)) = member else { return None };
    named_request(notification, dialect)
}

fn named_request(notification: &Notification<'_>, dialect: &Dialect) -> Option<RequestId> {
    if notification.method != dialect.cancel.method {
        return None;
    }
    RequestId::from_json(json::member(notification.params.raw?, dialect.cancel.id)?)
}
