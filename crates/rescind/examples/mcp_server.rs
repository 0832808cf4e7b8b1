//! An MCP server whose tool takes long, says how far it is, and stops when its client presses Stop.
//!
//! `cargo run -p rescind --example mcp_server`, on stdin and stdout: for any MCP client, such as `mcp_client` here.

#![expect(clippy::print_stderr, reason = "what a server has to say to people goes there")]

use std::{io, time::Duration};

use rescind::{
    mcp,
    peer::{CancelNotice, Context, ErrorObject},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
struct LongComputation {
    /// Number of iterations
    iterations: u32,
}

async fn long_computation(work: LongComputation, cx: Context, stop: CancellationToken) -> Result<String, ErrorObject> {
    for i in 0..work.iterations {
        cx.progress(i.into(), Some(work.iterations.into()), None).await;
        stop.run_until_cancelled(sleep(Duration::from_secs(1))).await.ok_or_else(ErrorObject::cancelled)?;
    }
    Ok(format!("Completed {} iterations.", work.iterations))
}

fn observe(cancel: &CancelNotice) {
    if let Some(id) = &cancel.id {
        eprintln!("Request {id} cancelled: {:?}", cancel.reason.as_deref().unwrap_or_default());
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    mcp::Server::new("computer", "1.0.0")
        .tool("long_computation", "A long-running computation", long_computation)
        .with(|peer| peer.on_cancelled(observe))
        .serve((tokio::io::stdin(), tokio::io::stdout()))
        .await
}
