//! An ACP client, as an editor would be: it starts an agent, prompts it, and presses Stop in the middle.
//!
//! `cargo run -p rescind --example acp_client`, for the agent in `acp_agent.rs`, which uses the server in
//! `mcp_server.rs`: three processes, two protocols, one Stop. A command after `--` is another agent.

#![expect(clippy::print_stdout, reason = "it speaks to whoever tries it")]

use std::{env, error::Error};

use rescind::{
    acp::{Client, Permission, PermissionRequest},
    peer::{ErrorObject, Params},
};
use serde_json::Value;
use tokio::sync::mpsc;

#[path = "shared/child.rs"]
mod child;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (tell, mut said) = mpsc::unbounded_channel();
    let client = Client::builder("editor", "1.0.0")
        .on_update(move |Params(update): Params<Value>| {
            drop(tell.send(update["update"]["content"]["text"].as_str().unwrap_or_default().to_owned()));
        })
        .on_permission(|Params(asked): Params<PermissionRequest>| async move {
            println!("may it \"{}\"? It may.", asked.tool_call["title"].as_str().unwrap_or_default());
            Ok::<_, ErrorObject>(Permission::selected("yes"))
        })
        .connect(child::started(env::args_os().skip(1), "acp_agent")?)
        .await?;
    if let Some(agent) = client.agent() {
        println!("{} {}", agent.name, agent.version);
    }
    let session = client.new_session(&env::current_dir()?).await?;

    // Stop: the turn goes on waiting for the agent's own word. Dropping it would stop it as well.
    let turn = client.prompt(&session, "compute 1000").send();
    if let Some(first) = said.recv().await {
        println!("agent: {first}; pressing Stop");
    }
    client.cancel_turn(&session)?;
    println!("the turn ended: {:?}", turn.await?);

    let turn = client.prompt(&session, "compute 0").await?;
    println!("the next turn ended: {turn:?}");
    while let Ok(text) = said.try_recv() {
        println!("agent: {text}");
    }
    client.close_session(&session).await?;
    client.close().await;
    Ok(())
}
