//! A monitor on each link of a relay, told only what passes there: does it see what the relay knows?
//!
//! What both can know must agree at every moment: what is in flight for whom, which requests have reached the other
//! side, what became of each cancel that was written, and what came late.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use rescind_proto::{
    id::RequestId,
    link::{Rejected, RequestKey, Verdict},
    monitor::{self, Monitor, ObservedRequest},
    receipt::{Outcome, Receipt},
    relay::{self, Hop, Relay, RelayEvent, RequestState},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    scene::Scene,
    text,
    world::{Broken, never},
};

/// Both monitors, and what the relay has told.
#[derive(Clone, Debug)]
pub struct Witness {
    /// By the side of the relay.
    links: Sides<Monitor>,
    asks: BTreeMap<RequestKey, Asked>,
    /// Requests of each side that the other has not seen, by the ids that they will have there.
    awaited: Sides<VecDeque<(String, RequestKey)>>,
    ended: Sides<bool>,
    /// When duplicates came whose refusals have not been written.
    refused: Sides<VecDeque<Instant>>,
    /// The monitor itself could not tell whose an answer was; or a refusal was written when nothing was remembered of
    /// what it refuses, and so could be an answer.
    in_doubt: Sides<bool>,
    /// What each side's last cancel named, if the monitor remembers no such request.
    held: Sides<Option<RequestId>>,
    /// Which side has half a frame.
    is_cut: Sides<bool>,
    /// The monitor took the last frame of each side for a new request.
    is_new: Sides<bool>,
    longest: Duration,
}

/// One request that the relay has taken in.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// What the monitor of the other link calls it.
    far: Option<RequestKey>,
    receipt: Option<Receipt>,
}

/// What else is true of a world when it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Which side can no longer be written to.
    pub write_closed: Sides<bool>,
    /// Which side has gone away, as the relay was told and no wire shows.
    pub away: Sides<bool>,
    /// Which side has half a frame.
    pub cut: Sides<bool>,
}

impl Witness {
    /// Both monitors before anything has happened.
    pub fn new(scene: &Scene) -> Self {
        let config = |side| monitor::MonitorConfig {
            dialect: Some(scene.dialects[side]),
            max_in_flight: scene.config.max_in_flight,
            // What is remembered decides what a later cancel of the same id names.
            remembered: scene.config.remembered,
            remember: scene.config.remember,
            early_cancels: scene.config.early_cancels[side],
            ..monitor::MonitorConfig::default()
        };
        Self {
            links: Sides::from_fn(|side| Monitor::new(config(side))),
            asks: BTreeMap::new(),
            awaited: Sides::from_fn(|_| VecDeque::new()),
            ended: Sides::default(),
            refused: Sides::from_fn(|_| VecDeque::new()),
            in_doubt: Sides::default(),
            held: Sides::default(),
            is_cut: Sides::default(),
            is_new: Sides::default(),
            longest: scene.config.remember.1,
        }
    }

    /// The relay, which is tapped, has told this.
    pub fn see(&mut self, now: Instant, event: &RelayEvent) {
        match event {
            RelayEvent::Frame { hop, bytes } => {
                let (link, from) = match *hop {
                    Hop::From(side) => (side, side),
                    Hop::To(side) => (side, side.other()),
                };
                let refuses = from != link && text::member(&String::from_utf8_lossy(bytes), "code") == Some("-32600");
                if let Some(came) = refuses.then(|| self.refused[link].pop_front()).flatten() {
                    self.in_doubt[link] |= now.since(came) >= self.longest;
                }
                self.links[link].handle_input(now, from, bytes);
                if from == link {
                    self.is_new[link] = false;
                }
                while let Some(event) = self.links[link].poll_event() {
                    if let monitor::MonitorEvent::Opened { request, .. } = event
                        && request.from != link
                    {
                        self.reached(link, request);
                    } else if let monitor::MonitorEvent::Opened { .. } = event {
                        self.is_new[link] = true;
                    } else if let monitor::MonitorEvent::Settled {
                        request,
                        how: monitor::ObservedEnd::Answered(answered),
                        ..
                    } = event
                    {
                        self.in_doubt[request.from] |= answered.doubtful;
                    } else if let monitor::MonitorEvent::Cancel(seen) = event
                        && seen.from == link
                    {
                        self.held[link] = seen.id.filter(|_| seen.verdict == Verdict::Held);
                    }
                }
            }
            RelayEvent::Opened { request, upstream, .. } => {
                self.asks.insert(*request, Asked::default());
                self.awaited[request.from].push_back((upstream.to_string(), *request));
            }
            RelayEvent::Receipt { request, receipt, .. } => {
                self.asks.entry(*request).or_default().receipt = Some(receipt.clone());
            }
            // Its answer lay half written until the monitor had forgotten it: there the next of that id is cancelled (D9).
            RelayEvent::Cancel(cancel) if matches!(cancel.verdict, Verdict::Completed | Verdict::Repeated) => {
                let held = self.held[cancel.from].take();
                self.in_doubt[cancel.from] |= held.is_some() && held == cancel.id;
            }
            RelayEvent::Rejected { from, why: Rejected::DuplicateId, .. } => {
                self.refused[*from].push_back(now);
                // The answer to the one before, which its client has cancelled, lies half written: to the monitor that one
                // is over (D7), and what comes is for the new one.
                self.in_doubt[*from] |= self.is_new[*from] && self.is_cut[*from];
            }
            RelayEvent::PartOf { .. }
            | RelayEvent::Settled { .. }
            | RelayEvent::Cancel(_)
            | RelayEvent::Task { .. }
            | RelayEvent::Silenced { .. }
            | RelayEvent::TimedOut { .. }
            | RelayEvent::Stuck { .. }
            | RelayEvent::Late { .. }
            | RelayEvent::Rejected { .. }
            | RelayEvent::Violation { .. }
            | RelayEvent::GivenUp { .. } => {}
        }
    }

    /// Some of what waits for `side` was written, and it has half a frame now, or none.
    pub fn written(&mut self, side: Side, is_cut: bool) {
        self.is_cut[side] = is_cut;
    }

    /// `side` sends nothing more.
    pub fn end(&mut self, now: Instant, side: Side) {
        self.ended[side] = true;
        self.links[side].handle_eof(now, side);
    }

    fn reached(&mut self, link: Side, request: RequestKey) {
        let Some(view) = self.links[link].request(request) else { return };
        let id = view.id.to_string();
        let awaited = &mut self.awaited[request.from];
        let Some(place) = awaited.iter().rposition(|(upstream, _)| *upstream == id) else { return };
        if let Some((_, key)) = awaited.remove(place)
            && let Some(asked) = self.asks.get_mut(&key)
        {
            asked.far = Some(request);
        }
    }

    /// Whether both see the same.
    ///
    /// # Errors
    ///
    /// What one sees and the other does not.
    pub fn check(&self, relay: &Relay, circumstances: Circumstances) -> Result<(), Broken> {
        let Circumstances { write_closed, away, cut } = circumstances;
        for side in Side::BOTH {
            self.links[side].check_invariants();
            if !write_closed.client && !write_closed.server && !away[side] && !cut[side] && !self.in_doubt[side] {
                self.check_in_flight(relay, side)?;
            }
            if !write_closed[side.other()] {
                self.check_reached(relay, side)?;
            }
        }
        for (key, asked) in &self.asks {
            let link = key.from.other();
            // What the relay has forgotten it cannot tell.
            if let Some(view) = asked.far.and_then(|far| self.links[link].request(far))
                && let Some(known) = relay.view(*key)
                && !write_closed[link]
            {
                self.check_cancel(*key, asked, &view)?;
                self.check_late(&known, &view)?;
            }
        }
        Ok(())
    }

    /// On the link of its requester: the same requests are in flight.
    fn check_in_flight(&self, relay: &Relay, side: Side) -> Result<(), Broken> {
        // A task at work is no request on the link.
        let known = relay.requests(side).filter(|view| view.at_work.is_none());
        let mut known: Vec<_> = known.map(|view| view.id.to_string()).collect();
        let mut seen: Vec<_> = self.links[side].requests(side).map(|view| view.id.to_string()).collect();
        known.sort_unstable();
        seen.sort_unstable();
        never(known != seen, || {
            format!("in flight for the {}: the relay knows {known:?}, its monitor {seen:?}", side.as_str())
        })
    }

    /// On the other link: what the relay waits for is in flight, and nothing else is.
    fn check_reached(&self, relay: &Relay, side: Side) -> Result<(), Broken> {
        let link = &self.links[side.other()];
        let is_sent = |view: &relay::RequestView<'_>| view.state == RequestState::Sent && view.at_work.is_none();
        for view in relay.requests(side).filter(is_sent) {
            let far = self.asks.get(&view.key).and_then(|asked| asked.far).and_then(|far| link.request(far));
            never(far.is_none_or(|far| far.over.is_some()) && !self.ended[side.other()], || {
                format!("{} waits to be answered, and its monitor sees no such request", view.id)
            })?;
        }
        for (key, asked) in self.asks.iter().filter(|(key, _)| key.from == side) {
            let Some(far) = asked.far.and_then(|far| link.request(far)).filter(|far| far.over.is_none()) else {
                continue;
            };
            let Some(view) = relay.view(*key) else { continue };
            never(view.ended.is_some() && view.cancel.is_none(), || {
                format!("{} is over for the relay and in flight for its monitor", far.id)
            })?;
        }
        Ok(())
    }

    /// A cancel that the relay has written is one that the monitor has seen then, and both have learnt the same.
    fn check_cancel(&self, key: RequestKey, asked: &Asked, view: &ObservedRequest<'_>) -> Result<(), Broken> {
        let written = asked.receipt.as_ref().filter(|receipt| receipt.written.is_some());
        let differ = |why: &str| {
            let (known, seen) = (&asked.receipt, view.cancel);
            Err(Broken(format!("the cancel of {} {why}: the relay knows {known:?}, its monitor {seen:?}", view.id)))
        };
        match (written, view.cancel) {
            (None, None) => Ok(()),
            // What became of its task shows more, and no notification names that.
            (Some(_), _) if view.is_task => Ok(()),
            // The client's own cancel of a turn passes, whatever the relay has made of an earlier one (D37).
            (None, Some(_)) if view.session.is_some() => Ok(()),
            (None, Some(_)) => differ("was never written"),
            // It had begun to leave when the answer came: on the wire it names a request that is over, or a task.
            (Some(known), None) if known.outcome == Outcome::CompletedFirst => Ok(()),
            (Some(_), None) => differ("was not seen"),
            (Some(known), Some(seen)) if known.written != seen.written && view.session.is_none() => {
                differ("was written at another time")
            }
            (Some(known), Some(seen)) => {
                let is_alike = match (known.outcome, seen.outcome) {
                    (Outcome::AnsweredAfter { answer, .. }, Outcome::AnsweredAfter { answer: other, .. }) => {
                        answer == other
                    }
                    (known, seen) => core::mem::discriminant(&known) == core::mem::discriminant(&seen),
                };
                // That a client has ended tells the relay nothing, while its link shows that nothing more can come.
                let knows_more = known.outcome == Outcome::Sent
                    && (seen.outcome == Outcome::Unknown && self.ended[key.from.other()]);
                if is_alike || knows_more { Ok(()) } else { differ("has two outcomes") }
            }
        }
    }

    /// Where neither side wants an answer to what was cancelled, whatever comes for it is late for both.
    fn check_late(&self, known: &relay::RequestView<'_>, view: &ObservedRequest<'_>) -> Result<(), Broken> {
        let silent = Side::BOTH.into_iter().all(|side| self.links[side].dialect().is_silent());
        let cancelled = matches!(view.over, Some((_, monitor::ObservedEnd::Silent))) && known.ended.is_some();
        let (known, seen) = (known.late.map_or(0, |late| late.answers), view.late.answers);
        never(silent && cancelled && known != seen, || {
            format!("late answers for {}: the relay counts {known}, its monitor {seen}", view.id)
        })
    }
}
