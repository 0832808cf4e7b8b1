//! The turns in flight, by their session (D37).
//!
//! Every update of a session asks for its turn, so that is one look however many sessions there are. A session has one
//! turn at a time; one that has more keeps their order. Sessions are the same when their values are, however they are
//! spelled.

use std::{borrow::Cow, collections::VecDeque};

use hashbrown::{HashTable, hash_table::Entry};

use crate::{hash::Seed, json, slab::Key};

#[derive(Clone, Debug)]
pub(crate) struct Turns {
    sessions: HashTable<Session>,
    seed: Seed,
}

#[derive(Clone, Debug)]
struct Session {
    hash: u64,
    /// As JSON, in its [`one_spelling`].
    name: Box<[u8]>,
    /// Oldest first, and never empty.
    turns: VecDeque<Key>,
}

impl Turns {
    pub(crate) const fn new(seed: Seed) -> Self {
        Self { sessions: HashTable::new(), seed }
    }

    pub(crate) fn insert(&mut self, session: &[u8], turn: Key) {
        let session = &*one_spelling(session);
        let hash = self.seed.hash(session);
        match self.sessions.entry(hash, |known| *known.name == *session, |known| known.hash) {
            Entry::Occupied(mut known) => known.get_mut().turns.push_back(turn),
            Entry::Vacant(place) => {
                place.insert(Session { hash, name: session.into(), turns: VecDeque::from([turn]) });
            }
        }
    }

    pub(crate) fn remove(&mut self, session: &[u8], turn: Key) {
        let session = &*one_spelling(session);
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
        let session = &*one_spelling(session);
        let known = self.sessions.find(self.seed.hash(session), |known| *known.name == *session);
        known.into_iter().flat_map(|known| known.turns.iter().copied())
    }

    /// The turn of a session that so many are older than.
    pub(crate) fn nth(&self, session: &[u8], place: usize) -> Option<Key> {
        self.of(session).nth(place)
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

    /// Bytes of memory held, capacities included.
    #[expect(clippy::disallowed_methods, reason = "a sum is the same in any order")]
    pub(crate) fn held(&self) -> usize {
        let own = |session: &Session| session.name.len() + session.turns.capacity() * size_of::<Key>();
        self.sessions.allocation_size() + self.sessions.iter().map(own).sum::<usize>()
    }

    /// Sessions with a turn in flight.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }
}

/// The one spelling of a session's id, which is given as JSON. What is no string is its own.
pub(crate) fn one_spelling(session: &[u8]) -> Cow<'_, [u8]> {
    match session.contains(&b'\\').then(|| json::text(session)).flatten() {
        Some(text) => {
            let mut name = Vec::with_capacity(session.len());
            json::write_string(&mut name, &text);
            Cow::Owned(name)
        }
        None => Cow::Borrowed(session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn a_session_has_one_spelling() {
        let same: [&[&str]; 4] = [
            &[r#""a/b""#, r#""a\/b""#, r#""\u0061\u002fb""#, r#""\u0061/b""#],
            &[r#""\"""#, r#""\u0022""#],
            &[r#""é""#, r#""\u00e9""#, r#""\u00E9""#],
            &[r#""\n""#, r#""\u000a""#],
        ];
        for (at, spellings) in same.iter().enumerate() {
            for spelling in *spellings {
                assert_eq!(one_spelling(spelling.as_bytes()), one_spelling(spellings[0].as_bytes()), "{spelling}");
                let others = same.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, others)| others[0]);
                for other in others {
                    assert_ne!(one_spelling(spelling.as_bytes()), one_spelling(other.as_bytes()));
                }
            }
        }
        // What has no value that can be written is its own.
        for session in [r#""\ud800""#, r#""\ud801""#, "5", "{}", r#"{"a":"\/"}"#, r#""\x""#] {
            assert_eq!(one_spelling(session.as_bytes()), session.as_bytes());
        }
    }

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
