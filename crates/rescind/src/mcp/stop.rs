//! Stopping a call and all its rounds.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use crate::peer::{Cause, Outcome, Peer, Receipt, ReceiptFuture, StopHandle, Stoppable, shared::Shared};

/// What a call and its stop handles share.
pub(super) struct Stop {
    /// No handle: one that stops a call keeps no connection open.
    shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The round that is pending.
    round: Option<StopHandle>,
    is_over: bool,
    /// Why it is to stop.
    cause: Option<Cause>,
    /// Whoever awaits the call, between two rounds.
    waker: Option<Waker>,
}

impl Stop {
    /// For a call that is in this round, or in none.
    pub(super) fn new(peer: &Peer, round: Option<StopHandle>) -> Self {
        let state = Mutex::new(State { round, ..State::default() });
        Self { shared: Arc::clone(peer.shared()), state }
    }

    /// A round begins; or why it must not, if the call was stopped since its caller last looked.
    pub(super) fn begin(&self, round: StopHandle) -> Result<(), Cause> {
        let mut state = self.lock();
        match &state.cause {
            Some(cause) => Err(cause.clone()),
            None => {
                state.round = Some(round);
                Ok(())
            }
        }
    }

    /// Between two rounds: why the call is to stop, if it is; else its caller is woken when it is.
    pub(super) fn pause(&self, cx: &Context<'_>) -> Option<Cause> {
        let mut state = self.lock();
        state.round = None;
        state.waker = Some(cx.waker().clone());
        state.cause.clone()
    }

    /// The call has ended.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stoppable for Stop {
    /// During a round the server is told. Between two rounds nothing is pending: the open questions are closed, and the
    /// server is not asked again.
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture {
        let (round, is_over, waker) = {
            let mut state = self.lock();
            if !state.is_over {
                // The first cause stays (D19).
                state.cause.get_or_insert_with(|| cause.clone());
            }
            (state.round.clone(), state.is_over, state.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        match (round, grace) {
            (Some(round), None) => round.cancel_for(cause),
            (Some(round), Some(grace)) => round.cancel_for_and_wait(cause, grace),
            (None, _) => {
                let outcome = if is_over { Outcome::CompletedFirst } else { Outcome::NeverSent };
                ReceiptFuture::known(&self.shared, cause, outcome)
            }
        }
    }

    /// That of the latest round.
    fn receipt(&self) -> Option<Receipt> {
        self.lock().round.as_ref()?.receipt()
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Stop").field("round", &state.round).field("cause", &state.cause).finish_non_exhaustive()
    }
}
