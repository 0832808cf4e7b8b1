//! For those who check the machine: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use rescind_proto::time::Instant;

use super::{
    Era, HttpServer, HttpServerEvent, LinkKey, ReplyKey, StreamKey, is_undecided, lane::Lane, link::Link,
    receive::Held, stream::Stream,
};

impl HttpServer {
    /// Panics if the tables contradict each other.
    ///
    /// Costs time in proportion to everything that is held.
    pub fn check_invariants(&self) {
        for (key, reply) in &self.replies {
            if let Some(stream) = reply.stream.and_then(|stream| self.streams.get(&stream)) {
                assert_eq!(stream.reply, Some(*key), "a response carries a stream that another one carries");
            }
        }
        for (key, stream) in &self.streams {
            self.check_stream(*key, stream);
        }
        for (key, link) in &self.links {
            for (id, stream) in &link.requests {
                let stream = self.streams.get(stream).expect("a request in flight has a stream");
                assert!(stream.waiting.iter().any(|waiting| waiting.link_id == *id), "no stream waits for {id}");
            }
            for (token, stream) in &link.tokens {
                let stream = self.streams.get(stream).expect("a request that asked for progress has a stream");
                let mut tokens = stream.waiting.iter().filter_map(|waiting| waiting.token.as_ref());
                assert!(tokens.any(|(known, _)| known == token), "no stream waits for progress of {token}");
            }
            let Some(session) = &link.session else { continue };
            assert_eq!(
                self.sessions.get(&session.id),
                Some(key).filter(|_| !link.is_closed),
                "a session is found while it is open"
            );
            let streams = || self.streams.values().filter(|stream| stream.link == *key);
            let kept: usize = streams().map(Stream::kept).sum();
            assert_eq!(session.kept, kept, "a session counts the bytes that it keeps");
            let replies = self.replies.values().filter(|reply| reply.link == Some(*key)).count();
            assert_eq!(session.replies, replies, "a session counts its open responses");
            for (number, stream) in &session.streams {
                let stream = self.streams.get(stream).expect("a session knows streams that exist");
                assert!(stream.number == Some(*number), "a stream has another number than its session knows");
            }
            if !link.is_closed {
                let has_ended = |key| self.streams.get(key).is_some_and(|stream| stream.ended.is_some());
                assert!(session.ended.iter().all(has_ended), "a session counts streams that have ended");
                for (id, known) in
                    session.renamed.iter().flat_map(|(id, known)| known.iter().map(move |link| (id, link)))
                {
                    let stream = link.requests.get(known).and_then(|stream| self.streams.get(stream));
                    let mut waiting = stream.expect("a renamed request is in flight").waiting.iter();
                    assert!(waiting.any(|waiting| waiting.client_id == *id && waiting.link_id == *known));
                }
            }
        }
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
        for waiting in &stream.waiting {
            assert_eq!(link.requests.get(&waiting.link_id), Some(&key), "a stream waits for what is not in flight");
        }
        let is_known = stream.number.is_some_and(|number| {
            link.session.as_ref().is_some_and(|session| session.streams.get(&number) == Some(&key))
        });
        assert!(is_known || stream.reply.is_some(), "a stream that nobody can ask for is kept");
    }

    /// How many entries all tables hold. Zero once every link is closed, every response read and the longest timer past.
    #[must_use]
    pub fn residue(&self) -> usize {
        let timers = self.undecided.len() + self.keep_alive.len() + self.upkeep.len() + self.ask.len();
        let tables = self.links.len() + self.streams.len() + self.replies.len() + self.sessions.len();
        tables + timers + self.events.len() + self.shared.held_requests()
    }

    /// Bytes of memory held for messages, requests and responses, capacities of their buffers included.
    ///
    /// Costs time in proportion to everything that is held.
    #[must_use]
    pub fn held(&self) -> usize {
        let links: usize = self.links.values().map(Link::held).sum();
        let streams: usize = self.streams.values().map(Stream::held).sum();
        let replies: usize = self.replies.values().map(super::Reply::held).sum();
        let timers = self.undecided.held() + self.keep_alive.held() + self.upkeep.held() + self.ask.held();
        let waiting: usize = match &self.shared.era {
            Era::Asked(_, waiting) => waiting.iter().map(Held::held).sum(),
            Era::Unknown | Era::Modern | Era::Legacy => 0,
        };
        links + streams + replies + timers + waiting + self.events.capacity() * size_of::<HttpServerEvent>()
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and keys by their order,
    /// since nothing else of them matters.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        for (key, link) in &self.links {
            link.hash_state(now, state);
            let session = link.session.as_ref();
            let streams = session.into_iter().flat_map(|session| session.listening.iter().chain(&session.ended));
            streams.for_each(|stream| self.rank_of_stream(*stream).hash(state));
            self.sessions.values().any(|known| known == key).hash(state);
        }
        for stream in self.streams.values() {
            self.rank_of_link(stream.link).hash(state);
            stream.reply.map(|reply| self.rank_of_reply(reply)).hash(state);
            stream.hash_state(now, state);
        }
        for reply in self.replies.values() {
            reply.stream.map(|stream| self.rank_of_stream(stream)).hash(state);
            reply.link.map(|link| self.rank_of_link(link)).hash(state);
            reply.hash_state(state);
        }
        let Self { streams, replies, links, .. } = self;
        hash_lane(&self.undecided, now, state, |key| {
            is_undecided(streams, replies, key).then(|| self.rank_of_stream(key))
        });
        hash_lane(&self.keep_alive, now, state, |key| replies.contains_key(&key).then(|| self.rank_of_reply(key)));
        hash_lane(&self.upkeep, now, state, |key| {
            links.get(&key).is_some_and(|link| !link.is_closed).then(|| self.rank_of_link(key))
        });
        self.shared.link.map(|link| self.rank_of_link(link)).hash(state);
        core::mem::discriminant(&self.shared.era).hash(state);
        if let Era::Asked(id, held) = &self.shared.era {
            id.hash(state);
            for held in held {
                (replies.contains_key(&held.reply).then(|| self.rank_of_reply(held.reply)), held.body()).hash(state);
            }
            hash_lane(&self.ask, now, state, |key| (self.shared.link == Some(key)).then_some(0));
        }
        (self.is_draining, &self.session_id, self.events.len()).hash(state);
    }

    fn rank_of_link(&self, key: LinkKey) -> usize {
        self.links.range(..key).count()
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
