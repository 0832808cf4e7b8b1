//! What clients POST: requests, answers, notifications.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
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
    HttpServer, LinkInput, LinkKey, PoolMember, ReplyKey, SessionKey, Sessions, StreamKey, allocate_key,
    calls::{Meant, Way},
    door::{Asker, Head, Refusal, SESSION},
    joint,
    keyed::Keyed,
    link::LinkUse,
    opening::{Here, Opening, check_room},
    posted::{Edit, Meta, Posted, check_look_alikes, check_names, line, text, unreadable},
    reply::Reply,
    session::{HANDSHAKE, Session},
    stateless,
};

impl HttpServer {
    pub(crate) fn handle_post(
        &mut self,
        now: Instant,
        key: ReplyKey,
        reply: &mut Option<Reply>,
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
            return reply
                .as_mut()
                .map_or(Ok(()), |reply| self.handle_stateless(now, (key, reply), head, &posted, dialect));
        }
        if let Frame::Request(request) = &posted.frame
            && request.method != HANDSHAKE
        {
            return reply
                .as_mut()
                .map_or(Ok(()), |reply| self.open_in_session(now, (key, reply), head, &posted, request));
        }
        // What may be answered while it is taken in finds its response in its place.
        if let Some(reply) = reply.take() {
            self.replies.insert(key, reply);
        }
        if let Frame::Request(request) = &posted.frame {
            return self.open_session(now, key, &posted, request);
        }
        let session = self.session(now, head)?;
        check_version(head)?;
        self.handle_in_session(now, key, session, &posted)
    }

    /// Finds the session that a request names, whose client is heard of. For everybody but its owner there is none.
    pub(crate) fn session(&mut self, now: Instant, head: &Head<'_>) -> Result<SessionKey, Refusal> {
        named(&self.session_ids, &mut self.sessions, now, head).map(|(key, _)| key)
    }

    /// Opens a request of a session's client, whose answer `reply` carries. All that it touches is looked up once.
    fn open_in_session(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        head: &Head<'_>,
        posted: &Posted<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let Posted { asker, body, frame, meta } = posted;
        let is_shared = self.config.sessions == Sessions::SharedLink;
        let edits = self.unmarked(body, request.params.raw);
        let mut here = if is_shared { self.here(asker, request) } else { None };
        let (session_key, mut session) = named(&self.session_ids, &mut self.sessions, now, head)?;
        check_version(head)?;
        let link_key = session.link;
        let Some(mut link) = self.links.get_mut(&link_key) else { return Ok(()) };
        check_room(&self.config, &self.starts, now, (link_key, link), 1).map_err(|refusal| refusal.of(&request.id))?;
        if is_shared {
            check_look_alikes(frame, body)?;
        }
        if link.credentials != asker.credentials || is_shared && joint::is_noted(&request.method) {
            self.set_credentials(link_key, &asker.credentials);
            if is_shared {
                here = self.note_for_session(session_key, request).or(here);
            }
            let again = self.sessions.get_mut(&session_key).zip(self.links.get_mut(&link_key));
            (session, link) = again.ok_or_else(no_session)?;
        }
        let stream_key = StreamKey(allocate_key(&mut self.next_key));
        let mut stream = session.new_stream(session_key, stream_key);
        stream.answer_by(stream_key, key, reply);
        (session.replies, reply.session) = (session.replies + 1, Some(session_key));
        let is_proved = !self.config.passes_credentials() || link.is_proved;
        if is_proved { &mut self.timers.undecided } else { &mut self.timers.unproved }.arm(now, stream_key);
        let opening = Opening { stream_key, stream: &mut stream, body, request, meta, edits };
        let answer = opening.open(link, Some(reply), self.config.parts_people(), here);
        link.report(link_key, &mut self.events);
        self.own_answers.extend(answer.map(|answer| (link_key, answer)));
        self.streams.insert(stream_key, stream);
        Ok(())
    }

    /// What of a message its program is not to see.
    pub(crate) fn unmarked(&self, body: &[u8], params: Option<&[u8]>) -> Vec<Edit> {
        let unmarked = self.config.pool_member.and_then(|_| PoolMember::unmark_state(body, params));
        unmarked.into_iter().collect()
    }

    /// What answers a request in place of a program that serves several owners: one about another's task is answered as one
    /// that does not exist (TASK-07).
    pub(crate) fn here(&self, asker: &Asker, request: &Request<'_>) -> Option<Here> {
        let may_ask = !self.serves_owners_together() || self.task_owners.may_ask(asker.owner.as_ref(), request);
        (!may_ask).then_some(Here::UnknownTask)
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
        let session = Session::new(id.clone(), owner, holder, link, request.params.raw, now);
        self.sessions.insert(key, session);
        self.session_ids.insert(id, key);
        self.timers.upkeep.arm(now, key);
        let Some(stream) = self.open_stream(now, reply, key) else { return Ok(()) };
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, stream, (posted.body, request, &posted.meta), None),
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
        Posted { asker, body, frame, meta: _ }: &Posted<'_>,
    ) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&session_key) else { return Ok(()) };
        let (link, dialect) = (session.link, session.dialect());
        self.check_room(now, link, 0)?;
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
            // It is opened at once.
            Frame::Request(_) => {}
            Frame::Batch(batch) => {
                if !dialect.batches {
                    let text = format!("{dialect} has no batches: send one message");
                    return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
                }
                return self.handle_batch(now, reply, (session_key, link), asker, batch.members());
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
        (session, link): (SessionKey, LinkKey),
        asker: &Asker,
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
                    let is_shared = self.config.sessions == Sessions::SharedLink;
                    let here = if is_shared { self.note_for_session(session, request) } else { None };
                    let here = here.or_else(|| self.here(asker, request).filter(|_| is_shared));
                    if let Some(stream) = stream {
                        self.open_request(link, stream, (body, request, &Meta::of(frame)), here);
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
            Sessions::OwnLink => self.push_input(link, LinkInput::Message(line(body, Vec::new()))),
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
        let (mut told, mut way) = (Told::Passed, Way::Passed);
        if let Some((raw, id)) = named
            && let Some(link) = self.links.get_mut(&link_key)
        {
            match link.calls.named(session_key, &id) {
                Meant::Only(key) => {
                    let Some(call) = link.calls.get_mut(key) else { return Told::Passed };
                    if call.link_id != id {
                        edits.extend(frame::span_of(body, raw).map(|span| (span, text(&call.link_id))));
                    }
                    told = Told::Cancel(call.link_id.clone());
                    // A second cancel is in no hurry.
                    way = core::mem::replace(&mut call.way, Way::Passed);
                    if let Way::Joining(_) = way {
                        // The program has never seen it.
                        call.way = way;
                        return Told::CancelOf(CancelFate::Refused);
                    }
                }
                // Under this id, the program may know another's.
                Meant::Nothing | Meant::Several if is_shared => return Told::CancelOf(CancelFate::NotFound),
                Meant::Several => return Told::CancelOf(CancelFate::Refused),
                // It may have overtaken its request (D9); but under this id the program must not know another.
                Meant::Nothing if link.calls.by_id(&id).is_some() => return Told::CancelOf(CancelFate::Refused),
                Meant::Nothing => told = Told::Cancel(id),
            }
        } else if is_shared && (is_cancel || joint::is_for_nobody(&notification.method)) {
            return if is_cancel { Told::CancelOf(CancelFate::Refused) } else { Told::Passed };
        }
        let input = LinkInput::Message(line(body, edits));
        let Told::Cancel(id) = &told else {
            self.push_input(link_key, input);
            return told;
        };
        match way {
            Way::Queued(number) if self.links.get_mut(&link_key).is_some_and(|link| link.withdraw(number)) => {
                self.handle_settled(now, link_key, id);
                return Told::CancelOf(CancelFate::Stopped);
            }
            Way::Queued(_) => self.push_cancel(link_key, input),
            Way::Passed | Way::Here | Way::Joining(_) => self.push_input(link_key, input),
        }
        told
    }

    /// Checks that a link has room for so many requests more.
    pub(crate) fn check_room(&self, now: Instant, key: LinkKey, requests: usize) -> Result<(), Refusal> {
        let Some(link) = self.links.get(&key) else { return self.starts.check(now, key) };
        check_room(&self.config, &self.starts, now, (key, link), requests)
    }

    /// Opens the stream of a response in a session.
    fn open_stream(&mut self, now: Instant, reply: ReplyKey, session: SessionKey) -> Option<StreamKey> {
        let (key, stream) = self.new_stream(session)?;
        self.streams.insert(key, stream);
        self.attach(reply, key);
        self.arm_undecided(now, key);
        Some(key)
    }

    /// Passes a request on to the program, on a stream that is open; or enters it, to be answered
    /// [here](Self::give_own_answers).
    fn open_request(
        &mut self,
        link_key: LinkKey,
        stream_key: StreamKey,
        (body, request, meta): (&[u8], &Request<'_>, &Meta<'_>),
        here: Option<Here>,
    ) {
        let edits = self.unmarked(body, request.params.raw);
        let Some(link) = self.links.get_mut(&link_key) else { return };
        let Some(stream) = self.streams.get_mut(&stream_key) else { return };
        let reply = stream.reply.and_then(|reply| self.replies.get(&reply));
        let opening = Opening { stream_key, stream, body, request, meta, edits };
        let answer = opening.open(link, reply, self.config.parts_people(), here);
        link.report(link_key, &mut self.events);
        self.own_answers.extend(answer.map(|answer| (link_key, answer)));
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

/// Finds the session that a request names, whose client is heard of. For everybody but its owner there is none.
fn named<'a>(
    ids: &Keyed<HashMap<Box<str>, SessionKey, FixedState>>,
    sessions: &'a mut Keyed<BTreeMap<SessionKey, Session>>,
    now: Instant,
    head: &Head<'_>,
) -> Result<(SessionKey, &'a mut Session), Refusal> {
    let Some(id) = head.session else {
        let text = "no session: send initialize, and name the session it opens in the header Mcp-Session-Id";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
    };
    let known = ids.get(id).copied().and_then(|key| Some((key, sessions.get_mut(&key)?)));
    let (key, session) = known.filter(|(_, session)| session.owner == head.asker.owner).ok_or_else(no_session)?;
    session.heard = now;
    Ok((key, session))
}

fn no_session() -> Refusal {
    let text = "the session has ended; send initialize for a new one";
    Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, text)
}

/// Checks that the revision is known which the header of a request in a session names.
fn check_version(head: &Head<'_>) -> Result<(), Refusal> {
    if head.version.is_none_or(|version| mcp::by_date(version).is_some()) {
        return Ok(());
    }
    let text = "the MCP-Protocol-Version header names no revision that is known here";
    Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text))
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
