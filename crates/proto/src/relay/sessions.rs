//! What is known of the work of sessions that report it by themselves (D55): whether foreground work goes on, which
//! background work was listed last, and what of it may be cancelled now.
//!
//! All of it is bounded. What finds no room is not followed, and that there is such work is known.

use core::hash::{Hash, Hasher};
use std::collections::BTreeMap;

use super::threads::Origin;
use crate::{dialect::ItemKind, receipt::Receipt, slab::Key, turns::one_spelling};

/// Sessions that are kept at most.
const MAX_SESSIONS: usize = 256;

/// Items of one session that are kept at most.
const MAX_ITEMS: usize = 64;

/// What has longer ids is not followed.
pub(super) const MAX_ID: usize = 256;

/// The most bytes that the sessions of a link hold: each with its id, its items and theirs, and a prompt with its cancel.
pub(super) const MAX_HELD: usize = MAX_SESSIONS * (MAX_ITEMS * (MAX_ID + size_of::<Item>()) + (4 << 10));

/// The sessions of one link, each under its id as JSON in its one spelling.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedWork {
    known: BTreeMap<Box<[u8]>, Session>,
    /// Work was reported that did not find room.
    pub(super) has_lost: bool,
}

/// What is known of the work of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// The entry of its foreground work, while that goes on.
    pub(super) foreground: Option<Key>,
    /// The prompt that was inserted last, and its cancel, until foreground work begins.
    pub(super) inserted: Option<(Origin, Option<Box<Receipt>>)>,
    /// The prompt whose work began before it was inserted.
    pub(super) begun: Option<Key>,
    /// A state was reported, and whether the list of background work came with the last.
    pub(super) background: Option<bool>,
    items: Vec<Item>,
}

/// A terminal, a tool call or something else that works, or may be cancelled.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Absent for one of a kind that is not known here, whose id is the whole item.
    pub(super) kind: Option<&'static ItemKind>,
    pub(super) id: Box<[u8]>,
    /// Whether it may be cancelled now (ACP-55).
    pub(super) can_cancel: bool,
    /// It was seen to end, and is still listed.
    pub(super) is_over: bool,
    /// Its entry in the table, while it is listed as background work.
    pub(super) entry: Option<Key>,
}

impl ReportedWork {
    pub(super) fn get(&self, session: &[u8]) -> Option<&Session> {
        self.known.get(&*one_spelling(session))
    }

    /// The session of this id, from now on kept if there is room. One that does nothing gives way.
    pub(super) fn keep(&mut self, session: &[u8]) -> Option<&mut Session> {
        let session = one_spelling(session);
        if !self.known.contains_key(&*session) {
            if self.known.len() >= MAX_SESSIONS
                && let Some(spare) = self.known.iter().find(|(_, one)| one.entries().next().is_none())
            {
                let spare = spare.0.clone();
                // Whether it has background work may have been unknown.
                self.has_lost |= self.known.remove(&spare).is_some_and(|one| one.background == Some(false));
            }
            if session.len() > MAX_ID || self.known.len() >= MAX_SESSIONS {
                self.has_lost = true;
                return None;
            }
        }
        Some(self.known.entry(session.into()).or_default())
    }

    /// The agent has closed a session: its work, if any was not seen to end.
    pub(super) fn close(&mut self, session: &[u8]) -> Vec<Key> {
        self.known.remove(&*one_spelling(session)).map(|one| one.entries().collect()).unwrap_or_default()
    }

    /// Forgets what stands in the table under `key`, which is over.
    pub(super) fn forget(&mut self, key: Key) {
        for session in self.known.values_mut() {
            session.foreground = session.foreground.filter(|known| *known != key);
            for item in session.items.iter_mut().filter(|item| item.entry == Some(key)) {
                item.entry = None;
            }
        }
    }

    /// Whether there may be work that cannot be seen: a session whose agent does not list its background work, or one that
    /// there was no room for (ACP-56).
    pub(super) fn may_hide_work(&self) -> bool {
        self.has_lost || self.known.values().any(|session| session.background == Some(false))
    }

    /// What stands in the table: foreground work, and background work.
    pub(super) fn entries(&self) -> impl Iterator<Item = Key> {
        self.known.values().flat_map(Session::entries)
    }

    /// Bytes of memory held, capacities included; ids have at most 256 bytes each.
    pub(super) fn held(&self) -> usize {
        let of = |session: &Session| {
            let items = session.items.iter().map(|item| item.id.len()).sum::<usize>();
            let cancel = |cancel: &Receipt| size_of::<Receipt>() + cancel.cause.text().map_or(0, str::len);
            let origin = session
                .inserted
                .as_ref()
                .map_or(0, |(origin, receipt)| origin.id.heap_bytes() + receipt.as_deref().map_or(0, cancel));
            session.items.capacity() * size_of::<Item>() + items + origin
        };
        // Twice for the room that a map leaves.
        let entries = 2 * self.known.len() * size_of::<(Box<[u8]>, Session)>();
        let ids = self.known.keys().map(|id| id.len()).sum::<usize>();
        size_of::<Self>() + entries + ids + self.known.values().map(of).sum::<usize>()
    }

    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        self.has_lost.hash(state);
        for (id, Session { foreground, inserted, begun, background, items }) in &self.known {
            (id, foreground.map(Key::index), begun.map(Key::index), background).hash(state);
            inserted.as_ref().map(|(Origin { id, method }, cancel)| (id, method, cancel.is_some())).hash(state);
            for Item { kind, id, can_cancel, is_over, entry } in items {
                (kind, id, can_cancel, is_over, entry.map(Key::index)).hash(state);
            }
        }
    }
}

impl Session {
    fn entries(&self) -> impl Iterator<Item = Key> {
        self.foreground.into_iter().chain(self.items.iter().filter_map(|item| item.entry))
    }

    /// What stands in the table as background work, in the order in which it was listed.
    pub(super) fn background_entries(&self) -> impl Iterator<Item = Key> {
        self.items.iter().filter_map(|item| item.entry)
    }

    pub(super) fn item(&self, kind: Option<&'static ItemKind>, id: &[u8]) -> Option<&Item> {
        let id = &*one_spelling(id);
        self.items.iter().find(|item| item.kind == kind && *item.id == *id)
    }

    pub(super) fn item_mut(&mut self, kind: Option<&'static ItemKind>, id: &[u8]) -> Option<&mut Item> {
        let id = &*one_spelling(id);
        self.items.iter_mut().find(|item| item.kind == kind && *item.id == *id)
    }

    /// The item of this id, from now on kept if there is room. One that is not listed gives way.
    pub(super) fn keep_item(&mut self, kind: Option<&'static ItemKind>, id: &[u8]) -> Option<&mut Item> {
        if self.item(kind, id).is_none() {
            if self.items.len() >= MAX_ITEMS
                && let Some(spare) = self.items.iter().position(|item| item.entry.is_none())
            {
                self.items.remove(spare);
            }
            if id.len() > MAX_ID || self.items.len() >= MAX_ITEMS {
                return None;
            }
            let id = one_spelling(id).into();
            self.items.push(Item { kind, id, can_cancel: false, is_over: false, entry: None });
        }
        self.item_mut(kind, id)
    }

    /// Forgets the item of this id.
    pub(super) fn forget_item(&mut self, kind: Option<&'static ItemKind>, id: &[u8]) {
        let id = &*one_spelling(id);
        self.items.retain(|item| item.kind != kind || *item.id != *id);
    }

    /// Takes in a list of background work: returns the entries of items that have left it. Of those that were seen to end
    /// before, nothing is kept.
    pub(super) fn retain_listed(&mut self, is_listed: impl Fn(&Item) -> bool) -> Vec<Key> {
        self.items.retain(|item| !item.is_over || is_listed(item));
        self.items.iter().filter(|item| !is_listed(item)).filter_map(|item| item.entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn nothing_grows_without_a_bound() {
        let (mut sessions, mut slab) = (ReportedWork::default(), Slab::new());
        for number in 0..2000 {
            let id = format!("\"{number}{}\"", "x".repeat(200));
            if let Some(session) = sessions.keep(id.as_bytes()) {
                session.foreground = Some(slab.insert(number));
                for item in 0..300 {
                    session.keep_item(None, format!("\"{item}{id}\"").as_bytes());
                }
            }
        }
        assert!((MAX_HELD / 2..MAX_HELD).contains(&sessions.held()), "{} of {MAX_HELD}", sessions.held());
        assert_eq!((sessions.known.len(), sessions.has_lost), (MAX_SESSIONS, true));
        assert!(sessions.keep(&[b'x'; 257]).is_none());
    }

    #[test]
    fn a_session_that_does_nothing_gives_way_to_one_that_works() {
        let (mut sessions, mut slab) = (ReportedWork::default(), Slab::new());
        for number in 0..1000 {
            sessions.keep(format!("\"{number}\"").as_bytes()).unwrap().background = Some(true);
        }
        sessions.keep(b"\"at work\"").unwrap().foreground = Some(slab.insert(0));
        assert!(!sessions.may_hide_work(), "what was forgotten had said that nothing works");
        assert_eq!((sessions.known.len(), sessions.entries().count()), (MAX_SESSIONS, 1));
    }
}
