//! Points in time that can be compared between processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds of a clock that all processes of a machine share: that by which the shim says when its recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Self {
        Self(u64::try_from(clock().as_nanos()).unwrap_or(0))
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// `CLOCK_MONOTONIC`.
#[cfg(unix)]
fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// The system's time.
#[cfg(windows)]
fn clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}
