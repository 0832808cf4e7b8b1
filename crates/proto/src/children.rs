//! Children of ACP sessions: sessions that an agent opened for parts of the work, by their id (D54).
//!
//! A child is kept from its announcement until its parent is closed, since it may be given work again.

use core::hash::{Hash, Hasher};

use crate::{
    cause::cut,
    child::{ChildEnd, ChildState, OpenChildren},
    dialect::ChildNews,
    family::{Family, MAX_MEMBERS, NotAdded, Work},
    outbox::Ticket,
    receipt::Receipt,
    slab::Key,
    time::Instant,
    turns::one_spelling,
};

/// Titles are cut at this many bytes.
const MAX_TITLE: usize = 256;

/// The most bytes that children hold: their entries, ids and titles, their cancels with a reason, and the index.
pub(crate) const MAX_HELD: usize = MAX_MEMBERS * (4 << 10);

/// The children of a link.
pub(crate) type Children = Family<Child>;

#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) title: Option<Box<str>>,
    pub(crate) state: ChildState,
    /// Whether it may be cancelled, as of now (ACP-33).
    pub(crate) can_cancel: bool,
    /// When its present work began, as far as it was seen; else when it was announced.
    pub(crate) since: Instant,
    /// When its state was last reported.
    pub(crate) reported: Instant,
    /// Updates of its own session, and when the last came.
    pub(crate) updates: u64,
    pub(crate) updated: Instant,
    /// The cancel of its present work.
    pub(crate) cancel: Option<Box<ChildCancel>>,
    /// The cancelled turn in the course of which it was at work: the receipt of that one names it.
    pub(crate) turn: Option<Key>,
    /// The turn in the course of which its present work began, which may be over, or forgotten.
    pub(crate) opened_by: Option<Key>,
    /// It waits among the changes for an observer.
    pub(crate) changed: bool,
}

/// A cancel of a child's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildCancel {
    pub(crate) receipt: Receipt,
    /// The cancel of ours in the outbox: it can be withdrawn until a byte of it has left.
    pub(crate) frame: Option<Ticket>,
}

/// What became of news of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewsTaken {
    /// It was announced.
    Announced(Key),
    /// It was known, and its state was this.
    Known(Key, ChildState),
    /// No room was left for it.
    Unkept,
    /// It cannot be a child of this parent: nothing of it counts (ACP-32).
    Malformed,
}

impl Children {
    /// Takes in news that came in the session `parent`. `is_history`: the session is being loaded, and nothing of it
    /// counts as of now (ACP-44).
    pub(crate) fn take(&mut self, now: Instant, parent: &[u8], news: &ChildNews<'_>, is_history: bool) -> NewsTaken {
        let taken = match self.find(news.session).and_then(|key| Some((key, self.member(key)?, self.get(key)?.state))) {
            Some((key, known, state)) if *known.parent == *one_spelling(parent) => NewsTaken::Known(key, state),
            Some(_) => NewsTaken::Malformed,
            None => match self.add(news.session, parent, Child::new(now, is_history)) {
                Ok(key) => NewsTaken::Announced(key),
                Err(NotAdded::Unkept) => NewsTaken::Unkept,
                Err(NotAdded::Circle) => NewsTaken::Malformed,
            },
        };
        if let NewsTaken::Announced(key) | NewsTaken::Known(key, _) = taken {
            if let Some(child) = self.get_mut(key) {
                child.patch(now, news, is_history);
            }
            self.settle(key);
        }
        taken
    }

    /// Those that were at work in the course of a cancelled turn, and may still be.
    pub(crate) fn of_turn(&self, turn: Key) -> OpenChildren {
        let open = self.iter().filter(|(_, child)| child.turn == Some(turn) && child.state.is_open());
        open.fold(OpenChildren::default(), |OpenChildren { open, unseen }, (_, child)| OpenChildren {
            open: open + 1,
            unseen: unseen + usize::from(child.state.is_unseen()),
        })
    }

    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.unkept().hash(state);
        for (key, member) in self.members() {
            let Some(child) = self.get(key) else { continue };
            (key.index(), &member.name, &member.parent, child.state, child.can_cancel).hash(state);
            child.turn.map(Key::index).hash(state);
            if let Some(cancel) = child.cancel.as_deref() {
                let Receipt { cause, written, outcome, .. } = &cancel.receipt;
                (cause.code, written.is_some(), core::mem::discriminant(outcome), cancel.frame.is_some()).hash(state);
            }
        }
    }
}

impl Work for Child {
    fn is_idle(&self) -> bool {
        !self.state.is_open()
    }

    fn held(&self) -> usize {
        let cancel = self
            .cancel
            .as_deref()
            .map_or(0, |cancel| size_of::<ChildCancel>() + cancel.receipt.cause.text().map_or(0, str::len));
        self.title.as_deref().map_or(0, str::len) + cancel
    }
}

impl Child {
    /// One that was announced just now, of which nothing is known.
    const fn new(now: Instant, is_history: bool) -> Self {
        Self {
            title: None,
            state: if is_history { ChildState::History } else { ChildState::Unconfirmed },
            can_cancel: false,
            since: now,
            reported: now,
            updates: 0,
            updated: now,
            cancel: None,
            turn: None,
            opened_by: None,
            changed: false,
        }
    }

    fn patch(&mut self, now: Instant, news: &ChildNews<'_>, is_history: bool) {
        if let Some(title) = &news.title {
            self.title = title.as_deref().map(|title| cut(title, MAX_TITLE).into());
        }
        if is_history {
            return self.void();
        }
        self.can_cancel = news.can_cancel.unwrap_or(self.can_cancel);
        if let Some(state) = news.state {
            if state.is_open() && !self.state.is_open() {
                // Other work than that which was cancelled.
                (self.since, self.cancel, self.turn, self.opened_by) = (now, None, None, None);
            }
            (self.state, self.reported) = (state, now);
        }
    }

    /// Takes away what was known of it: the session was loaded (ACP-44).
    pub(crate) fn void(&mut self) {
        self.can_cancel = false;
        self.state = match self.state {
            ChildState::Running | ChildState::Unknown | ChildState::Unconfirmed => ChildState::Unconfirmed,
            ChildState::Idle(_) | ChildState::History => ChildState::History,
        };
    }

    /// How its work ended, if it has.
    pub(crate) const fn end(&self) -> Option<ChildEnd> {
        match self.state {
            ChildState::Idle(end) => Some(end),
            ChildState::Running | ChildState::Unknown | ChildState::Unconfirmed | ChildState::History => None,
        }
    }
}
