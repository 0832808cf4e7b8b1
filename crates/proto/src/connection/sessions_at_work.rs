//! The sessions of a client whose agent has reported last that foreground work goes on (ACP-50). They are bounded.

use core::hash::{Hash, Hasher};
use std::collections::BTreeSet;

use crate::turns::one_spelling;

/// Sessions that are followed at most.
const MAX_SESSIONS: usize = 256;

/// A session with a longer id is not followed.
const MAX_ID: usize = 256;

/// The sessions whose agent has reported last that foreground work goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionsAtWork {
    known: BTreeSet<Box<[u8]>>,
    /// There was no room for one: then any may be at work.
    has_lost: bool,
}

impl SessionsAtWork {
    /// The most bytes that they take.
    pub(super) const MOST: usize = MAX_SESSIONS * (MAX_ID + 4 * size_of::<Box<[u8]>>());

    /// Whether this session may be at work.
    pub(super) fn may_have(&self, session: &[u8]) -> bool {
        self.has_lost || self.known.contains(&*one_spelling(session))
    }

    /// Records that a session works; `false` if that was known.
    pub(super) fn begin(&mut self, session: &[u8]) -> bool {
        let session = one_spelling(session);
        if self.known.contains(&*session) {
            return false;
        }
        if session.len() > MAX_ID || self.known.len() >= MAX_SESSIONS {
            self.has_lost = true;
        } else {
            self.known.insert(session.into());
        }
        true
    }

    pub(super) fn end(&mut self, session: &[u8]) {
        self.known.remove(&*one_spelling(session));
    }

    pub(super) fn held(&self) -> usize {
        self.known.iter().map(|session| session.len() + 4 * size_of::<Box<[u8]>>()).sum()
    }

    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        (&self.known, self.has_lost).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_grows_without_a_bound_and_what_finds_no_room_may_be_at_work() {
        let mut sessions = SessionsAtWork::default();
        for number in 0..10_000 {
            sessions.begin(format!("\"{number}{}\"", "x".repeat(200)).as_bytes());
        }
        assert_eq!((sessions.known.len(), sessions.has_lost), (MAX_SESSIONS, true));
        assert!(sessions.held() <= SessionsAtWork::MOST);
        assert!(sessions.may_have(b"\"another\""));
    }
}
