//! What programs say: on which stream it travels, and under which id.

use http::{HeaderName, HeaderValue, StatusCode};
use rescind_proto::{
    dialect::{Discovered, mcp},
    error_code,
    frame::{self, Frame, Notification, Request, Response, ResponseBody, ResponseId},
    id::RequestId,
    json, message,
    time::Instant,
};

use super::{
    HttpServer, HttpServerEvent, LinkInput, LinkKey, SessionKey, StreamKey,
    calls::{Asks, Call, CallKey},
    door::SESSION,
    link::{Link, LinkUse},
    owned,
    passed_status::{PassedStatus, Unauthorized},
    posted::{line, splice, text},
    programs::ModernOnly,
    session::HANDSHAKE_STREAM,
    stream::{CHUNK, Part, Stream},
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
            Ok(Frame::Request(request)) => {
                let Some(serves) = self.live_link(link).map(|link| link.serves) else { return };
                match serves {
                    LinkUse::Session(session) => self.send_unasked(now, session, message),
                    LinkUse::Sessions | LinkUse::Stateless => self.answer_program(link, &request),
                }
            }
            Err(_) => self.drop_message(link, ""),
        }
    }

    /// The link, unless it is closed: then nobody hears what is still said on it.
    fn live_link(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.links.get_mut(&key).filter(|link| !link.is_closed)
    }

    /// Reports that a message of a program was dropped.
    fn drop_message(&mut self, link: LinkKey, method: &str) {
        if self.live_link(link).is_some() {
            self.report(HttpServerEvent::Dropped { link, method: method.into() });
        }
    }

    /// Answers a request of a program that several clients share. None of them is asked: it could be the wrong person
    /// (D42). Only one with sessions makes requests, also before it was asked which era it speaks.
    fn answer_program(&mut self, link: LinkKey, request: &Request<'_>) {
        let mut answer = Vec::new();
        if mcp::LATEST_LEGACY.ping == Some(&*request.method) {
            message::result(&request.id, b"{}", &mut answer);
        } else {
            let words = "several clients share this server, and none of them can be asked";
            message::error(Some(&request.id), error_code::METHOD_NOT_FOUND, words, None, &mut answer);
            self.report(HttpServerEvent::Dropped { link, method: (*request.method).into() });
        }
        // It may wait for this before it shakes hands.
        self.push_urgent(link, LinkInput::Message(line(&answer, Vec::new())));
    }

    /// Answers what a program that is gone will not answer.
    pub(crate) fn answer_for_gone(&mut self, now: Instant, link: LinkKey) {
        self.answer_waiting(now, link, |id, out| {
            message::error(Some(id), error_code::UPSTREAM_GONE, "the server is gone", None, out);
        });
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
        let Some(link) = self.links.get(&key) else { return Vec::new() };
        let streams = self.streams.values().filter(|stream| stream.link == key);
        let calls = streams.flat_map(|stream| &stream.calls).filter_map(|call| link.calls.get(*call));
        calls.map(wanted).collect()
    }

    /// Records that a request will never be answered: it was cancelled in a dialect that wants silence. Its stream ends
    /// (D41). Nothing happens for one that was answered.
    pub fn handle_settled(&mut self, now: Instant, link: LinkKey, id: &RequestId) {
        let Some(key) = self.links.get(&link).and_then(|link| link.calls.by_id(id)) else { return };
        let Some(Call { stream: stream_key, .. }) = self.take_call(now, link, key) else { return };
        let Some(stream) = self.streams.get_mut(&stream_key) else { return };
        if !stream.calls.is_empty() {
            return;
        }
        let (reply, has_begun) = (stream.reply, stream.has_begun);
        // Of a batch other members were answered, and these answers can be fetched.
        if stream.has_answered {
            self.note_ended(now, stream_key);
            reply.into_iter().for_each(|reply| self.report_reply(reply));
            return;
        }
        // Nobody is to come back to it: a client that asked would ask again and again.
        stream.ended = Some(now);
        self.withdraw_stream(stream_key);
        match reply {
            Some(reply) if has_begun => self.report_reply(reply),
            Some(reply) => {
                self.forget_stream(stream_key);
                if let Some(reply) = self.replies.get_mut(&reply) {
                    reply.end();
                }
                self.report_reply(reply);
            }
            None => self.forget_stream(stream_key),
        }
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
        let Some(ResponseId::Exact(id)) = &response.id else {
            return self.drop_message(link_key, "");
        };
        let unauthorized = self.config.passes_credentials().then(|| Unauthorized::read(&response.body)).flatten();
        if self.shared.question().is_some_and(|question| question.link == link_key && question.id == *id)
            && self.live_link(link_key).is_some()
        {
            if let Some(unauthorized) = unauthorized {
                return self.era_withheld(now, &unauthorized);
            }
            // It could not be asked (ours, of a server at a URL).
            if response.body.error_code() == Some(i64::from(error_code::UPSTREAM_GONE)) {
                return self.era_unsaid(now);
            }
            let is_modern = matches!(Discovered::of_answer(&response.body), Discovered::Stateless(_));
            if !is_modern {
                self.lend_to_sessions(now, link_key);
            }
            return self.learn_era(now, is_modern);
        }
        if self.handle_joint_answer(now, link_key, message, response, id) {
            return;
        }
        let Some(link) = self.live_link(link_key) else { return };
        let Some((key, call)) = link.calls.take_by_id(id) else { return };
        link.idle_since = now;
        let stream_key = call.stream;
        // Few streams stay with an answer, and those are put back.
        let Some(mut stream) = self.streams.remove(&stream_key) else { return };
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
            self.note_task(stream.owner.as_ref(), result);
            edits.extend(self.mark_state(&stream, message, result));
            if call.asks == Asks::TaskList {
                edits.extend(self.own_tasks(stream.owner.as_ref(), message, result));
            }
        }
        if call.asks == Asks::ToolList
            && let ResponseBody::Result(result) = response.body
            && !stream.is_resumable()
            && let Some(link) = self.links.get_mut(&link_key)
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
        self.deliver_answer(now, &call, stream, answer);
        if let Some(session) = refused {
            self.end_session(now, session);
        }
    }

    /// Notes what the answer to a handshake settles; the session, if it is refused.
    fn note_handshake(&mut self, stream: &Stream, body: &ResponseBody<'_>) -> Option<SessionKey> {
        let place = stream.place.filter(|place| place.number == HANDSHAKE_STREAM)?;
        match body {
            ResponseBody::Result(result) => {
                self.sessions.get_mut(&place.session)?.negotiation.saw_initialize_result(result);
                None
            }
            ResponseBody::Error(_) => {
                self.modern_only = ModernOnly::of(body).or_else(|| self.modern_only.take());
                Some(place.session)
            }
        }
    }

    /// Sends an answer to its stream, which was taken out: as a whole response if nothing was sent before, else as an event.
    fn deliver_answer(&mut self, now: Instant, call: &Call, mut stream: Stream, answer: Answer) {
        let Answer { message, status, headers, is_no_session } = answer;
        let (key, is_last) = (call.stream, stream.calls.is_empty());
        let carrier = stream.reply.and_then(|key| Some((key, self.replies.get_mut(&key)?)));
        if let Some((reply_key, reply)) = carrier {
            if is_no_session {
                reply.remove_header(&SESSION);
            }
            if reply.is_open() {
                headers.into_iter().for_each(|(name, value)| reply.add_header(name, value));
                if is_last && !stream.has_begun {
                    let place = stream.place;
                    stream.leave_session();
                    reply.report(reply_key, &mut self.events);
                    if message.len() > CHUNK {
                        reply.long(status, message.len());
                        if let Some(place) = place
                            && let Some(session) = self.sessions.get_mut(&place.session)
                        {
                            session.streams.remove(&place.number);
                        }
                        self.streams.insert(key, stream);
                        let id = call.client_id.clone();
                        self.change_stream(key, |stream| stream.answer_whole(now, owned(message), id));
                        return self.bound_unread(now);
                    }
                    reply.number = place.map(|place| place.number);
                    return reply.message(status, owned(message));
                }
            }
        }
        if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
            session.idle_since = now;
        }
        let is_lost = stream.reply.is_none() && !stream.has_begun;
        self.streams.insert(key, stream);
        // A client that left before it knew of the stream cannot ask for it.
        if is_lost {
            if is_last {
                self.forget_stream(key);
            }
            return;
        }
        if is_last {
            self.note_ended(now, key);
        }
        if let Some((token, _)) = &call.token {
            self.change_stream(key, |stream| stream.withdraw_progress(token));
        }
        self.push(now, key, &message, Part::Answer(call.client_id.clone()));
    }

    fn handle_said(&mut self, now: Instant, link_key: LinkKey, message: &[u8], notification: &Notification<'_>) {
        let Some(link) = self.links.get(&link_key).filter(|link| !link.is_closed) else { return };
        let (method, params) = (&*notification.method, notification.params.raw);
        let serves = link.serves;
        let dialect = self.dialect(serves);
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
            return self.push(now, stream, &splice(message, edits), Part::Progress(token));
        }
        let joined = Some(&mcp::LATEST_STATELESS).filter(|_| serves == LinkUse::Sessions && self.joins_eras());
        if let Some(form) = joined.unwrap_or(dialect).subscription {
            let named = params.and_then(|params| json::lookup(params, form.path));
            let ends = (method == dialect.cancel.method).then(|| json::member(params?, dialect.cancel.id)).flatten();
            if let Some(raw) = ends.or(named) {
                return self.handle_of_subscription(now, link_key, message, method, raw, ends.is_some());
            }
        }
        match serves {
            LinkUse::Session(session) => return self.send_unasked(now, session, message),
            LinkUse::Sessions => return self.tell_sessions(now, link_key, message, notification),
            LinkUse::Stateless => {}
        }
        // It belongs to some request, and only one that is alone can be told. A subscription names itself.
        match link.calls.only().filter(|call| call.asks != Asks::Subscription).map(|call| call.stream) {
            Some(only) => self.push(now, only, message, Part::Other),
            None => self.report(HttpServerEvent::Dropped { link: link_key, method: method.into() }),
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
        let calls = self.links.get(&link).map(|link| &link.calls);
        let found = calls.zip(id.as_ref()).and_then(|(calls, id)| calls.get(calls.by_id(id)?));
        // Without a request it is late, or nobody's.
        let (Some(id), Some(call)) = (id, found) else { return };
        if call.asks != Asks::Subscription {
            // MCP-M01
            return self.report(HttpServerEvent::Dropped { link, method: method.into() });
        }
        if ends {
            return self.handle_settled(now, link, &id);
        }
        let Some(stream) = self.streams.get(&call.stream) else { return };
        if !self.may_hear(stream, json::member(message, "params")) {
            return;
        }
        let (key, client_id) = (call.stream, text(&call.client_id));
        let edits = frame::span_of(message, raw).map(|span| (span, client_id)).into_iter().collect();
        self.push(now, key, &splice(message, edits), Part::Other);
    }

    /// Sends what belongs to no request that could be named: on the newest stream that listens, or else on the newest that
    /// is open, or else it waits for one that listens.
    pub(crate) fn send_unasked(&mut self, now: Instant, session_key: SessionKey, message: &[u8]) {
        let Some(session) = self.sessions.get(&session_key) else { return };
        let is_open = |key: &&StreamKey| {
            let open = self.streams.get(key).filter(|stream| stream.ended.is_none()).and_then(|stream| stream.reply);
            open.and_then(|reply| self.replies.get(&reply)).is_some_and(|reply| reply.takes_events)
        };
        let listening = session.listening.iter().rev();
        let found = listening.clone().find(is_open).or_else(|| session.streams.values().rev().find(is_open));
        let found = found.or_else(|| listening.clone().next()).copied();
        if let Some(key) = found.or_else(|| self.open_listening(session_key)) {
            self.push(now, key, message, Part::Other);
        }
    }

    /// Adds a message to a stream, which becomes one of events if it was not.
    fn push(&mut self, now: Instant, key: StreamKey, message: &[u8], part: Part) {
        self.begin(key);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        // Nobody reads it, or can ask for it.
        let is_read = stream.reply.and_then(|reply| self.replies.get(&reply)).is_some_and(|reply| !reply.is_open());
        if !is_read && !stream.has_begun {
            return;
        }
        let Some(stream) = self.change_stream(key, |stream| stream.push(message, part)) else { return };
        let (session, unsent, reply) = (stream.session(), stream.unsent(), stream.reply);
        match reply {
            Some(reply) if unsent > self.config.max_unsent + message.len() => self.give_up_reply(now, reply),
            Some(reply) => self.report_reply(reply),
            None => {}
        }
        self.bound_kept(session);
        self.bound_unread(now);
    }

    /// Begins the response of a stream as one of events, if it is neither that nor a whole.
    pub(crate) fn begin(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let Some(reply_key) = stream.reply else { return };
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        if !reply.begin() {
            return;
        }
        // One that is resumed has an id to come back behind (MCP-H07).
        if !stream.has_begun && stream.has_primer() {
            self.change_stream(key, Stream::prime);
        }
        self.report_reply(reply_key);
    }

    /// Takes a request out, for which its stream waits no more.
    pub(crate) fn take_call(&mut self, now: Instant, link: LinkKey, key: CallKey) -> Option<Call> {
        let link = self.links.get_mut(&link)?;
        let call = link.calls.take(key)?;
        link.idle_since = now;
        let stream = self.streams.get_mut(&call.stream)?;
        stream.calls.swap_remove(stream.calls.iter().position(|own| *own == key)?);
        if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
            session.idle_since = now;
        }
        Some(call)
    }

    /// Closes a stream whose client has gone for good: its requests are cancelled (MCP-H03).
    pub(crate) fn close_stream(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        self.retract(now, stream.link, stream.calls.clone());
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.ended.get_or_insert(now);
        }
        self.forget_stream(key);
    }

    /// Forgets a stream that has ended.
    pub(crate) fn forget_stream(&mut self, key: StreamKey) {
        self.withdraw_stream(key);
        self.uncount(key);
        self.streams.remove(&key);
    }

    /// Takes a stream out of its session, so that nobody can come back to it.
    fn withdraw_stream(&mut self, key: StreamKey) {
        let Some(place) = self.streams.get(&key).and_then(|stream| stream.place) else { return };
        self.change_stream(key, Stream::leave_session);
        if let Some(session) = self.sessions.get_mut(&place.session) {
            session.streams.remove(&place.number);
            session.listening.retain(|listening| *listening != key);
        }
    }
}

/// An answer as its client is to have it.
struct Answer {
    message: Vec<u8>,
    /// The status and headers with which it is sent as a whole.
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// It refuses a handshake: there is no session.
    is_no_session: bool,
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
