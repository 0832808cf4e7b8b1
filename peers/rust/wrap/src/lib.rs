//! What the tests of Rust SDKs share: the two ways to connect one, raw ends, work that tells what became of it.

#![warn(missing_docs)]

mod raw;
mod table;
mod way;
mod work;

pub use raw::{Raw, answer, call, notification, request};
pub use table::row;
pub use way::{Io, Pipe, Way, both, connection};
pub use work::{Fate, Work};

/// The page compiles: its code is what users paste.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/wrap.md")]
struct Page;

use std::time::Duration;

/// How long is waited, on the paused clock, for what never comes: once nothing else can happen, it passes at once.
pub const EVER: Duration = Duration::from_secs(3600);

/// What `happening` comes to, or `None` if it never does.
pub async fn eventually<T>(happening: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(EVER, happening).await.ok()
}

/// Text of a duration in a table: to the tenth of a second.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Returns when nothing more can happen unless time passes: on the paused clock a moment passes no sooner.
pub async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
