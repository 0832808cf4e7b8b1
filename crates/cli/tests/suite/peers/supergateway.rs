//! supergateway. Its SSE mode has one server, whose messages it sends to every client (`docs/gateways.md`).

use std::path::Path;

use super::parts::{PROGRAMS, Server, programs};
use super::play::read;
use super::programs::{Bench, Program, Seen};

#[test]
fn one_client_sees_the_same_and_its_cancel_stops_the_work() {
    let program = program("supergateway, SSE, one client");
    if let Some(seen) = program.same(|bench| serve(bench, SSE, "cancel-in-flight")) {
        assert_eq!(seen.exit, "client: code 0, gateway: code 0");
        assert_eq!(seen.marks, ["A started", "A stopped"]);
    }
}

/// Without the shim the first client is given the second one's answer. The shim refuses the second call, which the
/// gateway tells both.
#[test]
fn of_two_clients_whose_calls_have_one_id_both_fail_and_are_told_why() {
    let program = program("supergateway, SSE, two clients");
    let Some([direct, shim]) = program.both(|bench| serve(bench, SSE, "two-clients")) else { return };
    let outcomes = |seen: &Seen, words: &str| seen.stdout.iter().filter(|line| line.contains(words)).count();
    assert_eq!(outcomes(&direct, r#""value":"echo""#), 2, "A was answered with what B asked for: {direct}");
    for call in ["A", "B"] {
        let refused: Vec<_> =
            shim.stdout.iter().filter(|line| line.contains(&format!(r#""call":"{call}","#))).collect();
        let [_, refused] = &refused[..] else { panic!("{call} settled once: {shim}") };
        assert!(
            refused.contains("-32600") && refused.contains("another request with this id is already in flight"),
            "{refused}"
        );
        assert!(refused.contains("start one server for each client"), "it says what to do: {refused}");
    }
    // The first call's work is done all the same, and the session goes on.
    assert_eq!(shim.marks, ["A started", "A answered"]);
    assert!(shim.stdout.iter().any(|line| line.contains(r#""call":"release""#) && line.contains("released")), "{shim}");
    assert_eq!((&shim.exit, &shim.stderr), (&direct.exit, &direct.stderr));
}

/// The cure that `docs/gateways.md` names.
#[test]
fn two_clients_with_a_server_each_are_both_answered() {
    let program = program("supergateway, a server for each session, two clients");
    if let Some(seen) = program.same(|bench| serve(bench, STATEFUL, "two-clients")) {
        for (call, value) in [("A", "late answer"), ("B", "echo")] {
            let result = format!(r#"{{"call":"{call}","cancelled":false,"saw":"result","value":"{value}"}}"#);
            assert!(seen.stdout.contains(&result), "{result}: {seen}");
        }
    }
}

fn program(title: &str) -> Program<'_> {
    Program { title, folders: &[PROGRAMS], commands: &[], shim: &["run", "--"] }
}

/// The gateway's flags and the path of its address.
type Mode = (&'static [&'static str], &'static str);
const SSE: Mode = (&[], "sse");
const STATEFUL: Mode = (&["--outputTransport", "streamableHttp", "--stateful"], "mcp");

/// A scenario of `gateway.mjs`; then the gateway is told to end.
fn serve(bench: &Bench, (flags, path): Mode, scenario: &str) -> Seen {
    let address = bench.file("address");
    let loopback = programs("loopback.mjs");
    let gateway = programs("node_modules/supergateway/dist/index.js");
    let server = bench.server(Server::FastMcp.command()).join(" ");
    let words = [&loopback[0], "--import", &loopback[1], &gateway[1], "--stdio", &server].map(str::to_owned);
    let mut command = bench.command(&words);
    command.args(flags).env("RESCIND_ADDRESS", &address);
    let mut gateway = bench.start("gateway", command);
    let address = gateway.until(|_| there(&address));
    let client = [programs("gateway.mjs"), vec![scenario.to_owned(), format!("{address}/{path}")]].concat();
    let client = bench.run("client", bench.command(&client));
    gateway.terminate();
    let gateway = gateway.wait();
    let exit = format!("client: {}, gateway: {}", client.exit, gateway.exit);
    let mut seen = bench.seen(exit, &client.stdout, &[client.stderr, gateway.stderr].concat());
    // Streams of their own keep no order among them.
    seen.stdout.sort_unstable();
    seen
}

fn there(address: &Path) -> Option<String> {
    address.exists().then(|| read(address))
}
