//! For those who check the machine: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use rescind_proto::time::Instant;

use super::{HttpServer, ReplyKey, Sessions, StreamKey, calls::CallKey, entrance::Unjudged, link::LinkUse};

impl HttpServer {
    /// Panics if the tables contradict each other.
    ///
    /// Costs time in proportion to everything that is held.
    pub fn check_invariants(&self) {
        self.streams.check();
        assert!(self.unread() <= self.config.unread_bound(), "streams take more than they may");
        for (key, stream) in self.streams.streams.iter() {
            let link = self.programs.links.get(&stream.link).filter(|link| !link.is_closed);
            assert!(stream.reply.is_some() || link.is_some(), "a stream is left of a link that is closed");
            assert!(stream.ended.is_some() || link.is_some(), "a stream goes on although its link is closed");
            let its = |call: &CallKey| link.and_then(|link| link.calls.get(*call)).map(|call| call.stream);
            assert!(
                stream.calls.iter().all(|call| its(call) == Some(*key)),
                "a stream waits for what is not in flight"
            );
        }
        for session in self.streams.sessions.values() {
            assert!(
                self.programs.links.get(&session.link).is_some_and(|link| !link.is_closed),
                "a session has an open link"
            );
            if self.config.sessions == Sessions::SharedLink {
                assert_eq!(self.programs.joint, Some(session.link), "a session shares another link than the others");
            }
        }
        for (key, link) in self.programs.links.iter() {
            link.calls.check();
            for (call_key, call) in link.calls.iter() {
                let stream = self.streams.streams.get(&call.stream).expect("a request in flight has a stream");
                assert!(stream.calls.contains(&call_key), "no stream waits for {}", call.link_id);
                assert_eq!((stream.link, stream.session()), (*key, call.session), "a stream waits for a stranger");
            }
            let is_open = match link.serves {
                LinkUse::Session(session) => {
                    self.streams.sessions.get(&session).is_some_and(|session| session.link == *key)
                }
                LinkUse::Sessions => self.programs.joint == Some(*key),
                LinkUse::Stateless => self.programs.shared.values().any(|link| link == key),
            };
            assert_eq!(is_open, !link.is_closed, "a link and whom it serves end together");
        }
    }

    /// How many entries all tables hold. Zero once every link is closed, every response read and the longest timer past.
    #[must_use]
    pub fn residue(&self) -> usize {
        let waiting = self.unjudged.len() + self.programs.residue();
        let timers = self.timers.armed().count() + self.keyring.due().iter().len();
        self.streams.residue() + waiting + timers
    }

    /// Bytes of memory held for messages, requests and responses, capacities of their buffers included.
    ///
    /// Costs time in proportion to everything that is held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.programs.held()
            + self.streams.held()
            + self.timers.held()
            + self.keyring.held()
            + self.unjudged.iter().map(Unjudged::held).sum::<usize>()
            + self.task_owners.held()
    }

    /// Bytes of all streams that their clients have not read, or may ask for again. Costs time in proportion to them.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.streams.unread()
    }

    /// Whether a response was ended although its stream had more, or since another carries that now.
    #[must_use]
    pub fn is_cut_off(&self, key: ReplyKey) -> bool {
        self.streams.is_cut_off(key)
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and keys by their order,
    /// since nothing else of them matters.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self { streams, programs, .. } = self;
        for (key, link) in programs.links.iter() {
            link.hash_state(state);
            link.asked.iter().for_each(|question| question.hash_state(state, |reply| streams.replies.rank(reply)));
            let since = streams.streams.range(StreamKey(link.since)..);
            since.filter(|(_, stream)| stream.link == *key).count().hash(state);
        }
        streams.hash_state(now, &programs.links, state);
        for (due, timer) in self.timers.armed() {
            if let Some(rank) = streams.rank_of(timer) {
                (core::mem::discriminant(&timer), due.since(now), rank).hash(state);
            }
        }
        programs.hash_state(now, streams.sessions.is_empty(), state);
        self.keyring.hash_state(now, state);
        self.unjudged.len().hash(state);
        self.unjudged.iter().for_each(|unjudged| unjudged.hash_state(state));
        self.task_owners.hash_state(state);
        (self.is_draining, &self.session_id).hash(state);
    }
}
