//! Stopping a call from outside its caller, and the receipt of that (D28).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    receipt::Receipt,
    time::Instant,
};

use super::{shared::PeerShared, stop_state::StopState};

/// A handle that stops one call from anywhere, while another task awaits it. A call in several rounds is stopped in
/// whichever round it is.
///
/// Clones stop the same call. Dropping a handle does nothing; a handle may outlive its call.
#[derive(Clone, Debug)]
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

    /// Makes one for a request that is sent, or will be, on this connection.
    pub(crate) fn of_call(shared: &Arc<PeerShared>, stop_state: &Arc<StopState>) -> Self {
        Self::new(Arc::new(CallToStop { shared: Arc::clone(shared), stop_state: Arc::clone(stop_state) }))
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

/// One request of ours, as its stop handles have it.
#[derive(Debug)]
struct CallToStop {
    shared: Arc<PeerShared>,
    stop_state: Arc<StopState>,
}

impl Stoppable for CallToStop {
    fn stop(self: Arc<Self>, cause: Cause, grace: Option<Duration>) -> ReceiptFuture {
        let shared = &self.shared;
        let now = shared.now();
        let key = self.stop_state.asked(&cause, now);
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
        ReceiptFuture { stop_state: Arc::clone(&self.stop_state), cause, asked: now }
    }

    fn receipt(&self) -> Option<Receipt> {
        self.stop_state.receipt()
    }
}

/// A future of the receipt of a cancel (D28).
///
/// It is ready when nothing more can become known: at the peer's answer, where the protocol confirms a cancel (ACP, LSP);
/// when the cancel has left, where it does not (MCP); as soon as it is known, if the call was over or was never sent. At the latest it
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
    pub(crate) fn known(receipt: Receipt) -> Self {
        let stop_state = StopState::of_ended();
        let (cause, asked) = (receipt.cause.clone(), receipt.asked);
        drop(stop_state.learn(receipt));
        Self { stop_state, cause, asked }
    }
}

impl Future for ReceiptFuture {
    type Output = Receipt;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Receipt> {
        let found = self.stop_state.poll(cx, &self.cause, self.asked);
        found.map_or(Poll::Pending, Poll::Ready)
    }
}

debug_fields!(ReceiptFuture, cause);

/// The cause of a cancel that a caller asked for, with its reason.
pub(crate) fn cause(reason: &str) -> Cause {
    let cause = Cause::new(CauseCode::Caller);
    if reason.is_empty() { cause } else { cause.with_text(reason) }
}
