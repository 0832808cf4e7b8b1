//! A relay in 40 lines: between whoever starts it, on stdin and stdout, and a server that it starts.
//!
//! `cargo run -p rescind --example relay_in_40_lines -- some-mcp-server --its-flags`
//!
//! `rescind run` does this and more: it looks after the server's process group, its signals and its end, and records.

use std::{env, io::Write, process::Stdio, time::Duration};

use rescind::{proto::relay::RelayEvent, relay};
use tokio::{io, process::Command};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut command = env::args_os().skip(1);
    let program = command.next().ok_or("usage: relay_in_40_lines COMMAND…")?;
    let mut server =
        Command::new(program).args(command).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let (stdout, stdin) = server.stdout.take().zip(server.stdin.take()).ok_or("the server has no pipes")?;

    // Whoever writes to our stdin is the client; the relay stands between it and the server.
    let (mut from_server, mut to_server, link) =
        relay::wrap(stdout, stdin).as_client().total_timeout(Duration::from_secs(600)).on_event(tell).spawn();
    let asking = tokio::spawn(async move { io::copy(&mut io::stdin(), &mut to_server).await });
    io::copy(&mut from_server, &mut io::stdout()).await?;

    asking.abort();
    link.closed().await;
    // Not by returning: the thread that reads stdin would be waited for.
    std::process::exit(server.wait().await?.code().unwrap_or(1))
}

/// What came of each cancel, on stderr.
fn tell(event: RelayEvent) {
    if let RelayEvent::Receipt { id, method, receipt, .. } = event {
        let cause = receipt.cause.code;
        let _ = writeln!(std::io::stderr(), "{method} {id}: {cause}: {}", receipt.outcome);
    }
}
