//! An MCP server whose tool takes long, says how far it is, and stops when its client presses Stop.
//!
//! `cargo run -p rescind --example mcp_server`, on stdin and stdout: for any MCP client, such as `mcp_client` here.
#![expect(clippy::print_stderr, reason = "what a server has to say to people goes there")]

use rescind::{
    mcp,
    peer::{Context, ErrorObject, transport},
};
use tokio::time::{Duration, sleep};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct LongComputation {
    /// Number of iterations
    iterations: u32,
}

async fn long_computation(work: LongComputation, cx: Context) -> Result<String, ErrorObject> {
    for i in 0..work.iterations {
        cx.progress(i.into(), Some(work.iterations.into()), None).await;
        // Stop is pressed: the client sends a cancel, the sleep is dropped, and `?` ends the tool.
        cx.unless_cancelled(sleep(Duration::from_secs(1))).await?;
    }
    // Nothing is answered to a client that cancelled, as MCP wants it; the server serves its next call.
    Ok(format!("Completed {} iterations.", work.iterations))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    mcp::Server::new("computer", "1.0.0")
        // A tool that never looks is dropped 5 s after Stop, wherever it waits.
        .tool("long_computation", "A long-running computation", long_computation)
        .with(|peer| peer.on_cancelled(|cancel| eprintln!("{cancel}")))
        .serve(transport::stdio())
        .await
}
