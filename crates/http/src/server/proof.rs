//! For those who check the machine: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use rescind_proto::time::Instant;

use super::{
    HttpServer, HttpServerEvent, LinkKey, ReplyKey, SessionKey, Sessions, StreamKey, awaits_fate,
    body::Body,
    calls::CallKey,
    entrance::Unjudged,
    has_body, is_undecided,
    joint::Joint,
    lane::Lane,
    link::{Link, LinkUse},
    programs::{Held, ModernOnly, Question},
    session::Session,
    stream::Stream,
};

impl HttpServer {
    /// Panics if the tables contradict each other.
    ///
    /// Costs time in proportion to everything that is held.
    pub fn check_invariants(&self) {
        for (key, reply) in self.replies.iter() {
            if let Some(stream) = reply.stream.and_then(|stream| self.streams.get(&stream)) {
                assert_eq!(stream.reply, Some(*key), "a response carries a stream that another one carries");
            }
        }
        for (key, stream) in self.streams.iter() {
            self.check_stream(*key, stream);
        }
        for (key, link) in self.links.iter() {
            link.calls.check();
            for (call_key, call) in link.calls.iter() {
                let stream = self.streams.get(&call.stream).expect("a request in flight has a stream");
                assert!(stream.calls.contains(&call_key), "no stream waits for {}", call.link_id);
                assert_eq!((stream.link, stream.session()), (*key, call.session), "a stream waits for a stranger");
            }
            let is_open = match link.serves {
                LinkUse::Session(session) => self.sessions.get(&session).is_some_and(|session| session.link == *key),
                LinkUse::Sessions => self.joint.link() == Some(*key),
                LinkUse::Stateless => self.shared.links.values().any(|link| link == key),
            };
            assert_eq!(is_open, !link.is_closed, "a link and whom it serves end together");
        }
        for (cancel, key) in self.cancels.iter() {
            let reply = self.replies.get(key).expect("who waits for the fate of a cancel is there");
            assert_eq!(reply.cancel.as_deref(), Some(cancel), "a response waits for the fate of another cancel");
            assert!(reply.is_open(), "the fate of a cancel is awaited by a response that is given");
        }
        let bodies = self.replies.values().filter_map(|reply| reply.body.as_deref());
        let held: usize = bodies.map(Body::held).sum();
        assert_eq!(self.body_shares.total(), held, "bodies that are being read are counted");
        assert_eq!(self.stream_shares.total(), self.unread(), "what streams take is counted");
        assert!(self.unread() <= self.config.unread_bound(), "streams take more than they may");
        assert_eq!(self.sessions.len(), self.session_ids.len(), "a session is found while it is open");
        self.sessions.iter().for_each(|(key, session)| self.check_session(*key, session));
    }

    fn check_session(&self, key: SessionKey, session: &Session) {
        assert_eq!(self.session_ids.get(&session.id), Some(&key), "a session is found while it is open");
        assert!(self.links.get(&session.link).is_some_and(|link| !link.is_closed), "a session has an open link");
        let streams = || self.streams.values().filter(|stream| stream.session() == Some(key));
        let kept: usize = streams().map(Stream::kept).sum();
        assert_eq!(session.kept, kept, "a session counts the bytes that it keeps");
        let answered =
            self.replies.values().filter(|reply| reply.session == Some(key)).filter_map(|reply| reply.number);
        assert_eq!(session.streams.len(), streams().count() + answered.count(), "a session knows its streams");
        let replies = self.replies.values().filter(|reply| reply.session == Some(key)).count();
        assert_eq!(session.replies, replies, "a session counts its open responses");
        if self.config.sessions == Sessions::SharedLink {
            assert_eq!(self.joint.link(), Some(session.link), "a session shares another link than the others");
        }
        let has_ended = |key| self.streams.get(key).is_some_and(|stream| stream.ended.is_some());
        assert!(session.ended.iter().all(has_ended), "a session counts streams that have ended");
    }

    fn check_stream(&self, key: StreamKey, stream: &Stream) {
        stream.check();
        if let Some(reply) = stream.reply {
            let reply = self.replies.get(&reply).expect("a stream is carried by a response that exists");
            assert_eq!(reply.stream, Some(key), "a stream is carried by a response of another");
        }
        let link = self.links.get(&stream.link).filter(|link| !link.is_closed);
        assert!(stream.reply.is_some() || link.is_some(), "a stream is left of a link that is closed");
        let Some(link) = link else {
            assert!(stream.ended.is_some(), "a stream goes on although its link is closed");
            return;
        };
        let is_its = |call: &CallKey| link.calls.get(*call).is_some_and(|call| call.stream == key);
        assert!(stream.calls.iter().all(is_its), "a stream waits for what is not in flight");
        let is_known = stream.place.is_some_and(|place| {
            let session = self.sessions.get(&place.session).expect("a stream has a place in a session that goes on");
            assert_eq!(session.link, stream.link, "a stream has another link than its session");
            session.streams.get(&place.number) == Some(&key)
        });
        assert_eq!(is_known, stream.place.is_some(), "a session does not know a stream of its own");
        assert!(is_known || stream.reply.is_some(), "a stream that nobody can ask for is kept");
    }

    /// How many entries all tables hold. Zero once every link is closed, every response read and the longest timer past.
    #[must_use]
    pub fn residue(&self) -> usize {
        let timers = self.timers.len()
            + self.body_shares.len()
            + self.stream_shares.len()
            + self.pages.len()
            + self.keyring.due().iter().len()
            + self.unjudged.len()
            + self.starts.resting.len();
        let tables =
            self.links.len() + self.sessions.len() + self.session_ids.len() + self.streams.len() + self.replies.len();
        tables + timers + self.cancels.len() + self.events.len() + self.shared.held().len()
    }

    /// Bytes of memory held for messages, requests and responses, capacities of their buffers included.
    ///
    /// Costs time in proportion to everything that is held.
    #[must_use]
    pub fn held(&self) -> usize {
        let links: usize = self.links.values().map(Link::held).sum::<usize>() + self.joint.held();
        let modern_only = self.modern_only.as_ref().map_or(0, |modern_only| modern_only.list().len());
        let sessions: usize = self.sessions.values().map(Session::held).sum();
        let streams: usize = self.streams.values().map(Stream::held).sum();
        let replies: usize = self.replies.values().map(super::Reply::held).sum();
        let waiting: usize = self.shared.held().iter().map(Held::held).sum();
        links
            + sessions
            + modern_only
            + self.starts.resting.len() * 2 * size_of::<(Instant, LinkKey)>()
            + self.log_level.as_ref().map_or(0, bytes::Bytes::len)
            + streams
            + replies
            + self.timers.held()
            + self.keyring.held()
            + self.unjudged.iter().map(Unjudged::held).sum::<usize>()
            + self.task_owners.held()
            + self.made_tasks.held()
            + self.body_shares.held()
            + self.stream_shares.held()
            + waiting
            + self.events.capacity() * size_of::<HttpServerEvent>()
    }

    /// Bytes of all streams that their clients have not read, or may ask for again. Costs time in proportion to them.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.streams.values().map(Stream::bytes).sum()
    }

    /// Whether a response was ended although its stream had more, or since another carries that now.
    #[must_use]
    pub fn is_cut_off(&self, key: ReplyKey) -> bool {
        self.replies.get(&key).is_some_and(|reply| reply.stream.is_none() && !reply.is_open())
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and keys by their order,
    /// since nothing else of them matters.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        for (key, link) in self.links.iter() {
            link.hash_state(state);
            self.streams.range(StreamKey(link.since)..).filter(|(_, stream)| stream.link == *key).count().hash(state);
        }
        for session in self.sessions.values() {
            session.hash_state(now, state);
            self.rank_of_link(session.link).hash(state);
            let streams = session.listening.iter().chain(&session.ended);
            streams.for_each(|stream| self.rank_of_stream(*stream).hash(state));
        }
        for stream in self.streams.values() {
            self.rank_of_link(stream.link).hash(state);
            stream.session().map(|session| self.rank_of_session(session)).hash(state);
            stream.reply.map(|reply| self.rank_of_reply(reply)).hash(state);
            let calls = self.links.get(&stream.link).map(|link| &link.calls);
            let calls = calls.into_iter().flat_map(|calls| stream.calls.iter().filter_map(|key| calls.get(*key)));
            calls.for_each(|call| call.hash_state(state));
            stream.hash_state(now, state);
        }
        for reply in self.replies.values() {
            reply.stream.map(|stream| self.rank_of_stream(stream)).hash(state);
            reply.session.map(|session| self.rank_of_session(session)).hash(state);
            reply.cancel.as_ref().map(|cancel| (self.rank_of_link(cancel.0), &cancel.1)).hash(state);
            reply.hash_state(state);
        }
        let Self { streams, replies, links, .. } = self;
        hash_lane(&self.timers.undecided, now, state, |key| {
            is_undecided(streams, replies, key).then(|| self.rank_of_stream(key))
        });
        hash_lane(&self.timers.fates, now, state, |key| awaits_fate(replies, key).then(|| self.rank_of_reply(key)));
        hash_lane(&self.timers.unproved, now, state, |key| {
            is_undecided(streams, replies, key).then(|| self.rank_of_stream(key))
        });
        hash_lane(&self.timers.link_upkeep, now, state, |key| {
            let link = links.get(&key).filter(|link| !link.is_closed)?;
            Some((self.rank_of_link(key), now.since(link.idle_since)))
        });
        hash_lane(&self.timers.keep_alive, now, state, |key| {
            replies.contains_key(&key).then(|| self.rank_of_reply(key))
        });
        hash_lane(&self.timers.upkeep, now, state, |key| self.rank_of_session(key));
        let mut shared: Vec<_> = self.shared.links.values().map(|link| self.rank_of_link(*link)).collect();
        shared.sort_unstable();
        shared.hash(state);
        core::mem::discriminant(&self.shared.era).hash(state);
        if let Some(Question { id, held, .. }) = self.shared.question() {
            id.hash(state);
            for held in held {
                let reply = replies.contains_key(&held.reply).then(|| self.rank_of_reply(held.reply));
                (reply, &held.asker, &held.body[..]).hash(state);
            }
        }
        self.joint.link().map(|link| self.rank_of_link(link)).hash(state);
        self.joint.hash_state(now, state);
        hash_lane(&self.timers.joint_upkeep, now, state, |key| (self.joint.link() == Some(key)).then_some(0));
        let is_asked = |key| match self.links.get(&key)?.serves {
            LinkUse::Stateless => self.shared.is_asked(key).then_some(0),
            LinkUse::Sessions => matches!(self.joint, Joint::Asked { .. }).then_some(1),
            LinkUse::Session(_) => None,
        };
        hash_lane(&self.timers.ask, now, state, is_asked);
        self.starts.resting.iter().for_each(|(at, link)| (at.since(now), self.rank_of_link(*link)).hash(state));
        self.starts.back_off.hash_state(now, state);
        self.keyring.hash_state(now, state);
        self.unjudged.len().hash(state);
        self.unjudged.iter().for_each(|unjudged| unjudged.hash_state(state));
        self.task_owners.hash_state(state);
        self.made_tasks.hash_state(state);
        self.body_shares.hash_state(state);
        self.stream_shares.hash_state(state);
        hash_lane(&self.timers.body_patience, now, state, |key| {
            has_body(replies, key).then(|| self.rank_of_reply(key))
        });
        self.log_level.hash(state);
        self.modern_only.as_ref().map(ModernOnly::list).hash(state);
        (self.is_draining, &self.session_id, self.events.len()).hash(state);
    }

    fn rank_of_link(&self, key: LinkKey) -> usize {
        self.links.range(..key).count()
    }

    fn rank_of_session(&self, key: SessionKey) -> Option<usize> {
        self.sessions.contains_key(&key).then(|| self.sessions.range(..key).count())
    }

    fn rank_of_stream(&self, key: StreamKey) -> Option<usize> {
        self.streams.contains_key(&key).then(|| self.streams.range(..key).count())
    }

    fn rank_of_reply(&self, key: ReplyKey) -> usize {
        self.replies.range(..key).count()
    }
}

fn hash_lane<K: Copy, R: Hash>(lane: &Lane<K>, now: Instant, state: &mut impl Hasher, rank: impl Fn(K) -> Option<R>) {
    for (due, key) in lane.armed() {
        if let Some(rank) = rank(key) {
            (due.since(now), rank).hash(state);
        }
    }
    0xff_u8.hash(state);
}
