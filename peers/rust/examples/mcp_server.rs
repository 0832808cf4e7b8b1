//! An MCP server on rmcp whose tools do what `../../node/common/work.mjs` says: `mcp_server [--http]`.

#![expect(deprecated, reason = "sampling is how servers ask clients in the handshake era")]

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rescind_peers::{mark, marked, obey, text};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ContentBlock,
        CreateMessageRequest, CreateMessageRequestParams, ProgressNotificationParam, SamplingMessage,
        ServerCapabilities, ServerConfig, ServerRequest, SubscriptionFilter,
    },
    service::{PeerRequestOptions, RequestContext, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex, Notify, watch},
    time::sleep,
};

#[derive(Clone, Default)]
struct Tools {
    held: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
    /// How often the list of tools has changed.
    changes: watch::Sender<usize>,
    /// Those who listen from the moment of their acceptance, which their client hears of before `listen` runs.
    accepted: Arc<std::sync::Mutex<VecDeque<watch::Receiver<usize>>>>,
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let done = match &*call.name {
            "obeys" if arguments.get("every_ms").is_some() => tick(&arguments, &cx).await,
            "obeys" => obey(&arguments, cx.ct.cancelled()).await,
            "echo" => Some("echo"),
            "waits" => wait(text(&arguments, "work"), &cx).await,
            "fills" => return Ok(fill(&arguments, &cx).await.into()),
            "changes" => {
                self.changes.send_modify(|changes| *changes += 1);
                Some("changed")
            }
            "late" => Some(self.late(text(&arguments, "work"), &cx).await),
            "asks" => ask(&arguments, &cx).await,
            "release" => {
                self.gate(text(&arguments, "of")).await.notify_one();
                Some("released")
            }
            _ => return Err(ErrorData::invalid_params("no such tool", None)),
        };
        let words = done.ok_or_else(|| ErrorData::internal_error("stopped", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(words)]).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.accepted.lock().ok()?.push_back(self.changes.subscribe());
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        mark("subscription", "started", Value::Null);
        let accepted = self.accepted.lock().ok().and_then(|mut accepted| accepted.pop_front());
        let mut changes = accepted.unwrap_or_else(|| self.changes.subscribe());
        loop {
            tokio::select! {
                () = subscription.cancelled() => break,
                _ = changes.changed() => {}
            }
            let told = subscription.sink().notify_tool_list_changed().await;
            told.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
        mark("subscription", "stopped", Value::Null);
        Ok(())
    }
}

impl Tools {
    async fn gate(&self, work: &str) -> Arc<Notify> {
        Arc::clone(self.held.lock().await.entry(work.to_owned()).or_default())
    }

    /// Answers when released, cancelled or not.
    async fn late(&self, work: &str, cx: &RequestContext<RoleServer>) -> &'static str {
        let gate = self.gate(work).await;
        mark(work, "started", Value::Null);
        tokio::select! {
            () = gate.notified() => {}
            () = cx.ct.cancelled() => {
                mark(work, "told", Value::Null);
                gate.notified().await;
            }
        }
        mark(work, "answered", Value::Null);
        "late answer"
    }
}

async fn report(cx: &RequestContext<RoleServer>, tick: u64, ticks: u64) {
    if let Some(token) = cx.meta.get_progress_token() {
        let report = ProgressNotificationParam::new(token, tick as f64).with_total(ticks as f64);
        let _ = cx.peer.notify_progress(report).await;
    }
}

/// Obeys with ticks of its own length, of which it reports some.
async fn tick(call: &Value, cx: &RequestContext<RoleServer>) -> Option<&'static str> {
    let (work, ticks) = (text(call, "work"), call["ticks"].as_u64().unwrap_or(300));
    let every = Duration::from_millis(call["every_ms"].as_u64().unwrap_or(100));
    mark(work, "started", Value::Null);
    for tick in 1..=ticks {
        tokio::select! {
            () = sleep(every) => {}
            () = cx.ct.cancelled() => {
                mark(work, "stopped", json!({ "tick": tick }));
                return None;
            }
        }
        mark(work, "progress", json!({ "tick": tick }));
        if tick <= call["report"].as_u64().unwrap_or(ticks) {
            report(cx, tick, ticks).await;
        }
    }
    mark(work, "finished", Value::Null);
    Some("finished")
}

/// Says nothing; finishes when a mark releases it.
async fn wait(work: &str, cx: &RequestContext<RoleServer>) -> Option<&'static str> {
    mark(work, "started", Value::Null);
    while !marked(work, "released") {
        tokio::select! {
            () = sleep(Duration::from_millis(5)) => {}
            () = cx.ct.cancelled() => {
                mark(work, "stopped", Value::Null);
                return None;
            }
        }
    }
    mark(work, "finished", Value::Null);
    Some("finished")
}

async fn fill(call: &Value, cx: &RequestContext<RoleServer>) -> CallToolResult {
    let reports = call["report"].as_u64().unwrap_or(0);
    for tick in 1..=reports {
        report(cx, tick, reports).await;
    }
    let size = call["size"].as_u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    CallToolResult::success(vec![ContentBlock::text("x".repeat(size))])
}

/// Asks the caller something and waits for the answer; `linked` takes the question back when it is cancelled.
async fn ask(call: &Value, cx: &RequestContext<RoleServer>) -> Option<&'static str> {
    let work = text(call, "work");
    mark(work, "started", Value::Null);
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text(call, "question"))], 1);
    let question = ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params));
    let asked = cx.peer.send_cancellable_request(question, PeerRequestOptions::no_options()).await.ok()?;
    let id = asked.id.clone();
    let answer = asked.await_response();
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => drop(answer.ok()?),
        () = cx.ct.cancelled() => {
            mark(work, "told", Value::Null);
            if call["linked"] == true {
                cx.peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await.ok()?;
            }
            drop(answer.await.ok()?);
        }
    }
    mark(work, "finished", Value::Null);
    Some("finished")
}

/// Serves on HTTP at a free port of the loopback, which it says on stderr.
async fn serve_http() {
    let tools = Tools::default();
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(move || Ok(tools.clone()), sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    eprintln!("listening on http://{}/mcp", listener.local_addr().expect("an address"));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            // Its client may leave in the middle.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::main]
async fn main() {
    if std::env::args().any(|word| word == "--http") {
        return serve_http().await;
    }
    let server = Tools::default().serve((tokio::io::stdin(), tokio::io::stdout())).await.expect("a handshake");
    let _ = server.waiting().await;
}
