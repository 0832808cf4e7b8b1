//! The course of a call that may be a task: from its request to the task's end, and its cancel.
//!
//! A stop is a flag in its [`StopState`], which the flow checks whenever it is polled. Afterwards it only waits for calls
//! that the engine bounds. So it needs no clock, and the driver of the connection can poll it to its end.
//!
//! A stopped call hands its flow to that driver (`Peer::drive`), which polls it once at once: so a dropped call queues its
//! `tasks/cancel` before `drop` returns, and one whose handle has not come leaves no orphan. The request that may become a
//! task has no parent and no clock in the engine, since either would end it before its handle comes: the call observes both.

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rescind::peer::{Answer, Call, CallError, Cause, CauseCode, ErrorObject, Outcome, ProgressReport, error_code};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{TaskCallError, TaskClient, TaskState, stop::StopState};
use crate::{Status, TaskDialect, TaskId, followed::Follower};

/// How often to poll a task whose server names no interval.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest interval, whatever the server asks for.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long to wait for the handle of a task that was cancelled before it came, so that no orphan is left (D38).
const HANDLE_WAIT: Duration = Duration::from_secs(60);

/// The same in the extension. There the request was cancelled too, and only a handle that crossed the cancel can come.
const CROSSING_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for the answer to `tasks/cancel`.
const CANCEL_LIMIT: Duration = Duration::from_secs(30);

/// A question of a task (extension): a request of the server to its client, such as an elicitation.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// Its key among the questions of the task.
    #[serde(skip)]
    pub key: String,
    /// The method of the request.
    pub method: String,
    /// Its params.
    #[serde(default)]
    pub params: Value,
}

pub(super) type OnInput = Box<dyn FnMut(Question) -> Answering + Send>;
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Value, ErrorObject>> + Send>>;
pub(super) type OnStatus = Box<dyn FnMut(&TaskState) + Send>;
pub(super) type OnProgress = Box<dyn FnMut(ProgressReport) + Send>;

/// How a flow starts.
pub(super) enum Start {
    /// With this request, which may become a task.
    Request { method: String, params: Box<RawValue>, on_progress: Option<OnProgress> },
    /// With a task that exists.
    Follow(TaskId),
}

pub(super) struct TaskFlow {
    pub(super) tasks: TaskClient,
    pub(super) stop: Arc<StopState>,
    /// `None` on a connection without tasks.
    pub(super) dialect: Option<TaskDialect>,
    pub(super) on_input: Option<OnInput>,
    pub(super) on_status: Option<OnStatus>,
    /// The request, if it was stopped before its answer.
    pub(super) request: Option<Call<Box<RawValue>>>,
    /// The questions that are being answered.
    pub(super) answering: Vec<(String, Answering)>,
    /// The keys of all questions so far.
    pub(super) asked: HashSet<String>,
}

/// Why the flow ended before the task.
enum Interrupted {
    Stopped,
    Failed(TaskCallError),
}

impl From<TaskCallError> for Interrupted {
    fn from(error: TaskCallError) -> Self {
        Self::Failed(error)
    }
}

impl TaskFlow {
    pub(super) async fn run(mut self, start: Start) -> Result<Box<RawValue>, TaskCallError> {
        match self.follow(start).await {
            Ok(result) => {
                self.stop.settle(Outcome::CompletedFirst, false);
                Ok(result)
            }
            Err(Interrupted::Failed(error)) => {
                self.stop.settle(error.outcome_of_stop(), false);
                Err(error)
            }
            Err(Interrupted::Stopped) => {
                // Their answers are of no use any more.
                self.answering.clear();
                let (outcome, acknowledged) = self.cancel_remaining().await;
                self.stop.settle(outcome, acknowledged);
                Err(TaskCallError::AlreadyEnded)
            }
        }
    }

    async fn follow(&mut self, start: Start) -> Result<Box<RawValue>, Interrupted> {
        let mut state = match start {
            Start::Follow(task) => {
                self.stop.record_state(&task, false);
                self.get(&task).await?
            }
            Start::Request { method, params, on_progress } => {
                let answer = self.send_request(method, &params, on_progress).await?;
                match self.handle(&answer)? {
                    Some(state) => state,
                    None => return Ok(answer),
                }
            }
        };
        let task = state.id.clone();
        let mut hints = self.tasks.notifications.followed.follow(&task);
        self.show(&state, &task);
        loop {
            match (state.status, self.dialect) {
                (Status::Completed | Status::Failed | Status::Cancelled, _) => return self.end(state, &task).await,
                // The server sends its questions as requests while its result is waited for.
                (Status::InputRequired, Some(TaskDialect::November2025) | None) => return self.result(&task).await,
                (Status::InputRequired, Some(TaskDialect::Extension)) => self.answer_questions(&state)?,
                (Status::Working, _) => self.answering.clear(),
            }
            let interval = state.poll_interval.unwrap_or(DEFAULT_POLL_INTERVAL).max(MIN_POLL_INTERVAL);
            let responses = self.pause(&mut hints, interval).await?;
            if !responses.is_empty() {
                self.update(&task, responses).await?;
            }
            let latest = self.get(&task).await?;
            if state.differs(&latest) {
                self.show(&latest, &task);
            }
            state = latest;
        }
    }

    /// Sends the request and returns its answer: a handle, or the result itself.
    async fn send_request(
        &mut self,
        method: String,
        params: &RawValue,
        on_progress: Option<OnProgress>,
    ) -> Result<Box<RawValue>, Interrupted> {
        // Without parent and clocks, either of which could lose a handle. `TaskCall` sees to both.
        let call = self.tasks.peer.request::<Box<RawValue>>(method, params).without_timeouts();
        let call = if let Some(on_progress) = on_progress { call.progress(on_progress) } else { call };
        let mut call = call.detach();
        let answered = unless_stopped(&self.stop, &mut call).await;
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(CallError::Peer(error))) => Err(TaskCallError::Peer(error).into()),
            Ok(Err(error)) => Err(TaskCallError::Call { task: None, error }.into()),
            Err(interrupted) => {
                self.request = Some(call);
                Err(interrupted)
            }
        }
    }

    /// Returns the task, if this answer is the handle of one.
    fn handle(&self, answer: &RawValue) -> Result<Option<TaskState>, TaskCallError> {
        self.dialect.map_or(Ok(None), |dialect| dialect.handle(answer)).map_err(TaskCallError::Unreadable)
    }

    fn show(&mut self, state: &TaskState, task: &TaskId) {
        self.stop.record_state(task, state.status == Status::InputRequired);
        if let Some(on_status) = &mut self.on_status {
            on_status(state);
        }
    }

    async fn get(&mut self, task: &TaskId) -> Result<TaskState, Interrupted> {
        let call = self.tasks.task_request(task, "tasks/get");
        self.request_about(task, call).await
    }

    /// Waits for the result of the task, as long as it takes (TASK-06).
    async fn result(&mut self, task: &TaskId) -> Result<Box<RawValue>, Interrupted> {
        let call = self.tasks.task_request::<Box<RawValue>>(task, "tasks/result").without_timeouts();
        match unless_stopped(&self.stop, call).await? {
            Ok(result) => Ok(result),
            // The specification does not define the result of a cancelled task. Our servers answer this (D38).
            Err(CallError::Peer(error)) if error.code == error_code::REQUEST_CANCELLED => {
                Err(TaskCallError::CancelledElsewhere { task: task.clone(), message: Some(error.message) }.into())
            }
            Err(CallError::Peer(error)) => Err(TaskCallError::Peer(error).into()),
            Err(error) => Err(self.give_up(task, error)),
        }
    }

    async fn end(&mut self, state: TaskState, task: &TaskId) -> Result<Box<RawValue>, Interrupted> {
        match (state.status, self.dialect) {
            (Status::Cancelled, _) => {
                Err(TaskCallError::CancelledElsewhere { task: task.clone(), message: state.message }.into())
            }
            (_, Some(TaskDialect::November2025) | None) => self.result(task).await,
            (_, Some(TaskDialect::Extension)) => match (state.result, state.error) {
                (_, Some(error)) if state.status == Status::Failed => Err(TaskCallError::Peer(error).into()),
                (Some(result), _) => Ok(result),
                (None, _) => {
                    let error = serde::de::Error::custom("the task has ended without a result or an error");
                    Err(TaskCallError::Unreadable(error).into())
                }
            },
        }
    }

    /// Starts to answer the new questions: each key once.
    fn answer_questions(&mut self, state: &TaskState) -> Result<(), Interrupted> {
        // A question that the task no longer shows needs no answer.
        self.answering.retain(|(key, _)| state.questions.contains_key(key));
        for (key, raw) in &state.questions {
            if !self.asked.insert(key.clone()) {
                continue;
            }
            let mut question: Question = serde_json::from_str(raw.get()).map_err(TaskCallError::Unreadable)?;
            question.key.clone_from(key);
            let Some(on_input) = &mut self.on_input else {
                return Err(self.stop_unanswered(ErrorObject::method_not_found(&question.method)));
            };
            self.answering.push((key.clone(), on_input(question)));
        }
        Ok(())
    }

    /// Waits for the end of the interval, for a notification about the task, or for an answer to a question.
    async fn pause(
        &mut self,
        hints: &mut Follower<()>,
        interval: Duration,
    ) -> Result<Vec<(String, Value)>, Interrupted> {
        let mut answering = mem::take(&mut self.answering);
        let mut over = pin!(tokio::time::sleep(interval));
        let mut hint = pin!(hints.next());
        let pause = poll_fn(|cx| {
            let answers = poll_answers(&mut answering, cx);
            let is_time = over.as_mut().poll(cx).is_ready() | hint.as_mut().poll(cx).is_ready();
            if is_time || !answers.is_empty() { Poll::Ready(answers) } else { Poll::Pending }
        });
        let answers = unless_stopped(&self.stop, pause).await?;
        self.answering = answering;
        let mut responses = Vec::new();
        for (key, answer) in answers {
            match answer {
                Ok(value) => responses.push((key, value)),
                Err(error) => return Err(self.stop_unanswered(error)),
            }
        }
        Ok(responses)
    }

    /// Sends answers to the server.
    async fn update(&mut self, task: &TaskId, responses: Vec<(String, Value)>) -> Result<(), Interrupted> {
        let responses: serde_json::Map<_, _> = responses.into_iter().collect();
        let params = self.tasks.with_meta(json!({ "taskId": task.as_str(), "inputResponses": responses }));
        let call = self.tasks.peer.request::<Value>("tasks/update", &params);
        self.request_about(task, call).await.map(drop)
    }

    async fn request_about<T: DeserializeOwned>(&mut self, task: &TaskId, call: Call<T>) -> Result<T, Interrupted> {
        match unless_stopped(&self.stop, call).await? {
            Ok(answer) => Ok(answer),
            Err(CallError::Peer(error)) if error.code == error_code::INVALID_PARAMS => {
                Err(TaskCallError::Unknown { task: task.clone(), error }.into())
            }
            Err(error) => Err(self.give_up(task, error)),
        }
    }

    /// Gives the task up after a failed call about it. It is cancelled, unless the connection has ended.
    fn give_up(&self, task: &TaskId, error: CallError) -> Interrupted {
        if matches!(error, CallError::Closed) {
            return TaskCallError::Call { task: Some(task.clone()), error }.into();
        }
        let (cause, why) = if let CallError::Cancelled(cause) = error {
            // The parent request was cancelled (D26).
            (cause.clone(), TaskCallError::Cancelled(cause))
        } else if let CallError::TimedOut { clock, after } = error {
            (Cause::new(CauseCode::Timeout), TaskCallError::TimedOut { clock, after })
        } else {
            (Cause::new(CauseCode::Policy), TaskCallError::Call { task: Some(task.clone()), error })
        };
        self.stop.request(cause, why);
        Interrupted::Stopped
    }

    fn stop_unanswered(&self, error: ErrorObject) -> Interrupted {
        self.stop.request(Cause::new(CauseCode::Policy), TaskCallError::Unanswered(error));
        Interrupted::Stopped
    }

    /// Cancels the request and the task, as far as they exist. Returns what is known of the cancel, and whether the
    /// server acknowledged it.
    async fn cancel_remaining(&mut self) -> (Outcome, bool) {
        let Some((cause, _)) = self.stop.requested() else { return (Outcome::Unknown, false) };
        if let Some(request) = self.request.take() {
            let handle = request.handle();
            // Withdrawn if unwritten. Otherwise the dialect decides: a request that asks for a task is not cancelled by
            // notification (MCP-C13), and the handle may still come.
            let wait = match self.dialect {
                Some(TaskDialect::November2025) => HANDLE_WAIT,
                Some(TaskDialect::Extension) => CROSSING_WAIT,
                None => return (handle.cancel_for(cause).await.outcome, false),
            };
            drop(handle.cancel_for_and_wait(cause, wait));
            let created = request.await.ok().and_then(|answer| self.handle(&answer).ok().flatten());
            let Some(state) = created else {
                return (handle.receipt().map_or(Outcome::Unknown, |receipt| receipt.outcome), false);
            };
            self.stop.record_state(&state.id, false);
        }
        match self.stop.task() {
            Some(task) => self.cancel(&task).await,
            None => (Outcome::NeverSent, false),
        }
    }

    /// Cancels the task. The call has no parent, since the parent may be cancelled itself.
    async fn cancel(&mut self, task: &TaskId) -> (Outcome, bool) {
        if self.dialect != Some(TaskDialect::Extension) && !self.tasks.peer.declares_task("cancel") {
            return (Outcome::NotSendable, false);
        }
        let call = self.tasks.task_request::<Box<RawValue>>(task, "tasks/cancel");
        let call = call.response_timeout(CANCEL_LIMIT).total_timeout(CANCEL_LIMIT).detach();
        let handle = call.handle();
        let answer = call.await;
        let outcome = match answer {
            Ok(_) if self.dialect == Some(TaskDialect::Extension) => return (Outcome::Sent, true),
            Ok(answer) => match serde_json::from_str::<TaskState>(answer.get()) {
                Ok(state) if state.status == Status::Cancelled => Outcome::Confirmed { after: self.after() },
                Ok(_) | Err(_) => Outcome::AnsweredAfter { after: self.after(), answer: Answer::Result },
            },
            // The task has ended (TASK-02) or is unknown. Its state shows which.
            Err(CallError::Peer(error)) if error.code == error_code::INVALID_PARAMS => {
                self.outcome_by_state(task).await
            }
            Err(CallError::Peer(_)) => Outcome::AnsweredAfter { after: self.after(), answer: Answer::Error },
            Err(CallError::TimedOut { .. }) => match handle.receipt().map(|receipt| receipt.outcome) {
                Some(Outcome::NeverSent) => Outcome::Asked,
                _ => Outcome::Sent,
            },
            Err(_) => Outcome::Unknown,
        };
        (outcome, false)
    }

    /// Finds out from the task's state why its cancel was rejected.
    async fn outcome_by_state(&mut self, task: &TaskId) -> Outcome {
        let call = self.tasks.task_request::<TaskState>(task, "tasks/get");
        let shown = call.response_timeout(CANCEL_LIMIT).total_timeout(CANCEL_LIMIT).detach().await;
        match shown.map(|state| state.status) {
            Ok(Status::Completed | Status::Failed) => Outcome::CompletedFirst,
            Ok(Status::Cancelled) => Outcome::Confirmed { after: self.after() },
            Ok(Status::Working | Status::InputRequired) | Err(_) => {
                Outcome::AnsweredAfter { after: self.after(), answer: Answer::Error }
            }
        }
    }

    /// Returns the time since the stop was requested.
    fn after(&self) -> Duration {
        self.stop.requested().map(|(_, at)| at.elapsed()).unwrap_or_default()
    }
}

impl Drop for TaskFlow {
    /// Settles what waits for a receipt, however the flow ends: with its connection, by a panic.
    fn drop(&mut self) {
        self.stop.settle(Outcome::Unknown, false);
    }
}

async fn unless_stopped<F: Future>(stop: &StopState, work: F) -> Result<F::Output, Interrupted> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if stop.is_requested() {
            return Poll::Ready(Err(Interrupted::Stopped));
        }
        work.as_mut().poll(cx).map(Ok)
    })
    .await
}

fn poll_answers(
    answering: &mut Vec<(String, Answering)>,
    cx: &mut Context<'_>,
) -> Vec<(String, Result<Value, ErrorObject>)> {
    let mut answers = Vec::new();
    answering.retain_mut(|(key, answer)| match answer.as_mut().poll(cx) {
        Poll::Ready(answer) => {
            answers.push((key.clone(), answer));
            false
        }
        Poll::Pending => true,
    });
    answers
}
