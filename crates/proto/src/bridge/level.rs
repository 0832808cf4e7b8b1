//! How much a log message matters.

use crate::json;

words! {
    /// The level of a log message; a later one matters more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) enum Level {
        Debug = "debug",
        Info = "info",
        Notice = "notice",
        Warning = "warning",
        Error = "error",
        Critical = "critical",
        Alert = "alert",
        Emergency = "emergency",
    }
}

impl Level {
    /// All of them, the least first.
    pub(super) const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level that a JSON string names.
    pub(super) fn of(raw: &[u8]) -> Option<Self> {
        let word = json::text(raw)?;
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}
