//! The client's side of Streamable HTTP as a machine: no I/O, no clock.
//!
//! Messages of a local client, which speaks as on a pipe, go in and become HTTP requests; what the server says comes out
//! as messages. The machine decides which era a request is of (the dialect's answer), what a cancel is there (a message in
//! a session, a closed stream elsewhere: MCP-H02, MCP-H03), what becomes of a connection that broke, and what is said for
//! a server that does not answer. Each request of the local client gets one answer, unless it was cancelled.
//!
//! It holds what a request over HTTP can meet and a pipe cannot: a session that is lost and opened again, a stream that is
//! resumed, a redirect, a refusal that must become an answer. Behind a relay it is the server's side (`rescind run --url`),
//! behind a `Peer` a transport.
//!
//! - *What a server leaves hanging keeps nothing from a cancel.* So many requests of each kind are handed out and no more
//!   (`queues`), and cancels go before all that can be many. While the server takes no answers to what it asks, streams of
//!   events are not read, and nothing else is held up.
//! - *To whom a message belongs is noted with each message*, so what waits for a session, is redirected or repeated goes
//!   under its own credentials, however late. Only GETs go under the newest.
//! - *A request that waits for a token counts as not sent*, and has no clock: its cancel takes it back.
//! - *A refusal comes back as an answer*, whose `data` says which status it stands for. A gateway in front makes it that
//!   status again.

mod config;
mod departures;
mod errand;
mod errands;
mod event_reader;
mod failure;
mod fetch;
mod head;
pub(crate) mod headers;
mod inbox;
mod message;
mod one_way;
mod proof;
mod queues;
mod receive;
mod recovery;
mod redirect;
mod refusal;
mod response;
mod send;
mod session;
mod signing_in;
mod survey;
mod words;

use core::mem::replace;
use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use http::{HeaderValue, Request};
use rescind_proto::{link::Departure, time::Instant};

pub use config::{HttpClientConfig, HttpConfigError};
pub use inbox::LocalMessage;

use errand::{Errand, OneWayKind, Role, Stage};
use errands::{Errands, Timer};
use fetch::{Aim, Phase, Reader};
use headers::Origin;
use inbox::Inbox;
use queues::Queue;
use session::{Session, SessionState};

use crate::mirror::tools::Tools;

/// Names an HTTP request and its response, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchKey {
    /// Later ones have greater numbers.
    serial: u64,
    /// The errand that it carries.
    errand: ErrandKey,
}

/// Names an errand, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ErrandKey(u64);

/// Something that the driver has to do or may tell.
///
/// It never grows: a driver of the client that left one out would leave a stream open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpClientEvent {
    /// Drop this HTTP request, and close the stream of its response. Nothing of it is taken in any more.
    Abort(FetchKey),
    /// A message that was taken in has left, or never will.
    Departed(Departure),
    /// Something that a person may want to know.
    Notice(HttpClientNotice),
}

/// Something that happened and that no message tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpClientNotice {
    /// The server knows the session no more; a new one is being opened.
    SessionLost,
    /// A new session was opened in place of one that was lost.
    SessionReopened,
    /// The stream on which the server speaks unasked broke, and it was refused when it was asked for again. That is
    /// repeated, less and less often, and told once.
    NotHeard {
        /// What the server did.
        why: Box<str>,
    },
    /// That stream is there again. What the server said meanwhile may be lost.
    HeardAgain,
    /// A tool was taken out of the list, since it could not be called rightly.
    ToolRejected {
        /// The tool.
        tool: Box<str>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The server did not accept a notification or, if the method is empty, an answer.
    NotAccepted {
        /// Its method.
        method: Box<str>,
        /// What the server did.
        why: Box<str>,
    },
    /// A message was not passed on.
    Dropped {
        /// Its method; empty for an answer, and for what is no message.
        method: Box<str>,
        /// Why not.
        why: &'static str,
    },
}

impl fmt::Display for HttpClientNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |method: &str| if method.is_empty() { "an answer".to_owned() } else { method.to_owned() };
        match self {
            Self::SessionLost => f.write_str("the server knows the session no more; a new one is opened"),
            Self::SessionReopened => f.write_str("a new session was opened; what the old one knew is gone"),
            Self::NotHeard { why } => {
                write!(
                    f,
                    "what the server says unasked is not heard: the stream broke, and it said {why} when it was asked \
                           for again, which is repeated"
                )
            }
            Self::HeardAgain => f.write_str("what the server says unasked is heard again; some of it may be lost"),
            Self::ToolRejected { tool, why } => write!(f, "the tool {tool} was left out: {why}"),
            Self::NotAccepted { method, why } => write!(f, "{} was not accepted: {why}", named(method)),
            Self::Dropped { method, why } => write!(f, "{} was dropped: {why}", named(method)),
        }
    }
}

/// Which connections a request may have, so that those which hang leave some for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lane {
    /// Those of requests whose responses may be open for long. Others should not share a connection with such: where the
    /// number of responses on it is bounded, as over HTTP/2, what comes next has to wait for the end of one.
    Lasting,
    /// Those of requests whose responses say little: answers and notifications.
    Passing,
    /// A few that are kept for what stops work: cancels, and the end of a session.
    Reserved,
}

/// What keeps responses from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// So much waits to be taken by the local client.
    pub(crate) is_full: bool,
    /// So many answers wait for the server, or questions to be taken.
    pub(crate) owes_much: bool,
}

/// The client's side of Streamable HTTP.
///
/// # Contract
///
/// The driver hands in the messages of the local client ([`handle_message`](Self::handle_message)), its end
/// ([`handle_close`](Self::handle_close)), the time ([`handle_timeout`](Self::handle_timeout)), and what becomes of the HTTP
/// requests that it was given. After each call, in this order, it
///
/// 1. drains [`poll_event`](Self::poll_event): an [`Abort`](HttpClientEvent::Abort) closes the stream of a request, which
///    may be its cancel, and a [`Departed`](HttpClientEvent::Departed) is for whoever has to know what has left (D51);
/// 2. performs what [`poll_request`](Self::poll_request) gives, each on a connection of its [`lane`](Self::lane);
/// 3. takes [`poll_message`](Self::poll_message), as the local client reads it;
/// 4. asks [`poll_timeout`](Self::poll_timeout) anew, and is done once it [is closed](Self::is_closed).
///
/// Of a request it reports, in this order:
///
/// - [`handle_written`](Self::handle_written) *before* the first byte of its body leaves, which must not leave if that
///   returns `false`: the request was cancelled, and the server shall not see it;
/// - [`handle_head`](Self::handle_head), [`handle_body`](Self::handle_body) while [`may_read`](Self::may_read) says so, and
///   [`handle_body_end`](Self::handle_body_end);
/// - or [`handle_unreached`](Self::handle_unreached) or [`handle_failed`](Self::handle_failed), and nothing more.
///
/// A driver that sees to tokens may send a request again that was refused
/// ([`handle_signing_in`](Self::handle_signing_in)).
///
/// ```
/// use http::{Request, Response};
/// use rescind_http::client::{HttpClient, HttpClientConfig, HttpClientEvent};
/// use rescind_proto::time::Instant;
///
/// /// A server that answers every request in the same way.
/// fn perform(request: &Request<bytes::Bytes>) -> Response<&'static [u8]> {
///     assert_eq!(request.method(), "POST");
///     let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},
///         "serverInfo":{"name":"server","version":"1"}}}"#;
///     Response::builder().header("content-type", "application/json").body(&answer[..]).unwrap()
/// }
///
/// let mut client = HttpClient::new(HttpClientConfig::new("https://example.com/mcp").unwrap());
/// let now = Instant::ORIGIN;
/// client.handle_message(now, br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
///     "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1"}}}"#);
///
/// while let Some(event) = client.poll_event() {
///     assert!(!matches!(event, HttpClientEvent::Abort(_)), "nothing was cancelled");
/// }
/// while let Some((key, request)) = client.poll_request(now) {
///     if !client.handle_written(now, key) {
///         continue; // it was taken back
///     }
///     let (head, body) = perform(&request).into_parts();
///     client.handle_head(now, key, &head);
///     client.handle_body(now, key, body);
///     client.handle_body_end(now, key);
/// }
/// let answer = client.poll_message().expect("each request gets one answer");
/// assert!(answer.unanswered.is_none(), "the server gave it");
/// ```
#[derive(Clone, Debug)]
pub struct HttpClient {
    config: HttpClientConfig,
    origin: Origin,
    /// To whom belongs what the local client says now.
    credentials: Option<HeaderValue>,
    session: Session,
    /// The revision of the last request outside a session.
    stateless: Option<HeaderValue>,
    errands: Errands,
    inbox: Inbox,
    tools: Tools,
    /// The server has shown that it speaks this transport, or was asked about the other.
    knows_transport: bool,
    is_closing: bool,
}

impl HttpClient {
    /// A client that has said nothing.
    #[must_use]
    pub fn new(config: HttpClientConfig) -> Self {
        Self {
            origin: Origin::of(&config.url),
            credentials: None,
            session: Session::new(0, None),
            stateless: None,
            errands: Errands::new(&config),
            inbox: Inbox::default(),
            tools: Tools::new(config.max_tools),
            knows_transport: false,
            is_closing: false,
            config,
        }
    }

    /// Sets the longest message from the server, in bytes.
    pub const fn set_max_message(&mut self, most: usize) {
        self.config.max_message = most;
    }

    /// Has messages from now on carry this header `Authorization`, or none. Those before carry what was set when they were
    /// taken in, however late and however often they are sent. What listens, or is resumed, carries the newest.
    ///
    /// One of the settings ([`HttpClientConfig::header`]) stands in place of all of these.
    pub fn set_credentials(&mut self, credentials: Option<HeaderValue>) {
        self.credentials = credentials.map(|mut value| {
            value.set_sensitive(true);
            value
        });
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.errands.calls.len()
    }

    /// Whether the response of this request should be read on now. Not a message while so many wait to be taken here, and
    /// no stream of events while the server takes no answers to what it asks on such. What says what became of a message
    /// of ours is always read. Any step may change it.
    #[must_use]
    pub fn may_read(&self, key: FetchKey) -> bool {
        let Pressure { is_full, owes_much } = self.pressure();
        self.errands.fetch(key).is_none_or(|(_, fetch)| match fetch.reader {
            Reader::Events(_) => !is_full && !owes_much,
            Reader::Whole(_) => !is_full,
            Reader::NoHead | Reader::Refusal(_) | Reader::Ignored { .. } => true,
        })
    }

    /// What keeps responses from being read.
    pub(crate) const fn pressure(&self) -> Pressure {
        let (backlog, is_full) = (&self.errands.backlog, self.inbox.bytes() >= self.config.max_unread);
        let owes_much = self.inbox.questions() + backlog.answers >= self.config.max_owed
            || backlog.answer_bytes >= self.config.max_unsent / 2;
        Pressure { is_full, owes_much }
    }

    /// Whether all is done after [`handle_close`](Self::handle_close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closing && self.errands.is_empty()
    }

    /// The next HTTP request to perform, with its whole body.
    pub fn poll_request(&mut self, now: Instant) -> Option<(FetchKey, Request<Bytes>)> {
        let key = self.errands.queues.hand_out(&self.config)?;
        let request = self.build(key);
        let phase = if request.body().is_empty() { Phase::Written(now) } else { Phase::Handed };
        self.errands.hand_over(now, key, phase, &self.config);
        Some((key, request))
    }

    /// Which connections this request may have.
    #[must_use]
    pub fn lane(&self, key: FetchKey) -> Lane {
        match self.errands.fetch(key).map(|(errand, fetch)| (&errand.role, &fetch.aim)) {
            Some((_, Aim::Probe(_))) | None => Lane::Passing,
            Some((Role::OneWay(one_way), _)) => match one_way.kind {
                OneWayKind::Cancel { .. } | OneWayKind::End { .. } => Lane::Reserved,
                OneWayKind::Initialized | OneWayKind::Answer | OneWayKind::Other => Lane::Passing,
            },
            Some((Role::Calls | Role::Listen | Role::Reopen | Role::Survey { .. }, _)) => Lane::Lasting,
        }
    }

    /// Records that the first byte of a request's body is about to leave, so that the server may get it; `false` if the
    /// request was withdrawn, and nothing must leave.
    #[must_use]
    pub fn handle_written(&mut self, now: Instant, key: FetchKey) -> bool {
        let Some((_, fetch)) = self.errands.fetch(key) else { return false };
        if fetch.phase == Phase::Handed {
            self.errands.begin_writing(now, key);
        }
        true
    }

    /// The next message for the local client.
    pub fn poll_message(&mut self) -> Option<LocalMessage> {
        let (message, answered) = self.inbox.pop()?;
        if let Some((id, errand)) = answered
            && self.errands.calls.get(&id) == Some(&errand)
        {
            self.errands.calls.remove(&id);
        }
        Some(message)
    }

    /// Whether a message waits to be taken.
    #[must_use]
    pub fn has_message(&self) -> bool {
        self.inbox.len() > 0
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.errands.timers.next()
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.errands.pop_due(now) {
            match timer {
                Timer::Errand(key) => self.handle_errand_due(now, key),
                Timer::Fetch(key) => self.handle_fetch_due(now, key),
            }
        }
    }

    /// What the driver has to do next.
    pub fn poll_event(&mut self) -> Option<HttpClientEvent> {
        let event = self.errands.events.pop_front();
        if event.is_none() {
            self.errands.events = VecDeque::new();
        }
        event
    }

    /// The local client is gone: the session is ended, and every response let go.
    pub fn handle_close(&mut self) {
        if replace(&mut self.is_closing, true) {
            return;
        }
        for key in self.errands.keys(|errand| errand.has_stream() || matches!(errand.stage, Stage::Held)) {
            self.errands.release_cancels(key);
            self.errands.forget(key);
        }
        // What has a place is said before the session ends; more would keep the end waiting for a server that takes nothing.
        let (cancels, _) = self.errands.queues.take(Queue::Cancel, &self.config);
        let (posts, room) = self.errands.queues.take(Queue::Post, &self.config);
        cancels.into_iter().for_each(|key| self.errands.queue_at(key, Queue::Free));
        for (at, key) in posts.into_iter().enumerate() {
            if at < room {
                self.errands.queue_at(key, Queue::Free);
            } else {
                self.drop_one_way(key.errand, "the server takes in nothing now");
            }
        }
        self.end_session();
    }

    fn notice(&mut self, notice: HttpClientNotice) {
        self.errands.events.push_back(HttpClientEvent::Notice(notice));
    }

    fn dropped(&mut self, method: &str, why: &'static str) {
        self.notice(HttpClientNotice::Dropped { method: method.into(), why });
    }

    /// Something in the session that belongs to the local client's credentials of now.
    fn errand(&self, role: Role, body: Bytes) -> Errand {
        let session = Some(self.session.generation);
        Errand { credentials: self.credentials.clone(), ..Errand::new(role, self.session.dialect(), session, body) }
    }

    /// Sends an errand now, or as soon as the session takes messages, if it is to be sent in one.
    fn send(&mut self, now: Instant, key: ErrandKey) {
        let Some(errand) = self.errands.get(key) else { return };
        let is_in_session = !errand.is_stateless();
        if is_in_session && self.session.state == SessionState::Lost {
            self.reopen(now);
        }
        if is_in_session && self.session.is_gated() {
            self.errands.hold(key);
        } else {
            self.start(key);
        }
    }

    /// Sends an errand, in the session as it is now.
    fn start(&mut self, key: ErrandKey) {
        let Some(errand) = self.errands.get_mut(key) else { return };
        errand.session = errand.session.map(|_| self.session.generation);
        if errand.one_way().is_some_and(|one_way| one_way.kind == OneWayKind::Initialized) {
            self.session.initialized = Some(errand.body.clone());
            if self.session.state == SessionState::Open {
                self.session.state = SessionState::Greeting(key);
            }
        }
        self.errands.carry(key, Aim::Send);
    }
}
