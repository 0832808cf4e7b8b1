//! Sessions: listening, coming back, and their end.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use http::StatusCode;
use rescind_proto::{
    dialect::{Dialect, mcp, negotiation::Negotiation},
    error_code,
    framing::Framing,
    side::{Side, Sides},
    time::Instant,
};

use super::{
    HttpServer, LinkInput, LinkKey, ReplyKey, SessionKey, Sessions, StreamKey,
    door::{Head, Holder, Owner, Refusal, not_allowed},
    keyed::Keyed,
    link::LinkUse,
    stream::{Place, Stream},
};
use crate::sse;

/// The request that opens a session.
pub(crate) const HANDSHAKE: &str = "initialize";

/// The number of the stream that opens a session.
pub(crate) const HANDSHAKE_STREAM: u64 = 1;

/// Streams of a session that listen. A client needs one; more are from connections that broke.
pub(crate) const MAX_LISTENING: usize = 16;

/// Streams of a session that have ended and can be fetched. A client has that many requests at once, or is slow to come
/// back.
pub(crate) const MAX_ENDED: usize = 1024;

/// A session: what its client has opened.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    /// Who has opened it. Nobody else finds it.
    pub(crate) owner: Option<Owner>,
    /// Whom is counted for what is kept of streams that nobody has read yet.
    pub(crate) holder: Holder,
    pub(crate) link: LinkKey,
    pub(crate) negotiation: Negotiation,
    /// Its streams by number, the ended ones that can be fetched included.
    pub(crate) streams: Keyed<BTreeMap<u64, StreamKey>>,
    next_stream: u64,
    /// Those of its streams that have ended and can be fetched, oldest first.
    pub(crate) ended: VecDeque<StreamKey>,
    /// Streams of a GET, oldest first.
    pub(crate) listening: Vec<StreamKey>,
    /// Addresses of the resources that its client has subscribed to, where its program is shared.
    pub(crate) subscriptions: BTreeSet<Box<str>>,
    /// HTTP requests of its that are being answered.
    pub(crate) replies: usize,
    /// Bytes that are kept for a client that was away.
    pub(crate) kept: usize,
    /// Since when it has had nothing open and nothing in flight.
    pub(crate) idle_since: Instant,
    /// When its client last said something, or was being answered.
    pub(crate) heard: Instant,
}

impl Session {
    /// A session whose client has asked for it with these params.
    pub(crate) fn new(
        id: Box<str>,
        owner: Option<Owner>,
        holder: Holder,
        link: LinkKey,
        params: Option<&[u8]>,
        now: Instant,
    ) -> Self {
        let mut negotiation = Negotiation::new(Sides { client: None, server: None });
        negotiation.saw_initialize(Framing::Line, params);
        Self {
            id,
            owner,
            holder,
            link,
            negotiation,
            streams: Keyed::default(),
            ended: VecDeque::new(),
            next_stream: HANDSHAKE_STREAM,
            listening: Vec::new(),
            subscriptions: BTreeSet::new(),
            replies: 0,
            kept: 0,
            idle_since: now,
            heard: now,
        }
    }

    /// The dialect that its client speaks now.
    pub(crate) fn dialect(&self) -> &'static Dialect {
        let agreed = self.negotiation.of(Side::Client, Framing::Line);
        // A handshake that agrees on a revision without sessions has opened one all the same.
        if agreed.http.is_some() && !agreed.stateless { agreed } else { &mcp::LATEST_LEGACY }
    }

    /// A stream of the session, of this key, which is to be kept.
    pub(crate) fn new_stream(&mut self, session: SessionKey, key: StreamKey) -> Stream {
        let number = self.next_stream;
        self.next_stream += 1;
        self.streams.insert(number, key);
        let mut stream = Stream::new(self.link, self.dialect(), self.owner.clone(), Some(Place { session, number }));
        stream.holder = self.holder.clone();
        stream
    }

    /// Bytes of memory that its subscriptions take.
    pub(crate) fn subscribed(&self) -> usize {
        self.subscriptions.iter().map(|uri| size_of::<Box<str>>() + uri.len()).sum()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let streams = self.streams.len() * size_of::<(u64, StreamKey)>();
        size_of::<Self>()
            + self.owner.as_ref().map_or(0, |owner| owner.name().len())
            + self.subscribed()
            + streams
            + self.ended.capacity() * size_of::<StreamKey>()
    }

    /// Feeds what decides its future into a hasher, but for its link and which streams are ended or listen.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        self.dialect().name.hash(state);
        (&self.id, &self.owner, &self.holder, self.next_stream, self.replies, now.since(self.idle_since)).hash(state);
        now.since(self.heard).hash(state);
        self.streams.keys().for_each(|number| number.hash(state));
        self.subscriptions.hash(state);
    }
}

impl HttpServer {
    /// A client wants to listen, or to go on where it was.
    pub(crate) fn handle_get(&mut self, now: Instant, reply: ReplyKey, head: &Head<'_>) -> Result<(), Refusal> {
        if head.version.and_then(mcp::stateless_by_version).is_some() {
            return Err(not_allowed("this revision has no GET: send subscriptions/listen"));
        }
        let session = self.session(now, head)?;
        let Some(last) = head.last_event else {
            self.listen(session, reply)?;
            self.report_reply(reply);
            return Ok(());
        };
        let gone = || not_allowed("this stream cannot be resumed: it has ended, was cancelled, or is not known");
        let (number, event) = sse::read_id(last).ok_or_else(gone)?;
        let session = self.sessions.get(&session);
        let key = session.and_then(|session| session.streams.get(&number).copied()).ok_or_else(gone)?;
        let earlier = self.streams.get(&key).filter(|stream| stream.knows(event)).ok_or_else(gone)?.reply;
        let stream = self.change_stream(key, |stream| {
            stream.carry(None);
            stream.rewind(event);
        });
        let is_spent = stream.is_none_or(|stream| stream.is_spent());
        if let Some(earlier) = earlier {
            self.supersede(earlier);
        }
        if is_spent {
            return Err(gone());
        }
        self.attach(reply, key);
        self.begin(key);
        Ok(())
    }

    /// Opens a stream that listens, with what waits for one.
    fn listen(&mut self, session_key: SessionKey, reply: ReplyKey) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&session_key) else { return Ok(()) };
        let waiting =
            |key: &&StreamKey| self.streams.get(key).filter(|stream| stream.reply.is_none()).map(Stream::unsent);
        let mut detached = session.listening.iter().rev().filter(|key| waiting(key).is_some());
        // First what nobody has read.
        let newest = detached.clone().next();
        let found = detached.find(|key| waiting(key) > Some(0)).or(newest).copied();
        if found.is_none() && session.listening.len() >= MAX_LISTENING {
            let text = "this session listens on too many streams";
            return Err(Refusal::new(StatusCode::CONFLICT, error_code::OVERLOADED, text));
        }
        let key = found.or_else(|| self.open_listening(session_key));
        let Some(key) = key else { return Ok(()) };
        // Its client has come without an id to come back behind.
        if self.streams.get(&key).is_some_and(|stream| stream.unsent() == 0 && stream.has_primer()) {
            self.change_stream(key, Stream::prime);
        }
        self.attach(reply, key);
        self.begin(key);
        Ok(())
    }

    /// Opens a stream that listens; nobody reads it yet.
    pub(crate) fn open_listening(&mut self, session: SessionKey) -> Option<StreamKey> {
        let (key, stream) = self.new_stream(session)?;
        self.streams.insert(key, stream);
        self.change_stream(key, |stream| {
            stream.has_begun = true;
            if stream.has_primer() {
                stream.prime();
            }
        });
        self.sessions.get_mut(&session)?.listening.push(key);
        Some(key)
    }

    /// A stream of a session, which is to be kept.
    pub(crate) fn new_stream(&mut self, session_key: SessionKey) -> Option<(StreamKey, Stream)> {
        let key = StreamKey(self.allocate_key());
        Some((key, self.sessions.get_mut(&session_key)?.new_stream(session_key, key)))
    }

    /// Lets a response carry a stream.
    pub(crate) fn attach(&mut self, reply_key: ReplyKey, stream_key: StreamKey) {
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        reply.stream = Some(stream_key);
        let holder = reply.holder.clone();
        self.count_for(stream_key, holder);
        let stream = self.change_stream(stream_key, |stream| stream.carry(Some(reply_key)));
        let session = stream.and_then(Stream::session);
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        if let Some(key) = session
            && let Some(session) = self.sessions.get_mut(&key)
        {
            session.replies += 1;
            reply.session = Some(key);
        }
    }

    /// Ends a response whose stream another one carries now.
    pub(crate) fn supersede(&mut self, key: ReplyKey) {
        let Some(reply) = self.replies.get_mut(&key) else { return };
        reply.end();
        reply.stream = None;
        self.report_reply(key);
    }

    /// A client ends its session.
    pub(crate) fn handle_delete(&mut self, now: Instant, reply: ReplyKey, head: &Head<'_>) -> Result<(), Refusal> {
        if head.version.and_then(mcp::stateless_by_version).is_some() {
            return Err(not_allowed("this revision has no sessions"));
        }
        let session = self.session(now, head)?;
        self.end_session(now, session);
        if let Some(reply) = self.replies.get_mut(&reply) {
            reply.empty(StatusCode::NO_CONTENT);
        }
        Ok(())
    }

    /// Ends a session: what is in flight is cancelled, and its streams end.
    pub(crate) fn end_session(&mut self, now: Instant, session: SessionKey) {
        let Some(link) = self.sessions.get(&session).map(|session| session.link) else { return };
        match self.config.sessions {
            Sessions::OwnLink => self.end_link(now, link),
            Sessions::SharedLink => self.leave_joint(now, session),
        }
    }

    /// Ends a link with all that it serves: what is in flight is cancelled.
    pub(crate) fn end_link(&mut self, now: Instant, link: LinkKey) {
        self.push_input(link, LinkInput::End);
        self.close_link(now, link);
    }

    /// Takes nothing more for a link, and nothing more from it: whoever it serves is served no more.
    pub(crate) fn close_link(&mut self, now: Instant, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if link.is_closed {
            return;
        }
        link.close();
        let serves = link.serves;
        self.settle_fates(key);
        match serves {
            LinkUse::Session(session) => self.forget_session(now, session),
            LinkUse::Sessions => {
                self.joint.close();
                self.log_level = None;
                let sessions: Vec<SessionKey> = self.sessions.keys().copied().collect();
                sessions.into_iter().for_each(|session| self.forget_session(now, session));
                self.end_streams(now, key);
            }
            LinkUse::Stateless => {
                self.shared.forget(key);
                self.end_streams(now, key);
            }
        }
        if self.starts.forget(key) {
            // The driver has never heard of it.
            self.links.remove(&key);
        }
    }

    /// Ends the streams of a link that no session has ended.
    pub(crate) fn end_streams(&mut self, now: Instant, link: LinkKey) {
        let streams = self.streams.iter().filter(|(_, stream)| stream.link == link && !stream.is_resumable());
        let streams: Vec<StreamKey> = streams.map(|(key, _)| *key).collect();
        streams.into_iter().for_each(|stream| self.end_stream(now, stream));
    }

    /// Forgets a session, whose streams end.
    pub(crate) fn forget_session(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.sessions.remove(&key) else { return };
        self.session_ids.remove(&session.id);
        session.streams.0.into_values().for_each(|stream| self.end_stream(now, stream));
    }

    /// Says nothing more on a stream, whose link or session has ended.
    fn end_stream(&mut self, now: Instant, key: StreamKey) {
        let stream = self.change_stream(key, |stream| {
            stream.ended.get_or_insert(now);
            stream.calls.clear();
            stream.leave_session();
        });
        let Some(stream) = stream else { return };
        match stream.reply {
            // What was said before still reaches its client.
            Some(reply_key) => {
                if let Some(reply) = self.replies.get_mut(&reply_key).filter(|reply| reply.is_open()) {
                    reply.end();
                    self.forget_stream(key);
                }
                self.report_reply(reply_key);
            }
            None => self.forget_stream(key),
        }
    }

    /// Looks after a session: forgets what nobody fetched, and ends it if it was idle for too long, or if its client has left
    /// work behind and been away for too long to come back to it.
    pub(crate) fn keep_up(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        let within = self.config.resume_within;
        let is_over = session.replies == 0
            && if self.has_requests(key) {
                now.since(session.heard) >= within
            } else {
                now.since(session.idle_since) >= self.config.idle
            };
        if is_over {
            return self.end_session(now, key);
        }
        while let Some(oldest) = self.sessions.get(&key).and_then(|session| session.ended.front())
            && self.streams.get(oldest).and_then(|stream| stream.ended).is_none_or(|ended| now.since(ended) >= within)
        {
            self.retire_oldest(key);
        }
        self.timers.upkeep.arm(now, key);
    }

    /// Notes that nothing more is said on a stream. In a session its client may fetch it for a while.
    pub(crate) fn note_ended(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.ended = Some(now);
        let Some(place) = stream.place else { return };
        let Some(session) = self.sessions.get_mut(&place.session) else { return };
        session.ended.push_back(key);
        if session.ended.len() > MAX_ENDED {
            self.retire_oldest(place.session);
        }
    }

    /// Lets nobody come back any more to the stream of a session that ended first; `false` if there is none.
    fn retire_oldest(&mut self, session: SessionKey) -> bool {
        let session = self.sessions.get_mut(&session);
        let Some(key) = session.and_then(|session| session.ended.pop_front()) else { return false };
        let Some(stream) = self.streams.get_mut(&key) else { return true };
        stream.is_final = true;
        if stream.reply.is_none() {
            self.forget_stream(key);
        }
        true
    }

    /// Forgets what is kept of a session beyond its bound: first what was handed out of a stream that is too
    /// long alone, then of others, the oldest first; then what clients that are away have not read; then whole streams that
    /// have ended.
    pub(crate) fn bound_kept(&mut self, session: Option<SessionKey>) {
        let Some(key) = session.filter(|session| self.excess(*session) > 0) else { return };
        let session = self.sessions.get(&key);
        let streams: Vec<StreamKey> = session.iter().flat_map(|session| session.streams.values().copied()).collect();
        let bound = self.config.max_kept;
        self.forget_of_each(key, &streams, |stream, _| while stream.kept() > bound && stream.evict_sent() {});
        self.forget_of_each(key, &streams, |stream, excess| {
            let wanted = stream.kept().saturating_sub(excess);
            while stream.kept() > wanted && stream.evict_sent() {}
        });
        self.forget_of_each(key, &streams, |stream, excess| {
            if stream.reply.is_none() {
                stream.evict_unsent(excess);
            }
        });
        while self.excess(key) > 0 && self.retire_oldest(key) {}
        self.forget_of_each(key, &streams, |stream, _| stream.forget_gone());
    }

    /// Bytes that a session keeps beyond its bound.
    fn excess(&self, session: SessionKey) -> usize {
        self.sessions.get(&session).map_or(0, |session| session.kept.saturating_sub(self.config.max_kept))
    }

    /// Has one stream after another forget something, while too much is kept.
    fn forget_of_each(&mut self, session: SessionKey, streams: &[StreamKey], forget: impl Fn(&mut Stream, usize)) {
        for key in streams {
            let excess = self.excess(session);
            if excess == 0 {
                return;
            }
            self.change_stream(*key, |stream| forget(stream, excess));
        }
    }
}
