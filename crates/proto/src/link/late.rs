//! What arrives for a request that is over.

use crate::receipt::Answer;

/// The kind of a message that arrived late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LateKind {
    /// A result.
    Result,
    /// An error.
    Error,
    /// Progress, or an update of a cancelled turn.
    Progress,
    /// A message of a cancelled subscription.
    Subscription,
}

impl LateKind {
    /// Its name in logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Progress => "progress",
            Self::Subscription => "subscription",
        }
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
