//! What arrives for a request that is over.

use crate::{receipt::Answer, time::Instant};

words! {
    /// The kind of a message that arrived late.
    ///
    /// It never grows: JSON-RPC has answers and notifications, and both kinds of each are told apart.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LateKind {
        /// A result.
        Result = "result",
        /// An error.
        Error = "error",
        /// Progress, or an update of a cancelled turn.
        Progress = "progress",
        /// A message of a cancelled subscription.
        Subscription = "subscription",
    }
}

impl From<Answer> for LateKind {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Result => Self::Result,
            Answer::Error => Self::Error,
        }
    }
}

/// What came for a request that was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateCounts {
    /// When the last of it came.
    pub at: Instant,
    /// Results and errors.
    pub answers: u64,
    /// Progress, updates of a turn, messages of a subscription.
    pub notices: u64,
}

impl LateCounts {
    pub(crate) const fn count(&mut self, now: Instant, what: LateKind) {
        self.at = now;
        match what {
            LateKind::Result | LateKind::Error => self.answers += 1,
            LateKind::Progress | LateKind::Subscription => self.notices += 1,
        }
    }
}
