//! What is said on stderr while requests pass. Whoever started this process may never read it, and then a line that had to be
//! written at once would stop them all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rescind::relay::Stderr;

static STDERR: Mutex<Stderr> = Mutex::new(Stderr::new());

/// Says a line, sooner or later; not at all while megabytes wait to be read.
pub(crate) fn say(line: &str) {
    stderr().write(&format!("{line}\n"));
}

/// Waits until all of it is written, for a second at most: at the end, and before what is written at once.
pub(crate) fn finish() {
    stderr().finish();
}

fn stderr() -> MutexGuard<'static, Stderr> {
    STDERR.lock().unwrap_or_else(PoisonError::into_inner)
}
