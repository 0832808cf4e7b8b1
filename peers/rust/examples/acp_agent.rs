//! An ACP agent on agent-client-protocol whose `_rescind/work` does what `../../node/common/work.mjs` says.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent_client_protocol::{ByteStreams, ConnectionTo, Error, Responder, UntypedMessage, role::UntypedRole};
use rescind_peers::{mark, obey, text};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

#[derive(Clone, Default)]
struct Gates(Arc<Mutex<HashMap<String, Arc<Notify>>>>);

impl Gates {
    fn gate(&self, work: &str) -> Arc<Notify> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(work.to_owned()).or_default())
    }
}

type Client = ConnectionTo<UntypedRole>;

async fn work(call: Value, gates: Gates, responder: Responder<Value>, client: Client) -> Result<(), Error> {
    let told = responder.cancellation();
    let done = match text(&call, "behaviour") {
        "obeys" => obey(&call, told.cancelled()).await.map(Value::from),
        "late" => {
            let (work, gate) = (text(&call, "work"), gates.gate(text(&call, "work")));
            mark(work, "started", Value::Null);
            told.cancelled().await;
            mark(work, "told", Value::Null);
            gate.notified().await;
            responder.respond(json!({"text": "late answer"}))?;
            mark(work, "answered", Value::Null);
            return Ok(());
        }
        "release" => {
            gates.gate(text(&call, "of")).notify_one();
            Some("released".into())
        }
        "asks" => return ask(&call, responder, client).await,
        _ => None,
    };
    match done {
        Some(words) => responder.respond(json!({"text": words})),
        None => responder.respond_with_error(Error::request_cancelled()),
    }
}

/// Asks the client something and waits for the answer; `linked` forwards the cancellation, as the SDK offers.
async fn ask(call: &Value, responder: Responder<Value>, client: Client) -> Result<(), Error> {
    let work = text(call, "work");
    mark(work, "started", Value::Null);
    let told = responder.cancellation();
    let mut question = client.send_request(question(text(call, "question"))?);
    if call["linked"] == true {
        question = question.forward_cancellation_from(told.clone());
    }
    let answer = question.block_task();
    tokio::pin!(answer);
    let answer = tokio::select! {
        answer = &mut answer => answer,
        () = told.cancelled() => {
            mark(work, "told", Value::Null);
            answer.await
        }
    };
    match answer {
        Ok(_) => responder.respond(json!({"text": "finished"})),
        Err(error) => responder.respond_with_error(error),
    }
}

fn question(title: &str) -> Result<UntypedMessage, Error> {
    let options = json!([{"kind": "allow_once", "name": "Allow", "optionId": "allow"}]);
    let tool_call = json!({"toolCallId": "call-1", "title": title});
    let params = json!({"sessionId": "session-1", "toolCall": tool_call, "options": options});
    UntypedMessage::new("session/request_permission", params)
}

/// A turn that waits for a permission and for nothing else.
async fn turn(prompt: Value, responder: Responder<Value>, client: Client) -> Result<(), Error> {
    let call: Value = serde_json::from_str(text(&prompt["prompt"][0], "text")).unwrap_or_default();
    mark(text(&call, "work"), "started", Value::Null);
    let answer = client.send_request(question("a dangerous thing")?).block_task().await?;
    let is_cancelled = text(&answer["outcome"], "outcome") == "cancelled";
    mark(text(&call, "work"), if is_cancelled { "stopped" } else { "finished" }, Value::Null);
    responder.respond(json!({"stopReason": if is_cancelled { "cancelled" } else { "end_turn" }}))
}

#[tokio::main]
async fn main() {
    let gates = Gates::default();
    let agent = UntypedRole.builder().on_receive_request(
        async move |asked: UntypedMessage, responder: Responder<Value>, client: Client| match asked.method() {
            "initialize" => {
                responder.respond(json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}))
            }
            "session/new" => responder.respond(json!({"sessionId": "session-1"})),
            "session/prompt" => {
                tokio::spawn(turn(asked.params().clone(), responder, client));
                Ok(())
            }
            _ => {
                // Work awaited in line would keep the next message from being read.
                tokio::spawn(work(asked.params().clone(), gates.clone(), responder, client));
                Ok(())
            }
        },
        agent_client_protocol::on_receive_request!(),
    );
    let stdio = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let _ = agent.connect_to(stdio).await;
    std::process::exit(0);
}
