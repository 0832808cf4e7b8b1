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
    /// The receipt of a stop between two rounds, where no request is pending.
    receipt: Option<Receipt>,
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

    /// Returns the cause if the call was stopped, now or before this pause; else its caller is woken when it is.
    pub(super) fn pause(&self, cx: &Context<'_>) -> Option<Cause> {
        let cause = {
            let mut state = self.lock();
            state.round = None;
            state.waker = Some(cx.waker().clone());
            state.cause.clone()?
        };
        // It may have been stopped while the answer that asks for input lay unread.
        self.stop_between(cause.clone());
        Some(cause)
    }

    /// Notes that the call has ended.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
    }

    /// Notes that the call ends here between two rounds, for this cause, and tells the server so if it wants to know.
    pub(super) fn end_between(&self, cause: Cause) {
        self.stop_between(cause);
        self.end();
    }

    /// Stops the call if it is between two rounds: the server is told so if it wants to know, and the receipt says whether
    /// it was (D28). The first stop stays.
    fn stop_between(&self, cause: Cause) {
        let waiting = {
            let state = self.lock();
            if state.is_over || state.round.is_some() || state.receipt.is_some() {
                return;
            }
            state.waiting.as_ref().and_then(Weak::upgrade)
        };
        let asked = self.shared.now();
        let is_told = waiting.is_some_and(|waiting| waiting.abandon());
        let (outcome, written) = if is_told { (Outcome::Sent, Some(asked)) } else { (Outcome::NotSendable, None) };
        self.lock().receipt.get_or_insert(Receipt { cause, asked, written, outcome });
    }

    fn lock(&self) -> MutexGuard<'_, RoundsStopRecord> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stoppable for RoundsStopState {
    /// Cancels the pending round. Between two rounds no request is pending: the open questions are closed, whether the call
    /// is polled or not, the server is not asked again, and it is told so if it wants to know.
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture {
        {
            let mut state = self.lock();
            if !state.is_over {
                // The first cause stays (D19).
                state.cause.get_or_insert_with(|| cause.clone());
            }
        }
        // Before the questions end: one that ends may end the whole call, on another thread.
        self.stop_between(cause.clone());
        let (round, receipt, waker, questions) = {
            let mut state = self.lock();
            let questions = std::mem::take(&mut state.questions);
            (state.round.clone(), state.receipt.clone(), state.waker.take(), questions)
        };
        for question in questions {
            drop(question.cancel_for(cause.clone()));
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        match (receipt, round, grace) {
            (Some(receipt), _, _) => ReceiptFuture::known(receipt),
            (None, Some(round), None) => round.cancel_for(cause),
            (None, Some(round), Some(grace)) => round.cancel_for_and_wait(cause, grace),
            (None, None, _) => {
                let asked = self.shared.now();
                let receipt = Receipt { cause, asked, written: None, outcome: Outcome::CompletedFirst };
                ReceiptFuture::known(receipt)
            }
        }
    }

    /// The receipt of a stop between two rounds, or of the latest round.
    fn receipt(&self) -> Option<Receipt> {
        let (receipt, round) = {
            let state = self.lock();
            (state.receipt.clone(), state.round.clone())
        };
        receipt.or_else(|| round?.receipt())
    }
}

impl fmt::Debug for RoundsStopState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Stop").field("round", &state.round).field("cause", &state.cause).finish_non_exhaustive()
    }
}
