//! `rescind mcp`: what an agent may see and stop. Each agent is a process that starts a server behind `rescind run`, and
//! `rescind mcp`; the test holds its ends of both. The work itself marks when it is stopped.

mod agent;
mod listing;

use std::{
    thread,
    time::{Duration, Instant},
};

use agent::Machine;
use serde_json::{Value, json};

/// What an answer about a request says that does not exist.
fn unknown(name: &str) -> String {
    format!("{name}: no such request within reach; list_in_flight lists those in flight")
}

#[test]
fn an_agent_stops_its_own_work_and_neither_sees_nor_stops_that_of_another() {
    let machine = Machine::new();
    let (mut a, mut b) = (machine.agent("a", &[]), machine.agent("b", &[]));
    let (of_a, of_b) = (a.begin(1), b.begin(2));
    assert_eq!(a.listed(), [of_a.as_str()]);
    assert_eq!(b.listed(), [of_b.as_str()]);

    // That of the other is as unknown as one that does not exist.
    for tool in ["cancel", "receipt"] {
        for name in [&*of_b, "1/1", "nonsense"] {
            let result = a.call(tool, &json!({ "request": name }));
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(result["content"][0]["text"], unknown(name), "{result}");
        }
    }
    let stopped = a.call("stop", &json!({ "within_seconds": 5 }))["structuredContent"].take();
    assert_eq!(stopped["requests"].as_array().unwrap().len(), 1, "{stopped}");
    assert_eq!(stopped["requests"][0]["request"], json!(of_a), "{stopped}");
    a.work_stops();
    b.work_goes_on();

    let receipt = b.call("cancel", &json!({ "request": of_b, "reason": "enough" }))["structuredContent"].take();
    assert_eq!((&receipt["accepted"], &receipt["reason"]), (&json!(true), &json!("enough")), "{receipt}");
    b.work_stops();
    let known = b.call("receipt", &json!({ "request": of_b }))["structuredContent"].take();
    assert_eq!(known["cause"], "operator", "{known}");
    // What came late while the receipt was written shows no more once it is a grace ago.
    assert!(known["work"] == receipt["work"] || known["work"] == "unknown", "{known}");
    assert_eq!(b.listed(), [of_b.as_str()], "nothing shows that it has stopped");
}

#[test]
fn all_sessions_are_within_reach_if_a_flag_says_so() {
    let machine = Machine::new();
    let (mut a, mut b) = (machine.agent("a", &["--reach", "all"]), machine.agent("b", &[]));
    let (of_a, of_b) = (a.begin(1), b.begin(2));
    assert_eq!(a.listed().len(), 2);
    assert!(a.listed().contains(&of_a) && a.listed().contains(&of_b));
    a.call("cancel", &json!({ "request": of_b }));
    b.work_stops();
    a.work_goes_on();
}

#[test]
fn a_named_session_is_within_reach_and_no_other() {
    let machine = Machine::new();
    let mut a = machine.agent("a", &[]);
    let of_a = a.begin(1);
    let session = of_a.split('/').next().unwrap();
    let mut b = machine.agent("b", &["--session", session]);
    b.begin(2);
    assert_eq!(b.listed(), [of_a.as_str()]);
    b.call("stop", &json!({}));
    a.work_stops();
    b.work_goes_on();
}

/// Some clients check the schemas of tools, and refuse a server with a format that they do not know.
#[test]
fn the_schemas_have_only_formats_of_the_standard() {
    fn formats(value: &Value) -> Vec<&str> {
        match value {
            Value::Object(members) => {
                let own = members.get("format").and_then(Value::as_str);
                own.into_iter().chain(members.values().flat_map(formats)).collect()
            }
            Value::Array(items) => items.iter().flat_map(formats).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }
    let machine = Machine::new();
    let listed = machine.agent("a", &[]).ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 4, "{listed}");
    assert!(tools.iter().all(|tool| tool["inputSchema"].is_object() && tool["outputSchema"].is_object()), "{listed}");
    // None of theirs is a date, an address or the like.
    assert_eq!(formats(&listed), Vec::<&str>::new());
}

#[test]
fn an_agent_without_sessions_is_told_how_to_have_some() {
    let machine = Machine::new();
    let mut a = machine.agent("a", &["--session", "none"]);
    for tool in ["list_in_flight", "stop"] {
        let result = a.call(tool, &json!({}));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("No sessions are within reach, so nothing is seen in flight: "), "{text}");
        assert!(text.contains("restart your clients") || text.contains("`rescind wrap`"), "{text}");
    }
}

/// The session in which the agent is the server has the prompt that it works on.
#[test]
fn the_turn_of_an_agent_behind_a_shim_is_not_stopped_by_it() {
    for flags in [&[][..], &["--reach", "all"]] {
        let machine = Machine::new();
        let mut agent = machine.agent_behind_a_shim("a", flags);
        agent.prompt();
        while machine.in_flight("session/prompt") == 0 {}
        let own = agent.begin(1);
        assert_eq!(agent.listed(), [own.as_str()], "{flags:?}");
        agent.call("stop", &json!({ "within_seconds": 5 }));
        agent.work_stops();
        // It is still in flight, as everybody else sees it.
        assert_eq!(machine.in_flight("session/prompt"), 1, "{flags:?}");
    }
}

/// They have started more than one command each. The test started both: it is not taken for their agent.
#[test]
fn two_agents_that_look_like_launchers_do_not_reach_each_other() {
    let machine = Machine::new();
    let (mut a, mut b) = (machine.agent_like_a_launcher("a"), machine.agent_like_a_launcher("b"));
    let (of_a, of_b) = (a.begin(1), b.begin(2));
    assert_eq!((a.listed(), b.listed()), (vec![of_a], vec![of_b]));
}

/// Whoever started a `sh -c` that waits for one command is the agent.
#[test]
fn a_launcher_is_not_the_agent_and_a_shim_in_front_of_the_server_is_not_either() {
    let machine = Machine::new();
    let mut agent = machine.agent_with("a", r#"sh -c '"$PROGRAM" run "$PROGRAM" mcp; :'"#);
    let own = agent.begin(1);
    // The call of the tool is itself in flight, in the session of the server: it is not listed.
    assert_eq!(agent.listed(), [own.as_str()]);
    agent.call("cancel", &json!({ "request": own }));
    agent.work_stops();
}

#[test]
fn what_a_program_of_the_agent_has_started_is_its_own() {
    let machine = Machine::new();
    let mut outer = machine.agent_of_agents("outer", "inner");
    let of_outer = outer.begin(1);
    let mut inner = machine.adopt("inner");
    let of_inner = inner.begin(2);
    assert_eq!(inner.listed(), [of_inner.as_str()]);
    assert_eq!(outer.listed().len(), 2);
    inner.call("stop", &json!({ "within_seconds": 5 }));
    inner.work_stops();
    outer.work_goes_on();
    let of_inner = inner.begin(3);
    outer.call("stop", &json!({ "within_seconds": 5 }));
    assert!(of_outer != of_inner);
    inner.work_stops();
    outer.work_stops();
}

/// The work goes on, so `stop` would wait for ten minutes. While it waits, it listens to the session.
#[test]
fn a_stop_that_is_cancelled_no_longer_waits() {
    let machine = Machine::new();
    let (mut agent, server) = machine.agent_of_deaf_work("a");
    agent.begin_tool(1, "work");
    let idle = until(server, |_| true);
    let call = agent.start_call("stop", &json!({ "within_seconds": 600 }));
    agent.progresses();
    until(server, |sockets| sockets > idle);
    agent.cancel_call(&call);
    until(server, |sockets| sockets <= idle);
    agent.call("receipt", &json!({ "request": "1/1" }));
    assert_eq!(agent.answers_to(&call), 0);
}

/// Waits until the process has so many sockets.
fn until(process: u32, wanted: impl Fn(usize) -> bool) -> usize {
    let begun = Instant::now();
    loop {
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let links = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        let count = links.filter(|link| link.to_string_lossy().starts_with("socket:")).count();
        if wanted(count) {
            return count;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{count} sockets");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn progress_is_reported_while_receipts_come() {
    let machine = Machine::new();
    let mut agent = machine.agent("a", &[]);
    agent.begin(1);
    agent.call("stop", &json!({}));
    agent.work_stops();
    assert!(agent.progress() >= 1);
}

#[test]
fn a_server_that_only_reads_offers_only_that() {
    let machine = Machine::new();
    let mut agent = machine.agent("a", &["--read-only"]);
    let tools = agent.ask("tools/list", &json!({}))["result"]["tools"].take();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["list_in_flight", "receipt"]);
    let refused = agent.ask("tools/call", &json!({ "name": "stop", "arguments": {} }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}
