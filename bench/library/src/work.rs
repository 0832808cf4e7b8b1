//! The work of the handlers, and what it tells of itself: a cancel counts
//! when the work has seen it, not when a table is empty.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// What a handler is asked to do. Every name is as long as the others, so that every line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Answer at once with what was sent.
    Echo,
    /// Work until stopped.
    Wait,
    /// Work until released, then answer with what was sent.
    Hold,
}

impl Verb {
    pub(crate) const ALL: [Self; 3] = [Self::Echo, Self::Wait, Self::Hold];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Wait => "wait",
            Self::Hold => "hold",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

/// What all handlers of one session share with the measurement.
pub(crate) struct Work {
    epoch: Instant,
    /// Handlers of `wait` and `hold` that have begun.
    pub(crate) begun: Gauge,
    /// Handlers of `wait` that have seen their cancel.
    pub(crate) stopped: Gauge,
    last_stop: AtomicU64,
    release: Notify,
}

impl Work {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            begun: Gauge::default(),
            stopped: Gauge::default(),
            last_stop: AtomicU64::new(0),
            release: Notify::new(),
        })
    }

    /// A handler that is told of its cancel: works until `cancelled` is ready.
    pub(crate) async fn wait(&self, cancelled: impl Future<Output = ()>) {
        self.begun.add();
        cancelled.await;
        self.stop();
    }

    /// A handler whose future is dropped when it is cancelled: works for ever.
    pub(crate) async fn wait_to_be_dropped(self: &Arc<Self>) {
        struct StopsWhenDropped(Arc<Work>);
        impl Drop for StopsWhenDropped {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        let _stops = StopsWhenDropped(Arc::clone(self));
        self.begun.add();
        std::future::pending::<()>().await;
    }

    /// Works until [`Work::release`].
    pub(crate) async fn hold(&self) {
        let mut released = pin!(self.release.notified());
        released.as_mut().enable();
        self.begun.add();
        released.await;
    }

    /// Ends every `hold` that has begun.
    pub(crate) fn release(&self) {
        self.release.notify_waiters();
    }

    /// When the last handler saw its cancel.
    pub(crate) fn last_stop(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.last_stop.load(Ordering::Acquire))
    }

    fn stop(&self) {
        let now = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_stop.fetch_max(now, Ordering::Release);
        self.stopped.add();
    }
}

/// A count that one waiter can wait for.
#[derive(Default)]
pub(crate) struct Gauge {
    count: AtomicUsize,
    target: AtomicUsize,
    reached: Notify,
}

impl Gauge {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Ready once `target` were counted. One waiter at a time.
    pub(crate) async fn reach(&self, target: usize) {
        // The target is set before the count is read, and `add` counts before it reads the target: one of the two
        // sees the other.
        self.target.store(target, Ordering::SeqCst);
        while self.count() < target {
            self.reached.notified().await;
        }
    }

    fn add(&self) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if count == self.target.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }
}
