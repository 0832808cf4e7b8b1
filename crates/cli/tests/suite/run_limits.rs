//! Limits on what is asked (D65), on real processes.

use std::{collections::BTreeMap, fs, thread};

use rescind_testkit::puppet::{Connection, Rig, Service, Transcript};
use serde_json::{Value, json};

use crate::{
    operator::say,
    shim::{
        self, PROGRAM, error_of,
        words::{error, greet_acp, greet_mcp, pass_to_client, pass_to_server, request, request_with, result},
    },
    wrap::Home,
};

fn mcp(flags: &[&str]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    greet_mcp(&mut rig, "2025-11-25");
    rig
}

fn call(id: &str, tool: &str) -> String {
    request_with(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{{"id":{id}}}}}"#))
}

/// The text of a failed tool.
fn text_of(answer: &str, id: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!((answer["id"].to_string(), &answer["result"]["isError"]), (id.to_owned(), &json!(true)), "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The server is a process of its own, which counts the calls that reach it and answers each.
#[test]
fn of_sixty_four_calls_at_once_a_counting_server_gets_as_many_as_allowed_and_each_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("counted");
    let server = r#"while read -r line; do
        id=${line##*\"id\":}; id=${id%%,*}; echo "$id" >> "$0"
        echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[]}}"
    done"#;
    let calls: Vec<_> = (1..=64)
        .map(|id| format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"pay"}},"id":{id},"x":1}}"#))
        .collect();
    let flags = ["run", "--limit", "tools/call:pay=10/1h", "sh", "-c", server, counted.to_str().unwrap()];
    let mut shim = std::process::Command::new(PROGRAM)
        .args(flags)
        .env("RESCIND_RUNTIME_DIR", folder.path().join("sockets"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(shim.stdin.as_mut().unwrap(), (calls.join("\n") + "\n").as_bytes()).unwrap();
    let output = shim.wait_with_output().unwrap();
    let mut answers = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let before = answers.insert(answer["id"].as_u64().unwrap(), answer["result"]["isError"] == json!(true));
        assert_eq!(before, None, "answered twice: {line}");
    }
    assert_eq!(answers.len(), 64);
    assert_eq!(answers.values().filter(|is_refused| **is_refused).count(), 54);
    let counted: Vec<u64> = fs::read_to_string(counted).unwrap().lines().map(|id| id.parse().unwrap()).collect();
    assert_eq!(counted, (1..=10).collect::<Vec<_>>());
}

/// Each client has a connection of its own; a call that reached the server beyond the ten would never be answered.
#[test]
fn of_sixty_four_clients_over_http_at_once_as_many_as_allowed_reach_the_server_they_share() {
    let service = Service::shared(PROGRAM, ["--limit", "tools/call=10/1h"]);
    let mut server = service.accept();
    let asked: Value = serde_json::from_str(&server.receive()).unwrap();
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
    server.send(&result(&asked["id"].to_string(), &greeting.to_string()));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let address = service.address;
    let refused = thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|number| {
                scope.spawn(move || {
                    let params = json!({"name": "pay", "arguments": {"number": number}, "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    }});
                    let mirrors =
                        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "pay")];
                    let mut connection = Connection::open(address, &Transcript::default());
                    connection.post(&mirrors, &request_with("1", "tools/call", &params.to_string()));
                    let head = connection.head();
                    assert_eq!(head.status, 200);
                    let answer: Value = serde_json::from_str(&connection.message(&head)).unwrap();
                    assert_eq!(answer["id"], 1);
                    answer["result"]["isError"] == json!(true)
                })
            })
            .collect();
        for _ in 0..10 {
            let message: Value = serde_json::from_str(&server.receive()).unwrap();
            assert_eq!(message["method"], "tools/call", "{message}");
            server.send(&result(&message["id"].to_string(), r#"{"content":[]}"#));
        }
        clients.into_iter().map(|client| client.join().unwrap()).filter(|is_refused| *is_refused).count()
    });
    assert_eq!(refused, 54);
}

#[test]
fn a_refused_request_is_answered_with_what_its_reader_needs_to_know() {
    let mut rig = mcp(&["--limit", "tools/call=1/1h", "--limit", "2/1h"]);
    pass_to_server(&mut rig, &call("1", "search"));
    rig.client.send(&call("2", "search"));
    let text = text_of(&rig.client.receive(), "2");
    for words in
        ["rescind --limit tools/call=1/1h", "was not sent to the server", "Do not retry", "refused, too, for the"]
    {
        assert!(text.contains(words), "{text}");
    }
    pass_to_server(&mut rig, &request("3", "tools/list"));
    rig.client.send(&request("4", "tools/list"));
    let error = error_of(&rig.client.receive(), "4");
    assert_eq!((&error["code"], &error["data"]["receipt"]["cause"]), (&json!(-31007), &json!("policy")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("rescind --limit 2/1h"), "{error}");
    rig.expect_server_hears_nothing();
}

#[test]
fn the_same_call_again_and_again_and_a_tool_that_always_fails_are_refused() {
    let mut rig = mcp(&["--limit-repeats", "2", "--limit-errors", "2/1h"]);
    let same = |id: &str| request_with(id, "tools/call", r#"{"name":"a","arguments":{"x":1}}"#);
    pass_to_server(&mut rig, &same("1"));
    pass_to_server(&mut rig, &same("2"));
    rig.client.send(&same("3"));
    assert!(text_of(&rig.client.receive(), "3").contains("--limit-repeats 2"));
    pass_to_client(&mut rig, &error("1", -32000, "no"));
    pass_to_client(&mut rig, &result("2", r#"{"content":[],"isError":true}"#));
    rig.client.send(&call("4", "a"));
    assert!(text_of(&rig.client.receive(), "4").contains("--limit-errors 2/1h"));
    pass_to_server(&mut rig, &call("5", "b"));
}

#[test]
fn a_turn_of_an_agent_can_be_limited() {
    let mut rig = Rig::builder(PROGRAM).flags(["--limit", "session/prompt=1/1h"]).start();
    greet_acp(&mut rig, "", "");
    let prompt = |id: &str| request_with(id, "session/prompt", r#"{"sessionId":"s","prompt":[]}"#);
    pass_to_server(&mut rig, &prompt("1"));
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"end_turn"}"#));
    rig.client.send(&prompt("2"));
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31007);
    rig.expect_server_hears_nothing();
}

#[test]
fn ps_says_what_each_limit_has_refused() {
    let mut rig = mcp(&["--limit", "tools/call=1/1h", "--limit-repeats", "9"]);
    pass_to_server(&mut rig, &call("1", "a"));
    for id in ["2", "3"] {
        rig.client.send(&call(id, "a"));
        text_of(&rig.client.receive(), id);
    }
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stderr.contains("--limit tools/call=1/1h has refused 2 requests"), "{said:?}");
    assert!(!said.stderr.contains("--limit-repeats"), "{said:?}");
    let said = say(&rig.sockets, &["ps", "--recent"]);
    assert!(said.stdout.contains("never sent; refused by --limit tools/call=1/1h"), "{said:?}");
    let said = say(&rig.sockets, &["ps", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let limits = json!({"--limit tools/call=1/1h": 2, "--limit-repeats 9": 0});
    assert_eq!(document["sessions"][0]["session"]["limits"], limits, "{document}");
    pass_to_client(&mut rig, &result("1", "{}"));
    let said = say(&rig.sockets, &["ps", "--sessions"]);
    assert!(said.stdout.contains("idle, 2 refused by limits"), "{said:?}");
}

/// D57.
#[test]
fn limits_that_do_not_apply_are_told() {
    let mut rig = Rig::builder(PROGRAM).flags(["--limit", "1/1h", "--limit-repeats", "1"]).start();
    let first = r#"{"method":"initialize","id":0,"params":{"clientInfo":{"name":"codex"}}}"#;
    pass_to_server(&mut rig, first);
    pass_to_server(&mut rig, r#"{"method":"turn/start","id":3,"params":{}}"#);
    pass_to_server(&mut rig, r#"{"method":"turn/start","id":4,"params":{}}"#);
    assert!(rig.shim.stderr.line().contains("does not know the protocol of this session: its limits refuse nothing"));
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stderr.contains("--limit 1/1h refuses nothing: rescind does not know the protocol"), "{said:?}");
    let (said, code) = shim::run_to_end(&["run", "--protocol", "unknown", "--limit", "1/1h", "true"]);
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("nothing is refused in a protocol that is unknown"), "{said}");
}

#[test]
fn values_of_limits_that_make_no_sense_are_usage_errors_that_say_what_does() {
    for (flag, value, problem) in [
        ("--limit", "10", "has no DURATION; write N/DURATION, METHOD=N/DURATION or METHOD:TOOL=N/DURATION"),
        ("--limit", "tools/call", "has no limit; write N/DURATION"),
        ("--limit", "0/1m", "must be a whole number from 1 to 4294967295"),
        ("--limit", "10/60", "has no unit; write 60s for seconds, 60m for minutes, 60ms for milliseconds"),
        ("--limit", "10/0s", "its DURATION must be longer than zero"),
        ("--limit-repeats", "0", "must be a whole number from 1 to 4294967295"),
        ("--limit-repeats", "-1", "must be a whole number from 1 to 4294967295"),
        ("--limit-errors", "3/soon", "not a duration; write 500ms, 10s, 2m or 1h"),
    ] {
        let (said, code) = shim::run_to_end(&["run", flag, value, "--", "true"]);
        assert_eq!(code, 125, "{flag} {value}: {said}");
        assert!(said.contains(&format!("invalid value '{value}' for '{flag} <")), "{flag} {value}: {said}");
        assert!(said.contains(&format!(">': {problem}")), "{flag} {value}: {said}");
    }
    let many: Vec<_> = (0..65).flat_map(|_| ["--limit", "1/1h"]).collect();
    let (said, code) = shim::run_to_end(&[&["run"], &many[..], &["true"]].concat());
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("--limit: is given 65 times") && said.contains("at most 64"), "{said}");
}

#[test]
fn wrap_sets_limits_and_doctor_sees_a_shim() {
    let home = Home::new();
    let plain = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "a"]}}}"#;
    let path = home.put(std::path::Path::new(".cursor/mcp.json"), plain.as_bytes());
    let limits = ["--limit", "tools/call=30/1m", "--limit-repeats", "5", "--limit-errors", "5/10m"];
    home.says(&[&["wrap", "--client", "cursor", "--yes"], &limits[..], &["--", "--timeout", "5m"]].concat());
    let wrapped: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let words =
        [&["run", "--name=a", "--client-name=cursor"], &limits[..], &["--timeout", "5m", "npx", "-y", "a"]].concat();
    assert_eq!(wrapped["mcpServers"]["a"]["args"], json!(words));
    let done = home.command(&["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let servers = report["files"].as_array().unwrap().iter().flat_map(|file| file["servers"].as_array().unwrap());
    let server = servers.into_iter().find(|server| server["name"] == "a").unwrap();
    assert_eq!((&server["state"], &server["shims"]), (&json!("wrapped"), &json!(1)), "{server}");
    home.says(&["unwrap", "--all", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), plain);
    let (code, said) = home.complains(&["wrap", "--all", "--yes", "--limit", "30"]);
    assert_eq!(code, Some(2), "{said}");
}
