//! What a task call, what it does, and its stop handles share.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use rescind::peer::{Cause, CauseCode, Outcome};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{TaskCallError, unattended};
use crate::TaskId;

/// What a call does, from its request to the task's end.
pub(super) type Course = Pin<Box<dyn Future<Output = Result<Box<RawValue>, TaskCallError>> + Send>>;

#[derive(Default)]
pub(super) struct Slip {
    state: Mutex<State>,
    /// Polled by the call, and by nobody's caller once it was stopped.
    course: Mutex<Option<Course>>,
}

#[derive(Default)]
struct State {
    /// Its request was made.
    has_begun: bool,
    /// It has ended without a stop.
    end: Option<Outcome>,
    stop: Option<Stop>,
    task: Option<TaskId>,
    /// Counts what the server showed of the task.
    signs: u64,
    /// Somebody is being asked: that takes as long as it takes.
    is_asking: bool,
    receipt: Option<TaskReceipt>,
    /// Nothing more will be learnt.
    is_final: bool,
    caller: Option<Waker>,
    waiters: Vec<Waker>,
}

#[derive(Debug)]
struct Stop {
    cause: Cause,
    asked: Instant,
    /// What the caller is told, until it was.
    why: Option<TaskCallError>,
}

/// What came of stopping a task, in the words of D28: what was observed and never more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskReceipt {
    /// Who asked, and why. The words stay here: `tasks/cancel` has no place for them.
    pub cause: Cause,
    /// The task, if it was known by then.
    pub task: Option<TaskId>,
    /// What is known of it:
    ///
    /// - `never_sent`: the request had not been sent, or was taken back.
    /// - `not_sendable`: the server lets no task be cancelled (TASK-11), or its handle never came.
    /// - `asked`: `tasks/cancel` waits to be written, or waited so long that it was taken back.
    /// - `sent`: nothing shows whether the task stops; see [`acknowledged`](Self::acknowledged).
    /// - `confirmed`: the server shows the task as cancelled (2025-11-25: TASK-03). The work is its affair (TASK-05).
    /// - `completed_first`: the task had ended by itself.
    /// - `answered_after`: the request was answered at once and so was no task, or `tasks/cancel` was answered with
    ///   something else than the cancelled task.
    /// - `unknown`: the connection ended first.
    pub outcome: Outcome,
    /// The server has said that it received the wish, and nothing else: all that the extension offers (TASK-21).
    pub acknowledged: bool,
}

impl Slip {
    /// Asks it to stop; the first to ask decides why. Whoever calls this sees to it that the course is polled.
    pub(super) fn stop(&self, cause: Cause, why: TaskCallError) -> bool {
        let mut state = self.lock();
        if state.stop.is_some() || state.end.is_some() {
            return false;
        }
        let outcome = if state.has_begun { Outcome::Asked } else { Outcome::NeverSent };
        state.is_final = !state.has_begun;
        state.receipt =
            Some(TaskReceipt { cause: cause.clone(), task: state.task.clone(), outcome, acknowledged: false });
        state.stop = Some(Stop { cause, asked: Instant::now(), why: Some(why) });
        true
    }

    /// Asks it to stop from outside, and has it done.
    fn stop_and_run(self: &Arc<Self>, cause: Cause) {
        self.stop(cause.clone(), TaskCallError::Cancelled(cause));
        let caller = {
            let mut state = self.lock();
            if state.stop.is_some() { state.caller.take() } else { None }
        };
        if let Some(caller) = caller {
            caller.wake();
        }
        // Who holds it polls it, and looks for a stop when it is done.
        if let Ok(mut course) = self.course.try_lock()
            && self.is_stopped()
        {
            let course = course.take();
            self.run_on(course);
        }
    }

    /// The course goes on without its caller.
    pub(super) fn release(self: &Arc<Self>) {
        let course = self.course.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.run_on(course);
    }

    /// Nobody wants to know how it goes on.
    pub(super) fn forget(&self) {
        let course = self.course.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(course);
        self.ended(Outcome::Unknown);
    }

    fn run_on(self: &Arc<Self>, course: Option<Course>) {
        let Some(course) = course else { return };
        let last = Last(Arc::clone(self));
        unattended::run(Box::pin(async move {
            let _last = last;
            drop(course.await);
        }));
    }

    pub(super) fn begin(&self, course: Course) {
        self.lock().has_begun = true;
        *self.course.lock().unwrap_or_else(PoisonError::into_inner) = Some(course);
    }

    /// Polls the course for its caller. A stop that comes meanwhile is the caller's to see.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Box<RawValue>, TaskCallError>> {
        let known = self.lock().caller.replace(cx.waker().clone());
        drop(known);
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = course.as_mut() else { return Poll::Ready(Err(TaskCallError::Over)) };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            *course = None;
        }
        polled
    }

    /// What the caller is told of a stop; `None` if there was none.
    pub(super) fn stopped(&self) -> Option<TaskCallError> {
        self.lock().stop.as_mut().map(|stop| stop.why.take().unwrap_or(TaskCallError::Over))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stop.is_some()
    }

    /// Who asked for the stop, and when.
    pub(super) fn asked(&self) -> Option<(Cause, Instant)> {
        self.lock().stop.as_ref().map(|stop| (stop.cause.clone(), stop.asked))
    }

    /// The server showed something of the task.
    pub(super) fn saw(&self, task: &TaskId, is_asking: bool) {
        let mut state = self.lock();
        state.task.get_or_insert_with(|| task.clone());
        state.signs += 1;
        state.is_asking = is_asking;
    }

    /// How often the server showed something of the task, unless somebody is being asked; and whether it is a task.
    pub(super) fn signs(&self) -> (Option<u64>, bool) {
        let state = self.lock();
        ((!state.is_asking).then_some(state.signs), state.task.is_some())
    }

    pub(super) fn task(&self) -> Option<TaskId> {
        self.lock().task.clone()
    }

    /// It has ended by itself; a receipt asked for later says so.
    pub(super) fn ended(&self, outcome: Outcome) {
        let waiters = {
            let mut state = self.lock();
            state.end.get_or_insert(outcome);
            mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    /// All that will be learnt of the stop.
    pub(super) fn learn(&self, outcome: Outcome, acknowledged: bool) {
        let waiters = {
            let mut state = self.lock();
            if state.is_final {
                return;
            }
            state.is_final = true;
            let task = state.task.clone();
            if let Some(receipt) = &mut state.receipt {
                (receipt.outcome, receipt.acknowledged, receipt.task) = (outcome, acknowledged, task);
            }
            mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whoever waits for a receipt that nothing more comes, however the course ends.
struct Last(Arc<Slip>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.learn(Outcome::Unknown, false);
    }
}

/// Stops one task call from anywhere, beside whoever awaits it, and knows its task.
///
/// Clones stop the same call. Dropping a handle does nothing; it may outlive the call.
#[derive(Clone)]
pub struct TaskStop {
    pub(super) slip: Arc<Slip>,
}

impl TaskStop {
    /// Cancels the call, and the task that it is or becomes: with `tasks/cancel`, never with a notification
    /// (MCP-C13).
    ///
    /// The caller is told at once. If the task's id is not known yet, the cancel follows as soon as it is (D38). The
    /// receipt can be awaited or dropped: the cancel stands.
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel(&self, reason: &str) -> TaskReceiptFuture {
        let cause = Cause::new(CauseCode::Caller);
        self.cancel_for(if reason.is_empty() { cause } else { cause.with_text(reason) })
    }

    /// Cancels the call for a cause other than its caller: an operator, a policy.
    #[must_use = "the receipt says what came of it; dropping it does not take the cancel back"]
    pub fn cancel_for(&self, cause: Cause) -> TaskReceiptFuture {
        self.slip.stop_and_run(cause.clone());
        TaskReceiptFuture { slip: Arc::clone(&self.slip), cause }
    }

    /// The task that the call became, once that is known; it stays known after the call.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.slip.task()
    }

    /// What is known of the cancel so far; `None` if there was none.
    #[must_use]
    pub fn receipt(&self) -> Option<TaskReceipt> {
        self.slip.lock().receipt.clone()
    }
}

impl fmt::Debug for TaskStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.slip.lock();
        f.debug_struct("TaskStop").field("task", &state.task).field("receipt", &state.receipt).finish_non_exhaustive()
    }
}

/// What came of stopping a task, once it is known.
///
/// Ready when nothing more can be learnt: at the answer to `tasks/cancel`, at the end of the connection, or when the
/// server had time enough to answer (30 s, and 60 s before that for the handle of a task). Dropping it takes nothing
/// back.
pub struct TaskReceiptFuture {
    slip: Arc<Slip>,
    cause: Cause,
}

impl Future for TaskReceiptFuture {
    type Output = TaskReceipt;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskReceipt> {
        let mut state = self.slip.lock();
        if let (Some(receipt), true) = (&state.receipt, state.is_final) {
            return Poll::Ready(receipt.clone());
        }
        if let (None, Some(outcome)) = (&state.receipt, state.end) {
            let (cause, task) = (self.cause.clone(), state.task.clone());
            return Poll::Ready(TaskReceipt { cause, task, outcome, acknowledged: false });
        }
        if !state.waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
            state.waiters.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for TaskReceiptFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskReceiptFuture").field("cause", &self.cause).finish_non_exhaustive()
    }
}
