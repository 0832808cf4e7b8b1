//! What clients POST: requests, answers, notifications.

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
    calls::{Meant, Way},
    door::{Asker, Head, Refusal, SESSION},
    here::{Here, Later},
    joint,
    link::{LinkUse, Urgency},
    opening::Opening,
    posted::{Meta, Posted, check_look_alikes, check_names, line, text, unreadable},
    stateless,
    streams::{HANDSHAKE, Reply, Session, Stream},
    timers::Timer,
};

impl HttpServer {
    pub(crate) fn handle_post(
        &mut self,
        now: Instant,
        reply: (ReplyKey, &mut Reply),
        head: &Head<'_>,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let body = framing::without_mark(body);
        check_batch(body, self.config.max_batch)?;
        let frame = frame::parse(body).map_err(|malformed| unreadable(body, &malformed))?;
        let posted = Posted { asker: &head.asker, body, meta: Meta::of(&frame), frame };
        if let Frame::Request(request) = &posted.frame {
            check_names(request, &posted.meta)?;
        }
        if head.must_be_brief {
            check_brief(&posted.frame)?;
        }
        if let Some(dialect) = stateless::dialect_of(head, &posted.meta) {
            return self.handle_stateless(now, reply, head, &posted, dialect);
        }
        match &posted.frame {
            Frame::Request(request) if request.method == HANDSHAKE => self.open_session(now, reply, &posted, request),
            Frame::Request(request) => self.open_in_session(now, reply, head, &posted, request),
            Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_) => {
                let (session, _) = self.streams.named(now, head)?;
                check_version(head)?;
                self.handle_in_session(now, reply, session, &posted)
            }
        }
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
        let mut here = self.task_owners.answer(asker.owner.as_ref(), request);
        let stream_key = StreamKey(self.streams.allocate_key());
        let (session_key, mut session) = self.streams.named(now, head)?;
        check_version(head)?;
        let link_key = session.link;
        let room = self.programs.with_room(&self.config, now, link_key, 1);
        let (link, events) = room.map_err(|refusal| refusal.of(&request.id))?;
        if is_shared {
            check_look_alikes(frame, body)?;
        }
        link.set_credentials(stream_key.0, &asker.credentials);
        if is_shared && joint::is_noted(&request.method) {
            link.note_level(request);
            here = self.streams.subscribe(session_key, request).or(here);
            let Some(again) = self.streams.sessions.get_mut(&session_key) else { return Ok(()) };
            session = again;
        }
        let mut stream = session.new_stream(session_key, stream_key);
        session.answer_by(session_key, reply);
        stream.answer_by(stream_key, key, reply);
        self.timers.arm(now, self.config.first_timer(stream_key, link.is_proved));
        let opening = Opening { stream_key, stream: &mut stream, body, request, meta };
        let answer = opening.open(link, reply, &self.config, here);
        link.report(link_key, events);
        self.later.extend(answer.map(|answer| Later::Answer(link_key, answer)));
        self.streams.streams.insert(stream_key, stream);
        Ok(())
    }

    fn open_session(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        posted: &Posted<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let Posted { asker, body, meta, .. } = posted;
        if let Some(modern_only) = &self.programs.modern_only {
            reply.message(StatusCode::BAD_REQUEST, modern_only.answer(request));
            return Ok(());
        }
        let overloaded = |text: &str| Err(Refusal::overloaded(text).of(&request.id));
        if self.is_draining {
            return overloaded("no further session is opened now");
        }
        let place = self.find_place(now, asker, &reply.holder).map_err(|refusal| refusal.of(&request.id))?;
        if self.config.sessions == Sessions::SharedLink {
            let link = self.programs.joint_link(now, self.streams.allocate_key());
            let room = self.programs.with_room(&self.config, now, link, 1);
            room.map_err(|refusal| refusal.of(&request.id))?;
        }
        let Some(id) = self.session_id.take() else { return overloaded("there is no id for a session") };
        self.take_place(now, place);
        if let Ok(id) = HeaderValue::from_str(&id) {
            reply.add_header(SESSION, id);
        }
        let session_key = SessionKey(self.streams.allocate_key());
        let link = match self.config.sessions {
            Sessions::OwnLink => {
                let key = self.streams.allocate_key();
                self.programs.open(now, key, LinkUse::Session(session_key), Some(id.clone()), asker)
            }
            Sessions::SharedLink => self.programs.joint_link(now, self.streams.allocate_key()),
        };
        let (owner, holder) = (asker.owner.clone(), reply.holder.clone());
        let mut session = Session::new(id, owner, holder, link, request.params.raw, now);
        let stream_key = StreamKey(self.streams.allocate_key());
        let mut stream = session.new_stream(session_key, stream_key);
        session.answer_by(session_key, reply);
        stream.answer_by(stream_key, key, reply);
        self.streams.insert_session(session_key, session);
        self.timers.arm(now, Timer::Session(session_key));
        self.timers.arm(now, self.config.first_timer(stream_key, false));
        let opening = Opening { stream_key, stream: &mut stream, body, request, meta };
        match self.config.sessions {
            Sessions::OwnLink => self.open_request(link, opening, reply, None),
            Sessions::SharedLink => self.join(link, opening),
        }
        self.streams.streams.insert(stream_key, stream);
        Ok(())
    }

    fn handle_in_session(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        session_key: SessionKey,
        posted: &Posted<'_>,
    ) -> Result<(), Refusal> {
        let Posted { asker, body, frame, meta: _ } = posted;
        let Some(session) = self.streams.sessions.get(&session_key) else { return Ok(()) };
        let (link, dialect) = (session.link, session.dialect());
        self.programs.with_room(&self.config, now, link, 0)?;
        if self.config.sessions == Sessions::SharedLink {
            if let Frame::Notification(notification) = frame {
                joint::check_notification(&self.config, dialect, &notification.method)?;
            }
            check_look_alikes(frame, body)?;
        }
        let since = self.streams.allocate_key();
        self.programs.set_credentials(link, since, &asker.credentials);
        match frame {
            // It is opened at once.
            Frame::Request(_) => {}
            Frame::Batch(batch) => {
                if !dialect.batches {
                    let text = format!("{dialect} has no batches: send one message");
                    return Err(Refusal::invalid(text));
                }
                return self.handle_batch(now, (key, reply), (session_key, link), asker, batch.members());
            }
            Frame::Notification(notification) => match self.handle_notification(session_key, body, notification) {
                Told::Passed => {}
                Told::Cancel(id) => {
                    self.streams.await_fate(key, reply, link, id);
                    self.timers.arm(now, Timer::Fate(key));
                    return Ok(());
                }
                Told::CancelOf(fate) => {
                    reply.tell_fate(fate);
                    return Ok(());
                }
            },
            // A program that is shared has asked nothing.
            Frame::Response(_) if self.config.sessions == Sessions::SharedLink => {}
            Frame::Response(_) => {
                self.programs.push(link, Urgency::Ordinary, LinkInput::Message(line(body, Vec::new())));
            }
        }
        reply.empty(StatusCode::ACCEPTED);
        Ok(())
    }

    /// Takes the members of a batch one by one; the answers to all of its requests come on one stream (MCP-B01).
    fn handle_batch<'a>(
        &mut self,
        now: Instant,
        (key, reply): (ReplyKey, &mut Reply),
        (session_key, link): (SessionKey, LinkKey),
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
                    joint::check_notification(&self.config, &mcp::REVISION_2025_03_26, &notification.method)?;
                }
            }
        }
        let requests = || {
            members
                .iter()
                .filter_map(|(_, frame)| if let Frame::Request(request) = frame { Some(request) } else { None })
        };
        requests().try_for_each(|request| check_names(request, &Meta::of_params(&request.params)))?;
        self.programs.with_room(&self.config, now, link, requests().count())?;
        if requests().next().is_some() && !reply.takes_events {
            let text = "a batch is answered with text/event-stream, which must be accepted";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, text));
        }
        let stream_key = StreamKey(self.streams.allocate_key());
        let mut stream = None;
        for (body, frame) in &members {
            match frame {
                Frame::Request(request) => {
                    let Some(session) = self.streams.sessions.get_mut(&session_key) else { break };
                    let stream = stream.get_or_insert_with(|| {
                        session.answer_by(session_key, reply);
                        let mut stream = session.new_stream(session_key, stream_key);
                        stream.answer_by(stream_key, key, reply);
                        stream
                    });
                    let is_shared = self.config.sessions == Sessions::SharedLink;
                    let mut here = None;
                    if is_shared {
                        self.programs.links.get_mut(&link).into_iter().for_each(|link| link.note_level(request));
                        let noted = self.streams.subscribe(session_key, request);
                        here = noted.or_else(|| self.task_owners.answer(asker.owner.as_ref(), request));
                    }
                    let meta = &Meta::of(frame);
                    let opening = Opening { stream_key, stream, body, request, meta };
                    self.open_request(link, opening, reply, here);
                }
                Frame::Notification(notification) => {
                    // Of the members of a batch nothing is told one by one.
                    let _ = self.handle_notification(session_key, body, notification);
                }
                // A program that is shared has asked nothing.
                Frame::Response(_) if self.config.sessions == Sessions::SharedLink => {}
                Frame::Response(_) => {
                    self.programs.push(link, Urgency::Ordinary, LinkInput::Message(line(body, Vec::new())));
                }
                Frame::Batch(_) => {}
            }
        }
        match stream {
            Some(stream) => {
                reply.begin();
                let has_primer = stream.has_primer();
                self.streams.streams.insert(stream_key, stream);
                if has_primer {
                    self.streams.change(stream_key, Stream::prime);
                }
            }
            None => reply.empty(StatusCode::ACCEPTED),
        }
        Ok(())
    }

    /// Does what had to wait until all that was sent with it is open.
    pub(crate) fn do_later(&mut self, now: Instant) {
        for later in core::mem::take(&mut self.later) {
            match later {
                Later::Answer(link, answer) => self.handle_message(now, link, &answer),
                Later::Settle(link, id) => self.handle_settled(now, link, &id),
            }
        }
    }

    /// Passes on a notification of a session's client. A cancel names the request as the program knows it (D32).
    fn handle_notification(&mut self, session_key: SessionKey, body: &[u8], notification: &Notification<'_>) -> Told {
        let Some(session) = self.streams.sessions.get(&session_key) else { return Told::Passed };
        let form = session.dialect().cancel;
        let link_key = session.link;
        let is_shared = self.config.sessions == Sessions::SharedLink;
        let is_cancel = notification.method == form.method;
        let raw = notification.params.raw.filter(|_| is_cancel).and_then(|params| json::member(params, form.id));
        let named = raw.and_then(|raw| Some((raw, RequestId::from_json(raw).filter(|id| !id.is_null())?)));
        let mut edits = Vec::new();
        let (mut told, mut is_urgent) = (Told::Passed, false);
        if let Some((raw, id)) = named
            && let Some(link) = self.programs.links.get_mut(&link_key)
        {
            match link.calls.named(session_key, &id) {
                Meant::Only(key) => {
                    let Some(call) = link.calls.get(key) else { return Told::Passed };
                    let (way, link_id) = (call.way, call.link_id.clone());
                    let (now, fate) = match way {
                        // The program never sees it.
                        Way::Joining(_) | Way::Here => (way, Some(CancelFate::Refused)),
                        Way::Queued(number) if link.withdraw(number) => {
                            self.later.push(Later::Settle(link_key, link_id.clone()));
                            (Way::Here, Some(CancelFate::Stopped))
                        }
                        // A second cancel is in no hurry.
                        Way::Queued(_) | Way::Passed => (Way::Passed, None),
                    };
                    if let Some(call) = link.calls.get_mut(key) {
                        call.way = now;
                    }
                    if let Some(fate) = fate {
                        return Told::CancelOf(fate);
                    }
                    is_urgent = matches!(way, Way::Queued(_));
                    if link_id != id {
                        edits.extend(frame::span_of(body, raw).map(|span| (span, text(&link_id))));
                    }
                    told = Told::Cancel(link_id);
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
        let urgency = if is_urgent { self.programs.of_cancels() } else { Urgency::Ordinary };
        self.programs.push(link_key, urgency, input);
        told
    }

    /// Passes a request on to the program; or enters it, to be answered [here](Later::Answer).
    fn open_request(&mut self, link_key: LinkKey, opening: Opening<'_>, reply: &Reply, here: Option<Here>) {
        let Some(link) = self.programs.links.get_mut(&link_key) else { return };
        let answer = opening.open(link, reply, &self.config, here);
        link.report(link_key, &mut self.programs.events);
        self.later.extend(answer.map(|answer| Later::Answer(link_key, answer)));
    }
}

/// Refuses a batch that is too long before all of it is read: that costs others no more than as many members as it
/// may have.
fn check_batch(body: &[u8], most: usize) -> Result<(), Refusal> {
    let mut members = json::elements(body).into_iter().flatten().map_while(Result::ok);
    if members.nth(most).is_none() {
        return Ok(());
    }
    let text = format!("a batch has at most {most} members here: send several");
    Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST, text))
}

/// Refuses what may take long, on one of the connections that are kept for the rest.
fn check_brief(frame: &Frame<'_>) -> Result<(), Refusal> {
    match frame {
        Frame::Notification(_) | Frame::Response(_) => Ok(()),
        Frame::Request(request) if cancels_task(&request.method) => Ok(()),
        Frame::Request(request) => Err(Refusal::all_are_answering().of(&request.id)),
        Frame::Batch(_) => Err(Refusal::all_are_answering()),
    }
}

fn cancels_task(method: &str) -> bool {
    Dialect::ALL.iter().any(|dialect| dialect.tasks.is_some_and(|form| form.cancel == method))
}

/// Checks that the revision is known which the header of a request in a session names.
fn check_version(head: &Head<'_>) -> Result<(), Refusal> {
    if head.version.is_none_or(|version| mcp::by_date(version).is_some()) {
        return Ok(());
    }
    let text = "the MCP-Protocol-Version header names no revision that is known here";
    Err(Refusal::invalid(text))
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
