//! Points in time that can be compared between processes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let nanos = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
        Self(u64::try_from(nanos).unwrap_or(0))
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)))
    }
}
