//! Ends a process in which nothing happens any more: the library in it is
//! wedged.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cell::Outcome;

static PROGRESS: AtomicU64 = AtomicU64::new(0);
static MEASURED: Mutex<Outcome> = Mutex::new(Outcome::Wedged);

/// Says that something has happened.
pub(crate) fn progress() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// What has been measured should nothing happen from here on.
pub(crate) fn keep(outcome: Outcome) {
    *MEASURED.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
}

/// From here on, `patience` without [`progress`] ends this process; what it kept, or that it wedged,
/// is its outcome.
pub(crate) fn start(patience: Duration) {
    std::thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(patience / 20);
            let now = PROGRESS.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > patience {
                let measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
                // Whoever started this process reads an outcome or takes it for a failure.
                let _ = serde_json::to_writer(io::stdout(), &*measured);
                std::process::exit(0);
            }
        }
    });
}
