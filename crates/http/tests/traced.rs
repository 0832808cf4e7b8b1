//! What the spans of requests say that came over HTTP.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::pending,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use rescind::{
    mcp::{NoArguments, Server},
    peer::Context,
};
use rescind_http::{
    server::{HttpServerConfig, Stateless},
    shell::{Endpoint, ResponseBody},
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// The attributes of each span of a request.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rescind")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = BTreeMap::from([("span".to_owned(), span.metadata().name().to_owned())]);
        span.record(&mut Fields(&mut fields));
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        values.record(&mut Fields(&mut spans[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

impl Spans {
    /// The attributes of these names, of each call of a tool in the order of their beginnings.
    fn calls(&self, names: &[&str]) -> Vec<Vec<String>> {
        let spans = self.0.lock().unwrap();
        let calls =
            spans.iter().filter(|fields| fields.get("mcp.method.name").is_some_and(|name| name == "\"tools/call\""));
        let value = |fields: &BTreeMap<String, String>, name: &&str| fields.get(*name).cloned().unwrap_or_default();
        calls.map(|fields| names.iter().map(|name| value(fields, name)).collect()).collect()
    }
}

async fn post(endpoint: &Endpoint, headers: &[(&str, &str)], message: serde_json::Value) -> Response<ResponseBody> {
    let mut request = Request::builder().method(Method::POST).uri("/mcp").header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    endpoint.respond(request.body(Full::new(Bytes::from(message.to_string()))).unwrap()).await.unwrap()
}

async fn open_session(endpoint: &Endpoint) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = post(endpoint, &[], hello).await;
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    response.into_body().collect().await.unwrap();
    id
}

/// MCP-H01, MCP-H03.
#[tokio::test(start_paused = true)]
async fn a_session_is_a_connection_and_a_hang_up_is_the_cancel_of_its_request() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
    let (began, mut beginnings) = mpsc::unbounded_channel();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let served = endpoint.clone();
    tokio::spawn(async move {
        served
            .serve(|| {
                let (began, ended) = (began.clone(), ended.clone());
                Server::new("server", "1").tool("slow", "Waits", move |_: NoArguments, cx: Context| {
                    let (began, ended) = (began.clone(), ended.clone());
                    async move {
                        began.send(()).unwrap();
                        let stopped = cx.unless_cancelled(pending::<()>()).await;
                        ended.send(()).unwrap();
                        stopped
                    }
                })
            })
            .await
    });
    let call = |meta: serde_json::Value| {
        let params = json!({ "name": "slow", "arguments": {}, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    };

    let (one, other) = (open_session(&endpoint).await, open_session(&endpoint).await);
    let in_one = post(&endpoint, &[("mcp-session-id", &one)], call(json!({}))).await;
    let in_other = post(&endpoint, &[("mcp-session-id", &other)], call(json!({}))).await;
    let modern = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
    let stateless = post(&endpoint, &headers, call(modern)).await;
    for _ in 0..3 {
        beginnings.recv().await.unwrap();
    }
    drop((in_one, stateless));
    ends.recv().await.unwrap();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    post(&endpoint, &[("mcp-session-id", &other)], cancel).await;
    ends.recv().await.unwrap();
    drop(in_other);
    // A round trip: what had ended was written down.
    let answer =
        post(&endpoint, &[("mcp-session-id", &other)], json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).await;
    answer.into_body().collect().await.unwrap();

    let calls = spans.calls(&["network.protocol.name", "mcp.protocol.version", "cause", "outcome"]);
    let expected = [
        ["\"http\"", "\"2025-11-25\"", "", ""],
        ["\"http\"", "\"2025-11-25\"", "\"caller\"", "\"cancelled\""],
        ["\"http\"", "\"2026-07-28\"", "\"disconnect\"", "\"cancelled\""],
    ];
    assert_eq!(calls, expected);
    let mut connections = spans.calls(&["conn"]);
    connections.dedup();
    assert_eq!(connections.len(), 3, "each session is a connection, and requests without one are");
}
