//! The cancellation token of one call.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Instant,
};

/// A signal that fires once and wakes its waiters at once.
#[derive(Debug, Default)]
pub(super) struct Token {
    is_cancelled: Mutex<bool>,
    fired: Condvar,
}

impl Token {
    pub(super) fn cancel(&self) {
        *self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.fired.notify_all();
    }

    /// Waits until it fires or `due` is reached, and returns whether it fired.
    pub(super) fn fires_before(&self, due: Instant) -> bool {
        let is_cancelled = self.is_cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = due.saturating_duration_since(Instant::now());
        let waited = self.fired.wait_timeout_while(is_cancelled, patience, |is_cancelled| !*is_cancelled);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
