//! An MCP client of tasks for real peers: `peer_task_client SCENARIO -- SERVER COMMAND…`.
//!
//! It prints what it did and saw as the clients in `peers/node` do, for servers with the tools of
//! `peers/node/mcp1/tasks-server.mjs`, and waits for the marks of their work.

use std::{
    env,
    error::Error,
    fs,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rescind::{
    mcp::{Client, ToolResult},
    peer::{ErrorObject, RawParams, transport::child::child},
};
use rescind_tasks::{
    TaskId,
    client::{TaskCall, TaskCallError, TaskClient, TaskStopHandle},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::sleep};

type Done = Result<(), Box<dyn Error>>;

/// A client with its server, and the lines that it has printed.
#[derive(Clone)]
struct Stage {
    client: Client,
    tasks: TaskClient,
    log: Log,
}

#[derive(Clone)]
struct Log {
    begun: Instant,
    lines: Arc<AtomicU64>,
    patience: Duration,
}

impl Log {
    fn line(&self, mut line: Value) {
        line["n"] = self.lines.fetch_add(1, Ordering::Relaxed).into();
        line["ms"] = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).into();
        writeln!(std::io::stdout().lock(), "{line}").expect("the test listens");
    }

    fn did(&self, what: &str, call: &str) {
        self.line(json!({ "did": what, "call": call }));
    }

    fn result(&self, call: &str, value: &str) {
        self.line(json!({ "saw": "result", "call": call, "value": value }));
    }

    fn error(&self, call: &str, message: &str) {
        self.line(json!({ "saw": "error", "call": call, "message": message }));
    }

    /// Polls `condition` until it holds, or reports that it never did.
    async fn until(&self, what: &str, condition: impl Fn(&[Value]) -> bool) {
        let begun = Instant::now();
        while !condition(&marks()) {
            if begun.elapsed() > self.patience {
                return self.line(json!({ "saw": "nothing", "waiting_for": what }));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn happened(&self, work: &str, events: &[&str]) {
        let what = format!("{work}: {events:?}");
        self.until(&what, |marks| events.iter().any(|event| is_marked(marks, work, event))).await;
    }

    /// Waits until the work itself has told of so many ticks more.
    async fn further(&self, work: &str, more: usize) {
        let end = ticks(&marks(), work) + more;
        self.until(&format!("{work} to go on"), |marks| ticks(marks, work) >= end).await;
    }

    /// Whether the work goes on so far that nobody can have stopped it, or is stopped.
    async fn goes_on(&self, work: &str) {
        let end = ticks(&marks(), work) + 5;
        let is_over = |marks: &[Value]| ticks(marks, work) >= end || is_marked(marks, work, "stopped");
        self.until(&format!("{work} to go on or stop"), is_over).await;
        if !is_marked(&marks(), work, "stopped") {
            self.line(json!({ "saw": "running", "work": work }));
        }
    }
}

/// Every whole line of marks so far.
fn marks() -> Vec<Value> {
    let text = env::var_os("RESCIND_MARKS").and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn is_marked(marks: &[Value], work: &str, event: &str) -> bool {
    marks.iter().any(|mark| mark["work"] == work && mark["event"] == event)
}

fn ticks(marks: &[Value], work: &str) -> usize {
    marks.iter().filter(|mark| mark["work"] == work && mark["event"] == "progress").count()
}

impl Stage {
    /// A call that becomes a task, sent.
    fn call(&self, work: &str, tool: &str, late: bool) -> TaskCall<ToolResult> {
        self.log.did("call", work);
        self.tasks.call_tool(tool, &json!({ "work": work, "late": late })).send()
    }

    /// Awaits a call to its end beside everything else.
    fn follow(&self, work: &'static str, call: TaskCall<ToolResult>) -> tokio::task::JoinHandle<()> {
        let log = self.log.clone();
        tokio::spawn(async move {
            match call.await {
                Ok(result) => log.result(work, &result.text()),
                Err(TaskCallError::Cancelled(cause)) => log.error(work, &format!("cancelled: {}", cause.code.as_str())),
                Err(error) => log.error(work, &error.to_string()),
            }
        })
    }

    async fn tool(&self, label: &str, name: &str, arguments: Value) -> Done {
        self.log.did("call", label);
        let result = self.client.call_tool(name, &arguments).await?;
        self.log.result(label, &result.text());
        Ok(())
    }

    async fn echo(&self, label: &str) -> Done {
        self.tool(label, "echo", json!({ "work": label })).await
    }

    async fn release(&self, of: &str) -> Done {
        self.tool(&format!("release {of}"), "release", json!({ "of": of })).await
    }

    async fn get(&self, label: &str, task: &TaskId) -> Done {
        self.log.did("call", label);
        match self.tasks.get(task).await {
            Ok(state) => self.log.result(label, state.status.as_str()),
            Err(error) => self.log.error(label, &error.to_string()),
        }
        Ok(())
    }

    /// Cancels, and says what the receipt says in the end.
    async fn cancel(&self, label: &str, stop: &TaskStopHandle) -> Result<TaskId, Box<dyn Error>> {
        self.log.did("cancel", label);
        let receipt = stop.cancel("user pressed Stop").await;
        self.log.result(label, receipt.outcome.as_str());
        Ok(receipt.task.ok_or("a cancelled task has a name")?)
    }

    async fn completes(&self) -> Done {
        let call = self.call("A", "plods", false);
        let stop = call.handle();
        let following = self.follow("A", call);
        self.log.further("A", 3).await;
        let task = stop.task().ok_or("the handle has come")?;
        self.get("A now", &task).await?;
        self.release("A").await?;
        following.await?;
        self.get("A then", &task).await
    }

    async fn cancelled(&self) -> Done {
        let (call, other) = (self.call("A", "looks", false), self.call("C", "looks", false));
        let stop = call.handle();
        let (following, others) = (self.follow("A", call), self.follow("C", other));
        self.log.further("A", 3).await;
        let task = self.cancel("cancel A", &stop).await?;
        following.await?;
        self.log.happened("A", &["stopped"]).await;
        self.get("A then", &task).await?;
        self.log.further("C", 3).await;
        self.release("C").await?;
        Ok(others.await?)
    }

    async fn plods(&self) -> Done {
        let call = self.call("A", "plods", false);
        let stop = call.handle();
        let following = self.follow("A", call);
        self.log.further("A", 3).await;
        let task = self.cancel("cancel A", &stop).await?;
        following.await?;
        self.log.goes_on("A").await;
        self.release("A").await?;
        self.log.happened("A", &["refused", "stopped"]).await;
        self.get("A then", &task).await
    }

    /// Dropped by whoever awaited it; its handle has come already.
    async fn dropped(&self) -> Done {
        let call = self.call("A", "looks", false);
        let stop = call.handle();
        let following = self.follow("A", call);
        self.log.further("A", 3).await;
        let task = stop.task().ok_or("the handle has come")?;
        following.abort();
        self.log.happened("A", &["stopped"]).await;
        self.get("A then", &task).await
    }

    /// Dropped before its handle came.
    async fn dropped_early(&self) -> Done {
        let call = self.call("A", "looks", true);
        self.log.further("A", 3).await;
        self.log.did("drop", "A");
        drop(call);
        self.echo("barrier").await?;
        self.log.goes_on("A").await;
        self.release("handle of A").await?;
        self.log.happened("A", &["stopped"]).await;
        Ok(())
    }

    async fn asks(&self) -> Done {
        let call = self.call("A", "asks", false);
        let stop = call.handle();
        self.follow("A", call).await?;
        self.get("A then", &stop.task().ok_or("it was a task")?).await
    }
}

#[tokio::main]
async fn main() -> Done {
    let mut arguments = env::args().skip(1);
    let scenario = arguments.next().ok_or("usage: peer_task_client SCENARIO -- SERVER COMMAND…")?;
    let mut command = arguments.skip_while(|argument| argument != "--").skip(1);
    let mut server = Command::new(command.next().ok_or("no server command")?);
    server.args(command);
    let patience = env::var("RESCIND_PATIENCE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let log = Log { begun: Instant::now(), lines: Arc::default(), patience: Duration::from_millis(patience) };

    let (transport, server) = child(server)?;
    let asked = log.clone();
    let builder = Client::peer_builder().on_request("elicitation/create", move |RawParams(params)| {
        let is_related = params.get().contains("io.modelcontextprotocol/related-task");
        asked.result("question", if is_related { "related" } else { "unrelated" });
        async { Ok::<_, ErrorObject>(json!({ "action": "accept", "content": {} })) }
    });
    let (peer, driver) = builder.connect(transport);
    let driver = driver.spawn();
    let client = Client::new(peer, "rescind-tasks", "1.0.0").capability("elicitation", json!({ "form": {} }));
    client.initialize().await?;
    log.line(json!({ "did": "connected" }));
    let stage = Stage { tasks: TaskClient::of(&client), client, log: log.clone() };
    match &*scenario {
        "task-completes" => stage.completes().await?,
        "task-cancelled" => stage.cancelled().await?,
        "task-plods" => stage.plods().await?,
        "task-dropped" => stage.dropped().await?,
        "task-dropped-early" => stage.dropped_early().await?,
        "task-asks" => stage.asks().await?,
        other => return Err(format!("no scenario named {other}").into()),
    }
    stage.echo("B").await?;
    log.line(json!({ "did": "close" }));
    drop(stage);
    driver.await??;
    drop(server);
    log.line(json!({ "did": "end" }));
    Ok(())
}
