//! For those who check the machine: its invariants, and what it holds.

use std::collections::BTreeSet;

use super::{
    Held, HttpClient, Owed, Timer,
    fetch::{Fetch, OneWayKind, Phase, Reader, Role},
    stream::{CallState, Purpose, Stage},
};

impl HttpClient {
    /// Panics if the tables contradict each other.
    ///
    /// Costs time in proportion to everything that is held.
    pub fn check_invariants(&self) {
        let mut unsent = 0;
        let mut timers = BTreeSet::new();
        for (key, stream) in &self.streams {
            unsent += stream.unsent;
            timers.extend(stream.timer.map(|due| (due, Timer::Stream(*key))));
            match &stream.stage {
                Stage::Held(place) => {
                    assert!(matches!(self.held.get(place), Some(Held::Stream(held)) if held == key), "held nowhere");
                }
                Stage::Posting(fetch) | Stage::Reading(fetch) | Stage::Asking(fetch) | Stage::Probing(fetch) => {
                    let fetch = self.fetches.get(fetch).expect("a stream is carried by a fetch that exists");
                    let carried = match &fetch.role {
                        Role::Post(stream) | Role::Get(stream) => stream,
                        Role::Probe(probe) => &probe.stream,
                        Role::OneWay(_) | Role::End { .. } => panic!("a stream is carried by what carries none"),
                    };
                    assert_eq!(carried, key, "a stream is carried by the fetch of another");
                }
                Stage::Surveying(survey, _) => {
                    let survey = self.streams.get(survey).expect("a survey exists");
                    assert!(matches!(survey.purpose, Purpose::Survey { call, .. } if call == *key));
                }
                Stage::Away => assert!(stream.timer.is_some(), "a stream waits for nothing"),
            }
            for waiting in stream.waiting.iter().filter(|_| stream.purpose == Purpose::Calls) {
                let is_out = match &stream.stage {
                    Stage::Posting(fetch) => self.fetches.get(fetch).is_some_and(Fetch::may_be_processed),
                    Stage::Held(_) | Stage::Surveying(..) => false,
                    Stage::Reading(_) | Stage::Away | Stage::Asking(_) | Stage::Probing(_) => true,
                };
                assert!(waiting.has_left || !is_out, "{} is out, which was not reported", waiting.id);
                match waiting.state {
                    CallState::InFlight => {
                        assert_eq!(self.calls.get(&waiting.id), Some(key), "{} is in flight nowhere", waiting.id);
                    }
                    CallState::Cancelled { cancel, .. } => {
                        assert!(waiting.has_left, "{} was to be taken back, and its cancel is sent", waiting.id);
                        let carries = |cancel| self.fetches.get(&cancel).map(|fetch| &fetch.role);
                        let is_carried = cancel.is_none_or(|cancel| matches!(carries(cancel), Some(Role::OneWay(_))));
                        assert!(is_carried, "the cancel of {} is carried by nothing", waiting.id);
                    }
                    CallState::Answered { .. } => {
                        assert!(waiting.has_left, "{} is answered, and was not reported as out", waiting.id);
                    }
                }
            }
            if stream.purpose == Purpose::Calls && !stream.is_waited_for() {
                assert!(stream.timer.is_some(), "a stream that nobody waits for is kept for ever");
            }
        }
        for (id, stream) in &self.calls {
            let in_flight = self.streams.get(stream).and_then(|stream| {
                let waiting = &stream.waiting[stream.position(id)?];
                (waiting.state == CallState::InFlight).then_some(())
            });
            assert!(in_flight.is_some() || self.inbox.answers(id), "{id} waits for nothing");
        }
        let (mut handed, mut queued, mut owed, mut cancels) = ([0; 4], 0, Owed::default(), 0);
        for (key, fetch) in &self.fetches {
            timers.extend(fetch.timer.map(|due| (due, Timer::Fetch(*key))));
            handed[fetch.queue as usize] += usize::from(fetch.is_handed());
            let is_queued = self.queues.contains(fetch.queue, *key);
            queued += usize::from(is_queued);
            assert_eq!(
                is_queued,
                fetch.phase == Phase::Queued,
                "a fetch is queued that is not, or the other way round"
            );
            // A person has all the time that he wants.
            let is_bounded = matches!(fetch.phase, Phase::Queued | Phase::SigningIn) || fetch.timer.is_some();
            match &fetch.role {
                Role::Post(stream) | Role::Get(stream) => {
                    let stream = self.streams.get(stream).expect("a fetch carries a stream that exists");
                    assert_eq!(stream.fetch(), Some(*key), "a fetch carries a stream that another one carries");
                }
                Role::OneWay(one_way) => {
                    let is_cancel = matches!(one_way.kind, OneWayKind::Cancel(..));
                    let is_written = matches!(fetch.phase, Phase::Written(_));
                    assert!(!is_cancel || one_way.has_left || !is_written, "a cancel is out, which was not reported");
                    match one_way.kind {
                        OneWayKind::Answer => {
                            owed.answers += 1;
                            owed.bytes += one_way.body.len();
                        }
                        OneWayKind::Cancel(..) | OneWayKind::Initialized | OneWayKind::Other => {
                            cancels += usize::from(is_cancel);
                            unsent += one_way.body.len();
                        }
                    }
                    assert!(is_bounded, "a message may wait for ever");
                }
                Role::Probe(_) | Role::End { .. } => {
                    assert!(is_bounded, "a question may wait for ever");
                }
            }
            if let Reader::Refusal(_) | Reader::Ignored { .. } = fetch.reader {
                assert!(fetch.timer.is_some(), "what nobody needs may be read for ever");
            }
        }
        for (place, held) in &self.held {
            match held {
                Held::Stream(stream) => {
                    let stream = self.streams.get(stream).expect("what is held exists");
                    assert!(matches!(stream.stage, Stage::Held(held) if held == *place));
                }
                Held::OneWay(one_way) => unsent += one_way.body.len(),
            }
        }
        assert!(self.is_gated() || self.held.is_empty(), "something is held although it could be sent");
        assert_eq!(self.queues.handed(), handed, "what the driver has is counted wrongly");
        assert_eq!(self.queues.waiting(), queued, "a fetch is queued that is not there");
        assert_eq!((self.owed, self.cancels), (owed, cancels), "answers or cancels are counted wrongly");
        assert_eq!(self.unsent, unsent, "unsent bytes are counted wrongly");
        assert_eq!(self.timers, timers, "timers are not those of the tables");
    }

    /// How many entries all tables hold, tools and what is known of the session not counted.
    #[must_use]
    pub fn residue(&self) -> usize {
        let tables = self.streams.len() + self.fetches.len() + self.calls.len() + self.held.len();
        tables + self.inbox.len() + self.timers.len() + self.events.len()
    }

    /// Tools that are remembered.
    #[must_use]
    pub fn tools(&self) -> usize {
        self.tools.len()
    }
}
