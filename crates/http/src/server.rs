//! The server's side of Streamable HTTP as a machine: no I/O, no clock.
//!
//! HTTP requests go in and HTTP responses come out; behind it stand *links*, each to a program that speaks MCP as on a
//! pipe: one for each session, or one that they share, and one that all requests outside a session share (D42). Where
//! clients sign in at the program, only those share one that have the same credentials. The machine decides on which
//! stream a message travels, what a closed stream means (the dialect's answer, D40), who may come back and what is kept
//! for that, and which id and progress token the program knows a request by.
//!
//! What is on a link is a relay's or a connection's to decide. So nothing of what the engine knows about requests is
//! written here again, and the machine guesses nothing from a passing cancel: that its request is not answered is reported
//! by the engine ([`HttpServer::handle_settled`]). What is decided here:
//!
//! - *A stream and a reply are two things*, since a stream may outlive its reply and be carried by another. An event
//!   without a number cannot be asked for, and ends with its reply.
//! - *A response is undecided at first.* An answer that comes soon is plain JSON: no event, no buffer, nothing to resume. A
//!   message before it, or 100 ms, makes it a stream of events; 1 s where a status of the server behind may still have to
//!   be passed on.
//! - *A hang-up cancels where the dialect says so*: the link gets the id of that request. Elsewhere the stream loses its
//!   reply and keeps its messages.
//! - *Ids are the client's in a session*, unless two are equal and in flight (D7), and ours on a shared link (D42). The
//!   relay behind may replace them again (D32), and neither knows of the other.
//! - *An owner is part of what can be asked for.* A session is found in one place, and there for its owner alone, so POST,
//!   GET, resuming and DELETE have no check of their own, and the answer is the one that a wrong id gets.
//! - *A cancel goes before everything that waits for its link*: that may be another client's flood. A request that the
//!   program has not taken is withdrawn, and its cancel with it.
//! - *The end of a program that several clients share is not theirs.* The next one has its link at once, where what comes
//!   meanwhile waits as for a program that takes nothing.

mod asked_by;
mod body;
mod bounds;
mod calls;
mod config;
pub(crate) mod connections;
mod credentials;
mod discovery;
pub(crate) mod door;
mod entrance;
mod event;
mod fate;
pub(crate) mod incoming;
mod input;
mod joint;
mod keyed;
mod keys;
mod lane;
mod link;
mod look_alike;
mod made_tasks;
mod opening;
mod passed_status;
mod placement;
mod places;
mod posted;
mod programs;
mod proof;
mod receive;
mod reply;
mod restart;
mod route;
mod session;
mod stateless;
mod stream;
mod task_owners;
mod timers;
mod unread;
mod withdrawal;

use core::num::NonZero;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use rescind_proto::{
    dialect::Disconnect,
    error_code,
    id::RequestId,
    link::{CancelFate, Connected},
    message,
    time::Instant,
};

pub use asked_by::PoolMember;
pub use config::{HttpServerConfig, Sessions, Stateless};
pub use discovery::MAX_PAGE;
pub use door::{
    Access, Bearers, BearersError, Caller, ClientAddress, ClientConnection, Extension, Hosts, Issuer, IssuerError,
    KeySet, KeySetError, LineFault, LocalAddress, Owner, TokenDigest,
};
pub use event::HttpServerEvent;
#[cfg(debug_assertions)]
pub use keyed::look_ups;
pub use keys::{LinkKey, ReplyKey};
pub use link::LinkInput;
pub use placement::{Candidate, Load, place};
pub use reply::{BodyChunk, ReplyBody};

use door::{Asker, Keyring, Refusal, SESSION, Shares};
use entrance::Unjudged;
use joint::Joint;
use keyed::Keyed;
use keys::{SessionKey, StreamKey};
use link::{Link, LinkUse};
use made_tasks::MadeTasks;
use programs::{ModernOnly, Shared, Starts};
use reply::Reply;
use session::Session;
use stream::Stream;
use task_owners::TaskOwners;
use timers::Timers;

/// The server's side of Streamable HTTP.
///
/// # Contract
///
/// The driver has HTTP requests on one side and programs on the other, and hands in what either does:
///
/// - An HTTP request: [`handle_request`](Self::handle_request), if its body is at hand. Else
///   [`handle_head`](Self::handle_head), then [`handle_body`](Self::handle_body) while [`wants_body`](Self::wants_body)
///   says so, and [`handle_body_end`](Self::handle_body_end) or [`handle_body_broken`](Self::handle_body_broken).
/// - A response that it drops before the end: [`handle_hang_up`](Self::handle_hang_up).
/// - What a program says: [`handle_message`](Self::handle_message); a request that it will never answer:
///   [`handle_settled`](Self::handle_settled); its end: [`handle_link_closed`](Self::handle_link_closed), without which a
///   link is never forgotten.
/// - The time: [`handle_timeout`](Self::handle_timeout).
///
/// Before each call it supplies an id for the next session if [one is needed](Self::needs_session_id). After each call it
/// drains [`poll_event`](Self::poll_event), and only then asks [`poll_timeout`](Self::poll_timeout):
///
/// - [`Opened`](HttpServerEvent::Opened): a program is started for the link.
/// - [`InputReady`](HttpServerEvent::InputReady): [`poll_input`](Self::poll_input), as the program takes it. What was polled
///   counts as taken, and is not withdrawn any more: poll one when the program can take one. The event comes once until
///   it is polled.
/// - [`ReplyReady`](HttpServerEvent::ReplyReady): [`poll_head`](Self::poll_head) once, then
///   [`poll_body`](Self::poll_body) until [`End`](BodyChunk::End), unless the body is [whole](ReplyBody::Whole).
///
/// ```
/// use http::{Request, Response};
/// use rescind_http::server::{HttpServer, HttpServerConfig, HttpServerEvent, LinkInput, ReplyBody};
/// use rescind_proto::time::Instant;
///
/// /// A program that shakes hands.
/// fn answer(_line: &[u8]) -> &'static [u8] {
///     br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},
///         "serverInfo":{"name":"server","version":"1"}}}"#
/// }
///
/// /// Does what the machine wants done, until it wants nothing more; the responses that are whole.
/// fn turn(server: &mut HttpServer, now: Instant) -> Vec<Response<ReplyBody>> {
///     let mut responses = Vec::new();
///     while let Some(event) = server.poll_event() {
///         match event {
///             HttpServerEvent::Opened { .. } => {} // here a program is started
///             HttpServerEvent::InputReady(link) => {
///                 while let Some(input) = server.poll_input(link) {
///                     if let LinkInput::Message(line) | LinkInput::Request(line, _) = input {
///                         server.handle_message(now, link, answer(&line));
///                     }
///                 }
///             }
///             HttpServerEvent::ReplyReady(reply) => responses.extend(server.poll_head(now, reply)),
///             other => panic!("{other:?}"),
///         }
///     }
///     responses
/// }
///
/// let (mut server, now) = (HttpServer::new(HttpServerConfig::default()), Instant::ORIGIN);
/// server.supply_session_id("nobody-guesses-this");
/// let body = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
///     "capabilities":{},"clientInfo":{"name":"client","version":"1"}}}"#;
/// let request = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
/// let request = request.header("accept", "application/json, text/event-stream").body(())?;
/// let _reply = server.handle_request(now, &request.into_parts().0, body);
///
/// let responses = turn(&mut server, now);
/// assert_eq!(responses[0].headers()["mcp-session-id"], "nobody-guesses-this");
/// assert!(matches!(responses[0].body(), ReplyBody::Whole(_)), "a soon answer is plain JSON");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpServer {
    config: HttpServerConfig,
    links: Keyed<BTreeMap<LinkKey, Link>>,
    /// Sessions that go on.
    sessions: Keyed<BTreeMap<SessionKey, Session>>,
    /// The same by the id that their clients know.
    session_ids: Keyed<HashMap<Box<str>, SessionKey, FixedState>>,
    streams: Keyed<BTreeMap<StreamKey, Stream>>,
    replies: Keyed<BTreeMap<ReplyKey, Reply>>,
    /// What bodies take that are being read.
    body_shares: Keyed<Shares<ReplyKey>>,
    /// What the messages of streams take.
    stream_shares: Keyed<Shares<StreamKey>>,
    /// Those that wait for a page.
    pages: BTreeSet<ReplyKey>,
    shared: Shared,
    joint: Joint,
    /// The log level that sessions have asked of the program that they share, as JSON.
    log_level: Option<Bytes>,
    /// Answers in place of a program; empty between steps.
    own_answers: Vec<(LinkKey, Vec<u8>)>,
    /// The owners of the tasks of the program that sessions share.
    task_owners: TaskOwners,
    /// The tasks of these programs, if others serve the same.
    made_tasks: MadeTasks,
    /// What is known of the keys by which tokens are judged.
    keyring: Keyring,
    /// Requests that wait for such keys.
    unjudged: Vec<Unjudged>,
    starts: Starts,
    /// Cancels with a response that waits for their fate, by link and by the id that the program knows.
    cancels: Keyed<HashMap<(LinkKey, RequestId), ReplyKey, FixedState>>,
    /// What the server speaks, if it has shown that it knows no sessions.
    modern_only: Option<ModernOnly>,
    events: VecDeque<HttpServerEvent>,
    next_key: NonZero<u64>,
    /// The id of the next session.
    session_id: Option<Box<str>>,
    /// No new session and no new request is taken.
    is_draining: bool,
    timers: Timers,
}

impl HttpServer {
    /// A server that has seen nothing.
    #[must_use]
    pub fn new(config: HttpServerConfig) -> Self {
        Self {
            links: Keyed::default(),
            sessions: Keyed::default(),
            session_ids: Keyed(HashMap::with_hasher(FixedState::with_seed(config.seed))),
            streams: Keyed::default(),
            replies: Keyed::default(),
            body_shares: Keyed(Shares::new(config.bodies_bound())),
            stream_shares: Keyed(Shares::new(config.unread_bound())),
            pages: BTreeSet::new(),
            shared: Shared::new(&config),
            joint: Joint::Closed,
            log_level: None,
            own_answers: Vec::new(),
            task_owners: TaskOwners::new(task_owners::MAX_TASKS, config.seed),
            made_tasks: MadeTasks::new(
                if config.pool_member.is_some() { task_owners::MAX_TASKS } else { 0 },
                config.seed,
            ),
            keyring: Keyring::new(),
            unjudged: Vec::new(),
            starts: Starts::default(),
            cancels: Keyed(HashMap::with_hasher(FixedState::with_seed(config.seed))),
            modern_only: None,
            events: VecDeque::new(),
            next_key: NonZero::<u64>::MIN,
            session_id: None,
            is_draining: false,
            timers: Timers::new(&config),
            config,
        }
    }

    /// Whether the id of the next session is missing: a handshake would be refused.
    #[must_use]
    pub const fn needs_session_id(&self) -> bool {
        self.session_id.is_none()
    }

    /// Supplies the id of the next session: visible ASCII that cannot be guessed.
    pub fn supply_session_id(&mut self, id: impl Into<Box<str>>) {
        self.session_id = Some(id.into());
    }

    /// Takes no new session from now on, and no request outside one. What is in flight goes on.
    pub const fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether [`drain`](Self::drain) was called.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Ends every session and every link. What is in flight is cancelled, and answered with an error (-31002); a subscription just
    /// ends (MCP-M02).
    pub fn close(&mut self, now: Instant) {
        self.drain();
        if self.shared.question().is_some() {
            self.learn_era(now, false);
        }
        self.handle_keys(now, None);
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            self.answer_waiting(now, link, |id, out| {
                let words = "the service has ended before the server answered";
                message::error(Some(id), error_code::UPSTREAM_GONE, words, None, out);
            });
            self.end_link(now, link);
        }
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.links.values().map(|link| link.calls.len()).sum()
    }

    /// Counts who is connected to a link. Costs time in proportion to its sessions' streams.
    #[must_use]
    pub fn census(&self, link: LinkKey) -> Connected {
        let mut census = Connected::default();
        if self.links.get(&link).is_some_and(|link| link.serves.is_shared()) {
            census.restarts = self.starts.back_off.restarts;
        }
        match self.links.get(&link).map(|link| link.serves) {
            Some(LinkUse::Session(key)) => {
                self.sessions.get(&key).into_iter().for_each(|one| self.count(one, &mut census))
            }
            Some(LinkUse::Sessions) => self.sessions.values().for_each(|one| self.count(one, &mut census)),
            Some(LinkUse::Stateless) => census.responses = self.links.get(&link).map_or(0, |link| link.calls.len()),
            None => {}
        }
        census
    }

    fn count(&self, session: &Session, census: &mut Connected) {
        census.sessions += 1;
        census.responses += session.replies;
        let away = session.streams.values().filter_map(|stream| self.streams.get(stream));
        census.kept += away.filter(|stream| stream.reply.is_none() && stream.kept() > 0).count();
        census.kept_bytes += session.kept;
    }

    /// Takes the head of a response, once it is decided. With a [whole](ReplyBody::Whole) body that is all of it, and the
    /// key means nothing any more.
    pub fn poll_head(&mut self, now: Instant, key: ReplyKey) -> Option<Response<ReplyBody>> {
        let mut head = None;
        let whole = self.replies.remove_if(key, |reply| {
            reply.is_reported = false;
            head = reply.take_head();
            head.as_ref().is_some_and(|(_, is_whole)| *is_whole)
        });
        let (response, _) = head?;
        match whole {
            Some(reply) => _ = self.let_go(now, key, reply),
            None => self.timers.keep_alive.arm(now, key),
        }
        Some(response)
    }

    /// Takes the next of a body that is not whole. After its end the key means nothing any more.
    pub fn poll_body(&mut self, now: Instant, key: ReplyKey) -> BodyChunk {
        let Some(reply) = self.replies.get_mut(&key) else { return BodyChunk::End };
        reply.is_reported = false;
        let mut bytes = Bytes::new();
        let stream = reply.stream.filter(|_| !reply.has_ended());
        let stream = stream.and_then(|stream| self.change_stream(stream, |stream| bytes = stream.take()));
        let Some((session, is_spent)) = stream.map(|stream| (stream.session(), stream.is_spent())) else {
            self.remove_reply(now, key);
            return BodyChunk::End;
        };
        if bytes.is_empty() && is_spent {
            self.remove_reply(now, key);
            return BodyChunk::End;
        }
        let Some(reply) = self.replies.get_mut(&key) else { return BodyChunk::End };
        if bytes.is_empty() {
            return reply.take_comment().map_or(BodyChunk::Pending, BodyChunk::Bytes);
        }
        reply.wrote();
        self.bound_kept(session);
        self.bound_unread(now);
        BodyChunk::Bytes(bytes)
    }

    /// Records that a response was dropped before its end: its client has closed the connection, or the network did. What
    /// that means for the request is its dialect's answer (D40). Nothing happens if the response has ended.
    pub fn handle_hang_up(&mut self, now: Instant, key: ReplyKey) {
        // No client knows a session whose id was in a head that was not taken.
        let nameless =
            self.replies.get(&key).filter(|reply| reply.has_header(&SESSION)).and_then(|reply| reply.session);
        let stream = self.remove_reply(now, key);
        match (nameless, stream) {
            (Some(session), _) => self.end_session(now, session),
            (None, Some(stream)) => self.lose_client(now, stream),
            (None, None) => {}
        }
    }

    /// Ends a response before its client did, which then has hung up.
    fn give_up_reply(&mut self, now: Instant, key: ReplyKey) {
        let Some(reply) = self.replies.get_mut(&key) else { return };
        let Some(stream) = reply.stream else { return };
        if reply.is_long()
            && let Some(id) = self.streams.get(&stream).and_then(Stream::next_answer)
        {
            // Nothing has left: an error can still take the answer's place.
            let mut error = Vec::new();
            let words = "the answer was not kept: too much waits to be read";
            message::error(Some(id), error_code::NOT_KEPT, words, None, &mut error);
            reply.replace_long(owned(error));
            self.forget_stream(stream);
            return self.report_reply(key);
        }
        self.supersede(key);
        self.detach(stream);
        self.lose_client(now, stream);
    }

    /// The client of a stream has left before its end.
    fn lose_client(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        let closes = stream.dialect.http.is_some_and(|form| form.stream_closed == Disconnect::Cancels);
        if closes {
            self.close_stream(now, key);
        }
    }

    /// Records that the program behind a link is gone. Its session is over; those that share it go on with another, which
    /// is wanted at once or after a while ([`Opened`](HttpServerEvent::Opened)). What it has sent still reaches its clients, and what
    /// it has not answered is answered with an error (D35).
    pub fn handle_link_closed(&mut self, now: Instant, key: LinkKey) {
        if self.shared.is_asked(key) {
            self.era_unsaid(now);
        }
        self.answer_for_gone(now, key);
        let serves = self.links.get(&key).filter(|link| !link.is_closed).map(|link| link.serves);
        match serves {
            Some(LinkUse::Sessions) => self.restart_joint(now, key),
            Some(LinkUse::Stateless) if !self.config.parts_people() => {
                self.starts.back_off.end(now);
                self.close_link(now, key);
            }
            Some(LinkUse::Session(_) | LinkUse::Stateless) | None => self.close_link(now, key),
        }
        self.links.remove(&key);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let Self { streams, replies, .. } = self;
        self.timers.undecided.skip(|key| is_undecided(streams, replies, key));
        self.timers.unproved.skip(|key| is_undecided(streams, replies, key));
        self.timers.keep_alive.skip(|key| replies.contains_key(&key));
        self.timers.fates.skip(|key| awaits_fate(replies, key));
        self.timers.body_patience.skip(|key| has_body(replies, key));
        self.earliest_timer()
    }

    /// The same at less cost, and perhaps sooner: also timers count that are not needed any more.
    #[must_use]
    pub fn earliest_timer(&self) -> Option<Instant> {
        let others = [self.keyring.due(), self.starts.next()];
        self.timers.next().into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.wake_resting(now);
        while let Some(key) = self.timers.undecided.pop(now).or_else(|| self.timers.unproved.pop(now)) {
            if is_undecided(&self.streams, &self.replies, key) {
                self.begin(key);
            }
        }
        while let Some(key) = self.timers.keep_alive.pop(now) {
            let Some(reply) = self.replies.get_mut(&key) else { continue };
            if reply.tick() {
                self.report_reply(key);
            }
            self.timers.keep_alive.arm(now, key);
        }
        while let Some(key) = self.timers.upkeep.pop(now) {
            self.keep_up(now, key);
        }
        while let Some(key) = self.timers.joint_upkeep.pop(now) {
            self.keep_up_joint(now, key);
        }
        while let Some(key) = self.timers.fates.pop(now) {
            if awaits_fate(&self.replies, key) {
                self.tell_fate(key, CancelFate::Unknown);
            }
        }
        while let Some(key) = self.timers.body_patience.pop(now) {
            self.look_at_body(now, key);
        }
        if self.keyring.due().is_some_and(|due| due <= now) {
            self.handle_keys(now, None);
        }
        while let Some(key) = self.timers.link_upkeep.pop(now) {
            self.keep_up_link(now, key);
        }
        while let Some(key) = self.timers.ask.pop(now) {
            self.give_up_joint(now, key);
            if self.shared.is_asked(key) {
                self.learn_era(now, false);
            }
        }
        self.bound_unread(now);
    }

    /// What the driver has to do next.
    pub fn poll_event(&mut self) -> Option<HttpServerEvent> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > SPARE_EVENTS {
            self.events = VecDeque::new();
        }
        event
    }

    /// Drops timers of what is over, if they are many.
    fn compact_timers(&mut self) {
        let Self { streams, replies, sessions, links, joint, .. } = self;
        self.timers.undecided.compact(streams.len(), |key| streams.contains_key(&key));
        self.timers.unproved.compact(streams.len(), |key| streams.contains_key(&key));
        self.timers.keep_alive.compact(replies.len(), |key| replies.contains_key(&key));
        self.timers.fates.compact(self.cancels.len(), |key| awaits_fate(replies, key));
        self.timers.body_patience.compact(replies.len(), |key| has_body(replies, key));
        self.timers.upkeep.compact(sessions.len(), |key| sessions.contains_key(&key));
        self.timers.joint_upkeep.compact(1, |key| joint.link() == Some(key));
        self.timers.ask.compact(2, |key| links.contains_key(&key));
        self.timers.link_upkeep.compact(links.len(), |key| links.contains_key(&key));
    }

    const fn allocate_key(&mut self) -> NonZero<u64> {
        allocate_key(&mut self.next_key)
    }

    /// Opens a link whose program may be started at `at`; `session` is the id of its session, if it has only one.
    fn open_link(
        &mut self,
        now: Instant,
        at: Instant,
        serves: LinkUse,
        session: Option<Box<str>>,
        asker: &Asker,
    ) -> LinkKey {
        let link = LinkKey(self.allocate_key());
        let Asker { owner, credentials } = asker.clone();
        self.links.insert(link, Link::new(serves, credentials.clone(), link.0, now, self.config.seed));
        if at > now {
            self.starts.resting.insert((at, link));
        } else {
            self.report(HttpServerEvent::Opened { link, session, credentials, owner });
        }
        link
    }

    /// Sends a request of our own to the program behind a link, ahead of everything else, and returns its id.
    fn ask_program(&mut self, key: LinkKey, method: &str, params: impl FnOnce(&mut Vec<u8>)) -> RequestId {
        let id = self.links.get_mut(&key).map_or(RequestId::NULL, |link| link.calls.own_id());
        let mut question = Vec::new();
        message::request(&id, method, &mut question, params);
        self.push_urgent(key, LinkInput::Message(posted::line(&question, Vec::new())));
        id
    }

    fn report(&mut self, event: HttpServerEvent) {
        self.events.push_back(event);
    }

    /// Has the driver look at a response, unless it is to look at it anyway.
    fn report_reply(&mut self, key: ReplyKey) {
        if let Some(reply) = self.replies.get_mut(&key) {
            reply.report(key, &mut self.events);
        }
    }

    fn refuse(&mut self, key: ReplyKey, refusal: Refusal) {
        if let Some(reply) = self.replies.get_mut(&key) {
            reply.refuse(refusal);
        }
        self.report_reply(key);
    }

    fn overloaded(&self, what: &str) -> Refusal {
        Refusal::unavailable(1, what)
    }

    /// Answers a browser that asks what a page may do. Its origin was checked.
    fn allow_page(&mut self, key: ReplyKey) {
        let Some(reply) = self.replies.get_mut(&key) else { return };
        reply.empty(StatusCode::NO_CONTENT);
        for (name, value) in ALLOWED {
            reply.add_header(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }

    /// Lets a response go, and returns the stream that it carried.
    fn remove_reply(&mut self, now: Instant, key: ReplyKey) -> Option<StreamKey> {
        let reply = self.replies.remove(&key)?;
        let stream = self.let_go(now, key, reply).filter(|stream| self.streams.contains_key(stream))?;
        self.detach(stream);
        self.bound_unread(now);
        Some(stream)
    }

    /// Lets go what a response had, which was taken out; its stream, if there still is one.
    fn let_go(&mut self, now: Instant, key: ReplyKey, reply: Reply) -> Option<StreamKey> {
        if let Some(cancel) = reply.cancel {
            self.forget_fate(key, &cancel);
        }
        if let Some(body) = reply.body {
            body.uncount(key, &mut self.body_shares);
        }
        if reply.stream.is_none() {
            self.pages.remove(&key);
        }
        if let Some(session) = reply.session.and_then(|session| self.sessions.get_mut(&session)) {
            session.replies -= 1;
            reply.number.map(|number| session.streams.remove(&number));
            (session.idle_since, session.heard) = (now, now);
        }
        reply.stream
    }

    /// Takes a stream from the response that carried it.
    fn detach(&mut self, key: StreamKey) {
        self.change_stream(key, |stream| stream.carry(None));
        let Some(stream) = self.streams.get(&key) else { return };
        let session = stream.session();
        // What cannot be fetched is forgotten.
        if stream.ended.is_some() && (stream.is_final || session.is_none() || !stream.has_begun) {
            self.forget_stream(key);
        }
        self.bound_kept(session);
    }
}

/// Places for events that are kept when there are none.
const SPARE_EVENTS: usize = 64;

/// What a page of an allowed origin may do.
const ALLOWED: [(&str, &str); 3] = [
    ("access-control-allow-methods", "POST, GET, DELETE"),
    (
        "access-control-allow-headers",
        "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
    ),
    ("access-control-max-age", "600"),
];

/// Whether the response of this stream is still neither whole nor a stream.
fn is_undecided(
    streams: &Keyed<BTreeMap<StreamKey, Stream>>,
    replies: &Keyed<BTreeMap<ReplyKey, Reply>>,
    key: StreamKey,
) -> bool {
    let reply = streams.get(&key).and_then(|stream| replies.get(&stream.reply?));
    reply.is_some_and(Reply::is_open)
}

/// Whether this response waits for the fate of a cancel.
fn awaits_fate(replies: &Keyed<BTreeMap<ReplyKey, Reply>>, key: ReplyKey) -> bool {
    replies.get(&key).is_some_and(|reply| reply.cancel.is_some())
}

/// Whether the body of this response's request is being read.
fn has_body(replies: &Keyed<BTreeMap<ReplyKey, Reply>>, key: ReplyKey) -> bool {
    replies.get(&key).is_some_and(|reply| reply.body.is_some())
}

const fn allocate_key(next: &mut NonZero<u64>) -> NonZero<u64> {
    let key = *next;
    *next = key.saturating_add(1);
    key
}

/// Bytes as a message for a response.
fn owned(message: Vec<u8>) -> Bytes {
    message.into()
}
