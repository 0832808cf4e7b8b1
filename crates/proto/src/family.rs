//! Sessions or threads by their id, and which of them was opened by which (D54, D58).
//!
//! All of it is bounded. Past the bound the one that has been idle longest gives way, and where none is idle a new one is
//! not kept, which is counted.

use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
};

use crate::{
    hash::Seed,
    slab::{Key, Slab},
    table::Index,
    turns::one_spelling,
};

/// Members that are kept at most.
pub(crate) const MAX_MEMBERS: usize = 1024;

/// The longest ids that are kept, in bytes.
const MAX_ID: usize = 512;

/// What is known of a member beside who opened it.
pub(crate) trait Work {
    /// Whether it may give way to another: nothing shows that it works.
    fn is_idle(&self) -> bool;

    /// Bytes of memory that it owns.
    fn held(&self) -> usize;
}

/// Those that were opened, and those that opened them.
#[derive(Clone, Debug)]
pub(crate) struct Family<T> {
    members: Slab<Member<T>>,
    names: Index,
    /// Those that were idle and no parent when they came here, the one that has been here longest first.
    spare: VecDeque<Key>,
    seed: Seed,
    /// How many were kept so far: a parent has a lower number than its children, unless it became known after them.
    added: u64,
    /// How often one was not kept.
    unkept: u64,
    /// The one that gave way last.
    gone: Option<Key>,
}

/// A session or thread.
#[derive(Clone, Debug)]
pub(crate) struct Member<T> {
    /// Its id as JSON, in its one spelling.
    pub(crate) name: Box<[u8]>,
    /// That of the one that opened it; empty if that is not known.
    pub(crate) parent: Box<[u8]>,
    /// The same, where it is kept.
    pub(crate) parent_key: Option<Key>,
    /// Those that it has opened and that are kept.
    children: u32,
    number: u64,
    is_spare: bool,
    work: T,
}

/// Why one was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// No room was left for it.
    Unkept,
    /// It would be its own parent, or that of the one that opened it.
    Circle,
}

impl<T: Work> Family<T> {
    pub(crate) const fn new(seed: Seed) -> Self {
        Self {
            members: Slab::new(),
            names: Index::new(),
            spare: VecDeque::new(),
            seed,
            added: 0,
            unkept: 0,
            gone: None,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) const fn len(&self) -> usize {
        self.members.len()
    }

    /// How often one was not kept.
    pub(crate) const fn unkept(&self) -> u64 {
        self.unkept
    }

    /// The one that gave way to the one added last, if any did. Reported once.
    pub(crate) const fn take_gone(&mut self) -> Option<Key> {
        self.gone.take()
    }

    pub(crate) fn member(&self, key: Key) -> Option<&Member<T>> {
        self.members.get(key)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.members.get(key).map(|member| &member.work)
    }

    /// What is known of a member, to be changed; [`settle`](Self::settle) follows where it may have become idle.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.members.get_mut(key).map(|member| &mut member.work)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.members.iter().map(|(key, member)| (key, &member.work))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.members.iter_mut().map(|member| &mut member.work)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (Key, &Member<T>)> {
        self.members.iter()
    }

    /// The member of this id, as JSON.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Key> {
        if self.is_empty() {
            return None;
        }
        let name = &*one_spelling(name);
        let is = |at| self.members.at(at).is_some_and(|member| *member.name == *name);
        self.members.key_at(self.names.find(self.seed.hash(name), is)?)
    }

    /// Adds one that is not known, which `parent` has opened; that is empty where it is not known.
    pub(crate) fn add(&mut self, name: &[u8], parent: &[u8], work: T) -> Result<Key, NotAdded> {
        let (name, parent) = (&*one_spelling(name), &*one_spelling(parent));
        if self.is_above(name, parent) {
            return Err(NotAdded::Circle);
        }
        let parent_key = self.find(parent);
        if name.len().max(parent.len()) > MAX_ID || !self.make_room(parent_key) {
            self.unkept += 1;
            return Err(NotAdded::Unkept);
        }
        self.added += 1;
        let key = self.members.insert(Member {
            name: name.into(),
            parent: parent.into(),
            parent_key,
            children: 0,
            number: self.added,
            is_spare: false,
            work,
        });
        self.names.insert(self.seed.hash(name), key.index());
        if let Some(parent) = parent_key.and_then(|key| self.members.get_mut(key)) {
            parent.children += 1;
        }
        self.settle(key);
        Ok(key)
    }

    /// Notes who opened a member of which that was not known; one that is kept, and that it has not opened itself.
    pub(crate) fn set_parent(&mut self, key: Key, parent_key: Key) {
        let Some((child, parent)) = self.members.get(key).zip(self.members.get(parent_key)) else { return };
        if !child.parent.is_empty() || self.is_above(&child.name, &parent.name) {
            return;
        }
        let name = parent.name.clone();
        if let Some(child) = self.members.get_mut(key) {
            (child.parent, child.parent_key) = (name, Some(parent_key));
        }
        if let Some(parent) = self.members.get_mut(parent_key) {
            parent.children += 1;
        }
    }

    /// Whether the one of this id is `below`, or opened it, as far up as is known.
    fn is_above(&self, name: &[u8], below: &[u8]) -> bool {
        let (mut at_name, mut at) = (below, self.find(below));
        loop {
            if *at_name == *name {
                return true;
            }
            let Some(member) = at.and_then(|key| self.members.get(key)) else { return false };
            (at_name, at) = (&member.parent, member.parent_key);
        }
    }

    /// A member that has become idle may give way from now on. Not one that is the parent of another.
    pub(crate) fn settle(&mut self, key: Key) {
        if let Some(member) = self.members.get_mut(key)
            && member.children == 0
            && member.work.is_idle()
            && !core::mem::replace(&mut member.is_spare, true)
        {
            self.spare.push_back(key);
        }
    }

    /// Whether there is room for one more, if need be in the place of the one that has been idle longest; not of the one that
    /// is to be its parent. Each that works again, or is a parent by now, leaves the queue here: once for each time it came.
    fn make_room(&mut self, parent: Option<Key>) -> bool {
        if self.len() < MAX_MEMBERS {
            return true;
        }
        let mut is_parent_spare = false;
        while let Some(key) = self.spare.pop_front() {
            let Some(member) = self.members.get_mut(key) else { continue };
            if Some(key) == parent {
                is_parent_spare = true;
                continue;
            }
            member.is_spare = false;
            if member.children == 0 && member.work.is_idle() {
                self.remove(key);
                self.gone = Some(key);
                break;
            }
        }
        if is_parent_spare {
            self.spare.extend(parent);
        }
        self.len() < MAX_MEMBERS
    }

    /// Those that a session has opened, and those that these have, each after its parent.
    pub(crate) fn below(&self, name: &[u8]) -> Vec<Key> {
        if self.is_empty() {
            return Vec::new();
        }
        let name = &*one_spelling(name);
        let mut all: Vec<_> = self.members.iter().map(|(key, member)| (member.number, key)).collect();
        all.sort_unstable();
        let mut found = BTreeSet::new();
        let is_below = |(_, key): &(u64, Key)| {
            let is = self.members.get(*key).is_some_and(|member| {
                *member.parent == *name || member.parent_key.is_some_and(|parent| found.contains(&parent))
            });
            if is {
                found.insert(*key);
            }
            is
        };
        all.into_iter().filter(is_below).map(|(_, key)| key).collect()
    }

    /// The one that opened the others in the end: the first above it that was opened by none that is known.
    pub(crate) fn root<'a>(&'a self, name: &'a [u8]) -> Cow<'a, [u8]> {
        let (mut name, mut at) = (one_spelling(name), self.find(name));
        while let Some(member) = at.and_then(|key| self.members.get(key)).filter(|member| !member.parent.is_empty()) {
            (name, at) = (Cow::Borrowed(&*member.parent), member.parent_key);
        }
        name
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(member) = self.members.remove(key) else { return };
        self.names.remove(self.seed.hash(&*member.name), key.index());
        if member.is_spare {
            self.spare.retain(|spare| *spare != key);
        }
        if let Some((key, parent)) = member.parent_key.and_then(|key| Some((key, self.members.get_mut(key)?))) {
            parent.children = parent.children.saturating_sub(1);
            self.settle(key);
        }
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        let own = |member: &Member<T>| member.name.len() + member.parent.len() + member.work.held();
        let owned: usize = self.members.iter().map(|(_, member)| own(member)).sum();
        self.members.held() + self.names.held() + self.spare.capacity() * size_of::<Key>() + owned
    }

    /// Panics if the bound or the order of parents is broken.
    pub(crate) fn check(&self) {
        assert!(self.len() <= MAX_MEMBERS, "invariant 8: too many children are kept");
        assert_eq!(self.names.len(), self.len(), "invariant 6: a child is known by its id while it is kept");
        assert!(self.spare.len() <= self.len(), "invariant 8: more children give way than are kept");
        for (key, member) in self.members.iter() {
            assert_eq!(self.find(&member.name), Some(key), "invariant 6: a child is known by its id");
            let parent = member.parent_key.map(|parent| self.members.get(parent));
            assert!(
                parent.is_none_or(|parent| parent.is_some_and(|parent| parent.name == member.parent))
                    && !self.is_above(&member.name, &member.parent),
                "invariant 6: a child is its own parent, or that of another"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Busy(bool);

    impl Work for Busy {
        fn is_idle(&self) -> bool {
            !self.0
        }

        fn held(&self) -> usize {
            0
        }
    }

    fn family() -> Family<Busy> {
        Family::new(Seed::new(1))
    }

    #[test]
    fn whoever_opened_it_may_become_known_later_and_never_in_a_circle() {
        let mut family = family();
        let a = family.add(b"\"a\"", b"", Busy(true)).unwrap();
        let b = family.add(br#""\u0062""#, b"", Busy(true)).unwrap();
        let c = family.add(b"\"c\"", b"\"b\"", Busy(true)).unwrap();
        family.set_parent(b, a);
        assert_eq!((&*family.root(b"\"c\""), family.below(b"\"a\"")), (&b"\"a\""[..], vec![b, c]));
        family.set_parent(a, c);
        assert_eq!(family.member(a).unwrap().parent_key, None, "it has opened that one itself");
        assert_eq!(family.add(b"\"d\"", b"\"d\"", Busy(true)), Err(NotAdded::Circle));
        family.check();
    }

    /// The cost of one more stays flat: nothing that is no longer idle is looked at twice.
    #[test]
    fn past_the_bound_those_give_way_that_have_been_idle_longest() {
        let mut family = family();
        let name = |n: usize| format!("\"{n}\"");
        let keys: Vec<_> =
            (0..MAX_MEMBERS).map(|n| family.add(name(n).as_bytes(), b"", Busy(n % 2 == 1)).unwrap()).collect();
        // One works again, one is a parent now.
        family.get_mut(keys[0]).unwrap().0 = true;
        let child = family.add(b"\"child\"", name(2).as_bytes(), Busy(true)).unwrap();
        assert!(family.get(keys[4]).is_none() && family.get(keys[2]).is_some());
        for n in 0..2000 {
            let _ = family.add(name(5000 + n).as_bytes(), b"", Busy(true));
            assert!(family.spare.len() <= MAX_MEMBERS / 2);
        }
        assert_eq!((family.len(), family.unkept()), (MAX_MEMBERS, 2000 - (512 - 3)));
        // Its child is gone: it may go, too.
        family.remove(child);
        family.add(b"\"x\"", b"", Busy(true)).unwrap();
        family.add(b"\"y\"", b"", Busy(true)).unwrap();
        assert!(family.get(keys[2]).is_none());
        family.check();
    }
}
