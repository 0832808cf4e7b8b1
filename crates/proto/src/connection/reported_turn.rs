//! Our prompts to an agent that answers them when it has inserted them (ACP v2, D55).
//!
//! To its caller a prompt is the work that it begins: it ends when its agent reports that the session does not work any
//! more, and not with its answer. The answer of a prompt and the first report of its work come in either order. What is
//! not reported does not end anything.

use super::{Connection, Settlement, outgoing::Reported, part::Part, turn};
use crate::{
    cause::{Cause, CauseCode},
    child::{ChildEnd, ChildState},
    dialect::{StateNews, TurnForm},
    json,
    receipt::{Answer, Outcome},
    side::Side,
    slab::Key,
};

/// The longest update that is kept of work that was over before its prompt was answered.
const MAX_KEPT: usize = 16 * 1024;

impl Connection {
    /// Receives a report of the work of a session (ACP-50).
    pub(super) fn receive_state(&mut self, turn: &TurnForm, session: Option<&[u8]>, params: Option<&[u8]>) {
        let news = params.and_then(|params| turn.state_news(params));
        let Some((session, news)) = session.zip(news).filter(|_| self.link.role() == Side::Client) else { return };
        match news.state {
            ChildState::Idle(end) => self.end_reported(turn, session, &news, end),
            // No other word means that nothing works.
            ChildState::Running | ChildState::Unknown | ChildState::Unconfirmed | ChildState::History => {
                self.begin_reported(session);
            }
        }
    }

    fn begin_reported(&mut self, session: &[u8]) {
        let is_news = self.at_work.begin(session);
        let inserted = self.requests_of(Part::Foreground, session);
        // It may begin before its prompt is answered.
        let first = || {
            let may_begin = |key: &Key| {
                let has_left = self.outgoing.get(*key).is_some_and(|call| self.link.has_left(call));
                has_left && !matches!(self.reported(*key), Some(Reported::Over(..)))
            };
            self.turns.of(&turn::name(Part::Prompt, session)).find(may_begin)
        };
        let early = if is_news && inserted.is_empty() { first() } else { None };
        for key in inserted.into_iter().chain(early) {
            self.note_reported(key, Reported::Begun);
        }
    }

    fn end_reported(&mut self, turn: &TurnForm, session: &[u8], news: &StateNews<'_>, end: ChildEnd) {
        self.at_work.end(session);
        let inserted = self.requests_of(Part::Foreground, session);
        for key in self.requests_of(Part::Prompt, session) {
            if self.reported(key) == Some(&Reported::Begun) {
                let is_its_own = inserted.is_empty();
                // An update may be as long as any message, and prompts may wait for long.
                let kept = if news.update.len() <= MAX_KEPT { news.update } else { b"{}" };
                let reported = if is_its_own { Reported::Over(kept.into(), end) } else { Reported::Nothing };
                self.note_reported(key, reported);
            }
        }
        for key in inserted {
            // The same report again is no new end.
            if self.reported(key) == Some(&Reported::Begun) {
                self.end_foreground(key, turn, news.update, end);
            }
        }
        let nothing_else = || {
            let listed = turn.work.and_then(|form| json::elements(json::member(news.update, form.background)?));
            listed.is_some_and(|mut listed| listed.next().is_none())
        };
        // Its agent withdraws each card of the work that was cancelled (ACP-53). Where nothing else works all are of that.
        if end == ChildEnd::Cancelled && nothing_else() {
            self.cancel_cards(session, CauseCode::Caller);
        }
    }

    fn reported(&self, key: Key) -> Option<&Reported> {
        Some(&self.outgoing.get(key)?.rare.as_ref()?.reported)
    }

    fn note_reported(&mut self, key: Key, reported: Reported) {
        if let Some(call) = self.outgoing.get_mut(key) {
            call.rare.get_or_insert_default().reported = reported;
        }
    }

    /// Takes in that one of our prompts was inserted: it is the foreground work of its session from now on. `false` if an
    /// answer ends it.
    pub(super) fn note_inserted(&mut self, key: Key) -> bool {
        let Self { outgoing, turns, link, at_work, .. } = self;
        let Some(call) = outgoing.get_mut(key).filter(|call| call.part == Part::Prompt) else { return false };
        let Some((turn, _)) = call.dialect.session_work() else { return false };
        let Some(session) = call.session().map(<[u8]>::to_vec) else { return false };
        // The cancel of the message alone has come too late: it goes on with the other work of its session.
        if call.is_settled() && !call.is_cancelled_with_session {
            return false;
        }
        turns.remove(&turn::name(Part::Prompt, &session), key);
        call.part = Part::Foreground;
        turns.insert(&turn::name(Part::Foreground, &session), key);
        link.arm_call(outgoing, key);
        let reported = self.outgoing.get_mut(key).and_then(|call| call.rare.as_mut()).map(|rare| &mut rare.reported);
        let Some(reported) = reported else { return true };
        match core::mem::take(reported) {
            Reported::Over(update, end) => self.end_foreground(key, turn, &update, end),
            Reported::Nothing | Reported::Begun if at_work.may_have(&session) => *reported = Reported::Begun,
            Reported::Nothing | Reported::Begun => {}
        }
        true
    }

    /// Ends one of our prompts: its work is over, as this update reports.
    fn end_foreground(&mut self, key: Key, turn: &TurnForm, update: &[u8], end: ChildEnd) {
        let Self { outgoing, link, .. } = self;
        let Some(call) = outgoing.get_mut(key) else { return };
        let answer = if end == ChildEnd::Failed { Answer::Error } else { Answer::Result };
        let is_cancelled = end == ChildEnd::Cancelled;
        let outcome = call.cancel.as_ref().and_then(|it| it.receipt.answered(link.now, answer, is_cancelled));
        if let Some(outcome) = outcome {
            link.learn(key, call, outcome);
        }
        if !call.is_settled() {
            let error = json::member(update, turn.child.error).filter(|error| error.starts_with(b"{"));
            let how = match (end, error) {
                (ChildEnd::Failed, Some(error)) => Settlement::PeerError(error.into()),
                (ChildEnd::Failed | ChildEnd::Cancelled | ChildEnd::Finished, _) => Settlement::Result(update.into()),
            };
            self.settle_call(key, how);
        }
        self.remove_call(key);
    }

    /// Ends our prompts of a session that its agent has closed: nothing more will be reported of it (ACP-57).
    pub(super) fn end_closed_session(&mut self, session: &[u8]) {
        self.at_work.end(session);
        for key in self.requests_of(Part::Foreground, session) {
            let Self { outgoing, link, .. } = self;
            let Some(call) = outgoing.get_mut(key) else { continue };
            if call.outcome().is_some_and(|outcome| !outcome.is_final()) {
                link.learn(key, call, Outcome::Unknown);
            }
            if !call.is_settled() {
                self.settle_call(key, Settlement::Cancelled(Cause::parent(CauseCode::Caller)));
            }
            self.remove_call(key);
        }
    }

    /// Whether a cancel of this prompt of ours is that of its session (ACP-51): not beside other work, as long as it was not
    /// inserted itself.
    pub(super) fn is_cancelled_with_session(&self, key: Key) -> bool {
        let Some(call) = self.outgoing.get(key) else { return false };
        let Some(session) = call.session() else { return false };
        match call.part {
            Part::Foreground => true,
            Part::Prompt if call.dialect.session_work().is_none() => true,
            Part::Prompt => {
                let others = [Part::Prompt, Part::Foreground].map(|part| self.requests_of(part, session));
                let is_other =
                    |other: &Key| *other != key && self.outgoing.get(*other).is_some_and(|it| !it.is_settled());
                let is_at_work = self.at_work.may_have(session) && self.reported(key) != Some(&Reported::Begun);
                !is_at_work && !others.iter().flatten().any(is_other)
            }
            Part::Plain | Part::Handshake | Part::Background | Part::Close | Part::Card | Part::Subscription => false,
        }
    }
}
