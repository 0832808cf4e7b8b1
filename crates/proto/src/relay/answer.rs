//! The other side's answers: which request one answers, what it says about a cancel, and whether it goes on.

use super::{
    Followup, Relay, Step,
    exchange::Up,
    link::{Part, Passed, Tag},
};
use crate::{
    error_code,
    frame::{Response, ResponseBody, ResponseId},
    id::RequestId,
    link::{Implementation, RequestKey},
    receipt::{Answer, Outcome},
    side::Side,
    time::Instant,
};

impl Relay {
    pub(super) fn handle_response(&mut self, now: Instant, from: Side, response: &Response<'_>) -> Option<Passed> {
        if !response.body.is_readable() {
            self.handle_bad_error(now, from, response);
            return None;
        }
        let Some((request, exact)) = self.find_answered(from.other(), response.id.as_ref()) else {
            if self.core.restart.is_some() && self.is_answer_of_restart(from, response) {
                return None;
            }
            if self.core.welcome.is_some() && self.is_answer_of_welcome(now, from, response) {
                return None;
            }
            self.core.handle_stray(from, response);
            return None;
        };
        let is_opener = self.core.welcome.as_ref().is_some_and(|early| early.is_opener(request));
        let renamed = self.with(now, request, |step| step.answered(!exact, &response.body));
        if is_opener {
            self.server_arrived(now, &response.body);
        }
        let renamed = renamed??;
        let splice = renamed.map(|id| (response.id_span.clone(), id));
        // What a server asks before it answers the handshake must be answered, or it never does.
        let urgent = self.core.links[from.other()].gated;
        Some(Passed { splice, tag: Tag::Of(request, Part::Answer), urgent })
    }

    /// The request of `origin` that a response answers, and whether its id matches exactly (D10).
    pub(super) fn find_answered(&self, origin: Side, id: Option<&ResponseId>) -> Option<(RequestKey, bool)> {
        let table = &self.tables[origin];
        let name = |key| RequestKey { from: origin, key };
        let value = match id? {
            ResponseId::Exact(id) => match table.by_upstream(id) {
                Some(key) => return Some((name(key), true)),
                None => id.loose()?,
            },
            ResponseId::Loose(value) => *value,
        };
        let (integer, string) = (RequestId::integer(value), RequestId::string(&value.to_string()));
        // It could be the answer of one that was given up and forgotten: then it answers none.
        if table.has_spent(&integer) || table.has_spent(&string) {
            return None;
        }
        let open = |id| table.by_upstream(id).filter(|key| table.get(*key).is_some_and(|ex| ex.up.may_be_answered()));
        open(&integer).xor(open(&string)).map(|key| (name(key), false))
    }
}

impl Step<'_> {
    /// Takes in the other side's answer. `None` if it is swallowed; else the requester's id, where the answer has to be
    /// given that.
    pub(super) fn answered(&mut self, loosely: bool, body: &ResponseBody<'_>) -> Option<Option<RequestId>> {
        if self.exchange.task().is_some() && self.note_about_task(body) {
            return None;
        }
        if !self.exchange.is_theirs() && self.ends_own_cancel_of_item(body) {
            return None;
        }
        if !self.exchange.up.may_be_answered() {
            self.report_late(self.exchange.upstream().clone(), Answer::from(body).into());
            return None;
        }
        self.exchange.up = Up::Answered;
        self.exchange.answer = Some(body.into());
        match body {
            ResponseBody::Result(result) if self.exchange.is_handshake() => {
                self.core.negotiation.saw_initialize_result(result);
                self.core.implementations.server = Implementation::of(result);
            }
            ResponseBody::Result(_) => self.note_closed(),
            ResponseBody::Error(_) => {
                self.exchange.rare().code = body.error_code();
                if self
                    .exchange
                    .dialect
                    .turn
                    .and_then(|turn| turn.work)
                    .is_some_and(|work| body.error_code() == Some(work.no_session))
                {
                    self.note_closed();
                }
            }
        }
        if self.core.limits.is_some() {
            self.answered_for_limits(body);
        }
        if self.core.restart.is_some() {
            self.answered_for_restart(body);
        }
        if self.core.welcome.is_some() {
            self.answered_for_next_start(body);
        }
        let is_cancelled = self.exchange.cancel.is_some();
        let is_handle = self.note_task(body);
        if is_cancelled {
            match is_handle {
                // What becomes of the task shows more.
                true => self.disarm_cancel(),
                false => self.learn_from_answer(body),
            }
            self.stop_grace();
            self.note_turn_ended();
        }
        self.stop_clocks();
        self.note_prompt_answered(body);
        if self.exchange.is_waiting() {
            self.withdraw_progress();
            let is_known_otherwise = loosely || self.exchange.renamed.is_some();
            return Some(is_known_otherwise.then(|| self.exchange.id.clone()));
        }
        // Its client was answered before.
        if self.core.welcome.as_ref().is_some_and(|early| early.is_opener(self.request)) {
            return None;
        }
        if is_cancelled {
            self.core.followups.push(Followup::Orphaned(self.request));
        }
        // It goes no further (MCP-C08, D34, D36). Reported after what has become of a task.
        self.core.followups.push(Followup::Late(self.request, Answer::from(body)));
        None
    }

    /// The request was answered with a result, or its session is not known: with a session that it closed its work and its
    /// children are gone (ACP-42, ACP-57).
    #[inline]
    fn note_closed(&mut self) {
        if let Some(session) = self.exchange.session()
            && self.exchange.dialect.turn.is_some_and(|turn| turn.close == self.method())
        {
            self.core.followups.push(Followup::SessionClosed(session.into()));
        }
    }

    /// Notes what the answer says about the cancel (D28).
    fn learn_from_answer(&mut self, body: &ResponseBody<'_>) {
        let was_sent = self.exchange.cancel.as_ref().is_some_and(|it| it.receipt.outcome == Outcome::Sent);
        if was_sent && error_code::lets_go(body.error_code()) {
            return;
        }
        let says_cancelled = self.exchange.upstream_dialect.says_cancelled(self.method(), body);
        self.learn_from_end(body.into(), says_cancelled);
    }

    /// Notes what the end of the request's work shows about the cancel (D28, D58).
    pub(super) fn learn_from_end(&mut self, answer: Answer, says_cancelled: bool) {
        let now = self.now;
        self.disarm_cancel();
        let Some(cancel) = &mut self.exchange.cancel else { return };
        let Some(outcome) = cancel.receipt.answered(now, answer, says_cancelled) else { return };
        if let Outcome::Confirmed { after } | Outcome::AnsweredAfter { after, .. } = outcome {
            self.core.reports.tally.cancel_to_answer.record(after);
        }
        self.learn(outcome);
    }

    /// An answer that came before the cancel was written disarms it (D15).
    fn disarm_cancel(&mut self) {
        let to = self.request.from.other();
        if let Some(cancel) = &mut self.exchange.cancel
            && let Some(frame) = cancel.frame
            && self.core.links[to].outbox.withdraw(frame).is_some()
        {
            cancel.frame = None;
        }
    }
}

/// Whether a response names this request of ours, perhaps carelessly (D10).
pub(super) fn is_loosely(named: Option<&ResponseId>, own: &RequestId) -> bool {
    match named {
        Some(ResponseId::Exact(id)) => id == own || id.loose().is_some() && id.loose() == own.loose(),
        Some(ResponseId::Loose(value)) => own.loose() == Some(*value),
        None => false,
    }
}
