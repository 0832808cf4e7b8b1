//! Servers over a store of each kind, clients in the test's hands, and work that says what becomes of it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rescind::{
    mcp::{Server, Tool, ToolResult},
    peer::{CauseCode, Context, ErrorObject, Peer},
};
use rescind_tasks::{
    AsTask, MemoryStore, SqliteOptions, SqliteStore, Status, TaskId, TaskStore, TaskSupport, TaskTool, Tasks,
    TasksBuilder,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::in_time::in_time;

#[expect(dead_code, reason = "these tests use their part of it")]
#[path = "../../../../rescind/tests/suite/rig.rs"]
mod wire;

pub(crate) use wire::{Wire, notification, request};

/// What a piece of work said of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Started(String),
    Fired(String, CauseCode),
    /// Its future is gone.
    Gone(String),
}

/// Which piece of work a call begins.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Piece {
    pub(crate) name: String,
}

/// Watches work, and lets it end.
#[derive(Clone)]
pub(crate) struct Witness {
    tell: mpsc::UnboundedSender<Seen>,
    /// Work that waits for the test takes one permit each.
    gate: Arc<Semaphore>,
}

pub(crate) struct Watch {
    seen: mpsc::UnboundedReceiver<Seen>,
    gate: Arc<Semaphore>,
}

pub(crate) fn watch() -> (Watch, Witness) {
    let (tell, seen) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    (Watch { seen, gate: Arc::clone(&gate) }, Witness { tell, gate })
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Seen {
        in_time(self.seen.recv()).await.expect("work is still there")
    }

    pub(crate) async fn started(&mut self, name: &str) {
        assert_eq!(self.next().await, Seen::Started(name.into()));
    }

    pub(crate) async fn gone(&mut self, name: &str) {
        assert_eq!(self.next().await, Seen::Gone(name.into()));
    }

    /// It was told to stop, and is gone.
    pub(crate) async fn stopped(&mut self, name: &str, code: CauseCode) {
        assert_eq!(self.next().await, Seen::Fired(name.into(), code));
        self.gone(name).await;
    }

    pub(crate) fn is_quiet(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }

    /// Lets one piece of work go on that waits for the test.
    pub(crate) fn release(&self) {
        self.gate.add_permits(1);
    }
}

pub(crate) struct Guard {
    name: String,
    tell: mpsc::UnboundedSender<Seen>,
}

impl Witness {
    pub(crate) fn guard(&self, piece: &Piece) -> Guard {
        let _ = self.tell.send(Seen::Started(piece.name.clone()));
        Guard { name: piece.name.clone(), tell: self.tell.clone() }
    }

    pub(crate) async fn released(&self) {
        self.gate.acquire().await.unwrap().forget();
    }
}

impl Guard {
    pub(crate) fn fired(&self, cx: &Context) {
        let code = cx.cause().map(|cause| cause.code).expect("a fired token has a cause");
        let _ = self.tell.send(Seen::Fired(self.name.clone(), code));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.tell.send(Seen::Gone(self.name.clone()));
    }
}

/// Ends by its token, or when the test says so.
pub(crate) fn patient(witness: &Witness) -> Tool {
    let witness = witness.clone();
    Tool::new("patient", "Waits for the test", move |piece: Piece, cx: Context| {
        let (witness, guard) = (witness.clone(), witness.guard(&piece));
        async move {
            match cx.unless_cancelled(witness.released()).await {
                Ok(()) => Ok("done"),
                Err(cancelled) => {
                    guard.fired(&cx);
                    Err(cancelled)
                }
            }
        }
    })
}

/// Ends by its token, with what it has.
pub(crate) fn partial(witness: &Witness) -> Tool {
    let witness = witness.clone();
    Tool::new("partial", "Keeps what it has", move |piece: Piece, cx: Context| {
        let guard = witness.guard(&piece);
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
            Ok::<_, ErrorObject>("half of it")
        }
    })
}

/// Never looks at its token.
pub(crate) fn stubborn(witness: &Witness) -> Tool {
    let witness = witness.clone();
    Tool::new("stubborn", "Never stops by itself", move |piece: Piece| {
        let (witness, guard) = (witness.clone(), witness.guard(&piece));
        async move {
            witness.released().await;
            drop(guard);
            Ok::<_, ErrorObject>("done all the same")
        }
    })
}

/// Fails in the way that it is asked to.
pub(crate) fn failing() -> Tool {
    Tool::new("failing", "Fails", |Piece { name }: Piece| async move {
        match &*name {
            "tool" => Ok(ToolResult::failed("no such file")),
            "itself" => Err(ErrorObject::cancelled()),
            _ => Err(ErrorObject::new(-1234, "it broke").with_data(&json!({ "big": 9_007_199_254_740_993_u64 }))),
        }
    })
}

pub(crate) fn tools(witness: &Witness) -> Vec<TaskTool> {
    vec![
        patient(witness).task(TaskSupport::Optional),
        partial(witness).task(TaskSupport::Optional),
        stubborn(witness).task(TaskSupport::Required),
        failing().task(TaskSupport::Optional),
    ]
}

pub(crate) fn with_tools(builder: TasksBuilder, tools: impl IntoIterator<Item = TaskTool>) -> TasksBuilder {
    tools.into_iter().fold(builder, TasksBuilder::tool)
}

/// A store, and its file if it has one.
pub(crate) struct Rig {
    pub(crate) store: Arc<dyn TaskStore>,
    folder: Option<tempfile::TempDir>,
}

impl Rig {
    pub(crate) fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::default()), folder: None }
    }

    /// The same tasks as another process has them, as far as the store can have any.
    pub(crate) fn elsewhere(&self) -> Arc<dyn TaskStore> {
        self.folder.as_ref().map_or_else(|| Arc::clone(&self.store), |folder| Arc::new(open(folder)))
    }

    pub(crate) fn tasks(&self, witness: &Witness) -> Tasks {
        with_tools(Tasks::builder(Arc::clone(&self.store)), tools(witness)).start()
    }
}

/// Runs a test on a store of each kind.
pub(crate) fn on_every_store(test: impl AsyncFn(Rig)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(Rig::memory()));
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig { store: Arc::new(open(&folder)), folder: Some(folder) };
    runtime.block_on(test(rig));
}

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    // Whoever has to wake does by the doorbell, or never.
    let options = SqliteOptions { slow_check: Duration::from_secs(3600), ..SqliteOptions::default() };
    SqliteStore::open(folder.path().join("tasks.db"), options).unwrap()
}

/// What clients of the two dialects do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    November,
    Extension,
}

pub(crate) const STYLES: [Style; 2] = [Style::November, Style::Extension];

/// A client in the test's hands.
pub(crate) struct Client {
    pub(crate) style: Style,
    pub(crate) wire: Wire,
    pub(crate) server: Peer,
    asked: u64,
    /// What came while an answer was waited for.
    pub(crate) heard: Vec<Value>,
    answers: HashMap<u64, Value>,
}

impl Client {
    /// Of a server of those tasks.
    pub(crate) async fn of(tasks: &Tasks, style: Style) -> Self {
        Self::connect(tasks.serve_on(server()), style, 64 * 1024).await
    }

    /// Over a pipe that holds so many bytes.
    pub(crate) async fn connect(server: Server, style: Style, pipe: usize) -> Self {
        let (ours, theirs) = tokio::io::duplex(pipe);
        let (server, driver) = server.accept(theirs);
        driver.spawn();
        let (heard, answers) = (Vec::new(), HashMap::new());
        let mut client = Self { style, wire: Wire::of(ours), server, asked: 0, heard, answers };
        if style == Style::November {
            client.greet("2025-11-25").await;
        }
        client
    }

    pub(crate) async fn greet(&mut self, revision: &str) -> Value {
        let hello =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } });
        let greeting = self.ask_raw("initialize", hello).await;
        self.wire.say(&notification("notifications/initialized", json!({}))).await;
        greeting["result"].clone()
    }

    /// Sends a request, and gives its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> u64 {
        let params = match self.style {
            Style::November => params,
            Style::Extension => modern(params, true),
        };
        self.send_raw(method, params).await
    }

    pub(crate) async fn send_raw(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.wire.say(&request(self.asked, method, params)).await;
        self.asked
    }

    /// The answer to that request; whatever else comes is kept.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.hear().await;
        }
    }

    async fn hear(&mut self) {
        let message = self.wire.hear().await;
        match (message.get("method"), message["id"].as_u64()) {
            (None, Some(id)) => drop(self.answers.insert(id, message)),
            _ => self.heard.push(message),
        }
    }

    /// The next message that is no answer.
    pub(crate) async fn next_heard(&mut self) -> Value {
        while self.heard.is_empty() {
            self.hear().await;
        }
        self.heard.remove(0)
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn ask_raw(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_raw(method, params).await;
        self.answer(id).await
    }

    /// A round trip: everything that was said before has been dealt with.
    pub(crate) async fn barrier(&mut self) {
        // 2026-07-28 has no `ping`, and says so.
        let answer = self.ask("ping", json!({})).await;
        assert!(answer["result"] == json!({}) || answer["error"]["code"] == -32601, "{answer}");
    }

    /// The id of a task that is made of this tool.
    pub(crate) async fn begin(&mut self, tool: &str, name: &str) -> String {
        let id = self.send_call(tool, name).await;
        let answer = self.answer(id).await;
        task_id(&answer)
    }

    pub(crate) async fn send_call(&mut self, tool: &str, name: &str) -> u64 {
        let mut params = json!({ "name": tool, "arguments": { "name": name } });
        if self.style == Style::November {
            params["task"] = json!({});
        }
        self.send("tools/call", params).await
    }

    pub(crate) async fn about(&mut self, method: &str, id: &str) -> Value {
        self.ask(method, json!({ "taskId": id })).await
    }

    pub(crate) async fn status(&mut self, id: &str) -> String {
        let answer = self.about("tasks/get", id).await;
        answer["result"]["status"].as_str().unwrap_or_else(|| panic!("no task: {answer}")).to_owned()
    }

    /// `tasks/cancel`, acknowledged as its dialect has it.
    pub(crate) async fn cancel(&mut self, id: &str) {
        let answer = self.about("tasks/cancel", id).await;
        match self.style {
            Style::November => assert_eq!(answer["result"]["status"], "cancelled", "TASK-03"),
            Style::Extension => assert_eq!(answer["result"], json!({ "resultType": "complete" }), "TASK-21"),
        }
    }
}

pub(crate) fn task_id(answer: &Value) -> String {
    let result = &answer["result"];
    let task = result.get("task").unwrap_or(result);
    task["taskId"].as_str().unwrap_or_else(|| panic!("no handle: {answer}")).to_owned()
}

pub(crate) fn modern(mut params: Value, declares: bool) -> Value {
    let capabilities =
        if declares { json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }) } else { json!({}) };
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

/// A server with a tool of its own, that is no task.
pub(crate) fn server() -> Server {
    Server::new("builder", "1.0.0").tool("plain", "No task", |_: Piece| async { Ok::<_, ErrorObject>("plain") })
}

/// The task, once it is settled, as its store has it.
pub(crate) async fn settled(store: &dyn TaskStore, id: &str) -> rescind_tasks::Task {
    let id = TaskId::received(id);
    let mut task = store.task(&rescind_tasks::Owner::NONE, &id).await.unwrap();
    while !task.is_settled() {
        task = store.changed(&rescind_tasks::Owner::NONE, &id, task.revision).await.unwrap();
    }
    task
}

pub(crate) async fn ends_as(store: &dyn TaskStore, id: &str, status: Status) {
    assert_eq!(settled(store, id).await.summary.status, status);
}
