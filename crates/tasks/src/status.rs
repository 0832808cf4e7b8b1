//! The status of a task.

/// The status of a task, as both dialects name it (TASK-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The work is running. Every task begins here.
    Working,
    /// The work is waiting for an answer from the client.
    InputRequired,
    /// Terminal: the work ended with a result.
    Completed,
    /// Terminal: the work ended with an error.
    Failed,
    /// Terminal: a cancel won.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the status of that name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether it is never left (TASK-01, TASK-04).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

    /// Whether a task may change from this status to `next` (TASK-01).
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Working, Self::InputRequired | Self::Completed | Self::Failed | Self::Cancelled)
            | (Self::InputRequired, Self::Working | Self::Completed | Self::Failed | Self::Cancelled) => true,
            (Self::Working, Self::Working)
            | (Self::InputRequired, Self::InputRequired)
            | (Self::Completed | Self::Failed | Self::Cancelled, _) => false,
        }
    }
}
