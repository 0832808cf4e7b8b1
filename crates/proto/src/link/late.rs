//! What arrives for a request that is over.

use crate::receipt::Answer;

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
