//! Ends a process in which nothing happens any more: the library in it is
//! wedged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// How a process exits that this has ended.
pub(crate) const WEDGED: i32 = 3;

/// Says that something has happened.
pub(crate) fn progress() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// From here on, `patience` without [`progress`] ends this process with [`WEDGED`].
pub(crate) fn start(patience: Duration) {
    std::thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(patience / 20);
            let now = PROGRESS.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > patience {
                std::process::exit(WEDGED);
            }
        }
    });
}
