//! An MCP client that starts a server, calls a tool, presses Stop, and says what came of it.
//!
//! `cargo run -p rescind --example mcp_client`, for the server in `mcp_server.rs`; a command after `--` is another
//! server with a tool `long_computation`.

#![expect(clippy::print_stdout, reason = "it speaks to whoever tries it")]

use std::{env, error::Error};

use rescind::{mcp, peer::CallError};
use serde_json::json;
use tokio::sync::mpsc;

#[path = "shared/child.rs"]
mod child;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = child::started(env::args_os().skip(1), "mcp_server")?;
    let client = mcp::Client::connect(server, "stop-button", "1.0.0").await?;
    if let Some(server) = client.server() {
        println!("{} {} speaks {}", server.name, server.version, server.revision);
    }
    for tool in client.list_tools().await? {
        println!("tool {}: {}", tool.name, tool.description);
    }

    // A call is a future. Its handle stops it from beside whoever awaits it.
    let (tell, mut progress) = mpsc::unbounded_channel();
    let call = client.call_tool("long_computation", &json!({ "iterations": 1000 })).progress(move |progress| {
        let _ = tell.send(progress.done());
    });
    let stop = call.handle();
    let caller = tokio::spawn(call);
    if progress.recv().await.is_some() {
        println!("it computes; pressing Stop");
    }
    let receipt = stop.cancel("user pressed Stop").await;
    println!("receipt: {} ({})", receipt.outcome, receipt.cause.code);
    match caller.await? {
        Err(CallError::Cancelled(cause)) => println!("the caller was told: cancelled, {}", cause.code),
        ended => println!("the caller was told: {ended:?}"),
    }

    let result = client.call_tool("long_computation", &json!({ "iterations": 0 })).await?;
    println!("the server goes on: {}", result.text());
    client.close().await;
    Ok(())
}
