//! Time as the engine sees it: an argument, never a call.
//!
//! The driver picks an origin once (the start of the process, say) and hands
//! every input the time that has passed since. The engine subtracts, compares
//! and adds, and nothing else; so a test owns the clock.
//!
//! An instant is nanoseconds in eight bytes, since a million requests can carry several each.

use core::{fmt, num::NonZeroU64, ops::Add, time::Duration};

/// A point on the driver's monotonic clock: nanoseconds since an origin the driver chose.
///
/// Eight bytes, and as an `Option` too, so that a million requests can each carry several. It stands still after 584
/// years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// One more than the nanoseconds.
    NonZeroU64,
);

impl Instant {
    /// The origin itself.
    pub const ORIGIN: Self = Self(NonZeroU64::MIN);

    /// The instant `elapsed` after the origin.
    #[must_use]
    pub const fn after_origin(elapsed: Duration) -> Self {
        Self(NonZeroU64::MIN.saturating_add(clamp(elapsed)))
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// Time passed since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ORIGIN
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(clamp(later)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.since_origin())
    }
}

const fn clamp(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}
