//! The client's side of Streamable HTTP as a machine: no I/O, no clock.
//!
//! Messages of a local client, which speaks as on a pipe, go in and become HTTP requests; what the server says comes out
//! as messages. The machine decides which era a request is of (the dialect's answer), what a cancel is there (a message in
//! a session, a closed stream elsewhere: MCP-H02, MCP-H03), what becomes of a connection that broke, and what is said for
//! a server that does not answer. Each request of the local client gets one answer, unless it was cancelled.
//!
//! The driver hands each message to [`handle_message`](HttpClient::handle_message), performs what
//! [`poll_request`](HttpClient::poll_request) gives, and reports: [`handle_written`](HttpClient::handle_written) before the
//! first byte of a body leaves, [`handle_head`](HttpClient::handle_head), [`handle_body`](HttpClient::handle_body) and
//! [`handle_body_end`](HttpClient::handle_body_end) as the response comes, or
//! [`handle_failed`](HttpClient::handle_failed). Messages for the local client come from
//! [`poll_message`](HttpClient::poll_message). A driver that sees to tokens may send a request again that was refused
//! ([`handle_signing_in`](HttpClient::handle_signing_in)). After each call the driver drains [`poll_event`](HttpClient::poll_event).

mod config;
mod event_reader;
mod failure;
mod fetch;
mod head;
pub(crate) mod headers;
mod inbox;
mod message;
mod one_way;
mod proof;
mod receive;
mod redirect;
mod refusal;
mod response;
mod send;
mod session;
mod signing_in;
mod stream;
mod survey;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::{HeaderValue, Request};
use rescind_proto::{
    dialect::{Dialect, negotiation::Negotiation},
    framing::Framing,
    id::RequestId,
    side::{Side, Sides},
    time::Instant,
};

pub use config::{HttpClientConfig, HttpConfigError};

use fetch::{Fetch, OneWay, Phase, Role};
use headers::{Origin, Target};
use inbox::Inbox;
use session::{Session, SessionState};
use stream::{Purpose, Stage, Stream};

use crate::mirror::tools::Tools;

/// Names an HTTP request and its response, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchKey(u64);

/// Names a stream, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamKey(u64);

/// Something that the driver has to do or may tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpClientEvent {
    /// Drop this HTTP request, and close the stream of its response. Nothing of it is taken in any more.
    Abort(FetchKey),
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
            Self::ToolRejected { tool, why } => write!(f, "the tool {tool} was left out: {why}"),
            Self::NotAccepted { method, why } => write!(f, "{} was not accepted: {why}", named(method)),
            Self::Dropped { method, why } => write!(f, "{} was dropped: {why}", named(method)),
        }
    }
}

/// The client's side of Streamable HTTP.
#[derive(Clone, Debug)]
pub struct HttpClient {
    config: HttpClientConfig,
    origin: Origin,
    negotiation: Negotiation,
    /// To whom belongs what the local client says now.
    credentials: Option<HeaderValue>,
    session: Session,
    /// The revision of the last request outside a session.
    stateless: Option<HeaderValue>,
    streams: BTreeMap<StreamKey, Stream>,
    fetches: BTreeMap<FetchKey, Fetch>,
    /// Requests in flight, by id; those whose answer was not taken yet included.
    calls: HashMap<RequestId, StreamKey, FixedState>,
    /// What waits until messages may be sent in the session, oldest first.
    held: BTreeMap<u64, Held>,
    /// What waits to be handed out: first what nothing delays, then what is bounded in number.
    urgent: BTreeSet<FetchKey>,
    /// Answers and notifications that wait to be handed out.
    posts: BTreeSet<FetchKey>,
    queue: BTreeSet<FetchKey>,
    /// Fetches handed out whose number is bounded.
    open: usize,
    /// Answers and notifications handed out.
    open_posts: usize,
    /// Bytes of messages that the server has not taken.
    unsent: usize,
    inbox: Inbox,
    tools: Tools,
    timers: BTreeSet<(Instant, Timer)>,
    events: VecDeque<HttpClientEvent>,
    next_key: u64,
    /// The server has shown that it speaks this transport, or was asked about the other.
    knows_transport: bool,
    is_closing: bool,
}

/// What waits until messages may be sent in the session.
#[derive(Clone, Debug)]
enum Held {
    Stream(StreamKey),
    OneWay(OneWay),
}

/// Whose timer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Stream(StreamKey),
    Fetch(FetchKey),
}

impl HttpClient {
    /// A client that has said nothing.
    #[must_use]
    pub fn new(config: HttpClientConfig) -> Self {
        Self {
            origin: Origin::of(&config.url),
            negotiation: Negotiation::new(Sides { client: None, server: None }),
            credentials: None,
            session: Session::default(),
            stateless: None,
            streams: BTreeMap::new(),
            fetches: BTreeMap::new(),
            calls: HashMap::with_hasher(FixedState::with_seed(config.seed)),
            held: BTreeMap::new(),
            urgent: BTreeSet::new(),
            posts: BTreeSet::new(),
            queue: BTreeSet::new(),
            open: 0,
            open_posts: 0,
            unsent: 0,
            inbox: Inbox::default(),
            tools: Tools::new(config.max_tools),
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            next_key: 0,
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
        self.calls.len()
    }

    /// Whether so much waits to be taken that responses should not be read on.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.inbox.bytes() >= self.config.max_unread
    }

    /// Whether all is done after [`handle_close`](Self::handle_close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closing && self.fetches.is_empty()
    }

    /// The next HTTP request to perform, with its whole body.
    pub fn poll_request(&mut self, now: Instant) -> Option<(FetchKey, Request<Bytes>)> {
        let is_free = self.open < self.config.max_fetches;
        let may_post = self.open_posts < self.config.max_posts;
        let post = || may_post.then(|| self.posts.pop_first()).flatten();
        let key =
            self.urgent.pop_first().or_else(post).or_else(|| is_free.then(|| self.queue.pop_first()).flatten())?;
        let request = self.build(key);
        let fetch = self.fetches.get_mut(&key).expect("what is queued exists");
        fetch.phase = if request.body().is_empty() { Phase::Written(now) } else { Phase::Handed };
        self.open += usize::from(fetch.is_counted);
        self.open_posts += usize::from(fetch.is_post());
        let patience = fetch.role.patience(&self.config);
        self.arm_fetch(key, patience.map(|patience| now + patience));
        Some((key, request))
    }

    /// Whether the response of this request may be open for long. Others should not share a connection with such: where
    /// the number of responses on it is bounded, as over HTTP/2, a cancel would have to wait for the end of one.
    #[must_use]
    pub fn may_last(&self, key: FetchKey) -> bool {
        self.fetches.get(&key).is_some_and(|fetch| matches!(fetch.role, Role::Post(_) | Role::Get(_)))
    }

    /// Records that the first byte of a request's body is about to leave, so that the server may get it; `false` if the
    /// request was withdrawn, and nothing must leave.
    #[must_use]
    pub fn handle_written(&mut self, now: Instant, key: FetchKey) -> bool {
        let Some(fetch) = self.fetches.get_mut(&key) else { return false };
        if fetch.phase == Phase::Handed {
            fetch.phase = Phase::Written(now);
        }
        true
    }

    /// The next message for the local client: JSON without a line break.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        let (message, answered) = self.inbox.pop()?;
        if let Some((id, stream)) = answered
            && self.calls.get(&id) == Some(&stream)
        {
            self.calls.remove(&id);
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
        self.timers.first().map(|(due, _)| *due)
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((due, timer)) = self.timers.first().copied()
            && due <= now
        {
            match timer {
                Timer::Stream(key) => {
                    self.arm_stream(key, None);
                    self.handle_stream_due(now, key);
                }
                Timer::Fetch(key) => {
                    self.arm_fetch(key, None);
                    self.handle_fetch_due(now, key);
                }
            }
        }
    }

    /// What the driver has to do next.
    pub fn poll_event(&mut self) -> Option<HttpClientEvent> {
        let event = self.events.pop_front();
        if event.is_none() {
            self.events = VecDeque::new();
        }
        event
    }

    /// The local client is gone: the session is ended, and every response let go.
    pub fn handle_close(&mut self) {
        if core::mem::replace(&mut self.is_closing, true) {
            return;
        }
        for key in self.streams.keys().copied().collect::<Vec<_>>() {
            self.release_cancels(key);
            self.forget_stream(key);
        }
        for (_, held) in core::mem::take(&mut self.held) {
            if let Held::OneWay(one_way) = held {
                self.unsent -= one_way.body.len();
            }
        }
        // What has a place is said before the session ends; more would keep the end waiting for a server that takes nothing.
        let room = self.config.max_posts.saturating_sub(self.open_posts);
        for (at, key) in core::mem::take(&mut self.posts).into_iter().enumerate() {
            if at < room {
                self.urgent.insert(key);
            } else if let Some(Fetch { role: Role::OneWay(one_way), .. }) = self.remove_fetch(key) {
                self.dropped(&one_way.method, "the server takes in nothing now");
            }
        }
        self.end_session();
    }

    /// The dialect of the session, or what is taken for it.
    fn dialect(&self) -> &'static Dialect {
        self.negotiation.of(Side::Client, Framing::Line)
    }

    const fn allocate_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn notice(&mut self, notice: HttpClientNotice) {
        self.events.push_back(HttpClientEvent::Notice(notice));
    }

    fn dropped(&mut self, method: &str, why: &'static str) {
        self.notice(HttpClientNotice::Dropped { method: method.into(), why });
    }

    /// A fetch from the server's own address.
    fn fetch(&self, role: Role, phase: Phase) -> Fetch {
        Fetch::new(role, Target(self.config.url.clone()), phase)
    }

    /// Adds a fetch, to be handed out as soon as may be.
    fn start(&mut self, fetch: Fetch) -> FetchKey {
        let key = FetchKey(self.allocate_key());
        if fetch.phase == Phase::Queued {
            self.enqueue(key, &fetch);
        }
        self.fetches.insert(key, fetch);
        key
    }

    /// Has a fetch wait for its turn. Nothing that may be many stands before a cancel.
    fn enqueue(&mut self, key: FetchKey, fetch: &Fetch) {
        let queue = match (fetch.is_counted, fetch.is_post()) {
            (true, _) => &mut self.queue,
            (false, true) => &mut self.posts,
            (false, false) => &mut self.urgent,
        };
        queue.insert(key);
    }

    /// Takes a fetch off the tables; `None` if it is not there. The driver goes on with it unless it is aborted.
    fn remove_fetch(&mut self, key: FetchKey) -> Option<Fetch> {
        self.arm_fetch(key, None);
        let fetch = self.fetches.remove(&key)?;
        self.urgent.remove(&key);
        self.posts.remove(&key);
        self.queue.remove(&key);
        if fetch.is_handed() {
            self.open -= usize::from(fetch.is_counted);
            self.open_posts -= usize::from(fetch.is_post());
        }
        if let Role::OneWay(one_way) = &fetch.role {
            self.unsent -= one_way.body.len();
        }
        Some(fetch)
    }

    /// Gives up a fetch, whatever it has come to.
    fn abort(&mut self, key: FetchKey) -> Option<Fetch> {
        let fetch = self.remove_fetch(key)?;
        if fetch.is_handed() {
            self.events.push_back(HttpClientEvent::Abort(key));
        }
        Some(fetch)
    }

    /// Sends the requests of a stream.
    fn start_post(&mut self, key: StreamKey) {
        let is_handshake = self.is_handshake(key);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let is_counted = stream.purpose == Purpose::Calls && !is_handshake;
        stream.session = stream.session.map(|_| self.session.generation);
        let fetch = Fetch { is_counted, ..self.fetch(Role::Post(key), Phase::Queued) };
        let fetch = self.start(fetch);
        self.set_stage(key, Stage::Posting(fetch));
    }

    /// Asks for what was missed of a stream, or for one that listens.
    fn start_get(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        let is_counted = stream.purpose == Purpose::Calls;
        let fetch = Fetch { is_counted, ..self.fetch(Role::Get(key), Phase::Queued) };
        let fetch = self.start(fetch);
        self.set_stage(key, Stage::Asking(fetch));
    }

    fn set_stage(&mut self, key: StreamKey, stage: Stage) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.stage = stage;
        }
    }

    /// Forgets a stream, with all that is under way for it. What still waits for it is answered before.
    fn forget_stream(&mut self, key: StreamKey) -> Option<Stream> {
        self.arm_stream(key, None);
        let stream = self.streams.remove(&key)?;
        self.unsent -= stream.unsent;
        if let Some(fetch) = stream.fetch() {
            self.abort(fetch);
        }
        match &stream.stage {
            Stage::Held(place) => drop(self.held.remove(place)),
            Stage::Surveying(survey, _) => drop(self.forget_stream(*survey)),
            Stage::Posting(_) | Stage::Reading(_) | Stage::Away | Stage::Asking(_) | Stage::Probing(_) => {}
        }
        for waiting in &stream.waiting {
            if waiting.state == stream::CallState::InFlight && self.calls.get(&waiting.id) == Some(&key) {
                self.calls.remove(&waiting.id);
            }
        }
        Some(stream)
    }

    fn arm_stream(&mut self, key: StreamKey, due: Option<Instant>) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        if let Some(earlier) = core::mem::replace(&mut stream.timer, due) {
            self.timers.remove(&(earlier, Timer::Stream(key)));
        }
        self.timers.extend(due.map(|due| (due, Timer::Stream(key))));
    }

    fn arm_fetch(&mut self, key: FetchKey, due: Option<Instant>) {
        let Some(fetch) = self.fetches.get_mut(&key) else { return };
        if let Some(earlier) = core::mem::replace(&mut fetch.timer, due) {
            self.timers.remove(&(earlier, Timer::Fetch(key)));
        }
        self.timers.extend(due.map(|due| (due, Timer::Fetch(key))));
    }

    /// Whether messages in the session wait: for its id, or until the server has accepted the end of the handshake.
    const fn is_gated(&self) -> bool {
        matches!(self.session.state, SessionState::Opening(_) | SessionState::Greeting(_) | SessionState::Reopening(_))
    }
}
