//! For those who check the machine: its invariants, and what it holds.

use std::collections::BTreeSet;

use rescind_parts::timer_queue::TimerKey;

use super::{
    HttpClient,
    errand::{CallState, Errand, OneWayKind, Role, Stage},
    errands::{Backlog, Errands, Timer},
    fetch::{Aim, Fetch, Phase, Reader},
};

impl HttpClient {
    /// Panics if the tables contradict each other.
    ///
    /// Costs time in proportion to everything that is held.
    pub fn check_invariants(&self) {
        self.errands.check();
        for (id, errand) in &self.errands.calls {
            let in_flight = self.errands.get(*errand).and_then(|errand| {
                let waiting = &errand.waiting[errand.position(id)?];
                (waiting.state == CallState::InFlight).then_some(())
            });
            assert!(in_flight.is_some() || self.inbox.answers(id), "{id} waits for nothing");
        }
        let is_gated = self.session.is_gated();
        assert!(is_gated || self.errands.held.is_empty(), "something is held although it could be sent");
    }

    /// How many entries all tables hold, tools and what is known of the session not counted.
    #[must_use]
    pub fn residue(&self) -> usize {
        let Errands { calls, held, timers, events, .. } = &self.errands;
        self.errands.iter().count() + calls.len() + held.len() + timers.len() + events.len() + self.inbox.len()
    }

    /// Tools that are remembered.
    #[must_use]
    pub fn tools(&self) -> usize {
        self.tools.len()
    }
}

impl Errands {
    fn check(&self) {
        let (mut backlog, mut timers) = (Backlog::default(), BTreeSet::new());
        let (mut handed, mut queued) = ([0; 4], 0);
        let mut note = |timer: TimerKey, of| timers.extend(timer.is_armed().then_some((timer.at, of)));
        for (key, errand) in self.iter() {
            backlog += Backlog::of(errand);
            note(errand.timer, Timer::Errand(key));
            assert_eq!(self.held.contains(&key), matches!(errand.stage, Stage::Held), "held, or not, and not known");
            match &errand.stage {
                Stage::Held => {}
                Stage::Away => assert!(errand.timer.is_armed(), "an errand waits for nothing"),
                Stage::Surveying(survey, _) => {
                    let survey = self.get(*survey).expect("a survey exists");
                    assert!(matches!(survey.role, Role::Survey { call, .. } if call == key));
                }
                Stage::Carried(fetch) => {
                    note(fetch.timer, Timer::Fetch(fetch.key(key)));
                    handed[fetch.queue as usize] += usize::from(fetch.is_handed());
                    let is_queued = self.queues.contains(fetch.queue, fetch.key(key));
                    queued += usize::from(is_queued);
                    assert_eq!(is_queued, fetch.phase == Phase::Queued, "queued, or not, and not known");
                    // A person has all the time that it takes.
                    let may_wait = matches!(fetch.phase, Phase::Queued | Phase::SigningIn) || fetch.timer.is_armed();
                    assert!(may_wait || errand.has_stream(), "a message may wait for ever");
                    let is_needed = !matches!(fetch.reader, Reader::Refusal(_) | Reader::Ignored { .. });
                    assert!(is_needed || fetch.timer.is_armed(), "what nobody needs may be read for ever");
                    if let Some(OneWayKind::Cancel { has_left, .. }) = errand.one_way().map(|one_way| &one_way.kind) {
                        assert!(*has_left || !fetch.is_written(), "a cancel is out, which was not reported");
                    }
                }
            }
            if errand.role == Role::Calls {
                self.check_calls(errand);
                let is_kept = errand.is_waited_for() || errand.timer.is_armed();
                assert!(is_kept, "an errand that nobody waits for is kept for ever");
            }
        }
        assert_eq!(self.queues.handed(), handed, "what the driver has is counted wrongly");
        assert_eq!(self.queues.waiting(), queued, "a fetch is queued that is not there");
        assert_eq!(self.backlog, backlog, "what the server has not taken is counted wrongly");
        assert_eq!(self.timers.iter().collect::<BTreeSet<_>>(), timers, "timers are not those of the errands");
    }

    fn check_calls(&self, errand: &Errand) {
        for waiting in &errand.waiting {
            let is_out = errand.is_out() || matches!(errand.fetch(), Some(Fetch { aim: Aim::Probe(_), .. }));
            assert!(waiting.has_left || !is_out, "{} is out, which was not reported", waiting.id);
            match waiting.state {
                CallState::InFlight => {
                    let known = self.calls.get(&waiting.id).and_then(|key| self.get(*key));
                    let is_known = known.is_some_and(|known| core::ptr::eq(known, errand));
                    assert!(is_known, "{} is in flight nowhere", waiting.id);
                }
                CallState::Cancelled { cancel, .. } => {
                    assert!(waiting.has_left, "{} was to be taken back, and its cancel is sent", waiting.id);
                    let is_carried = cancel.is_none_or(|cancel| self.get(cancel).is_some_and(|it| !it.has_stream()));
                    assert!(is_carried, "the cancel of {} is carried by nothing", waiting.id);
                }
                CallState::Answered { .. } => {
                    assert!(waiting.has_left, "{} is answered, and was not reported as out", waiting.id);
                }
            }
        }
    }
}
