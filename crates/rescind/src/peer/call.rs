//! A request of ours, as a future.
//!
//! It is sent when it is first polled, or by `send`, and its clocks run since it was made: so the settings that follow
//! `request` need no second pass over a queued frame, and one lock suffices for a call. Order beside notifications is the
//! caller's: `send` first. While there is no driver yet, calls that wait run the engine's clocks themselves.

use std::{
    borrow::Cow,
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind_proto::{
    cause::Cause,
    connection::{CallOptions, Limit, Settlement},
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{
    Peer,
    error::{CallError, CallMisuse, UnreadableAnswer},
    json_text,
    on_token::OnToken,
    progress_report::ProgressReport,
    receipt::{ReceiptFuture, StopHandle, cause},
    shared::running_request::{Hook, RunningRequest},
    slots::{OnProgress, Rare},
    stop_state::StopState,
    trace::CallSpan,
};
use crate::alarm::Alarm;

/// One request of ours, in flight or about to be: a future of its result.
///
/// It is sent when it is first polled, or by [`send`](Self::send); its clocks run from when it was made (D16). While it
/// is not polled, its answer waits.
///
/// # Dropping it
///
/// cancels the request (D14): before `drop` returns, the cancel is queued behind the request, or the request is
/// taken back if none of it has been written. Nothing is lost while the connection's [`Driver`](super::Driver)
/// lives, and `drop` does not block. [`detach`](Self::detach) opts out.
///
/// # Inside a handler
///
/// a call is a child of the request being handled (D26): it is cancelled with it, and has no more time than it.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<R> {
    peer: Peer,
    state: CallState,
    extras: OnceLock<Box<CallExtras>>,
    result: PhantomData<fn() -> R>,
}

// A million of them wait at once.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Call<()>>() <= 40);

enum CallState {
    Draft(Box<Draft>),
    /// Its slot.
    Sent(u32),
    /// Sent; dropping the call does not cancel it.
    Detached(u32),
    Failed(Box<CallError>),
    Over,
}

/// A request that was made and not yet handed to the engine.
struct Draft {
    method: Cow<'static, str>,
    params: Vec<u8>,
    options: CallOptions,
    on_progress: Option<OnProgress>,
    parent: Option<Arc<RunningRequest>>,
    is_detached: bool,
}

/// Settings that few callers use.
#[derive(Default)]
struct CallExtras {
    /// The state shared with its stop handles, once there is one.
    stop_state: OnceLock<Arc<StopState>>,
    token: Option<Arc<OnToken>>,
    reason: Box<str>,
    /// Its clock while the connection has no driver.
    alarm: Option<Alarm>,
}

impl<R> Call<R> {
    pub(crate) fn new(
        peer: Peer,
        method: Cow<'static, str>,
        params: Result<Vec<u8>, serde_json::Error>,
        parent: Option<Arc<RunningRequest>>,
    ) -> Self {
        let state = match params {
            Ok(params) => {
                let options = CallOptions { since: Some(peer.shared().now()), ..CallOptions::default() };
                let on_progress = None;
                CallState::Draft(Box::new(Draft { method, params, options, on_progress, parent, is_detached: false }))
            }
            Err(error) => CallState::Failed(Box::new(CallError::Misuse(CallMisuse::Params(error)))),
        };
        Self { peer, state, extras: OnceLock::new(), result: PhantomData }
    }

    /// Limits the time until the answer (D16), in place of the dialect's default. No effect once it is sent.
    pub fn response_timeout(self, limit: Duration) -> Self {
        self.with(|draft| draft.options.response_timeout = Limit::After(limit))
    }

    /// Limits the time until the answer, regardless of progress (MCP-T05), in place of the dialect's default. No effect
    /// once it is sent.
    pub fn total_timeout(self, limit: Duration) -> Self {
        self.with(|draft| draft.options.total_timeout = Limit::After(limit))
    }

    /// Stops both clocks; the time left to the request that this one serves still counts. No effect once it is sent.
    pub fn without_timeouts(self) -> Self {
        self.with(|draft| {
            draft.options.response_timeout = Limit::Never;
            draft.options.total_timeout = Limit::Never;
        })
    }

    /// Asks the peer for progress. Each report is passed to `on_progress` in the order of the wire and restarts the
    /// response clock (MCP-T04), never the total clock. No effect once it is sent.
    ///
    /// The driver calls `on_progress`: do nothing slow in it.
    pub fn progress(self, on_progress: impl FnMut(ProgressReport) + Send + 'static) -> Self {
        self.with(|draft| {
            draft.options.reset_on_progress = true;
            draft.on_progress = Some(Box::new(on_progress));
        })
    }

    /// Cancels the call when `token` fires. If it fires before the call is sent, nothing is sent at all.
    ///
    /// The token counts from when the call is sent until the call is dropped, whether the call is polled or not. A call
    /// has one token: the last that was set.
    pub fn token(mut self, token: CancellationToken) -> Self {
        let stop = self.handle();
        let (on_token, earlier) = self.change_extras(|extras| {
            let on_token = OnToken::new(token, stop, &extras.reason);
            let earlier = extras.token.replace(Arc::clone(&on_token));
            (on_token, earlier)
        });
        if !matches!(self.state, CallState::Draft(_)) {
            on_token.arm();
        }
        if let Some(earlier) = earlier {
            earlier.forget();
        }
        self
    }

    /// Sets the reason that the peer receives if the call is dropped or its token fires. It goes on the wire where the
    /// protocol has a place for it (D20).
    pub fn reason(mut self, reason: &str) -> Self {
        self.change_extras(|extras| {
            extras.reason = reason.into();
            if let Some(token) = &extras.token {
                token.set_reason(reason);
            }
        });
        self
    }

    /// Sends the request now instead of when it is first polled.
    ///
    /// If the request cannot be made, awaiting the call returns the error.
    pub fn send(mut self) -> Self {
        if matches!(self.state, CallState::Draft(_)) {
            self.make(None);
        }
        self
    }

    /// Sends the request now and detaches it: neither dropping the call nor the end of the request that it serves
    /// cancels it (D14, D26).
    ///
    /// It can still be awaited, and stopped through a [handle](Self::handle). Its own clocks keep running.
    pub fn detach(mut self) -> Self {
        match &mut self.state {
            CallState::Draft(draft) => {
                draft.parent = None;
                draft.is_detached = true;
                self.make(None);
            }
            CallState::Sent(at) => {
                let at = *at;
                let rare = {
                    let mut state = self.peer.shared().lock();
                    match state.calls.key(at) {
                        Some(key) => {
                            state.conn.detach(key);
                            state.calls.orphan(at)
                        }
                        None => None,
                    }
                };
                if let Some((parent, place)) = rare {
                    parent.signal.remove(place);
                }
                self.state = CallState::Detached(at);
            }
            CallState::Detached(_) | CallState::Failed(_) | CallState::Over => {}
        }
        self
    }

    /// Returns a handle that stops this call from elsewhere, while another task awaits it.
    #[must_use]
    pub fn handle(&self) -> StopHandle {
        let shared = self.peer.shared();
        let stop_state = self.extras.get_or_init(Box::default).stop_state.get_or_init(|| match self.state {
            CallState::Draft(_) => Arc::default(),
            CallState::Sent(at) | CallState::Detached(at) => shared.lock().stop_state(at),
            CallState::Failed(_) | CallState::Over => StopState::of_ended(),
        });
        StopHandle::of_call(shared, stop_state)
    }

    /// Cancels the call; see [`StopHandle::cancel`].
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel(self, reason: &str) -> ReceiptFuture {
        self.handle().cancel(reason)
    }

    /// Cancels the call and goes on waiting for the peer's answer, no longer than `grace` (D4).
    ///
    /// The result is the answer if one arrives in time, else [`CallError::Cancelled`].
    pub fn cancel_and_wait(self, reason: &str, grace: Duration) -> Self {
        drop(self.handle().cancel_and_wait(reason, grace));
        self
    }

    /// Takes the end that its caller has not seen, if it has come.
    #[cfg(feature = "mcp")]
    pub(crate) fn receive_end(&mut self) -> Option<Result<R, CallError>>
    where
        R: DeserializeOwned,
    {
        let (CallState::Sent(at) | CallState::Detached(at)) = self.state else { return None };
        let how = self.peer.shared().lock().calls.receive_end(at)?;
        self.state = CallState::Over;
        Some(read(how))
    }

    fn with(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        if let CallState::Draft(draft) = &mut self.state {
            change(draft);
        }
        self
    }

    fn change_extras<T>(&mut self, change: impl FnOnce(&mut CallExtras) -> T) -> T {
        let mut extras = self.extras.take().unwrap_or_default();
        let changed = change(&mut extras);
        self.extras = OnceLock::from(extras);
        changed
    }

    /// The state shared with its stop handles, once there is one.
    fn stop_state(&self) -> Option<&Arc<StopState>> {
        self.extras.get()?.stop_state.get()
    }

    fn cause(&self) -> Cause {
        cause(self.extras.get().map_or("", |extras| &extras.reason))
    }

    /// Hands the draft to the engine.
    fn make(&mut self, waker: Option<Waker>) {
        let CallState::Draft(draft) = mem::replace(&mut self.state, CallState::Over) else { return };
        let Draft { method, mut params, mut options, on_progress, parent, is_detached } = *draft;
        if let Some(token) = self.extras.get().and_then(|extras| extras.token.as_ref()) {
            token.arm();
        }
        if let Some(cause) = self.stop_state().and_then(|stop_state| stop_state.early()) {
            self.state = CallState::Failed(Box::new(CallError::Cancelled(cause)));
            return;
        }
        let shared = self.peer.shared();
        let now = shared.now();
        let span = CallSpan::new(&shared.link, || shared.lock().conn.dialect(), &method, &params);
        let trace = span.as_ref().and_then(|span| span.context());
        let trace = trace.as_ref().or_else(|| parent.as_ref()?.trace());
        if let Some(carried) = trace.and_then(|trace| shared.carried(trace, &params)) {
            params = carried;
        }
        let parent = match parent {
            Some(parent) if Arc::ptr_eq(&parent.shared, shared) => {
                options.parent = Some(parent.key);
                None
            }
            Some(parent) => {
                options.deadline = parent.remaining().map(|left| now + left);
                Some(parent)
            }
            None => None,
        };
        options.is_watched = self.stop_state().is_some();
        // A hook that comes back, and what it hangs on, is run and dropped after the lock.
        let mut late_hook = None;
        let mut state = shared.lock();
        let made = state.conn.request(now, &method, &params, &options);
        let key = match made {
            Ok(key) => key,
            Err(misuse) => {
                drop(state);
                CallSpan::refused(span);
                self.state = CallState::Failed(Box::new(misuse.into()));
                return;
            }
        };
        let id = span.as_ref().and_then(|_| state.conn.id(key));
        let mut rare = on_progress.map(|f| Box::new(Rare { on_progress: Some(f), ..Rare::default() }));
        if let Some(span) = &span {
            rare.get_or_insert_default().span = Some(Arc::clone(span));
        }
        if let Some(parent) = parent {
            match parent.signal.add(Hook::Child(Arc::clone(shared), key)) {
                Ok(place) => rare.get_or_insert_default().parent = Some((parent, place)),
                Err(hook) => late_hook = Some((hook, parent)),
            }
        }
        let is_awaited = waker.is_some();
        let at = state.calls.insert(key, waker, rare);
        if let Some(stop_state) = self.stop_state() {
            let confirms = !state.conn.dialect().is_silent();
            if let Some(cause) = stop_state.made(key, confirms) {
                state.conn.cancel(now, key, cause);
            }
            state.stop_states.insert(key, Arc::clone(stop_state));
        }
        drop(state);
        CallSpan::sent(span, id);
        self.state = if is_detached { CallState::Detached(at) } else { CallState::Sent(at) };
        if let Some((hook, parent)) = late_hook {
            hook.run(&parent.cause_for_children());
        }
        if is_awaited {
            shared.driver_notify.notify();
        } else {
            shared.notify_driver();
        }
    }

    /// While the connection has no driver, its callers see to their clocks themselves.
    fn poll_undriven(&mut self, cx: &mut Context<'_>) {
        if Handle::try_current().is_err() {
            return;
        }
        let shared = self.peer.shared();
        self.extras.get_or_init(Box::default);
        let Some(extras) = self.extras.get_mut() else { return };
        let alarm = extras.alarm.get_or_insert_with(Alarm::new);
        loop {
            let due = shared.lock().conn.poll_timeout();
            if shared.is_driven() || alarm.poll(cx, shared.origin(), due).is_pending() {
                return;
            }
            shared.settle_undriven();
        }
    }
}

impl<R: DeserializeOwned> Future for Call<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if matches!(this.state, CallState::Draft(_)) {
            this.make(Some(cx.waker().clone()));
        }
        match mem::replace(&mut this.state, CallState::Over) {
            CallState::Failed(error) => Poll::Ready(Err(*error)),
            CallState::Over | CallState::Draft(_) => Poll::Ready(Err(CallError::Misuse(CallMisuse::Over))),
            state @ (CallState::Sent(at) | CallState::Detached(at)) => {
                let shared = this.peer.shared();
                // Dropped after the lock.
                let mut old = None;
                let how = shared.lock().calls.poll(at, cx.waker(), &mut old);
                if let Some(how) = how {
                    return Poll::Ready(read(how));
                }
                this.state = state;
                if !shared.is_driven() {
                    this.poll_undriven(cx);
                }
                Poll::Pending
            }
        }
    }
}

impl<R> Drop for Call<R> {
    fn drop(&mut self) {
        if let Some(token) = self.extras.get().and_then(|extras| extras.token.as_ref()) {
            token.forget();
        }
        let shared = self.peer.shared();
        match self.state {
            CallState::Sent(at) => {
                let cause = self.cause();
                let now = shared.now();
                let (key, rare, waker) = {
                    let mut state = shared.lock();
                    let left = state.calls.leave(at);
                    if let Some(key) = left.0 {
                        state.conn.cancel(now, key, cause);
                    }
                    left
                };
                if key.is_some() {
                    shared.notify_driver();
                }
                if let Some((parent, place)) = rare.as_ref().and_then(|rare| rare.parent.as_ref()) {
                    parent.signal.remove(*place);
                }
                drop((rare, waker));
            }
            CallState::Detached(at) => {
                let waker = shared.lock().calls.detach(at);
                drop(waker);
            }
            CallState::Draft(_) | CallState::Failed(_) | CallState::Over => {}
        }
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            CallState::Draft(_) => "not sent",
            CallState::Sent(_) => "sent",
            CallState::Detached(_) => "detached",
            CallState::Failed(_) => "failed",
            CallState::Over => "over",
        };
        f.debug_struct("Call").field("state", &state).finish_non_exhaustive()
    }
}

fn read<R: DeserializeOwned>(how: Settlement) -> Result<R, CallError> {
    match CallError::of(how) {
        Ok(error) => Err(error),
        Err(result) => json_text::read(&result).map_err(|error| CallError::Unreadable(UnreadableAnswer::Decode(error))),
    }
}
