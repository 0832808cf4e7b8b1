//! An ACP agent whose tools are those of an MCP server: press Stop in the editor, and the tool stops.
//!
//! `cargo run -p rescind --example acp_agent`, on stdin and stdout: for any ACP client, such as `acp_client` here. It
//! uses the server in `mcp_server.rs`, or the command after `--`.
//!
//! A prompt such as "compute 3" asks for permission and calls the tool `long_computation`. The agent has no code for
//! cancellation: the turn's calls, to the editor and to the server, end with the turn.

use std::{env, io};

use rescind::{
    acp::{Agent, PermissionOption, StopReason, Turn},
    mcp,
    peer::{ErrorObject, transport},
};
use serde_json::json;

#[path = "shared/child.rs"]
mod child;

async fn take_turn(turn: Turn, tools: mcp::Client) -> Result<StopReason, ErrorObject> {
    let text = turn.text();
    let Some(iterations) = text.strip_prefix("compute ").and_then(|number| number.parse::<u32>().ok()) else {
        turn.say("I can only compute. Say \"compute 3\".").await;
        return Ok(StopReason::EndTurn);
    };
    let options =
        [PermissionOption::new("yes", "Compute", "allow_once"), PermissionOption::new("no", "Do not", "reject_once")];
    let tool_call = json!({ "toolCallId": "1", "title": text, "kind": "execute" });
    if !turn.request_permission(&tool_call, &options).await?.is_selected("yes") {
        return Ok(StopReason::Refusal);
    }
    let speaker = turn.clone();
    let result = tools
        .call_tool("long_computation", &json!({ "iterations": iterations }))
        .progress(move |progress| {
            let (turn, done) = (speaker.clone(), progress.done().unwrap_or_default());
            speaker.context().spawn(async move { turn.say(&format!("{done} of {iterations}")).await });
        })
        .await?;
    turn.say(&result.text()).await;
    Ok(StopReason::EndTurn)
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let server = child::started(env::args_os().skip(1), "mcp_server")?;
    let tools = mcp::Client::connect(server, "agent", "1.0.0").await.map_err(io::Error::other)?;
    Agent::new("computing-agent", "1.0.0")
        .on_prompt(move |turn: Turn| take_turn(turn, tools.clone()))
        .serve(transport::stdio())
        .await
}
