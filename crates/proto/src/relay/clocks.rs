//! Everything that becomes due: the clocks of requests (D16), the grace of a cancel (D34), and the bounds of tables.

use core::time::Duration;

use super::{
    ClockRule, Core, Relay, RelayEvent, StuckSign,
    exchange::{Exchange, RequestClocks, Running},
    step::Step,
    tally::count,
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::DefaultClocks,
    error_code, json,
    link::{Clock, RequestKey},
    side::Side,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// Everything that can become due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// A clock of a request (D16).
    Clock(RequestKey, Clock),
    /// The grace of a cancelled request (D34).
    Grace(RequestKey),
    /// What came late of a cancelled request's work may have been the last of it.
    Quiet(RequestKey),
    /// The oldest early cancel (D9).
    EarlyCancels(Side),
    /// The oldest tombstone (D8).
    Tombstones,
    /// A side that does not read (D13).
    Stalled(Side),
}

/// What a clock does whose timer has fired.
enum Fired {
    /// It was stopped, or progress had moved it: then it is armed again.
    Goes,
    /// It stands still (D49).
    Stands,
    /// It has run out, after so long.
    RanOut(Duration),
}

impl Relay {
    pub(super) fn timer_due(&mut self, now: Instant, timer: Timer) {
        match timer {
            Timer::Clock(request, clock) => self.clock_due(now, request, clock),
            Timer::Grace(request) => self.step(now, request, |step| step.grace_due()),
            Timer::Quiet(request) => self.step(now, request, |step| step.quiet_due()),
            Timer::EarlyCancels(side) => self.early_cancels_due(now, side),
            Timer::Tombstones => self.tombstones_due(now),
            Timer::Stalled(side) => {
                self.core.links[side].stalled = TimerKey::NOT;
                self.give_up(side);
            }
        }
    }

    fn clock_due(&mut self, now: Instant, request: RequestKey, clock: Clock) {
        match self.with(now, request, |step| step.clock_fired(clock)) {
            None | Some(Fired::Goes) => {}
            Some(Fired::Stands) => {
                let table = &self.tables[request.from];
                let is_live = |key| table.get(key).is_some_and(Exchange::is_live);
                self.core.asked[request.from].park(request.key, table.live(), is_live);
            }
            Some(Fired::RanOut(limit)) => {
                self.step(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Timeout)));
                self.step(now, request, |step| step.answer_timed_out(clock, limit));
            }
        }
    }

    /// A question to `side` is over: with the last, the response clocks of its requests go on.
    pub(super) fn question_over(&mut self, now: Instant, side: Side) {
        for key in self.core.asked[side].release(now) {
            self.step(now, RequestKey { from: side, key }, |step| step.rearm_response_clock());
        }
    }
}

impl Core {
    /// The clocks that settings give to this request; the most specific rule of each kind wins (D16).
    #[inline]
    pub(super) fn clocks_for(
        &self,
        now: Instant,
        from: Side,
        method: &str,
        name: Option<&[u8]>,
        defaults: &DefaultClocks,
    ) -> Option<Box<RequestClocks>> {
        if self.config.clocks.is_empty() {
            return None;
        }
        let name = name.and_then(json::text);
        let specificity = |rule: &ClockRule| match (&rule.method, &rule.name) {
            (Some(wanted), Some(tool)) if **wanted == *method && name.as_deref() == Some(&**tool) => Some(2),
            (Some(wanted), None) if **wanted == *method => Some(1),
            (None, None) if from == Side::Client && defaults.run_for(method) => Some(0),
            _ => None,
        };
        let pick = |clock: Clock, starts: Instant| {
            let rules = self.config.clocks.iter().filter(|rule| rule.clock == clock);
            // The first of equally specific rules: `max_by_key` would take the last.
            let best = rules.filter_map(|rule| Some((specificity(rule)?, rule.limit))).rev().max_by_key(|(s, _)| *s);
            best.map(|(_, limit)| Running { limit, until: starts + limit, armed: TimerKey::NOT })
        };
        let response = pick(Clock::Response, self.asked[from].reading(now));
        let total = pick(Clock::Total, now);
        (response.is_some() || total.is_some()).then(|| Box::new(RequestClocks { response, total }))
    }
}

impl Step<'_> {
    #[inline]
    pub(super) fn start_clocks(&mut self) {
        for (clock, running) in self.exchange.clocks.iter_mut().flat_map(|clocks| clocks.running()) {
            let timer = Timer::Clock(self.request, clock);
            running.armed = self.core.timers.arm(self.now + running.limit, timer);
        }
    }

    /// Stops the clocks of a request that has been answered or cancelled.
    #[inline]
    pub(super) fn stop_clocks(&mut self) {
        if let Some(mut clocks) = self.exchange.clocks.take() {
            clocks.running().for_each(|(_, running)| self.core.timers.disarm(running.armed));
        }
    }

    /// Moves the response clock; its timer notices when it fires.
    pub(super) fn reset_response_clock(&mut self) {
        let reading = self.core.asked[self.request.from].reading(self.now);
        if let Some(running) = self.exchange.clocks.as_deref_mut().and_then(|clocks| clocks.response.as_mut()) {
            running.until = reading + running.limit;
        }
    }

    fn clock_fired(&mut self, clock: Clock) -> Fired {
        let clocks = self.exchange.clocks.as_deref_mut();
        let Some(clock_of) = clocks.map(|clocks| clocks.get_mut(clock)) else { return Fired::Goes };
        let Some(running) = clock_of else { return Fired::Goes };
        let due = match clock {
            Clock::Response => self.core.asked[self.request.from].due(running.until),
            Clock::Total => running.until,
        };
        if due == NEVER {
            running.armed = TimerKey::NOT;
            return Fired::Stands;
        }
        if due > self.now {
            running.armed = self.core.timers.arm(due, Timer::Clock(self.request, clock));
            return Fired::Goes;
        }
        let limit = running.limit;
        *clock_of = None;
        count(&mut self.core.reports.tally.timeouts, clock.as_str());
        self.core.reports.emit(RelayEvent::TimedOut { request: self.request, clock, after: limit });
        Fired::RanOut(limit)
    }

    fn rearm_response_clock(&mut self) {
        let Some(running) = self.exchange.clocks.as_deref_mut().and_then(|clocks| clocks.response.as_mut()) else {
            return;
        };
        let due = self.core.asked[self.request.from].due(running.until);
        running.armed = self.core.timers.arm(due, Timer::Clock(self.request, Clock::Response));
    }

    fn answer_timed_out(&mut self, clock: Clock, limit: Duration) {
        let data = self.error_data(Some((clock, limit)));
        let names = self.core.config.setting_names;
        let text = match clock {
            Clock::Response => format!("no answer or progress for {limit:?} ({})", names.response_timeout),
            Clock::Total => format!("no answer within {limit:?} ({})", names.total_timeout),
        };
        self.answer_error(error_code::TIMED_OUT, &text, Some(&data));
        self.report_decided();
    }

    /// How long the other side may leave the cancelled request unanswered: a turn has a limit of its own (D34).
    pub(super) fn grace(&self) -> Duration {
        let grace = self.core.config.grace;
        self.upstream_turn().map_or(grace, |turn| turn.limit.max(grace))
    }

    /// Begins the grace of the cancel, after which its requester is answered all the same (D34).
    pub(super) fn start_grace(&mut self, grace: Duration) {
        let armed = self.core.timers.arm(self.now + grace, Timer::Grace(self.request));
        if let Some(cancel) = self.cancel() {
            cancel.grace = armed;
        }
    }

    /// Ends the grace: the other side has answered, or never will.
    pub(super) fn stop_grace(&mut self) {
        if let Some(cancel) = &mut self.exchange.cancel {
            self.core.timers.disarm(core::mem::replace(&mut cancel.grace, TimerKey::NOT));
        }
    }

    fn grace_due(&mut self) {
        // Silence shows nothing where silence is due.
        let owes = self.exchange.is_open_upstream() && !self.exchange.upstream_dialect.is_silent();
        let Some(cancel) = self.cancel() else { return };
        cancel.grace = TimerKey::NOT;
        if owes && !cancel.stuck {
            cancel.stuck = true;
            self.report_stuck(StuckSign::NoAnswer);
        }
        if self.exchange.is_waiting() {
            self.mute_turn();
            self.answer_cancelled();
        }
    }

    /// Notes that the other side still works on this request; past the grace of a cancel it is stuck.
    pub(super) fn note_alive(&mut self) {
        let (now, grace) = (self.now, self.grace());
        let Some(cancel) = self.cancel() else { return };
        if !cancel.stuck && cancel.receipt.written.is_some_and(|written| now.since(written) >= grace) {
            cancel.stuck = true;
            self.report_stuck(StuckSign::Progress);
        }
    }

    /// Notes that something late came of the work of a cancelled request: it goes on, until nothing has come for a grace.
    pub(super) fn note_work(&mut self) {
        let Some(cancel) = &mut self.exchange.cancel else { return };
        if !core::mem::replace(&mut cancel.works_on, true) {
            self.core.timers.arm(self.now + self.core.config.grace, Timer::Quiet(self.request));
        }
    }

    fn quiet_due(&mut self) {
        let last = self.exchange.rare.as_deref().map(|rare| rare.late.at).unwrap_or_default();
        let quiet = last + self.core.config.grace;
        if quiet > self.now {
            self.core.timers.arm(quiet, Timer::Quiet(self.request));
        } else if let Some(cancel) = self.cancel() {
            cancel.works_on = false;
            self.mark_changed();
        }
    }
}
