//! An MCP server of ours over HTTP for real peers: `peer_http_server`, at the address that it prints.
//!
//! Its tools are those of `peers/node/common/work.mjs`. Each piece of work says what becomes of it in the file named by
//! `RESCIND_MARKS`, as theirs does. A response begins only with what there is to say, so that a tool that says nothing has
//! no head of a response.

use std::{
    collections::HashSet,
    env,
    error::Error,
    fs,
    future::{Future, pending},
    io::{Write, stderr},
    pin::pin,
    sync::LazyLock,
    time::Duration,
};

use rescind::{
    mcp::{CreateMessageRequest, SamplingMessage, Server, Tool},
    peer::{AnyError, Context, ErrorObject, Params},
};
use rescind_http::{
    server::{HttpServerConfig, Stateless},
    shell::{Endpoint, Listener, ListenerConfig},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, time::sleep};

#[path = "shared/marks.rs"]
mod marks;
use marks::mark;

/// What all sessions share: the work that may end, and how often the list of tools has changed.
static RELEASED: LazyLock<watch::Sender<HashSet<String>>> = LazyLock::new(Default::default);
static CHANGES: LazyLock<watch::Sender<usize>> = LazyLock::new(Default::default);

/// The arguments of every tool.
#[derive(Deserialize)]
struct Call {
    work: String,
    #[serde(default = "hundred")]
    every_ms: u64,
    #[serde(default = "many")]
    ticks: u32,
    report: Option<u32>,
    #[serde(default)]
    size: usize,
    #[serde(default)]
    question: String,
    #[serde(default)]
    of: String,
}

const fn hundred() -> u64 {
    100
}

const fn many() -> u32 {
    300
}

/// Whether a mark releases this work.
fn is_released(work: &str) -> bool {
    let marks = env::var_os("RESCIND_MARKS").and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let whole = marks.rfind('\n').map_or("", |end| &marks[..end]);
    let mut marks = whole.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    marks.any(|mark| mark["work"] == work && mark["event"] == "released")
}

/// Does work that says how it ended.
async fn work(name: &str, cx: &Context, work: impl Future<Output = ()>) -> Result<&'static str, ErrorObject> {
    mark(name, "started", json!({}));
    if let Err(cancelled) = cx.unless_cancelled(work).await {
        mark(name, "stopped", json!({ "reason": cx.cause().map(|cause| cause.code.as_str()) }));
        return Err(cancelled);
    }
    mark(name, "finished", json!({}));
    Ok("finished")
}

async fn obeys(call: Call, cx: Context) -> Result<&'static str, ErrorObject> {
    let Call { ticks, every_ms, report, .. } = call;
    let ticking = async {
        for tick in 1..=ticks {
            sleep(Duration::from_millis(every_ms)).await;
            mark(&call.work, "progress", json!({ "tick": tick }));
            if tick <= report.unwrap_or(ticks) {
                cx.progress(tick.into(), Some(ticks.into()), None).await;
            }
        }
    };
    work(&call.work, &cx, ticking).await
}

async fn waits(call: Call, cx: Context) -> Result<&'static str, ErrorObject> {
    let released = async {
        while !is_released(&call.work) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    work(&call.work, &cx, released).await
}

async fn fills(call: Call, cx: Context) -> Result<String, ErrorObject> {
    for tick in 1..=call.report.unwrap_or(0) {
        cx.progress(tick.into(), None, None).await;
    }
    Ok("x".repeat(call.size))
}

/// Answers when it is released, cancelled or not.
async fn late(call: Call, cx: Context) -> Result<&'static str, ErrorObject> {
    mark(&call.work, "started", json!({}));
    let mut releases = RELEASED.subscribe();
    let mut released = pin!(async { drop(releases.wait_for(|released| released.contains(&call.work)).await) });
    tokio::select! {
        () = &mut released => {}
        () = cx.cancelled() => {
            mark(&call.work, "told", json!({}));
            released.await;
        }
    }
    mark(&call.work, "answered", json!({}));
    Ok("late answer")
}

async fn release(call: Call) -> Result<&'static str, ErrorObject> {
    RELEASED.send_modify(|released| {
        released.insert(call.of);
    });
    Ok("released")
}

async fn asks(call: Call, cx: Context) -> Result<&'static str, AnyError> {
    mark(&call.work, "started", json!({}));
    cx.sample(&CreateMessageRequest::new(vec![SamplingMessage::user(call.question)], 1)).await?;
    mark(&call.work, "finished", json!({}));
    Ok("finished")
}

async fn changes(_: Call) -> Result<&'static str, ErrorObject> {
    CHANGES.send_modify(|changes| *changes += 1);
    Ok("changed")
}

async fn echo(_: Call) -> Result<&'static str, ErrorObject> {
    Ok("echo")
}

/// `subscriptions/listen` to changes of the list of tools (2026-07-28).
async fn listen(Params(_): Params<Value>, cx: Context) -> Result<Value, ErrorObject> {
    const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

    let id: Value = serde_json::from_str(&cx.id().to_string()).unwrap_or_default();
    let telling = async {
        let mut changes = CHANGES.subscribe();
        let accepted = json!({ "_meta": { SUBSCRIPTION: id }, "notifications": { "toolsListChanged": true } });
        cx.notify("notifications/subscriptions/acknowledged", &accepted).await;
        while changes.changed().await.is_ok() {
            cx.notify("notifications/tools/list_changed", &json!({ "_meta": { SUBSCRIPTION: id } })).await;
        }
    };
    work("subscription", &cx, telling).await.map(|_| json!({ "resultType": "complete" }))
}

fn server() -> Server {
    let schema = || json!({ "type": "object", "properties": { "work": { "type": "string" } }, "required": ["work"] });
    Server::new("rescind-http", "1.0.0")
        .capability("tools", json!({ "listChanged": true }))
        .with_tool(Tool::with_schema("echo", "answers at once", schema(), echo))
        .with_tool(Tool::with_schema("obeys", "ticks, and stops by its token", schema(), obeys))
        .with_tool(Tool::with_schema("waits", "says nothing until it is released", schema(), waits))
        .with_tool(Tool::with_schema("fills", "answers with many letters", schema(), fills))
        .with_tool(Tool::with_schema("late", "answers when it is released", schema(), late))
        .with_tool(Tool::with_schema("release", "lets late work answer", schema(), release))
        .with_tool(Tool::with_schema("asks", "asks the caller", schema(), asks))
        .with_tool(Tool::with_schema("changes", "tells of a change", schema(), changes))
        .with(|peer| peer.on_request("subscriptions/listen", listen))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::new(HttpServerConfig {
        stateless: Stateless::Served,
        stream_after: Duration::from_secs(60 * 60),
        ..HttpServerConfig::default()
    });
    let socket = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(stderr(), "listening on http://{}/mcp", socket.local_addr()?)?;
    tokio::spawn(Listener::new(socket, endpoint.clone(), ListenerConfig::default()).serve(pending()));
    match endpoint.serve(server).await {}
}
