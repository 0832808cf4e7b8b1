//! Times as the demo shows them.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// Milliseconds since the beginning of an act, or between two events.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Ms(pub(super) f64);

impl Ms {
    pub(crate) fn of(time: Duration) -> Self {
        Self(time.as_secs_f64() * 1e3)
    }
}

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((self.0 * 1000.0).round() / 1000.0)
    }
}

/// Writes a duration with as many digits as matter.
pub(crate) fn lapse(milliseconds: f64) -> String {
    if milliseconds < 1.0 { format!("{milliseconds:.2} ms") } else { format!("{milliseconds:.1} ms") }
}
