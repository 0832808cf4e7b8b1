//! Children of ACP sessions, as far as the link shows them (D54): what the agent reported last, as far as that may still be
//! believed.

use super::Monitor;
use crate::{
    child::ChildState,
    children::Child,
    dialect::TurnForm,
    link::{ChildKey, RequestKey},
    side::Side,
    slab::Key,
    time::Instant,
};

/// A child of a link, at one moment.
#[derive(Clone, Debug)]
pub struct ObservedChild<'a> {
    /// Names it.
    pub key: ChildKey,
    /// Its id as JSON, chosen by its agent: untrusted.
    pub session: &'a [u8],
    /// The id of its immediate parent's session, as JSON.
    pub parent_session: &'a [u8],
    /// Its parent, where that is a child, too.
    pub parent: Option<ChildKey>,
    /// The prompt in flight of its parent's session.
    pub turn: Option<RequestKey>,
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
}

impl Monitor {
    /// Every child that is kept, in no particular order, at most 1,024: those that may be at work, and those that may be
    /// given work again.
    pub fn children(&self) -> impl Iterator<Item = ObservedChild<'_>> {
        self.children.members().filter_map(|(key, member)| {
            let child = self.children.get(key)?;
            Some(ObservedChild {
                key: ChildKey(key),
                session: &member.name,
                parent_session: &member.parent,
                parent: member.parent_key.map(ChildKey),
                turn: self.open_turn(Some(&member.parent)),
                title: child.title.as_deref(),
                state: child.state,
                can_cancel: child.can_cancel,
                since: child.since,
                reported: child.reported,
                updates: child.updates,
                updated: child.updated,
            })
        })
    }

    /// How often a child was announced that had no room.
    #[must_use]
    pub const fn unkept_children(&self) -> u64 {
        self.children.unkept()
    }

    /// Takes in an update of a session: news of a child, or a sign of life of one.
    pub(super) fn note_child_update(&mut self, now: Instant, turn: &TurnForm, session: &[u8], params: Option<&[u8]>) {
        if !self.negotiation.shows_children(turn) {
            return;
        }
        if let Some(news) = params.and_then(|params| turn.child_news(params)) {
            let is_history = self.is_being_loaded(session);
            // What cannot be a child changes nothing: a relay reports it (ACP-32).
            self.children.take(now, session, &news, is_history);
        }
        if let Some(child) = self.children.find(session).and_then(|key| self.children.get_mut(key)) {
            child.updates += 1;
            child.updated = now;
        }
    }

    /// Whether what comes in a session is the history of one that is being loaded (ACP-44).
    fn is_being_loaded(&self, session: &[u8]) -> bool {
        let requests = &self.requests[Side::Client];
        let is_load = |key: Key| requests.table.get(key).is_some_and(|request| !request.is_turn);
        requests.turns.of(&self.children.root(session)).any(is_load)
    }

    /// A session is to be loaded: what was known of its children, and of theirs, is void (ACP-44).
    pub(super) fn void_children(&mut self, session: &[u8]) {
        for key in self.children.below(session) {
            self.children.get_mut(key).into_iter().for_each(Child::void);
        }
    }

    /// A session was closed, and with it the work of its children and of theirs (ACP-42).
    pub(super) fn drop_children(&mut self, session: &[u8]) {
        for key in self.children.below(session).into_iter().rev() {
            self.children.remove(key);
        }
    }

    /// The agent has gone away: nothing is known any more of what works (ACP-38).
    pub(super) fn lose_children(&mut self) {
        for child in self.children.iter_mut().filter(|child| child.state.is_open()) {
            (child.state, child.can_cancel) = (ChildState::Unknown, false);
        }
    }
}
