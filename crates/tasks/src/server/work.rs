//! The work of a task: a tool's function, on a connection of its own.
//!
//! A task outlives the request that made it and the connection on which that came. So its work is handled as a request
//! of another connection, in memory, whose client is this module: the function has a [`Context`](rescind::peer::Context) as ever, and is
//! stopped by the same ladder (D22), its linked tasks, threads and processes included. What it asks its client, and
//! the progress that it reports, arrive here, and go on to whoever follows the task.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rescind::{
    mcp::{Server, Tool},
    peer::{
        Call, CallError, Cause, CauseCode, Dialect as Spoken, ErrorObject, Method, Peer, Progress, RawParams,
        error_code, transport::memory,
    },
};
use rescind_proto::dialect::{CancelReply, Cancellers, ErrorText, mcp};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Shared,
    line::{Line, Place},
    wire,
};
use crate::{
    error::TaskError,
    id::TaskId,
    json::Json,
    outcome::Outcome,
    run::Run,
    status::Status,
    step::Access,
    store::Finished,
    task::{Cancel, Dialect},
};

/// What work says that was stopped: nothing else on its connection says it, so that it cannot be mistaken (D25).
const STOPPED: ErrorText =
    ErrorText { code: error_code::REQUEST_CANCELLED, message: "the server cancelled this request" };

/// What the work of a task hears: its revision, except that a stopped request is answered, and that whoever asked may
/// take a question back.
static NOVEMBER_2025: Spoken =
    Spoken { settlement: CancelReply::Answered(STOPPED), gave_up: STOPPED, tasks: None, ..mcp::REVISION_2025_11_25 };
static EXTENSION: Spoken = Spoken {
    settlement: CancelReply::Answered(STOPPED),
    gave_up: STOPPED,
    cancellers: Cancellers::Both,
    no_server_requests: None,
    ..mcp::REVISION_2026_07_28
};

/// Begins the work of a task once `delivered` says that somebody has its handle; else nobody could ever name it, and
/// the task is cancelled (D38, case 59).
pub(super) fn begin(
    shared: &Arc<Shared>,
    mut run: Run,
    tool: Tool,
    client: Option<Peer>,
    delivered: impl Future<Output = bool> + Send + 'static,
) {
    let place = Place::enter(shared, &run.task().summary.id, client);
    tokio::spawn(async move {
        if delivered.await {
            Work::of(run, place).run_to_end(&tool).await;
        } else {
            let id = run.task().summary.id.clone();
            let recorded = place.store().cancel(Access::Operator, &id, Cause::new(CauseCode::Disconnect)).await;
            // Without a record the run says that it was given up, when it is dropped.
            if recorded.is_ok() {
                let _ = run.finish(Outcome::Stopped, None).await;
            }
        }
    });
}

/// Work that goes on.
struct Work {
    run: Run,
    place: Place,
    /// Questions that wait for an answer; of one whose client is asked directly there is nobody to be told.
    open: BTreeMap<String, Option<oneshot::Sender<Go>>>,
    /// What it said last of how far it is.
    words: watch::Receiver<Option<String>>,
    stopped: Option<Stopped>,
}

/// Why the work was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// Its task was cancelled.
    Cancelled,
    /// This process ends: somebody else may take the work up.
    Closing,
}

/// How the work ended.
enum End {
    With(Outcome),
    /// For whoever takes it up.
    Left,
}

/// What the work's end of its connection tells this end.
enum Ask {
    Put {
        key: String,
        question: Json,
        reply: oneshot::Sender<Go>,
    },
    /// Whoever asked has its answer, or wants none any more.
    Over {
        key: String,
    },
}

/// How a question goes on.
enum Go {
    /// By asking whoever follows the task (2025-11-25).
    ToClient,
    Answered(Json),
}

impl Work {
    fn of(run: Run, place: Place) -> Self {
        let (_, words) = watch::channel(None);
        Self { run, place, open: BTreeMap::new(), words, stopped: None }
    }

    async fn run_to_end(mut self, tool: &Tool) {
        if self.run.is_cancelled() {
            return self.finish(Outcome::Stopped).await;
        }
        let params = self.run.task().request.params.clone();
        let dialect = match self.run.task().summary.dialect {
            Dialect::November2025 => &NOVEMBER_2025,
            Dialect::Extension => &EXTENSION,
        };
        let (near, far) = memory();
        let change = Arc::clone(&self.place.shared().change);
        let served = Server::new(tool.name(), "").with_tool(tool.clone());
        let served = served.with(|builder| change(builder).configure(|config| config.dialect = Some(dialect)));
        let (inner, driver) = served.accept(far);
        driver.spawn();
        let (asks, asked) = mpsc::unbounded_channel();
        let asker = Arc::new(Asker::of(&self.run, self.place.line(), asks));
        let (teller, words) = (Arc::clone(&asker), Arc::clone(&asker));
        self.words = asker.words.subscribe();
        let outer = Peer::builder(dialect)
            .fallback(move |Method(method), RawParams(params)| Arc::clone(&asker).ask(method, params))
            .other_notifications(move |Method(method), RawParams(params)| teller.tell(&method, &params));
        let (outer, driver) = outer.connect(near);
        driver.spawn();
        let has_token = params.as_ref().is_some_and(|params| asks_for_progress(params.as_str()));
        let call = outer
            .request::<Box<RawValue>>("tools/call", &params)
            .without_timeouts()
            .progress(move |progress| words.progress(&progress, has_token))
            .send();
        match self.follow(call, asked, &Ends { inner, outer }).await {
            End::With(outcome) => self.finish(outcome).await,
            // What cannot be left is given up.
            End::Left => drop(self.run.leave().await),
        }
    }

    /// Until the work has ended: what it asks, what it is told.
    async fn follow(&mut self, call: Call<Box<RawValue>>, mut asked: mpsc::UnboundedReceiver<Ask>, ends: &Ends) -> End {
        let (mut call, mut cancelled) = (pin!(call), pin!(self.run.cancelled()));
        let mut closed = pin!(self.place.shared().closed());
        let mut is_lost = false;
        loop {
            let awaits_answers = !is_lost && self.open.values().any(Option::is_some);
            tokio::select! {
                biased;
                answer = &mut call => return end(answer, self.stopped),
                Cancel { cause, .. } = &mut cancelled, if self.stopped.is_none() => {
                    self.stopped = Some(Stopped::Cancelled);
                    ends.stop(cause).await;
                    self.tell_status().await;
                }
                () = &mut closed, if self.stopped.is_none() => {
                    self.stopped = Some(Stopped::Closing);
                    ends.stop(Cause::new(CauseCode::Shutdown)).await;
                }
                Some(ask) = asked.recv() => self.take(ask).await,
                Ok(()) = self.words.changed() => self.say().await,
                changed = self.run.changed(), if awaits_answers => {
                    is_lost = changed.is_err();
                    self.hand_over_answers();
                }
            }
        }
    }

    async fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Put { key, question, reply } => {
                let is_extension = self.run.task().summary.dialect == Dialect::Extension;
                let inputs = if is_extension { vec![(key.clone(), question)] } else { Vec::new() };
                let words = self.words.borrow().clone();
                // Refused, the asker hears it by the reply that is dropped here.
                if self.run.ask_input(words.as_deref(), inputs).await.is_err() {
                    return;
                }
                // The client knows the status before it is asked.
                self.tell_status().await;
                let waits = if is_extension {
                    Some(reply)
                } else {
                    let _ = reply.send(Go::ToClient);
                    None
                };
                self.open.insert(key, waits);
            }
            Ask::Over { key } => {
                let was_open = self.open.remove(&key).is_some();
                let still_asks = self.run.task().summary.status == Status::InputRequired;
                if was_open && self.open.is_empty() && still_asks {
                    let words = self.words.borrow().clone();
                    if self.run.work(words.as_deref()).await.is_ok() {
                        self.tell_status().await;
                    }
                }
            }
        }
    }

    /// Gives answers that came by `tasks/update` to those who asked.
    fn hand_over_answers(&mut self) {
        let inputs = &self.run.task().inputs;
        for (key, waits) in &mut self.open {
            if let Some(answer) = inputs.response(key)
                && let Some(reply) = waits.take()
            {
                let _ = reply.send(Go::Answered(answer.clone()));
            }
        }
    }

    /// Says in the task's status what the work said last.
    async fn say(&mut self) {
        let words = self.words.borrow_and_update().clone();
        // A task that has ended, or that somebody else runs now, says nothing more.
        let _ = match self.run.task().summary.status {
            Status::InputRequired => self.run.ask_input(words.as_deref(), Vec::new()).await,
            Status::Working | Status::Completed | Status::Failed | Status::Cancelled => {
                self.run.work(words.as_deref()).await
            }
        };
    }

    async fn finish(mut self, outcome: Outcome) {
        let words = match &outcome {
            Outcome::Error(error) => {
                serde_json::from_str::<ErrorObject>(error.as_str()).ok().map(|error| error.message)
            }
            Outcome::Result(_) | Outcome::ToolError(_) | Outcome::Stopped => None,
        };
        let mut finished = self.run.finish(outcome, words.as_deref()).await;
        if let Err(TaskError::TooLarge { .. }) = &finished {
            let error = ErrorObject::new(error_code::TOO_LARGE, "the result is larger than a task keeps");
            finished = self.run.finish(error_outcome(&error), Some(&error.message)).await;
        }
        // Of a task that was cancelled the end was told before.
        if matches!(finished, Ok(Finished::Won(_))) {
            self.tell_status().await;
        }
    }

    /// Notifies the followers of the task of its status, where that is offered to all of them (2025-11-25); not one that
    /// leaves too much unread.
    async fn tell_status(&self) {
        let Some(client) = self.place.line().client() else { return };
        let task = self.run.task();
        if task.summary.dialect == Dialect::Extension {
            return;
        }
        // A cancel changes a task behind the back of its run.
        let Ok(task) = self.place.store().task(&task.owner, &task.summary.id).await else { return };
        if let Ok(status) = wire::summary(&task.summary) {
            let _ = client.try_notify("notifications/tasks/status", &status);
        }
    }
}

/// Both ends of the work's connection: it lives as long as this.
struct Ends {
    inner: Peer,
    outer: Peer,
}

impl Ends {
    /// Stops the work; it is answered once it has ended.
    async fn stop(&self, cause: Cause) {
        // A round trip: the call was taken in before.
        let _ = self.outer.request::<Box<RawValue>>("ping", &()).without_timeouts().await;
        for request in self.inner.in_flight().theirs {
            self.inner.stop(request.key, cause.clone());
        }
    }
}

/// The client of the work, as the work sees it.
struct Asker {
    id: TaskId,
    dialect: Dialect,
    attempt: u32,
    asked: AtomicU64,
    asks: mpsc::UnboundedSender<Ask>,
    words: watch::Sender<Option<String>>,
    line: Line,
    signal: watch::Receiver<Option<Cancel>>,
}

impl Asker {
    fn of(run: &Run, line: Line, asks: mpsc::UnboundedSender<Ask>) -> Self {
        let task = run.task();
        let (id, dialect, attempt) = (task.summary.id.clone(), task.summary.dialect, task.attempt);
        let (asked, words) = (AtomicU64::new(0), watch::Sender::new(None));
        Self { id, dialect, attempt, asked, asks, words, line, signal: run.signal() }
    }

    /// Asks whoever follows the task, and moves its status meanwhile.
    async fn ask(self: Arc<Self>, method: String, params: Box<RawValue>) -> Result<Box<RawValue>, ErrorObject> {
        let is_question = matches!(&*method, "elicitation/create" | "sampling/createMessage" | "roots/list");
        if !is_question {
            return match self.dialect {
                Dialect::November2025 => self.ask_client(method, &params).await,
                Dialect::Extension => Err(ErrorObject::method_not_found(&method)),
            };
        }
        // No key is used twice, whoever ran the work before.
        let key = format!("{}-{}", self.attempt, self.asked.fetch_add(1, Ordering::Relaxed));
        let question = if params.get() == "null" {
            to_raw_value(&json!({ "method": method }))?
        } else {
            to_raw_value(&BTreeMap::from([("method", to_raw_value(&method)?), ("params", params.clone())]))?
        };
        let (reply, replied) = oneshot::channel();
        let _over = Over { asks: &self.asks, key: key.clone() };
        let _ = self.asks.send(Ask::Put { key, question: Json::from(&*question), reply });
        match replied.await {
            Ok(Go::ToClient) => self.ask_client(method, &params).await,
            Ok(Go::Answered(answer)) => Ok(to_raw_value(&answer)?),
            Err(_) => Err(ErrorObject::cancelled()),
        }
    }

    /// Asks by a request of its own; when its connection has ended, whoever follows the task next.
    async fn ask_client(&self, method: String, params: &RawValue) -> Result<Box<RawValue>, ErrorObject> {
        let params = self.related(params)?;
        let mut line = self.line.clone();
        loop {
            let client = line.next_client().await.ok_or_else(ErrorObject::cancelled)?;
            match client.request(method.clone(), &params).await {
                Err(CallError::Closed) => {}
                Err(error) => return Err(error.into()),
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Passes a notification on, if the task may have any (the extension has none).
    fn tell(&self, method: &str, params: &RawValue) {
        if self.dialect == Dialect::Extension || self.signal.borrow().is_some() {
            return;
        }
        if let (Some(client), Ok(params)) = (self.line.client(), self.related(params)) {
            let _ = client.try_notify(method, &params);
        }
    }

    /// Progress is the task's until its terminal status (MCP-P01, MCP-P03); its words are the status in words.
    fn progress(&self, progress: &Progress, has_token: bool) {
        if let Some(words) = progress.message() {
            self.words.send_replace(Some(words));
        }
        if has_token && let Ok(params) = progress.params::<Box<RawValue>>() {
            self.tell("notifications/progress", &params);
        }
    }

    fn related(&self, params: &RawValue) -> Result<Box<RawValue>, ErrorObject> {
        let object = if params.get() == "null" { "{}" } else { params.get() };
        Ok(wire::related(object, &self.id)?)
    }
}

/// Says that a question is over, whichever way it ends.
struct Over<'a> {
    asks: &'a mpsc::UnboundedSender<Ask>,
    key: String,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let _ = self.asks.send(Ask::Over { key: std::mem::take(&mut self.key) });
    }
}

fn asks_for_progress(params: &str) -> bool {
    rescind_proto::json::lookup(params.as_bytes(), &["_meta", "progressToken"]).is_some()
}

/// What the answer of the work means.
fn end(answer: Result<Box<RawValue>, CallError>, stopped: Option<Stopped>) -> End {
    End::With(match answer {
        Ok(result) => {
            let json = Json::from(&*result);
            let is_error = rescind_proto::json::member(result.get().as_bytes(), "isError") == Some(b"true");
            if is_error { Outcome::ToolError(json) } else { Outcome::Result(json) }
        }
        Err(CallError::Peer(error)) if error.code == STOPPED.code => match stopped {
            Some(Stopped::Cancelled) => Outcome::Stopped,
            Some(Stopped::Closing) => return End::Left,
            // It cancelled itself, or took longer than its route allows (D24).
            None => error_outcome(&ErrorObject::internal(error.message)),
        },
        Err(CallError::Peer(error)) => error_outcome(&error),
        Err(_) => error_outcome(&ErrorObject::internal("the work could not be run")),
    })
}

pub(super) fn error_outcome(error: &ErrorObject) -> Outcome {
    let raw = to_raw_value(error).expect("an error object is JSON");
    Outcome::Error(Json::from(&*raw))
}
