//! The invariants of a monitor.

use super::{Monitor, ObservedEnd};
use crate::{receipt::Outcome, side::Side};

impl Monitor {
    /// Panics, naming the invariant by its number in the architecture page, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        self.children.check();
        for side in Side::BOTH {
            let requests = &self.requests[side];
            requests.check();
            assert!(requests.table.live() <= self.config.max_in_flight, "invariant 8: too many in flight");
            assert!(
                self.early_cancels[side].len() <= self.config.early_cancels.most,
                "invariant 8: too many early cancels"
            );
            for (_, observed) in requests.table.iter() {
                let outcome = observed.cancel.as_ref().map(|cancel| cancel.outcome);
                assert!(
                    !matches!(outcome, Some(Outcome::Asked | Outcome::NeverSent | Outcome::NotSendable)),
                    "invariant 3: a receipt claims what no wire shows: {outcome:?}"
                );
                assert!(
                    !matches!(observed.over, Some((_, ObservedEnd::Answered(_)))) || observed.answer.is_some(),
                    "invariant 3: {} is settled by an answer that is not known",
                    observed.id
                );
            }
        }
    }

    /// Checks in debug builds, after every input, while few requests are known.
    pub(super) fn check(&self) {
        if cfg!(debug_assertions) && self.requests.client.table.len() + self.requests.server.table.len() < 64 {
            self.check_invariants();
        }
    }

    /// Counts the entries of all tables: requests in flight and remembered, their indexes, early cancels.
    #[must_use]
    pub fn residue(&self) -> usize {
        Side::BOTH.into_iter().map(|side| self.requests[side].residue() + self.early_cancels[side].len()).sum()
    }
}

#[cfg(test)]
mod tests;
