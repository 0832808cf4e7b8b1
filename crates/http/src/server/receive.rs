//! What clients POST: requests, answers, notifications.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use rescind_proto::{
    dialect::{Dialect, mcp},
    error_code,
    frame::{self, Frame, Notification, Request},
    framing,
    id::RequestId,
    json,
    link::CancelFate,
    time::Instant,
};

use super::{
    HttpServer, LinkInput, LinkKey, ReplyKey, SessionKey, Sessions, StreamKey,
    door::{Head, Holder, Refusal, SESSION},
    joint,
    link::{InputNumber, LinkUse},
    posted::{Edit, Meta, Posted, check_look_alikes, check_names, line, text, unreadable},
    renamed::Known,
    session::{HANDSHAKE, Session},
    stateless,
    stream::{Stream, Waiting},
    task_owners,
};

impl HttpServer {
    pub(crate) fn handle_post(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        head: &Head<'_>,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let body = framing::without_mark(body);
        self.check_batch(body)?;
        let frame = frame::parse(body).map_err(|malformed| unreadable(body, &malformed))?;
        let posted = Posted { asker: &head.asker, body, meta: Meta::of(&frame), frame };
        if let Frame::Request(request) = &posted.frame {
            check_names(request, &posted.meta)?;
        }
        if let Some(dialect) = stateless::dialect_of(head, &posted.meta) {
            return self.handle_stateless(now, reply, head, &posted, dialect);
        }
        if let Frame::Request(request) = &posted.frame
            && request.method == HANDSHAKE
        {
            return self.open_session(now, reply, &posted, request);
        }
        let session = self.session(now, head)?;
        if head.version.is_some_and(|version| mcp::by_date(version).is_none()) {
            let text = "the MCP-Protocol-Version header names no revision that is known here";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        self.handle_in_session(now, reply, session, &posted)
    }

    /// Finds the session that a request names, whose client is heard of. For everybody but its owner there is none.
    pub(crate) fn session(&mut self, now: Instant, head: &Head<'_>) -> Result<SessionKey, Refusal> {
        let Some(id) = head.session else {
            let text = "no session: send initialize, and name the session it opens in the header Mcp-Session-Id";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        };
        let known = self.session_ids.get(id).copied();
        let session = known.and_then(|key| self.sessions.get_mut(&key));
        let session = session.filter(|session| session.owner == head.asker.owner);
        let (Some(key), Some(session)) = (known, session) else {
            let text = "the session has ended; send initialize for a new one";
            return Err(Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, text));
        };
        session.heard = now;
        Ok(key)
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
        if self.is_draining {
            return Err(self.overloaded("no further session is opened now").of(&request.id));
        }
        let holder = self.holder_of(reply);
        let place = self.find_place(now, posted.asker, &holder).map_err(|refusal| refusal.of(&request.id))?;
        if self.config.sessions == Sessions::SharedLink {
            let link = self.joint_link(now);
            self.check_room(now, link, 1).map_err(|refusal| refusal.of(&request.id))?;
        }
        let Some(id) = self.session_id.take() else {
            return Err(self.overloaded("there is no id for a session").of(&request.id));
        };
        self.take_place(now, place);
        if let (Some(reply), Ok(id)) = (self.replies.get_mut(&reply), HeaderValue::from_str(&id)) {
            reply.add_header(SESSION, id);
        }
        let key = SessionKey(self.allocate_key());
        let link = match self.config.sessions {
            Sessions::OwnLink => self.open_link(now, now, LinkUse::Session(key), Some(id.clone()), posted.asker),
            Sessions::SharedLink => self.joint_link(now),
        };
        let owner = posted.asker.owner.clone();
        let session = Session::new(id.clone(), owner, holder, link, request.params.raw, now, self.config.seed);
        self.sessions.insert(key, session);
        self.session_ids.insert(id, key);
        self.timers.upkeep.arm(now, key);
        let Some(stream) = self.open_stream(now, reply, key) else { return Ok(()) };
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, stream, posted.body, request, &posted.meta),
            Sessions::SharedLink => self.join(now, link, stream, posted.body, request),
        }
        Ok(())
    }

    /// Refuses a batch that is too long before all of it is read: that costs others no more than as many members as it
    /// may have.
    fn check_batch(&self, body: &[u8]) -> Result<(), Refusal> {
        let most = self.config.max_batch;
        let mut members = json::elements(body).into_iter().flatten().map_while(Result::ok);
        if members.nth(most).is_none() {
            return Ok(());
        }
        let text = format!("a batch has at most {most} members here: send several");
        Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST, text))
    }

    fn handle_in_session(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        session_key: SessionKey,
        Posted { asker, body, frame, meta }: &Posted<'_>,
    ) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&session_key) else { return Ok(()) };
        let (link, dialect) = (session.link, session.dialect());
        match frame {
            Frame::Request(request) => self.check_room(now, link, 1).map_err(|refusal| refusal.of(&request.id))?,
            Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => self.check_room(now, link, 0)?,
        }
        if self.config.sessions == Sessions::SharedLink {
            match frame {
                Frame::Batch(_) => {}
                Frame::Notification(notification) => self.check_notification(dialect, &notification.method)?,
                Frame::Request(_) | Frame::Response(_) => {}
            }
            check_look_alikes(frame, body)?;
        }
        self.set_credentials(link, &asker.credentials);
        match frame {
            Frame::Request(request) => {
                if let Some(stream) = self.open_stream(now, reply, session_key) {
                    self.open_in_session(session_key, (link, stream), body, request, meta);
                    self.give_own_answers(now);
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
            Frame::Notification(notification) => match self.handle_notification(now, session_key, body, notification) {
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

    /// Checks that a program which several clients share may be sent a notification of one of them: what an unknown one does
    /// there, and to whom, cannot be known (D42).
    pub(crate) fn check_notification(&self, dialect: &Dialect, method: &str) -> Result<(), Refusal> {
        if method == dialect.cancel.method || joint::is_for_nobody(method) || self.passes_notification(method) {
            return Ok(());
        }
        let text = "several clients share this server, and this notification is not one that it may be sent";
        Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::METHOD_NOT_FOUND, text))
    }

    /// Whether a notification of a client is passed on to a program which several share.
    pub(crate) fn passes_notification(&self, method: &str) -> bool {
        method == mcp::ABANDONED || self.config.notifications.iter().any(|known| **known == *method)
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
            .map(|member| {
                Ok((member, frame::parse_member(member).map_err(|malformed| unreadable(member, &malformed))?))
            })
            .collect();
        let members = members?;
        if self.config.sessions == Sessions::SharedLink {
            for (body, frame) in &members {
                check_look_alikes(frame, body)?;
                if let Frame::Notification(notification) = frame {
                    self.check_notification(&mcp::REVISION_2025_03_26, &notification.method)?;
                }
            }
        }
        let requests = || {
            members
                .iter()
                .filter_map(|(_, frame)| if let Frame::Request(request) = frame { Some(request) } else { None })
        };
        requests().try_for_each(|request| check_names(request, &Meta::of_params(&request.params)))?;
        self.check_room(now, link, requests().count())?;
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
                        self.open_in_session(session, (link, stream), body, request, &Meta::of(frame));
                    }
                }
                Frame::Notification(notification) => {
                    // Of the members of a batch nothing is told one by one.
                    let _ = self.handle_notification(now, session, body, notification);
                }
                Frame::Response(_) => self.pass_response(link, body),
                Frame::Batch(_) => {}
            }
        }
        match stream {
            Some(stream) => {
                self.begin(stream);
                self.give_own_answers(now);
            }
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
        session: SessionKey,
        (link, stream): (LinkKey, StreamKey),
        body: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) {
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, stream, body, request, meta),
            Sessions::SharedLink => self.open_joint_request(session, (link, stream), body, request, meta),
        }
    }

    /// Gives the answers of requests that their program is not to see. They come when all that was sent with them is open,
    /// since a stream ends with the last answer that it waits for.
    pub(crate) fn give_own_answers(&mut self, now: Instant) {
        for (link, answer) in core::mem::take(&mut self.own_answers) {
            self.handle_message(now, link, &answer);
        }
    }

    /// Passes on what a session's client answers. A program that is shared has asked nothing.
    fn pass_response(&mut self, link: LinkKey, body: &[u8]) {
        match self.config.sessions {
            Sessions::OwnLink => drop(self.push_input(link, LinkInput::Message(line(body, Vec::new())))),
            Sessions::SharedLink => {}
        }
    }

    /// Passes on a notification of a session's client. A cancel names the request as the program knows it (D32).
    fn handle_notification(
        &mut self,
        now: Instant,
        session_key: SessionKey,
        body: &[u8],
        notification: &Notification<'_>,
    ) -> Told {
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
                None if matches!(session.renamed.of(&id), Known::Several) => {
                    return Told::CancelOf(CancelFate::Refused);
                }
                None => told = Told::Cancel(id),
            }
        } else if is_shared && (is_cancel || joint::is_for_nobody(&notification.method)) {
            return if is_cancel { Told::CancelOf(CancelFate::Refused) } else { Told::Passed };
        }
        let input = LinkInput::Message(line(body, edits));
        let Told::Cancel(id) = &told else {
            self.push_input(link_key, input);
            return told;
        };
        match self.take_place_of(link_key, id) {
            Some(number) if self.withdraw(link_key, number) => {
                self.handle_settled(now, link_key, id);
                return Told::CancelOf(CancelFate::Stopped);
            }
            Some(_) => self.push_cancel(link_key, input),
            None => drop(self.push_input(link_key, input)),
        }
        told
    }

    /// The place of a request in flight among what its program is to take; none for a second cancel, which is in no hurry.
    fn take_place_of(&mut self, link: LinkKey, id: &RequestId) -> Option<InputNumber> {
        let stream = self.links.get(&link)?.requests.get(id)?;
        let waiting = &mut self.streams.get_mut(stream)?.waiting;
        waiting.iter_mut().find(|waiting| waiting.link_id == *id)?.input.take()
    }

    /// Checks that a link has room for so many requests more.
    pub(crate) fn check_room(&self, now: Instant, link: LinkKey, requests: usize) -> Result<(), Refusal> {
        self.starts.check(now, link)?;
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
    pub(crate) fn insert_stream(&mut self, now: Instant, reply: ReplyKey, key: StreamKey, stream: Stream) {
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
        let Some((_, edits)) = self.enter_request(link, stream, body, request, meta) else { return };
        let reply = self.streams.get(&stream).and_then(|stream| self.replies.get(&stream.reply?));
        let caller = reply.and_then(|reply| reply.caller.clone());
        let caller = match self.client_on(link, stream, meta) {
            Some(client) => Some(caller.unwrap_or_default().counted_for(client)),
            None => caller,
        };
        let line = line(body, edits);
        let number = self.push_input(
            link,
            match caller {
                Some(caller) => LinkInput::Request(line, caller),
                None => LinkInput::Message(line),
            },
        );
        if let Some(stream) = self.streams.get_mut(&stream)
            && request.method != HANDSHAKE
            && let Some(waiting) = stream.waiting.last_mut()
        {
            waiting.input = number;
        }
    }

    /// The client that a request on a link is counted for, where several share its program; `None` where it has one client
    /// alone. Where neither its owner, its address nor its connection tells it apart, its session does, or else the name that
    /// it gives itself: such a name is good enough among programs of one machine, and those who lie gain what they would
    /// have without names.
    fn client_on(&self, link: LinkKey, stream: StreamKey, meta: &Meta<'_>) -> Option<Holder> {
        let stream = self.streams.get(&stream)?;
        match self.links.get(&link)?.serves {
            LinkUse::Session(_) => return None,
            // It has a program of its own.
            LinkUse::Stateless if self.config.parts_people() => return Some(Holder::Anyone),
            LinkUse::Stateless | LinkUse::Sessions => {}
        }
        let known = stream.reply.and_then(|reply| self.replies.get(&reply)).map(|reply| reply.client.clone());
        Some(known.filter(|known| *known != Holder::Anyone).unwrap_or_else(|| match stream.session() {
            Some(SessionKey(session)) => Holder::Session(session.get()),
            None => meta.client_name().map_or(Holder::Anyone, |name| Holder::Name(name.into())),
        }))
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
        let mut edits: Vec<Edit> = self.unmark_state(body, request.params.raw).into_iter().collect();
        let (link, stream) = (self.links.get_mut(&link)?, self.streams.get_mut(&stream_key)?);
        let link_id = link.id_for(&request.id);
        if link_id != request.id {
            edits.push((request.id_span.clone(), text(&link_id)));
            if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
                session.renamed.insert(&request.id, &link_id);
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
        let lists_tasks = request.method == task_owners::LIST;
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
            lists_tasks,
            input: None,
        });
        Some((link_id, edits))
    }

    /// The dialect that a link speaks now.
    pub(crate) fn dialect(&self, link: LinkUse) -> &'static Dialect {
        match link {
            LinkUse::Session(session) => self.sessions.get(&session).map_or(&mcp::LATEST_LEGACY, Session::dialect),
            LinkUse::Sessions => &mcp::LATEST_LEGACY,
            LinkUse::Stateless => &mcp::LATEST_STATELESS,
        }
    }
}

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
