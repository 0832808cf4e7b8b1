//! A client of ours whose server is the test.

use rescind::{mcp::Client, peer::Builder};
use rescind_tasks::client::{TaskClient, TaskNotifications};
use rescind_testkit::valid::{self, Protocol};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinHandle,
    time::{Duration, Instant},
};

use crate::in_time::in_time;

pub(crate) const TASK: &str = "786512e2";

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// All that a server of 2025-11-25 can declare of tasks.
pub(crate) fn all() -> Value {
    json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } })
}

/// The server's end of a link.
pub(crate) struct Wire {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    barriers: u64,
}

/// A client and its server.
pub(crate) struct Rig {
    pub(crate) wire: Wire,
    pub(crate) client: Client,
    pub(crate) tasks: TaskClient,
    pub(crate) driver: JoinHandle<std::io::Result<()>>,
}

/// A session of 2025-11-25 with a server that declares this of tasks.
pub(crate) async fn november(declared: Value) -> Rig {
    november_with(Client::peer_builder(), declared).await
}

pub(crate) async fn november_with(builder: Builder, declared: Value) -> Rig {
    let mut rig = connect(builder);
    let client = rig.client.clone();
    let opened = tokio::spawn(async move { client.initialize().await });
    let asked = rig.wire.hear().await;
    let capabilities = json!({ "tasks": declared, "tools": {} });
    rig.wire.result(&asked, json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities })).await;
    opened.await.unwrap().unwrap();
    assert_eq!(rig.wire.hear().await["method"], "notifications/initialized");
    rig
}

/// A session of 2026-07-28.
pub(crate) async fn modern() -> Rig {
    let mut rig = connect(Client::peer_builder());
    let client = rig.client.clone();
    let opened = tokio::spawn(async move { client.discover().await });
    let asked = rig.wire.hear().await;
    rig.wire.result(&asked, json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} })).await;
    opened.await.unwrap().unwrap();
    rig
}

fn connect(builder: Builder) -> Rig {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let notifications = TaskNotifications::new();
    let (peer, driver) = notifications.register(builder).connect(theirs);
    let driver = driver.spawn();
    let client = Client::new(peer, "tester", "1");
    let tasks = TaskClient::of(&client).notified_by(&notifications);
    let (input, output) = tokio::io::split(ours);
    Rig { wire: Wire { input: BufReader::new(input), output, barriers: 0 }, client, tasks, driver }
}

impl Wire {
    pub(crate) async fn say(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn result(&mut self, request: &Value, result: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn error(&mut self, request: &Value, code: i32) {
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": code, "message": "no" } })).await;
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let read = in_time(self.input.read_line(&mut line)).await.unwrap();
        assert!(read > 0, "the client has closed");
        let line = line.trim_end_matches('\n');
        valid::check(Protocol::JsonRpc, line).unwrap_or_else(|why| panic!("{why}: {line}"));
        serde_json::from_str(line).unwrap()
    }

    /// The next message, which is this request.
    pub(crate) async fn asked(&mut self, method: &str) -> Value {
        let request = self.hear().await;
        assert_eq!(request["method"], method, "{request}");
        request
    }

    /// The next message, which is this request about the task, and names it in its params only (TASK-10).
    pub(crate) async fn asked_of_task(&mut self, method: &str) -> Value {
        let request = self.asked(method).await;
        assert_eq!(request["params"]["taskId"], TASK, "{request}");
        assert!(request["params"]["_meta"].get("io.modelcontextprotocol/related-task").is_none(), "{request}");
        request
    }

    /// What the client said before its answer to a ping: everything so far.
    pub(crate) async fn so_far(&mut self) -> Vec<Value> {
        self.barriers += 1;
        let id = json!(format!("barrier {}", self.barriers));
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        let mut heard = Vec::new();
        loop {
            let message = self.hear().await;
            if message["id"] == id && message.get("method").is_none() {
                return heard;
            }
            heard.push(message);
        }
    }

    pub(crate) async fn is_quiet(&mut self) -> bool {
        self.so_far().await.is_empty()
    }

    /// Everything to the end.
    pub(crate) async fn rest(mut self) -> String {
        let mut text = String::new();
        self.input.read_to_string(&mut text).await.unwrap();
        text
    }
}

/// The task, as 2025-11-25 shows it; asked for every five seconds.
pub(crate) fn shown(status: &str) -> Value {
    json!({
        "taskId": TASK, "status": status, "statusMessage": format!("it is {status}"), "ttl": 60_000,
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "pollInterval": 5000,
    })
}

pub(crate) fn created() -> Value {
    json!({ "task": shown("working") })
}

/// The task, as the extension shows it, with these members besides.
pub(crate) fn shown_modern(status: &str, besides: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": TASK, "status": status, "ttlMs": null, "pollIntervalMs": 5000,
        "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z",
    });
    task.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
    task
}

pub(crate) fn handle() -> Value {
    shown_modern("working", json!({ "resultType": "task" }))
}

pub(crate) fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// How much virtual time passes meanwhile.
pub(crate) async fn taking<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let since = Instant::now();
    let out = work.await;
    (out, since.elapsed())
}
