//! The clocks of requests: those of ours, the deadlines of the peer's, and what of them travels (D16, D17, D49).

use core::{num::NonZeroU64, time::Duration};

use super::{
    call::CallOptions,
    config::Limit,
    incoming::{Incoming, Requests, Work},
    link::{Link, Timer, until},
    outgoing::{CallClocks, Calls},
};
use crate::{dialect::Dialect, slab::Key, timer_queue::NEVER};

impl Link {
    /// The clocks of a request of ours: those that its caller named, and else the defaults.
    pub(super) fn clocks_for(&self, method: &str, dialect: &Dialect, options: &CallOptions) -> CallClocks {
        let defaults = self.config.clocks.unwrap_or(dialect.clocks);
        let is_clocked = defaults.run_for(method);
        let limit = |limit: Limit, default: Option<Duration>| match limit {
            Limit::Default => default.filter(|_| is_clocked),
            Limit::Never => None,
            Limit::After(limit) => Some(limit),
        };
        let response = limit(options.response_timeout, defaults.response);
        let total = limit(options.total_timeout, defaults.total);
        let since = options.since.unwrap_or(self.now).min(self.now);
        let waited = self.now.since(since);
        CallClocks {
            response: response
                .map_or(NEVER, |limit| self.their_questions.reading(self.now) + limit.saturating_sub(waited)),
            limit: response.map(|limit| {
                let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                NonZeroU64::new(nanoseconds).unwrap_or(NonZeroU64::MIN)
            }),
            total: total.map_or(NEVER, |limit| since + limit),
        }
    }

    /// Returns the time that travels with a request of ours (D17): how long it can be waited for at most, progress or
    /// not, by its own clocks and by those of the `parent` that it serves.
    ///
    /// A question inherits nothing: while it is open the clocks of what it serves stand still, and it ends when that ends
    /// (D26, D49).
    pub(super) fn time_left(
        &self,
        clocks: &CallClocks,
        options: &CallOptions,
        parent: Option<&Incoming>,
        is_question: bool,
    ) -> Option<Duration> {
        let response =
            until(clocks.response, self.their_questions.reading(self.now)).filter(|_| !options.reset_on_progress);
        let total = until(clocks.total, self.now);
        let here = parent.and_then(|parent| parent.remaining(self.now, &self.our_questions));
        let elsewhere = options.deadline.map(|deadline| deadline.since(self.now));
        let inherited = here.into_iter().chain(elsewhere).filter(|_| !is_question);
        response.into_iter().chain(total).chain(inherited).min()
    }

    /// Arms the timer of a request of ours whose caller waits.
    pub(super) fn arm_call(&mut self, outgoing: &mut Calls, key: Key) {
        let waiting = outgoing.waiting;
        let Some(call) = outgoing.open(key) else { return };
        let due = call.due(&self.their_questions);
        self.timers.arm_by(&mut call.timer, due, Timer::Call(key));
        // While the peer has a question open, this clock is not due at all, and looked at again afterwards (D49).
        if call.clocks.response != NEVER && self.their_questions.is_held() {
            self.their_questions.park(key, waiting, |key| outgoing.get(key).is_some_and(|call| !call.is_settled()));
        }
    }

    /// Arms the timer of a request of the peer that has not been stopped. While we have a question open its requester's
    /// deadline is not due at all, and looked at again afterwards (D49).
    pub(super) fn arm_deadline(&mut self, incoming: &mut Requests, key: Key) {
        let Some(mut request) = incoming.get_mut(key) else { return };
        if request.stop.is_some() || request.work == Work::Ended {
            return;
        }
        let due = request.due(&self.our_questions);
        self.timers.arm_by(&mut request.timer, due, Timer::Request(key));
        if request.deadline != NEVER && self.our_questions.is_held() {
            self.our_questions.park(key, incoming.len(), |key| incoming.get(key).is_some());
        }
    }
}
