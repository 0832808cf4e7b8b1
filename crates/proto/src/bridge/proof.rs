//! For those who check the machine: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use super::{Bridge, Carried, Stage};
use crate::time::Instant;

impl Bridge {
    /// Panics, naming the invariant by its number in the architecture page, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        self.calls.check();
        let is_in_flight = |own| self.calls.get(own).is_some_and(|call| !call.is_cancelled);
        self.asking.check(is_in_flight);
        self.fulfilling.check(is_in_flight);
        self.tasks_to_modern.check(is_in_flight);
        self.tasks_to_legacy.check(is_in_flight);
        let held: usize = self.held.iter().map(|held| held.body.len()).sum();
        assert_eq!(held, self.held_bytes, "invariant 8: the count of what waits is off");
        let may_wait = matches!(self.stage, Stage::Greeted(..) | Stage::Discovering(_) | Stage::Greeting);
        assert!(held == 0 || may_wait, "invariant 6: a message waits for what is known");
    }

    /// Requests of clients and of our own that the server has, and those that were cancelled and may still be answered.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        self.calls.counts()
    }

    /// Open subscriptions of clients without a session.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listening.len()
    }

    /// Bytes of memory held for messages and requests, capacities included.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    #[must_use]
    pub fn held(&self) -> usize {
        let said: usize = self.said.iter().map(|said| size_of::<Carried>() + said.held()).sum();
        let asked = self.asking.held() + self.fulfilling.held();
        let tasks = self.tasks_to_modern.held() + self.tasks_to_legacy.held();
        let listened = self.listening.held() + self.following.held();
        self.outbox.held() + said + self.held_bytes + self.calls.held() + listened + asked + tasks
    }

    /// Entries of every collection: zero once nothing is in flight, listened to or remembered (invariant 6).
    #[must_use]
    pub fn residue(&self) -> usize {
        let asked = self.asking.len() + self.fulfilling.len() + self.tasks_to_modern.len() + self.tasks_to_legacy.len();
        self.calls.residue()
            + self.held.len()
            + self.listening.len()
            + self.said.len()
            + usize::from(!self.outbox.is_empty())
            + asked
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and no id that only
    /// names things.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (&self.stage, self.probe, &self.held, &self.listening, &self.following).hash(state);
        self.calls.hash_state(state);
        self.asking.hash_state(now, state);
        self.fulfilling.hash_state(now, state);
        self.tasks_to_modern.hash_state(now, state);
        self.tasks_to_legacy.hash_state(now, state);
        (self.due.map(|due| due.since(now)), self.is_write_closed, &self.said).hash(state);
        self.outbox.hash_state(state);
    }
}
