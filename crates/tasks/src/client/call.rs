//! A call that may be a task, as a future.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind::peer::{self, CallError, Cause, CauseCode, Clock, ErrorObject, Outcome, Progress};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, Sleep};

use super::{
    Question, TaskCallError, TaskClient, TaskState, TaskStop,
    course::{Course, Errand, OnInput, OnStatus},
    slip::Slip,
    tasks::{Form, asking},
};

/// One request that may become a task, from its first message to the task's end: a future of its result.
///
/// It is sent when it is first polled, or by [`send`](Self::send). If the server answers with the handle of a task, the
/// task is asked for as often as the server wants to be asked, or as soon as it [tells](super::TaskWatch) of news, and
/// its result is the call's; if the server answers at once, that is. While it is not polled, nothing is asked and no
/// clock of it runs out.
///
/// # Dropping it
///
/// cancels the task (D14): before `drop` returns, `tasks/cancel` is queued. If the task's id is not known yet, the
/// handle is waited for, in the background and on this connection, and the task cancelled then (D38): 60 s at most, or
/// 5 s in the extension, where the request is cancelled as well; the connection stays open as long. A task is never
/// cancelled with a notification (MCP-C13). A request of which nothing was written is taken back.
/// [`detach`](Self::detach) opts out.
///
/// # Giving up
///
/// A clock that runs out, a question that nobody answers and a server that cannot be asked any more cancel the task as
/// well, except after the connection's end: then the task goes on, and can be [followed](TaskClient::follow) by its id.
///
/// # Inside a handler
///
/// it is a child of the request being handled (D26): the task is cancelled with it, and has no more time than it.
#[must_use = "a call does nothing until it is awaited"]
pub struct TaskCall<R> {
    draft: Option<Box<Draft>>,
    failed: Option<TaskCallError>,
    slip: Arc<Slip>,
    clocks: Clocks,
    /// What else ends it: each tells why.
    stoppers: Vec<Stopper>,
    reason: Option<Box<str>>,
    is_detached: bool,
    is_over: bool,
    result: PhantomData<fn() -> R>,
}

type Stopper = Pin<Box<dyn Future<Output = Option<Cause>> + Send>>;

/// A call that was not sent.
pub(super) struct Draft {
    tasks: TaskClient,
    errand: Errand,
    form: Option<Form>,
    ttl: Option<Duration>,
    on_input: Option<OnInput>,
    on_status: Option<OnStatus>,
}

/// The clocks of a call (D16): how long each is, and when it runs out.
struct Clocks {
    made: Instant,
    response: Option<Duration>,
    /// It was asked for, and so goes on when the task is known.
    is_lasting: bool,
    /// The limit of a call that answers at once.
    total: Option<Duration>,
    /// What the server had shown when the response clock was last set.
    signs: u64,
    since: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Draft {
    pub(super) fn new(tasks: TaskClient, errand: Errand, form: Option<Form>) -> Self {
        Self { tasks, errand, form, ttl: None, on_input: None, on_status: None }
    }
}

impl<R> TaskCall<R> {
    pub(super) fn new(draft: Draft) -> Self {
        let clocks = Clocks::new(draft.tasks.peer.dialect().clocks.response);
        let mut call = Self::with(Some(Box::new(draft)), None, clocks);
        if let Some(parent) = peer::Context::current() {
            call.stoppers.push(Box::pin(async move {
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
            slip: Arc::default(),
            clocks,
            stoppers: Vec::new(),
            reason: None,
            is_detached: false,
            is_over: false,
            result: PhantomData,
        }
    }

    /// How long the server is to keep the task, from its beginning (2025-11-25); it may choose otherwise (TASK-09). No
    /// effect once it is sent.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.change(|draft| draft.ttl = Some(ttl))
    }

    /// Until the server shows something new: the answer, a task, another status of it. Restarted each time, and
    /// standing still while somebody is asked (D16). Without this, the dialect's limit, 60 s, holds until the handle of
    /// a task has come, and none afterwards.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        (self.clocks.response, self.clocks.is_lasting) = (Some(limit), true);
        self
    }

    /// Until the end of the task, whatever happens. Without this there is no such limit: the ttl is the server's.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.clocks.total = Some(limit);
        self
    }

    /// Cancels the call, and its task, when this is over: a token's `cancelled_owned()`, say. Watched while the call is
    /// polled, and no longer.
    pub fn cancel_when(mut self, over: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stoppers.push(Box::pin(async move {
            over.await;
            None
        }));
        self
    }

    /// The words of the receipt if the call is dropped, or ended by [`cancel_when`](Self::cancel_when).
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Answers the questions of a task in the extension, each once, several at a time if the task asks so: with the
    /// result that the request would have (`tasks/update`). What is being answered is dropped when the task does not
    /// ask for it any more. An error gives the task up, as does a question without this.
    ///
    /// In 2025-11-25 a task asks with requests of the server's, which are routes of the connection. No effect once it
    /// is sent.
    pub fn on_input<F>(self, mut answer: impl FnMut(Question) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Value, ErrorObject>> + Send + 'static,
    {
        self.change(|draft| draft.on_input = Some(Box::new(move |question| Box::pin(answer(question)))))
    }

    /// Is shown each new state of the task, its first included. No effect once it is sent.
    pub fn on_status(self, show: impl FnMut(&TaskState) + Send + 'static) -> Self {
        self.change(|draft| draft.on_status = Some(Box::new(show)))
    }

    /// Asks for progress, and shows what of it arrives until the request is answered, with a handle or otherwise. No
    /// effect once it is sent.
    pub fn progress(self, show: impl FnMut(Progress) + Send + 'static) -> Self {
        self.change(|draft| {
            if let Errand::Request { on_progress, .. } = &mut draft.errand {
                *on_progress = Some(Box::new(show));
            }
        })
    }

    /// Sends the request now instead of when it is first polled.
    pub fn send(mut self) -> Self {
        self.begin();
        self
    }

    /// Sends the request now, and lets the task go on whatever happens: dropping the call does not cancel it, nor does
    /// the end of the request that it was made for (D14, D26).
    ///
    /// It can still be awaited, and stopped through a [handle](Self::handle); clocks that were asked for go on.
    pub fn detach(mut self) -> Self {
        self.begin();
        self.is_detached = true;
        self.stoppers.clear();
        self
    }

    /// A handle that stops this call, and its task, from elsewhere, beside whoever awaits it; it knows the task's id.
    #[must_use]
    pub fn handle(&self) -> TaskStop {
        TaskStop { slip: Arc::clone(&self.slip) }
    }

    fn change(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        if let Some(draft) = &mut self.draft {
            change(draft);
        }
        self
    }

    /// Hands the request to the connection, unless it was stopped before.
    fn begin(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        let Draft { tasks, mut errand, form, ttl, on_input, on_status } = *draft;
        if self.slip.is_stopped() {
            return;
        }
        if let (Some(Form::November2025), Errand::Request { params, .. }) = (form, &mut errand) {
            match asking(params, ttl) {
                Ok(asking) => *params = asking,
                Err(error) => return self.failed = Some(TaskCallError::Params(error)),
            }
        }
        let course = Course {
            tasks,
            slip: Arc::clone(&self.slip),
            form,
            on_input,
            on_status,
            request: None,
            answering: Vec::new(),
            asked: Default::default(),
        };
        self.slip.begin(Box::pin(course.run(errand)));
        // As far as it goes: the request is queued. Whoever awaits the call polls it again.
        if let Poll::Ready(Err(error)) = self.slip.poll(&mut Context::from_waker(Waker::noop())) {
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

    /// Looks whether anything is to stop the call now.
    fn poll_stoppers(&mut self, cx: &mut Context<'_>) {
        let mut found = None;
        for stopper in &mut self.stoppers {
            if let Poll::Ready(cause) = stopper.as_mut().poll(cx) {
                found = Some(cause);
                break;
            }
        }
        if let Some(cause) = found {
            self.stoppers.clear();
            let cause = cause.unwrap_or_else(|| self.cause());
            self.slip.stop(cause.clone(), TaskCallError::Cancelled(cause));
        } else if let Poll::Ready((clock, after)) = self.clocks.poll(&self.slip, cx) {
            self.slip.stop(Cause::new(CauseCode::Timeout), TaskCallError::TimedOut { clock, after });
        }
    }
}

impl<R: DeserializeOwned> Future for TaskCall<R> {
    type Output = Result<R, TaskCallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(Err(TaskCallError::Over));
        }
        this.poll_stoppers(cx);
        this.begin();
        if let Some(error) = this.failed.take() {
            this.is_over = true;
            this.slip.ended(end_of(&error));
            return Poll::Ready(Err(error));
        }
        let polled = if this.slip.is_stopped() { Poll::Pending } else { this.slip.poll(cx) };
        if let Some(why) = this.slip.stopped() {
            this.is_over = true;
            this.slip.release();
            return Poll::Ready(Err(why));
        }
        // What the course has just shown may have set a clock.
        if polled.is_pending() {
            this.poll_stoppers(cx);
            if let Some(why) = this.slip.stopped() {
                this.is_over = true;
                this.slip.release();
                return Poll::Ready(Err(why));
            }
            return Poll::Pending;
        }
        this.is_over = true;
        let result = polled.map(|result| {
            let result = result?;
            serde_json::from_str(result.get()).map_err(TaskCallError::Unreadable)
        });
        if let Poll::Ready(result) = &result {
            this.slip.ended(result.as_ref().err().map_or(Outcome::CompletedFirst, end_of));
        }
        result
    }
}

/// What a cancel that comes after this finds.
fn end_of(error: &TaskCallError) -> Outcome {
    match error {
        TaskCallError::Peer(_) | TaskCallError::Unreadable(_) | TaskCallError::CancelledElsewhere { .. } => {
            Outcome::CompletedFirst
        }
        TaskCallError::Params(_) | TaskCallError::Over => Outcome::NeverSent,
        TaskCallError::Call { error: CallError::Misuse(_) | CallError::Overloaded, task: None } => Outcome::NeverSent,
        TaskCallError::Call { .. }
        | TaskCallError::Unknown { .. }
        | TaskCallError::Cancelled(_)
        | TaskCallError::TimedOut { .. }
        | TaskCallError::Unanswered(_) => Outcome::Unknown,
    }
}

impl<R> Drop for TaskCall<R> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.is_detached {
            return self.slip.forget();
        }
        let cause = self.cause();
        self.slip.stop(cause.clone(), TaskCallError::Cancelled(cause));
        self.slip.release();
    }
}

impl<R> fmt::Debug for TaskCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCall").field("task", &self.slip.task()).finish_non_exhaustive()
    }
}

impl Clocks {
    fn new(response: Option<Duration>) -> Self {
        let made = Instant::now();
        let (total, alarm) = (None, None);
        Self { made, response, is_lasting: false, total, signs: 0, since: made, alarm }
    }

    /// The clock that has run out.
    fn poll(&mut self, slip: &Slip, cx: &mut Context<'_>) -> Poll<(Clock, Duration)> {
        let (signs, is_task) = slip.signs();
        if let Some(signs) = signs.filter(|signs| *signs != self.signs) {
            (self.signs, self.since) = (signs, Instant::now());
        }
        let response = self.response.filter(|_| signs.is_some() && (self.is_lasting || !is_task));
        let clocks = [(Clock::Response, response, self.since), (Clock::Total, self.total, self.made)];
        // A limit beyond the end of time is none.
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
