//! What everything in the soak shares: chance, and counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Semaphore;

/// A small source of numbers: the same seed, the same numbers.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) const fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// What all connections share.
pub(crate) struct World {
    /// Handlers, linked tasks and threads that are there.
    pub(crate) here: AtomicUsize,
    pub(crate) calls: AtomicUsize,
    pub(crate) handlers: AtomicUsize,
    pub(crate) links: AtomicUsize,
    pub(crate) children: AtomicUsize,
    /// So few at once that the machine can start them in time.
    pub(crate) processes: Semaphore,
    pub(crate) threads: Semaphore,
    /// In the environment of our children alone, and of what they start.
    pub(crate) mark: String,
}

/// Held by work; dropped when it is gone.
pub(crate) struct Here(Arc<World>);

impl World {
    pub(crate) fn enter(self: &Arc<Self>) -> Here {
        self.here.fetch_add(1, Ordering::SeqCst);
        Here(Arc::clone(self))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.here.fetch_sub(1, Ordering::SeqCst);
    }
}
