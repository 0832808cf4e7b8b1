//! An MCP server over HTTP whose tool takes long, says how far it is, and stops when its client presses Stop, in
//! whichever way its client's revision does that: with a notification, by closing its stream, by ending its session.
//!
//! `cargo run -p rescind-http --example http_server`, then point any MCP client at http://127.0.0.1:8000/mcp.
#![expect(clippy::print_stderr, reason = "what a server has to say to people goes there")]

use std::{env, io};

use rescind::{
    mcp,
    peer::{Context, ErrorObject},
};
use rescind_http::{
    server::{HttpServerConfig, Stateless},
    shell::{Endpoint, Listener, ListenerConfig},
};
use tokio::{
    net::TcpListener,
    signal,
    time::{Duration, sleep, timeout},
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct LongComputation {
    /// Number of iterations
    iterations: u32,
}

async fn long_computation(work: LongComputation, cx: Context) -> Result<String, ErrorObject> {
    for i in 0..work.iterations {
        cx.progress(i.into(), Some(work.iterations.into()), None).await;
        // Stop is pressed: the sleep is dropped, and `?` ends the tool.
        cx.unless_cancelled(sleep(Duration::from_secs(1))).await?;
    }
    Ok(format!("Completed {} iterations.", work.iterations))
}

/// Makes the server of one session, or the one that all clients without sessions share (2026-07-28).
fn server() -> mcp::Server {
    mcp::Server::new("computer", "1.0.0")
        .tool("long_computation", "A long-running computation", long_computation)
        .with(|peer| peer.on_cancelled(|cancel| eprintln!("{cancel}")))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".into());
    let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
    let socket = TcpListener::bind(&address).await?;
    eprintln!("listening on http://{}/mcp", socket.local_addr()?);
    let listener = Listener::new(socket, endpoint.clone(), ListenerConfig::default());
    let connections = tokio::spawn(listener.serve(async { drop(signal::ctrl_c().await) }));
    let served = endpoint.clone();
    tokio::spawn(async move { served.serve(server).await });

    signal::ctrl_c().await?;
    // No new call is taken. Those in flight have a while; then they are stopped.
    endpoint.drain();
    let _ = timeout(Duration::from_secs(10), endpoint.idle()).await;
    endpoint.close();
    let _ = timeout(Duration::from_secs(1), connections).await;
    Ok(())
}
