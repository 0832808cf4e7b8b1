//! What the server says: answers, notifications, questions.

use core::mem::replace;

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
    ErrandKey, HttpClient, HttpClientNotice,
    errand::{CallKind, CallState, Errand, Role},
    errands::Errands,
    failure::Failure,
    fetch::Fetch,
    inbox::Answered,
    message, words,
};

/// The first message of a subscription.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// What is wrong with a question or a notification that clients would not read.
const NO_VERSION: &str = "it does not name the version of JSON-RPC";

/// How a message is delivered.
struct Delivery {
    /// What is delivered in its place.
    replaced: Option<Vec<u8>>,
    /// The errand whose end withdraws it.
    errand: Option<ErrandKey>,
    answers: Option<Answered>,
}

impl HttpClient {
    /// Takes in a message of a stream, or several in one array, or with noise beside it (D43).
    pub(crate) fn receive(&mut self, now: Instant, key: ErrandKey, message: Vec<u8>) {
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

    fn receive_member(&mut self, now: Instant, key: ErrandKey, message: Vec<u8>) {
        let (delivery, is_question) = match frame::parse_member(&message) {
            Ok(frame) => (self.receive_frame(now, key, &message, &frame), matches!(frame, Frame::Request(_))),
            Err(_) => return self.receive_unreadable(now, key, &message),
        };
        match delivery {
            Some(_) if is_question => self.inbox.push_question(message),
            Some(Delivery { replaced, errand, answers }) => {
                self.inbox.push(replaced.unwrap_or(message), errand, answers);
            }
            None => {}
        }
    }

    fn receive_frame(&mut self, now: Instant, key: ErrandKey, message: &[u8], frame: &Frame<'_>) -> Option<Delivery> {
        let errand = self.errands.get(key)?;
        let (role, is_stateless) = (errand.role.clone(), errand.is_stateless());
        let passes = match (frame, role) {
            // A response that is not an answer ends its request (D43): clients would not read it.
            (Frame::Response(response), _) if !message::is_answer(message, response) => {
                self.dropped("", "it is not an answer of JSON-RPC 2.0");
                let (key, at, _) = self.errands.answered_by(key, response)?;
                let id = self.errands.get(key).map(|errand| errand.waiting[at].id.clone());
                let text = format!("the server's answer is not one of JSON-RPC 2.0: {}", words::excerpt(message));
                self.fail_call(now, key, id.as_ref(), &unreadable(text));
                false
            }
            // Nor would they read these.
            (Frame::Request(request), _) if !message::has_version(message) => {
                self.dropped(&request.method, NO_VERSION);
                self.refuse_question(key, &request.id, error_code::INVALID_REQUEST, NO_VERSION);
                false
            }
            (Frame::Notification(notification), _) if !message::has_version(message) => {
                self.dropped(&notification.method, NO_VERSION);
                false
            }
            (Frame::Response(response), Role::Reopen) => {
                self.reopen_answered(now, key, &response.body);
                false
            }
            (Frame::Response(response), Role::Survey { call, pages }) => {
                self.survey_answered(now, key, (call, pages), message, &response.body);
                false
            }
            (Frame::Response(response), _) => return self.receive_answer(now, key, message, response),
            // The local client did not ask for this list.
            (Frame::Notification(_), Role::Survey { .. }) => false,
            (Frame::Notification(notification), _) => self.receive_notification(now, key, notification, message),
            (Frame::Request(request), _) if is_stateless => {
                self.dropped(&request.method, "this revision has no requests from servers");
                false
            }
            (Frame::Request(_), _) => true,
            (Frame::Batch(_), _) => false,
        };
        passes.then_some(Delivery { replaced: None, errand: is_stateless.then_some(key), answers: None })
    }

    /// Answers a question of the server with an error, in place of the local client.
    fn refuse_question(&mut self, key: ErrandKey, id: &RequestId, code: i32, why: &str) {
        let mut body = Vec::new();
        wire::error(Some(id), code, why, None, &mut body);
        if !self.errands.get(key).is_some_and(Errand::is_stateless) {
            self.answer(body.into());
        }
    }

    /// A message that cannot be read is mended, or ends its request (D43).
    fn receive_unreadable(&mut self, now: Instant, key: ErrandKey, message: &[u8]) {
        if let Mend::Mended(mended) = frame::mend(message, self.config.max_message) {
            return self.receive_member(now, key, mended);
        }
        self.dropped(framing::learn(message).method.as_deref().unwrap_or_default(), "it cannot be read");
        let Named { kind, id, .. } = frame::name(message);
        let named = id.as_ref().and_then(|id| self.errands.find(key, id));
        if kind == MessageKind::Response || kind == MessageKind::Unknown && named.is_some() {
            let text = format!("the answer of the server cannot be read: {}", words::excerpt(message));
            self.fail_call(now, named.map_or(key, |(key, _)| key), id.as_ref(), &unreadable(text));
        }
    }

    /// A message of a stream was too long to keep.
    pub(crate) fn receive_overlong(&mut self, now: Instant, key: ErrandKey, overlong: &Overlong) {
        let failure = Failure::too_large(self.config.max_message);
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
    fn fail_call(&mut self, now: Instant, key: ErrandKey, id: Option<&RequestId>, failure: &Failure) {
        let Some(errand) = self.errands.get(key) else { return };
        let at = id.and_then(|id| errand.position(id)).or_else(|| errand.only());
        let Some(at) = at.filter(|at| errand.waiting[*at].state == CallState::InFlight) else { return };
        if errand.role != Role::Calls || errand.waiting.len() == 1 && errand.is_handshake() {
            return self.fail(now, key, failure);
        }
        let id = errand.waiting[at].id.clone();
        let tag = errand.is_stateless().then_some(key);
        let answers = self.errands.settle_call(key, at, now + self.config.end_within);
        self.inbox.push_failure(failure, &id, tag, answers);
    }

    fn receive_answer(
        &mut self,
        now: Instant,
        key: ErrandKey,
        message: &[u8],
        response: &Response<'_>,
    ) -> Option<Delivery> {
        let Some((key, at, is_exact)) = self.errands.answered_by(key, response) else {
            self.dropped("", "it answers no request in flight");
            return None;
        };
        let errand = self.errands.get(key)?;
        let is_stateless = errand.is_stateless();
        let waiting = &errand.waiting[at];
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
        let answers = self.errands.settle_call(key, at, now + self.config.end_within);
        if kind == CallKind::Handshake {
            self.session.note_answer(key, &response.body);
            self.release_held(now);
        }
        Some(Delivery { replaced, errand: is_stateless.then_some(key), answers })
    }

    /// Notes what a notification means for its stream; `false` if it is not for the local client.
    fn receive_notification(
        &mut self,
        now: Instant,
        key: ErrandKey,
        notification: &Notification<'_>,
        message: &[u8],
    ) -> bool {
        let Some(errand) = self.errands.get_mut(key) else { return true };
        if !errand.is_stateless() || !errand.is_subscription() {
            return true;
        }
        let cancel = errand.dialect.cancel;
        if notification.method == cancel.method {
            let named = notification.params.raw.and_then(|params| json::member(params, cancel.id));
            if let Some(id) = named.and_then(RequestId::from_json)
                && let Some(at) = errand.position(&id)
                && errand.waiting[at].state == CallState::InFlight
            {
                // One of the ways in which a server ends a subscription (MCP-M02): it is not asked for again.
                errand.waiting[at].state = CallState::Answered { until: now + self.config.end_within };
                self.errands.calls.remove(&id);
                self.errands.settle(key);
            }
        } else if notification.method == ACKNOWLEDGED {
            // The local client does not know that it was asked for again.
            return errand.stream.note_acknowledgement(message, self.config.seed);
        }
        true
    }
}

impl Errands {
    /// The request with this id: on this stream or, within a session, on any, since some servers have one for all.
    fn find(&self, key: ErrandKey, id: &RequestId) -> Option<(ErrandKey, usize)> {
        let errand = self.get(key)?;
        if let Some(at) = errand.position(id) {
            return Some((key, at));
        }
        let other = *self.calls.get(id).filter(|_| !errand.is_stateless())?;
        let found = self.get(other).filter(|found| found.session == errand.session)?;
        Some((other, found.position(id)?))
    }

    /// The request that a response on this stream answers, and whether it has its id exactly.
    fn answered_by(&self, key: ErrandKey, response: &Response<'_>) -> Option<(ErrandKey, usize, bool)> {
        if let Some(ResponseId::Exact(id)) = &response.id
            && let Some((key, at)) = self.find(key, id)
        {
            return Some((key, at, true));
        }
        // An error that could name no request, or an id that went through careless hands (D10), answers the only one.
        let errand = self.get(key)?;
        let at = errand.only()?;
        let is_meant = match &response.id {
            None => true,
            Some(ResponseId::Loose(number)) => errand.waiting[at].id.loose() == Some(*number),
            Some(ResponseId::Exact(id)) => {
                let is_alike = id.loose().is_some() && id.loose() == errand.waiting[at].id.loose();
                // A whole body is about what was POSTed, whatever id an error in it has: some have one that no request could
                // have.
                let is_refusal = errand.fetch().is_none() && matches!(response.body, ResponseBody::Error(_));
                id.is_null() || is_alike || is_refusal
            }
        };
        is_meant.then_some((key, at, false))
    }

    /// A request is answered, and its errand let go at `until` at the latest; the answer is delivered by the caller. Returns
    /// what it answers, if anyone waited.
    fn settle_call(&mut self, key: ErrandKey, at: usize, until: Instant) -> Option<Answered> {
        let waiting = self.get_mut(key)?.waiting.get_mut(at)?;
        let id = waiting.id.clone();
        let earlier = replace(&mut waiting.state, CallState::Answered { until });
        if !replace(&mut waiting.has_left, true) {
            self.events.push_back(Departure::Request(id.clone()).into());
        }
        // An answer that comes before its cancel has left disarms it (D15).
        if let CallState::Cancelled { cancel: Some(cancel), .. } = earlier
            && self.get(cancel).is_some_and(|cancel| !cancel.fetch().is_some_and(Fetch::is_written))
        {
            self.forget(cancel);
        }
        self.settle(key);
        (earlier == CallState::InFlight).then_some((id, key))
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
