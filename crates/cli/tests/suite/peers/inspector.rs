//! The command line of the MCP Inspector, which drops `--` from the server's command.

use super::parts::{PROGRAMS, Server, programs};
use super::programs::{Bench, Program, Seen};

/// D46.
#[test]
fn the_shim_is_understood_without_dashes_and_with_those_that_are_dropped() {
    for shim in [&["run"][..], &["run", "--"], &["run", "--grace", "3s", "--"]] {
        let program = Program {
            title: &format!("inspector --cli, {}", shim.join(" ")),
            folders: &[PROGRAMS],
            commands: &[],
            shim,
        };
        let Some(seen) = program.same(call) else { return };
        assert_eq!(seen.exit, "code 0");
        assert!(seen.stdout.join("\n").contains(r#""text": "echo""#), "{seen}");
    }
}

fn call(bench: &Bench) -> Seen {
    let mut command =
        bench.command(&programs("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"));
    command.arg("--cli").args(bench.server(Server::FastMcp.command()));
    command.args(["--method", "tools/call", "--tool-name", "echo"]);
    let ended = bench.run("inspector", command);
    bench.seen(ended.exit, &ended.stdout, &ended.stderr)
}
