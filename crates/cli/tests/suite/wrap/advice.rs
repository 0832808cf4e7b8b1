//! Timeouts that `wrap` proposes for clients that give up calls in silence.

use std::{fs, path::Path, process::Child};

use serde_json::{Value, json};

use super::{CURSOR, Home, PLAIN, RESCIND};
use crate::shim::terminal::Terminal;

const ZED: &str = ".config/zed/settings.json";
const COPILOT: &str = ".copilot/mcp-config.json";
const CODEX: &str = ".codex/config.toml";

/// A home with clients that give up in silence, and with others.
fn home() -> Home {
    let home = Home::new();
    home.put(Path::new(ZED), br#"{"context_servers": {"z": {"command": "z", "args": ["1"]}}}"#);
    let copilot = r#"{"mcpServers": {"c": {"command": "c"}, "slow": {"command": "slow", "timeout": 600000}}}"#;
    home.put(Path::new(COPILOT), copilot.as_bytes());
    home.put(Path::new(CODEX), b"[mcp_servers.x]\ncommand = \"x\"\n");
    home.put(Path::new(CURSOR), PLAIN.as_bytes());
    home
}

/// The words of a server's command after the program, without the names that the shim is told.
fn arguments(home: &Home, file: &str, keys: [&str; 2]) -> Value {
    let mut read: Value = serde_json::from_slice(&fs::read(home.path().join(file)).unwrap()).unwrap();
    let mut words = read[keys[0]][keys[1]]["args"].take();
    if let Some(words) = words.as_array_mut() {
        words.retain(|word| !word.as_str().unwrap().contains("name="));
    }
    words
}

fn zed(home: &Home) -> Value {
    arguments(home, ZED, ["context_servers", "z"])
}

fn copilot(home: &Home, server: &str) -> Value {
    arguments(home, COPILOT, ["mcpServers", server])
}

#[test]
fn without_a_question_nothing_is_taken_and_the_advice_is_one_line() {
    for flags in [&["--all", "--yes"][..], &["--dry-run"]] {
        let home = home();
        let said = home.says(&[&["wrap"], flags].concat());
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("advice: ")).collect();
        let expected = "advice: Zed gives up a call after 60 s and tells its server nothing (--timeout 50s); Copilot CLI \
                        gives up a call after 60 s and is not known to tell its server (--timeout 50s); --take-advice sets \
                        these timeouts, --no-advice says nothing of them";
        assert_eq!(lines, [expected], "{said}");
        if flags.contains(&"--yes") {
            assert_eq!((zed(&home), copilot(&home, "c")), (json!(["run", "z", "1"]), json!(["run", "c"])));
        }
    }
}

#[test]
fn advice_is_taken_where_it_is_asked_for_and_only_for_the_servers_that_it_is_about() {
    let home = home();
    let before = fs::read(home.path().join(COPILOT)).unwrap();
    let said = home.says(&["wrap", "--all", "--yes", "--take-advice"]);
    assert!(!said.contains("advice:"), "{said}");
    assert_eq!(zed(&home), json!(["run", "--timeout", "50s", "z", "1"]));
    assert_eq!(copilot(&home, "c"), json!(["run", "--timeout", "50s", "c"]));
    // Its client waits longer for this one.
    assert_eq!(copilot(&home, "slow"), json!(["run", "slow"]));
    for file in [CODEX, CURSOR] {
        assert!(!fs::read_to_string(home.path().join(file)).unwrap().contains("--timeout"), "{file}");
    }
    assert!(home.says(&["wrap", "--all", "--yes", "--take-advice"]).contains("nothing to wrap"));
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read(home.path().join(COPILOT)).unwrap(), before);
}

#[test]
fn advice_can_be_taken_later_and_leaves_timeouts_that_are_set() {
    let home = home();
    home.says(&["wrap", "--client", "copilot", "--yes", "--", "--restart"]);
    home.says(&["wrap", "--client", "zed", "--yes", "--", "--timeout", "tools/call=20s"]);
    let said = home.says(&["wrap", "--all", "--yes", "--take-advice"]);
    assert!(said.contains("changed the flags of 1 server\n"), "{said}");
    assert_eq!(copilot(&home, "c"), json!(["run", "--restart", "--timeout", "50s", "c"]));
    assert_eq!(copilot(&home, "slow"), json!(["run", "--restart", "slow"]));
    assert_eq!(zed(&home), json!(["run", "--timeout", "tools/call=20s", "z", "1"]));
}

#[test]
fn an_explicit_timeout_and_no_advice_are_silent() {
    for flags in [&["--no-advice"][..], &["--", "--timeout", "2m"], &["--", "--total-timeout", "2m"]] {
        let said = home().says(&[&["wrap", "--all", "--yes"], flags].concat());
        assert!(!said.contains("advice"), "{flags:?}: {said}");
    }
    // A flag of another kind says nothing of time.
    let said = home().says(&["wrap", "--all", "--yes", "--", "--restart"]);
    assert!(said.contains("advice: Zed"), "{said}");
    for flags in [&["--take-advice", "--no-advice"][..], &["--take-advice", "--no-flags"]] {
        let (code, said) = home().complains(&[&["wrap", "--all", "--yes"], flags].concat());
        assert_eq!(code, Some(2), "{said}");
    }
}

/// `wrap` with a person at a terminal.
fn at_a_terminal(home: &Home, words: &[&str]) -> (Terminal, Child) {
    let terminal = Terminal::open();
    let mut command = home.command(words);
    command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end());
    let child = command.spawn().unwrap();
    (terminal, child)
}

#[test]
fn a_person_is_asked_once_for_each_client_that_gives_up_and_then_about_the_change() {
    let home = home();
    let (terminal, mut child) = at_a_terminal(&home, &["wrap"]);
    terminal.shows_until(
        "Zed gives up a call after 60 s and tells its server nothing: have the shim end it after 50s? [Y/n] ",
    );
    terminal.type_in("\n");
    let second = terminal.shows_until("[Y/n] ");
    assert!(second.contains("Copilot CLI gives up a call after 60 s"), "{second}");
    terminal.type_in("n\n");
    terminal.shows_until("Put the shim before 6 servers in 4 files? [y/N] ");
    terminal.type_in("y\n");
    assert!(child.wait().unwrap().success());
    assert_eq!(zed(&home), json!(["run", "--timeout", "50s", "z", "1"]));
    assert_eq!(copilot(&home, "c"), json!(["run", "c"]));
}

#[test]
fn a_client_that_tells_its_servers_brings_no_question() {
    let home = home();
    let (terminal, mut child) = at_a_terminal(&home, &["wrap", "--client", "codex"]);
    terminal.shows_until("Put the shim before 1 server in 1 file? [y/N] ");
    terminal.type_in("y\n");
    assert!(child.wait().unwrap().success());
    assert!(fs::read_to_string(home.path().join(CODEX)).unwrap().contains(RESCIND));
}

#[test]
fn who_declines_at_the_end_has_changed_nothing() {
    let home = home();
    let before = fs::read(home.path().join(ZED)).unwrap();
    let (terminal, mut child) = at_a_terminal(&home, &["wrap", "--client", "zed"]);
    terminal.shows_until("[Y/n] ");
    terminal.type_in("yes\n");
    terminal.shows_until("[y/N] ");
    terminal.type_in("\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(fs::read(home.path().join(ZED)).unwrap(), before);
    // The end of input is no.
    let (terminal, mut child) = at_a_terminal(&home, &["wrap", "--client", "zed"]);
    terminal.shows_until("[Y/n] ");
    terminal.type_in("\x04");
    terminal.shows_until("[y/N] ");
    terminal.type_in("y\n");
    assert!(child.wait().unwrap().success());
    assert_eq!(zed(&home), json!(["run", "z", "1"]));
}
