//! ACP v2 (D55) with the Rust SDK at both ends: the agent's turn and its terminal work in threads, each of which
//! writes into a pipe until it is cancelled. The end of a pipe shows that its work is over.

use std::{
    fs::File,
    io::{BufRead, BufReader, Lines, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::parts::{not_installed, peers};
use crate::{
    operator::{Said, say},
    shim::PROGRAM,
};

/// The client with its agent behind the shim, whose turn and terminal work.
struct AtWork {
    client: Child,
    orders: ChildStdin,
    updates: Lines<BufReader<ChildStdout>>,
    /// What the turn and the terminal write.
    beats: [BufReader<File>; 2],
    folder: TempDir,
}

impl AtWork {
    fn start(agent_arguments: &[&str]) -> Option<Self> {
        if let Some(part) = not_installed(&["rust-acp2/target/debug"], &[]) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
            let _ = writeln!(std::io::stdout(), "skipped: the Rust SDK of ACP v2: {part}");
            return None;
        }
        let programs = peers().join("rust-acp2/target/debug");
        let folder = tempfile::tempdir().unwrap();
        let pipes = ["turn", "terminal"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        let mut command = Command::new(programs.join("client"));
        command.args([PROGRAM, "run"]).arg(programs.join("agent")).args(&pipes).args(agent_arguments);
        command.env("RESCIND_RUNTIME_DIR", folder.path().join("sockets")).stdin(Stdio::piped());
        let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
        let orders = client.stdin.take().unwrap();
        let mut updates = BufReader::new(client.stdout.take().unwrap()).lines();
        until(&mut updates, |update| update["state"] == "running");
        let mut beats = pipes.map(|pipe| BufReader::new(File::open(pipe).unwrap()));
        for beats in &mut beats {
            let mut beat = String::new();
            beats.read_line(&mut beat).unwrap();
            assert_eq!(beat, "beat\n", "it works");
        }
        Some(Self { client, orders, updates, beats, folder })
    }

    fn say(&self, arguments: &[&str]) -> Said {
        say(&self.folder.path().join("sockets"), arguments)
    }

    /// What `ps` lists: the method and the name of each.
    fn in_flight(&self) -> Vec<(String, String)> {
        let document: Value = serde_json::from_str(&self.say(&["ps", "--json"]).stdout).unwrap();
        let requests = document["sessions"][0]["requests"].as_array().unwrap_or_else(|| panic!("{document:#}"));
        let text = |request: &Value, member| request[member].as_str().unwrap().to_owned();
        requests.iter().map(|request| (text(request, "method"), text(request, "label"))).collect()
    }

    fn update(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        until(&mut self.updates, is_wanted)
    }

    /// Returns when nothing writes into this pipe any more.
    fn expect_work_is_over(&mut self, which: usize) {
        self.beats[which].read_to_end(&mut Vec::new()).unwrap();
    }

    fn end(mut self) {
        drop(self.orders);
        assert!(self.client.wait().unwrap().success());
    }
}

/// The next such update that the client prints.
fn until(updates: &mut Lines<BufReader<ChildStdout>>, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut updates = updates.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    updates.find(is_wanted).expect("the client prints it")
}

const TURN: usize = 0;
const TERMINAL: usize = 1;

/// ACP-50, ACP-51, ACP-55.
#[test]
fn stop_ends_the_turn_and_the_terminal_of_the_rust_sdk_and_its_client_sees_that() {
    let Some(mut playing) = AtWork::start(&[]) else { return };
    let both = playing.in_flight();
    let [(turn, turn_name), (terminal, terminal_name)] = &both[..] else { panic!("{both:?}") };
    assert_eq!((&**turn, &**terminal), ("session/prompt", "terminal"));
    let said = playing.say(&["stop", "--within", "1m"]);
    assert_eq!(said.code, 0, "{said:?}");
    for name in [turn_name, terminal_name] {
        assert!(said.stdout.contains(&format!("{name}: stopped: confirmed after")), "{name}: {said:?}");
    }
    playing.expect_work_is_over(TURN);
    playing.expect_work_is_over(TERMINAL);
    let idle = playing.update(|update| update["state"] == "idle");
    assert_eq!(idle["stopReason"], "cancelled", "{idle}");
    playing.update(|update| update["state"] == "idle" && update["background"] == Value::Array(Vec::new()));
    assert_eq!(playing.say(&["ps"]).stderr, "nothing is in flight (1 session)\n");
    playing.end();
}

/// ACP-51: what is in the background is not covered, and stays in view.
#[test]
fn session_cancel_of_the_rust_sdk_ends_the_turn_and_ps_shows_the_terminal_that_goes_on() {
    let Some(mut playing) = AtWork::start(&[]) else { return };
    writeln!(playing.orders, "cancel").unwrap();
    let idle = playing.update(|update| update["state"] == "idle");
    assert_eq!(idle["stopReason"], "cancelled", "{idle}");
    playing.expect_work_is_over(TURN);
    let left = playing.in_flight();
    let [(terminal, name)] = &left[..] else { panic!("{left:?}") };
    assert_eq!(terminal, "terminal");
    let said = playing.say(&["stop", "--within", "1m"]);
    assert!(said.code == 0 && said.stdout.contains(&format!("{name}: stopped: confirmed after")), "{said:?}");
    playing.expect_work_is_over(TERMINAL);
    playing.end();
}

/// ACP-55: without the grant nothing is sent for it, and it is named.
#[test]
fn stop_names_a_terminal_of_the_rust_sdk_that_grants_no_cancel() {
    let Some(mut playing) = AtWork::start(&["--fixed"]) else { return };
    let both = playing.in_flight();
    let [(_, turn), (_, terminal)] = &both[..] else { panic!("{both:?}") };
    let said = playing.say(&["stop", "--within", "1m"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains(&format!("{turn}: stopped: confirmed after")), "{said:?}");
    assert!(said.stdout.contains(&format!("{terminal}: not delivered")), "{said:?}");
    playing.expect_work_is_over(TURN);
    assert_eq!(playing.in_flight(), both[1..]);
    playing.end();
}
