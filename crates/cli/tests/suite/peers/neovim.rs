//! neovim with a language server, which warns its user of a server that ends with a code of failure.

use super::parts::{Server, peers, text};
use super::programs::{Bench, Program, Seen};

const JSON: &str = "node/json/node_modules";
const JSONRPC: &str = "node/lsp/node_modules";

#[test]
fn a_document_is_looked_at_and_the_server_stopped() {
    if let Some(seen) = program("neovim, stopped", JSON).same(|bench| edit(bench, "stopped", json())) {
        works(&seen);
        assert_eq!(exits(&seen), [r#"{"code":0,"saw":"exit","signal":0}"#]);
    }
}

/// D45. The server dies of SIGTERM, and neovim says nothing; of an exit code 143 it would warn.
#[test]
fn a_server_that_neovim_ends_by_a_signal_is_not_warned_of() {
    if let Some(seen) = program("neovim, killed", JSON).same(|bench| edit(bench, "killed", json())) {
        works(&seen);
        assert_eq!(exits(&seen), [r#"{"code":0,"saw":"exit","signal":15}"#]);
        assert_eq!(seen.stderr, Vec::<String>::new());
    }
}

#[test]
fn an_editor_that_is_quit_ends_its_server() {
    if let Some(seen) = program("neovim, quit", JSON).same(|bench| edit(bench, "quit", json())) {
        works(&seen);
    }
}

/// The server does not know `shutdown`, and so it is ended by a signal.
#[test]
fn a_cancelled_request_stops_its_work_and_the_stop_is_quiet() {
    let program = program("neovim, cancelled", JSONRPC);
    if let Some(seen) = program.same(|bench| edit(bench, "cancelled", Server::VscodeJsonrpc.command())) {
        assert_eq!(seen.marks, ["A started", "A stopped"]);
        assert!(seen.stdout.iter().any(|line| line.contains(r#""text":"echo""#)), "{seen}");
        assert_eq!(seen.stderr, Vec::<String>::new());
    }
}

fn works(seen: &Seen) {
    assert_eq!(seen.exit, "code 0");
    for kind in ["symbol", "diagnostic"] {
        assert!(seen.stdout.iter().any(|line| line.contains(kind)), "{kind}: {seen}");
    }
}

fn exits(seen: &Seen) -> Vec<&str> {
    seen.stdout.iter().filter(|line| line.contains(r#""exit""#)).map(String::as_str).collect()
}

fn program<'a>(title: &'a str, server: &'a str) -> Program<'a> {
    let folders: &'static [&'static str] = if server == JSON { &[JSON] } else { &[JSONRPC] };
    Program { title, folders, commands: &["nvim", "node"], shim: &["run", "--"] }
}

fn json() -> Vec<String> {
    let server = peers().join(JSON).join("vscode-json-languageserver/bin/vscode-json-languageserver");
    ["node", &text(&server), "--stdio"].map(str::to_owned).into()
}

fn edit(bench: &Bench, scenario: &str, server: Vec<String>) -> Seen {
    let script = text(&peers().join("neovim/edit.lua"));
    let words = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-S", &script].map(str::to_owned);
    let mut command = bench.command(&words);
    command
        .env("RESCIND_SCENARIO", scenario)
        .env("RESCIND_SERVER", serde_json::to_string(&bench.server(server)).unwrap())
        .env("RESCIND_DOCUMENT", bench.file("document.json"));
    let ended = bench.run("nvim", command);
    let mut seen = bench.seen(ended.exit, &ended.stdout, &ended.stderr);
    // The server reads the document when it has time, before or after it answers.
    seen.stdout.sort_unstable();
    seen
}
