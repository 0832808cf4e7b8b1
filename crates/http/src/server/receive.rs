//! What clients POST: requests, answers, notifications.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use rescind_proto::{
    dialect::{Dialect, HttpForm, mcp},
    error_code,
    frame::{self, Frame, Malformed, Notification, Params, Request},
    framing,
    id::RequestId,
    json,
    link::CancelFate,
    time::Instant,
};

use super::{
    Era, HttpServer, LinkInput, LinkKey, Question, ReplyKey, SessionKey, Sessions, StreamKey,
    credentials::{Credentials, Unauthorized},
    head::{Head, SESSION},
    joint,
    link::LinkUse,
    refusal::Refusal,
    session::Session,
    stream::{Stream, Waiting},
};
use crate::mirror::{NAMED, tools::Tools};

/// A stateless request that waits until it is known which era the server speaks.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) reply: ReplyKey,
    pub(crate) credentials: Credentials,
    body: Bytes,
    dialect: &'static Dialect,
}

impl Held {
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        size_of::<Self>() + self.bytes()
    }

    fn bytes(&self) -> usize {
        self.body.len() + self.credentials.as_ref().map_or(0, HeaderValue::len)
    }
}

/// The member of `_meta` in which a request declares what its client can do (2026-07-28).
const CAPABILITIES_IN_META: &str = "io.modelcontextprotocol/clientCapabilities";

impl HttpServer {
    pub(crate) fn handle_post(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        head: &Head<'_>,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let frame = frame::parse(body).map_err(|malformed| unreadable(&malformed))?;
        let posted = Posted { credentials: &head.credentials, body, meta: Meta::of(&frame), frame };
        if let Frame::Request(request) = &posted.frame {
            check_names(request, &posted.meta)?;
        }
        if let Some(dialect) = stateless(head, &posted.meta) {
            return self.handle_stateless(now, reply, head, &posted, dialect);
        }
        if let Frame::Request(request) = &posted.frame
            && request.method == HANDSHAKE
        {
            return self.open_session(now, reply, &posted, request);
        }
        let session = self.session(head)?;
        if head.version.is_some_and(|version| Dialect::by_name(&format!("mcp-{version}")).is_none()) {
            let text = "the MCP-Protocol-Version header names no revision that is known here";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        self.handle_in_session(now, reply, session, &posted)
    }

    /// Finds the session that a request names.
    pub(crate) fn session(&self, head: &Head<'_>) -> Result<SessionKey, Refusal> {
        let Some(id) = head.session else {
            let text = "no session: send initialize, and name the session it opens in the header Mcp-Session-Id";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        };
        self.session_ids.get(id).copied().ok_or_else(|| {
            let text = "the session has ended; send initialize for a new one";
            Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, text)
        })
    }

    fn open_session(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        posted: &Posted<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        if let Some(modern_only) = &self.modern_only {
            let answer = modern_only.answer(request);
            if let Some(reply) = self.replies.get_mut(&reply) {
                reply.message(StatusCode::BAD_REQUEST, answer);
            }
            return Ok(());
        }
        if self.is_draining || !self.has_place(now) {
            return Err(self.overloaded("no further session is opened now").of(&request.id));
        }
        if let Some(link) = self.joint.link() {
            self.check_room(link, 1).map_err(|refusal| refusal.of(&request.id))?;
        }
        let Some(id) = self.session_id.take() else {
            return Err(self.overloaded("there is no id for a session").of(&request.id));
        };
        if let (Some(reply), Ok(id)) = (self.replies.get_mut(&reply), HeaderValue::from_str(&id)) {
            reply.add_header(SESSION, id);
        }
        let key = SessionKey(self.allocate_key());
        let link = match self.config.sessions {
            Sessions::OwnLink => {
                self.open_link(now, LinkUse::Session(key), Some(id.clone()), posted.credentials.clone())
            }
            Sessions::SharedLink => self.joint_link(now),
        };
        self.sessions.insert(key, Session::new(id.clone(), link, request.params.raw, now, self.config.seed));
        self.session_ids.insert(id, key);
        self.upkeep.arm(now, key);
        let Some(stream) = self.open_stream(now, reply, key) else { return Ok(()) };
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, stream, posted.body, request, &posted.meta),
            Sessions::SharedLink => self.join(now, link, stream, posted.body, request),
        }
        Ok(())
    }

    fn handle_in_session(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        session_key: SessionKey,
        Posted { credentials, body, frame, meta }: &Posted<'_>,
    ) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&session_key) else { return Ok(()) };
        let (link, dialect) = (session.link, session.dialect());
        self.check_room(link, 0)?;
        self.set_credentials(link, credentials);
        match frame {
            Frame::Request(request) => {
                self.check_room(link, 1).map_err(|refusal| refusal.of(&request.id))?;
                if let Some(stream) = self.open_stream(now, reply, session_key) {
                    self.open_in_session(now, session_key, (link, stream), body, request, meta);
                }
                return Ok(());
            }
            Frame::Batch(batch) => {
                if !dialect.batches {
                    let text = format!("{dialect} has no batches: send one message");
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
                }
                return self.handle_batch(now, reply, session_key, link, batch.members());
            }
            Frame::Notification(notification) => match self.handle_notification(session_key, body, notification) {
                Told::Passed => {}
                Told::Cancel(id) => {
                    self.await_fate(now, reply, link, id);
                    return Ok(());
                }
                Told::CancelOf(fate) => {
                    self.tell_fate(reply, fate);
                    return Ok(());
                }
            },
            Frame::Response(_) => {
                self.pass_response(link, body);
            }
        }
        if let Some(reply) = self.replies.get_mut(&reply) {
            reply.empty(StatusCode::ACCEPTED);
        }
        Ok(())
    }

    /// Takes the members of a batch one by one; the answers to all of its requests come on one stream (MCP-B01).
    fn handle_batch<'a>(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        session: SessionKey,
        link: LinkKey,
        members: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Refusal> {
        let members: Result<Vec<_>, Refusal> = members
            .map(|member| Ok((member, frame::parse_member(member).map_err(|malformed| unreadable(&malformed))?)))
            .collect();
        let members = members?;
        let requests = || {
            members
                .iter()
                .filter_map(|(_, frame)| if let Frame::Request(request) = frame { Some(request) } else { None })
        };
        requests().try_for_each(|request| check_names(request, &Meta::of_params(&request.params)))?;
        self.check_room(link, requests().count())?;
        if requests().next().is_some() && self.replies.get(&reply).is_some_and(|reply| !reply.takes_events) {
            let text = "a batch is answered with text/event-stream, which must be accepted";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, text));
        }
        let mut stream = None;
        for (body, frame) in &members {
            match frame {
                Frame::Request(request) => {
                    stream = stream.or_else(|| self.open_stream(now, reply, session));
                    if let Some(stream) = stream {
                        self.open_in_session(now, session, (link, stream), body, request, &Meta::of(frame));
                    }
                }
                Frame::Notification(notification) => {
                    // Of the members of a batch nothing is told one by one.
                    let _ = self.handle_notification(session, body, notification);
                }
                Frame::Response(_) => self.pass_response(link, body),
                Frame::Batch(_) => {}
            }
        }
        match stream {
            Some(stream) => self.begin(stream),
            None => {
                if let Some(reply) = self.replies.get_mut(&reply) {
                    reply.empty(StatusCode::ACCEPTED);
                }
            }
        }
        Ok(())
    }

    /// Passes on a request of a session's client.
    fn open_in_session(
        &mut self,
        now: Instant,
        session: SessionKey,
        (link, stream): (LinkKey, StreamKey),
        body: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) {
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, stream, body, request, meta),
            Sessions::SharedLink => self.open_joint_request(now, session, (link, stream), body, request, meta),
        }
    }

    /// Passes on what a session's client answers. A program that is shared has asked nothing.
    fn pass_response(&mut self, link: LinkKey, body: &[u8]) {
        match self.config.sessions {
            Sessions::OwnLink => self.push_input(link, LinkInput::Message(line(body, Vec::new()))),
            Sessions::SharedLink => {}
        }
    }

    /// Passes on a notification of a session's client. A cancel names the request as the program knows it (D32).
    fn handle_notification(&mut self, session_key: SessionKey, body: &[u8], notification: &Notification<'_>) -> Told {
        let Some(session) = self.sessions.get(&session_key) else { return Told::Passed };
        let form = session.dialect().cancel;
        let link_key = session.link;
        let is_shared = self.config.sessions == Sessions::SharedLink;
        let is_cancel = notification.method == form.method;
        let raw = notification.params.raw.filter(|_| is_cancel).and_then(|params| json::member(params, form.id));
        let named = raw.and_then(|raw| Some((raw, RequestId::from_json(raw).filter(|id| !id.is_null())?)));
        let mut edits = Vec::new();
        let mut told = Told::Passed;
        if let Some((raw, id)) = named
            && let Some(link) = self.links.get(&link_key)
        {
            let streams = &self.streams;
            let is_of = |stream| {
                let stream = streams.get(&stream).filter(|stream: &&Stream| stream.session() == Some(session_key));
                let waiting = stream.map_or(&[][..], |stream| &stream.waiting);
                waiting.iter().any(|waiting| waiting.client_id == id && waiting.link_id == id)
            };
            match session.id_of(&id, link, is_of) {
                // The program has never seen it.
                Some(known) if self.joint.is_joining(&known) => return Told::CancelOf(CancelFate::Refused),
                Some(known) => {
                    if known != id {
                        edits.extend(frame::span_of(body, raw).map(|span| (span, text(&known))));
                    }
                    told = Told::Cancel(known);
                }
                // Under this id, the program may know another's.
                None if is_shared => return Told::CancelOf(CancelFate::NotFound),
                // It may have overtaken its request (D9); but under this id the program must not know another.
                None if link.requests.contains_key(&id) => return Told::CancelOf(CancelFate::Refused),
                None if session.renamed.contains_key(&id) => return Told::CancelOf(CancelFate::Refused),
                None => told = Told::Cancel(id),
            }
        } else if is_shared && (is_cancel || joint::is_for_nobody(&notification.method)) {
            return if is_cancel { Told::CancelOf(CancelFate::Refused) } else { Told::Passed };
        }
        self.push_input(link_key, LinkInput::Message(line(body, edits)));
        told
    }

    fn handle_stateless(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        head: &Head<'_>,
        posted: &Posted<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        let Posted { credentials, body, frame, meta } = posted;
        if let Era::Legacy = self.shared.era {
            return Err(no_stateless());
        }
        match frame {
            Frame::Request(request) => {
                let link = self.shared.links.get(*credentials).and_then(|link| self.links.get(link));
                check_mirrors(head, request, meta, link.and_then(|link| link.tools.as_deref()))?;
            }
            Frame::Notification(_) => {}
            Frame::Response(_) | Frame::Batch(_) => {
                let text = format!("{dialect} has only single requests and notifications from clients");
                return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
            }
        }
        if let Era::Unknown | Era::Asked(..) = self.shared.era {
            return self.hold(now, reply, credentials, body, dialect);
        }
        self.pass_stateless(now, reply, posted, dialect)
    }

    /// Passes on what belongs to no session, once it is known that the server speaks a revision without.
    fn pass_stateless(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        posted: &Posted<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        match &posted.frame {
            Frame::Request(request) => return self.open_stateless(now, reply, posted, request, dialect),
            // A cancel names a request by an id that others may have, too: here closing the stream cancels (MCP-H05).
            Frame::Notification(notification) if notification.method == dialect.cancel.method => {}
            Frame::Notification(_) => {
                let link = self.stateless_link(now, posted.credentials)?;
                self.check_room(link, 0)?;
                self.push_input(link, LinkInput::Message(line(posted.body, Vec::new())));
            }
            Frame::Response(_) | Frame::Batch(_) => {}
        }
        if let Some(reply) = self.replies.get_mut(&reply) {
            reply.empty(StatusCode::ACCEPTED);
        }
        Ok(())
    }

    fn open_stateless(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        posted: &Posted<'_>,
        request: &Request<'_>,
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        if self.is_draining {
            return Err(self.overloaded("no further request is taken now").of(&request.id));
        }
        let link = self.stateless_link(now, posted.credentials).map_err(|refusal| refusal.of(&request.id))?;
        self.check_room(link, 1).map_err(|refusal| refusal.of(&request.id))?;
        let stream = StreamKey(self.allocate_key());
        self.insert_stream(now, reply, stream, Stream::new(link, dialect, None));
        self.open_request(link, stream, posted.body, request, &posted.meta);
        Ok(())
    }

    /// Lets a stateless request wait until the server has said which era it speaks; it is asked if it was not.
    fn hold(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        credentials: &Credentials,
        body: &[u8],
        dialect: &'static Dialect,
    ) -> Result<(), Refusal> {
        if self.is_draining {
            return Err(self.overloaded("no further request is taken now"));
        }
        if let Era::Unknown = self.shared.era {
            self.ask_era(now, credentials)?;
        }
        let bytes: usize = self.shared.held().iter().map(Held::bytes).sum();
        if bytes + body.len() > self.config.max_input {
            return Err(self.overloaded("the server has not said yet which revision it speaks"));
        }
        if let Era::Asked(question) = &mut self.shared.era {
            question.held.push(Held { reply, credentials: credentials.clone(), body: body.to_vec().into(), dialect });
        }
        Ok(())
    }

    /// Asks the server which era it speaks.
    pub(crate) fn ask_era(&mut self, now: Instant, credentials: &Credentials) -> Result<(), Refusal> {
        let link = self.stateless_link(now, credentials)?;
        let id = self.ask_program(link, "server/discover", |out| out.extend_from_slice(DISCOVER.as_bytes()));
        self.ask.arm(now, link);
        self.shared.era = Era::Asked(Question { link, id, held: Vec::new() });
        Ok(())
    }

    /// The server has said which era it speaks, or will not: what waited for that goes on, or is refused.
    pub(crate) fn learn_era(&mut self, now: Instant, is_modern: bool) {
        let era = if is_modern { Era::Modern } else { Era::Legacy };
        let Era::Asked(question) = core::mem::replace(&mut self.shared.era, era) else { return };
        for held in question.held {
            self.go_on(held.reply, |server| {
                if !is_modern {
                    return Err(no_stateless());
                }
                let frame = frame::parse(&held.body).map_err(|malformed| unreadable(&malformed))?;
                let credentials = &held.credentials;
                let posted = Posted { credentials, body: &held.body, meta: Meta::of(&frame), frame };
                server.pass_stateless(now, held.reply, &posted, held.dialect)
            });
        }
        if !is_modern {
            for link in self.shared.links.values().copied().collect::<Vec<_>>() {
                self.end_link(now, link);
            }
        }
    }

    /// The server did not come to say it: what waited for that is refused, and who comes next asks again.
    pub(crate) fn era_unsaid(&mut self, now: Instant) {
        self.learn_era(now, false);
        self.shared.era = Era::Unknown;
    }

    /// The server will not say it to one who does not sign in. Others may ask.
    pub(crate) fn era_withheld(&mut self, now: Instant, unauthorized: &Unauthorized) {
        let Era::Asked(question) = core::mem::replace(&mut self.shared.era, Era::Unknown) else { return };
        let asked = self.links.get(&question.link).and_then(|link| link.credentials.clone());
        for held in question.held {
            self.go_on(held.reply, |server| {
                if held.credentials != asked {
                    return server.hold(now, held.reply, &held.credentials, &held.body, held.dialect);
                }
                let refusal = unauthorized.refusal();
                Err(match frame::parse(&held.body) {
                    Ok(Frame::Request(request)) => refusal.of(&request.id),
                    Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => refusal,
                })
            });
        }
    }

    /// Goes on with a request that was held.
    fn go_on(&mut self, reply: ReplyKey, how: impl FnOnce(&mut Self) -> Result<(), Refusal>) {
        // Its client may have gone meanwhile.
        if !self.replies.contains_key(&reply) {
            return;
        }
        let done = if self.is_draining { Err(self.overloaded("no further request is taken now")) } else { how(self) };
        if let Err(refusal) = done {
            self.refuse(reply, refusal);
        }
        self.report_reply(reply);
    }

    /// Checks that a link has room for so many requests more.
    pub(crate) fn check_room(&self, link: LinkKey, requests: usize) -> Result<(), Refusal> {
        let Some(link) = self.links.get(&link) else { return Ok(()) };
        if requests > 0 && link.requests.len() + requests > self.config.max_in_flight {
            return Err(self.overloaded("too many requests in flight"));
        }
        if link.input_bytes > self.config.max_input {
            return Err(self.overloaded("the server takes in nothing now"));
        }
        Ok(())
    }

    /// Opens the stream of a response in a session.
    fn open_stream(&mut self, now: Instant, reply: ReplyKey, session: SessionKey) -> Option<StreamKey> {
        let (key, stream) = self.new_stream(session)?;
        self.insert_stream(now, reply, key, stream);
        Some(key)
    }

    /// Keeps a stream, which `reply` carries.
    fn insert_stream(&mut self, now: Instant, reply: ReplyKey, key: StreamKey, stream: Stream) {
        self.streams.insert(key, stream);
        self.attach(reply, key);
        self.arm_undecided(now, key);
    }

    /// Passes a request on to the program, under an id and a progress token that no other has there.
    pub(crate) fn open_request(
        &mut self,
        link: LinkKey,
        stream: StreamKey,
        body: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) {
        if let Some((_, edits)) = self.enter_request(link, stream, body, request, meta) {
            self.push_input(link, LinkInput::Message(line(body, edits)));
        }
    }

    /// Notes that a request is in flight; the id that the program is to know it by, and what makes it that.
    pub(crate) fn enter_request(
        &mut self,
        link: LinkKey,
        stream_key: StreamKey,
        body: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) -> Option<(RequestId, Vec<Edit>)> {
        let (link, stream) = (self.links.get_mut(&link)?, self.streams.get_mut(&stream_key)?);
        let link_id = link.id_for(&request.id);
        let mut edits = Vec::new();
        if link_id != request.id {
            edits.push((request.id_span.clone(), text(&link_id)));
            if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
                session.renamed.entry(request.id.clone()).or_default().push(link_id.clone());
            }
        }
        let token = meta.token().map(|(raw, token)| {
            let known = link.token_for(&token);
            if known != token {
                edits.extend(frame::span_of(body, raw).map(|span| (span, text(&known))));
            }
            link.tokens.insert(known.clone(), stream_key);
            (known, Bytes::copy_from_slice(raw))
        });
        link.requests.insert(link_id.clone(), stream_key);
        let lists_tools = request.method == "tools/list";
        let listens = stream.dialect.subscription.is_some_and(|form| form.method == request.method);
        if stream.waiting.is_empty() {
            // Most have one, and ten thousand of them may be open.
            stream.waiting.reserve_exact(1);
        }
        stream.waiting.push(Waiting {
            client_id: request.id.clone(),
            link_id: link_id.clone(),
            token,
            listens,
            lists_tools,
        });
        Some((link_id, edits))
    }

    /// The dialect that a link speaks now.
    pub(crate) fn dialect(&self, link: LinkUse) -> &'static Dialect {
        match link {
            LinkUse::Session(session) => self.sessions.get(&session).map_or(&mcp::LATEST_LEGACY, Session::dialect),
            LinkUse::Sessions => &mcp::LATEST_LEGACY,
            LinkUse::Stateless => &mcp::LATEST,
        }
    }
}

/// The request that opens a session.
pub(crate) const HANDSHAKE: &str = "initialize";

/// The params of our question which era a server speaks.
const DISCOVER: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"rescind","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""},"io.modelcontextprotocol/clientCapabilities":{}}"#
);

/// What was done with a notification.
#[derive(Debug)]
enum Told {
    /// It was passed on, or is for nobody.
    Passed,
    /// A cancel was passed on, of the request that the program knows by this id.
    Cancel(RequestId),
    /// A cancel was not passed on, and this is all that can be said of it.
    CancelOf(CancelFate),
}

/// A message as it was POSTed.
#[derive(Debug)]
struct Posted<'a> {
    credentials: &'a Credentials,
    body: &'a [u8],
    frame: Frame<'a>,
    meta: Meta<'a>,
}

/// What the `_meta` of a request says, read once.
#[derive(Debug, Default)]
pub(crate) struct Meta<'a> {
    version: Option<Cow<'a, str>>,
    capabilities: Option<&'a [u8]>,
    token: Option<&'a [u8]>,
}

impl<'a> Meta<'a> {
    fn of(frame: &Frame<'a>) -> Self {
        match frame {
            Frame::Request(request) => Self::of_params(&request.params),
            Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => Self::default(),
        }
    }

    fn of_params(params: &Params<'a>) -> Self {
        let mut found = Self::default();
        for member in params.meta.and_then(json::members).into_iter().flatten().map_while(Result::ok) {
            if member.key_is("progressToken") {
                found.token = Some(member.value);
            } else if member.key_is(mcp::VERSION_IN_META) {
                found.version = json::text(member.value);
            } else if member.key_is(CAPABILITIES_IN_META) {
                found.capabilities = Some(member.value);
            }
        }
        found
    }

    /// The dialect that it names. Whether there is a revision of that name, the server says.
    fn dialect(&self) -> Option<&'static Dialect> {
        let version = self.version.as_deref()?;
        Some(mcp::by_version(version).unwrap_or(&mcp::LATEST))
    }

    /// The progress token, also as it stands there.
    fn token(&self) -> Option<(&'a [u8], RequestId)> {
        let raw = self.token?;
        RequestId::from_json(raw).filter(|token| !token.is_null()).map(|token| (raw, token))
    }
}

/// The dialect of a message that belongs to no session, by what it says of itself; `None` if a session is to be looked for.
fn stateless(head: &Head<'_>, meta: &Meta<'_>) -> Option<&'static Dialect> {
    let is_stateless = |dialect: &&Dialect| matches!(dialect.http, Some(HttpForm { sessions: false, .. }));
    // Where only one of them says so, the other is a mismatch.
    meta.dialect().filter(is_stateless).or_else(|| mcp::by_version(head.version?).filter(is_stateless))
}

/// The longest id or progress token of a request, in bytes: the machine keeps several copies of each.
pub(crate) const MAX_NAME: usize = 4096;

/// Checks that a request has an id, and that what is kept of it is not too long.
fn check_names(request: &Request<'_>, meta: &Meta<'_>) -> Result<(), Refusal> {
    let text = if request.id.is_null() {
        "a request id must not be null"
    } else if request.id_span.len() > MAX_NAME || meta.token.is_some_and(|raw| raw.len() > MAX_NAME) {
        "the id or the progress token is too long; the limit is 4096 bytes"
    } else {
        return Ok(());
    };
    Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text))
}

/// Checks that the headers say what the message says (2026-07-28).
fn check_mirrors(
    head: &Head<'_>,
    request: &Request<'_>,
    meta: &Meta<'_>,
    tools: Option<&Tools>,
) -> Result<(), Refusal> {
    let refusal = |code, text: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, code, text).of(&request.id));
    let mismatch = |text: &str| refusal(error_code::HEADER_MISMATCH, text);
    match (head.version, meta.version.as_deref()) {
        (Some(header), Some(body)) if header == body => {}
        (_, None) => return refusal(error_code::INVALID_PARAMS, "`_meta` names no revision"),
        (None, Some(_)) => return mismatch("the header MCP-Protocol-Version is missing"),
        (Some(_), Some(_)) => {
            return mismatch("the header MCP-Protocol-Version is not the revision that `_meta` names");
        }
    }
    if meta.capabilities.is_none() {
        return refusal(error_code::INVALID_PARAMS, "`_meta` does not declare the client's capabilities");
    }
    if head.method != Some(&*request.method) {
        return mismatch("the header Mcp-Method is missing, or not the method of the message");
    }
    if let Some((_, member)) = NAMED.iter().find(|(method, _)| *method == request.method) {
        let raw = match *member {
            "name" => request.params.name,
            member => request.params.raw.and_then(|params| json::member(params, member)),
        };
        let name = raw.and_then(json::text);
        if name.as_deref().is_some_and(|name| !head.names(name)) {
            return mismatch("the header Mcp-Name is missing, or not the name in the message");
        }
        if request.method == "tools/call" {
            let params = tools.map_or(&[][..], |tools| tools.params(name.as_deref().unwrap_or_default()));
            let arguments = request.params.raw.and_then(|params| json::member(params, "arguments"));
            if let Some(param) = params.iter().find(|param| !head.repeats(param, arguments.unwrap_or_default())) {
                return mismatch(&format!(
                    "the header {} is missing, or not the argument in the message",
                    param.header
                ));
            }
        }
    }
    Ok(())
}

/// What a server answers that only knows sessions. Clients of both eras fall back to `initialize`.
fn no_stateless() -> Refusal {
    let text = "no session: this server speaks revisions of MCP that begin with initialize";
    Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text)
}

fn unreadable(malformed: &Malformed) -> Refusal {
    match malformed {
        Malformed::NotJson => Refusal::new(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, "the body is not JSON"),
        Malformed::Invalid { reason, id, .. } => {
            let text = format!("the body is not a message: {}", reason.as_str());
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text);
            id.iter().fold(refusal, Refusal::of)
        }
    }
}

pub(crate) fn text(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    id.write(&mut out);
    out
}

/// A span of a body, and what takes its place.
pub(crate) type Edit = (core::ops::Range<usize>, Vec<u8>);

/// A body as a line, with some of its spans replaced.
pub(crate) fn line(body: &[u8], edits: Vec<Edit>) -> Vec<u8> {
    let mut out = splice(body, edits);
    out.push(b'\n');
    framing::join_lines(&mut out);
    out
}

/// A body with some of its spans replaced.
pub(crate) fn splice(body: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|(span, _)| span.start);
    let mut out = Vec::with_capacity(body.len() + 1 + edits.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut at = 0;
    for (span, text) in edits {
        out.extend_from_slice(&body[at..span.start]);
        out.extend_from_slice(&text);
        at = span.end;
    }
    out.extend_from_slice(&body[at..]);
    out
}
