//! ACP v2 (D55) with the Rust SDK at both ends: the agent's turn and its terminal work in threads, each of which
//! writes into a pipe until it is cancelled. The end of a pipe shows that its work is over.

use std::{io::Write, process::Command};

use serde_json::Value;

use super::parts::{not_installed, peers};
use crate::{
    operator::Said,
    shim::{PROGRAM, at_work::Beating},
};

/// The client with its agent behind the shim, whose turn and terminal work.
struct AtWork(Beating);

impl AtWork {
    fn start(agent_arguments: &[&str]) -> Option<Self> {
        if let Some(part) = not_installed(&["rust-acp2/target/debug"], &[]) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
            let _ = writeln!(std::io::stdout(), "skipped: the Rust SDK of ACP v2: {part}");
            return None;
        }
        let programs = peers().join("rust-acp2/target/debug");
        let mut command = Command::new(programs.join("client"));
        command.args([PROGRAM, "run"]).arg(programs.join("agent"));
        let mut playing = Self(Beating::start(command, &["turn", "terminal"], agent_arguments));
        playing.update(|update| update["state"] == "running");
        playing.0.expect_work();
        Some(playing)
    }

    fn say(&self, arguments: &[&str]) -> Said {
        self.0.say(arguments)
    }

    /// What `ps` lists: the method and the name of each.
    fn in_flight(&self) -> Vec<(String, String)> {
        let document: Value = serde_json::from_str(&self.say(&["ps", "--json"]).stdout).unwrap();
        let requests = document["sessions"][0]["requests"].as_array().unwrap_or_else(|| panic!("{document:#}"));
        let text = |request: &Value, member| request[member].as_str().unwrap().to_owned();
        requests.iter().map(|request| (text(request, "method"), text(request, "label"))).collect()
    }

    /// The next such update that the client prints.
    fn update(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        parse(&self.0.until(|line| is_wanted(&parse(line))))
    }

    fn expect_work_is_over(&mut self, which: usize) {
        self.0.expect_work_is_over(which);
    }

    fn end(self) {
        self.0.end();
    }
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
    playing.0.send("cancel");
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
