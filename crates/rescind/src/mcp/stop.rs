//! Stopping a call and all its rounds.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Waker},
    time::Duration,
};

use super::input::PendingRetry;
use crate::peer::{Cause, Outcome, Peer, Receipt, ReceiptFuture, StopHandle, Stoppable, shared::PeerShared};

/// The state that a call in rounds and its stop handles share.
pub(super) struct RoundsStopState {
    /// Not a `Peer`: a stop handle must not keep the connection open.
    shared: Arc<PeerShared>,
    state: Mutex<RoundsStopRecord>,
}

#[derive(Default)]
struct RoundsStopRecord {
    /// The round that is pending.
    round: Option<StopHandle>,
    /// Between two rounds: the stop handles of the open questions, and the server's handler if it wants to be told.
    questions: Vec<StopHandle>,
    waiting: Option<Weak<PendingRetry>>,
    is_over: bool,
    /// The cause of its stop.
    cause: Option<Cause>,
    /// The waker of the caller, between two rounds.
    waker: Option<Waker>,
}

impl RoundsStopState {
    /// Makes the state of a call that is in no round yet.
    pub(super) fn new(peer: &Peer) -> Self {
        Self { shared: Arc::clone(peer.shared()), state: Mutex::default() }
    }

    /// Begins a round, or returns the cause if the call was stopped since its caller last looked.
    pub(super) fn begin(&self, round: StopHandle) -> Result<(), Cause> {
        let mut state = self.lock();
        match &state.cause {
            Some(cause) => Err(cause.clone()),
            None => {
                state.round = Some(round);
                (state.questions, state.waiting) = (Vec::new(), None);
                Ok(())
            }
        }
    }

    /// Notes that the server waits for input, with these questions open.
    pub(super) fn enter(&self, questions: Vec<StopHandle>, waiting: Option<&Arc<PendingRetry>>) {
        let mut state = self.lock();
        state.round = None;
        (state.questions, state.waiting) = (questions, waiting.map(Arc::downgrade));
    }

    /// Returns the cause if the call was stopped between two rounds; else its caller is woken when it is.
    pub(super) fn pause(&self, cx: &Context<'_>) -> Option<Cause> {
        let mut state = self.lock();
        state.round = None;
        state.waker = Some(cx.waker().clone());
        state.cause.clone()
    }

    /// Notes that the call has ended.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
    }

    fn lock(&self) -> MutexGuard<'_, RoundsStopRecord> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stoppable for RoundsStopState {
    /// Cancels the pending round. Between two rounds no request is pending: the open questions are closed, whether the call
    /// is polled or not, the server is not asked again, and it is told so if it wants to know.
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture {
        let (round, is_over, waker, questions, waiting) = {
            let mut state = self.lock();
            if !state.is_over {
                // The first cause stays (D19).
                state.cause.get_or_insert_with(|| cause.clone());
            }
            let questions = std::mem::take(&mut state.questions);
            (state.round.clone(), state.is_over, state.waker.take(), questions, state.waiting.clone())
        };
        for question in questions {
            drop(question.cancel_for(cause.clone()));
        }
        let is_told = waiting.and_then(|waiting| waiting.upgrade()).is_some_and(|waiting| waiting.abandon());
        if let Some(waker) = waker {
            waker.wake();
        }
        match (round, grace) {
            (Some(round), None) => round.cancel_for(cause),
            (Some(round), Some(grace)) => round.cancel_for_and_wait(cause, grace),
            (None, _) => {
                let outcome = match (is_over, is_told) {
                    (true, _) => Outcome::CompletedFirst,
                    (false, true) => Outcome::Sent,
                    (false, false) => Outcome::NotSendable,
                };
                ReceiptFuture::known(&self.shared, cause, outcome)
            }
        }
    }

    /// The receipt of the latest round.
    fn receipt(&self) -> Option<Receipt> {
        self.lock().round.as_ref()?.receipt()
    }
}

impl fmt::Debug for RoundsStopState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Stop").field("round", &state.round).field("cause", &state.cause).finish_non_exhaustive()
    }
}
