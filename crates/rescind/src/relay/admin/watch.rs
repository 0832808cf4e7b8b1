//! What is kept while somebody watches, and how what changed is told.
//!
//! The link notes which requests changed; ten times a second at most they are looked at, and records are made of them
//! as they are then. So being watched costs a busy link little more for a thousand messages than for ten.

use std::{cmp::Reverse, collections::HashSet};

use bytes::Bytes;
use rescind_feed::{Changes, Ended, Event, Implementation, Request, Session, Snapshot};
use rescind_proto::{
    link::RequestKey,
    relay::{Relay, RequestView},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    query::MAX_LISTED,
    record::{self, micros},
    scene::Facts,
    stream::Stream,
    tape::Tape,
};

/// Records that go into one event.
const RECORDS: usize = 500;

/// How many of them may be of requests that came and ended in between with nothing to tell.
const BRIEF: usize = 20;

/// What is kept while somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) tape: Tape,
    /// Requests of which the last that was told is not their end: whatever becomes of them has to be told.
    told: HashSet<RequestKey, foldhash::fast::RandomState>,
    /// Stuck requests that are over for their requesters, as they were told: they end by being forgotten.
    stuck: Vec<(RequestKey, Request)>,
    /// What was last told of the two sides.
    implementations: Sides<Implementation>,
    /// The stream was told that there is something to tell.
    pub(super) stirred: bool,
}

/// Which of the changed requests to tell.
#[derive(Debug, Default)]
struct Found {
    requests: Vec<Request>,
    brief: u64,
    /// Something that was told has ended, and nothing of it is remembered.
    lost: bool,
}

impl Watch {
    pub(super) fn begin(relay: &mut Relay) -> Self {
        relay.watch(true);
        Self { implementations: implementations(relay), ..Self::default() }
    }

    /// Whether there is something to tell.
    pub(super) fn has_news(&self, relay: &Relay) -> bool {
        relay.has_changes() || !self.stuck.is_empty()
    }

    /// Tells what changed, if anything did.
    pub(super) fn tell(&mut self, now: Instant, relay: &mut Relay, stream: &Stream, facts: &Facts) {
        let Found { requests, brief, lost } = self.find(relay);
        if lost {
            self.told.clear();
            self.stuck.clear();
            return stream.begin_anew();
        }
        let implementations = implementations(relay);
        let session = (implementations != self.implementations).then(|| facts.session(relay));
        self.implementations = implementations;
        if requests.is_empty() && brief == 0 && session.is_none() {
            return;
        }
        let seq = stream.last() + 1;
        let changes = Changes { seq, now: micros(now), requests, brief, in_flight: in_flight(relay), session };
        stream.tell(encode(seq, &Event::Changes(changes)));
    }

    /// Everything as it is.
    pub(super) fn snapshot(&mut self, now: Instant, relay: &Relay, stream: &Stream, session: Session) -> Snapshot {
        let (mut open, mut over) = (Vec::new(), Vec::new());
        for glimpse in Side::BOTH.into_iter().flat_map(|side| relay.glimpses(side)) {
            match glimpse.ended {
                Some(at) if !glimpse.is_open() => over.push((Reverse(at), glimpse.key)),
                Some(_) | None => open.push((glimpse.since, glimpse.key)),
            }
        }
        let mut requests = Vec::new();
        for view in first(MAX_LISTED, open).filter_map(|(_, key)| relay.view(key)) {
            self.note(&view);
            requests.push(self.record(&view));
        }
        let over = first(MAX_LISTED, over).filter_map(|(_, key)| relay.view(key));
        requests.extend(over.map(|view| record::request(&view)));
        Snapshot { seq: stream.last(), now: micros(now), session, requests, in_flight: in_flight(relay) }
    }

    fn find(&mut self, relay: &mut Relay) -> Found {
        let mut found = Found { lost: relay.take_lost_changes(), ..Found::default() };
        let mut shown = 0;
        self.stuck.retain(|(key, request)| {
            let remembered = relay.view(*key).is_some();
            if !remembered {
                found.requests.push(Request { state: rescind_feed::State::Ended, ..request.clone() });
                self.told.remove(key);
            }
            remembered
        });
        while found.requests.len() < RECORDS
            && let Some(key) = relay.poll_changed()
        {
            if relay.is_uneventful(key) == Some(true) && !self.told.contains(&key) {
                shown += 1;
                if shown > BRIEF {
                    found.brief += 1;
                    continue;
                }
            }
            let Some(view) = relay.view(key) else {
                found.lost |= self.told.remove(&key);
                found.brief += 1;
                continue;
            };
            self.note(&view);
            let request = self.record(&view);
            found.requests.push(request);
        }
        found
    }

    /// Remembers whether the end of a request is still to be told.
    fn note(&mut self, view: &RequestView<'_>) {
        if record::is_open(view) {
            self.told.insert(view.key);
        } else {
            self.told.remove(&view.key);
        }
    }

    fn record(&mut self, view: &RequestView<'_>) -> Request {
        let request = record::request(view);
        self.stuck.retain(|(key, _)| *key != view.key);
        if view.is_stuck && view.ended.is_some() {
            self.stuck.push((view.key, request.clone()));
        }
        request
    }
}

/// The session's last words.
pub(super) fn tell_end(now: Instant, stream: &Stream, how: rescind_feed::End) {
    let seq = stream.last() + 1;
    stream.end(encode(seq, &Event::Ended(Ended { seq, now: micros(now), how })));
}

/// What the two sides call themselves.
pub(super) fn implementations(relay: &Relay) -> Sides<Implementation> {
    Sides::from_fn(|side| {
        let implementation = relay.implementation(side);
        Implementation {
            protocol: relay.dialect(side).name.to_owned(),
            name: implementation.map(|implementation| record::text(&implementation.name)),
            version: implementation.and_then(|implementation| implementation.version.as_deref()).map(record::text),
        }
    })
}

fn in_flight(relay: &Relay) -> u64 {
    Side::BOTH.into_iter().map(|side| relay.in_flight(side) as u64).sum()
}

/// The first of them in their order. Not all are put in order: of a hundred thousand that would hold up the link.
pub(super) fn first<T: Ord>(most: usize, mut found: Vec<T>) -> impl Iterator<Item = T> {
    if found.len() > most {
        found.select_nth_unstable(most);
        found.truncate(most);
    }
    found.sort_unstable();
    found.into_iter()
}

/// An event as it goes over the wire.
pub(super) fn encode(number: u64, event: &Event) -> Bytes {
    let kind = match event {
        Event::Snapshot(_) => "snapshot",
        Event::Changes(_) => "changes",
        Event::Ended(_) => "ended",
    };
    let mut text = format!("event: {kind}\nid: {number}\ndata: ").into_bytes();
    // Maps with keys of text, and numbers that are finite: there is nothing that JSON does not have.
    let _ = serde_json::to_writer(&mut text, event);
    text.extend_from_slice(b"\n\n");
    text.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rescind_feed::State;
    use rescind_proto::relay::RelayConfig;

    use super::{super::stream::Next, *};

    /// A relay that is watched, whose ends read and write at once.
    struct Link {
        relay: Relay,
        watch: Watch,
        stream: Stream,
        facts: Facts,
        now: Instant,
    }

    impl Link {
        fn new() -> Self {
            let facts =
                Facts { name: "1".into(), ancestors: Vec::new(), server_pid: 2, command: Vec::new(), started: 0 };
            let mut relay = Relay::new(RelayConfig::default());
            let watch = Watch::begin(&mut relay);
            Self { relay, watch, stream: Stream::new(0), facts, now: Instant::ORIGIN }
        }

        fn say(&mut self, side: Side, message: &str) {
            self.relay.handle_input(self.now, side, format!("{message}\n").as_bytes());
            self.write();
        }

        fn write(&mut self) {
            for side in Side::BOTH {
                let length = self.relay.pending(side).len();
                self.relay.handle_written(self.now, side, length);
            }
        }

        fn wait(&mut self, seconds: u64) {
            self.now = self.now + Duration::from_secs(seconds);
            self.relay.handle_timeout(self.now);
            self.write();
        }

        fn call(&mut self, id: u32) {
            self.say(Side::Client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}}}}}}}"#));
        }

        fn answer(&mut self, id: u32) {
            self.say(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }

        /// The changes that are told now.
        fn told(&mut self) -> Option<Changes> {
            let before = self.stream.last();
            self.watch.tell(self.now, &mut self.relay, &self.stream, &self.facts);
            let text = match self.stream.next(before) {
                Next::Event(_, text) => text,
                Next::Snapshot | Next::Nothing | Next::Over => return None,
            };
            let text = std::str::from_utf8(&text).unwrap();
            match serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap() {
                Event::Changes(changes) => Some(changes),
                Event::Snapshot(_) | Event::Ended(_) => None,
            }
        }
    }

    #[test]
    fn a_few_without_a_story_are_told_of_and_the_rest_is_counted() {
        let mut link = Link::new();
        link.call(1);
        assert_eq!(link.told().unwrap().requests[0].state, State::Running);
        for id in 2..102 {
            link.call(id);
            link.answer(id);
        }
        link.answer(1);
        let changes = link.told().unwrap();
        assert_eq!((changes.requests.len(), changes.brief, changes.in_flight), (BRIEF + 1, 100 - BRIEF as u64, 0));
        let first = changes.requests.iter().find(|request| request.id == "1").unwrap();
        assert_eq!(first.state, State::Ended, "what was told to be in flight is told to have ended");
        assert_eq!(link.told(), None);
    }

    #[test]
    fn where_an_end_is_forgotten_before_it_was_told_everybody_begins_anew() {
        let mut link = Link::new();
        link.call(1);
        assert!(link.told().is_some());
        let number = link.stream.last();
        link.answer(1);
        for id in 2..10_000 {
            link.call(id);
            link.answer(id);
        }
        assert_eq!(link.told(), None);
        assert!(matches!(link.stream.next(number), Next::Snapshot));
        link.call(20_000);
        assert!(link.told().is_some_and(|changes| changes.requests[0].id == "20000"));
    }

    #[test]
    fn a_stuck_request_ends_when_it_is_forgotten() {
        let mut link = Link::new();
        link.call(1);
        let key = link.relay.requests(Side::Client).next().unwrap().key;
        assert!(link.relay.stop(link.now, key, None));
        link.write();
        link.wait(6);
        link.say(
            Side::Server,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        );
        assert_eq!(link.told().unwrap().requests[0].state, State::Stuck);
        for _ in 0..20 {
            link.wait(60);
        }
        assert!(link.watch.has_news(&link.relay));
        assert_eq!(link.told().unwrap().requests[0].state, State::Ended);
        assert!(!link.watch.has_news(&link.relay));
    }
}
