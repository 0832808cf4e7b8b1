//! A server on the TypeScript FastMCP whose client is `printf`, and one that cancels.

use std::io::Write;
use std::process::Stdio;

use super::expect::settled_once_and_the_session_goes_on;
use super::parts::{Client, PROGRAMS, Server};
use super::play::Scenario;
use super::programs::{Bench, Program, Seen};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"printf","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

/// Longer than the whole ladder with which a server is ended.
const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"works","arguments":{"work":"A","ms":5000}}}
"#;

/// D44.
#[test]
fn a_call_in_flight_at_the_end_of_input_is_answered() {
    let program = program("printf … | a FastMCP server with a call in flight");
    if let Some(seen) = program.same(|bench| printf(bench, &[INITIALIZE, CALL].concat(), &["--answers"])) {
        assert_eq!(seen.exit, "code 0");
        assert_eq!(seen.marks, ["A started", "A finished"]);
        assert!(seen.stdout.len() == 2 && seen.stdout[1].contains("finished"), "{seen}");
    }
}

/// D44.
#[test]
fn a_server_that_saves_at_its_end_keeps_its_save() {
    let program = program("a FastMCP server that saves at its end");
    if let Some(seen) = program.same(|bench| printf(bench, INITIALIZE, &["--saves", "3000"])) {
        assert_eq!(seen.exit, "code 0");
        assert_eq!(seen.marks, ["save started", "save finished"]);
    }
}

#[test]
fn a_cancelled_call_stops_and_is_never_answered() {
    let scenario = Scenario::new("cancel-in-flight", Client::McpTypeScript, Server::FastMcp);
    if let Some(story) = scenario.play() {
        assert_eq!(story.events("A"), ["started", "stopped"]);
        settled_once_and_the_session_goes_on(&story, "error -32001");
    }
}

fn program(title: &str) -> Program<'_> {
    Program { title, folders: &[PROGRAMS], commands: &[], shim: &["run", "--"] }
}

/// `printf INPUT | SERVER FLAGS…`
fn printf(bench: &Bench, input: &str, flags: &[&str]) -> Seen {
    let mut server = bench.server(Server::FastMcp.command());
    server.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let mut command = bench.command(&server);
    command.stdin(Stdio::piped());
    let mut started = bench.start("server", command);
    started.child().stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = started.wait();
    bench.seen(ended.exit, &ended.stdout, &ended.stderr)
}
