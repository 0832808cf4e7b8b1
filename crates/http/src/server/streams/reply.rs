//! The HTTP response to one HTTP request: a whole answer, or the events of a stream.

use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use rescind_proto::id::RequestId;

use super::body::Body;
use crate::{
    server::{
        HttpServerEvent,
        door::{Caller, Holder, Refusal},
        keys::{LinkKey, ReplyKey, SessionKey, StreamKey},
    },
    sse,
};

/// What follows the head of a response.
///
/// It never grows: a body that a driver did not know could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// So many bytes, to be polled ([`HttpServer::poll_body`](crate::server::HttpServer::poll_body)): what is long and not read yet
    /// is counted. It may end sooner; then its connection is to be closed.
    Long(usize),
    /// Events, to be polled ([`HttpServer::poll_body`](crate::server::HttpServer::poll_body)).
    Events,
}

/// The next of a body of events.
///
/// It never grows: a body of events goes on, waits or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyChunk {
    /// Bytes to write.
    Bytes(Bytes),
    /// Nothing yet.
    Pending,
    /// All of it was given.
    End,
}

/// One HTTP request that is being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    state: ReplyState,
    /// The body of its request, while that is being read.
    pub(crate) body: Option<Box<Body>>,
    /// Where its messages come from.
    pub(crate) stream: Option<StreamKey>,
    /// Whom is counted for what its client does not read.
    pub(crate) holder: Holder,
    /// The client whose handler works on its request.
    pub(crate) client: Holder,
    /// The number of the stream that it has answered as a whole: that leaves the session with it.
    pub(crate) number: Option<u64>,
    /// The session that counts it.
    pub(crate) session: Option<SessionKey>,
    /// The cancel that was POSTed, while its fate is not known.
    pub(crate) cancel: Option<Box<(LinkKey, RequestId)>>,
    /// Its client reads events. One that does not gets only an answer.
    pub(crate) takes_events: bool,
    /// Nothing was written since the last tick of its keep-alive.
    is_quiet: bool,
    owes_comment: bool,
    /// It was reported as ready and not polled since.
    pub(crate) is_reported: bool,
    /// Who asks, if anything is known of that.
    pub(crate) caller: Option<Caller>,
    /// The page that asked.
    origin: Option<HeaderValue>,
    /// Headers of its head beside the usual ones.
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum ReplyState {
    /// Whether it is a whole or a stream is not known yet.
    #[default]
    Open,
    /// A head that was not taken.
    Whole(StatusCode, Option<HeaderValue>, Bytes),
    /// The head of a stream that was not taken.
    Begun,
    /// The same of a whole of so many bytes, which its stream has.
    Long(StatusCode, usize),
    /// A stream, whose head was taken.
    Streaming,
    /// A stream that has ended, whatever it still has.
    Ended,
}

impl Reply {
    pub(crate) fn new(takes_events: bool, origin: Option<HeaderValue>) -> Self {
        Self { takes_events, origin, ..Self::default() }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let body = match &self.state {
            ReplyState::Whole(_, _, body) => body.len(),
            ReplyState::Open | ReplyState::Begun | ReplyState::Long(..) | ReplyState::Streaming | ReplyState::Ended => {
                0
            }
        };
        let reading = self.body.as_ref().map_or(0, |body| body.held());
        let cancel = self.cancel.as_ref().map_or(0, |cancel| size_of::<(LinkKey, RequestId)>() + cancel.1.heap_bytes());
        size_of::<Self>() + body + reading + cancel + self.headers.capacity() * size_of::<(HeaderName, HeaderValue)>()
    }

    /// Feeds what decides its future into a hasher, but for its stream, its session and its cancel.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        (&self.holder, &self.client).hash(state);
        self.body.iter().for_each(|body| body.hash_state(state));
        (&self.state, self.takes_events, self.is_quiet, self.owes_comment, self.is_reported, self.number).hash(state);
        self.headers.iter().for_each(|(name, value)| (name, value).hash(state));
    }

    /// Has the driver look at it, unless it is to look at it anyway.
    pub(crate) fn report(&mut self, key: ReplyKey, events: &mut VecDeque<HttpServerEvent>) {
        if !core::mem::replace(&mut self.is_reported, true) {
            events.push_back(HttpServerEvent::ReplyReady(key));
        }
    }

    /// Whether its head is still to be decided.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, ReplyState::Open)
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        let body = refusal.body();
        self.headers.extend(refusal.header);
        self.whole(refusal.status, Some(JSON), body);
    }

    /// Answers with all there is; a stream that has begun stays one.
    pub(crate) fn whole(&mut self, status: StatusCode, content: Option<HeaderValue>, body: Bytes) {
        if self.is_open() {
            self.state = ReplyState::Whole(status, content, body);
        }
    }

    /// Answers with a message.
    pub(crate) fn message(&mut self, status: StatusCode, message: Bytes) {
        self.whole(status, Some(JSON), message);
    }

    /// Answers with a message of so many bytes, which its stream has.
    pub(crate) fn long(&mut self, status: StatusCode, length: usize) {
        if self.is_open() {
            self.state = ReplyState::Long(status, length);
        }
    }

    /// Whether it answers with a message that its stream has, and its head was not taken.
    pub(crate) const fn is_long(&self) -> bool {
        matches!(self.state, ReplyState::Long(..))
    }

    /// Answers with this in place of a long message.
    pub(crate) fn replace_long(&mut self, message: Bytes) {
        if self.is_long() {
            (self.state, self.stream) = (ReplyState::Whole(StatusCode::OK, Some(JSON), message), None);
        }
    }

    /// Answers without a body.
    pub(crate) fn empty(&mut self, status: StatusCode) {
        self.whole(status, None, Bytes::new());
    }

    pub(crate) fn add_header(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.push((name, value));
    }

    /// Whether its head, which was not taken, has this header.
    pub(crate) fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }

    pub(crate) fn remove_header(&mut self, name: &HeaderName) {
        self.headers.retain(|(known, _)| known != name);
    }

    /// Begins a stream of events; `true` if it was not one.
    pub(crate) fn begin(&mut self) -> bool {
        let begins = self.is_open() && self.takes_events;
        if begins {
            self.state = ReplyState::Begun;
        }
        begins
    }

    /// Ends a stream.
    pub(crate) fn end(&mut self) {
        match self.state {
            ReplyState::Streaming => self.state = ReplyState::Ended,
            // An empty stream (D41).
            ReplyState::Open | ReplyState::Begun => {
                self.state = ReplyState::Begun;
                self.stream = None;
            }
            ReplyState::Whole(..) | ReplyState::Long(..) | ReplyState::Ended => {}
        }
    }

    /// Takes the head once it is decided.
    pub(crate) fn take_head(&mut self) -> Option<Response<ReplyBody>> {
        let (status, content, body) = match core::mem::replace(&mut self.state, ReplyState::Streaming) {
            ReplyState::Whole(status, content, body) => (status, content, ReplyBody::Whole(body)),
            ReplyState::Long(status, length) => (status, Some(JSON), ReplyBody::Long(length)),
            ReplyState::Begun => (StatusCode::OK, Some(EVENTS), ReplyBody::Events),
            other @ (ReplyState::Open | ReplyState::Streaming | ReplyState::Ended) => {
                self.state = other;
                return None;
            }
        };
        let is_stream = body == ReplyBody::Events;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Some(content) = content {
            headers.insert(header::CONTENT_TYPE, content);
        }
        if is_stream {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
            headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        }
        if let Some(origin) = self.origin.take() {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
            headers.insert(header::VARY, HeaderValue::from_static("origin"));
        }
        headers.extend(self.headers.drain(..).map(|(name, value)| (Some(name), value)));
        Some(response)
    }

    /// Counts half a keep-alive; `true` if a comment is due, since nothing was written for so long.
    pub(crate) fn tick(&mut self) -> bool {
        self.owes_comment |= core::mem::replace(&mut self.is_quiet, true);
        self.owes_comment
    }

    /// The next bytes beside those of the stream.
    pub(crate) fn take_comment(&mut self) -> Option<Bytes> {
        let comment = self.owes_comment.then_some(Bytes::from_static(sse::COMMENT));
        comment.inspect(|_| self.wrote())
    }

    /// Something is being written.
    pub(crate) fn wrote(&mut self) {
        (self.is_quiet, self.owes_comment) = (false, false);
    }

    /// Whether the stream ends here, whatever it still has.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, ReplyState::Ended) || self.stream.is_none()
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// What a page may read of a head.
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, rescind-cancel, www-authenticate, retry-after";
