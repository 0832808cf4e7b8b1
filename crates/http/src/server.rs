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
mod bounds;
mod calls;
mod config;
pub(crate) mod connections;
mod credentials;
pub(crate) mod door;
mod entrance;
mod event;
mod here;
mod input;
mod joint;
mod keyed;
mod keys;
mod link;
mod look_alike;
mod opening;
mod passed_status;
mod placement;
mod places;
mod posted;
mod programs;
mod proof;
mod question;
mod receive;
mod route;
mod session;
mod stateless;
pub(crate) mod streams;
mod task_owners;
mod timers;
mod withdrawal;

use std::collections::VecDeque;

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use rescind_proto::{
    error_code,
    id::RequestId,
    link::{CancelFate, Connected},
    time::Instant,
};

pub use asked_by::PoolMember;
pub use config::{HttpServerConfig, Sessions, Stateless};
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
pub use streams::{BodyChunk, MAX_PAGE, ReplyBody};

use door::{Keyring, Refusal};
use entrance::Unjudged;
use here::Later;
use keys::{SessionKey, StreamKey};
use link::LinkUse;
use programs::{Era, Lapsed, Programs};
use stateless::Learned;
use streams::Streams;
use task_owners::TaskOwners;
use timers::{Timer, Timers};

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
    /// What clients have open.
    streams: Streams,
    programs: Programs,
    /// Empty between steps.
    later: Vec<Later>,
    task_owners: TaskOwners,
    /// What is known of the keys by which tokens are judged.
    keyring: Keyring,
    /// Requests that wait for such keys.
    unjudged: Vec<Unjudged>,
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
            streams: Streams::new(&config),
            programs: Programs::new(&config),
            later: Vec::new(),
            task_owners: TaskOwners::new(&config),
            keyring: Keyring::new(),
            unjudged: Vec::new(),
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
        self.learn_era(now, &Learned::Silence);
        self.handle_keys(now, None);
        for link in self.programs.links.keys().copied().collect::<Vec<_>>() {
            let words = "the service has ended before the server answered";
            self.fail_waiting(now, link, error_code::UPSTREAM_GONE, words);
            self.end_link(now, link);
        }
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.programs.links.values().map(|link| link.calls.len()).sum()
    }

    /// Counts who is connected to a link. Costs time in proportion to its sessions' streams.
    #[must_use]
    pub fn census(&self, link: LinkKey) -> Connected {
        let mut census = Connected::default();
        let Some(link) = self.programs.links.get(&link) else { return census };
        if link.serves.is_shared() {
            census.restarts = self.programs.back_off.restarts;
        }
        let sessions = &self.streams.sessions;
        match link.serves {
            LinkUse::Session(key) => {
                sessions.get(&key).into_iter().for_each(|one| self.streams.count(one, &mut census))
            }
            LinkUse::Sessions => sessions.values().for_each(|one| self.streams.count(one, &mut census)),
            LinkUse::Stateless => census.responses = link.calls.len(),
        }
        census
    }

    /// Takes the head of a response, once it is decided. With a [whole](ReplyBody::Whole) body that is all of it, and the
    /// key means nothing any more.
    pub fn poll_head(&mut self, now: Instant, key: ReplyKey) -> Option<Response<ReplyBody>> {
        let head = self.streams.poll_head(now, key)?;
        if !matches!(head.body(), ReplyBody::Whole(_)) {
            self.timers.arm(now, Timer::KeepAlive(key));
        }
        Some(head)
    }

    /// Takes the next of a body that is not whole. After its end the key means nothing any more.
    pub fn poll_body(&mut self, now: Instant, key: ReplyKey) -> BodyChunk {
        let chunk = self.streams.poll_body(now, key);
        self.retract_abandoned(now);
        chunk
    }

    /// Whether the body of this request is to be read. It is not while the keys are awaited that judge its token.
    #[must_use]
    pub fn wants_body(&self, key: ReplyKey) -> bool {
        self.streams.needs(Timer::Body(key))
    }

    /// Takes a part of a body. It may refuse the request: then the rest need not be read.
    pub fn handle_body(&mut self, key: ReplyKey, bytes: &[u8]) {
        self.streams.take_in(key, bytes);
    }

    /// Records that a body is complete, and handles its request. `head` is the one that was judged.
    pub fn handle_body_end(&mut self, now: Instant, key: ReplyKey, head: &Parts) {
        // What was refused meanwhile has its response.
        if let Some(body) = self.take_whole_body(now, key) {
            self.enter(now, key, head, Some(&body), false);
        }
    }

    /// Hands a complete body out: its request is for another server that serves the same ([`place`]), and the
    /// key means nothing here any more. `None` if it was refused meanwhile: then its response is here.
    pub fn take_whole_body(&mut self, now: Instant, key: ReplyKey) -> Option<Vec<u8>> {
        self.streams.take_body(now, key)
    }

    /// Records that a body broke off. Its client is gone, as far as is known.
    pub fn handle_body_broken(&mut self, key: ReplyKey) {
        let text = "the body of the request broke off";
        self.streams.refuse_unread(key, Refusal::new(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, text));
    }

    /// Takes in a page of the server behind, of [`MAX_PAGE`] bytes at most; `Err` is the reason why there is none.
    pub fn handle_page(&mut self, key: ReplyKey, page: Result<Response<Bytes>, &str>) {
        self.streams.take_page(key, page);
    }

    /// Records what is known of a cancel that this link was given, by the id that it named. Only the first outcome
    /// is sent to the client that POSTed the cancel.
    pub fn handle_cancel_fate(&mut self, link: LinkKey, id: &RequestId, fate: CancelFate) {
        self.streams.handle_fate(link, id, fate);
    }

    /// Records that a response was dropped before its end: its client has closed the connection, or the network did. What
    /// that means for the request is its dialect's answer (D40). Nothing happens if the response has ended.
    pub fn handle_hang_up(&mut self, now: Instant, key: ReplyKey) {
        if let Some(session) = self.streams.hang_up(now, key) {
            self.end_session(now, session);
        }
        self.retract_abandoned(now);
    }

    /// Records that the program behind a link is gone. Its session is over; those that share it go on with another, which
    /// is wanted at once or after a while ([`Opened`](HttpServerEvent::Opened)). What it has sent still reaches its clients, and what
    /// it has not answered is answered with an error (D35).
    pub fn handle_link_closed(&mut self, now: Instant, key: LinkKey) {
        if self.programs.era == Era::Asked(key) {
            self.learn_era(now, &Learned::Nothing(None));
        }
        self.fail_waiting(now, key, error_code::UPSTREAM_GONE, "the server is gone");
        match self.programs.links.get(&key).filter(|link| !link.is_closed).map(|link| link.serves) {
            Some(LinkUse::Sessions) => self.restart_joint(now, key),
            Some(serves) => {
                if self.programs.is_of_several(serves) {
                    self.programs.back_off.end(now);
                }
                self.close_link(now, key);
            }
            None => {}
        }
        self.programs.links.remove(&key);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.timers.skip(|timer| self.streams.needs(timer));
        self.earliest_timer()
    }

    /// The same at less cost, and perhaps sooner: also timers count that are not needed any more.
    #[must_use]
    pub fn earliest_timer(&self) -> Option<Instant> {
        [self.timers.next(), self.keyring.due(), self.programs.next_due()].into_iter().flatten().min()
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(lapsed) = self.programs.poll_due(now, !self.streams.sessions.is_empty()) {
            match lapsed {
                Lapsed::Unanswered(link) => self.give_up_question(now, link),
                Lapsed::Unused(link) => self.end_link(now, link),
            }
        }
        while let Some(timer) = self.timers.pop(now) {
            if self.handle_timer(now, timer) {
                self.timers.arm(now, timer);
            }
        }
        if self.keyring.due().is_some_and(|due| due <= now) {
            self.handle_keys(now, None);
        }
        self.streams.bound_unread(now);
        self.retract_abandoned(now);
    }

    /// Does what is due; `true` if it is to be done again.
    fn handle_timer(&mut self, now: Instant, timer: Timer) -> bool {
        match timer {
            Timer::Begin(key) | Timer::Prove(key) => self.streams.begin(key),
            Timer::KeepAlive(key) => return self.streams.tick(key),
            Timer::Body(key) => return self.streams.look_at_body(key),
            Timer::Fate(key) => self.streams.tell_fate(key, CancelFate::Unknown),
            Timer::Session(key) => {
                if self.streams.keep_up(now, key) {
                    self.end_session(now, key);
                }
                return self.streams.needs(timer);
            }
        }
        false
    }

    /// What the driver has to do next.
    pub fn poll_event(&mut self) -> Option<HttpServerEvent> {
        pop(&mut self.programs.events, SPARE_EVENTS).or_else(|| pop(&mut self.streams.events, SPARE_EVENTS))
    }
}

/// Places for events that are kept when there are none.
const SPARE_EVENTS: usize = 64;

/// Takes the first of what waits. Once nothing does, not more than so many places are kept.
fn pop<T>(waiting: &mut VecDeque<T>, most_spare: usize) -> Option<T> {
    let first = waiting.pop_front();
    if waiting.is_empty() && waiting.capacity() > most_spare {
        *waiting = VecDeque::new();
    }
    first
}
