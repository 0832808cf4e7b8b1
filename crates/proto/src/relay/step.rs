//! A step on one request, and the one door to it.
//!
//! [`Relay::with`] looks a request up and hands a step both the request and everything that it may touch beside it. A
//! request that is forgotten has no steps. What a step cannot do, since it concerns other requests, it leaves as a
//! [`Followup`]: that is done as soon as the step returns, before anything else.

use super::{
    Core, Relay,
    exchange::{Cancelling, Exchange},
};
use crate::{
    cause::CauseCode,
    dialect::TurnForm,
    link::RequestKey,
    receipt::{Answer, Outcome},
    side::Side,
    table::Rings,
    time::Instant,
};

/// A request, and what a step on it may touch.
pub(super) struct Step<'a> {
    pub(super) now: Instant,
    pub(super) request: RequestKey,
    pub(super) exchange: &'a mut Exchange,
    pub(super) rings: &'a mut Rings,
    /// It settled the request: others may have to be forgotten for it.
    pub(super) has_settled: bool,
    pub(super) core: &'a mut Core,
}

/// What a step leaves to be done with other requests.
#[derive(Clone, Debug)]
pub(super) enum Followup {
    /// A question to this side is over: with the last, the response clocks of its requests go on.
    QuestionOver(Side),
    /// We cancelled the turn of this session: its permission requests end with it.
    TurnCancelled(Box<[u8]>, &'static TurnForm, CauseCode),
    /// The handle that answered this request reaches nobody.
    Orphaned(RequestKey),
    /// This is what came of our request to cancel a task, which that request became.
    TaskCancelled(RequestKey, Box<[u8]>, Outcome),
    /// This answer came for a request that is over.
    Late(RequestKey, Answer),
}

impl Relay {
    /// Takes a step on a request; `None` if it is forgotten.
    #[inline]
    pub(super) fn with<T>(
        &mut self,
        now: Instant,
        request: RequestKey,
        step: impl FnOnce(&mut Step<'_>) -> T,
    ) -> Option<T> {
        let (exchange, rings) = self.tables[request.from].entry_mut(request.key)?;
        let mut step_taken = Step { now, request, exchange, rings, has_settled: false, core: &mut self.core };
        let done = step(&mut step_taken);
        if step_taken.has_settled {
            self.prune(now, request.from);
        }
        if !self.core.followups.is_empty() {
            self.follow_up(now);
        }
        Some(done)
    }

    /// Takes a step on a request, where it does not matter whether it is forgotten.
    #[inline]
    pub(super) fn step(&mut self, now: Instant, request: RequestKey, step: impl FnOnce(&mut Step<'_>)) {
        self.with(now, request, step);
    }

    #[cold]
    fn follow_up(&mut self, now: Instant) {
        let mut followups = core::mem::take(&mut self.core.followups);
        for followup in followups.drain(..) {
            match followup {
                Followup::QuestionOver(side) => self.question_over(now, side),
                Followup::TurnCancelled(session, turn, root) => self.close_permissions(now, turn, &session, root),
                Followup::Orphaned(request) => self.cancel_orphan(now, request),
                Followup::TaskCancelled(request, task, outcome) => self.report_orphan(request, &task, outcome),
                Followup::Late(request, answer) => self.step(now, request, |step| {
                    step.report_late(step.exchange.upstream().clone(), answer.into());
                }),
            }
        }
        // Its room is kept.
        self.core.followups = followups;
    }

    pub(super) fn exchange(&self, request: RequestKey) -> Option<&Exchange> {
        self.tables[request.from].get(request.key)
    }
}

impl Step<'_> {
    /// The cancel of the request, if there is one.
    pub(super) fn cancel(&mut self) -> Option<&mut Cancelling> {
        self.exchange.cancel.as_deref_mut()
    }

    /// The request's method.
    pub(super) fn method(&self) -> &str {
        self.core.methods.name(self.exchange.method)
    }

    /// How a turn is cancelled upstream, if the request is one (D37).
    pub(super) fn upstream_turn(&self) -> Option<&'static TurnForm> {
        self.exchange.upstream_dialect.turn.filter(|turn| self.method() == turn.prompt)
    }

    /// Whether the request is a turn to its requester.
    pub(super) fn is_turn(&self) -> bool {
        self.exchange.dialect.turn.is_some_and(|turn| self.method() == turn.prompt)
    }

    pub(super) fn follow_with(&mut self, followup: Followup) {
        self.core.followups.push(followup);
    }
}
