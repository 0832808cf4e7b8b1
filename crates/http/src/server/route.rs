//! What programs say: on which stream it travels, and under which id.

use http::StatusCode;
use rescind_proto::{
    dialect::mcp,
    error_code,
    frame::{self, Frame, Notification, Response, ResponseBody, ResponseId},
    id::RequestId,
    json, message,
    time::Instant,
};

use super::{
    HttpServer, LinkKey, SessionKey,
    calls::{Asks, Call},
    link::LinkUse,
    passed_status::{PassedStatus, Unauthorized},
    posted::{splice, text},
    programs::ModernOnly,
    streams::{Answer, HANDSHAKE_STREAM, Part, Stream},
};
use crate::{mirror::tools::Tools, status_note};

impl HttpServer {
    /// Takes in a message of the program behind a link, with or without a line break. After the end of its session nobody
    /// hears it any more.
    ///
    /// An id or a token means the request that has it now: what comes late for an earlier one under the same, the link keeps
    /// back (D8).
    pub fn handle_message(&mut self, now: Instant, link: LinkKey, message: &[u8]) {
        let message = message.trim_ascii_end();
        match frame::parse(message) {
            Ok(Frame::Batch(batch)) => {
                for member in batch.members() {
                    self.handle_message(now, link, member);
                }
            }
            Ok(Frame::Response(response)) => self.handle_answer(now, link, message, &response),
            Ok(Frame::Notification(notification)) => self.handle_said(now, link, message, &notification),
            Ok(Frame::Request(request)) => match self.programs.live(link).map(|link| link.serves) {
                Some(LinkUse::Session(session)) => self.streams.push_unasked(now, session, message),
                Some(LinkUse::Sessions | LinkUse::Stateless) => self.programs.answer(link, &request),
                None => {}
            },
            Err(_) if self.programs.live(link).is_some() => self.programs.drop_message(link, ""),
            Err(_) => {}
        }
        self.retract_abandoned(now);
    }

    /// Answers whatever waits on a link with this error.
    pub(crate) fn fail_waiting(&mut self, now: Instant, link: LinkKey, code: i32, words: &str) {
        self.answer_waiting(now, link, |id, out| message::error(Some(id), code, words, None, out));
    }

    /// Gives this answer to whatever waits on a link. A subscription just ends (MCP-M02).
    pub(crate) fn answer_waiting(&mut self, now: Instant, link: LinkKey, answer: impl Fn(&RequestId, &mut Vec<u8>)) {
        let waiting = self.in_flight_on(link, |call| (call.asks, call.link_id.clone()));
        for (_, id) in waiting.into_iter().filter(|(asks, _)| *asks != Asks::Subscription) {
            let mut answered = Vec::new();
            answer(&id, &mut answered);
            self.handle_message(now, link, &answered);
        }
    }

    /// What is wanted of each request in flight on a link, in the order of their streams.
    pub(crate) fn in_flight_on<T>(&self, key: LinkKey, wanted: impl Fn(&Call) -> T) -> Vec<T> {
        let Some(link) = self.programs.links.get(&key) else { return Vec::new() };
        let streams = self.streams.streams.values().filter(|stream| stream.link == key);
        let calls = streams.flat_map(|stream| &stream.calls).filter_map(|call| link.calls.get(*call));
        calls.map(wanted).collect()
    }

    /// Records that a request will never be answered: it was cancelled in a dialect that wants silence. Its stream ends
    /// (D41). Nothing happens for one that was answered.
    pub fn handle_settled(&mut self, now: Instant, link: LinkKey, id: &RequestId) {
        let Some(link) = self.programs.links.get_mut(&link) else { return };
        let Some((key, call)) = link.calls.take_by_id(id) else { return };
        link.idle_since = now;
        self.streams.settle(now, key, call.stream);
    }

    fn handle_answer(&mut self, now: Instant, link_key: LinkKey, message: &[u8], response: &Response<'_>) {
        if let ResponseBody::Error(_) = response.body
            && let Some((answer, note)) = status_note::take(message)
            && let Ok(Frame::Response(response)) = frame::parse(&answer)
        {
            return self.handle_plain_answer(now, link_key, &answer, &response, PassedStatus::of_note(note));
        }
        self.handle_plain_answer(now, link_key, message, response, PassedStatus::read(&response.body));
    }

    fn handle_plain_answer(
        &mut self,
        now: Instant,
        link_key: LinkKey,
        message: &[u8],
        response: &Response<'_>,
        passed: Option<PassedStatus>,
    ) {
        let Some(link) = self.programs.live(link_key) else { return };
        let Some(ResponseId::Exact(id)) = &response.id else { return self.programs.drop_message(link_key, "") };
        let unauthorized = self.config.passes_credentials().then(|| Unauthorized::read(&response.body)).flatten();
        if link.asked.as_ref().is_some_and(|question| question.id == *id) {
            return self.handle_told(now, link_key, message, response, unauthorized);
        }
        let Some((key, call)) = link.calls.take_by_id(id) else { return };
        link.idle_since = now;
        let stream_key = call.stream;
        // Few streams stay with an answer, and those are put back.
        let Some(mut stream) = self.streams.streams.remove(&stream_key) else { return };
        stream.calls.retain(|own| *own != key);
        let mut edits = Vec::new();
        if call.client_id != *id {
            edits.push((response.id_span.clone(), text(&call.client_id)));
            // A result may name its request once more (MCP-M02).
            if let ResponseBody::Result(result) = response.body
                && let Some(raw) = stream.dialect.subscription.and_then(|form| json::lookup(result, form.path))
                && RequestId::from_json(raw).as_ref() == Some(id)
            {
                edits.extend(frame::span_of(message, raw).map(|span| (span, text(&call.client_id))));
            }
        }
        self.note_proof(now, link_key, stream_key, unauthorized.as_ref());
        if let ResponseBody::Result(result) = response.body {
            self.task_owners.note(stream.owner.as_ref(), result);
            let member = self.config.pool_member.filter(|_| !stream.is_resumable());
            edits.extend(member.and_then(|member| member.mark_state(message, result)));
            if call.asks == Asks::TaskList {
                edits.extend(self.task_owners.own(stream.owner.as_ref(), message, result));
            }
        }
        if call.asks == Asks::ToolList
            && let ResponseBody::Result(result) = response.body
            && !stream.is_resumable()
            && let Some(link) = self.programs.links.get_mut(&link_key)
            && link.serves.is_shared()
        {
            let tools = link.tools.get_or_insert_with(|| Box::new(Tools::new(self.config.max_tools)));
            // A tool that cannot be called rightly is the client's to leave out.
            let _ = tools.learn(message, result);
        }
        // There is no session without a handshake.
        let refused = self.note_handshake(&stream, &response.body);
        let status = match (&unauthorized, &passed) {
            (Some(unauthorized), _) => unauthorized.status,
            (None, Some(passed)) => passed.status,
            (None, None) if stream.is_resumable() => status_in_session(&response.body),
            (None, None) => stateless_status(&response.body),
        };
        let headers = unauthorized.as_ref().and_then(Unauthorized::header);
        let headers = headers.into_iter().chain(passed.and_then(PassedStatus::header)).collect();
        let message = splice(message, edits);
        let answer = Answer { message, status, headers, is_no_session: refused.is_some() };
        self.streams.deliver(now, &call, stream, answer);
        if let Some(session) = refused {
            self.end_session(now, session);
        }
    }

    /// Notes what the answer to a handshake settles; the session, if it is refused.
    fn note_handshake(&mut self, stream: &Stream, body: &ResponseBody<'_>) -> Option<SessionKey> {
        let place = stream.place.filter(|place| place.number == HANDSHAKE_STREAM)?;
        match body {
            ResponseBody::Result(result) => {
                self.streams.sessions.get_mut(&place.session)?.negotiation.saw_initialize_result(result);
                None
            }
            ResponseBody::Error(_) => {
                self.programs.modern_only = ModernOnly::of(body).or_else(|| self.programs.modern_only.take());
                Some(place.session)
            }
        }
    }

    fn handle_said(&mut self, now: Instant, link_key: LinkKey, message: &[u8], notification: &Notification<'_>) {
        let Some(link) = self.programs.links.get(&link_key).filter(|link| !link.is_closed) else { return };
        let (method, params) = (&*notification.method, notification.params.raw);
        let serves = link.serves;
        let dialect = self.streams.dialect(serves);
        if let Some(form) = dialect.progress
            && method == form.method
            && let Some(raw) = params.and_then(|params| json::member(params, form.token))
            && let Some(token) = RequestId::from_json(raw)
        {
            // Without a request it is late, or nobody's.
            let call = link.calls.by_token(&token).and_then(|key| link.calls.get(key));
            let Some(Call { stream, token: Some((_, asked)), .. }) = call else { return };
            let span = if *asked == raw { None } else { frame::span_of(message, raw) };
            let (stream, edits) = (*stream, span.map(|span| (span, asked.to_vec())).into_iter().collect());
            self.note_proof(now, link_key, stream, None);
            return self.streams.push(now, stream, &splice(message, edits), Part::Progress(token));
        }
        let joined = Some(&mcp::LATEST_STATELESS).filter(|_| serves == LinkUse::Sessions && self.config.joins_eras());
        if let Some(form) = joined.unwrap_or(dialect).subscription {
            let named = params.and_then(|params| json::lookup(params, form.path));
            let ends = (method == dialect.cancel.method).then(|| json::member(params?, dialect.cancel.id)).flatten();
            if let Some(raw) = ends.or(named) {
                return self.handle_of_subscription(now, link_key, message, method, raw, ends.is_some());
            }
        }
        match serves {
            LinkUse::Session(session) => return self.streams.push_unasked(now, session, message),
            LinkUse::Sessions => return self.tell_sessions(now, link_key, message, notification),
            LinkUse::Stateless => {}
        }
        // It belongs to some request, and only one that is alone can be told. A subscription names itself.
        match link.calls.only().filter(|call| call.asks != Asks::Subscription).map(|call| call.stream) {
            Some(only) => self.streams.push(now, only, message, Part::Other),
            None => self.programs.drop_message(link_key, method),
        }
    }

    /// Takes in what a program says of a subscription: a message for it, or its end, which over HTTP is that of its stream
    /// (MCP-M02). `raw` is its id.
    fn handle_of_subscription(
        &mut self,
        now: Instant,
        link: LinkKey,
        message: &[u8],
        method: &str,
        raw: &[u8],
        ends: bool,
    ) {
        let id = RequestId::from_json(raw);
        let calls = self.programs.links.get(&link).map(|link| &link.calls);
        let found = calls.zip(id.as_ref()).and_then(|(calls, id)| calls.get(calls.by_id(id)?));
        // Without a request it is late, or nobody's.
        let (Some(id), Some(call)) = (id, found) else { return };
        if call.asks != Asks::Subscription {
            // MCP-M01
            return self.programs.drop_message(link, method);
        }
        if ends {
            return self.handle_settled(now, link, &id);
        }
        let Some(stream) = self.streams.streams.get(&call.stream) else { return };
        if !self.task_owners.may_hear(stream.owner.as_ref(), json::member(message, "params")) {
            return;
        }
        let (key, client_id) = (call.stream, text(&call.client_id));
        let edits = frame::span_of(message, raw).map(|span| (span, client_id)).into_iter().collect();
        self.streams.push(now, key, &splice(message, edits), Part::Other);
    }
}

/// The status with which an answer in a session is sent as a whole: only a refused handshake of a server without sessions
/// has one of its own.
fn status_in_session(body: &ResponseBody<'_>) -> StatusCode {
    let is_refused = body.error_code() == Some(i64::from(error_code::UNSUPPORTED_PROTOCOL_VERSION));
    if is_refused { StatusCode::BAD_REQUEST } else { StatusCode::OK }
}

/// The status with which a stateless answer is sent as a whole.
fn stateless_status(body: &ResponseBody<'_>) -> StatusCode {
    match body.error_code().and_then(|code| i32::try_from(code).ok()) {
        Some(
            error_code::UNSUPPORTED_PROTOCOL_VERSION
            | error_code::MISSING_CLIENT_CAPABILITY
            | error_code::HEADER_MISMATCH,
        ) => StatusCode::BAD_REQUEST,
        Some(error_code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(_) | None => StatusCode::OK,
    }
}
