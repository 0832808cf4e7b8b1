//! An MCP client on rmcp, on its own stdio, led by its server.

#![expect(deprecated, reason = "sampling is how servers ask clients in the handshake era")]

use std::time::Duration;

use rescind_peers::{led, obey};
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient, ServiceError, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
        CreateMessageRequestParams, CreateMessageResult, Implementation, SamplingMessage, ServerResult,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::Value;

struct Host;

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_sampling().build();
        ClientConfig::new(capabilities, Implementation::new("rescind-peer", "1.0.0"))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        cx: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = serde_json::to_value(&params).unwrap_or_default();
        let content = &question["messages"][0]["content"];
        let text = content.get(0).unwrap_or(content)["text"].as_str().unwrap_or_default();
        let question: Value = serde_json::from_str(text).unwrap_or_default();
        let words = obey(&question, cx.ct.cancelled()).await;
        let words = words.ok_or_else(|| ErrorData::internal_error("stopped", None))?;
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text(words), "none".into()))
    }
}

/// A call as the SDK makes it; with a time limit the way that has one.
async fn call(
    server: Peer<RoleClient>,
    tool: String,
    arguments: Value,
    limit: Option<Duration>,
) -> Result<String, ServiceError> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let result = match limit {
        None => server.call_tool(params).await?,
        Some(limit) => {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let sent = server.send_cancellable_request(request, PeerRequestOptions::with_timeout(limit)).await?;
            let ServerResult::CallToolResult(result) = sent.await_response().await? else {
                return Err(ServiceError::UnexpectedResponse);
            };
            result
        }
    };
    Ok(words(&result))
}

fn words(result: &CallToolResult) -> String {
    let result = serde_json::to_value(result).unwrap_or_default();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::main]
async fn main() {
    let client = Host.serve((tokio::io::stdin(), tokio::io::stdout())).await.expect("a handshake");
    led(|tool, arguments, limit| {
        let call = call(client.peer().clone(), tool, arguments, limit);
        async { call.await.map_err(|error| error.to_string()) }
    })
    .await;
    std::process::exit(0);
}
