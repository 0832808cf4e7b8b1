//! The state that a task call, its flow and its stop handles share.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use rescind::peer::{Cause, CauseCode, Outcome, Peer};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::TaskCallError;
use crate::{TaskId, followed::lock};

/// The future of a [`TaskFlow`](super::flow::TaskFlow).
pub(super) type FlowFuture = Pin<Box<dyn Future<Output = Result<Box<RawValue>, TaskCallError>> + Send>>;

/// Who polls the flow: its call until a stop is requested, then the driver of its connection.
///
/// The call may be polling the flow while another thread requests the stop. Then the flow is not here to be released,
/// and the call releases it after the poll.
#[derive(Default)]
pub(super) struct StopState {
    state: Mutex<State>,
    flow: Mutex<Option<(Peer, FlowFuture)>>,
}

#[derive(Default)]
struct State {
    /// The request was made.
    has_begun: bool,
    stop: Option<Stop>,
    /// What a stop has come to, or what one that comes now finds. Nothing more will be learnt.
    end: Option<Outcome>,
    task: Option<TaskId>,
    /// How often the server showed a new state of the task.
    updates: u64,
    /// The task is waiting for an answer: the response clock stands still.
    is_asking: bool,
    receipt: Option<TaskReceipt>,
    caller: Option<Waker>,
    waiters: Vec<Waker>,
}

#[derive(Debug)]
struct Stop {
    cause: Cause,
    requested: Instant,
    /// The caller's error, until it was returned.
    error: Option<TaskCallError>,
}

/// What came of stopping a task, in the terms of D28: what was observed, and never more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskReceipt {
    /// Who asked, and why. Its text stays here, since `tasks/cancel` has no place for it.
    pub cause: Cause,
    /// The task, if it was known by then.
    pub task: Option<TaskId>,
    /// What is known of the cancel:
    ///
    /// - `never_sent`: the request had not been sent, or was withdrawn.
    /// - `not_sendable`: the server does not support cancelling tasks (TASK-11), or the handle never came.
    /// - `asked`: `tasks/cancel` is waiting to be written, or was withdrawn after waiting too long.
    /// - `sent`: nothing shows whether the task stops; see [`acknowledged`](Self::acknowledged).
    /// - `confirmed`: the server shows the task as cancelled (2025-11-25: TASK-03). Its work may still run (TASK-05).
    /// - `completed_first`: the task had ended by itself.
    /// - `answered_after`: the answer to the request was a result, not a task; or the answer to `tasks/cancel` did not
    ///   show a cancelled task.
    /// - `unknown`: the connection ended first.
    pub outcome: Outcome,
    /// The server acknowledged the cancel, and nothing more: all that the extension offers (TASK-21).
    pub acknowledged: bool,
}

impl StopState {
    /// Requests the stop. The first request decides the cause; returns whether this was the first, and not too late.
    ///
    /// The caller sees to it that the flow is [released](Self::release).
    pub(super) fn request(&self, cause: Cause, error: TaskCallError) -> bool {
        let mut state = lock(&self.state);
        if state.stop.is_some() || state.end.is_some() {
            return false;
        }
        let outcome = if state.has_begun { Outcome::Asked } else { Outcome::NeverSent };
        if !state.has_begun {
            state.end = Some(outcome);
        }
        state.receipt =
            Some(TaskReceipt { cause: cause.clone(), task: state.task.clone(), outcome, acknowledged: false });
        state.stop = Some(Stop { cause, requested: Instant::now(), error: Some(error) });
        true
    }

    pub(super) fn is_requested(&self) -> bool {
        lock(&self.state).stop.is_some()
    }

    /// Returns the cause of the stop and when it was requested.
    pub(super) fn requested(&self) -> Option<(Cause, Instant)> {
        lock(&self.state).stop.as_ref().map(|stop| (stop.cause.clone(), stop.requested))
    }

    /// Returns the caller's error if a stop was requested.
    pub(super) fn error(&self) -> Option<TaskCallError> {
        let mut state = lock(&self.state);
        state.stop.as_mut().map(|stop| stop.error.take().unwrap_or(TaskCallError::AlreadyEnded))
    }

    pub(super) fn begin(&self, peer: Peer, flow: FlowFuture) {
        lock(&self.state).has_begun = true;
        *lock(&self.flow) = Some((peer, flow));
    }

    /// Polls the flow for its caller, without a lock: it runs the caller's callbacks.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Box<RawValue>, TaskCallError>> {
        let old = lock(&self.state).caller.replace(cx.waker().clone());
        drop(old);
        let taken = lock(&self.flow).take();
        let Some((peer, mut flow)) = taken else { return Poll::Ready(Err(TaskCallError::AlreadyEnded)) };
        let polled = flow.as_mut().poll(cx);
        if polled.is_pending() {
            *lock(&self.flow) = Some((peer, flow));
            if self.is_requested() {
                self.release();
            }
        }
        polled
    }

    /// Hands the flow to the driver of its connection, which polls it to its end. It is polled once before this returns.
    pub(super) fn release(&self) {
        let taken = lock(&self.flow).take();
        if let Some((peer, flow)) = taken {
            peer.drive(async move { drop(flow.await) });
        }
    }

    /// Drops the flow, for a detached call.
    pub(super) fn forget(&self) {
        let taken = lock(&self.flow).take();
        drop(taken);
    }

    /// Records that the server showed a state of the task.
    pub(super) fn record_state(&self, task: &TaskId, is_asking: bool) {
        let mut state = lock(&self.state);
        state.task.get_or_insert_with(|| task.clone());
        state.updates += 1;
        state.is_asking = is_asking;
    }

    /// Returns how often the server showed a new state, `None` while the task is waiting for an answer; and whether the
    /// task is known.
    pub(super) fn updates(&self) -> (Option<u64>, bool) {
        let state = lock(&self.state);
        ((!state.is_asking).then_some(state.updates), state.task.is_some())
    }

    pub(super) fn task(&self) -> Option<TaskId> {
        lock(&self.state).task.clone()
    }

    /// Records the end, once: of the stop if one was requested, otherwise of the call.
    pub(super) fn settle(&self, outcome: Outcome, acknowledged: bool) {
        let waiters = {
            let mut state = lock(&self.state);
            if state.end.is_some() {
                return;
            }
            state.end = Some(outcome);
            let task = state.task.clone();
            if let Some(receipt) = &mut state.receipt {
                (receipt.outcome, receipt.acknowledged, receipt.task) = (outcome, acknowledged, task);
            }
            mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }
}

/// Stops one task call from anywhere, and knows its task.
///
/// Clones stop the same call. Dropping a handle does nothing. It may outlive the call.
#[derive(Clone)]
pub struct TaskStopHandle {
    pub(super) stop: Arc<StopState>,
}

impl TaskStopHandle {
    /// Cancels the call, and its task: with `tasks/cancel`, never with a notification (MCP-C13).
    ///
    /// The call ends at once. If the task's id is not known yet, `tasks/cancel` follows as soon as it is (D38). The
    /// receipt can be awaited or dropped; the cancel stands.
    #[must_use = "the receipt says what came of it; dropping it does not withdraw the cancel"]
    pub fn cancel(&self, reason: &str) -> TaskReceiptFuture {
        let cause = Cause::new(CauseCode::Caller);
        self.cancel_for(if reason.is_empty() { cause } else { cause.with_text(reason) })
    }

    /// Cancels the call for a cause other than its caller, such as an operator or a policy.
    #[must_use = "the receipt says what came of it; dropping it does not withdraw the cancel"]
    pub fn cancel_for(&self, cause: Cause) -> TaskReceiptFuture {
        if self.stop.request(cause.clone(), TaskCallError::Cancelled(cause.clone())) {
            let caller = lock(&self.stop.state).caller.take();
            if let Some(caller) = caller {
                caller.wake();
            }
            self.stop.release();
        }
        TaskReceiptFuture { stop: Arc::clone(&self.stop), cause }
    }

    /// Returns the task of the call once it is known, also after the call.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.stop.task()
    }

    /// Returns what is known of the cancel so far; `None` if there was none.
    #[must_use]
    pub fn receipt(&self) -> Option<TaskReceipt> {
        lock(&self.stop.state).receipt.clone()
    }
}

impl fmt::Debug for TaskStopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.stop.state);
        f.debug_struct("TaskStopHandle")
            .field("task", &state.task)
            .field("receipt", &state.receipt)
            .finish_non_exhaustive()
    }
}

/// The future of a [`TaskReceipt`].
///
/// It is ready when nothing more can be learnt: after the answer to `tasks/cancel`, at the end of the connection, or when
/// the server has not answered in time (30 s, after at most 60 s for the handle of a task). Dropping it does not withdraw
/// the cancel.
pub struct TaskReceiptFuture {
    stop: Arc<StopState>,
    cause: Cause,
}

impl Future for TaskReceiptFuture {
    type Output = TaskReceipt;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskReceipt> {
        let mut state = lock(&self.stop.state);
        let Some(outcome) = state.end else {
            if !state.waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
                state.waiters.push(cx.waker().clone());
            }
            return Poll::Pending;
        };
        Poll::Ready(state.receipt.clone().unwrap_or_else(|| {
            let (cause, task) = (self.cause.clone(), state.task.clone());
            TaskReceipt { cause, task, outcome, acknowledged: false }
        }))
    }
}

impl fmt::Debug for TaskReceiptFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskReceiptFuture").field("cause", &self.cause).finish_non_exhaustive()
    }
}
