//! With real `rescind run` processes, the test as the client and the server of each.

use std::{
    io::{BufRead, BufReader},
    thread,
};

use rescind_testkit::puppet::Rig;
use serde_json::Value;

use crate::{
    say,
    shim::{
        PROGRAM, error_of,
        words::{greet_mcp, pass_to_client, pass_to_server, progress, request_with, result},
    },
    words,
};

const MCP: &str = "2025-11-25";

fn call(id: u32, tool: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{{}},"_meta":{{"progressToken":{id}}}}}"#);
    request_with(&id.to_string(), "tools/call", &params)
}

/// A session with three calls in flight.
fn three_calls() -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet_mcp(&mut rig, MCP);
    for id in [1, 2, 3] {
        pass_to_server(&mut rig, &call(id, &format!("tool-{id}")));
    }
    rig
}

fn in_flight(rig: &Rig) -> Vec<Vec<String>> {
    let said = say(&rig.sockets, &["ps"]);
    assert_eq!(said.code, 0, "{said:?}");
    let row = |line: &str| words(line).into_iter().map(str::to_owned).collect::<Vec<_>>();
    said.stdout.lines().skip(1).map(row).collect()
}

#[test]
fn one_of_three_is_cancelled_and_the_others_finish() {
    let mut rig = three_calls();
    pass_to_client(&mut rig, &progress("2", 7));
    let rows = in_flight(&rig);
    let methods: Vec<_> = rows.iter().map(|row| (row[3].as_str(), row[5].as_str())).collect();
    assert_eq!(
        methods,
        [("tools/call:tool-1", "running"), ("tools/call:tool-2", "running"), ("tools/call:tool-3", "running")]
    );
    assert_eq!(rows[1][6], "7");
    let name = rows[1][0].clone();
    assert!(name.ends_with("/2"), "{name}");

    let said = say(&rig.sockets, &["cancel", &name, "--reason", "stuck\u{1b}[31m", "--no-wait"]);
    assert_eq!(said.code, 0, "{said:?}");
    // The work hears of it, with the operator's words.
    let heard: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!((&heard["method"], &heard["params"]["requestId"]), (&"notifications/cancelled".into(), &2.into()));
    assert!(heard["params"]["reason"].as_str().is_some_and(|reason| reason.starts_with("stuck")), "{heard}");
    // Whoever waits for it gets its end.
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31_003);
    pass_to_client(&mut rig, &result("1", r#"{"content":[]}"#));
    pass_to_client(&mut rig, &result("3", r#"{"content":[]}"#));
    assert_eq!(in_flight(&rig).iter().filter(|row| row.get(3).is_some_and(|m| m.starts_with("tools"))).count(), 0);
    let said = say(&rig.sockets, &["cancel", &name]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("not in flight any more"), "{said:?}");
    let said = say(&rig.sockets, &["ps", "--recent"]);
    let told = said.stdout.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(told.ends_with("sent; MCP does not confirm"), "{told}");
}

#[test]
fn the_words_of_a_server_that_goes_on_are_others() {
    let mut rig = three_calls();
    let name = in_flight(&rig)[0][0].clone();
    let mut child = crate::command(&rig.sockets, &["cancel", &name, "--wait", "1h"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let cancelled = rig.server.receive();
    assert!(cancelled.contains("notifications/cancelled"), "{cancelled}");
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31_003);
    let told = |line: String| line.strip_prefix(&format!("{name}: ")).unwrap().to_owned();
    let mut wait_for = |wanted: &str| {
        let line = lines.by_ref().map(told).find(|line| line.starts_with(wanted));
        assert!(line.is_some(), "{wanted}");
    };
    wait_for("sent; MCP does not confirm");
    rig.server.send(&progress("1", 8));
    wait_for("progress still arriving");
    rig.server.send(&result("1", r#"{"content":[]}"#));
    wait_for("answered after ");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // None of it reached the client, and the others finish.
    pass_to_client(&mut rig, &result("2", r#"{"content":[]}"#));
    pass_to_client(&mut rig, &result("3", r#"{"content":[]}"#));
}

#[test]
fn all_sessions_are_seen_and_a_killed_one_is_gone() {
    let rig = three_calls();
    let sockets = rig.sockets.clone();
    let mut other = Rig::builder(PROGRAM).sockets(&sockets).start();
    greet_mcp(&mut other, MCP);
    pass_to_server(&mut other, &call(9, "other"));
    let document: Value = serde_json::from_str(&say(&sockets, &["ps", "--json"]).stdout).unwrap();
    let counts: Vec<_> =
        document["sessions"].as_array().unwrap().iter().map(|one| one["requests"].as_array().unwrap().len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 4);
    assert_eq!(counts.len(), 2);
    let ids = document["sessions"].as_array().unwrap().iter().flat_map(|one| one["requests"].as_array().unwrap());
    assert!(ids.filter(|request| request["name"] == "other").count() == 1);
    thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(in_flight(&rig).len(), 3);
}
