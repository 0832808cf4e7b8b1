//! Stopping a call from outside its caller, and the receipt of that (D28).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{OutgoingKey, Settlement},
    receipt::{Outcome, Receipt},
    time::Instant,
};

use super::shared::{PeerShared, PeerState};

/// The state that a call and its stop handles share.
pub(crate) struct StopState {
    shared: Arc<PeerShared>,
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

/// A handle that stops one call from anywhere, while another task awaits it. A call in several rounds is stopped in
/// whichever round it is.
///
/// Clones stop the same call. Dropping a handle does nothing; a handle may outlive its call.
#[derive(Clone)]
pub struct StopHandle {
    call: Arc<dyn Stoppable>,
}

/// A call that a stop handle stops.
pub(crate) trait Stoppable: fmt::Debug + Send + Sync {
    /// Cancels it; with a grace its caller still waits that long for the answer.
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture;

    /// The receipt of its cancel so far.
    fn receipt(&self) -> Option<Receipt>;
}

impl StopHandle {
    pub(crate) fn new(call: Arc<dyn Stoppable>) -> Self {
        Self { call }
    }

    /// Cancels the call, for a reason that a person or the caller chose. It goes on the wire where the protocol has a
    /// place for it (D20). An empty reason is none.
    ///
    /// The caller gets [`CallError::Cancelled`](super::CallError::Cancelled) at once; the peer is sent the cancel as soon
    /// as the pipe allows. The receipt can be awaited or dropped: the cancel stands.
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel(&self, reason: &str) -> ReceiptFuture {
        self.cancel_for(cause(reason))
    }

    /// Cancels the call, and lets its caller wait up to `grace` for the peer's answer (D4).
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel_and_wait(&self, reason: &str, grace: Duration) -> ReceiptFuture {
        self.cancel_for_and_wait(cause(reason), grace)
    }

    /// Cancels the call for a cause other than its caller: an operator, a policy.
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel_for(&self, cause: Cause) -> ReceiptFuture {
        Arc::clone(&self.call).stop(cause, None)
    }

    /// Cancels the call for a cause other than its caller, and lets its caller wait up to `grace` for the peer's answer.
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel_for_and_wait(&self, cause: Cause, grace: Duration) -> ReceiptFuture {
        Arc::clone(&self.call).stop(cause, Some(grace))
    }

    /// The receipt of the cancel so far; `None` if there was no cancel.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        self.call.receipt()
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopHandle").field(&self.call).finish()
    }
}

impl Stoppable for StopState {
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture {
        let shared = &self.shared;
        let now = shared.now();
        let key = {
            let mut stop_state = self.lock();
            if stop_state.key.is_none() && stop_state.over.is_none() {
                stop_state.early.get_or_insert_with(|| cause.clone());
                stop_state.receipt.get_or_insert_with(|| never_sent(cause.clone(), now));
            }
            stop_state.key
        };
        if let Some(key) = key {
            {
                let conn = &mut shared.lock().conn;
                match grace {
                    Some(grace) => conn.cancel_and_wait(now, key, cause.clone(), grace),
                    None => conn.cancel(now, key, cause.clone()),
                };
            }
            shared.notify_driver();
            if !shared.is_driven() {
                shared.settle_undriven();
            }
        }
        ReceiptFuture { stop_state: self, cause, asked: now }
    }

    fn receipt(&self) -> Option<Receipt> {
        self.lock().receipt.clone()
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

/// A future of the receipt of a cancel (D28).
///
/// It is ready when nothing more can become known: at the peer's answer, where the protocol confirms a cancel (ACP, LSP);
/// when the cancel was written, where it does not (MCP); at once if the call was over or was never sent. At the latest it
/// is ready when the connection ends or forgets the request: after ten minutes by default, sooner while more than 4,096
/// cancelled calls are unanswered. Dropping it does not take the cancel back.
pub struct ReceiptFuture {
    stop_state: Arc<StopState>,
    cause: Cause,
    asked: Instant,
}

impl ReceiptFuture {
    /// A receipt that is known already.
    #[cfg(feature = "mcp")]
    pub(crate) fn known(shared: &Arc<PeerShared>, receipt: Receipt) -> Self {
        let stop_state = StopState::of_ended(Arc::clone(shared));
        let (cause, asked) = (receipt.cause.clone(), receipt.asked);
        stop_state.lock().receipt = Some(receipt);
        Self { stop_state, cause, asked }
    }
}

impl Future for ReceiptFuture {
    type Output = Receipt;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Receipt> {
        let mut stop_state = self.stop_state.lock();
        let made_up = |outcome| Receipt { cause: self.cause.clone(), asked: self.asked, written: None, outcome };
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
        found.map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for ReceiptFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptFuture").field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl StopRecord {
    const fn is_settled(&self, outcome: Outcome) -> bool {
        outcome.is_final() || self.is_forgotten || matches!(outcome, Outcome::Sent) && !self.confirms
    }
}

impl StopState {
    pub(crate) fn new(shared: Arc<PeerShared>) -> Arc<Self> {
        Arc::new(Self { shared, state: Mutex::default() })
    }

    /// The state of a request that was made, in this slot.
    pub(crate) fn of_sent(shared: &Arc<PeerShared>, at: u32) -> Arc<Self> {
        let stop_state = Self::new(Arc::clone(shared));
        let mut state = shared.lock();
        let PeerState { conn, calls, stop_states, .. } = &mut *state;
        match (calls.key(at), calls.end(at)) {
            (Some(key), _) => {
                stop_state.made(key, !conn.dialect().is_silent());
                conn.watch(key);
                stop_states.insert(key, Arc::clone(&stop_state));
            }
            (None, Some(how)) => drop(stop_state.over(how)),
            (None, None) => drop(stop_state.over(&Settlement::Closed)),
        }
        drop(state);
        stop_state
    }

    /// The state of a request that is over.
    pub(crate) fn of_ended(shared: Arc<PeerShared>) -> Arc<Self> {
        let stop_state = Self::new(shared);
        drop(stop_state.over(&Settlement::Closed));
        stop_state
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

/// The cause of a cancel that a caller asked for, with its reason.
pub(crate) fn cause(reason: &str) -> Cause {
    let cause = Cause::new(CauseCode::Caller);
    if reason.is_empty() { cause } else { cause.with_text(reason) }
}

const fn never_sent(cause: Cause, asked: Instant) -> Receipt {
    Receipt { cause, asked, written: None, outcome: Outcome::NeverSent }
}
