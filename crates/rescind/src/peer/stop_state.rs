//! What is known of a call that can be stopped from elsewhere, and of its cancel.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use rescind_proto::{
    cause::Cause,
    connection::{OutgoingKey, Settlement},
    receipt::{Outcome, Receipt},
    time::Instant,
};

/// The state that a call and its stop handles share.
#[derive(Default)]
pub(crate) struct StopState {
    state: Mutex<StopRecord>,
}

#[derive(Default)]
struct StopRecord {
    /// The engine's key, once the request was made.
    key: Option<OutgoingKey>,
    /// A cancel that came before that.
    early: Option<Cause>,
    receipt: Option<Receipt>,
    /// The end of the call, if it has ended.
    over: Option<HowEnded>,
    /// Whether the protocol answers a cancelled request.
    confirms: bool,
    /// The connection has forgotten the request: nothing more will become known.
    is_forgotten: bool,
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HowEnded {
    Answered,
    Closed,
    Otherwise,
}

impl StopState {
    /// The state of a request that is over.
    pub(crate) fn of_ended() -> Arc<Self> {
        let stop_state = Arc::<Self>::default();
        drop(stop_state.over(&Settlement::Closed));
        stop_state
    }

    /// Notes a cancel, and returns the engine's key if the request was made.
    pub(crate) fn asked(&self, cause: &Cause, now: Instant) -> Option<OutgoingKey> {
        let mut stop_state = self.lock();
        if stop_state.key.is_none() && stop_state.over.is_none() {
            stop_state.early.get_or_insert_with(|| cause.clone());
            stop_state.receipt.get_or_insert_with(|| never_sent(cause.clone(), now));
        }
        stop_state.key
    }

    /// The receipt of a cancel so far.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        self.lock().receipt.clone()
    }

    /// The receipt of a cancel for this cause, once nothing more can become known; before, the waker is kept.
    pub(crate) fn poll(&self, cx: &Context<'_>, cause: &Cause, asked: Instant) -> Option<Receipt> {
        let mut stop_state = self.lock();
        let made_up = |outcome| Receipt { cause: cause.clone(), asked, written: None, outcome };
        let found = match (&stop_state.receipt, stop_state.over) {
            (Some(receipt), _) if stop_state.is_settled(receipt.outcome) => Some(receipt.clone()),
            (None, Some(HowEnded::Answered)) => Some(made_up(Outcome::CompletedFirst)),
            (None, Some(HowEnded::Closed | HowEnded::Otherwise)) => Some(made_up(Outcome::Unknown)),
            (None, None) if stop_state.is_forgotten => Some(made_up(Outcome::Unknown)),
            (Some(_) | None, _) => None,
        };
        if found.is_none() && !stop_state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            stop_state.wakers.push(cx.waker().clone());
        }
        found
    }

    /// A cancel that came before the request was made.
    pub(crate) fn early(&self) -> Option<Cause> {
        self.lock().early.clone()
    }

    /// Notes that the request was made, and returns a cancel that came before.
    pub(crate) fn made(&self, key: OutgoingKey, confirms: bool) -> Option<Cause> {
        let mut stop_state = self.lock();
        stop_state.key = Some(key);
        stop_state.confirms = confirms;
        stop_state.early.clone()
    }

    /// Updates the receipt, and returns the wakers of those who wait for it.
    #[must_use]
    pub(crate) fn learn(&self, receipt: Receipt) -> Vec<Waker> {
        let mut stop_state = self.lock();
        stop_state.receipt = Some(receipt);
        std::mem::take(&mut stop_state.wakers)
    }

    /// Notes the end of the call. Returns the wakers of those who wait, and whether it ended without a cancel: then nothing
    /// follows.
    #[must_use]
    pub(crate) fn over(&self, how: &Settlement) -> (Vec<Waker>, bool) {
        let mut stop_state = self.lock();
        let over = match how {
            Settlement::Result(_) | Settlement::PeerError(_) | Settlement::Unreadable(_) => HowEnded::Answered,
            Settlement::Closed | Settlement::Transport(_) => HowEnded::Closed,
            Settlement::Cancelled(_) | Settlement::TimedOut { .. } | Settlement::Ended { .. } => HowEnded::Otherwise,
        };
        stop_state.over = Some(over);
        (std::mem::take(&mut stop_state.wakers), over != HowEnded::Otherwise && stop_state.receipt.is_none())
    }

    /// Notes that nothing more will become known, and returns the wakers of those who wait.
    #[must_use]
    pub(crate) fn forget(&self) -> Vec<Waker> {
        let mut stop_state = self.lock();
        stop_state.is_forgotten = true;
        std::mem::take(&mut stop_state.wakers)
    }

    fn lock(&self) -> MutexGuard<'_, StopRecord> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StopState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop_state = self.lock();
        f.debug_struct("StopState")
            .field("key", &stop_state.key)
            .field("receipt", &stop_state.receipt)
            .finish_non_exhaustive()
    }
}

impl StopRecord {
    const fn is_settled(&self, outcome: Outcome) -> bool {
        outcome.is_final() || self.is_forgotten || matches!(outcome, Outcome::Sent) && !self.confirms
    }
}

const fn never_sent(cause: Cause, asked: Instant) -> Receipt {
    Receipt { cause, asked, written: None, outcome: Outcome::NeverSent }
}
