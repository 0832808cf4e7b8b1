//! What the server says: answers, notifications, questions.

use rescind_proto::{
    error_code,
    frame::{self, Frame, Mend, Named, Notification, Piece, Response, ResponseBody, ResponseId},
    framing::{self, Overlong},
    id::RequestId,
    json,
    kind::MessageKind,
    link::{Departure, Rejected},
    message as wire,
    time::Instant,
};

use super::{
    HttpClient, HttpClientNotice, StreamKey,
    failure::Failure,
    fetch::{OneWayKind, Phase},
    inbox::Answered,
    message,
    stream::{CallKind, CallState, Purpose, Stage},
    words,
};

/// The first message of a subscription.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// How a message is delivered.
struct Delivery {
    /// What is delivered in its place.
    replaced: Option<Vec<u8>>,
    /// The stream whose end withdraws it.
    stream: Option<StreamKey>,
    answers: Option<Answered>,
}

impl HttpClient {
    /// Takes in a message of a stream, or several in one array, or with noise beside it (D43).
    pub(crate) fn receive(&mut self, now: Instant, key: StreamKey, message: Vec<u8>) {
        match frame::parse(&message) {
            Ok(Frame::Batch(batch)) => {
                for member in batch.members() {
                    self.receive_member(now, key, member.to_vec());
                }
            }
            Ok(_) => self.receive_member(now, key, message),
            Err(_) => match frame::apart(&message) {
                Some(pieces) => {
                    for piece in pieces {
                        match piece {
                            Piece::Noise(_) => self.dropped("", "it is not a message"),
                            // One piece holds no others, so this goes one level down at most.
                            Piece::Message(message) => self.receive(now, key, message.to_vec()),
                        }
                    }
                }
                None => self.receive_member(now, key, message),
            },
        }
    }

    fn receive_member(&mut self, now: Instant, key: StreamKey, message: Vec<u8>) {
        let (delivery, is_question) = match frame::parse_member(&message) {
            Ok(frame) => (self.receive_frame(now, key, &message, &frame), matches!(frame, Frame::Request(_))),
            Err(_) => return self.receive_unreadable(now, key, &message),
        };
        match delivery {
            Some(_) if is_question => self.inbox.push_question(message),
            Some(Delivery { replaced, stream, answers }) => {
                self.inbox.push(replaced.unwrap_or(message), stream, answers);
            }
            None => {}
        }
    }

    fn receive_frame(&mut self, now: Instant, key: StreamKey, message: &[u8], frame: &Frame<'_>) -> Option<Delivery> {
        let stream = self.streams.get(&key)?;
        let is_stateless = stream.is_stateless();
        let is_survey = matches!(stream.purpose, Purpose::Survey { .. });
        let passes = match frame {
            Frame::Response(response) if !message::is_answer(message, response) => {
                self.receive_no_answer(now, key, message, response);
                false
            }
            Frame::Request(_) | Frame::Notification(_) if !message::has_version(message) => {
                self.receive_no_message(key, frame);
                false
            }
            Frame::Response(response) => return self.receive_answer(now, key, message, response),
            // The local client did not ask for this list.
            Frame::Notification(_) if is_survey => false,
            Frame::Notification(notification) => self.receive_notification(now, key, notification, message),
            Frame::Request(request) if is_stateless => {
                self.dropped(&request.method, "this revision has no requests from servers");
                false
            }
            Frame::Request(_) => true,
            Frame::Batch(_) => false,
        };
        passes.then_some(Delivery { replaced: None, stream: is_stateless.then_some(key), answers: None })
    }

    /// A response that is not an answer ends its request (D43): clients would not read it.
    fn receive_no_answer(&mut self, now: Instant, key: StreamKey, message: &[u8], response: &Response<'_>) {
        self.dropped("", "it is not an answer of JSON-RPC 2.0");
        let Some((key, at, _)) = self.find_call(key, response) else { return };
        let id = self.streams.get(&key).map(|stream| stream.waiting[at].id.clone());
        let text = format!("the server's answer is not one of JSON-RPC 2.0: {}", words::excerpt(message));
        self.fail_call(now, key, id.as_ref(), &unreadable(text));
    }

    /// A question or a notification without the version of JSON-RPC is not passed on: clients would not read it.
    fn receive_no_message(&mut self, key: StreamKey, frame: &Frame<'_>) {
        const WHY: &str = "it does not name the version of JSON-RPC";
        match frame {
            Frame::Request(request) => {
                self.dropped(&request.method, WHY);
                self.refuse_question(key, &request.id, error_code::INVALID_REQUEST, WHY);
            }
            Frame::Notification(notification) => self.dropped(&notification.method, WHY),
            Frame::Response(_) | Frame::Batch(_) => {}
        }
    }

    /// Answers a question of the server with an error, in place of the local client.
    fn refuse_question(&mut self, key: StreamKey, id: &RequestId, code: i32, why: &str) {
        let mut body = Vec::new();
        wire::error(Some(id), code, why, None, &mut body);
        if !self.streams.get(&key).is_some_and(super::stream::Stream::is_stateless) {
            self.start_one_way(self.one_way(OneWayKind::Answer, body.into(), ""));
        }
    }

    /// A message that cannot be read is mended, or ends its request (D43).
    fn receive_unreadable(&mut self, now: Instant, key: StreamKey, message: &[u8]) {
        if let Mend::Mended(mended) = frame::mend(message, self.config.max_message) {
            return self.receive_member(now, key, mended);
        }
        self.dropped(framing::learn(message).method.as_deref().unwrap_or_default(), "it cannot be read");
        let Named { kind, id, .. } = frame::name(message);
        let key = self.stream_of(key, id.as_ref());
        let is_named = id.as_ref().is_some_and(|id| self.streams.get(&key).is_some_and(|it| it.position(id).is_some()));
        if kind == MessageKind::Response || kind == MessageKind::Unknown && is_named {
            let text = format!("the answer of the server cannot be read: {}", words::excerpt(message));
            self.fail_call(now, key, id.as_ref(), &unreadable(text));
        }
    }

    /// The stream of the request with this id: within a session an answer may come on any.
    fn stream_of(&self, key: StreamKey, id: Option<&RequestId>) -> StreamKey {
        let Some(stream) = self.streams.get(&key).filter(|stream| !stream.is_stateless()) else { return key };
        let other = id.filter(|id| stream.position(id).is_none()).and_then(|id| self.calls.get(id)).copied();
        other
            .filter(|other| self.streams.get(other).is_some_and(|found| found.session == stream.session))
            .unwrap_or(key)
    }

    /// A message of a stream was too long to keep.
    pub(crate) fn receive_overlong(&mut self, now: Instant, key: StreamKey, overlong: &Overlong) {
        let failure = self.too_large();
        match (overlong.kind, &overlong.id) {
            (MessageKind::Notification, _) => {
                self.dropped(overlong.method.as_deref().unwrap_or_default(), "it is too long");
            }
            (MessageKind::Request, Some(id)) => {
                self.dropped(overlong.method.as_deref().unwrap_or_default(), "it is too long");
                let text = format!("the request is longer than the limit of {} bytes", self.config.max_message);
                self.refuse_question(key, id, error_code::TOO_LARGE, &text);
            }
            (MessageKind::Request | MessageKind::Response | MessageKind::Batch | MessageKind::Unknown, id) => {
                self.fail_call(now, key, id.as_ref(), &failure);
            }
        }
    }

    /// Answers one request of a stream with an error: the one with this id, or the only one.
    fn fail_call(&mut self, now: Instant, key: StreamKey, id: Option<&RequestId>, failure: &Failure) {
        let Some(stream) = self.streams.get(&key) else { return };
        let at = id.and_then(|id| stream.position(id)).or_else(|| stream.only());
        let Some(at) = at.filter(|at| stream.waiting[*at].state == CallState::InFlight) else { return };
        if stream.purpose != Purpose::Calls || stream.waiting.len() == 1 && self.is_handshake(key) {
            return self.fail_stream(now, key, failure);
        }
        let id = stream.waiting[at].id.clone();
        let tag = stream.is_stateless().then_some(key);
        let answers = self.settle_call(now, key, at);
        self.inbox.push_failure(failure, &id, tag, answers);
    }

    fn receive_answer(
        &mut self,
        now: Instant,
        key: StreamKey,
        message: &[u8],
        response: &Response<'_>,
    ) -> Option<Delivery> {
        match self.streams.get(&key)?.purpose {
            Purpose::Reopen => self.reopen_answered(now, key, &response.body),
            Purpose::Survey { call, pages } => {
                self.survey_answered(now, key, call, pages, message, &response.body);
            }
            Purpose::Calls | Purpose::Listen => return self.deliver_answer(now, key, message, response),
        }
        None
    }

    fn deliver_answer(
        &mut self,
        now: Instant,
        key: StreamKey,
        message: &[u8],
        response: &Response<'_>,
    ) -> Option<Delivery> {
        let Some((key, at, is_exact)) = self.find_call(key, response) else {
            self.dropped("", "it answers no request in flight");
            return None;
        };
        let stream = self.streams.get(&key)?;
        let is_stateless = stream.is_stateless();
        let waiting = &stream.waiting[at];
        if let CallState::Answered { .. } = waiting.state {
            self.dropped("", "its request was answered before");
            return None;
        }
        let mut replaced = (!is_exact).then(|| with_id(message, response, &waiting.id));
        let kind = waiting.kind;
        if kind == CallKind::ListTools
            && is_stateless
            && let ResponseBody::Result(result) = response.body
        {
            let (rejected, without) = self.tools.learn(message, result);
            for tool in rejected {
                self.notice(HttpClientNotice::ToolRejected { tool: tool.name, why: tool.why });
            }
            replaced = without.or(replaced);
        }
        let answers = self.settle_call(now, key, at);
        if kind == CallKind::Handshake {
            self.handshake_answered(now, key, &response.body);
        }
        Some(Delivery { replaced, stream: is_stateless.then_some(key), answers })
    }

    /// Finds the request that a response answers, and whether it has its id exactly.
    fn find_call(&self, key: StreamKey, response: &Response<'_>) -> Option<(StreamKey, usize, bool)> {
        let stream = self.streams.get(&key)?;
        if let Some(ResponseId::Exact(id)) = &response.id {
            if let Some(at) = stream.position(id) {
                return Some((key, at, true));
            }
            // Within a session an answer may come on any stream: some servers have one for all.
            if !stream.is_stateless()
                && let Some(other) = self.calls.get(id)
                && let Some(found) = self.streams.get(other).filter(|found| found.session == stream.session)
            {
                return Some((*other, found.position(id)?, true));
            }
        }
        // An error that could name no request, or an id that went through careless hands (D10), answers the only one.
        let at = stream.only()?;
        let is_meant = match &response.id {
            None => true,
            Some(ResponseId::Loose(number)) => stream.waiting[at].id.loose() == Some(*number),
            Some(ResponseId::Exact(id)) => {
                let is_alike = id.loose().is_some() && id.loose() == stream.waiting[at].id.loose();
                // A whole body is about what was POSTed, whatever id an error in it has: some have one that no request could
                // have.
                let is_whole = !matches!(stream.stage, Stage::Reading(_));
                let is_refusal = is_whole && matches!(response.body, ResponseBody::Error(_));
                id.is_null() || is_alike || is_refusal
            }
        };
        is_meant.then_some((key, at, false))
    }

    /// A request is answered; the answer is delivered by the caller. Returns what it answers, if anyone waited.
    fn settle_call(&mut self, now: Instant, key: StreamKey, at: usize) -> Option<Answered> {
        let until = now + self.config.end_within;
        let waiting = self.streams.get_mut(&key)?.waiting.get_mut(at)?;
        let id = waiting.id.clone();
        let earlier = core::mem::replace(&mut waiting.state, CallState::Answered { until });
        let had_left = core::mem::replace(&mut waiting.has_left, true);
        if !had_left {
            self.events.push_back(Departure::Request(id.clone()).into());
        }
        // An answer that comes before its cancel has left disarms it (D15).
        if let CallState::Cancelled { cancel: Some(cancel), .. } = earlier
            && !self.fetches.get(&cancel).is_some_and(|fetch| matches!(fetch.phase, Phase::Written(_)))
        {
            self.abort(cancel);
        }
        self.settle(key);
        (earlier == CallState::InFlight).then_some((id, key))
    }

    /// Lets a stream go that nobody waits for any more: after a while if a response is open, so that the server can end it.
    pub(crate) fn settle(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(&key).filter(|stream| stream.purpose == Purpose::Calls) else { return };
        let Some(until) = stream.until() else { return };
        match stream.stage {
            Stage::Posting(_) | Stage::Reading(_) => self.arm_stream(key, Some(until)),
            // What was cancelled is not resumed, and of what was answered nothing more comes.
            Stage::Away | Stage::Held(_) | Stage::Asking(_) | Stage::Probing(_) | Stage::Surveying(..) => {
                self.forget_stream(key);
            }
        }
    }

    /// Notes what a notification means for its stream; `false` if it is not for the local client.
    fn receive_notification(
        &mut self,
        now: Instant,
        key: StreamKey,
        notification: &Notification<'_>,
        message: &[u8],
    ) -> bool {
        let Some(stream) = self.streams.get_mut(&key) else { return true };
        if !stream.is_stateless() || !stream.is_subscription() {
            return true;
        }
        let cancel = stream.dialect.cancel;
        if notification.method == cancel.method {
            let named = notification.params.raw.and_then(|params| json::member(params, cancel.id));
            if let Some(id) = named.and_then(RequestId::from_json)
                && let Some(at) = stream.position(&id)
                && stream.waiting[at].state == CallState::InFlight
            {
                // One of the ways in which a server ends a subscription (MCP-M02): it is not asked for again.
                stream.waiting[at].state = CallState::Answered { until: now + self.config.end_within };
                self.calls.remove(&id);
                self.settle(key);
            }
        } else if notification.method == ACKNOWLEDGED {
            // The local client does not know that it was asked for again.
            return stream.note_acknowledgement(message, self.config.seed);
        }
        true
    }
}

/// The end of a request whose answer cannot be read.
fn unreadable(text: String) -> Failure {
    Failure::unreadable(error_code::INTERNAL_ERROR, Rejected::NotJson, text)
}

/// A message with another id.
fn with_id(message: &[u8], response: &Response<'_>, id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    if response.id.is_some() {
        frame::splice(message, response.id_span.clone(), id, &mut out);
        return out;
    }
    // It has none: the first member becomes it.
    let open = message.iter().position(|byte| *byte == b'{').map_or(0, |brace| brace + 1);
    out.extend_from_slice(&message[..open]);
    out.extend_from_slice(b"\"id\":");
    id.write(&mut out);
    out.push(b',');
    out.extend_from_slice(&message[open..]);
    out
}
