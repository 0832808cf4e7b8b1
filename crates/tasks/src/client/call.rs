//! A call that may become a task, as a future.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind::peer::{self, Cause, CauseCode, Clock, ErrorObject, ProgressReport};
use serde::de::DeserializeOwned;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::time::{Instant, Sleep};

use super::{
    Question, TaskCallError, TaskClient, TaskState, TaskStopHandle,
    flow::{OnInput, OnStatus, Start, TaskFlow},
    stop::StopState,
};
use crate::TaskDialect;

/// One request that may become a task, from its first message to the task's end: a future of its result.
///
/// It is sent when it is first polled, or by [`send`](Self::send). If the server answers with a result, that is the
/// result. If it answers with the handle of a task, the task is polled at the interval that the server wants, or as soon
/// as it sends a [notification](super::TaskNotifications), and the task's result is the result. While the call is not
/// polled, it sends nothing and no clock of it runs out.
///
/// # Dropping it
///
/// Dropping the call cancels the task (D14): `tasks/cancel` is queued before `drop` returns. If the task's id is not
/// known yet, the connection's driver waits for the handle and cancels the task then (D38). It waits for 60 s at most, or
/// 5 s in the extension, where the request is cancelled as well, and the connection stays open meanwhile. A task is never
/// cancelled with a notification (MCP-C13). A request that is still unwritten is withdrawn. [`detach`](Self::detach) opts
/// out.
///
/// # Giving up
///
/// The task is cancelled as well when a clock runs out, when a question has no answer, and when a call about the task
/// fails. After the end of the connection the task goes on, and can be [followed](TaskClient::follow) by its id.
///
/// # Inside a handler
///
/// The call is a child of the request being handled (D26): the task is cancelled with it, and has no more time than it.
#[must_use = "a call does nothing until it is awaited"]
pub struct TaskCall<R> {
    draft: Option<Box<Draft>>,
    failed: Option<TaskCallError>,
    stop: Arc<StopState>,
    clocks: Clocks,
    /// Futures that end the call, with the cause if it is not the caller.
    triggers: Vec<Trigger>,
    reason: Option<Box<str>>,
    is_detached: bool,
    is_over: bool,
    result: PhantomData<fn() -> R>,
}

type Trigger = Pin<Box<dyn Future<Output = Option<Cause>> + Send>>;

/// A call that has not been sent.
pub(super) struct Draft {
    tasks: TaskClient,
    start: Start,
    dialect: Option<TaskDialect>,
    ttl: Option<Duration>,
    on_input: Option<OnInput>,
    on_status: Option<OnStatus>,
}

/// The clocks of a call (D16).
struct Clocks {
    made: Instant,
    response: Option<Duration>,
    /// The caller set the response clock, so it goes on when the task is known.
    is_lasting: bool,
    total: Option<Duration>,
    /// The number of states that the server had shown when the response clock last started.
    updates: u64,
    since: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Draft {
    pub(super) fn new(tasks: TaskClient, start: Start, dialect: Option<TaskDialect>) -> Self {
        Self { tasks, start, dialect, ttl: None, on_input: None, on_status: None }
    }
}

impl<R> TaskCall<R> {
    pub(super) fn new(draft: Draft) -> Self {
        let clocks = Clocks::new(draft.tasks.peer.dialect().clocks.response);
        let mut call = Self::with(Some(Box::new(draft)), None, clocks);
        if let Some(parent) = peer::Context::current() {
            call.triggers.push(Box::pin(async move {
                parent.cancelled().await;
                Some(Cause::parent(parent.cause().map_or(CauseCode::Parent, |cause| cause.root.unwrap_or(cause.code))))
            }));
        }
        call
    }

    pub(super) fn failed(error: TaskCallError) -> Self {
        Self::with(None, Some(error), Clocks::new(None))
    }

    fn with(draft: Option<Box<Draft>>, failed: Option<TaskCallError>, clocks: Clocks) -> Self {
        Self {
            draft,
            failed,
            stop: Arc::default(),
            clocks,
            triggers: Vec::new(),
            reason: None,
            is_detached: false,
            is_over: false,
            result: PhantomData,
        }
    }

    /// Sets how long the server should keep the task after its creation (2025-11-25). It may decide otherwise (TASK-09).
    /// No effect after sending.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.change(|draft| draft.ttl = Some(ttl))
    }

    /// Limits the time until the server shows something new: the answer, the task, another state of it. The clock restarts
    /// each time, and stands still while a question is open (D16). By default the dialect's limit, 60 s, applies until
    /// the handle of a task has come, and no limit afterwards.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        (self.clocks.response, self.clocks.is_lasting) = (Some(limit), true);
        self
    }

    /// Limits the time until the end of the task. By default there is no limit but the server's ttl.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.clocks.total = Some(limit);
        self
    }

    /// Cancels the call and its task when `trigger` is ready, such as a token's `cancelled_owned()`. It is only polled with
    /// the call.
    pub fn cancel_when(mut self, trigger: impl Future<Output = ()> + Send + 'static) -> Self {
        self.triggers.push(Box::pin(async move {
            trigger.await;
            None
        }));
        self
    }

    /// Sets the text of the cause if the call is dropped or ended by [`cancel_when`](Self::cancel_when).
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Answers the questions of a task in the extension, each once, with the result of the request that it contains.
    /// Questions may be open at the same time. An answer is dropped when the task no longer asks for it. An error cancels
    /// the task, as does a question without this callback.
    ///
    /// In 2025-11-25 the questions of a task are requests of the server, which the routes of the connection handle. No
    /// effect after sending.
    pub fn on_input<F>(self, mut answer: impl FnMut(Question) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Value, ErrorObject>> + Send + 'static,
    {
        self.change(|draft| draft.on_input = Some(Box::new(move |question| Box::pin(answer(question)))))
    }

    /// Calls `show` with each new state of the task, its first included. No effect after sending.
    pub fn on_status(self, show: impl FnMut(&TaskState) + Send + 'static) -> Self {
        self.change(|draft| draft.on_status = Some(Box::new(show)))
    }

    /// Asks for progress, and calls `show` with what arrives before the answer to the request. No effect after sending.
    pub fn progress(self, show: impl FnMut(ProgressReport) + Send + 'static) -> Self {
        self.change(|draft| {
            if let Start::Request { on_progress, .. } = &mut draft.start {
                *on_progress = Some(Box::new(show));
            }
        })
    }

    /// Sends the request now instead of when it is first polled.
    pub fn send(mut self) -> Self {
        self.begin();
        self
    }

    /// Sends the request now, and lets the task go on: neither dropping the call nor the end of its parent cancels it
    /// (D14, D26).
    ///
    /// The call can still be awaited, and stopped through a [handle](Self::handle). The clocks that the caller set go on.
    pub fn detach(mut self) -> Self {
        self.begin();
        self.is_detached = true;
        self.triggers.clear();
        self
    }

    /// Returns a handle that stops this call and its task from elsewhere, and knows the task's id.
    #[must_use]
    pub fn handle(&self) -> TaskStopHandle {
        TaskStopHandle { stop: Arc::clone(&self.stop) }
    }

    fn change(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        if let Some(draft) = &mut self.draft {
            change(draft);
        }
        self
    }

    /// Hands the request to the connection, unless the call was stopped before.
    fn begin(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let Draft { tasks, mut start, dialect, ttl, on_input, on_status } = *draft;
        if self.stop.is_requested() {
            return;
        }
        if let (Some(TaskDialect::November2025), Start::Request { params, .. }) = (dialect, &mut start) {
            match with_task_param(params, ttl) {
                Ok(with_task) => *params = with_task,
                Err(error) => return self.failed = Some(TaskCallError::Params(error)),
            }
        }
        let peer = tasks.peer.clone();
        let flow = TaskFlow {
            tasks,
            stop: Arc::clone(&self.stop),
            dialect,
            on_input,
            on_status,
            request: None,
            answering: Vec::new(),
            asked: Default::default(),
        };
        self.stop.begin(peer, Box::pin(flow.run(start)));
        // Queues the request. Awaiting the call polls the flow with a real waker.
        if let Poll::Ready(Err(error)) = self.stop.poll(&mut Context::from_waker(Waker::noop())) {
            self.failed = Some(error);
        }
    }

    fn cause(&self) -> Cause {
        let cause = Cause::new(CauseCode::Caller);
        match self.reason.as_deref() {
            Some(reason) => cause.with_text(reason),
            None => cause,
        }
    }

    /// Requests the stop if a trigger or a clock demands it.
    fn poll_triggers(&mut self, cx: &mut Context<'_>) {
        let mut found = None;
        for trigger in &mut self.triggers {
            if let Poll::Ready(cause) = trigger.as_mut().poll(cx) {
                found = Some(cause);
                break;
            }
        }
        if let Some(cause) = found {
            self.triggers.clear();
            let cause = cause.unwrap_or_else(|| self.cause());
            self.stop.request(cause.clone(), TaskCallError::Cancelled(cause));
        } else if let Poll::Ready((clock, after)) = self.clocks.poll(&self.stop, cx) {
            self.stop.request(Cause::new(CauseCode::Timeout), TaskCallError::TimedOut { clock, after });
        }
    }
}

impl<R: DeserializeOwned> Future for TaskCall<R> {
    type Output = Result<R, TaskCallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(Err(TaskCallError::AlreadyEnded));
        }
        this.poll_triggers(cx);
        this.begin();
        if let Some(error) = this.failed.take() {
            this.is_over = true;
            this.stop.settle(error.outcome_of_stop(), false);
            return Poll::Ready(Err(error));
        }
        let polled = if this.stop.is_requested() { Poll::Pending } else { this.stop.poll(cx) };
        // The poll may have started a clock.
        if polled.is_pending() {
            this.poll_triggers(cx);
        }
        if let Some(error) = this.stop.error() {
            this.is_over = true;
            this.stop.release();
            return Poll::Ready(Err(error));
        }
        this.is_over = polled.is_ready();
        polled.map(|result| serde_json::from_str(result?.get()).map_err(TaskCallError::Unreadable))
    }
}

impl<R> Drop for TaskCall<R> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.is_detached {
            return self.stop.forget();
        }
        let cause = self.cause();
        self.stop.request(cause.clone(), TaskCallError::Cancelled(cause));
        self.stop.release();
    }
}

impl<R> fmt::Debug for TaskCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCall").field("task", &self.stop.task()).finish_non_exhaustive()
    }
}

impl Clocks {
    fn new(response: Option<Duration>) -> Self {
        let made = Instant::now();
        let (total, alarm) = (None, None);
        Self { made, response, is_lasting: false, total, updates: 0, since: made, alarm }
    }

    /// Polls for a clock that has run out.
    fn poll(&mut self, stop: &StopState, cx: &mut Context<'_>) -> Poll<(Clock, Duration)> {
        let (updates, is_task) = stop.updates();
        if let Some(updates) = updates.filter(|updates| *updates != self.updates) {
            (self.updates, self.since) = (updates, Instant::now());
        }
        let response = self.response.filter(|_| updates.is_some() && (self.is_lasting || !is_task));
        let clocks = [(Clock::Response, response, self.since), (Clock::Total, self.total, self.made)];
        // A limit that no clock can reach is ignored.
        let due = |(clock, limit, since): (Clock, Option<Duration>, Instant)| {
            limit.and_then(|limit| Some((since.checked_add(limit)?, clock, limit)))
        };
        let Some((at, clock, limit)) = clocks.into_iter().filter_map(due).min_by_key(|(at, ..)| *at) else {
            self.alarm = None;
            return Poll::Pending;
        };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx).map(|()| (clock, limit))
    }
}

/// Adds the request for a task, with its ttl (2025-11-25).
fn with_task_param(params: &RawValue, ttl: Option<Duration>) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: BTreeMap<&str, &RawValue> = serde_json::from_str(params.get())?;
    let task = match ttl {
        Some(ttl) => format!(r#"{{"ttl":{}}}"#, ttl.as_millis()),
        None => "{}".to_owned(),
    };
    let task = RawValue::from_string(task)?;
    members.insert("task", &task);
    to_raw_value(&members)
}
