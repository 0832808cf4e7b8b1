//! An MCP server on rmcp whose tools do what `../../node/common/work.mjs` says.

#![expect(deprecated, reason = "sampling is how servers ask clients in the handshake era")]

use std::{collections::HashMap, sync::Arc};

use rescind_peers::{mark, obey, text};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ContentBlock,
        CreateMessageRequest, CreateMessageRequestParams, SamplingMessage, ServerCapabilities, ServerConfig,
        ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

#[derive(Clone, Default)]
struct Tools {
    held: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(call.arguments.unwrap_or_default());
        let done = match &*call.name {
            "obeys" => obey(&arguments, cx.ct.cancelled()).await,
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

#[tokio::main]
async fn main() {
    let server = Tools::default().serve((tokio::io::stdin(), tokio::io::stdout())).await.expect("a handshake");
    let _ = server.waiting().await;
}
