//! What whoever sent a cancel is told of it (D41).

use super::Verdict;
use crate::receipt::Outcome;

words! {
    /// What is known of a cancel, for its sender.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum CancelFate {
        /// It was written to the program that works on the request.
        Delivered = "delivered",
        /// The work was told to stop. Only where the work is in this process.
        Seen = "seen",
        /// Nobody works on the request any more: it was never passed on, or has been answered since.
        Stopped = "stopped",
        /// There is no such request in flight.
        NotFound = "not_found",
        /// The request may not be cancelled, or the cancel cannot be read.
        Refused = "refused",
        /// Nothing is known, yet or for good.
        Unknown = "unknown",
    }
}

impl CancelFate {
    /// What a verdict says; `None` of a cancel that is accepted, whose fate follows.
    #[must_use]
    pub const fn of_verdict(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Accepted => None,
            Verdict::Completed | Verdict::Unknown => Some(Self::NotFound),
            // What became of the one before is told to who sent that; and a request may still come.
            Verdict::Repeated | Verdict::Held => Some(Self::Unknown),
            Verdict::Shielded => Some(Self::Seen),
            Verdict::Malformed | Verdict::Forbidden(_) => Some(Self::Refused),
        }
    }

    /// What a receipt says; `None` while the cancel is still to be written.
    #[must_use]
    pub const fn of_outcome(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Asked => None,
            Outcome::Sent => Some(Self::Delivered),
            Outcome::NeverSent | Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. } => Some(Self::Stopped),
            Outcome::CompletedFirst => Some(Self::NotFound),
            Outcome::NotSendable => Some(Self::Refused),
            Outcome::Unknown => Some(Self::Unknown),
        }
    }
}
