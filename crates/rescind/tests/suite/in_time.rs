//! A limit on what a test waits for, so that a fault fails it and does not hang it.

use std::{future::Future, time::Duration};

/// Waits for what is to come without the test doing anything more. Panics if nothing else can happen for ten days on a
/// paused clock, or after a minute on one that runs. A paused clock does not wait for other processes, so neither does this.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(if clock_is_paused() { 10 * 24 * 3600 } else { 60 });
    tokio::time::timeout(limit, future).await.expect("it never comes")
}

/// Whether the clock of this test stands while the processor's goes on.
fn clock_is_paused() -> bool {
    let (of_the_test, of_the_processor) = (tokio::time::Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == of_the_processor {}
    tokio::time::Instant::now() == of_the_test
}
