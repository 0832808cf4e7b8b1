//! Everything that becomes due: the clocks of requests (D16), the grace of a cancel (D34), and the bounds of tables.

use core::time::Duration;

use super::{
    ClockRule, Core, Relay, RelayEvent, Step, StuckSign, Timer,
    exchange::{Exchange, RequestClocks, Running},
    tally::count,
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::DefaultClocks,
    error_code, json,
    link::{Clock, RequestKey},
    side::Side,
    time::Instant,
    timer_queue::TimerKey,
};

impl Relay {
    /// Does what is due by `now`, as [`poll_timeout`](Self::poll_timeout) said; calling earlier is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.core.timers.pop_due(now) {
            match timer {
                Timer::Clocks(request) => self.clocks_due(now, request),
                Timer::Grace(request) => self.step(now, request, |step| step.grace_due()),
                Timer::Card(request) => self.step(now, request, |step| step.card_due()),
                Timer::Held(request) => self.held_due(now, request),
                Timer::Quiet(request) => self.step(now, request, |step| step.quiet_due()),
                Timer::Greeting => self.greeting_is_due(),
                Timer::StillStarting => self.still_starting(now),
                Timer::AskAgain(request) => self.step(now, request, |step| step.look_due()),
                Timer::EarlyCancels(side) => self.early_cancels_due(now, side),
                Timer::Tombstones => {
                    self.tombstones_due = TimerKey::NOT;
                    Side::BOTH.into_iter().for_each(|side| self.forget(now, side));
                }
                Timer::Stalled(side) => {
                    self.core.links[side].stalled = TimerKey::NOT;
                    self.give_up(side);
                }
            }
        }
        if let Some(bridge) = &mut self.bridge {
            bridge.handle_timeout(now);
        }
        self.finish(now);
    }

    fn clocks_due(&mut self, now: Instant, request: RequestKey) {
        let (table, questions) = (&self.tables[request.from], &mut self.core.questions[request.from]);
        if questions.is_held() {
            // Looked at again when the response clock goes on (D49).
            questions.park(request.key, table.live(), |key| table.get(key).is_some_and(Exchange::is_live));
        }
        let ran_out = self.with(now, request, |step| step.clock_ran_out());
        if let Some((clock, limit)) = ran_out.flatten() {
            self.step(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Timeout)));
            // The answer shows what has become of it.
            self.cross(now);
            self.step(now, request, |step| step.answer_timed_out(clock, limit));
        }
    }

    /// A question to `side` is over: with the last, the response clocks of its requests go on.
    pub(super) fn question_over(&mut self, now: Instant, side: Side) {
        for key in self.core.questions[side].release(now) {
            self.step(now, RequestKey { from: side, key }, |step| step.arm_clocks());
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
            best.map(|(_, limit)| Running { limit, until: starts + limit })
        };
        let response = pick(Clock::Response, self.questions[from].reading(now));
        let total = pick(Clock::Total, now);
        (response.is_some() || total.is_some())
            .then(|| Box::new(RequestClocks { response, total, timer: TimerKey::NOT }))
    }
}

impl Step<'_> {
    #[inline]
    pub(super) fn start_clocks(&mut self) {
        if let Some(clocks) = &mut self.exchange.clocks {
            let limits = [clocks.response, clocks.total].into_iter().flatten().map(|running| running.limit);
            let first = limits.min().unwrap_or(Duration::MAX);
            clocks.timer = self.core.timers.arm(self.now + first, Timer::Clocks(self.request));
        }
    }

    /// Stops the clocks of a request that has been answered, and the time of a card.
    #[inline]
    pub(super) fn stop_clocks(&mut self) {
        self.stop_limits();
        if let Some(rare) = self.exchange.rare.as_deref_mut() {
            self.core.timers.stop(&mut rare.card);
        }
    }

    /// Stops the clocks of a request that has been cancelled: it has a grace now. The time of a card runs on.
    pub(super) fn stop_limits(&mut self) {
        if let Some(clocks) = self.exchange.clocks.take() {
            self.core.timers.disarm(clocks.timer);
        }
    }

    /// Moves the response clock; its timer notices when it fires.
    pub(super) fn reset_response_clock(&mut self) {
        let reading = self.core.questions[self.request.from].reading(self.now);
        if let Some(running) = self.exchange.clocks.as_deref_mut().and_then(|clocks| clocks.response.as_mut()) {
            running.until = reading + running.limit;
        }
    }

    /// The timer of the clocks has fired: the one that has run out, if any has, and its limit.
    fn clock_ran_out(&mut self) -> Option<(Clock, Duration)> {
        let clocks = self.exchange.clocks.as_deref_mut()?;
        clocks.timer = TimerKey::NOT;
        let (due, clock, limit) = clocks.first(&self.core.questions[self.request.from])?;
        if due > self.now {
            self.arm_clocks();
            return None;
        }
        count(&mut self.core.reports.tally.timeouts, clock.as_str());
        let (request, id, method) = self.named();
        self.core.reports.emit(RelayEvent::TimedOut { request, id, method, clock, after: limit });
        Some((clock, limit))
    }

    /// Arms the timer for the clock that runs out first, unless that is never, or the timer fires before.
    fn arm_clocks(&mut self) {
        if let Some(clocks) = &mut self.exchange.clocks
            && let Some((due, ..)) = clocks.first(&self.core.questions[self.request.from])
        {
            self.core.timers.arm_by(&mut clocks.timer, due, Timer::Clocks(self.request));
        }
    }

    fn answer_timed_out(&mut self, clock: Clock, limit: Duration) {
        self.learn_for_limits(true);
        let data = self.error_data(Some((clock, limit)));
        let names = self.core.config.setting_names;
        let text = match clock {
            Clock::Response => format!("no answer or progress for {limit:?} ({})", names.response_timeout),
            Clock::Total => format!("no answer within {limit:?} ({})", names.total_timeout),
        };
        self.mute_turn();
        self.answer_error(error_code::TIMED_OUT, &text, Some(&data));
        self.report_decided();
    }

    /// How long the other side may leave the cancelled request unanswered: a turn has a limit of its own (D34), and a setting
    /// for the method may shorten it (D61).
    pub(super) fn grace(&self) -> Duration {
        let grace = self.core.config.grace;
        let threads = self.exchange.upstream_dialect.threads.filter(|_| self.exchange.is_work());
        let limit = self.upstream_turn().map(|turn| turn.limit).or_else(|| threads.map(|threads| threads.limit));
        let grace = limit.map_or(grace, |limit| limit.max(grace));
        let own = self.core.config.graces.iter().find(|own| *own.method == *self.method());
        own.map_or(grace, |own| own.grace.min(grace))
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
            self.core.timers.stop(&mut cancel.grace);
        }
    }

    fn grace_due(&mut self) {
        // Silence shows nothing where silence is due.
        let is_task = self.exchange.task_work().is_some();
        let owes = self.exchange.is_open_upstream() && (is_task || !self.exchange.upstream_dialect.is_silent());
        let Some(cancel) = self.cancel() else { return };
        cancel.grace = TimerKey::NOT;
        if is_task && self.task_grace_due() {
            return;
        }
        let Some(cancel) = self.cancel() else { return };
        if owes && !cancel.stuck {
            cancel.stuck = true;
            self.report_stuck(StuckSign::NoAnswer);
        }
        // Work that goes on stays in view: no requester waits for an answer (D58).
        if self.exchange.is_waiting() && !self.exchange.is_work() {
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
            self.note_ended();
        }
    }
}
