//! The turns of ACP sessions (D37, ACP-08).
//!
//! A turn is one request, `session/prompt`. It is cancelled by a notification of its own that names the session, never by
//! both; and the side that writes that notification owes an answer, "cancelled", to every card of the session, those
//! included that cross it on the way. A card is a permission request or an elicitation.

use super::{
    Connection, Settlement,
    incoming::{IncomingMut, ResponseState, Stop},
    outgoing::Outgoing,
    part::Part,
    stop::By,
};
use crate::{
    cause::{Cause, CauseCode},
    child::{ChildEnd, ChildState},
    dialect::TurnForm,
    json,
    link::Verdict,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::NEVER,
    turns::one_spelling,
};

/// The name under which [`Turns`](crate::turns::Turns) find the requests that play a part in a session: the part, and the
/// one spelling of the session's id, which is given as JSON.
pub(super) fn name(part: Part, session: &[u8]) -> Vec<u8> {
    let mut name = vec![part as u8];
    name.extend_from_slice(&one_spelling(session));
    name
}

impl Connection {
    /// Cancels the turn of a session (its id as JSON) as if the client had sent the notification for it:
    /// for methods that end a session (ACP-10). Its background work is stopped with it (ACP-57).
    pub fn stop_turn(&mut self, now: Instant, session: &[u8]) {
        self.step(now, |this| this.link.role() == Side::Server && this.end_turn(session, true));
    }

    /// The requests that play a part in a session, oldest first.
    pub(super) fn requests_of(&self, part: Part, session: &[u8]) -> Vec<Key> {
        self.turns.of(&name(part, session)).collect()
    }

    /// Receives the client's cancel of a turn.
    pub(super) fn receive_turn_cancel(&mut self, session: Option<&[u8]>) {
        if self.link.role() == Side::Client {
            return;
        }
        self.link.counters.cancels_received += 1;
        let verdict = match session {
            None => Verdict::Malformed,
            Some(session) if self.end_turn(session, false) => return,
            Some(_) => Verdict::Unknown,
        };
        self.report_cancel(CauseCode::Caller, None, None, None, verdict);
    }

    /// Cancels the prompts of a session and the work that they have begun, and what we asked the client for them; of a
    /// session that is closed also its background work. `false` if there is nothing to cancel.
    pub(super) fn end_turn(&mut self, session: &[u8], is_closed: bool) -> bool {
        let prompts = self.requests_of(Part::Prompt, session);
        for key in &prompts {
            self.stop_and_report(*key, CauseCode::Caller, By::Peer);
        }
        let has_work = self.stop_session(session, is_closed);
        for key in self.requests_of(Part::Card, session) {
            if is_closed || !self.is_of_background(key) {
                self.cancel_call(key, Cause::parent(CauseCode::Caller), None);
            }
        }
        has_work || !prompts.is_empty()
    }

    /// Answers the agent's pending cards of a session whose turn we have cancelled "cancelled", each in its method's own
    /// words, and stops their handlers (ACP-08, ACP-39).
    pub(super) fn cancel_cards(&mut self, session: &[u8], root: CauseCode) {
        let is_unanswered = |request: &IncomingMut<'_>| request.response == ResponseState::Nothing;
        for key in self.requests_of(Part::Card, session) {
            let Some(mut request) = self.incoming.get_mut(key).filter(is_unanswered) else { continue };
            let cause = Cause::parent(root);
            if request.runs() {
                let stop = Stop { cause: cause.clone(), asked: self.link.now, by_peer: false, is_refused: true };
                request.stop.get_or_insert_with(|| Box::new(stop)).by_peer = true;
                self.link.answer_cancelled(&mut request);
                self.stop_request(key, cause, By::Us);
            } else {
                // The agent learns the same as from its own cancel: the method's own result.
                self.stop_request(key, cause, By::Peer);
            }
        }
    }

    /// Answers a card at once that crossed our cancel of its turn: the turn is over. `false` if it is not.
    pub(super) fn stop_if_turn_is_over(&mut self, key: Key, session: &[u8]) -> bool {
        // There the agent says itself which cards are over (ACP-53).
        if self.link.dialect().turn.is_none_or(|turn| turn.cards.is_none()) {
            return false;
        }
        let mut root = None;
        for prompt in self.requests_of(Part::Prompt, session) {
            let Some(cancel) = self.outgoing.get(prompt).and_then(|call| call.cancel.as_ref()) else { return false };
            root = Some(cancel.receipt.cause.code);
        }
        let Some(root) = root else { return false };
        self.stop_request(key, Cause::parent(root), By::Peer);
        true
    }

    /// Receives an update of a session. A child whose work was cancelled counts as one that we have cancelled ourselves:
    /// its cards are answered (ACP-39).
    pub(super) fn receive_update(&mut self, turn: &TurnForm, params: Option<&[u8]>) {
        if self.link.role() == Side::Client
            && self.link.their_questions.is_held()
            && let Some(child) = params.and_then(|params| turn.child_news(params))
            && child.state == Some(ChildState::Idle(ChildEnd::Cancelled))
        {
            self.cancel_cards(child.session, CauseCode::Caller);
        }
    }

    /// Cancels a turn whose caller writes its cancel by hand. Its request waits on for the answer; of one that was not sent
    /// nothing is, and the notification of one that is in flight counts as its cancel.
    ///
    /// `true` if nothing more is to be written.
    pub(super) fn notify_turn_cancel(&mut self, method: &str, params: &[u8]) -> bool {
        let Some(turn) = self.link.dialect().turn.filter(|turn| turn.cancel == method) else { return false };
        let Some(session) = json::member(params, turn.session) else { return false };
        if self.link.role() == Side::Server {
            return false;
        }
        let is_pending = |call: &Outgoing| !call.is_settled() && call.cancel.is_none();
        let mut prompts = [Part::Foreground, Part::Prompt].into_iter().flat_map(|part| self.requests_of(part, session));
        let pending = prompts.find(|key| self.outgoing.get(*key).is_some_and(is_pending));
        // An agent that reports its work by itself may never say that it is over (D34).
        let wait = if turn.work.is_some() { self.link.now + turn.limit } else { NEVER };
        let is_written = pending.is_some_and(|key| {
            let cause = Cause::new(CauseCode::Caller);
            let is_ended = self.end_call_with(key, cause.clone(), Settlement::Cancelled(cause), Some(wait), true);
            // Of a prompt that was taken back nothing is written, and other work of the session may go on.
            let is_sent = || self.outgoing.get(key).is_some();
            is_ended && (turn.work.is_none() || is_sent() || !self.at_work.may_have(session))
        });
        if turn.cards.is_some() {
            self.cancel_cards(session, CauseCode::Caller);
        }
        is_written
    }
}
