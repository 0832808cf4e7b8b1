//! Six sessions before a real server, whose work says itself that it began and that it stopped.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rescind_testkit::puppet::{Ends, Sharing, Shim};
use rustix::process::Signal;
use serde_json::Value;

use crate::shim::{
    PROGRAM,
    words::{cancelled, request_with},
};

const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;

/// What the work has said so far, when it is this much.
fn marks(file: &Path, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The last line may not be whole.
        let marks: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if is_enough(&marks) {
            return marks;
        }
        assert!(Instant::now() < until, "{text}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn count(marks: &[Value], mark: &str) -> usize {
    marks.iter().filter(|one| one["mark"] == mark).count()
}

/// The calls of which the work has said this, by the ids that the server knows.
fn calls(marks: &[Value], mark: &str) -> Vec<Value> {
    marks.iter().filter(|one| one["mark"] == mark).map(|one| one["call"].clone()).collect()
}

/// Reads until the answer to this request.
fn answer(client: &mut Ends, id: u64) -> Value {
    loop {
        let message: Value = serde_json::from_str(&client.receive()).unwrap();
        if message["id"] == id {
            return message;
        }
    }
}

#[test]
fn the_work_of_who_stops_or_is_killed_stops_and_that_of_the_others_goes_on() {
    let sharing = Sharing::new();
    let file = sharing.home.join("marks");
    let join = |client: &str| -> (Shim, Ends) {
        let name = format!("--client-name={client}");
        let flags = ["--shared", "sample", "--shared-env", "RESCIND_SAMPLE_MARKS", "--name=sample", &name];
        let mut command = sharing.command_of(PROGRAM, &flags, &[PROGRAM, "__sample-server"]);
        command.env("RESCIND_SAMPLE_MARKS", &file);
        sharing.start(command)
    };
    let mut sessions: Vec<(Shim, Ends)> = ["cursor", "codex", "zed", "vscode", "cursor", "zed"].map(join).into();
    for (place, (_, client)) in sessions.iter_mut().enumerate() {
        client.send(&request_with("0", "initialize", HELLO));
        answer(client, 0);
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        // The ids are the same in all of them, and so are the tokens.
        let tool = if place < 3 { "sleepy" } else { "obeys" };
        let params = format!(r#"{{"name":"{tool}","_meta":{{"progressToken":1}}}}"#);
        client.send(&request_with("1", "tools/call", &params));
        marks(&file, |marks| count(marks, "started") == place + 1);
    }
    let known = calls(&marks(&file, |_| true), "started");
    // One floods.
    let flood: Vec<String> = (0..1000).map(|id| request_with(&(100 + id).to_string(), "ping", "{}")).collect();
    sessions[2].1.send_together(&flood.iter().map(String::as_str).collect::<Vec<_>>());
    // One stops, and one is killed.
    sessions[0].1.send(&cancelled("1"));
    let stopped = calls(&marks(&file, |marks| count(marks, "stopped") > 0), "stopped");
    assert_eq!(stopped, known[..1]);
    sessions[1].0.kill(Signal::KILL);
    let stopped = calls(&marks(&file, |marks| count(marks, "stopped") > 1), "stopped");
    assert_eq!(stopped, known[..2]);
    // The others' work goes on: each reports progress that began after that.
    for (_, client) in &mut sessions[3..] {
        client.send(&request_with("2", "ping", "{}"));
        answer(client, 2);
        let progress: Value = serde_json::from_str(&client.receive()).unwrap();
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        assert_eq!(progress["params"]["progressToken"], 1, "{progress}");
    }
    assert_eq!(count(&marks(&file, |_| true), "stopped"), 2);
    let pids: Vec<_> = super::ends::sessions(&sharing).into_iter().filter_map(|one| one.server_pid).collect();
    assert_eq!(pids.len(), 1, "there is one server");
    // All leave: the rest of the work ends with its server.
    let server = format!("/proc/{}", pids[0]);
    drop(sessions);
    marks(&file, |marks| count(marks, "stopped") == 6);
    marks(&file, |_| !Path::new(&server).exists());
}
