//! Wall-clock time, for the timestamps and the ttl of tasks.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// A wall-clock time, in milliseconds since the beginning of 1970 (UTC).
///
/// Displayed as on the wire (TASK-09): RFC 3339, `2026-11-21T17:04:32.123Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the time that much later, or the last one that can be represented.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The format ends with the year 9999.
        let since_1970 = Duration::from_millis(self.0.min(253_402_300_799_999));
        humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since_1970).fmt(f)
    }
}

/// Converts to whole milliseconds, as many as fit.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock of a store. A test provides its own.
pub trait WallClock: Send + Sync {
    /// Returns the time. It may jump back; a task's `updated` does not.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_displayed_as_rfc_3339() {
        assert_eq!(Timestamp(1_764_000_000_123).to_string(), "2025-11-24T16:00:00.123Z");
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }
}
