//! What is known of the work of a task: a request whose work goes on after its answer (D56).

words! {
    /// The status of a task, as its server reported it last.
    ///
    /// It never grows: the work of a task goes on, waits, is over, or is not known to be any of that.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TaskStatus {
        /// Its work goes on.
        Working = "working",
        /// It waits for what its requester was asked.
        InputRequired = "input_required",
        /// It has a result.
        Completed = "completed",
        /// It ended with an error.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// The server has reported no status, or a word that is not known here.
        Unknown = "unknown",
    }
}

words! {
    /// How a task ended, as far as that concerns those who waited for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum TaskEnd {
        /// Its server reports it as cancelled.
        Cancelled = "cancelled",
        /// In another way: it has a result or an error, or its server knows no such task.
        Otherwise = "over",
    }
}

impl TaskStatus {
    /// The status of this word.
    pub(crate) fn of(word: Option<&str>) -> Self {
        let known = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];
        known.into_iter().find(|status| word == Some(status.as_str())).unwrap_or(Self::Unknown)
    }

    /// Whether the task is over, and stays so (TASK-01).
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
