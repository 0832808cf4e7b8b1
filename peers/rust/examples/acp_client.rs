//! An ACP client on agent-client-protocol, on its own stdio, led by its agent.

use agent_client_protocol::{ByteStreams, ConnectionTo, Error, Responder, UntypedMessage, role::UntypedRole};
use rescind_peers::{led, obey, text};
use serde_json::{Value, json};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// Thinks about the agent's question, until it is taken back.
async fn ponder(params: Value, responder: Responder<Value>) -> Result<(), Error> {
    let question: Value = serde_json::from_str(text(&params["toolCall"], "title")).unwrap_or_default();
    let told = responder.cancellation();
    match obey(&question, told.cancelled()).await {
        Some(_) => responder.respond(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})),
        None => responder.respond_with_error(Error::request_cancelled()),
    }
}

async fn call(agent: ConnectionTo<UntypedRole>, behaviour: String, mut call: Value) -> Result<String, Error> {
    call["behaviour"] = behaviour.into();
    let result = agent.send_request(UntypedMessage::new("_rescind/work", call)?).block_task().await?;
    Ok(text(&result, "text").to_owned())
}

#[tokio::main]
async fn main() {
    let client = UntypedRole.builder().on_receive_request(
        async move |asked: UntypedMessage, responder: Responder<Value>, _: ConnectionTo<UntypedRole>| {
            tokio::spawn(ponder(asked.params().clone(), responder));
            Ok(())
        },
        agent_client_protocol::on_receive_request!(),
    );
    let stdio = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let _ = client
        .connect_with(stdio, async move |agent: ConnectionTo<UntypedRole>| {
            let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
            agent.send_request(UntypedMessage::new("initialize", hello)?).block_task().await?;
            led(|behaviour, arguments, _| {
                let call = call(agent.clone(), behaviour, arguments);
                async { call.await.map_err(|error| error.to_string()) }
            })
            .await;
            Ok(())
        })
        .await;
    std::process::exit(0);
}
