//! `rescind run --restart` (D64) on real processes: a server dies, another takes its place, and its client goes on.

use std::process::Command;

use rescind_testkit::puppet::{Rig, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shim::{
    PROGRAM, error_of, run_to_end,
    words::{cancelled, notification, pass_to_client, pass_to_server, request, request_with, result},
};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const TOOLS_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;

/// What a server does, in words and in deeds.
type Way = (&'static str, fn(&mut Server));

fn welcome(revision: &str) -> String {
    let about = r#""capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"test","version":"1"}"#;
    format!(r#"{{"protocolVersion":"{revision}",{about}}}"#)
}

/// A link whose client has shaken hands.
fn greeted<const N: usize>(flags: [&str; N]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).flags(["--restart"]).flags(flags).start();
    pass_to_server(&mut rig, &request_with("\"hello\"", "initialize", HELLO));
    pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
    pass_to_server(&mut rig, INITIALIZED);
    rig
}

fn die(server: &mut Server, signal: i32) {
    server.close();
    server.puppet.raise(signal);
}

/// The greeting that a new server gets: its id.
fn greeting(server: &mut Server) -> String {
    let greeting: Value = serde_json::from_str(&server.receive()).unwrap();
    assert_eq!(
        (&greeting["method"], &greeting["params"]),
        (&json!("initialize"), &serde_json::from_str(HELLO).unwrap())
    );
    greeting["id"].to_string()
}

/// The next server, greeted; its client has been told that the tools may be others.
fn next(rig: &mut Rig) -> Server {
    let mut next = rig.next_server();
    let id = greeting(&mut next);
    next.send(&result(&id, &welcome("2025-06-18")));
    next.expect(INITIALIZED);
    rig.client.expect(TOOLS_CHANGED);
    next
}

/// What `rescind ps` says of the link.
fn ps(rig: &Rig) -> String {
    let output = Command::new(PROGRAM).arg("ps").env("RESCIND_RUNTIME_DIR", &rig.sockets).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Has an operator order the end.
fn end(rig: &Rig) {
    let mut end = Command::new(PROGRAM);
    let end = end.args(["end", "--yes", &rig.shim.id.to_string()]).env("RESCIND_RUNTIME_DIR", &rig.sockets);
    let ended = end.output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn a_server_that_is_killed_with_64_calls_in_flight_is_started_again_and_its_client_goes_on() {
    let mut rig = greeted([]);
    for id in 0..64 {
        pass_to_server(&mut rig, &request(&format!("\"{id}\""), "tools/call"));
    }
    die(&mut rig.server, 9);
    for id in 0..64 {
        let error = error_of(&rig.client.receive(), &format!("\"{id}\""));
        assert_eq!((&error["code"], &error["data"]["signal"]), (&json!(-31002), &json!(9)), "{error}");
    }
    let mut next = next(&mut rig);
    rig.client.send(&request("\"after\"", "tools/list"));
    next.expect(&request("\"after\"", "tools/list"));
    next.send(&result("\"after\"", r#"{"tools":[{"name":"new"}]}"#));
    rig.client.expect(&result("\"after\"", r#"{"tools":[{"name":"new"}]}"#));
    let listed = ps(&rig);
    assert!(listed.contains("its server died and was started again once, the last time "), "{listed}");
    rig.client.close_output();
    next.expect_end();
    next.exit(7);
    rig.shim.expect_exit(7);
}

#[test]
fn however_a_server_goes_another_takes_its_place() {
    let ways: [Way; 5] = [
        ("exits with 0", |server| server.exit(0)),
        ("exits with 1", |server| server.exit(1)),
        ("is killed, its pipes open", |server| server.puppet.raise(9)),
        ("closes its output and lives on", |server| server.close_output()),
        ("closes its input and lives on", |server| server.close_input()),
    ];
    for (way, go) in ways {
        let mut rig = greeted([]);
        pass_to_server(&mut rig, &request("\"lost\"", "tools/call"));
        go(&mut rig.server);
        // A closed input shows when something is written there.
        rig.client.send(&notification("notifications/roots/list_changed", "{}"));
        assert_eq!(error_of(&rig.client.receive(), "\"lost\"")["code"], -31002, "{way}");
        rig.server.puppet.expect_death();
        let _next = next(&mut rig);
    }
}

#[test]
fn what_comes_while_there_is_no_server_is_queued_and_a_cancel_takes_it_back() {
    let mut rig = greeted([]);
    rig.server.exit(3);
    let mut second = rig.next_server();
    greeting(&mut second);
    rig.client.send(&request("\"kept\"", "tools/call"));
    rig.client.send(&request("\"gone\"", "tools/call"));
    rig.client.send(&cancelled("\"gone\""));
    second.exit(3);
    // It died at its start, so the third one is started a second later.
    let listed = ps(&rig);
    assert!(listed.contains("queued") && listed.contains("its server has died and is being started again"), "{listed}");
    assert!(!listed.contains("gone"), "{listed}");
    let mut third = next(&mut rig);
    third.expect(&request("\"kept\"", "tools/call"));
    third.send(&result("\"kept\"", "{}"));
    rig.client.expect(&result("\"kept\"", "{}"));
    let listed = ps(&rig);
    assert!(listed.contains("started again 2 times"), "{listed}");
}

/// What the new server receives begins with a message, and so does what the client does.
#[test]
fn halves_of_messages_die_with_their_server() {
    let mut rig = greeted([]);
    pass_to_server(&mut rig, &request("\"1\"", "tools/call"));
    rig.server.send_bytes(br#"{"jsonrpc":"2.0","id":"1","result":{"content":["#);
    // More than a pipe holds: it cannot leave whole.
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(3 << 20));
    rig.client.send(&request_with("\"2\"", "tools/call", &large));
    rig.server.receive_bytes(1000);
    rig.client.send(&request("\"3\"", "tools/call"));
    die(&mut rig.server, 9);
    for id in ["\"1\"", "\"2\""] {
        assert_eq!(error_of(&rig.client.receive(), id)["code"], -31002);
    }
    let mut next = next(&mut rig);
    next.expect(&request("\"3\"", "tools/call"));
}

#[test]
fn the_new_server_learns_of_subscriptions_and_the_log_level() {
    let mut rig = greeted([]);
    for (id, method, params) in
        [("1", "resources/subscribe", r#"{"uri":"file:///a"}"#), ("2", "logging/setLevel", r#"{"level":"debug"}"#)]
    {
        pass_to_server(&mut rig, &request_with(id, method, params));
        pass_to_client(&mut rig, &result(id, "{}"));
    }
    rig.server.exit(1);
    let mut next = next(&mut rig);
    for (method, params) in
        [("resources/subscribe", json!({"uri": "file:///a"})), ("logging/setLevel", json!({"level": "debug"}))]
    {
        let told: Value = serde_json::from_str(&next.receive()).unwrap();
        assert_eq!((&told["method"], &told["params"]), (&json!(method), &params));
        next.send(&result(&told["id"].to_string(), "{}"));
    }
    let updated = notification("notifications/resources/updated", r#"{"uri":"file:///a"}"#);
    next.send(&updated);
    rig.client.expect(&updated);
}

#[test]
fn a_server_that_dies_at_every_start_has_what_waits_answered_and_is_tried_on() {
    let mut rig = greeted([]);
    rig.server.exit(1);
    rig.client.send(&request("\"waits\"", "tools/call"));
    for code in 2..5 {
        let mut server = rig.next_server();
        greeting(&mut server);
        server.exit(code);
    }
    let error = error_of(&rig.client.receive(), "\"waits\"");
    assert_eq!((&error["code"], &error["data"]["exitCode"]), (&json!(-31002), &json!(4)), "{error}");
    rig.client.send(&request("\"later\"", "tools/call"));
    let mut last = next(&mut rig);
    last.expect(&request("\"later\"", "tools/call"));
}

/// With the clock that is set for `initialize`; else it has a minute.
#[test]
fn a_new_server_that_does_not_answer_its_greeting_is_ended_and_what_waits_is_answered() {
    let mut rig = greeted(["--timeout", "initialize=2s"]);
    rig.server.exit(1);
    let mut mute = rig.next_server();
    greeting(&mut mute);
    rig.client.send(&request("\"waits\"", "tools/call"));
    let error = error_of(&rig.client.receive(), "\"waits\"");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("after it was started again, it did not answer initialize within 2s"), "{message}");
    mute.puppet.expect_death();
    let mut next = next(&mut rig);
    rig.client.send(&request("\"later\"", "tools/call"));
    next.expect(&request("\"later\"", "tools/call"));
    next.send(&result("\"later\"", "{}"));
    rig.client.expect(&result("\"later\"", "{}"));
    while !rig.shim.stderr.line().contains("the server did not answer initialize within 2s and was ended") {}
}

/// Its requests are owed to a server that does not answer: that one is ended, and no other takes its place.
#[test]
fn a_client_that_leaves_while_a_mute_server_is_greeted_gets_its_answers_and_the_link_ends() {
    let mut rig = greeted(["--timeout", "initialize=2s"]);
    rig.server.exit(1);
    let mut mute = rig.next_server();
    greeting(&mut mute);
    rig.client.send(&request("\"last\"", "tools/call"));
    rig.client.close_output();
    mute.puppet.expect_death();
    mute.close();
    let error = error_of(&rig.client.receive(), "\"last\"");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("did not answer initialize within 2s"), "{message}");
    assert_eq!((&error["data"]["signal"], &error["data"]["because"]), (&json!(15), &json!("ungreeted")), "{error}");
    rig.shim.expect_death(Signal::TERM);
}

#[test]
fn what_the_client_says_at_the_end_of_its_handshake_reaches_a_server_once() {
    let mut rig = Rig::builder(PROGRAM).under(["env", "--default-signal"]).flags(["--restart"]).start();
    pass_to_server(&mut rig, &request_with("\"hello\"", "initialize", HELLO));
    pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
    rig.server.exit(1);
    let mut next = rig.next_server();
    let id = greeting(&mut next);
    rig.client.send(INITIALIZED);
    rig.client.send(&request("\"1\"", "tools/call"));
    // Both have been read.
    while !ps(&rig).contains("queued") {}
    next.send(&result(&id, &welcome("2025-06-18")));
    next.expect(INITIALIZED);
    next.expect(&request("\"1\"", "tools/call"));
}

#[test]
fn a_client_that_leaves_while_there_is_no_server_ends_the_link() {
    let mut rig = greeted([]);
    rig.server.exit(1);
    for code in [2, 3] {
        let mut server = rig.next_server();
        greeting(&mut server);
        server.exit(code);
    }
    // The next one is not due for two seconds.
    rig.client.send(&request("\"waits\"", "tools/call"));
    rig.client.close_output();
    assert_eq!(error_of(&rig.client.receive(), "\"waits\"")["data"]["exitCode"], 3);
    rig.shim.expect_exit(3);
}

/// What was sent before the client's end is owed to the server, which is slow to start.
#[test]
fn a_client_that_leaves_while_the_server_is_greeted_still_has_its_requests_sent() {
    let mut rig = greeted([]);
    rig.server.exit(1);
    let mut slow = rig.next_server();
    let id = greeting(&mut slow);
    rig.client.send(&request("\"last\"", "tools/call"));
    rig.client.close_output();
    slow.send(&result(&id, &welcome("2025-06-18")));
    slow.expect(INITIALIZED);
    slow.expect(&request("\"last\"", "tools/call"));
    slow.expect_end();
    slow.send(&result("\"last\"", "{}"));
    rig.client.expect(TOOLS_CHANGED);
    rig.client.expect(&result("\"last\"", "{}"));
    slow.exit(0);
    rig.shim.expect_exit(0);
}

#[test]
fn a_server_of_another_revision_ends_the_link_and_says_why() {
    let mut rig = greeted([]);
    rig.server.exit(5);
    let mut other = rig.next_server();
    let id = greeting(&mut other);
    rig.client.send(&request("\"waits\"", "tools/call"));
    other.send(&result(&id, &welcome("2024-11-05")));
    let error = error_of(&rig.client.receive(), "\"waits\"");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("could not be started: after it was started again") && message.contains("2025-06-18"),
        "{message}"
    );
    other.puppet.expect_death();
    rig.shim.expect_exit(5);
    let said = String::from_utf8_lossy(&rig.shim.stderr.rest()).into_owned();
    assert!(said.contains("its client cannot go on with it"), "{said}");
}

#[test]
fn a_server_that_has_not_answered_its_client_yet_is_not_started_again() {
    let mut rig = Rig::builder(PROGRAM).flags(["--restart"]).start();
    pass_to_server(&mut rig, &request_with("\"hello\"", "initialize", HELLO));
    rig.server.exit(4);
    assert_eq!(error_of(&rig.client.receive(), "\"hello\"")["data"]["exitCode"], 4);
    rig.shim.expect_exit(4);
    let said = String::from_utf8_lossy(&rig.shim.stderr.rest()).into_owned();
    assert!(said.contains("--restart does not start this server again: it had not yet answered"), "{said}");
}

#[test]
fn an_end_that_the_client_asks_for_is_final() {
    let mut rig = greeted([]);
    rig.shim.kill(Signal::TERM);
    rig.server.puppet.expect_death();
    rig.server.close();
    rig.shim.expect_death(Signal::TERM);
    let mut rig = greeted([]);
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

#[test]
fn an_end_that_an_operator_asks_for_is_final() {
    let mut rig = greeted([]);
    pass_to_server(&mut rig, &request("\"1\"", "tools/call"));
    end(&rig);
    let error = error_of(&rig.client.receive(), "\"1\"");
    assert_eq!(error["data"]["because"], "operator", "{error}");
    rig.server.close();
    rig.shim.expect_death(Signal::TERM);
}

/// A link without a server, and a request that waits for the next one, which is not due for two seconds.
fn waiting() -> Rig {
    let mut rig = greeted([]);
    rig.server.exit(1);
    for code in [2, 3] {
        let mut server = rig.next_server();
        greeting(&mut server);
        server.exit(code);
    }
    rig.client.send(&request("\"waits\"", "tools/call"));
    let listed = ps(&rig);
    assert!(listed.contains("queued"), "{listed}");
    rig
}

#[test]
fn an_end_that_is_asked_for_while_there_is_no_server_answers_what_waits_with_it() {
    let mut rig = waiting();
    end(&rig);
    let data = error_of(&rig.client.receive(), "\"waits\"")["data"].clone();
    assert_eq!((&data["because"], &data["exitCode"]), (&json!("operator"), &json!(3)), "{data}");
    rig.shim.expect_exit(3);
    let mut rig = waiting();
    rig.shim.kill(Signal::TERM);
    let data = error_of(&rig.client.receive(), "\"waits\"")["data"].clone();
    assert_eq!((&data["clientSignal"], &data["exitCode"]), (&json!(15), &json!(3)), "{data}");
    rig.shim.expect_exit(3);
}

/// It was being ended for another reason, and its successor would have come.
#[test]
fn an_end_that_an_operator_asks_for_while_the_server_is_being_ended_is_final() {
    let mut rig = greeted([]);
    pass_to_server(&mut rig, &request("\"lost\"", "tools/call"));
    rig.server.puppet.survive(15);
    rig.server.close_output();
    rig.server.puppet.expect_signal(15);
    end(&rig);
    assert_eq!(error_of(&rig.client.receive(), "\"lost\"")["code"], -31002);
    rig.server.puppet.expect_death();
    rig.shim.expect_death(Signal::KILL);
}

/// A part of it writes once its first process has exited.
#[test]
fn what_a_server_writes_to_stderr_while_it_is_being_ended_is_passed_on_to_the_last() {
    let launcher = r#"
        test -p "$0" || mkfifo "$0"
        (trap '' TERM; cat "$0" >/dev/null; echo "last words" >&2) >/dev/null &
        exec 3<&0 4>"$0"
        "$@" <&3 3<&- 4>&- &
        exec >&- 3<&-
        trap 'exit 3' TERM
        wait
    "#;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("ends");
    let launcher = ["sh", "-c", launcher, fifo.to_str().unwrap()];
    let mut rig = Rig::builder(PROGRAM).within(launcher).flags(["--restart"]).start();
    pass_to_server(&mut rig, &request_with("\"hello\"", "initialize", HELLO));
    pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
    pass_to_server(&mut rig, INITIALIZED);
    rig.server.close_output();
    while !rig.shim.stderr.line().contains("last words") {}
    let _next = next(&mut rig);
}

#[test]
fn what_the_dead_server_has_started_ends_with_it() {
    let mut rig = greeted([]);
    let mut left = rig.grandchild();
    rig.server.exit(1);
    let _next = next(&mut rig);
    left.expect_death();
}

#[test]
fn a_recording_shows_each_end_and_each_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("link.jsonl");
    let mut rig = greeted(["--record", file.to_str().unwrap()]);
    rig.server.exit(1);
    let mut next = next(&mut rig);
    rig.client.close_output();
    next.expect_end();
    next.exit(0);
    rig.shim.expect_exit(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_server = |line: &&Value| matches!(line["kind"].as_str(), Some("server_ended" | "server_restarted"));
    let kinds: Vec<_> =
        lines.iter().filter(of_server).map(|line| (&line["kind"], &line["exitCode"], &line["count"])).collect();
    let (ended, started, none) = (json!("server_ended"), json!("server_restarted"), Value::Null);
    assert_eq!(kinds, [(&ended, &json!(1), &none), (&started, &none, &json!(1)), (&ended, &json!(0), &none)]);
    let is_greeting =
        |line: &&Value| line["hop"] == "to_server" && line["frame"].as_str().unwrap().contains("\"initialize\"");
    assert_eq!(lines.iter().filter(is_greeting).count(), 2, "what we send in the client's name is in it");
}

#[test]
fn where_the_server_keeps_the_state_the_flag_is_refused() {
    for protocol in ["lsp", "acp", "codex", "unknown"] {
        let (said, code) = run_to_end(&["run", "--restart", "--protocol", protocol, "cat"]);
        assert_eq!(code, 125, "{protocol}: {said}");
    }
}

/// Such as the program that `npx` starts: its parent is not the shim, and a request waited when it began.
#[cfg(target_os = "linux")]
#[test]
fn a_server_behind_a_launcher_did_not_begin_during_the_request_that_waited_for_it() {
    let launcher = ["sh", "-c", "\"$@\"; exit $?", "sh"];
    let flags = ["--restart", "--on-stop", "end-processes"];
    let mut rig = Rig::builder(PROGRAM).within(launcher).flags(flags).start();
    pass_to_server(&mut rig, &request_with("\"hello\"", "initialize", HELLO));
    pass_to_client(&mut rig, &result("\"hello\"", &welcome("2025-06-18")));
    pass_to_server(&mut rig, INITIALIZED);
    rig.server.exit(1);
    let mut second = rig.next_server();
    greeting(&mut second);
    rig.client.send(&request("\"kept\"", "tools/call"));
    second.exit(1);
    // Started a second later.
    let mut third = next(&mut rig);
    third.expect(&request("\"kept\"", "tools/call"));
    let mut ps = Command::new(PROGRAM);
    let ps = ps.args(["ps", "--processes", "--json"]).env("RESCIND_RUNTIME_DIR", &rig.sockets).output().unwrap();
    let listed: Value = serde_json::from_slice(&ps.stdout).unwrap();
    let processes = listed["sessions"][0]["processes"].as_array().unwrap();
    assert!(processes.len() > 1, "{listed:#}");
    for process in processes {
        assert_ne!(process["began"]["when"], "during", "{process:#}");
    }
}
