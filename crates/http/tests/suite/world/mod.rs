//! Clients before an HTTP server, programs behind it, and a network between them that drops what it wants.
//!
//! Clients and programs do whatever their wires let them do, right or wrong: they use ids again, cancel what is over,
//! answer twice. What a response brings waits on a wire of its own, and is read or lost.

#![allow(clippy::allow_attributes, reason = "the fuzz target, which has this module too, uses less of it")]
#![allow(dead_code, reason = "the fuzz target, which has this module too, uses less of it")]

mod model;
pub(crate) mod scene;
mod text;

use core::{hash::Hash, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use http::{Method, Request, Response};
use rescind_http::server::{
    BodyChunk, ClientAddress, HttpServer, HttpServerEvent, LinkInput, LinkKey, ReplyBody, ReplyKey, Sessions,
};
use rescind_proto::{id::RequestId, link::CancelFate, time::Instant};
use rescind_testkit::sim::{
    digest::Digest,
    world::{Broken, Transcript, World},
};
use rescind_testkit::valid::{self, Protocol};

use model::{AskState, Era, Model, PEOPLE, Return, Verdict, broken};
use scene::{Kind, LONG, SHORT, Scene};

/// One thing that can happen around a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client posts a request under the id of this place in the scene, or a batch.
    Ask(u8, u8),
    /// A client posts a cancel of an id.
    Cancel(u8, u8),
    /// What there is of a response goes onto its wire.
    Write(u16),
    /// … and its client reads it at once.
    Take(u16),
    /// A client reads the next of a response, or all that is on its wire.
    Read(u16, bool),
    /// A response breaks; the server notices.
    Break(u16),
    /// A client comes back to a stream.
    Return(u16),
    /// A client listens.
    Listen(u8),
    /// A client deletes its session.
    Delete(u8),
    /// A client whose session is over opens another.
    Open(u8),
    /// A client signs in as another person.
    SignIn(u8),
    /// A program answers a request.
    Answer(u8),
    /// A program reports progress, or says something on a subscription.
    Report(u8),
    /// A cancel was passed on, and the request will not be answered; or a program ends a subscription.
    Settle(u8),
    /// A program says something that belongs to no request.
    Plain(u8),
    /// A program says which era it speaks.
    Discover(bool),
    /// A program ends.
    Close(u8),
    /// Time passes.
    Wait(bool),
}

/// A response on its way.
#[derive(Clone, Debug, Hash)]
struct Reply {
    key: ReplyKey,
    source: Source,
    has_head: bool,
    /// The machine has reported that there is something.
    is_ready: bool,
    /// All of it is on the wire.
    is_finished: bool,
    /// Its client still reads it.
    is_read: bool,
    /// The server has given it up.
    is_cut: bool,
    wire: VecDeque<Item>,
}

/// What a response brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The answer to a request.
    Ask(usize),
    /// A stream that is resumed, or listens.
    Stream(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    Head(u16),
    Whole(u16, String),
    Event(Option<String>, String),
    End,
}

/// A server between simulated clients and programs.
#[derive(Clone, Debug)]
pub(crate) struct HttpWorld {
    scene: Arc<Scene>,
    server: HttpServer,
    now: Instant,
    model: Model,
    replies: BTreeMap<u16, Reply>,
    next_reply: u16,
    sessions: usize,
    /// Short and long times that have passed.
    waits: (usize, usize),
    transcript: Transcript,
}

impl HttpWorld {
    /// The scene before anything has happened, its sessions opened.
    pub(crate) fn new(scene: Scene) -> Self {
        let scene = Arc::new(scene);
        let mut world = Self {
            server: HttpServer::new(scene.config.clone()),
            now: Instant::ORIGIN,
            model: Model::new(Arc::clone(&scene)),
            scene,
            replies: BTreeMap::new(),
            next_reply: 0,
            sessions: 0,
            waits: (0, 0),
            transcript: Transcript::default(),
        };
        for client in 0..world.scene.clients.len() {
            world.open(client);
        }
        world
    }

    /// Opens a session for a client that has sessions.
    fn open(&mut self, client: usize) {
        let Kind::Session(revision) = self.scene.clients[client] else { return };
        self.sessions += 1;
        let session = format!("s{}", self.sessions);
        self.server.supply_session_id(session.clone());
        let key = self.request(client, &Method::POST, &[], &text::handshake(revision));
        let joint = self.model.joint_link();
        let mut link = joint.and_then(|joint| self.model.links[joint].key);
        while let Some(event) = self.server.poll_event() {
            if let HttpServerEvent::Opened { link: opened, .. } = event {
                link = Some(opened);
            }
        }
        let link = link.expect("a handshake opens a session");
        let is_shared = self.scene.config.sessions == Sessions::SharedLink;
        while let Some(input) = self.server.poll_input(link) {
            let (LinkInput::Message(asked) | LinkInput::Request(asked, _)) = input else { continue };
            let asked = String::from_utf8_lossy(&asked).into_owned();
            let agreed = if is_shared { "2025-11-25" } else { revision };
            let answer = text::id(&asked).map(|id| text::handshake_answer(id, agreed));
            let Some(answer) = answer else { continue };
            self.server.handle_message(self.now, link, answer.as_bytes());
        }
        let answer = self.server.poll_head(self.now, key).expect("a handshake is answered at once");
        assert_eq!(answer.headers().get("mcp-session-id").map(http::HeaderValue::as_bytes), Some(session.as_bytes()));
        while self.server.poll_event().is_some() {}
        let link = if is_shared {
            let joint = joint.unwrap_or_else(|| self.model.new_link(self.now, None, None, Some(link)));
            self.model.new_session(self.now, client, session, joint)
        } else {
            self.model.new_link(self.now, Some(client), Some(session), Some(link))
        };
        self.model.clients[client].link = Some(link);
    }

    fn request(&mut self, client: usize, method: &Method, headers: &[(&str, &str)], body: &str) -> ReplyKey {
        let session = headers.iter().find(|(name, _)| *name == "mcp-session-id").map(|(_, session)| *session);
        let link = self.model.links.iter().position(|link| session.is_some() && link.session.as_deref() == session);
        if let Some(link) = link {
            self.model.links[link].heard = self.now;
        }
        let from = ClientAddress([10, 0, 0, client as u8].into());
        let mut request = Request::builder().method(method).uri("/mcp").extension(from);
        if self.scene.config.passes_authorization {
            let person = self.model.clients[client].person;
            self.transcript.note(|| format!("person {person}:"));
            request = request.header("authorization", text::credentials(person));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request as clients write it").into_parts();
        self.transcript.note(|| format!("{method} {headers:?} {body}"));
        self.server.handle_request(self.now, &head, body.as_bytes())
    }

    /// A request that is answered at once; its status.
    fn ask_at_once(
        &mut self,
        client: usize,
        method: &Method,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<u16, Broken> {
        let key = self.request(client, method, headers, body);
        let Some(response) = self.server.poll_head(self.now, key) else {
            return Err(Broken(format!("{method} {body} is not answered at once")));
        };
        Ok(response.status().as_u16())
    }

    fn insert(&mut self, key: ReplyKey, source: Source) -> u16 {
        let name = self.next_reply;
        self.next_reply += 1;
        let reply = Reply {
            key,
            source,
            has_head: false,
            is_ready: true,
            is_finished: false,
            is_read: true,
            is_cut: false,
            wire: VecDeque::new(),
        };
        self.replies.insert(name, reply);
        name
    }

    fn stream_of(&self, source: Source) -> Option<usize> {
        match source {
            Source::Ask(ask) => self.model.asks[ask].stream,
            Source::Stream(stream) => Some(stream),
        }
    }

    /// The links with responses that are being given.
    fn busy(&self) -> BTreeSet<usize> {
        let streams =
            self.replies.values().filter(|reply| !reply.is_finished).filter_map(|reply| self.stream_of(reply.source));
        streams.map(|stream| self.model.streams[stream].link).collect()
    }

    /// A response has been given, or broke off.
    fn note_done(&mut self, source: Source) {
        if let Some(stream) = self.stream_of(source) {
            let link = self.model.streams[stream].link;
            self.model.links[link].heard = self.now;
        }
    }

    fn session_of(&self, link: usize) -> String {
        self.model.links[link].session.clone().unwrap_or_default()
    }

    fn ask(&mut self, client: usize, id: usize) -> Verdict {
        let (scene, name) = (Arc::clone(&self.scene), self.next_reply);
        let is_modern = scene.clients[client] == Kind::Stateless;
        let is_batch = scene.batches && !is_modern;
        let ids: Vec<_> = if is_batch { scene.ids[..2].to_vec() } else { vec![scene.ids[id]] };
        let first = self.model.asks.len();
        let token = scene.tokens.then_some("\"t\"");
        let listens = is_modern && scene.subscribes;
        let bodies: Vec<_> =
            (first..).zip(&ids).map(|(ask, id)| text::request(id, token, ask, is_modern, listens)).collect();
        let body = if is_batch { format!("[{}]", bodies.join(",")) } else { bodies[0].clone() };
        let method = if listens { "subscriptions/listen" } else { "tools/call" };
        let session = self.model.clients[client].link.map(|link| self.session_of(link)).unwrap_or_default();
        let headers: &[(&str, &str)] = if is_modern {
            &[("mcp-protocol-version", text::MODERN), ("mcp-method", method), ("mcp-name", "slow")]
        } else {
            &[("mcp-session-id", &session)]
        };
        let posted = self.model.posted(self.now, client, &ids, usize::from(name));
        match posted {
            Ok(ask) => {
                let key = self.request(client, &Method::POST, headers, &body);
                self.insert(key, Source::Ask(ask));
                Ok(())
            }
            Err(status) => {
                let found = self.ask_at_once(client, &Method::POST, headers, &body)?;
                if found == status { Ok(()) } else { broken(format!("a request gets {found} instead of {status}")) }
            }
        }
    }

    /// A client comes back to a stream. Whatever brought it before, it does not read any more.
    fn come_back(&mut self, stream: usize) -> Verdict {
        let expected = self.model.may_return(stream);
        let Some((number, event)) = self.model.streams[stream].last else { return Ok(()) };
        for name in self.replies.keys().copied().collect::<Vec<_>>() {
            let source = self.replies[&name].source;
            if self.stream_of(source) == Some(stream) {
                self.abandon(name);
            }
        }
        let link = self.model.streams[stream].link;
        let client = self.model.links[link].client.unwrap_or_default();
        let (session, last) = (self.session_of(link), format!("{number}-{event}"));
        let key = self.request(client, &Method::GET, &[("mcp-session-id", &session), ("last-event-id", &last)], "");
        self.begin(key, stream, expected)
    }

    /// A GET was made, and its head is there at once.
    fn begin(&mut self, key: ReplyKey, stream: usize, expected: Return) -> Verdict {
        let Some(response) = self.server.poll_head(self.now, key) else {
            return broken("a GET is not answered at once".into());
        };
        let status = response.status().as_u16();
        let is_lawful = match expected {
            Return::Goes => status == 200,
            Return::Refused(refused) => status == refused,
            Return::Perhaps => status == 200 || status == 405,
        };
        if !is_lawful {
            return broken(format!("a client that comes back to stream {stream} gets {status}, and not {expected:?}"));
        }
        if status != 200 {
            self.model.returned(stream, None);
            self.model.streams[stream].is_over |= expected == Return::Perhaps;
            return Ok(());
        }
        let name = self.insert(key, Source::Stream(stream));
        if let Some(reply) = self.replies.get_mut(&name) {
            reply.has_head = true;
            reply.wire.push_back(Item::Head(status));
        }
        self.model.returned(stream, Some(usize::from(name)));
        Ok(())
    }

    fn listen(&mut self, client: usize) -> Verdict {
        let Some(link) = self.model.clients[client].link else { return Ok(()) };
        let session = self.session_of(link);
        if !self.model.links[link].is_open {
            let status = self.ask_at_once(client, &Method::GET, &[("mcp-session-id", &session)], "")?;
            return if status == 404 {
                Ok(())
            } else {
                broken(format!("a GET of a session that is over gets {status}"))
            };
        }
        // What was given up, it reads no more.
        for name in self.replies.keys().copied().collect::<Vec<_>>() {
            let Reply { source, is_cut, .. } = self.replies[&name];
            let stream = self.stream_of(source).filter(|_| is_cut).map(|stream| &self.model.streams[stream]);
            if stream.is_some_and(|stream| stream.listens && stream.link == link) {
                self.abandon(name);
            }
        }
        let key = self.request(client, &Method::GET, &[("mcp-session-id", &session)], "");
        let name = usize::from(self.next_reply);
        let stream = self.model.listens(self.now, link, name);
        let Some(200) = self.server.poll_head(self.now, key).map(|response| response.status().as_u16()) else {
            return broken("a GET gets no stream".into());
        };
        let name = self.insert(key, Source::Stream(stream));
        if let Some(reply) = self.replies.get_mut(&name) {
            reply.has_head = true;
            reply.wire.push_back(Item::Head(200));
        }
        Ok(())
    }

    /// Takes all that the machine has for a response.
    fn write(&mut self, name: u16) -> Verdict {
        let Some(reply) = self.replies.get_mut(&name) else { return Ok(()) };
        let (key, source) = (reply.key, reply.source);
        reply.is_ready = false;
        let mut items = Vec::new();
        if !reply.has_head {
            let Some(response) = self.server.poll_head(self.now, key) else { return Ok(()) };
            reply.has_head = true;
            items.push(item(&response));
        }
        let mut is_finished = matches!(items.last(), Some(Item::Whole(..)));
        while !is_finished {
            match self.server.poll_body(self.now, key) {
                BodyChunk::Bytes(bytes) => read_events(&bytes, &mut items)?,
                BodyChunk::Pending => break,
                BodyChunk::End => {
                    items.push(Item::End);
                    is_finished = true;
                }
            }
        }
        let stream = self.stream_of(source);
        let is_current = stream.is_some_and(|stream| self.model.streams[stream].reply == Some(usize::from(name)));
        for item in &items {
            if let Item::Whole(_, data) | Item::Event(_, data) = item
                && !data.is_empty()
                && let Err(why) = valid::check(Protocol::JsonRpc, data)
            {
                return broken(format!("{why}: {data}"));
            }
            self.transcript.note(|| format!("    response {name}: {item:?}"));
            if let (Item::Event(_, data), Some(stream), true) = (item, stream, is_current) {
                self.model.handed_out(stream, data);
            }
        }
        if is_finished {
            self.note_done(source);
        }
        if is_finished && let Some(stream) = stream {
            self.model.finished(usize::from(name), stream);
        }
        let Some(reply) = self.replies.get_mut(&name) else { return Ok(()) };
        reply.is_finished = is_finished;
        if reply.is_read {
            reply.wire.extend(items);
        } else if reply.is_finished {
            self.replies.remove(&name);
        }
        Ok(())
    }

    fn read(&mut self, name: u16, all: bool) -> Verdict {
        while let Some(reply) = self.replies.get_mut(&name)
            && let Some(item) = reply.wire.pop_front()
        {
            let (source, is_cut) = (reply.source, reply.is_cut);
            let is_last = matches!(item, Item::Whole(..) | Item::End);
            self.transcript.note(|| format!("    read of {name}: {item:?}"));
            if item != Item::End || !is_cut {
                self.judge(source, &item)?;
            }
            if is_last {
                self.replies.remove(&name);
            }
            if !all {
                break;
            }
        }
        Ok(())
    }

    fn judge(&mut self, source: Source, item: &Item) -> Verdict {
        let is_refused = matches!(source, Source::Ask(ask) if self.model.asks[ask].state == AskState::Refused);
        let stream = self.stream_of(source);
        match (item, stream) {
            (Item::Whole(400, _), _) if is_refused => Ok(()),
            (_, None) => broken(format!("{source:?} brings {item:?}")),
            (Item::Head(200), Some(stream)) => self.model.read_head(stream),
            (Item::Head(status), Some(_)) => broken(format!("{source:?} gets {status}")),
            (Item::Whole(status, body), Some(stream)) => self.model.read_whole(stream, *status, body),
            (Item::Event(id, data), Some(stream)) => self.model.read_event(stream, id.as_deref(), data),
            (Item::End, Some(stream)) => self.model.read_end(stream),
        }
    }

    /// A client reads a response no more; the server does not know.
    fn abandon(&mut self, name: u16) {
        let Some(reply) = self.replies.get_mut(&name) else { return };
        reply.is_read = false;
        reply.wire.clear();
        if reply.is_finished {
            self.replies.remove(&name);
        }
    }

    fn break_off(&mut self, name: u16) {
        let Some(reply) = self.replies.remove(&name) else { return };
        if !reply.is_finished {
            self.note_done(reply.source);
            let ask = if let Source::Ask(ask) = reply.source { Some(ask) } else { None };
            self.model.hung_up(usize::from(name), ask, self.stream_of(reply.source));
            self.server.handle_hang_up(self.now, reply.key);
        }
    }

    fn say(&mut self, link: usize, message: &str) {
        let link = self.model.program(link);
        self.transcript.note(|| format!("        program {link}: {message}"));
        if let Some(key) = self.model.links[link].key {
            self.server.handle_message(self.now, key, message.as_bytes());
        }
    }

    fn close(&mut self, link: usize) -> Verdict {
        if self.model.asked_link() == Some(link) {
            self.model.not_learnt(self.now);
        }
        let key = self.model.links[link].key;
        self.model.gone(self.now, link);
        if let Some(key) = key {
            self.server.handle_link_closed(self.now, key);
        }
        Ok(())
    }

    fn delete(&mut self, client: usize) -> Verdict {
        let Some(link) = self.model.clients[client].link else { return Ok(()) };
        let expected = if self.model.links[link].is_open { 204 } else { 404 };
        self.model.closed(self.now, link, true);
        let session = self.session_of(link);
        let status = self.ask_at_once(client, &Method::DELETE, &[("mcp-session-id", &session)], "")?;
        if status == expected { Ok(()) } else { broken(format!("a DELETE gets {status} instead of {expected}")) }
    }

    fn cancel(&mut self, client: usize, id: &str) -> Verdict {
        let session = self.model.clients[client].link.map(|link| self.session_of(link)).unwrap_or_default();
        let (expected, passed_on) = self.model.posted_cancel(client, id);
        let key = self.request(client, &Method::POST, &[("mcp-session-id", &session)], &text::cancel(id));
        // Who was told of it is answered once that is known.
        if let Some((link, known)) = passed_on
            && let (Some(link), Some(known)) = (self.model.links[link].key, RequestId::from_json(known.as_bytes()))
        {
            if self.server.poll_head(self.now, key).is_some() {
                return broken("a cancel is answered before its fate is known".into());
            }
            self.server.handle_cancel_fate(link, &known, CancelFate::Delivered);
        }
        let status = self.server.poll_head(self.now, key).map(|head| head.status().as_u16());
        if status == Some(expected) {
            Ok(())
        } else {
            broken(format!("a cancel gets {status:?} instead of {expected}"))
        }
    }

    fn settle(&mut self, ask: usize) {
        self.model.settled(self.now, ask);
        let Some((id, _)) = self.model.asks[ask].known.clone() else { return };
        let Some(link) = self.model.asks[ask].link else { return };
        if self.model.asks[ask].listens {
            return self.say(link, &text::cancel(&id));
        }
        let link = self.model.program(link);
        self.transcript.note(|| format!("        program {link}: {id} is settled"));
        if let (Some(key), Some(id)) = (self.model.links[link].key, RequestId::from_json(id.as_bytes())) {
            self.server.handle_settled(self.now, key, &id);
        }
    }

    fn answer(&mut self, ask: usize) {
        self.model.said_answer(self.now, ask);
        let ask_state = &self.model.asks[ask];
        let (Some((id, _)), Some(link)) = (&ask_state.known, ask_state.link) else { return };
        let answer = text::answer(id, ask, ask_state.listens);
        self.say(link, &answer);
    }

    fn report(&mut self, ask: usize) {
        let asked = &self.model.asks[ask];
        let (Some((id, token)), Some(link)) = (&asked.known, asked.link) else { return };
        let message = match token {
            _ if asked.listens => text::changed(id, ask, asked.reports, self.scene.more),
            Some(token) => text::progress(token, ask, asked.reports, self.scene.more),
            None => return,
        };
        self.model.said_report(ask);
        self.say(link, &message);
    }

    fn discover(&mut self, is_modern: bool) {
        let Some(link) = self.model.asked_link() else { return };
        let Some(question) = self.model.links[link].question.clone() else { return };
        self.model.learnt(self.now, is_modern);
        self.say(link, &text::discovered(&question, is_modern));
    }

    fn wait(&mut self, time: Duration) -> Verdict {
        let until = self.now + time;
        while let Some(due) = self.server.poll_timeout().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            let busy = self.busy();
            self.model.passed(self.now, &busy);
            self.server.handle_timeout(self.now);
            self.drain()?;
        }
        self.now = until;
        let busy = self.busy();
        self.model.passed(until, &busy);
        Ok(())
    }

    /// Drains what the machine reports, and has each program take what there is for it.
    fn drain(&mut self) -> Verdict {
        if self.scene.is_crowded() {
            self.note_given_up();
        }
        while let Some(event) = self.server.poll_event() {
            match event {
                HttpServerEvent::Opened { link, credentials, .. } => {
                    let is_new = |link: &&mut model::Link| link.key.is_none() && link.joint.is_none();
                    let new = self.model.links.iter_mut().find(is_new);
                    let Some(new) = new else { return broken("a link is opened that nobody needs".into()) };
                    new.key = Some(link);
                    let person = self.scene.config.passes_authorization.then(|| text::credentials(new.person));
                    if credentials.as_ref().and_then(|value| value.to_str().ok()) != person.as_deref() {
                        return broken(format!("a link of {person:?} is opened for {credentials:?}"));
                    }
                }
                HttpServerEvent::ReplyReady(key) => {
                    let reply = self.replies.values_mut().find(|reply| reply.key == key);
                    reply.into_iter().for_each(|reply| reply.is_ready = true);
                }
                HttpServerEvent::InputReady(key) => {
                    let Some(link) = self.model.links.iter().position(|link| link.key == Some(key)) else {
                        return broken("there is input for a link that was not opened".into());
                    };
                    while let Some(input) = self.server.poll_input(key) {
                        self.transcript.note(|| match &input {
                            LinkInput::Message(line) | LinkInput::Request(line, _) => {
                                format!("        -> {link}: {}", String::from_utf8_lossy(line).trim_end())
                            }
                            other @ (LinkInput::StreamClosed(_) | LinkInput::Credentials(_) | LinkInput::End) => {
                                format!("        -> {link}: {other:?}")
                            }
                        });
                        if !self.shakes_hands(link, key, &input) {
                            self.model.received(link, &input)?;
                        }
                    }
                }
                HttpServerEvent::Dropped { .. } | HttpServerEvent::PageWanted { .. } | HttpServerEvent::KeysWanted => {}
            }
        }
        match self.model.links.iter().position(|link| !link.expects.is_empty()) {
            Some(link) => broken(format!("link {link} never receives {:?}", self.model.links[link].expects)),
            None => Ok(()),
        }
    }

    /// Notes which responses the server has given up, since too much was unread.
    fn note_given_up(&mut self) {
        for name in self.replies.keys().copied().collect::<Vec<_>>() {
            let reply = &self.replies[&name];
            let (source, is_cut) = (reply.source, self.server.is_cut_off(reply.key) && !reply.is_finished);
            let stream = self.stream_of(source);
            let is_current = stream.is_some_and(|stream| self.model.streams[stream].reply == Some(usize::from(name)));
            if is_cut && is_current {
                self.transcript.note(|| format!("    response {name} is given up"));
                self.model.hung_up(usize::from(name), None, stream);
                self.replies.entry(name).and_modify(|reply| reply.is_cut = true);
            }
        }
    }

    /// A program that was started in the place of another shakes hands; whether that is what it was told to do.
    fn shakes_hands(&mut self, link: usize, key: LinkKey, input: &LinkInput) -> bool {
        let (LinkInput::Message(line) | LinkInput::Request(line, _)) = input else { return false };
        let line = String::from_utf8_lossy(line);
        if !self.model.links[link].has_restarted || !text::is_handshake(&line) {
            return false;
        }
        if let Some(id) = text::id(&line) {
            let answer = text::handshake_answer(id, "2025-11-25");
            self.server.handle_message(self.now, key, answer.as_bytes());
        }
        true
    }

    /// Everything that was said is written and read, and whoever was cut off comes back.
    fn read_all(&mut self) -> Verdict {
        for _ in 0..MOST_ROUNDS {
            let mut is_done = true;
            for name in self.replies.keys().copied().collect::<Vec<_>>() {
                if self.replies.get(&name).is_some_and(|reply| reply.is_ready && !reply.is_finished) {
                    is_done = false;
                    self.write(name)?;
                    self.drain()?;
                }
                is_done &= self.replies.get(&name).is_none_or(|reply| reply.wire.is_empty());
                self.read(name, true)?;
            }
            for stream in 0..self.model.streams.len() {
                let wanted = self.model.streams[stream].last.is_some() && !self.is_read(stream);
                if wanted && matches!(self.model.may_return(stream), Return::Goes | Return::Perhaps) {
                    is_done = false;
                    self.come_back(stream)?;
                    self.drain()?;
                }
            }
            if is_done {
                return self.check_read();
            }
        }
        broken("reading never ends".into())
    }

    fn is_read(&self, stream: usize) -> bool {
        self.replies.values().any(|reply| reply.is_read && self.stream_of(reply.source) == Some(stream))
    }

    /// Whoever reads has got everything, and waits for nothing that is over.
    fn check_read(&self) -> Verdict {
        for (name, reply) in self.replies.iter().filter(|(_, reply)| reply.is_read) {
            let Some(stream) = self.stream_of(reply.source) else {
                let Source::Ask(ask) = reply.source else { continue };
                if self.model.asks[ask].state == AskState::Refused {
                    return broken(format!("response {name} never refuses its request"));
                }
                continue;
            };
            self.model.check_read(stream)?;
            if self.model.has_ended(stream) || self.model.streams[stream].whole.is_some() {
                return broken(format!("response {name} never ends, although stream {stream} has"));
            }
        }
        Ok(())
    }

    fn may_speak(&self, ask: usize) -> bool {
        let ask = &self.model.asks[ask];
        ask.known.is_some() && ask.link.is_some_and(|link| self.model.links[self.model.program(link)].is_served)
    }

    fn act(&mut self, action: Action) -> Verdict {
        match action {
            Action::Ask(client, id) => self.ask(usize::from(client), usize::from(id)),
            Action::Cancel(client, id) => self.cancel(usize::from(client), self.scene.ids[usize::from(id)]),
            Action::Write(name) => self.write(name),
            Action::Take(name) => {
                self.write(name)?;
                self.read(name, true)
            }
            Action::Read(name, all) => self.read(name, all),
            Action::Break(name) => {
                let client = self.client_of(name);
                self.model.clients[client].breaks += 1;
                self.break_off(name);
                Ok(())
            }
            Action::Return(stream) => {
                let link = self.model.streams[usize::from(stream)].link;
                if let Some(client) = self.model.links[link].client {
                    self.model.clients[client].returns += 1;
                }
                self.come_back(usize::from(stream))
            }
            Action::Listen(client) => {
                self.model.clients[usize::from(client)].listens += 1;
                self.listen(usize::from(client))
            }
            Action::Delete(client) => self.delete(usize::from(client)),
            Action::Open(client) => {
                self.open(usize::from(client));
                Ok(())
            }
            Action::SignIn(client) => {
                let client = &mut self.model.clients[usize::from(client)];
                (client.person, client.sign_ins) = ((client.person + 1) % PEOPLE, client.sign_ins + 1);
                Ok(())
            }
            Action::Answer(ask) => {
                self.answer(usize::from(ask));
                Ok(())
            }
            Action::Report(ask) => {
                self.report(usize::from(ask));
                Ok(())
            }
            Action::Settle(ask) => {
                self.settle(usize::from(ask));
                Ok(())
            }
            Action::Plain(link) => {
                let message = text::plain(self.model.plains, self.scene.more);
                self.model.said_plain(self.now, usize::from(link));
                self.say(usize::from(link), &message);
                Ok(())
            }
            Action::Discover(is_modern) => {
                self.discover(is_modern);
                Ok(())
            }
            Action::Close(link) => self.close(usize::from(link)),
            Action::Wait(is_long) => {
                let (count, time) = if is_long { (&mut self.waits.1, LONG) } else { (&mut self.waits.0, SHORT) };
                *count += 1;
                self.wait(time)
            }
        }
    }

    fn client_of(&self, name: u16) -> usize {
        match self.replies[&name].source {
            Source::Ask(ask) => self.model.asks[ask].client,
            Source::Stream(stream) => {
                let link = self.model.streams[stream].link;
                self.model.links[link].client.unwrap_or_default()
            }
        }
    }

    /// Everything ends; then nothing may be left.
    fn end(&mut self) -> Verdict {
        for client in 0..self.model.clients.len() {
            self.delete(client)?;
            self.drain()?;
        }
        for link in 0..self.model.links.len() {
            if self.model.links[link].is_served {
                self.close(link)?;
                self.drain()?;
            }
        }
        self.read_all()?;
        for name in self.replies.keys().copied().collect::<Vec<_>>() {
            if self.replies[&name].is_read {
                return broken(format!("response {name} never ends, although everything is over"));
            }
            self.break_off(name);
            self.drain()?;
        }
        for _ in 0..MOST_TIMERS {
            let Some(due) = self.server.poll_timeout() else { break };
            self.now = due.max(self.now);
            let busy = self.busy();
            self.model.passed(self.now, &busy);
            self.server.handle_timeout(self.now);
            self.drain()?;
        }
        self.server.check_invariants();
        match self.server.residue() {
            0 => Ok(()),
            some => broken(format!("{some} entries are left in the tables when everything is over")),
        }
    }
}

impl World for HttpWorld {
    type Action = Action;

    fn actions(&self, out: &mut Vec<Action>) {
        let (scene, model) = (&self.scene, &self.model);
        for (name, reply) in &self.replies {
            if reply.is_ready && !reply.is_finished {
                out.push(Action::Write(*name));
                if reply.is_read {
                    out.push(Action::Take(*name));
                }
            }
            if !reply.wire.is_empty() {
                out.push(Action::Read(*name, true));
                if scene.pieces && reply.wire.len() > 1 {
                    out.push(Action::Read(*name, false));
                }
            }
            if model.clients[self.client_of(*name)].breaks < scene.breaks {
                out.push(Action::Break(*name));
            }
        }
        for (at, client) in model.clients.iter().enumerate() {
            let name = at as u8;
            let is_open = client.link.is_some_and(|link| model.links[link].is_open);
            let is_session = client.kind != Kind::Stateless;
            let asked = if scene.batches && is_session { 2 } else { 1 };
            if client.asks + asked <= scene.asks {
                let ids = if asked == 2 { 1 } else { scene.ids.len() };
                out.extend((0..ids).map(|id| Action::Ask(name, id as u8)));
            }
            if client.sign_ins < scene.sign_ins {
                out.push(Action::SignIn(name));
            }
            if !is_session {
                continue;
            }
            if client.cancels < scene.cancels && client.asks > 0 {
                out.extend((0..scene.ids.len()).map(|id| Action::Cancel(name, id as u8)));
            }
            let listening = model
                .streams
                .iter()
                .any(|stream| stream.listens && Some(stream.link) == client.link && stream.reply.is_some());
            if client.listens < scene.listens && !listening {
                out.push(Action::Listen(name));
            }
            if scene.deletes && is_open {
                out.push(Action::Delete(name));
            }
            if scene.reopens && !is_open {
                out.push(Action::Open(name));
            }
        }
        for (at, stream) in model.streams.iter().enumerate() {
            let client = model.links[stream.link].client;
            let may = client.is_some_and(|client| model.clients[client].returns < scene.returns);
            if may && stream.last.is_some() {
                out.push(Action::Return(at as u16));
            }
        }
        for (at, ask) in model.asks.iter().enumerate() {
            let name = at as u8;
            // What comes late comes from programs that answer twice, too.
            let is_late = ask.state != AskState::Waiting;
            if !self.may_speak(at) || (is_late && (scene.answers < 2 || !self.is_own(at))) {
                continue;
            }
            if ask.answers < scene.answers {
                out.push(Action::Answer(name));
            }
            if ask.reports < scene.reports && (scene.tokens || ask.listens) {
                out.push(Action::Report(name));
            }
            if (ask.is_cancelled || ask.listens) && !is_late {
                out.push(Action::Settle(name));
            }
        }
        for (at, link) in model.links.iter().enumerate() {
            let name = at as u8;
            if link.is_served && link.plains < scene.plains {
                out.push(Action::Plain(name));
            }
            if link.is_served && (scene.ends || !link.is_open) && !model.has_ended_once(link) {
                out.push(Action::Close(name));
            }
        }
        if let Era::Asked(_) = model.era {
            out.extend([Action::Discover(true), Action::Discover(false)]);
        }
        if self.waits.0 < scene.waits.0 {
            out.push(Action::Wait(false));
        }
        if self.waits.1 < scene.waits.1 {
            out.push(Action::Wait(true));
        }
    }

    fn is_rare(action: Action) -> bool {
        matches!(action, Action::Delete(_) | Action::Close(_) | Action::Discover(false))
    }

    fn step(&mut self, action: Action) -> Verdict {
        self.act(action)?;
        self.drain()?;
        let (unread, most) = (self.server.unread(), self.scene.config.max_unread);
        if unread > most {
            return broken(format!("{unread} bytes are unread or kept, and {most} may be"));
        }
        self.server.check_invariants();
        Ok(())
    }

    fn check_future(&self) -> Verdict {
        let mut world = self.clone();
        // Nobody acts any more: what must come comes by itself.
        world.read_all()?;
        world.wait(SHORT)?;
        world.drain()?;
        world.read_all()?;
        // Everything that is in flight ends.
        if let Era::Asked(_) = world.model.era {
            world.discover(true);
            world.drain()?;
        }
        for ask in 0..world.model.asks.len() {
            if world.model.asks[ask].state == AskState::Waiting {
                if world.model.asks[ask].is_cancelled {
                    world.settle(ask)
                } else {
                    world.answer(ask)
                }
                world.drain()?;
            }
        }
        for client in 0..world.model.clients.len() {
            let link = world.model.clients[client].link.filter(|link| world.model.links[*link].is_open);
            let is_listening = world.model.streams.iter().any(|stream| {
                stream.listens && Some(stream.link) == link && (stream.reply.is_some() || stream.last.is_some())
            });
            if link.is_some() && !is_listening {
                world.listen(client)?;
                world.drain()?;
            }
        }
        world.read_all()?;
        if world.server.in_flight() > 0 {
            return broken("requests are in flight although all of them have ended".into());
        }
        world.end()
    }

    fn digest(&self) -> u128 {
        let Self { scene: _, server, now, model, replies, next_reply: _, sessions: _, waits, transcript: _ } = self;
        let mut digest = Digest::new();
        server.hash_state(*now, &mut digest);
        model.hash_state(*now, &mut digest);
        for (name, Reply { key: _, source, has_head, is_ready, is_finished, is_read, is_cut, wire }) in replies {
            (name, source, has_head, is_ready, is_finished, is_read, is_cut, wire).hash(&mut digest);
        }
        waits.hash(&mut digest);
        digest.finish_wide()
    }

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }
}

impl HttpWorld {
    /// Whether no later request of the link has the id or the token of this one: which of them a late message is for, only
    /// the link can tell (D8).
    fn is_own(&self, ask: usize) -> bool {
        let asks = &self.model.asks;
        let Some((id, token)) = &asks[ask].known else { return false };
        let is_other = |later: usize| {
            let known = asks[later].known.as_ref();
            let differs =
                known.is_none_or(|(known, known_token)| known != id && (token.is_none() || known_token != token));
            differs || asks[later].link != asks[ask].link
        };
        (ask + 1..asks.len()).all(is_other)
    }
}

/// More rounds of reading than any world needs.
const MOST_ROUNDS: usize = 1000;

/// More timers than any world has.
const MOST_TIMERS: usize = 2000;

fn item(response: &Response<ReplyBody>) -> Item {
    let status = response.status().as_u16();
    match response.body() {
        ReplyBody::Whole(body) => Item::Whole(status, String::from_utf8_lossy(body).into_owned()),
        ReplyBody::Events | ReplyBody::Long(_) => Item::Head(status),
    }
}

/// Reads events as a client does.
fn read_events(bytes: &[u8], items: &mut Vec<Item>) -> Verdict {
    let text = String::from_utf8_lossy(bytes);
    let Some(text) = text.strip_suffix("\n\n") else { return broken(format!("an event is cut: {text:?}")) };
    for block in text.split("\n\n").filter(|block| !block.starts_with(':')) {
        let (mut id, mut data) = (None, String::new());
        for line in block.lines() {
            match line.split_once(':') {
                Some(("id", value)) => id = Some(value.trim_start().to_owned()),
                Some(("retry", _)) => {}
                Some(("data", value)) => data = value.trim_start().to_owned(),
                Some(("event", " message")) => {}
                _ => return broken(format!("no field of an event: {line:?}")),
            }
        }
        items.push(Item::Event(id, data));
    }
    Ok(())
}
