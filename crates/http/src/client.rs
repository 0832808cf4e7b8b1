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
    link::Departure,
    side::{Side, Sides},
    time::Instant,
};

pub use config::{HttpClientConfig, HttpConfigError};
pub use inbox::LocalMessage;

use fetch::{Fetch, OneWay, OneWayKind, Phase, Reader, Role};
use headers::{Origin, Target};
use inbox::Inbox;
use queues::{Queue, Queues};
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

/// Answers to questions of the server that it has not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owed {
    answers: usize,
    bytes: usize,
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
    queues: Queues,
    /// Bytes of messages that the server has not taken, answers not counted.
    unsent: usize,
    /// Answers to its questions that the server has not taken.
    owed: Owed,
    /// Cancels that it has not taken.
    cancels: usize,
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
            queues: Queues::default(),
            unsent: 0,
            owed: Owed::default(),
            cancels: 0,
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

    /// Whether the response of this request should be read on now. Not a message while so many wait to be taken here, and
    /// no stream of events while the server takes no answers to what it asks on such. What says what became of a message
    /// of ours is always read. Any step may change it.
    #[must_use]
    pub fn may_read(&self, key: FetchKey) -> bool {
        let Pressure { is_full, owes_much } = self.pressure();
        self.fetches.get(&key).is_none_or(|fetch| match fetch.reader {
            Reader::Events(_) => !is_full && !owes_much,
            Reader::Whole(_) => !is_full,
            Reader::NoHead | Reader::Refusal(_) | Reader::Ignored { .. } => true,
        })
    }

    /// What keeps responses from being read.
    pub(crate) const fn pressure(&self) -> Pressure {
        let is_full = self.inbox.bytes() >= self.config.max_unread;
        let owed = self.inbox.questions() + self.owed.answers;
        let owes_much = owed >= self.config.max_owed || self.owed.bytes >= self.config.max_unsent / 2;
        Pressure { is_full, owes_much }
    }

    /// Whether all is done after [`handle_close`](Self::handle_close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closing && self.fetches.is_empty()
    }

    /// The next HTTP request to perform, with its whole body.
    pub fn poll_request(&mut self, now: Instant) -> Option<(FetchKey, Request<Bytes>)> {
        let key = self.queues.hand_out(&self.config)?;
        let request = self.build(key);
        let fetch = self.fetches.get_mut(&key).expect("what is queued exists");
        fetch.phase = if request.body().is_empty() { Phase::Written(now) } else { Phase::Handed };
        let patience = fetch.role.patience(&self.config);
        self.arm_fetch(key, patience.map(|patience| now + patience));
        Some((key, request))
    }

    /// Which connections this request may have.
    #[must_use]
    pub fn lane(&self, key: FetchKey) -> Lane {
        match self.fetches.get(&key).map(|fetch| &fetch.role) {
            Some(Role::Post(_) | Role::Get(_)) => Lane::Lasting,
            Some(Role::OneWay(one_way)) if matches!(one_way.kind, OneWayKind::Cancel(..)) => Lane::Reserved,
            Some(Role::End { .. }) => Lane::Reserved,
            Some(Role::OneWay(_) | Role::Probe(_)) | None => Lane::Passing,
        }
    }

    /// Records that the first byte of a request's body is about to leave, so that the server may get it; `false` if the
    /// request was withdrawn, and nothing must leave.
    #[must_use]
    pub fn handle_written(&mut self, now: Instant, key: FetchKey) -> bool {
        let Some(fetch) = self.fetches.get(&key) else { return false };
        if fetch.phase == Phase::Handed {
            self.begin_writing(now, key);
        }
        true
    }

    /// The next message for the local client.
    pub fn poll_message(&mut self) -> Option<LocalMessage> {
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
        let (cancels, _) = self.queues.take(Queue::Cancel, &self.config);
        let (posts, room) = self.queues.take(Queue::Post, &self.config);
        cancels.into_iter().for_each(|key| self.queue_at(key, Queue::Free));
        for (at, key) in posts.into_iter().enumerate() {
            if at < room {
                self.queue_at(key, Queue::Free);
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
        if let Role::OneWay(one_way) = &fetch.role {
            self.count_one_way(one_way);
        }
        let (phase, queue) = (fetch.phase, fetch.queue);
        self.fetches.insert(key, fetch);
        if phase == Phase::Queued {
            self.queue_at(key, queue);
        }
        key
    }

    /// Has a fetch wait for its turn in this queue.
    fn queue_at(&mut self, key: FetchKey, queue: Queue) {
        if let Some(fetch) = self.fetches.get_mut(&key) {
            fetch.queue = queue;
            self.queues.insert(queue, key);
        }
    }

    /// Takes a fetch off the tables; `None` if it is not there. The driver goes on with it unless it is aborted.
    fn remove_fetch(&mut self, key: FetchKey) -> Option<Fetch> {
        self.arm_fetch(key, None);
        let fetch = self.fetches.remove(&key)?;
        if fetch.is_handed() {
            self.queues.hand_back(fetch.queue);
        } else {
            self.queues.remove(fetch.queue, key);
        }
        if let Role::OneWay(one_way) = &fetch.role {
            self.uncount_one_way(one_way);
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
        let queue = if self.is_handshake(key) { Queue::Free } else { Queue::Call };
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.session = stream.session.map(|_| self.session.generation);
        let fetch = Fetch { queue, ..self.fetch(Role::Post(key), Phase::Queued) };
        let fetch = self.start(fetch);
        self.set_stage(key, Stage::Posting(fetch));
    }

    /// Asks for what was missed of a stream, or for one that listens.
    fn start_get(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        let queue = if stream.purpose == Purpose::Listen { Queue::Free } else { Queue::Call };
        let fetch = Fetch { queue, ..self.fetch(Role::Get(key), Phase::Queued) };
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
            if stream.purpose == Purpose::Calls && !waiting.has_left {
                self.events.push_back(Departure::Withdrawn(waiting.id.clone()).into());
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
