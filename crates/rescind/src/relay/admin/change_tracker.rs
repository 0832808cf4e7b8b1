//! Which requests changed, while somebody subscribes.
//!
//! The relay marks requests that changed. At most ten times a second the tracker turns them into records of their state
//! at that time. So a subscriber costs a busy link little more for a thousand messages than for ten.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use rescind_feed::{Changes, Connected, Ended, Event, Implementation, Request, Restarts, Session, Snapshot};
use rescind_proto::{
    link::{ChildKey, RequestKey},
    relay::{ChildView, Relay, RequestView},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    event_buffer::{EventBuffer, encode},
    filter::MAX_LISTED,
    frame_log::FrameLog,
    record::{self, micros},
    session_facts::{SessionFacts, implementations},
};

/// The most records in one event.
const MAX_RECORDS: usize = 500;

/// The most of them that may be of requests that came and ended in between without an event worth reading.
const MAX_UNEVENTFUL: usize = 20;

/// What is kept while somebody subscribes.
#[derive(Debug, Default)]
pub(super) struct ChangeTracker {
    pub(super) frame_log: FrameLog,
    /// Requests whose last report was not their end. Their end must be reported.
    reported: HashSet<RequestKey, foldhash::fast::RandomState>,
    /// Stuck and released requests that are over for their requesters, as last reported: a thousand at most. They end when
    /// the relay forgets them.
    outliving: BTreeMap<RequestKey, Request>,
    /// Children that may be at work, as last reported.
    children: BTreeMap<ChildKey, Request>,
    /// How much work, and how many tasks and released requests, had no room, as last reported.
    unkept: u64,
    /// Whether there may be work that cannot be seen, as last reported.
    hides_work: bool,
    /// The side that left so much unread that the other one may stand still, as last reported.
    held_up_by: Option<Side>,
    /// The two sides as last reported.
    implementations: Sides<Implementation>,
    /// Who was connected, as last reported.
    connected: Option<Connected>,
    /// Whether a person was being asked to sign in, as last reported.
    is_signing_in: bool,
    /// How many requests limits had refused, as last reported.
    refused: u64,
    /// How often the server was started again, and whether it is about to be, as last reported.
    restarts: (Option<Restarts>, bool),
    /// Since when its client waits for a server that has not started, as last reported.
    starting: Option<Instant>,
    /// The event buffer has been notified of changes.
    pub(super) has_notified: bool,
}

/// What to report.
#[derive(Debug, Default)]
struct ChangeSet {
    requests: Vec<Request>,
    brief: u64,
    /// A reported request has ended and the relay has forgotten it, so its end cannot be reported.
    has_lost_ends: bool,
}

impl ChangeTracker {
    pub(super) fn begin(relay: &mut Relay) -> Self {
        relay.watch(true);
        Self { implementations: implementations(relay), ..Self::default() }
    }

    /// Whether there is anything to report.
    pub(super) fn has_changes(&self, relay: &Relay, facts: &SessionFacts) -> bool {
        relay.has_changes() || self.differs(relay, facts)
    }

    /// Whether something that belongs to no request is not as last reported.
    fn differs(&self, relay: &Relay, facts: &SessionFacts) -> bool {
        (facts.restarts, relay.awaits_server()) != self.restarts
            || relay.awaits_start() != self.starting
            || unkept(relay) != self.unkept
            || relay.may_hide_work() != self.hides_work
            || relay.held_up_by() != self.held_up_by
    }

    /// Reports changes, if there are any.
    pub(super) fn report(&mut self, now: Instant, relay: &mut Relay, events: &EventBuffer, facts: &SessionFacts) {
        let ChangeSet { requests, brief, has_lost_ends } = self.collect(now, relay);
        if has_lost_ends {
            self.reported.clear();
            self.outliving.clear();
            self.children.clear();
            return events.restart();
        }
        let implementations = implementations(relay);
        let (connected, is_signing_in) = (facts.connected(), facts.is_signing_in());
        let refused = relay.tally().limited.values().sum();
        let is_other = implementations != self.implementations
            || connected != self.connected
            || is_signing_in != self.is_signing_in
            || refused != self.refused
            || self.differs(relay, facts);
        let session = is_other.then(|| facts.session(relay));
        self.restarts = (facts.restarts, relay.awaits_server());
        self.starting = relay.awaits_start();
        (self.implementations, self.connected) = (implementations, connected);
        (self.is_signing_in, self.refused) = (is_signing_in, refused);
        (self.unkept, self.held_up_by) = (unkept(relay), relay.held_up_by());
        self.hides_work = relay.may_hide_work();
        if requests.is_empty() && brief == 0 && session.is_none() {
            return;
        }
        let seq = events.last() + 1;
        let changes = Changes { seq, now: micros(now), requests, brief, in_flight: in_flight(relay), session };
        events.push(encode(seq, &Event::Changes(changes)));
    }

    /// The whole state.
    pub(super) fn snapshot(&mut self, now: Instant, relay: &Relay, events: &EventBuffer, session: Session) -> Snapshot {
        let (mut open, mut released, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for summary in Side::BOTH.into_iter().flat_map(|side| relay.summaries(side)) {
            match summary.ended {
                Some(at) if summary.is_released => released.push((Reverse(at), summary.key)),
                Some(at) if !summary.is_open() => over.push((Reverse(at), summary.key)),
                Some(_) | None => open.push((summary.since, summary.key)),
            }
        }
        let mut requests = Vec::new();
        let open = first(MAX_LISTED, open).map(|(_, key)| key);
        let released = first(MAX_LISTED, released).map(|(_, key)| key);
        for view in open.chain(released).filter_map(|key| relay.view(key)) {
            self.note_followed(&view);
            requests.push(self.record(&view));
        }
        let over = first(MAX_LISTED, over).filter_map(|(_, key)| relay.view(key));
        requests.extend(over.map(|view| record::request(&view)));
        for view in relay.children() {
            requests.push(self.record_child(relay, &view));
        }
        Snapshot { seq: events.last(), now: micros(now), session, requests, in_flight: in_flight(relay) }
    }

    fn collect(&mut self, now: Instant, relay: &mut Relay) -> ChangeSet {
        let mut found = ChangeSet { has_lost_ends: relay.poll_lost_changes(), ..ChangeSet::default() };
        let mut shown = 0;
        while found.requests.len() < MAX_RECORDS
            && let Some(key) = relay.poll_changed_child()
        {
            match relay.child(key) {
                Some(view) => found.requests.push(self.record_child(relay, &view)),
                None => found.requests.extend(self.children.remove(&key).map(|last| record::closed(now, last))),
            }
        }
        while found.requests.len() < MAX_RECORDS
            && let Some(key) = relay.poll_changed()
        {
            if relay.is_uneventful(key) == Some(true) && !self.reported.contains(&key) {
                shown += 1;
                if shown > MAX_UNEVENTFUL {
                    found.brief += 1;
                    continue;
                }
            }
            let Some(view) = relay.view(key) else {
                let is_reported = self.reported.remove(&key);
                if let Some(request) = self.outliving.remove(&key) {
                    found.requests.push(Request { state: rescind_feed::State::Ended, ..request });
                } else {
                    found.has_lost_ends |= is_reported;
                    found.brief += 1;
                }
                continue;
            };
            self.note_followed(&view);
            let request = self.record(&view);
            found.requests.push(request);
        }
        found
    }

    /// Notes whether the end of a request is still to be reported.
    fn note_followed(&mut self, view: &RequestView<'_>) {
        if record::is_to_be_followed(view) {
            self.reported.insert(view.key);
        } else {
            self.reported.remove(&view.key);
        }
    }

    fn record_child(&mut self, relay: &Relay, view: &ChildView<'_>) -> Request {
        let request = child_record(relay, view);
        if view.state.is_open() {
            self.children.insert(view.key, request.clone());
        } else {
            self.children.remove(&view.key);
        }
        request
    }

    fn record(&mut self, view: &RequestView<'_>) -> Request {
        let request = record::request(view);
        let is_known = self.outliving.remove(&view.key).is_some();
        if record::outlives_its_end(view) && (is_known || self.outliving.len() < MAX_LISTED) {
            self.outliving.insert(view.key, request.clone());
        }
        request
    }
}

/// The record of a child.
pub(super) fn child_record(relay: &Relay, view: &ChildView<'_>) -> Request {
    record::child(view, relay.dialect(Side::Server))
}

/// Reports the end of the session.
pub(super) fn report_end(now: Instant, events: &EventBuffer, how: rescind_feed::End) {
    let seq = events.last() + 1;
    events.push_last(encode(seq, &Event::Ended(Ended { seq, now: micros(now), how })));
}

fn unkept(relay: &Relay) -> u64 {
    relay.unkept_work() + relay.unkept_tasks() + relay.unkept_released()
}

fn in_flight(relay: &Relay) -> u64 {
    let requests: u64 = Side::BOTH.into_iter().map(|side| relay.in_flight(side) as u64).sum();
    requests + relay.children().filter(|child| child.state.is_open()).count() as u64
}

/// The first `most` of `found`, in order. The rest stays unsorted: sorting a hundred thousand would stall the link.
pub(super) fn first<T: Ord>(most: usize, mut found: Vec<T>) -> impl Iterator<Item = T> {
    if found.len() > most {
        found.select_nth_unstable(most);
        found.truncate(most);
    }
    found.sort_unstable();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rescind_feed::State;
    use rescind_proto::relay::{LimitRules, RelayConfig, RepeatLimit};

    use super::{super::event_buffer::Next, *};
    use crate::relay::ends::{EntryName, StreamFacts};

    /// A relay with a tracker, whose two sides read and write at once.
    struct TestLink {
        relay: Relay,
        tracker: ChangeTracker,
        events: EventBuffer,
        facts: SessionFacts,
        now: Instant,
    }

    impl TestLink {
        fn new() -> Self {
            let facts = SessionFacts {
                name: "1".into(),
                ancestors: Vec::new(),
                server_pid: Some(2),
                command: Vec::new(),
                entry: EntryName::default(),
                folder: None,
                started: 0,
                origin: std::time::Instant::now(),
                turn_processes: std::collections::VecDeque::new(),
                ending_turns: None,
                restarts: None,
                told: StreamFacts::default(),
            };
            let mut relay = Relay::new(RelayConfig::default());
            let tracker = ChangeTracker::begin(&mut relay);
            Self { relay, tracker, events: EventBuffer::new(0), facts, now: Instant::ORIGIN }
        }

        fn send(&mut self, side: Side, message: &str) {
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
            self.send(Side::Client, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}}}}}}}"#));
        }

        fn answer(&mut self, id: u32) {
            self.send(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }

        /// The changes reported now.
        fn reported(&mut self) -> Option<Changes> {
            let before = self.events.last();
            self.tracker.report(self.now, &mut self.relay, &self.events, &self.facts);
            let text = match self.events.next(before) {
                Next::Event(_, text) => text,
                Next::Snapshot | Next::Nothing | Next::Over => return None,
            };
            let text = std::str::from_utf8(&text).unwrap();
            match serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap() {
                Event::Changes(changes) => Some(changes),
                Event::Snapshot(_) | Event::Ended(_) => None,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_few_uneventful_requests_are_reported_and_the_rest_is_counted() {
        let mut link = TestLink::new();
        link.call(1);
        assert_eq!(link.reported().unwrap().requests[0].state, State::Running);
        for id in 2..102 {
            link.call(id);
            link.answer(id);
        }
        link.answer(1);
        let changes = link.reported().unwrap();
        assert_eq!(
            (changes.requests.len(), changes.brief, changes.in_flight),
            (MAX_UNEVENTFUL + 1, 100 - MAX_UNEVENTFUL as u64, 0)
        );
        let first = changes.requests.iter().find(|request| request.id == "1").unwrap();
        assert_eq!(first.state, State::Ended, "a request reported in flight is reported to have ended");
        assert_eq!(link.reported(), None);
    }

    #[test]
    fn what_a_limit_refuses_is_reported_with_the_session() {
        let mut link = TestLink::new();
        let repeats = Some(RepeatLimit { name: "--limit-repeats 1".into(), most: 1 });
        let limits = LimitRules { repeats, ..LimitRules::default() };
        link.relay = Relay::new(RelayConfig { limits, ..RelayConfig::default() });
        link.tracker = ChangeTracker::begin(&mut link.relay);
        link.call(1);
        assert_eq!(link.reported().unwrap().session, None);
        link.call(2);
        let changes = link.reported().unwrap();
        assert_eq!(changes.session.unwrap().limits, [("--limit-repeats 1".to_owned(), 1)].into());
        assert_eq!(changes.requests[0].cancel.as_ref().unwrap().words, "never sent; refused by --limit-repeats 1");
        assert_eq!(link.reported(), None);
    }

    #[test]
    fn a_side_that_does_not_read_is_reported_when_it_becomes_so_and_when_it_reads_again() {
        let mut link = TestLink::new();
        link.relay = Relay::new(RelayConfig { max_backlog: 100, ..RelayConfig::default() });
        link.tracker = ChangeTracker::begin(&mut link.relay);
        link.call(1);
        assert!(link.reported().is_some());
        // No request comes of it, and none changes.
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"xxxxxxxxxxxxxxxxxxxxxxxxxxx"}}"#;
        for _ in 0..4 {
            link.relay.handle_input(link.now, Side::Server, format!("{log}\n").as_bytes());
        }
        assert!(!link.relay.has_changes() && link.tracker.has_changes(&link.relay, &link.facts));
        assert_eq!(link.reported().unwrap().session.unwrap().held_up_by, Some(rescind_feed::Side::Client));
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
        link.write();
        assert!(link.tracker.has_changes(&link.relay, &link.facts));
        assert_eq!(link.reported().unwrap().session.unwrap().held_up_by, None);
    }

    #[test]
    fn a_restart_is_reported_though_no_request_changes() {
        let mut link = TestLink::new();
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
        let restarts = Some(Restarts { count: 1, last: 5, greeted: None });
        link.facts.restarts = restarts;
        assert!(link.tracker.has_changes(&link.relay, &link.facts));
        assert_eq!(link.reported().unwrap().session.unwrap().restarts, restarts);
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
    }

    #[test]
    fn when_an_end_is_forgotten_before_its_report_subscribers_get_a_snapshot() {
        let mut link = TestLink::new();
        link.call(1);
        assert!(link.reported().is_some());
        let number = link.events.last();
        link.answer(1);
        for id in 2..10_000 {
            link.call(id);
            link.answer(id);
        }
        assert_eq!(link.reported(), None);
        assert!(matches!(link.events.next(number), Next::Snapshot));
        link.call(20_000);
        assert!(link.reported().is_some_and(|changes| changes.requests[0].id == "20000"));
    }

    #[test]
    fn a_released_request_is_reported_until_it_is_forgotten() {
        let mut link = TestLink::new();
        link.call(1);
        assert!(link.reported().is_some());
        link.send(Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        let changes = link.reported().unwrap();
        assert_eq!((changes.requests[0].state, changes.in_flight), (State::Released, 0));
        let session = link.facts.session(&link.relay);
        let snapshot = link.tracker.snapshot(link.now, &link.relay, &link.events, session);
        assert_eq!(snapshot.requests.iter().map(|one| one.state).collect::<Vec<_>>(), [State::Released]);
        link.wait(599);
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
        link.wait(1);
        assert_eq!(link.reported().unwrap().requests[0].state, State::Ended);
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
    }

    #[test]
    fn of_more_than_a_thousand_released_requests_none_is_shown_for_ever() {
        let mut link = TestLink::new();
        for id in 0..1100 {
            link.call(id);
            let cancel = r#""method":"notifications/cancelled""#;
            link.send(Side::Client, &format!(r#"{{"jsonrpc":"2.0",{cancel},"params":{{"requestId":{id}}}}}"#));
        }
        while link.reported().is_some() {}
        assert_eq!(link.tracker.outliving.len(), MAX_LISTED);
        let number = link.events.last();
        link.wait(600);
        assert_eq!(link.reported().map(|changes| changes.requests.len()), Some(MAX_RECORDS));
        while link.reported().is_some() {}
        assert!(matches!(link.events.next(number), Next::Snapshot), "what was not kept makes a new beginning");
    }

    #[test]
    fn a_stuck_request_ends_when_it_is_forgotten() {
        let mut link = TestLink::new();
        link.call(1);
        let key = link.relay.requests(Side::Client).next().unwrap().key;
        assert!(link.relay.stop(link.now, key, None));
        link.write();
        link.wait(6);
        link.send(
            Side::Server,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        );
        assert_eq!(link.reported().unwrap().requests[0].state, State::Stuck);
        for _ in 0..20 {
            link.wait(60);
        }
        assert!(link.tracker.has_changes(&link.relay, &link.facts));
        assert_eq!(link.reported().unwrap().requests[0].state, State::Ended);
        assert!(!link.tracker.has_changes(&link.relay, &link.facts));
    }
}
