//! Children of ACP sessions, as a relay sees them: the news of them, and their cancels (D54).

use super::{
    Followup, Relay, Step,
    exchange::Up,
    link::{FrameState, Passed, Tag},
    threads::Threads,
};
use crate::{
    cause::{Cause, CauseCode},
    child::{ChildEnd, ChildState},
    children::{Child, ChildCancel, NewsTaken},
    dialect::{ChildNews, TurnForm},
    json,
    link::{ChildKey, RequestKey},
    message,
    receipt::{Answer, Outcome, Receipt},
    rule::Rule,
    side::Side,
    slab::Key,
    time::Instant,
};

/// A child at one moment, for display.
#[derive(Clone, Debug)]
pub struct ChildView<'a> {
    /// Names it.
    pub key: ChildKey,
    /// Its id as JSON, chosen by its agent: untrusted.
    pub session: &'a [u8],
    /// The id of its immediate parent's session, as JSON.
    pub parent_session: &'a [u8],
    /// Its parent: a child, or the prompt in flight of the parent's session.
    pub parent: Option<ChildParent>,
    /// The turn in the course of which its present work began, also once that is over. `None` where there was none, and after
    /// its session was loaded. Its [view](Relay::view) may be forgotten.
    pub opened_by: Option<RequestKey>,
    /// Its name for people: untrusted.
    pub title: Option<&'a str>,
    /// What is known of its work.
    pub state: ChildState,
    /// Whether it may be cancelled, as of now (ACP-33).
    pub can_cancel: bool,
    /// When its present work began, as far as that was seen; else when it was announced.
    pub since: Instant,
    /// When its state was last reported.
    pub reported: Instant,
    /// How many updates of its own session came.
    pub updates: u64,
    /// When the last of them came.
    pub updated: Instant,
    /// Who cancelled its work, and what is known of that. Where it could not be cancelled, the outcome is
    /// [`Outcome::NotSendable`] until its agent reports that the work is over.
    pub cancel: Option<&'a Receipt>,
}

/// What a child is shown under.
///
/// It never grows: a child's parent is a child itself, or the session that a prompt stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildParent {
    /// A child.
    Child(ChildKey),
    /// The prompt in flight of its session.
    Turn(RequestKey),
}

impl Relay {
    /// Takes in the news of a child in an update of the session `parent`. One whose work was cancelled counts as one that
    /// the client has stopped itself: its cards have their time (ACP-39).
    pub(super) fn handle_child_news(&mut self, now: Instant, turn: &TurnForm, parent: &[u8], params: Option<&[u8]>) {
        let is_shown = self.core.negotiation.shows_children(turn);
        if !is_shown && self.core.cards.len() == 0 {
            return;
        }
        let Some(news) = params.and_then(|params| turn.child_news(params)) else { return };
        if news.state == Some(ChildState::Idle(ChildEnd::Cancelled)) {
            self.let_close_cards(now, news.session);
        }
        if is_shown {
            self.take_child(now, parent, &news);
        }
    }

    pub(super) fn take_child(&mut self, now: Instant, parent: &[u8], news: &ChildNews<'_>) {
        let is_history = self.is_being_loaded(parent);
        match self.core.children.take(now, parent, news, is_history) {
            NewsTaken::Announced(key) => {
                if let (Some(gone), Some(changes)) = (self.core.children.take_gone(), &mut self.core.reports.changes) {
                    changes.note_child(ChildKey(gone));
                }
                let turn = self.cancelled_turn(key);
                let opened_by = self.opener(key).filter(|_| !is_history);
                self.change_child(key, |child| (child.turn, child.opened_by) = (turn, opened_by));
                self.mark_turn_of(now, key);
            }
            NewsTaken::Known(key, before) => {
                self.note_work(key, before);
                self.child_reported(now, key);
                self.mark_child(key);
                if before.is_open() {
                    self.mark_turn_of(now, key);
                    if self.core.children.get(key).is_some_and(|child| child.end().is_some()) {
                        self.core.reports.note_ended_child(ChildKey(key));
                    }
                }
            }
            NewsTaken::Unkept => {}
            NewsTaken::Malformed => self.core.report_violation(Side::Server, Rule::Acp32, None),
        }
    }

    /// Notes by what the work of a child was opened that begins anew, and whether it was cancelled that has ended; it was in
    /// this state `before`.
    fn note_work(&mut self, key: Key, before: ChildState) {
        let Some(child) = self.core.children.get(key) else { return };
        let is_cancelled = child.state == ChildState::Idle(ChildEnd::Cancelled);
        if before.is_open() && is_cancelled && (child.cancel.is_some() || child.turn.is_some()) {
            self.core.reports.note_stopped_child(ChildKey(key));
        }
        if !before.is_open() && child.state.is_open() {
            let opened_by = self.opener(key);
            self.change_child(key, |child| child.opened_by = opened_by);
        }
    }

    /// The turn in the course of which the work of this child begins now. The parent of a nested child works for its own.
    fn opener(&self, child: Key) -> Option<Key> {
        let member = self.core.children.member(child)?;
        match member.parent_key {
            Some(parent) => self.core.children.get(parent)?.opened_by,
            None => self.open_prompt(&member.parent).map(|turn| turn.key),
        }
    }

    /// Draws the conclusions from what was reported of a child: for its cancel, and for one that waits and must not be sent
    /// any more.
    fn child_reported(&mut self, now: Instant, key: Key) {
        let Some(child) = self.core.children.get(key) else { return };
        match child.end() {
            Some(end) => self.child_ended(now, key, end),
            None if child.can_cancel => {}
            None => self.refuse_child_cancel(key),
        }
    }

    /// The child's work is over: this is what came of its cancel (ACP-36).
    fn child_ended(&mut self, now: Instant, key: Key, end: ChildEnd) {
        self.withdraw_child_cancel(key);
        let Some(cancel) = self.core.children.get(key).and_then(|child| child.cancel.as_deref()) else { return };
        let after = now.since(cancel.receipt.asked);
        let outcome = match (cancel.receipt.outcome, end) {
            // Its parent's cancel may have reached it, too.
            (Outcome::Asked | Outcome::Sent | Outcome::NotSendable, ChildEnd::Cancelled) => {
                Outcome::Confirmed { after }
            }
            // It had not left, whoever sent it.
            (Outcome::Asked, _) => Outcome::CompletedFirst,
            (Outcome::Sent | Outcome::NotSendable, ChildEnd::Finished) => {
                Outcome::AnsweredAfter { after, answer: Answer::Result }
            }
            (Outcome::Sent | Outcome::NotSendable, ChildEnd::Failed) => {
                Outcome::AnsweredAfter { after, answer: Answer::Error }
            }
            _ => return,
        };
        self.child_learns(key, outcome);
    }

    /// An update of a child's own session came: it is alive.
    #[inline]
    pub(super) fn note_child_alive(&mut self, now: Instant, session: &[u8]) {
        if let Some(key) = self.core.children.find(session) {
            self.change_child(key, |child| {
                child.updates += 1;
                child.updated = now;
            });
        }
    }

    /// Cancels the work of a child, on behalf of the operator of this relay, if it may be cancelled; else the receipt
    /// is that it could not be. `false` if it is known not to work, or is cancelled already.
    ///
    /// No answer follows: only a report of its agent confirms it (ACP-36).
    pub fn stop_child(&mut self, now: Instant, child: ChildKey, reason: Option<&str>) -> bool {
        let is_new = self.cancel_child(now, child.0, Cause::by(CauseCode::Operator, reason));
        self.finish(now);
        is_new
    }

    fn cancel_child(&mut self, now: Instant, key: Key, cause: Cause) -> bool {
        let Some(child) = self.core.children.get(key) else { return false };
        let before = child.cancel.as_deref().map(|cancel| cancel.receipt.outcome);
        // One that could not be sent may be possible by now.
        let is_new = before.is_none() || before == Some(Outcome::NotSendable) && child.can_cancel;
        if !child.state.is_open() || !is_new {
            return false;
        }
        let can_cancel = child.can_cancel;
        let session = self.core.children.member(key).map(|member| member.name.clone()).unwrap_or_default();
        let turn = self.core.spoken(Side::Server).turn.filter(|_| can_cancel);
        let write_closed = self.core.links[Side::Server].write_closed;
        let outcome = match turn {
            _ if write_closed => Outcome::Unknown,
            Some(_) => Outcome::Asked,
            None => Outcome::NotSendable,
        };
        let frame = turn.filter(|_| outcome == Outcome::Asked).map(|turn| {
            let framing = self.core.framing;
            self.core.links[Side::Server].outbox.push_urgent(Tag::Child(key).into(), |out| {
                message::frame(framing, out, |out| {
                    message::notification(turn.cancel, out, |out| {
                        json::write_string(out, turn.session);
                        out.push(b':');
                        out.extend_from_slice(&session);
                    });
                });
            })
        });
        let root = cause.code;
        let receipt = Receipt { cause, asked: now, written: None, outcome };
        self.change_child(key, |child| child.cancel = Some(Box::new(ChildCancel { receipt, frame })));
        if frame.is_some() {
            self.close_cards(now, &session, root, |_| true);
        }
        true
    }

    /// The client cancels the work of a child itself: it passes as it is. `None` if this session is not a child.
    pub(super) fn handle_child_cancel(&mut self, now: Instant, session: &[u8]) -> Option<Passed> {
        let key = self.core.children.find(session)?;
        let child = self.core.children.get(key)?;
        let is_first = child.cancel.as_deref().is_none_or(|cancel| cancel.receipt.outcome == Outcome::NotSendable);
        let (is_open, can_cancel) = (child.state.is_open(), child.can_cancel);
        if !can_cancel {
            self.core.report_violation(Side::Client, Rule::Acp33, None);
        }
        if !is_open || !is_first {
            return Some(Passed::PLAIN);
        }
        let cause = Cause::new(CauseCode::Caller);
        let receipt = Receipt { cause, asked: now, written: None, outcome: Outcome::Asked };
        self.change_child(key, |child| child.cancel = Some(Box::new(ChildCancel { receipt, frame: None })));
        Some(Passed { tag: Tag::Child(key), ..Passed::PLAIN })
    }

    /// Whether a child was cancelled here, and the cause: then its cards are closed at once. A client that has cancelled it
    /// closes them itself.
    pub(super) fn child_stopped_here(&self, session: &[u8]) -> Option<CauseCode> {
        let child = self.core.children.find(session).and_then(|key| self.core.children.get(key))?;
        let receipt = &child.cancel.as_deref().filter(|_| child.state.is_open())?.receipt;
        let is_ours = receipt.cause.code == CauseCode::Operator && receipt.outcome != Outcome::NotSendable;
        is_ours.then_some(receipt.cause.code)
    }

    /// What has become of a cancel of a child. That of its earlier work, which could not be taken back, says nothing of ours
    /// that waits.
    pub(super) fn child_cancel_is(&mut self, now: Instant, key: Key, state: FrameState) {
        let ours = self.core.children.get(key).and_then(|child| child.cancel.as_deref()?.frame);
        if ours.is_some_and(|frame| self.core.links[Side::Server].outbox.holds(frame)) {
            return;
        }
        let is_asked =
            |child: &Child| child.cancel.as_deref().is_some_and(|cancel| cancel.receipt.outcome == Outcome::Asked);
        let was_asked = self.core.children.get(key).is_some_and(is_asked);
        self.change_child(key, |child| {
            if let Some(cancel) = &mut child.cancel {
                cancel.frame = None;
                if let FrameState::Handed | FrameState::Left = state {
                    cancel.receipt.written = Some(now);
                }
            }
        });
        if was_asked {
            self.child_learns(key, if let FrameState::Lost = state { Outcome::Unknown } else { Outcome::Sent });
        }
    }

    /// A session is to be loaded: what was known of its children, and of theirs, is void (ACP-44).
    pub(super) fn void_children(&mut self, now: Instant, session: &[u8]) {
        for key in self.core.children.below(session) {
            self.mark_turn_of(now, key);
            self.refuse_child_cancel(key);
            self.change_child(key, Child::void);
        }
    }

    /// A session was closed, and with it the work of its children and of theirs (ACP-42), in their background, too.
    pub(super) fn drop_children(&mut self, now: Instant, session: &[u8]) {
        for key in self.core.children.below(session).into_iter().rev() {
            let name = self.core.children.member(key).map(|child| child.name.clone());
            name.iter().for_each(|name| self.close_session_work(now, name));
            self.withdraw_child_cancel(key);
            self.mark_turn_of(now, key);
            self.mark_child(key);
            self.core.children.remove(key);
        }
    }

    /// The agent has gone away: nothing is known any more of what works (ACP-38).
    pub(super) fn lose_children(&mut self, now: Instant) {
        let open: Vec<Key> =
            self.core.children.iter().filter(|(_, child)| child.state.is_open()).map(|(key, _)| key).collect();
        for key in open {
            self.mark_turn_of(now, key);
            self.change_child(key, |child| {
                (child.state, child.can_cancel) = (ChildState::Unknown, false);
                if let Some(cancel) = &mut child.cancel
                    && cancel.receipt.outcome.is_cut_short(true)
                {
                    cancel.receipt.outcome = Outcome::Unknown;
                }
            });
        }
    }

    /// The child may not be cancelled any more: a cancel of ours that waits is taken back.
    fn refuse_child_cancel(&mut self, key: Key) {
        if self.withdraw_child_cancel(key) {
            self.child_learns(key, Outcome::NotSendable);
        }
    }

    /// Takes a cancel of ours back that waits; whether one did.
    fn withdraw_child_cancel(&mut self, key: Key) -> bool {
        let core = &mut self.core;
        let waiting = core.children.get_mut(key).and_then(|child| child.cancel.as_deref_mut()?.frame.take());
        waiting.is_some_and(|frame| core.links[Side::Server].outbox.withdraw(frame).is_some())
    }

    fn child_learns(&mut self, key: Key, outcome: Outcome) {
        self.change_child(key, |child| {
            if let Some(cancel) = &mut child.cancel {
                cancel.receipt.outcome = outcome;
            }
        });
    }

    fn change_child(&mut self, key: Key, change: impl FnOnce(&mut Child)) {
        if let Some(child) = self.core.children.get_mut(key) {
            change(child);
        }
        self.mark_child(key);
    }

    fn mark_child(&mut self, key: Key) {
        let core = &mut self.core;
        if let (Some(changes), Some(child)) = (&mut core.reports.changes, core.children.get_mut(key))
            && !core::mem::replace(&mut child.changed, true)
        {
            changes.note_child(ChildKey(key));
        }
    }

    /// The receipt of the cancelled turn in the course of which a child was at work counts that child.
    fn mark_turn_of(&mut self, now: Instant, key: Key) {
        if let Some(turn) = self.core.children.get(key).and_then(|child| child.turn) {
            self.step(now, RequestKey { from: Side::Client, key: turn }, |step| step.mark_changed());
        }
    }

    /// Whether what comes in a session is the history of one that is being loaded (ACP-44).
    fn is_being_loaded(&self, session: &[u8]) -> bool {
        let root = self.core.children.root(session);
        let is_load = |key| {
            let request = self.tables.client.get(key);
            request.is_some_and(|request| request.is_waiting() && self.core.is_load(request))
        };
        self.core.turns.of(&root).any(is_load)
    }

    /// The cancelled turn in the course of which a child is announced.
    fn cancelled_turn(&self, child: Key) -> Option<Key> {
        let child = self.core.children.member(child)?;
        let of_parent = child.parent_key.and_then(|parent| self.core.children.get(parent)?.turn);
        let prompt = || {
            self.open_prompt(&child.parent).filter(|turn| self.exchange(*turn).is_some_and(|of| of.cancel.is_some()))
        };
        of_parent.or_else(|| prompt().map(|turn| turn.key))
    }

    /// The turn of a session was cancelled: its receipt names the children that are at work now, and that of an earlier turn
    /// does not any more.
    pub(super) fn note_stopped_turn(&mut self, now: Instant, session: &[u8], turn: Key) {
        let of = |key| self.tables.client.get(key).filter(|turn| self.core.is_turn(turn)).map(|turn| turn.up);
        let is_at_work = |key| of(key).is_some_and(Up::may_be_answered);
        let has_other = || self.muted(session).is_some() || self.core.turns.of(session).any(is_at_work);
        if of(turn) == Some(Up::Never) && has_other() {
            // They are those of the turn that this one has waited for (D60).
            return;
        }
        for key in self.core.children.below(session) {
            if self.core.children.get(key).is_some_and(|child| child.state.is_open()) {
                self.mark_turn_of(now, key);
                self.change_child(key, |child| child.turn = Some(turn));
            }
        }
    }

    /// Every child that is kept, in no particular order: those that may be at work, and those that may be given work again.
    pub fn children(&self) -> impl Iterator<Item = ChildView<'_>> {
        self.core.children.iter().filter_map(|(key, _)| self.child(ChildKey(key)))
    }

    /// One child, if it is kept.
    #[must_use]
    pub fn child(&self, child: ChildKey) -> Option<ChildView<'_>> {
        let ChildKey(key) = child;
        let (member, child) = self.core.children.member(key).zip(self.core.children.get(key))?;
        let parent = member.parent_key.map(|parent| ChildParent::Child(ChildKey(parent)));
        Some(ChildView {
            key: ChildKey(key),
            session: &member.name,
            parent_session: &member.parent,
            parent: parent.or_else(|| self.open_prompt(&member.parent).map(ChildParent::Turn)),
            opened_by: child.opened_by.map(|key| RequestKey { from: Side::Client, key }),
            title: child.title.as_deref(),
            state: child.state,
            can_cancel: child.can_cancel,
            since: child.since,
            reported: child.reported,
            updates: child.updates,
            updated: child.updated,
            cancel: child.cancel.as_deref().map(|cancel| &cancel.receipt),
        })
    }

    /// The children below the session of a request, each after its parent; none unless it is a turn.
    #[must_use]
    pub fn children_of(&self, request: RequestKey) -> Vec<ChildKey> {
        let turn = self.exchange(request).filter(|of| request.from == Side::Client && self.core.is_turn(of));
        let session = turn.and_then(|turn| turn.session());
        let below = session.map(|session| self.core.children.below(session)).unwrap_or_default();
        below.into_iter().map(ChildKey).collect()
    }

    /// How often work was announced that had no room: a child, or a thread, turn or command of Codex (D58). Nothing is known
    /// of those, and none is cancelled.
    #[must_use]
    pub fn unkept_work(&self) -> u64 {
        self.core.children.unkept() + self.core.threads.as_deref().map_or(0, Threads::unkept)
    }
}

impl Step<'_> {
    /// The turn is being cancelled: its receipt names the children that are at work now.
    pub(super) fn note_children(&mut self) {
        if let Some(session) = self.exchange.session().filter(|_| self.is_turn()) {
            self.core.followups.push(Followup::TurnStopped(session.into(), self.request.key));
        }
    }
}
