//! Children of ACP sessions: sessions that an agent opened for parts of the work, by their id (D54).
//!
//! A child is kept from its announcement until its parent is closed, since it may be given work again. Past the bound the
//! one that has been idle longest gives way, and where none is idle the new one is not kept, which is counted.

use core::hash::{Hash, Hasher};
use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
};

use hashbrown::HashTable;

use crate::{
    cause::cut,
    child::{ChildEnd, ChildState, OpenChildren},
    dialect::ChildNews,
    hash::Seed,
    outbox::Ticket,
    receipt::Receipt,
    slab::{Key, Slab},
    time::Instant,
    turns::one_spelling,
};

/// Children that are kept at most.
pub(crate) const MAX_CHILDREN: usize = 1024;

/// The longest ids that are kept, in bytes.
const MAX_ID: usize = 512;

/// Titles are cut at this many bytes.
const MAX_TITLE: usize = 256;

/// The most bytes that children hold: their entries, ids and titles, their cancels with a reason, and the index.
pub(crate) const MAX_HELD: usize = MAX_CHILDREN * (4 << 10);

#[derive(Clone, Debug)]
pub(crate) struct Children {
    entries: Slab<Child>,
    /// By id, with its hash.
    names: HashTable<(u64, Key)>,
    /// Those whose work is over, and some that have work again, the one that has been there longest first.
    spare: VecDeque<Key>,
    seed: Seed,
    /// How many were announced, kept or not: a parent has a lower number than its children.
    announced: u64,
    /// Announcements of children that were not kept.
    unkept: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Child {
    /// Its id as JSON, in its one spelling.
    pub(crate) session: Box<[u8]>,
    /// That of its immediate parent.
    pub(crate) parent: Box<[u8]>,
    /// Its parent, where that is a child, too.
    pub(crate) parent_key: Option<Key>,
    /// Children of its own that are kept.
    children: u32,
    number: u64,
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
    is_spare: bool,
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
    pub(crate) const fn new(seed: Seed) -> Self {
        Self { entries: Slab::new(), names: HashTable::new(), spare: VecDeque::new(), seed, announced: 0, unkept: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Announcements of children that were not kept.
    pub(crate) const fn unkept(&self) -> u64 {
        self.unkept
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Child> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Child> {
        self.entries.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Child)> {
        self.entries.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.entries.iter_mut()
    }

    /// The child of this id, as JSON.
    pub(crate) fn find(&self, session: &[u8]) -> Option<Key> {
        if self.is_empty() {
            return None;
        }
        let session = &*one_spelling(session);
        let hash = self.seed.hash(session);
        let is = |(_, key): &&(u64, Key)| self.entries.get(*key).is_some_and(|child| *child.session == *session);
        self.names.find(hash, |known| is(&known)).map(|(_, key)| *key)
    }

    /// Takes in news that came in the session `parent`. `is_history`: the session is being loaded, and nothing of it
    /// counts as of now (ACP-44).
    pub(crate) fn take(&mut self, now: Instant, parent: &[u8], news: &ChildNews<'_>, is_history: bool) -> NewsTaken {
        let (session, parent) = (&*one_spelling(news.session), &*one_spelling(parent));
        let known = self.find(session);
        let taken = match known {
            Some(key) if self.entries.get(key).is_some_and(|child| *child.parent == *parent) => {
                let state = self.entries.get(key).map_or(ChildState::Unknown, |child| child.state);
                NewsTaken::Known(key, state)
            }
            Some(_) => NewsTaken::Malformed,
            None => self.announce(now, session, parent, is_history),
        };
        if let NewsTaken::Announced(key) | NewsTaken::Known(key, _) = taken {
            self.patch(now, key, news, is_history);
        }
        taken
    }

    fn announce(&mut self, now: Instant, session: &[u8], parent: &[u8], is_history: bool) -> NewsTaken {
        let parent_key = self.find(parent);
        if self.is_above(session, parent) {
            return NewsTaken::Malformed;
        }
        if session.len().max(parent.len()) > MAX_ID || !self.make_room(parent_key) {
            self.unkept += 1;
            return NewsTaken::Unkept;
        }
        if let Some(parent) = parent_key.and_then(|key| self.entries.get_mut(key)) {
            parent.children += 1;
        }
        self.announced += 1;
        let key = self.entries.insert(Child {
            session: session.into(),
            parent: parent.into(),
            parent_key,
            children: 0,
            number: self.announced,
            title: None,
            state: if is_history { ChildState::History } else { ChildState::Unconfirmed },
            can_cancel: false,
            since: now,
            reported: now,
            updates: 0,
            updated: now,
            cancel: None,
            turn: None,
            is_spare: false,
            changed: false,
        });
        let hash = self.seed.hash(session);
        self.names.insert_unique(hash, (hash, key), |(hash, _)| *hash);
        NewsTaken::Announced(key)
    }

    fn patch(&mut self, now: Instant, key: Key, news: &ChildNews<'_>, is_history: bool) {
        let Some(child) = self.entries.get_mut(key) else { return };
        if let Some(title) = &news.title {
            child.title = title.as_deref().map(|title| cut(title, MAX_TITLE).into());
        }
        if is_history {
            child.void();
        } else {
            child.can_cancel = news.can_cancel.unwrap_or(child.can_cancel);
            if let Some(state) = news.state {
                let begins = state.is_open() && !child.state.is_open();
                if begins {
                    // Other work than that which was cancelled.
                    (child.since, child.cancel, child.turn) = (now, None, None);
                }
                (child.state, child.reported) = (state, now);
            }
        }
        if !child.state.is_open() && !core::mem::replace(&mut child.is_spare, true) {
            self.spare.push_back(key);
        }
    }

    /// Whether the session of this id is `below`, or a parent of it, as far up as is known.
    fn is_above(&self, session: &[u8], below: &[u8]) -> bool {
        let (mut name, mut at) = (below, self.find(below));
        loop {
            if *name == *session {
                return true;
            }
            let Some(child) = at.and_then(|key| self.entries.get(key)) else { return false };
            (name, at) = (&child.parent, child.parent_key);
        }
    }

    /// Whether there is room for one more, if need be in the place of the one that has been idle longest. Not of one that
    /// is still the parent of another, or that is to be the parent.
    fn make_room(&mut self, parent: Option<Key>) -> bool {
        if self.entries.len() < MAX_CHILDREN {
            return true;
        }
        for _ in 0..self.spare.len() {
            let Some(key) = self.spare.pop_front() else { break };
            let Some(child) = self.entries.get_mut(key) else { continue };
            child.is_spare = false;
            if child.state.is_open() {
                continue;
            }
            if child.children == 0 && Some(key) != parent {
                self.remove(key);
                return true;
            }
            child.is_spare = true;
            self.spare.push_back(key);
        }
        false
    }

    /// The children of a session and theirs, each after its parent.
    pub(crate) fn below(&self, session: &[u8]) -> Vec<Key> {
        if self.is_empty() {
            return Vec::new();
        }
        let session = &*one_spelling(session);
        let mut all: Vec<_> = self.entries.iter().map(|(key, child)| (child.number, key)).collect();
        all.sort_unstable();
        let mut found = BTreeSet::new();
        let is_below = |(_, key): &(u64, Key)| {
            let child = self.entries.get(*key);
            let is = child.is_some_and(|child| {
                *child.parent == *session || child.parent_key.is_some_and(|parent| found.contains(&parent))
            });
            if is {
                found.insert(*key);
            }
            is
        };
        all.into_iter().filter(is_below).map(|(_, key)| key).collect()
    }

    /// The session that a child belongs to in the end: the first above it that is not a known child itself.
    pub(crate) fn root<'a>(&'a self, session: &'a [u8]) -> Cow<'a, [u8]> {
        let (mut name, mut at) = (one_spelling(session), self.find(session));
        while let Some(child) = at.and_then(|key| self.entries.get(key)) {
            (name, at) = (Cow::Borrowed(&*child.parent), child.parent_key);
        }
        name
    }

    /// Takes a child out.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Child> {
        let child = self.entries.remove(key)?;
        if let Ok(name) = self.names.find_entry(self.seed.hash(&child.session), |(_, known)| *known == key) {
            name.remove();
        }
        if child.is_spare {
            self.spare.retain(|spare| *spare != key);
        }
        if let Some(parent) = child.parent_key.and_then(|parent| self.entries.get_mut(parent)) {
            parent.children = parent.children.saturating_sub(1);
        }
        Some(child)
    }

    /// Those that were at work in the course of a cancelled turn, and may still be.
    pub(crate) fn of_turn(&self, turn: Key) -> OpenChildren {
        let open = self.entries.iter().filter(|(_, child)| child.turn == Some(turn) && child.state.is_open());
        open.fold(OpenChildren::default(), |OpenChildren { open, unseen }, (_, child)| OpenChildren {
            open: open + 1,
            unseen: unseen + usize::from(child.state.is_unseen()),
        })
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        let own = |child: &Child| {
            let cancel = child
                .cancel
                .as_deref()
                .map_or(0, |cancel| size_of::<ChildCancel>() + cancel.receipt.cause.text().map_or(0, str::len));
            child.session.len() + child.parent.len() + child.title.as_deref().map_or(0, str::len) + cancel
        };
        let owned: usize = self.entries.iter().map(|(_, child)| own(child)).sum();
        let index = self.names.capacity() * (size_of::<(u64, Key)>() + 1);
        self.entries.held() + index + self.spare.capacity() * size_of::<Key>() + owned
    }

    /// Panics if the bound or the order of parents is broken.
    pub(crate) fn check(&self) {
        assert!(self.entries.len() <= MAX_CHILDREN, "invariant 8: too many children are kept");
        assert_eq!(self.names.len(), self.entries.len(), "invariant 6: a child is known by its id while it is kept");
        assert!(self.spare.len() <= self.entries.len(), "invariant 8: more children give way than are kept");
        for (key, child) in self.entries.iter() {
            assert_eq!(self.find(&child.session), Some(key), "invariant 6: a child is known by its id");
            let parent = child.parent_key.and_then(|parent| self.entries.get(parent));
            assert!(
                child.parent_key.is_none()
                    || parent.is_some_and(|parent| parent.session == child.parent && parent.number < child.number),
                "invariant 6: a child is its own parent, or that of another"
            );
        }
    }

    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.unkept.hash(state);
        for (key, child) in self.entries.iter() {
            (key.index(), &child.session, &child.parent, child.state, child.can_cancel).hash(state);
            child.turn.map(Key::index).hash(state);
            if let Some(cancel) = child.cancel.as_deref() {
                let Receipt { cause, written, outcome, .. } = &cancel.receipt;
                (cause.code, written.is_some(), core::mem::discriminant(outcome), cancel.frame.is_some()).hash(state);
            }
        }
    }
}

impl Child {
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
