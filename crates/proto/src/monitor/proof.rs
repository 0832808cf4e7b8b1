//! For those who check the machine.

use super::{Monitor, ObservedEnd};
use crate::{receipt::Outcome, side::Side};

impl Monitor {
    /// Panics, naming the invariant by its number in the architecture page, if the state breaks one.
    ///
    /// Costs time in proportion to everything in flight and remembered.
    pub fn check_invariants(&self) {
        for side in Side::BOTH {
            let table = &self.tables[side];
            table.check();
            assert!(table.live() <= self.config.max_in_flight, "invariant 8: too many in flight");
            assert!(self.held[side].len() <= self.config.max_early_cancels, "invariant 8: too many held cancels");
            for (_, observed) in table.iter() {
                let outcome = observed.cancel.as_ref().map(|cancel| cancel.outcome);
                assert!(
                    !matches!(outcome, Some(Outcome::Asked | Outcome::NeverSent | Outcome::NotSendable)),
                    "a receipt claims what no wire shows: {outcome:?}"
                );
                assert!(
                    !matches!(observed.over, Some((_, ObservedEnd::Answered(_)))) || observed.answer.is_some(),
                    "invariant 3: {} is settled by an answer that is not known",
                    observed.id
                );
            }
        }
    }

    /// In debug builds, after every input, while the tables are small enough for that to be quick.
    pub(super) fn check(&self) {
        let entries = |side| self.tables[side].live() + self.tables[side].remembered();
        if cfg!(debug_assertions) && entries(Side::Client) + entries(Side::Server) < 64 {
            self.check_invariants();
        }
    }

    /// How many entries all tables hold: requests in flight and remembered, their indexes, held cancels.
    #[must_use]
    pub fn residue(&self) -> usize {
        Side::BOTH.into_iter().map(|side| self.tables[side].residue() + self.held[side].len()).sum()
    }
}
