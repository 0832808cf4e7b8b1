//! A token that cancels a call, whether the call is polled or not.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Wake, Waker},
};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::receipt::StopHandle;

/// A waker of a token that cancels a call: it needs neither a task nor a call that is polled.
///
/// While it waits, the token keeps it alive, and it keeps its place in the token: [`forget`](Self::forget) ends that.
pub(crate) struct OnToken {
    stop: StopHandle,
    state: Mutex<TokenState>,
}

struct TokenState {
    /// Absent once it has fired or is forgotten.
    fired: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    reason: Box<str>,
}

impl OnToken {
    /// Makes one that waits for nothing until it is [armed](Self::arm).
    pub(crate) fn new(token: CancellationToken, stop: StopHandle, reason: &str) -> Arc<Self> {
        let state = TokenState { fired: Some(Box::pin(token.cancelled_owned())), reason: reason.into() };
        Arc::new(Self { stop, state: Mutex::new(state) })
    }

    /// Sets the reason that the peer receives when the token fires.
    pub(crate) fn set_reason(&self, reason: &str) {
        self.with(|state| state.reason = reason.into());
    }

    /// Cancels the call if the token has fired, and else as soon as it does, on the thread that fires it.
    pub(crate) fn arm(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let reason = self.with(|state| {
            let polled = state.fired.as_mut()?.as_mut().poll(&mut Context::from_waker(&waker));
            polled.is_ready().then(|| (state.fired.take(), state.reason.clone()))
        });
        if let Some((_, reason)) = reason {
            drop(self.stop.cancel(&reason));
        }
    }

    /// Ends the wait, since the call is over.
    pub(crate) fn forget(&self) {
        // Dropped without the lock: it may hold the last reference to this.
        let fired = self.with(|state| state.fired.take());
        drop(fired);
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut TokenState) -> T) -> T {
        use_it(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for OnToken {
    fn wake(self: Arc<Self>) {
        self.arm();
    }
}
