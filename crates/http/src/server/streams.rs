//! What clients have open: sessions, streams of messages, and the responses that carry them.
//!
//! A session knows its streams, a stream the response that carries it, and a response its stream. Whatever changes one of
//! them goes through here, where the others and what is counted of them follow. What this room cannot do by itself it
//! leaves to the server: requests that no client waits for any more are [`abandoned`](Streams::abandoned), and a session
//! that is over is [returned](Streams::hang_up).

mod bodies;
mod body;
mod delivery;
mod fates;
mod kept;
mod listening;
mod pages;
mod proof;
mod reply;
mod session;
mod stream;
mod subscriptions;
mod upkeep;
mod yielding;

use core::num::NonZero;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use http::{Response, StatusCode};
use rescind_proto::{
    dialect::{Dialect, mcp},
    error_code,
    id::RequestId,
    link::Connected,
    time::Instant,
};

use super::{
    HttpServerEvent,
    calls::CallKey,
    config::HttpServerConfig,
    door::{Head, Refusal, SESSION, Shares},
    keyed::Keyed,
    keys::{LinkKey, ReplyKey, SessionKey, StreamKey},
    link::LinkUse,
    timers::Timer,
};

pub(crate) use bodies::MIN_PROGRESS;
pub(crate) use delivery::Answer;
pub use pages::MAX_PAGE;
pub(crate) use pages::MAX_PAGES;
pub(crate) use reply::Reply;
pub use reply::{BodyChunk, ReplyBody};
pub(crate) use session::{HANDSHAKE, HANDSHAKE_STREAM, MAX_ENDED, MAX_LISTENING, Session};
pub(crate) use stream::{CHUNK, Part, Stream};
pub(crate) use subscriptions::{MAX_SUBSCRIBED, SUBSCRIBE, UNSUBSCRIBE};

/// What clients have open.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    limits: Limits,
    /// Sessions that go on.
    pub(crate) sessions: Keyed<BTreeMap<SessionKey, Session>>,
    /// The same by the id that their clients know.
    pub(crate) session_ids: Keyed<HashMap<Box<str>, SessionKey, FixedState>>,
    pub(crate) streams: Keyed<BTreeMap<StreamKey, Stream>>,
    pub(crate) replies: Keyed<BTreeMap<ReplyKey, Reply>>,
    /// What bodies take that are being read.
    body_shares: Keyed<Shares<ReplyKey>>,
    /// What the messages of streams take.
    stream_shares: Keyed<Shares<StreamKey>>,
    /// Responses that wait for a page.
    pages: BTreeSet<ReplyKey>,
    /// Cancels with a response that waits for their fate, by link and by the id that the program knows.
    cancels: Keyed<HashMap<(LinkKey, RequestId), ReplyKey, FixedState>>,
    /// Requests that no client waits for any more, which the server is to cancel; empty between steps.
    pub(crate) abandoned: Vec<(LinkKey, CallKey)>,
    /// What the driver has to do; the server adds what it wants for its links.
    pub(crate) events: VecDeque<HttpServerEvent>,
    next_key: NonZero<u64>,
}

/// What clients may have open, and for how long.
#[derive(Clone, Copy, Debug)]
struct Limits {
    replies: usize,
    message: usize,
    /// Of a stream that is not read.
    unsent: usize,
    /// Of a session whose client was away.
    kept: usize,
    idle: Duration,
    resume_within: Duration,
}

impl Streams {
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        let state = || FixedState::with_seed(config.seed);
        Self {
            limits: Limits {
                replies: config.max_replies,
                message: config.max_message,
                unsent: config.max_unsent,
                kept: config.max_kept,
                idle: config.idle,
                resume_within: config.resume_within,
            },
            sessions: Keyed::default(),
            session_ids: Keyed(HashMap::with_hasher(state())),
            streams: Keyed::default(),
            replies: Keyed::default(),
            body_shares: Keyed(Shares::new(config.bodies_bound())),
            stream_shares: Keyed(Shares::new(config.unread_bound())),
            pages: BTreeSet::new(),
            cancels: Keyed(HashMap::with_hasher(state())),
            abandoned: Vec::new(),
            events: VecDeque::new(),
            next_key: NonZero::<u64>::MIN,
        }
    }

    /// A number that nothing else has: keys are in the order in which they were made.
    pub(crate) const fn allocate_key(&mut self) -> NonZero<u64> {
        let key = self.next_key;
        self.next_key = key.saturating_add(1);
        key
    }

    /// Takes in a session that a client has opened.
    pub(crate) fn insert_session(&mut self, key: SessionKey, session: Session) {
        self.session_ids.insert(session.id.clone(), key);
        self.sessions.insert(key, session);
    }

    /// Finds the session that a request names, whose client is heard of. For everybody but its owner there is none.
    pub(crate) fn named(&mut self, now: Instant, head: &Head<'_>) -> Result<(SessionKey, &mut Session), Refusal> {
        let Some(id) = head.session else {
            let text = "no session: send initialize, and name the session it opens in the header Mcp-Session-Id";
            return Err(Refusal::invalid(text));
        };
        let known = self.session_ids.get(id).copied().and_then(|key| Some((key, self.sessions.get_mut(&key)?)));
        let is_own = |(_, session): &(SessionKey, &mut Session)| session.owner == head.asker.owner;
        let (key, session) = known.filter(is_own).ok_or_else(|| {
            let text = "the session has ended; send initialize for a new one";
            Refusal::new(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, text)
        })?;
        session.heard = now;
        Ok((key, session))
    }

    /// Whether a session has a request in flight.
    pub(crate) fn has_requests(&self, key: SessionKey) -> bool {
        self.sessions.get(&key).is_some_and(|session| self.of(session).any(|stream| !stream.calls.is_empty()))
    }

    /// The streams of a session.
    pub(crate) fn of(&self, session: &Session) -> impl Iterator<Item = &Stream> {
        session.streams.values().filter_map(move |stream| self.streams.get(stream))
    }

    /// Counts what the client of a session has open.
    pub(crate) fn count(&self, session: &Session, census: &mut Connected) {
        census.sessions += 1;
        census.responses += session.replies;
        census.kept += self.of(session).filter(|stream| stream.reply.is_none() && stream.kept() > 0).count();
        census.kept_bytes += session.kept;
    }

    /// Refuses one more request where as many are being answered as may be.
    pub(crate) fn check_room(&self) -> Result<(), Refusal> {
        if self.replies.0.len() < self.limits.replies {
            return Ok(());
        }
        Err(Refusal::overloaded("too many HTTP requests at once"))
    }

    /// Whether this timer is still waited for, if it is one for what clients have open.
    pub(crate) fn needs(&self, timer: Timer) -> bool {
        let is = |key: &ReplyKey, is: fn(&Reply) -> bool| self.replies.get(key).is_some_and(is);
        match timer {
            Timer::Begin(key) | Timer::Prove(key) => {
                let carrier = self.streams.get(&key).and_then(|stream| stream.reply);
                carrier.is_some_and(|reply| is(&reply, Reply::is_open))
            }
            Timer::KeepAlive(key) => is(&key, |_| true),
            Timer::Fate(key) => is(&key, |reply| reply.cancel.is_some()),
            Timer::Body(key) => is(&key, |reply| reply.body.is_some()),
            Timer::Session(key) => self.sessions.contains_key(&key),
        }
    }

    /// Changes a response, and has the driver look at it, unless it is to look at it anyway.
    fn update(&mut self, key: ReplyKey, change: impl FnOnce(&mut Reply)) {
        if let Some(reply) = self.replies.get_mut(&key) {
            change(reply);
            reply.report(key, &mut self.events);
        }
    }

    pub(crate) fn refuse(&mut self, key: ReplyKey, refusal: Refusal) {
        self.update(key, |reply| reply.refuse(refusal));
    }

    /// Takes the head of a response, once it is decided. After a whole one its key means nothing any more.
    pub(crate) fn poll_head(&mut self, now: Instant, key: ReplyKey) -> Option<Response<ReplyBody>> {
        let mut head = None;
        let whole = self.replies.remove_if(key, |reply| {
            reply.is_reported = false;
            head = reply.take_head();
            head.as_ref().is_some_and(|head| matches!(head.body(), ReplyBody::Whole(_)))
        });
        if let Some(reply) = whole {
            self.let_go(now, key, reply);
        }
        head
    }

    /// Takes the next of a body that is not whole. After its end its key means nothing any more.
    pub(crate) fn poll_body(&mut self, now: Instant, key: ReplyKey) -> BodyChunk {
        let Some(reply) = self.replies.get_mut(&key) else { return BodyChunk::End };
        reply.is_reported = false;
        let mut bytes = Bytes::new();
        let stream = reply.stream.filter(|_| !reply.has_ended());
        let stream = stream.and_then(|stream| self.change(stream, |stream| bytes = stream.take()));
        let Some(session) = stream.filter(|stream| !bytes.is_empty() || !stream.is_spent()).map(Stream::session) else {
            self.remove_reply(now, key);
            return BodyChunk::End;
        };
        let Some(reply) = self.replies.get_mut(&key) else { return BodyChunk::End };
        if bytes.is_empty() {
            return reply.take_comment().map_or(BodyChunk::Pending, BodyChunk::Bytes);
        }
        reply.wrote();
        self.bound_kept(session);
        self.bound_unread(now);
        BodyChunk::Bytes(bytes)
    }

    /// A response was dropped before its end. Returns the session that its client has never got to know of, and so is over.
    pub(crate) fn hang_up(&mut self, now: Instant, key: ReplyKey) -> Option<SessionKey> {
        let nameless = self.replies.get(&key).filter(|reply| reply.has_header(&SESSION));
        let nameless = nameless.and_then(|reply| reply.session);
        let stream = self.remove_reply(now, key);
        if nameless.is_none() {
            stream.into_iter().for_each(|stream| self.lose_client(now, stream));
        }
        nameless
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
            self.body_shares.set(&body.holder, key, 0);
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

    /// Forgets all sessions, whose streams end.
    pub(crate) fn forget_sessions(&mut self, now: Instant) {
        self.sessions_that(|_| true).into_iter().for_each(|key| self.forget_session(now, key));
    }

    /// Has sessions go on with another link; what else was on the one that they had ends.
    pub(crate) fn move_sessions(&mut self, now: Instant, from: LinkKey, to: LinkKey) {
        self.sessions.values_mut().for_each(|session| session.link = to);
        for stream in self.streams.values_mut().filter(|stream| stream.link == from && stream.is_resumable()) {
            stream.link = to;
        }
        self.end_of_link(now, from);
    }

    /// The dialect that a link speaks now.
    pub(crate) fn dialect(&self, link: LinkUse) -> &'static Dialect {
        match link {
            LinkUse::Session(session) => self.sessions.get(&session).map_or(&mcp::LATEST_LEGACY, Session::dialect),
            LinkUse::Sessions => &mcp::LATEST_LEGACY,
            LinkUse::Stateless => &mcp::LATEST_STATELESS,
        }
    }

    /// Forgets a session, whose streams end.
    pub(crate) fn forget_session(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.sessions.remove(&key) else { return };
        self.session_ids.remove(&session.id);
        session.streams.0.into_values().for_each(|stream| self.end(now, stream));
    }

    /// Ends the streams of a link that no session has ended.
    pub(crate) fn end_of_link(&mut self, now: Instant, link: LinkKey) {
        let streams = self.streams.iter().filter(|(_, stream)| stream.link == link && !stream.is_resumable());
        let streams: Vec<StreamKey> = streams.map(|(key, _)| *key).collect();
        streams.into_iter().for_each(|stream| self.end(now, stream));
    }

    /// Says nothing more on a stream, whose link or session has ended.
    fn end(&mut self, now: Instant, key: StreamKey) {
        let stream = self.change(key, |stream| {
            stream.ended.get_or_insert(now);
            stream.calls.clear();
            stream.leave_session();
        });
        let Some(stream) = stream else { return };
        let Some(reply) = stream.reply else { return self.forget(key) };
        let mut is_open = false;
        self.update(reply, |reply| {
            // What was said before still reaches its client.
            is_open = reply.is_open();
            if is_open {
                reply.end();
            }
        });
        if is_open {
            self.forget(key);
        }
    }

    /// Forgets a stream that has ended.
    fn forget(&mut self, key: StreamKey) {
        self.withdraw(key);
        if let Some(stream) = self.streams.remove(&key) {
            self.stream_shares.set(&stream.holder, key, 0);
        }
    }

    /// Takes a stream out of its session, so that nobody can come back to it.
    fn withdraw(&mut self, key: StreamKey) {
        let Some(place) = self.streams.get(&key).and_then(|stream| stream.place) else { return };
        self.change(key, Stream::leave_session);
        if let Some(session) = self.sessions.get_mut(&place.session) {
            session.streams.remove(&place.number);
            session.listening.retain(|listening| *listening != key);
        }
    }
}
