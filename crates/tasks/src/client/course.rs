//! What a call that may be a task does, from its request to the task's end, and when it is stopped.
//!
//! It is stopped by a mark in its slip, which it looks at whenever it is polled; from then on it waits for nothing but
//! calls that the engine bounds, so that it can go on where no clock runs (`unattended.rs`).

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rescind::peer::{Answer, Call, CallError, Cause, CauseCode, ErrorObject, Outcome, Progress, error_code};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{TaskCallError, TaskClient, TaskState, slip::Slip, tasks::Form, watch::Ringing};
use crate::{Status, TaskId};

/// How often to ask a server that does not say.
const POLL: Duration = Duration::from_secs(1);

/// What a server that says "at once" gets.
const FASTEST: Duration = Duration::from_millis(10);

/// How long the handle of a task that was cancelled before it came is waited for, so that it leaves no orphan (D38).
const HANDLE: Duration = Duration::from_secs(60);

/// The same in the extension, where the request was cancelled too, and only what crossed that can still come.
const CROSSING: Duration = Duration::from_secs(5);

/// How long `tasks/cancel` may take to be answered.
const CANCEL: Duration = Duration::from_secs(30);

/// A question of a task (extension): a request of the server's to its client, an elicitation say.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// Its key among the questions of the task.
    #[serde(skip)]
    pub key: String,
    /// The method that it would have as a request.
    pub method: String,
    /// Its params.
    #[serde(default)]
    pub params: Value,
}

pub(super) type OnInput = Box<dyn FnMut(Question) -> Answering + Send>;
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Value, ErrorObject>> + Send>>;
pub(super) type OnStatus = Box<dyn FnMut(&TaskState) + Send>;
pub(super) type OnProgress = Box<dyn FnMut(Progress) + Send>;

/// What is to be done.
pub(super) enum Errand {
    /// Send this request, which may become a task.
    Request { method: String, params: Box<RawValue>, on_progress: Option<OnProgress> },
    /// Follow a task that there is.
    Follow(TaskId),
}

pub(super) struct Course {
    pub(super) tasks: TaskClient,
    pub(super) slip: Arc<Slip>,
    pub(super) form: Option<Form>,
    pub(super) on_input: Option<OnInput>,
    pub(super) on_status: Option<OnStatus>,
    /// The request, until it is answered.
    pub(super) request: Option<Call<Box<RawValue>>>,
    /// Questions that are being answered, and all that ever were asked.
    pub(super) answering: Vec<(String, Answering)>,
    pub(super) asked: HashSet<String>,
}

/// Why following ended before the task did.
enum Off {
    /// The slip says so.
    Stopped,
    Failed(TaskCallError),
}

impl From<TaskCallError> for Off {
    fn from(error: TaskCallError) -> Self {
        Self::Failed(error)
    }
}

impl Course {
    pub(super) async fn run(mut self, errand: Errand) -> Result<Box<RawValue>, TaskCallError> {
        match self.follow(errand).await {
            Ok(result) => Ok(result),
            Err(Off::Failed(error)) => Err(error),
            Err(Off::Stopped) => {
                // What people are being asked is moot.
                self.answering.clear();
                let (outcome, acknowledged) = self.wind_up().await;
                self.slip.learn(outcome, acknowledged);
                Err(TaskCallError::Over)
            }
        }
    }

    async fn follow(&mut self, errand: Errand) -> Result<Box<RawValue>, Off> {
        let mut state = match errand {
            Errand::Follow(task) => {
                self.slip.saw(&task, false);
                self.state(&task).await?
            }
            Errand::Request { method, params, on_progress } => {
                let answer = self.answer(method, &params, on_progress).await?;
                match self.handle(&answer)? {
                    Some(state) => state,
                    None => return Ok(answer),
                }
            }
        };
        let task = state.id.clone();
        let mut ringing = self.tasks.watch.follow(&task);
        self.saw(&state, &task);
        loop {
            match (state.status, self.form) {
                (Status::Completed | Status::Failed | Status::Cancelled, _) => return self.end(state, &task).await,
                // The server asks with requests of its own while it is waited for.
                (Status::InputRequired, Some(Form::November2025) | None) => return self.result(&task).await,
                (Status::InputRequired, Some(Form::Extension)) => self.ask(&state)?,
                (Status::Working, _) => self.answering.clear(),
            }
            let interval = state.poll_interval.unwrap_or(POLL).max(FASTEST);
            let responses = self.pause(&mut ringing, interval).await?;
            if !responses.is_empty() {
                self.update(&task, responses).await?;
            }
            let shown = self.state(&task).await?;
            if state.differs(&shown) {
                self.saw(&shown, &task);
            }
            state = shown;
        }
    }

    /// The answer to the request, which is a handle or the result itself.
    async fn answer(
        &mut self,
        method: String,
        params: &RawValue,
        on_progress: Option<OnProgress>,
    ) -> Result<Box<RawValue>, Off> {
        // Nobody's child and without clocks, for either would lose the handle of a task: the call sees to both.
        let call = self.tasks.peer.request::<Box<RawValue>>(method, params).without_timeouts();
        let call = if let Some(on_progress) = on_progress { call.progress(on_progress) } else { call };
        let mut call = call.detach();
        let answered = unless_stopped(&self.slip, &mut call).await;
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(CallError::Peer(error))) => Err(TaskCallError::Peer(error).into()),
            Ok(Err(error)) => Err(TaskCallError::Call { task: None, error }.into()),
            Err(off) => {
                self.request = Some(call);
                Err(off)
            }
        }
    }

    /// The task whose handle this answer is.
    fn handle(&self, answer: &RawValue) -> Result<Option<TaskState>, TaskCallError> {
        self.form.map_or(Ok(None), |form| form.handle(answer)).map_err(TaskCallError::Unreadable)
    }

    fn saw(&mut self, state: &TaskState, task: &TaskId) {
        self.slip.saw(task, state.status == Status::InputRequired);
        if let Some(on_status) = &mut self.on_status {
            on_status(state);
        }
    }

    /// What the server shows of the task now.
    async fn state(&mut self, task: &TaskId) -> Result<TaskState, Off> {
        let call = self.tasks.about(task, "tasks/get");
        self.ask_server(task, call).await
    }

    /// What the underlying request came to; waits for it as long as it takes (TASK-06).
    async fn result(&mut self, task: &TaskId) -> Result<Box<RawValue>, Off> {
        let call = self.tasks.about::<Box<RawValue>>(task, "tasks/result").without_timeouts();
        match unless_stopped(&self.slip, call).await? {
            Ok(result) => Ok(result),
            // No text says what a cancelled task's result is; ours answer this (D38).
            Err(CallError::Peer(error)) if error.code == error_code::REQUEST_CANCELLED => {
                Err(TaskCallError::CancelledElsewhere { task: task.clone(), message: Some(error.message) }.into())
            }
            Err(CallError::Peer(error)) => Err(TaskCallError::Peer(error).into()),
            Err(error) => Err(self.give_up(task, error)),
        }
    }

    async fn end(&mut self, state: TaskState, task: &TaskId) -> Result<Box<RawValue>, Off> {
        match (state.status, self.form) {
            (Status::Cancelled, _) => {
                Err(TaskCallError::CancelledElsewhere { task: task.clone(), message: state.message }.into())
            }
            (_, Some(Form::November2025) | None) => self.result(task).await,
            (_, Some(Form::Extension)) => match (state.result, state.error) {
                (_, Some(error)) if state.status == Status::Failed => Err(TaskCallError::Peer(error).into()),
                (Some(result), _) => Ok(result),
                (None, _) => {
                    let error = serde::de::Error::custom("a task that has ended shows neither result nor error");
                    Err(TaskCallError::Unreadable(error).into())
                }
            },
        }
    }

    /// Has the questions answered that were not asked before: each key is asked once.
    fn ask(&mut self, state: &TaskState) -> Result<(), Off> {
        // What is not asked any more needs no answer.
        self.answering.retain(|(key, _)| state.questions.contains_key(key));
        for (key, raw) in &state.questions {
            if !self.asked.insert(key.clone()) {
                continue;
            }
            let mut question: Question = serde_json::from_str(raw.get()).map_err(TaskCallError::Unreadable)?;
            question.key.clone_from(key);
            let Some(on_input) = &mut self.on_input else {
                return Err(self.leave_unanswered(ErrorObject::method_not_found(&question.method)));
            };
            self.answering.push((key.clone(), on_input(question)));
        }
        Ok(())
    }

    /// Waits until it is time to look at the task again, or something was told of it, or a question is answered.
    async fn pause(&mut self, ringing: &mut Ringing, interval: Duration) -> Result<Vec<(String, Value)>, Off> {
        let mut answering = mem::take(&mut self.answering);
        let mut over = pin!(tokio::time::sleep(interval));
        let mut rung = pin!(ringing.rung());
        let pause = poll_fn(|cx| {
            let answers = poll_answers(&mut answering, cx);
            let is_time = over.as_mut().poll(cx).is_ready() | rung.as_mut().poll(cx).is_ready();
            if is_time || !answers.is_empty() { Poll::Ready(answers) } else { Poll::Pending }
        });
        let paused = unless_stopped(&self.slip, pause).await?;
        self.answering = answering;
        let mut responses = Vec::new();
        for (key, answer) in paused {
            match answer {
                Ok(value) => responses.push((key, value)),
                Err(error) => return Err(self.leave_unanswered(error)),
            }
        }
        Ok(responses)
    }

    /// Gives answers to the server.
    async fn update(&mut self, task: &TaskId, responses: Vec<(String, Value)>) -> Result<(), Off> {
        let responses: serde_json::Map<_, _> = responses.into_iter().collect();
        let params = self.tasks.named(json!({ "taskId": task.as_str(), "inputResponses": responses }));
        let call = self.tasks.peer.request::<Value>("tasks/update", &params);
        self.ask_server(task, call).await.map(drop)
    }

    async fn ask_server<T: DeserializeOwned>(&mut self, task: &TaskId, call: Call<T>) -> Result<T, Off> {
        match unless_stopped(&self.slip, call).await? {
            Ok(answer) => Ok(answer),
            Err(CallError::Peer(error)) if error.code == error_code::INVALID_PARAMS => {
                Err(TaskCallError::Unknown { task: task.clone(), error }.into())
            }
            Err(error) => Err(self.give_up(task, error)),
        }
    }

    /// A call about the task failed: whoever gives the task up cancels it, where anybody still listens.
    fn give_up(&self, task: &TaskId, error: CallError) -> Off {
        if matches!(error, CallError::Closed) {
            return TaskCallError::Call { task: Some(task.clone()), error }.into();
        }
        let (cause, why) = if let CallError::Cancelled(cause) = error {
            // The request that this one serves was cancelled (D26).
            (cause.clone(), TaskCallError::Cancelled(cause))
        } else if let CallError::TimedOut { clock, after } = error {
            (Cause::new(CauseCode::Timeout), TaskCallError::TimedOut { clock, after })
        } else {
            (Cause::new(CauseCode::Policy), TaskCallError::Call { task: Some(task.clone()), error })
        };
        self.slip.stop(cause, why);
        Off::Stopped
    }

    fn leave_unanswered(&self, error: ErrorObject) -> Off {
        self.slip.stop(Cause::new(CauseCode::Policy), TaskCallError::Unanswered(error));
        Off::Stopped
    }

    /// Cancels what there is to cancel, and says what came of it.
    async fn wind_up(&mut self) -> (Outcome, bool) {
        let Some((cause, _)) = self.slip.asked() else { return (Outcome::Unknown, false) };
        if let Some(request) = self.request.take() {
            let stop = request.handle();
            // Taken back if it was not written. Else the peer hears of it as its dialect has it: of a request that
            // asks for a task it hears nothing (MCP-C13), and the handle may still come.
            let wait = match self.form {
                Some(Form::November2025) => HANDLE,
                Some(Form::Extension) => CROSSING,
                None => return (stop.cancel_for(cause).await.outcome, false),
            };
            drop(stop.cancel_for_and_wait(cause, wait));
            let handle = request.await.ok().and_then(|answer| self.handle(&answer).ok().flatten());
            let Some(state) = handle else {
                return (stop.receipt().map_or(Outcome::Unknown, |receipt| receipt.outcome), false);
            };
            self.slip.saw(&state.id, false);
        }
        match self.slip.task() {
            Some(task) => self.cancel(&task).await,
            None => (Outcome::NeverSent, false),
        }
    }

    /// Cancels the task; nobody's child, for whoever it was made for may have been cancelled.
    async fn cancel(&mut self, task: &TaskId) -> (Outcome, bool) {
        if self.form != Some(Form::Extension) && !self.tasks.peer.declares_task("cancel") {
            return (Outcome::NotSendable, false);
        }
        let call = self.tasks.about::<Box<RawValue>>(task, "tasks/cancel");
        let call = call.response_timeout(CANCEL).total_timeout(CANCEL).detach();
        let stop = call.handle();
        let answer = call.await;
        let outcome = match answer {
            Ok(_) if self.form == Some(Form::Extension) => return (Outcome::Sent, true),
            Ok(answer) => match serde_json::from_str::<TaskState>(answer.get()) {
                Ok(state) if state.status == Status::Cancelled => Outcome::Confirmed { after: self.after() },
                Ok(_) | Err(_) => Outcome::AnsweredAfter { after: self.after(), answer: Answer::Result },
            },
            // It has ended (TASK-02), or is unknown: the task itself tells.
            Err(CallError::Peer(error)) if error.code == error_code::INVALID_PARAMS => self.look_again(task).await,
            Err(CallError::Peer(_)) => Outcome::AnsweredAfter { after: self.after(), answer: Answer::Error },
            Err(CallError::TimedOut { .. }) => match stop.receipt().map(|receipt| receipt.outcome) {
                Some(Outcome::NeverSent) => Outcome::Asked,
                _ => Outcome::Sent,
            },
            Err(_) => Outcome::Unknown,
        };
        (outcome, false)
    }

    async fn look_again(&mut self, task: &TaskId) -> Outcome {
        let call = self.tasks.about::<TaskState>(task, "tasks/get");
        let shown = call.response_timeout(CANCEL).total_timeout(CANCEL).detach().await;
        match shown.map(|state| state.status) {
            Ok(Status::Completed | Status::Failed) => Outcome::CompletedFirst,
            Ok(Status::Cancelled) => Outcome::Confirmed { after: self.after() },
            Ok(Status::Working | Status::InputRequired) | Err(_) => {
                Outcome::AnsweredAfter { after: self.after(), answer: Answer::Error }
            }
        }
    }

    /// Since the stop was asked for.
    fn after(&self) -> Duration {
        self.slip.asked().map(|(_, asked)| asked.elapsed()).unwrap_or_default()
    }
}

async fn unless_stopped<F: Future>(slip: &Slip, work: F) -> Result<F::Output, Off> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if slip.is_stopped() {
            return Poll::Ready(Err(Off::Stopped));
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
