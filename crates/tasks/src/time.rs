//! Time on the wall: what tasks say of themselves, and what their ttl is counted in.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// A time on the wall, in milliseconds since the beginning of 1970 (UTC).
///
/// Displayed as tasks say it on the wire (TASK-09): RFC 3339, `2026-11-21T17:04:32.123Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// That much later; never before the end of time, which it stays at.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The year 9999 is the last that the format can say.
        let told = Duration::from_millis(self.0.min(253_402_300_799_999));
        humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + told).fmt(f)
    }
}

/// Whole milliseconds, as many as fit.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Where a store learns the time on the wall; a test gives one of its own.
pub trait Clock: Send + Sync {
    /// The time now. It may jump, as the clocks of machines do: a task's `updated` never goes back for all that.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_the_wire_wants_it() {
        assert_eq!(Timestamp(1_764_000_000_123).to_string(), "2025-11-24T16:00:00.123Z");
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }
}
