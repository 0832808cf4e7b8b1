//! The work of a task: a tool's function, on a connection of its own.
//!
//! A task outlives its request and that request's connection. So its work is handled as a request on a second
//! connection, in memory, whose client is this module. The function has a [`Context`](rescind::peer::Context) as any
//! handler has, and is stopped in the same stages (D22), its linked tasks, threads and processes included. Its requests
//! and its progress arrive here and are forwarded to the client that follows the task.
//!
//! A request of the function goes on, with the task's name in it, to the connection that follows the task now, or is kept in
//! the task for `tasks/update`. The dialect of the second connection is a revision with such tasks in which a few fields are changed:
//! stopped work is answered, with a code of its own, so that its result is kept (D38) and an end by the cancel is certain
//! (D25); and the work may cancel its questions.
//!
//! The work begins when the handle of its task was written. So a call that is cancelled, or loses its client, before that
//! leaves a cancelled task and no work (case 59). The task is durable before (TASK-23): if the process dies in between, the
//! next one resumes it.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rescind::{
    mcp::{Server, Tool},
    peer::{
        Call, CallError, Cause, CauseCode, Dialect, ErrorObject, Method, Peer, ProgressReport, RawParams, error_code,
        transport::memory,
    },
};
use rescind_proto::dialect::{CancelReply, Cancellers, ErrorText};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Shared,
    running::{CurrentClient, RunningTask},
    wire,
};
use crate::{
    dialect::TaskDialect,
    error::TaskError,
    id::TaskId,
    json::Json,
    outcome::TaskOutcome,
    status::Status,
    step::Access,
    store::{FinishEffect, Run},
    task::CancelRecord,
};

/// The answer of stopped work. Nothing else on its connection has this code, so an end by the cancel is certain (D25).
const STOPPED: ErrorText =
    ErrorText { code: error_code::REQUEST_CANCELLED, message: "the server cancelled this request" };

/// Returns the dialect of the work's connection: the newest revision with such tasks, except that a stopped request is
/// answered, and that the work may ask questions and cancel them.
fn dialect_of_work(dialect: TaskDialect) -> &'static Dialect {
    static NOVEMBER_2025: LazyLock<Dialect> = LazyLock::new(|| answering(TaskDialect::November2025));
    static EXTENSION: LazyLock<Dialect> = LazyLock::new(|| answering(TaskDialect::Extension));
    match dialect {
        TaskDialect::November2025 => &NOVEMBER_2025,
        TaskDialect::Extension => &EXTENSION,
    }
}

fn answering(dialect: TaskDialect) -> Dialect {
    Dialect {
        settlement: CancelReply::Answered(STOPPED),
        gave_up: STOPPED,
        cancellers: Cancellers::Both,
        no_server_requests: None,
        tasks: None,
        ..*dialect.newest()
    }
}

/// Begins the work of a task once its handle was `delivered`. If the handle was not, no client can name the task, and
/// it is cancelled (D38, case 59).
pub(super) fn begin(
    shared: &Arc<Shared>,
    mut run: Run,
    tool: Tool,
    client: Option<Peer>,
    delivered: impl Future<Output = bool> + Send + 'static,
) {
    let task = RunningTask::register(shared, &run.task().summary.id, client);
    tokio::spawn(async move {
        if delivered.await {
            Work::of(run, task).run_to_end(&tool).await;
        } else {
            let id = run.task().summary.id.clone();
            let recorded = task.store().cancel(Access::Operator, &id, Cause::new(CauseCode::Disconnect)).await;
            // If the cancel was not recorded, dropping the run fails the task.
            if recorded.is_ok() {
                let _ = run.finish(TaskOutcome::Stopped, None).await;
            }
        }
    });
}

/// The work of one task, and what its task needs to show of it.
struct Work {
    run: Run,
    task: RunningTask,
    /// Questions without an answer. `None` where the client is asked directly, not through the task.
    open: BTreeMap<String, Option<oneshot::Sender<QuestionReply>>>,
    /// The work's last progress message.
    message: watch::Receiver<Option<String>>,
    stopped: Option<StopReason>,
}

/// Why the work was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    /// Its task was cancelled.
    Cancelled,
    /// This process is shutting down; another may resume the work.
    Closing,
}

/// How the work ended.
enum WorkEnd {
    Finished(TaskOutcome),
    /// Not at all: another process may resume it.
    Released,
}

/// What the work's side of its connection reports to this side.
enum QuestionEvent {
    Asked {
        key: String,
        question: Json,
        reply: oneshot::Sender<QuestionReply>,
    },
    /// The question was answered or withdrawn.
    Closed {
        key: String,
    },
}

/// Where the answer to a question comes from.
enum QuestionReply {
    /// From the client, by a request of its own (2025-11-25).
    AskClient,
    Answered(Json),
}

impl Work {
    fn of(run: Run, task: RunningTask) -> Self {
        let (_, message) = watch::channel(None);
        Self { run, task, open: BTreeMap::new(), message, stopped: None }
    }

    async fn run_to_end(mut self, tool: &Tool) {
        if self.run.is_cancelled() {
            return self.finish(TaskOutcome::Stopped).await;
        }
        let params = self.run.task().request.params.clone();
        let dialect = dialect_of_work(self.run.task().summary.dialect);
        let (near, far) = memory();
        let change = Arc::clone(&self.task.shared().change);
        let served = Server::new(tool.name(), "").with_tool(tool.clone());
        let served = served.with(|builder| change(builder).configure(|config| config.dialect = Some(dialect)));
        let (server, driver) = served.accept(far);
        driver.spawn();
        let (events, questions) = mpsc::unbounded_channel();
        let proxy = Arc::new(ClientProxy::of(&self.run, self.task.client(), events));
        let (notifier, reporter) = (Arc::clone(&proxy), Arc::clone(&proxy));
        self.message = proxy.message.subscribe();
        let client = Peer::builder(dialect)
            .on_other_requests(move |Method(method), RawParams(params)| Arc::clone(&proxy).request(method, params))
            .on_other_notifications(move |Method(method), RawParams(params)| notifier.notify(&method, &params));
        let (client, driver) = client.connect(near);
        driver.spawn();
        let has_token = params.as_ref().is_some_and(|params| asks_for_progress(params.as_str()));
        let call = client
            .request::<Box<RawValue>>("tools/call", &params)
            .without_timeouts()
            .progress(move |progress| reporter.progress(&progress, has_token))
            .send();
        match self.follow(call, questions, &WorkConnection { server, client }).await {
            WorkEnd::Finished(outcome) => self.finish(outcome).await,
            // If the release fails, dropping the run fails the task.
            WorkEnd::Released => drop(self.run.release().await),
        }
    }

    /// Follows the work to its end: forwards its questions and messages, stops it, delivers answers.
    async fn follow(
        &mut self,
        call: Call<Box<RawValue>>,
        mut questions: mpsc::UnboundedReceiver<QuestionEvent>,
        connection: &WorkConnection,
    ) -> WorkEnd {
        let (mut call, mut cancelled) = (pin!(call), pin!(self.run.cancelled()));
        let mut closed = pin!(self.task.shared().closed());
        let mut is_lost = false;
        loop {
            let awaits_answers = !is_lost && self.open.values().any(Option::is_some);
            tokio::select! {
                biased;
                answer = &mut call => return end_of(answer, self.stopped),
                CancelRecord { cause, .. } = &mut cancelled, if self.stopped.is_none() => {
                    self.stopped = Some(StopReason::Cancelled);
                    connection.stop(cause).await;
                    self.notify_status().await;
                }
                () = &mut closed, if self.stopped.is_none() => {
                    self.stopped = Some(StopReason::Closing);
                    connection.stop(Cause::new(CauseCode::Shutdown)).await;
                }
                Some(event) = questions.recv() => self.handle_question(event).await,
                Ok(()) = self.message.changed() => self.update_message().await,
                changed = self.run.changed(), if awaits_answers => {
                    is_lost = changed.is_err();
                    self.deliver_answers();
                }
            }
        }
    }

    async fn handle_question(&mut self, event: QuestionEvent) {
        match event {
            QuestionEvent::Asked { key, question, reply } => {
                let is_extension = self.run.task().summary.dialect == TaskDialect::Extension;
                let inputs = if is_extension { vec![(key.clone(), question)] } else { Vec::new() };
                let message = self.message.borrow().clone();
                // If this fails, dropping `reply` fails the question.
                if self.run.ask_input(message.as_deref(), inputs).await.is_err() {
                    return;
                }
                // The client learns the status before it is asked.
                self.notify_status().await;
                let waiting = if is_extension {
                    Some(reply)
                } else {
                    let _ = reply.send(QuestionReply::AskClient);
                    None
                };
                self.open.insert(key, waiting);
            }
            QuestionEvent::Closed { key } => {
                let was_open = self.open.remove(&key).is_some();
                let still_asks = self.run.task().summary.status == Status::InputRequired;
                if was_open && self.open.is_empty() && still_asks {
                    let message = self.message.borrow().clone();
                    if self.run.set_working(message.as_deref()).await.is_ok() {
                        self.notify_status().await;
                    }
                }
            }
        }
    }

    /// Delivers answers that came by `tasks/update`.
    fn deliver_answers(&mut self) {
        let inputs = &self.run.task().inputs;
        for (key, waiting) in &mut self.open {
            if let Some(answer) = inputs.response(key)
                && let Some(reply) = waiting.take()
            {
                let _ = reply.send(QuestionReply::Answered(answer.clone()));
            }
        }
    }

    /// Shows the work's last progress message as the task's status message.
    async fn update_message(&mut self) {
        let message = self.message.borrow_and_update().clone();
        // Fails for a task that has ended, or that another process runs now: it has no message of this run.
        let _ = match self.run.task().summary.status {
            Status::InputRequired => self.run.ask_input(message.as_deref(), Vec::new()).await,
            Status::Working | Status::Completed | Status::Failed | Status::Cancelled => {
                self.run.set_working(message.as_deref()).await
            }
        };
    }

    async fn finish(mut self, outcome: TaskOutcome) {
        let message = match &outcome {
            TaskOutcome::Error(error) => {
                serde_json::from_str::<ErrorObject>(error.as_str()).ok().map(|error| error.message)
            }
            TaskOutcome::Result(_) | TaskOutcome::ToolError(_) | TaskOutcome::Stopped => None,
        };
        let mut finished = self.run.finish(outcome, message.as_deref()).await;
        if let Err(TaskError::TooLarge { .. }) = &finished {
            let error = ErrorObject::new(error_code::TOO_LARGE, "the result is larger than a task keeps");
            finished = self.run.finish(error_outcome(&error), Some(&error.message)).await;
        }
        // The end of a cancelled task was notified when it was cancelled.
        if matches!(finished, Ok(FinishEffect::Won(_))) {
            self.notify_status().await;
        }
    }

    /// Notifies the client of the status in 2025-11-25, which offers that to every client. Skipped for one that leaves
    /// too much unread.
    async fn notify_status(&self) {
        let Some(client) = self.task.client().get() else { return };
        let task = self.run.task();
        if task.summary.dialect == TaskDialect::Extension {
            return;
        }
        // Loaded anew: a cancel changes the task without its run.
        let Ok(task) = self.task.store().task(&task.owner, &task.summary.id).await else { return };
        if let Ok(status) = wire::summary(&task.summary) {
            let _ = client.try_notify("notifications/tasks/status", &status);
        }
    }
}

/// Both ends of the work's connection, which stays open as long as this.
struct WorkConnection {
    server: Peer,
    client: Peer,
}

impl WorkConnection {
    /// Stops the work, which is answered once it has ended.
    async fn stop(&self, cause: Cause) {
        // After a round trip the server has received the call.
        let _ = self.client.request::<Box<RawValue>>("ping", &()).without_timeouts().await;
        for request in self.server.in_flight().theirs {
            self.server.stop(request.key, cause.clone());
        }
    }
}

/// The client that the work sees: it forwards to the client of the task.
struct ClientProxy {
    id: TaskId,
    dialect: TaskDialect,
    attempt: u32,
    asked: AtomicU64,
    events: mpsc::UnboundedSender<QuestionEvent>,
    message: watch::Sender<Option<String>>,
    client: CurrentClient,
    signal: watch::Receiver<Option<CancelRecord>>,
}

impl ClientProxy {
    fn of(run: &Run, client: CurrentClient, events: mpsc::UnboundedSender<QuestionEvent>) -> Self {
        let task = run.task();
        let (id, dialect, attempt) = (task.summary.id.clone(), task.summary.dialect, task.attempt);
        let (asked, message) = (AtomicU64::new(0), watch::Sender::new(None));
        Self { id, dialect, attempt, asked, events, message, client, signal: run.signal() }
    }

    /// Forwards a request of the work. While a question is open, the task is `input_required`.
    async fn request(self: Arc<Self>, method: String, params: Box<RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let is_question = matches!(&*method, "elicitation/create" | "sampling/createMessage" | "roots/list");
        if !is_question {
            return match self.dialect {
                TaskDialect::November2025 => self.ask_client(method, &params).await,
                TaskDialect::Extension => Err(ErrorObject::method_not_found(&method)),
            };
        }
        // Unique among all runs of the task.
        let key = format!("{}-{}", self.attempt, self.asked.fetch_add(1, Ordering::Relaxed));
        let question = if params.get() == "null" {
            to_raw_value(&json!({ "method": method }))?
        } else {
            to_raw_value(&BTreeMap::from([("method", to_raw_value(&method)?), ("params", params.clone())]))?
        };
        let (reply, replied) = oneshot::channel();
        let _open = OpenQuestion { events: &self.events, key: key.clone() };
        let _ = self.events.send(QuestionEvent::Asked { key, question: Json::from(&*question), reply });
        match replied.await {
            Ok(QuestionReply::AskClient) => self.ask_client(method, &params).await,
            Ok(QuestionReply::Answered(answer)) => Ok(to_raw_value(&answer)?),
            Err(_) => Err(ErrorObject::cancelled()),
        }
    }

    /// Sends the client a request; when its connection has ended, sends it to the next client that follows the task.
    async fn ask_client(&self, method: String, params: &RawValue) -> Result<Box<RawValue>, ErrorObject> {
        let params = self.related(params)?;
        let mut current = self.client.clone();
        loop {
            let client = current.next().await.ok_or_else(ErrorObject::cancelled)?;
            match client.request(method.clone(), &params).await {
                Err(CallError::Closed) => {}
                Err(error) => return Err(error.into()),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Forwards a notification, except in the extension, which has none, and after a cancel.
    fn notify(&self, method: &str, params: &RawValue) {
        if self.dialect == TaskDialect::Extension || self.signal.borrow().is_some() {
            return;
        }
        if let (Some(client), Ok(params)) = (self.client.get(), self.related(params)) {
            let _ = client.try_notify(method, &params);
        }
    }

    /// Forwards progress, which the task has until its terminal status (MCP-P01, MCP-P03). Its message becomes the
    /// task's status message.
    fn progress(&self, progress: &ProgressReport, has_token: bool) {
        if let Some(message) = progress.message() {
            self.message.send_replace(Some(message));
        }
        if has_token && let Ok(params) = progress.params::<Box<RawValue>>() {
            self.notify("notifications/progress", &params);
        }
    }

    fn related(&self, params: &RawValue) -> Result<Box<RawValue>, ErrorObject> {
        let object = if params.get() == "null" { "{}" } else { params.get() };
        Ok(wire::related(object, &self.id)?)
    }
}

/// Reports that its question is closed when it is dropped, however the question ends.
struct OpenQuestion<'a> {
    events: &'a mpsc::UnboundedSender<QuestionEvent>,
    key: String,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let _ = self.events.send(QuestionEvent::Closed { key: std::mem::take(&mut self.key) });
    }
}

fn asks_for_progress(params: &str) -> bool {
    rescind_proto::json::lookup(params.as_bytes(), &["_meta", "progressToken"]).is_some()
}

fn end_of(answer: Result<Box<RawValue>, CallError>, stopped: Option<StopReason>) -> WorkEnd {
    WorkEnd::Finished(match answer {
        Ok(result) => {
            let json = Json::from(&*result);
            let is_error = rescind_proto::json::member(result.get().as_bytes(), "isError") == Some(b"true");
            if is_error { TaskOutcome::ToolError(json) } else { TaskOutcome::Result(json) }
        }
        Err(CallError::Peer(error)) if error.code == STOPPED.code => match stopped {
            Some(StopReason::Cancelled) => TaskOutcome::Stopped,
            Some(StopReason::Closing) => return WorkEnd::Released,
            // The work cancelled itself, or exceeded its route's time limit (D24).
            None => error_outcome(&ErrorObject::internal(error.message)),
        },
        Err(CallError::Peer(error)) => error_outcome(&error),
        Err(_) => error_outcome(&ErrorObject::internal("the work could not be run")),
    })
}

pub(super) fn error_outcome(error: &ErrorObject) -> TaskOutcome {
    let raw = to_raw_value(error).expect("an error object is JSON");
    TaskOutcome::Error(Json::from(&*raw))
}
