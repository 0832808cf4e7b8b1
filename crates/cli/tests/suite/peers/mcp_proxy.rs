//! The mcp-proxy of PyPI: one server over HTTP. It drops `--` from the server's command.

use std::process::Command;

use super::parts::{PROGRAMS, Server, peers, programs, text};
use super::programs::{Bench, Program, Seen};

/// D46.
#[test]
fn the_shim_is_understood_without_dashes_and_with_those_that_are_dropped() {
    for shim in [&["run"][..], &["run", "--"]] {
        let title = format!("PyPI mcp-proxy, {}", shim.join(" "));
        let program = Program { title: &title, folders: &[PROGRAMS, "python1/.venv"], commands: &[], shim };
        let Some(seen) = program.same(call) else { return };
        assert!(seen.stdout.iter().any(|line| line.contains(r#""value":"echo""#)), "{seen}");
    }
}

/// A call over SSE; then the proxy is told to end.
fn call(bench: &Bench) -> Seen {
    let proxy = text(&peers().join("python1/.venv/bin/mcp-proxy"));
    let mut command: Command = bench.command(&[proxy]);
    command.args(["--port", "0", "--pass-environment"]).args(bench.server(Server::FastMcp.command()));
    let mut proxy = bench.start("proxy", command);
    let address = proxy.until(|said| {
        let (_, rest) = said.split_once("Uvicorn running on ")?;
        Some(format!("{}/sse", rest.split_once(' ')?.0))
    });
    let client = [programs("gateway.mjs"), vec!["echo".to_owned(), address]].concat();
    let client = bench.run("client", bench.command(&client));
    proxy.terminate();
    let proxy = proxy.wait();
    // What it says of connections comes in no particular order.
    let mut said: Vec<&str> = proxy.stderr.lines().chain(client.stderr.lines()).collect();
    said.sort_unstable();
    let exit = format!("client: {}, proxy: {}", client.exit, proxy.exit);
    let mut seen = bench.seen(exit, &client.stdout, &said.join("\n"));
    seen.stderr.sort_unstable();
    seen
}
