//! What is known of the work of a child: a session that an agent opened for a part of its own (D54).

words! {
    /// The state of a child: what its agent reported last, as far as that may still be believed (ACP-37, ACP-38).
    ///
    /// It never grows: work goes on, is over, or is not known to be either, and what shows it must have a word for each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChildState {
        /// Its work goes on.
        Running = "running",
        /// Its work is over, and how it ended. It may be given other work.
        Idle(ChildEnd) = "idle",
        /// The agent cannot see it any more, reports a word that is not known here, or has gone away.
        Unknown = "unknown",
        /// The agent has reported nothing, or a load of the session has made that void (ACP-44).
        Unconfirmed = "unconfirmed",
        /// It is only known from the history of a session that was loaded (ACP-44).
        History = "history",
    }
}

impl ChildState {
    /// Whether work may go on: it does, or nothing shows that it does not. A child of history was never seen at work.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Unknown | Self::Unconfirmed)
    }

    /// Whether it is known neither to work nor not to.
    #[must_use]
    pub const fn is_unseen(self) -> bool {
        matches!(self, Self::Unknown | Self::Unconfirmed)
    }
}

/// Children whose work may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenChildren {
    /// How many.
    pub open: usize,
    /// How many of them are known neither to work nor not to.
    pub unseen: usize,
}

words! {
    /// How the work of a child ended.
    ///
    /// It never grows: work was cancelled, failed, or ended in another way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChildEnd {
        /// By itself, or by a limit of the agent.
        Finished = "finished",
        /// Cancelled (ACP-36).
        Cancelled = "cancelled",
        /// With an error.
        Failed = "failed",
    }
}
