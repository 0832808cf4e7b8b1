//! For those who check the room: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};
use std::collections::BTreeMap;

use rescind_proto::time::Instant;

use super::{Streams, body::Body, reply::Reply, session::Session, stream::Stream};
use crate::server::{
    HttpServerEvent,
    keyed::Keyed,
    keys::{LinkKey, ReplyKey, SessionKey, StreamKey},
    link::Link,
    timers::Timer,
};

impl Streams {
    /// Panics if the tables contradict each other.
    pub(crate) fn check(&self) {
        assert_eq!(self.abandoned, [], "a request that nobody waits for is not cancelled");
        for (key, reply) in self.replies.iter() {
            if let Some(stream) = reply.stream.and_then(|stream| self.streams.get(&stream)) {
                assert_eq!(stream.reply, Some(*key), "a response carries a stream that another one carries");
            }
        }
        self.streams.iter().for_each(|(key, stream)| self.check_stream(*key, stream));
        for (cancel, key) in self.cancels.iter() {
            let reply = self.replies.get(key).expect("who waits for the fate of a cancel is there");
            assert_eq!(reply.cancel.as_deref(), Some(cancel), "a response waits for the fate of another cancel");
            assert!(reply.is_open(), "the fate of a cancel is awaited by a response that is given");
        }
        let bodies = self.replies.values().filter_map(|reply| reply.body.as_deref());
        let held: usize = bodies.map(Body::held).sum();
        assert_eq!(self.body_shares.total(), held, "bodies that are being read are counted");
        assert_eq!(self.stream_shares.total(), self.unread(), "what streams take is counted");
        assert_eq!(self.sessions.len(), self.session_ids.len(), "a session is found while it is open");
        self.sessions.iter().for_each(|(key, session)| self.check_session(*key, session));
    }

    fn check_session(&self, key: SessionKey, session: &Session) {
        assert_eq!(self.session_ids.get(&session.id), Some(&key), "a session is found while it is open");
        let streams = || self.streams.values().filter(|stream| stream.session() == Some(key));
        let kept: usize = streams().map(Stream::kept).sum();
        assert_eq!(session.kept, kept, "a session counts the bytes that it keeps");
        let replies = || self.replies.values().filter(|reply| reply.session == Some(key));
        let answered = replies().filter_map(|reply| reply.number);
        assert_eq!(session.streams.len(), streams().count() + answered.count(), "a session knows its streams");
        assert_eq!(session.replies, replies().count(), "a session counts its open responses");
        let has_ended = |key| self.streams.get(key).is_some_and(|stream| stream.ended.is_some());
        assert!(session.ended.iter().all(has_ended), "a session counts streams that have ended");
    }

    fn check_stream(&self, key: StreamKey, stream: &Stream) {
        stream.check();
        if let Some(reply) = stream.reply {
            let reply = self.replies.get(&reply).expect("a stream is carried by a response that exists");
            assert_eq!(reply.stream, Some(key), "a stream is carried by a response of another");
        }
        match stream.place {
            None => assert!(stream.reply.is_some(), "a stream that nobody can ask for is kept"),
            Some(place) => {
                let session =
                    self.sessions.get(&place.session).expect("a stream has a place in a session that goes on");
                assert_eq!(session.link, stream.link, "a stream has another link than its session");
                let known = session.streams.get(&place.number);
                assert_eq!(known, Some(&key), "a session does not know a stream of its own");
            }
        }
    }

    /// How many entries all tables hold.
    pub(crate) fn residue(&self) -> usize {
        let open = self.sessions.len() + self.session_ids.len() + self.streams.len() + self.replies.len();
        let counted = self.body_shares.len() + self.stream_shares.len();
        open + counted + self.pages.len() + self.cancels.len() + self.events.len()
    }

    /// Bytes of memory held, capacities of buffers included.
    pub(crate) fn held(&self) -> usize {
        let sessions: usize = self.sessions.values().map(Session::held).sum();
        let streams: usize = self.streams.values().map(Stream::held).sum();
        let replies: usize = self.replies.values().map(Reply::held).sum();
        let shares = self.body_shares.held() + self.stream_shares.held();
        sessions + streams + replies + shares + self.events.capacity() * size_of::<HttpServerEvent>()
    }

    /// Bytes of all streams that their clients have not read, or may ask for again.
    pub(crate) fn unread(&self) -> usize {
        self.streams.values().map(|stream| stream.bytes).sum()
    }

    /// Feeds everything that decides the room's future into a hasher: times relative to `now`, and keys by their order,
    /// since nothing else of them matters.
    pub(crate) fn hash_state(&self, now: Instant, links: &Keyed<BTreeMap<LinkKey, Link>>, state: &mut impl Hasher) {
        for session in self.sessions.values() {
            session.hash_state(now, state);
            links.rank(session.link).hash(state);
            let streams = session.listening.iter().chain(&session.ended);
            streams.for_each(|stream| self.streams.rank(*stream).hash(state));
        }
        for stream in self.streams.values() {
            links.rank(stream.link).hash(state);
            stream.session().map(|session| self.sessions.rank(session)).hash(state);
            stream.reply.map(|reply| self.replies.rank(reply)).hash(state);
            let calls = links.get(&stream.link).map(|link| &link.calls);
            let calls = calls.into_iter().flat_map(|calls| stream.calls.iter().filter_map(|key| calls.get(*key)));
            calls.for_each(|call| call.hash_state(state));
            stream.hash_state(now, state);
        }
        for reply in self.replies.values() {
            reply.stream.map(|stream| self.streams.rank(stream)).hash(state);
            reply.session.map(|session| self.sessions.rank(session)).hash(state);
            reply.cancel.as_ref().map(|cancel| (links.rank(cancel.0), &cancel.1)).hash(state);
            reply.hash_state(state);
        }
        self.body_shares.hash_state(state);
        self.stream_shares.hash_state(state);
        self.events.len().hash(state);
    }

    /// What a timer is for, if that is still waited for.
    pub(crate) fn rank_of(&self, timer: Timer) -> Option<usize> {
        match timer {
            _ if !self.needs(timer) => None,
            Timer::Begin(key) | Timer::Prove(key) => self.streams.rank(key),
            Timer::KeepAlive(key) | Timer::Fate(key) | Timer::Body(key) => self.replies.rank(key),
            Timer::Session(key) => self.sessions.rank(key),
        }
    }

    /// Whether a response was ended although its stream had more, or since another carries that now.
    pub(crate) fn is_cut_off(&self, key: ReplyKey) -> bool {
        self.replies.get(&key).is_some_and(|reply| reply.stream.is_none() && !reply.is_open())
    }
}
