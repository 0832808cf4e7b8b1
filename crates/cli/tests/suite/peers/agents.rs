//! Agents that people use, before a model on the loopback, and servers of tasks: what lives after a stop, as the work itself
//! shows it. `peers/agents/run` plays the scenes; `docs/left-alive.md` has its table.

use std::process::Command;

use serde_json::Value;

use super::parts::{AGENTS, PROGRAMS, not_installed, peers};
use super::play::{say, skip};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// What a scene showed in one column: what lived after the stop, what lived after the program was killed as well, and what
/// `rescind stop` said with its exit code.
struct Seen(Value);

impl Seen {
    fn alive(&self) -> String {
        self.0["alive"].to_string()
    }

    fn orphans(&self) -> String {
        self.0["orphans"].to_string()
    }

    fn said(&self) -> (i64, &str) {
        (self.0["code"].as_i64().unwrap(), self.0["words"].as_str().unwrap())
    }
}

/// Plays a scene of an agent. `None`, after a line that says so, if the agents are not installed: `peers/install` leaves
/// them out, so that is a failure only if `RESCIND_REQUIRE_AGENTS` is set.
fn agent(program: &str, scene: &str, stop: &str) -> Option<Seen> {
    play(&[AGENTS, PROGRAMS], "RESCIND_REQUIRE_AGENTS", program, scene, stop)?.pop()
}

/// The program's rows: one, or one for each era.
fn play(folders: &[&str], required: &str, program: &str, scene: &str, stop: &str) -> Option<Vec<Seen>> {
    if let Some(part) = not_installed(folders, &["python3"]) {
        assert!(std::env::var_os(required).is_none(), "{program}: {part}");
        skip(part);
        return None;
    }
    let mut command = Command::new("python3");
    command.arg(peers().join("agents/run")).args(["--rescind", RESCIND, "--json", "--only", program]);
    let output = command.args(["--scene", scene, "--stop", stop]).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let table: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let rows = table["rows"].as_array().unwrap().iter();
    let seen = rows.map(|row| {
        let seen = &row["cells"][stop]["seen"]["plays"][0];
        assert!(seen.is_object(), "{program}, {scene}: {err}");
        say(&format!("{program}, {scene}, {stop}: {seen}\n"));
        Seen(seen.clone())
    });
    Some(seen.collect())
}

#[test]
fn rescind_stop_ends_the_background_agents_of_claude_agent_and_says_so() {
    let Some(seen) = agent("claude-agent-acp", "children", "rescind") else { return };
    assert_eq!(seen.alive(), "{}");
    let (code, words) = seen.said();
    assert!(code == 0 && words.lines().last() == Some("3 stopped"), "{words}");
}

/// D44. Its commands are in sessions of their own.
#[test]
fn killing_the_shim_of_claude_agent_leaves_no_more_than_killing_the_agent_itself() {
    let Some(seen) = agent("claude-agent-acp", "children", "shim") else { return };
    assert_eq!((&*seen.alive(), &*seen.orphans()), (r#"{"agent":2}"#, "{}"), "its own Stop spares background agents");
}

#[test]
fn rescind_stop_ends_the_agents_of_codex_app_server_and_every_terminal() {
    let Some(seen) = agent("Codex app-server", "children", "rescind") else { return };
    assert_eq!(seen.alive(), "{}");
    let (code, words) = seen.said();
    assert!(code == 0 && words.lines().last() == Some("3 stopped"), "{words}");
}

/// D59. On the wire all of it has stopped.
#[test]
fn rescind_stop_names_the_commands_that_codex_acp_leaves() {
    // In the second the turn has ended before the stop.
    for (scene, alive, count) in [("children", r#"{"agent":2,"command":1}"#, 3), ("background", r#"{"agent":2}"#, 2)] {
        let Some(seen) = agent("codex-acp", scene, "rescind") else { return };
        assert_eq!(seen.alive(), alive);
        let (code, words) = seen.said();
        let line = format!("\n{count} stopped; {count} processes that began during cancelled requests still run\n");
        assert!(code == 1 && words.contains(&line) && words.contains("`rescind reap "), "{words}");
    }
}

#[test]
fn an_allow_that_comes_after_the_stop_runs_nothing_in_any_agent() {
    for program in ["claude-agent-acp", "codex-acp", "Codex app-server"] {
        for stop in ["shim", "rescind"] {
            let Some(seen) = agent(program, "card", stop) else { return };
            assert_eq!(seen.alive(), "{}", "{program}, {stop}");
        }
    }
}

/// server-everything, to a client of its era, and through the bridge to one of the other.
#[test]
fn a_task_of_server_everything_stops_by_its_clients_cancel_and_by_that_of_an_operator() {
    let folders = ["node/mcp1/node_modules", PROGRAMS];
    for stop in ["shim", "rescind"] {
        let Some(rows) = play(&folders, "RESCIND_REQUIRE_PEERS", "server-everything", "task", stop) else { return };
        assert_eq!(rows.iter().map(Seen::alive).collect::<Vec<_>>(), ["{}", "{}"], "{stop}");
        // In 2025-11-25 the client's wait for the result is a request of its own, and is over with its task.
        let said_so = |(seen, words): (&Seen, &str)| seen.said().1.lines().any(|line| line == words);
        assert!(stop == "shim" || rows.iter().zip(["2 stopped", "1 stopped"]).all(said_so), "{stop}");
    }
}
