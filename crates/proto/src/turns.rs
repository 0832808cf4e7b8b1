//! The turns in flight, by their session (D37).
//!
//! Every update of a session asks for its turn, so that is one look however many sessions there are. A session has one
//! turn at a time; one that has more keeps their order.

use std::collections::VecDeque;

use hashbrown::{HashTable, hash_table::Entry};

use crate::{hash::Seed, slab::Key};

#[derive(Clone, Debug)]
pub(crate) struct Turns {
    sessions: HashTable<Session>,
    seed: Seed,
}

#[derive(Clone, Debug)]
struct Session {
    hash: u64,
    /// As JSON.
    name: Box<[u8]>,
    /// Oldest first, and never empty.
    turns: VecDeque<Key>,
}

impl Turns {
    pub(crate) const fn new(seed: Seed) -> Self {
        Self { sessions: HashTable::new(), seed }
    }

    pub(crate) fn insert(&mut self, session: &[u8], turn: Key) {
        let hash = self.seed.hash(session);
        match self.sessions.entry(hash, |known| *known.name == *session, |known| known.hash) {
            Entry::Occupied(mut known) => known.get_mut().turns.push_back(turn),
            Entry::Vacant(place) => {
                place.insert(Session { hash, name: session.into(), turns: VecDeque::from([turn]) });
            }
        }
    }

    pub(crate) fn remove(&mut self, session: &[u8], turn: Key) {
        let hash = self.seed.hash(session);
        let Ok(mut known) = self.sessions.find_entry(hash, |known| *known.name == *session) else { return };
        let turns = &mut known.get_mut().turns;
        if let Some(place) = turns.iter().position(|key| *key == turn) {
            turns.remove(place);
        }
        if turns.is_empty() {
            known.remove();
        }
    }

    /// The turns of a session, oldest first.
    pub(crate) fn of(&self, session: &[u8]) -> impl DoubleEndedIterator<Item = Key> {
        let known = self.sessions.find(self.seed.hash(session), |known| *known.name == *session);
        known.into_iter().flat_map(|known| known.turns.iter().copied())
    }

    /// The turn of a session that so many are older than.
    pub(crate) fn nth(&self, session: &[u8], place: usize) -> Option<Key> {
        let known = self.sessions.find(self.seed.hash(session), |known| *known.name == *session)?;
        known.turns.get(place).copied()
    }

    /// The request during which another was made that names `session`, where that is certain: the newest open turn of the
    /// session, or the only request in flight. What names a session is part of no other session's turn.
    pub(crate) fn parent(
        &self,
        session: Option<&[u8]>,
        is_open: impl Fn(Key) -> bool,
        only_live: Option<Key>,
        has_session: impl Fn(Key) -> bool,
    ) -> Option<Key> {
        let turn = session.and_then(|session| self.of(session).rev().find(|turn| is_open(*turn)));
        turn.or_else(|| only_live.filter(|only| session.is_none() || !has_session(*only)))
    }

    /// Sessions with a turn in flight.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn the_turns_of_a_session_keep_their_order_whichever_ends() {
        let mut slab = Slab::new();
        let [a, b, c, other] = [0; 4].map(|entry| slab.insert(entry));
        let mut turns = Turns::new(Seed::new(0));
        for (session, turn) in [(b"s", a), (b"s", b), (b"t", other), (b"s", c)] {
            turns.insert(session, turn);
        }
        turns.remove(b"s", b);
        turns.remove(b"s", other);
        assert_eq!((turns.of(b"s").collect::<Vec<_>>(), turns.of(b"t").collect::<Vec<_>>()), (vec![a, c], vec![other]));
        turns.remove(b"s", c);
        assert_eq!(turns.of(b"s").next_back(), Some(a));
        turns.remove(b"s", a);
        turns.remove(b"t", other);
        assert_eq!((turns.of(b"s").next(), turns.len()), (None, 0));
    }
}
