//! For those who check the machine: its invariants, what it holds, and a canonical hash of its state.

use core::hash::{Hash, Hasher};

use super::{Bridge, Carried};
use crate::time::Instant;

impl Bridge {
    /// Panics, naming the invariant by its number in the architecture page, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        self.traffic.calls.check();
        let is_in_flight = |own| self.traffic.calls.get(own).is_some_and(|call| !call.is_cancelled());
        self.way.direction().check(&is_in_flight);
    }

    /// Bytes of memory held for messages and requests, capacities included.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    #[must_use]
    pub fn held(&self) -> usize {
        let said = self.traffic.said.iter().map(|said| size_of::<Carried>() + said.held()).sum::<usize>();
        self.traffic.outbox.held() + said + self.traffic.calls.held() + self.way.direction().held()
    }

    /// Entries of every collection: zero once nothing is in flight, listened to or remembered (invariant 6).
    #[must_use]
    pub fn residue(&self) -> usize {
        let waits = self.traffic.said.len() + usize::from(!self.traffic.outbox.is_empty());
        self.traffic.calls.residue() + waits + self.way.direction().residue()
    }

    /// Feeds everything that decides the machine's future into a hasher: times relative to `now`, and no id that only
    /// names things.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        core::mem::discriminant(&self.way).hash(state);
        self.way.direction().hash_state(now, state);
        self.traffic.calls.hash_state(now, state);
        (self.traffic.is_write_closed, &self.traffic.said).hash(state);
        self.traffic.outbox.hash_state(state);
    }
}
