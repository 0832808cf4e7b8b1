//! A server that has died is started again (D64): what its client receives, and what the new one is told.

use core::time::Duration;
use std::collections::BTreeSet;

use rescind_proto::{
    bridge::BridgeConfig,
    receipt::Outcome,
    relay::{End, RelayConfig, RequestState},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

/// The last revision with arrays.
const WITH_ARRAYS: &str = "2025-03-26";

const DIED: End = End::Exited(3);

/// The ids that the relay gives its first requests.
const FIRST_OWN: i64 = (1 << 31) - 1;

fn rig() -> RelayRig {
    RelayRig::new(RelayConfig { restart: true, ..RelayConfig::default() })
}

fn initialize(id: &str) -> String {
    let params =
        r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{params}}}"#)
}

fn welcome(id: i64, version: &str) -> String {
    let about =
        r#""capabilities":{"tools":{"listChanged":true},"resources":{}},"serverInfo":{"name":"s","version":"2"}"#;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}",{about}}}}}"#)
}

fn request(id: i64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn call(id: i64) -> String {
    request(id, "tools/call", r#"{"name":"slow"}"#)
}

fn result(id: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn parsed(messages: &[String]) -> Vec<Value> {
    messages.iter().map(|message| serde_json::from_str(message).expect("it has that")).collect()
}

/// Ids of errors that say that the server has ended.
fn ended(messages: &[String]) -> Vec<Value> {
    let error = |message: Value| {
        assert_eq!(message["error"]["code"], -31002, "{message}");
        assert!(message["error"]["message"].as_str().expect("it has that").contains("exited with code 3"), "{message}");
        message["id"].clone()
    };
    parsed(messages).into_iter().map(error).collect()
}

/// What this method is asked for with, by its other side.
fn methods(messages: &[String]) -> Vec<String> {
    parsed(messages).iter().map(|message| message["method"].as_str().unwrap_or("an answer").to_owned()).collect()
}

fn greet(rig: &mut RelayRig) {
    greet_in(rig, "2025-06-18");
}

fn greet_in(rig: &mut RelayRig, revision: &str) {
    rig.from_client(&initialize("0"));
    let asked = parsed(&rig.at_server());
    rig.from_server(&welcome(asked[0]["id"].as_i64().expect("it has that"), revision));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    rig.at_server();
    rig.at_client();
}

fn lose(rig: &mut RelayRig) {
    assert_eq!(rig.relay.restart_obstacle(), None);
    rig.relay.handle_server_lost(rig.now, &DIED);
    rig.replace(Side::Server);
    rig.pass(Duration::ZERO);
}

fn restart(rig: &mut RelayRig) {
    rig.relay.handle_server_restarted(rig.now);
    rig.pass(Duration::ZERO);
}

/// The new server is greeted: the id of that, and what it is sent after its answer.
fn greet_again(rig: &mut RelayRig) -> Vec<String> {
    greet_again_in(rig, "2025-06-18")
}

fn greet_again_in(rig: &mut RelayRig, revision: &str) -> Vec<String> {
    restart(rig);
    let greeting = parsed(&rig.at_server());
    assert_eq!(greeting.len(), 1, "{greeting:?}");
    let mut expected: Value = serde_json::from_str(&initialize("0")).expect("it has that");
    expected["id"] = greeting[0]["id"].clone();
    assert_eq!(greeting[0], expected);
    rig.from_server(&welcome(greeting[0]["id"].as_i64().expect("it has that"), revision));
    rig.at_server()
}

const CHANGED: [&str; 2] = ["notifications/tools/list_changed", "notifications/resources/list_changed"];

#[test]
fn what_the_dead_server_had_is_answered_and_what_waits_goes_to_the_next_in_order() {
    let mut rig = rig();
    greet(&mut rig);
    rig.from_client(&call(1));
    rig.at_server();
    rig.from_client(&call(2));
    rig.write(Side::Server, 10);
    rig.from_client(&call(3));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    lose(&mut rig);
    assert_eq!(ended(&rig.at_client()), [json!(1), json!(2)], "what has begun to leave is not sent to another");
    rig.from_client(&call(4));
    assert_eq!(rig.at_server(), [""; 0]);
    let states: Vec<_> = rig.relay.requests(Side::Client).map(|request| request.state).collect();
    assert_eq!(states, [RequestState::Queued; 2]);
    assert!(rig.relay.awaits_server());

    let told = greet_again(&mut rig);
    let methods = methods(&told);
    assert_eq!(methods[0], "notifications/initialized");
    assert_eq!(&told[1..2], [call(3)]);
    assert_eq!(methods[2], "notifications/roots/list_changed");
    assert_eq!(&told[3..], [call(4)]);
    assert_eq!(self::methods(&rig.at_client()), CHANGED, "the answer to our greeting is not the client's");
    assert!(!rig.relay.awaits_server());
    rig.from_server(&result(4));
    rig.from_server(&result(3));
    assert_eq!(rig.at_client(), [result(4), result(3)]);
    assert_eq!(rig.relay.in_flight(Side::Client), 0);
}

#[test]
fn a_request_about_a_task_of_the_dead_server_is_answered_and_no_other_server_gets_it() {
    let mut rig = rig();
    rig.from_client(&initialize("0"));
    rig.at_server();
    let tasks = r#"{"cancel":{},"requests":{"tools":{"call":{}}}}"#;
    let welcome =
        welcome(0, "2025-11-25").replace(r#""resources":{}"#, &format!(r#""resources":{{}},"tasks":{tasks}"#));
    rig.from_server(&welcome);
    rig.from_client(&request(1, "tools/call", r#"{"name":"slow","task":{}}"#));
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"1","status":"working"}}}"#);
    rig.at_client();
    assert!(rig.relay.requests(Side::Client).any(|view| view.at_work.is_some()), "the task is at work");
    rig.from_client(&request(2, "tasks/cancel", r#"{"taskId":"1"}"#));
    rig.from_client(&call(3));
    lose(&mut rig);
    assert_eq!(ended(&rig.at_client()), [json!(2)]);
    assert_eq!(rig.relay.in_flight(Side::Client), 1, "the task is over with its server");
    assert!(methods(&greet_again_in(&mut rig, "2025-11-25")).iter().all(|method| !method.starts_with("tasks/")));
}

#[test]
fn the_new_server_learns_of_subscriptions_that_stand_and_of_the_last_log_level() {
    let mut rig = rig();
    greet(&mut rig);
    for (id, method, params) in [
        (1, "resources/subscribe", r#"{"uri":"file:///a"}"#),
        (2, "resources/subscribe", r#"{"uri":"file:///b"}"#),
        (3, "resources/subscribe", r#"{"uri":"file:///refused"}"#),
        (4, "resources/unsubscribe", r#"{"uri":"file:///a"}"#),
        (5, "logging/setLevel", r#"{"level":"debug"}"#),
        (6, "logging/setLevel", r#"{"level":"warning"}"#),
    ] {
        rig.from_client(&request(id, method, params));
        rig.at_server();
        match id {
            3 => rig.from_server(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}"#),
            _ => rig.from_server(&result(id)),
        }
    }
    // Not answered: it is over with its server.
    rig.from_client(&request(7, "resources/subscribe", r#"{"uri":"file:///c"}"#));
    rig.at_server();
    rig.at_client();
    lose(&mut rig);
    assert_eq!(ended(&rig.at_client()), [json!(7)]);
    for _ in 0..2 {
        let told = parsed(&greet_again(&mut rig));
        let told: Vec<_> = told.iter().map(|told| (told["method"].clone(), told["params"].clone())).collect();
        assert_eq!(
            told,
            [
                (json!("notifications/initialized"), Value::Null),
                (json!("resources/subscribe"), json!({"uri": "file:///b"})),
                (json!("logging/setLevel"), json!({"level": "warning"})),
            ]
        );
        assert_eq!(methods(&rig.at_client()), CHANGED);
        lose(&mut rig);
        assert_eq!(rig.at_client(), [""; 0], "the client asked for none of it");
    }
}

#[test]
fn answers_to_what_is_replayed_go_no_further() {
    let mut rig = rig();
    greet(&mut rig);
    rig.from_client(&request(1, "resources/subscribe", r#"{"uri":"file:///a"}"#));
    rig.at_server();
    rig.from_server(&result(1));
    rig.at_client();
    lose(&mut rig);
    let told = parsed(&greet_again(&mut rig));
    rig.at_client();
    let own = told[1]["id"].as_i64().unwrap();
    assert!(own < FIRST_OWN);
    // A client may well have this very id.
    rig.from_client(&call(own));
    let sent = parsed(&rig.at_server());
    assert_ne!(sent[0]["id"], json!(own));
    rig.from_server(&result(own));
    assert_eq!(rig.at_client(), [""; 0]);
    rig.from_server(&result(sent[0]["id"].as_i64().unwrap()));
    assert_eq!(rig.at_client(), [result(own)]);
}

#[test]
fn a_cancel_while_there_is_no_server_takes_the_request_back() {
    let mut rig = rig();
    greet(&mut rig);
    lose(&mut rig);
    rig.from_client(&call(1));
    rig.from_client(&call(2));
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    let told = greet_again(&mut rig);
    assert_eq!(&told[1..], [call(2)]);
}

#[test]
fn a_cancel_of_the_dead_server_reaches_no_other_and_nothing_is_released_any_more() {
    let mut rig = rig();
    greet(&mut rig);
    for id in [1, 2] {
        rig.from_client(&call(id));
        rig.at_server();
        rig.from_client(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
        if id == 1 {
            rig.at_server();
        }
    }
    assert_eq!(rig.relay.summaries(Side::Client).filter(|request| request.is_released).count(), 2);
    lose(&mut rig);
    assert_eq!(rig.relay.summaries(Side::Client).filter(|request| request.is_released).count(), 0);
    assert_eq!(rig.outcome("2"), Some(Outcome::Unknown));
    assert_eq!(greet_again(&mut rig).len(), 1);
    assert_eq!(methods(&rig.at_client()), CHANGED);
}

#[test]
fn what_the_dead_server_asked_is_cancelled_and_the_next_one_may_use_its_ids() {
    let mut rig = rig();
    greet(&mut rig);
    let ask = |id: i64| request(id, "elicitation/create", "{}");
    rig.from_server(&ask(1));
    rig.from_server(&ask(2));
    rig.at_client();
    // This answer is for the dead one.
    rig.from_client(&result(2));
    lose(&mut rig);
    let cancelled = parsed(&rig.at_client());
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(
        (&cancelled[0]["method"], &cancelled[0]["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(1))
    );
    assert_eq!(rig.relay.in_flight(Side::Server), 0);
    assert_eq!(methods(&greet_again(&mut rig)), ["notifications/initialized"]);
    rig.at_client();
    rig.from_server(&ask(1));
    let asked = parsed(&rig.at_client());
    assert_eq!(asked[0]["method"], "elicitation/create");
    rig.from_client(&result(1));
    assert_eq!(rig.at_server(), [""; 0], "an answer to the question of the dead server");
    rig.from_client(&result(asked[0]["id"].as_i64().unwrap()));
    assert_eq!(rig.at_server(), [result(1)]);
    assert_eq!(rig.violations(), []);
}

#[test]
fn half_a_message_of_the_dead_server_is_not_passed_on_and_spoils_none_of_the_next() {
    let mut rig = rig();
    greet(&mut rig);
    rig.from_client(&call(1));
    rig.at_server();
    rig.bytes(Side::Server, br#"{"jsonrpc":"2.0","id":1,"result":{"content":["#);
    lose(&mut rig);
    assert_eq!(ended(&rig.at_client()), [json!(1)]);
    greet_again(&mut rig);
    assert_eq!(methods(&rig.at_client()), CHANGED);
}

#[test]
fn an_answer_that_lacks_only_its_line_break_counts() {
    let mut rig = rig();
    greet(&mut rig);
    rig.from_client(&call(1));
    rig.at_server();
    rig.bytes(Side::Server, result(1).as_bytes());
    lose(&mut rig);
    assert_eq!(rig.at_client(), [result(1)]);
}

#[test]
fn a_server_that_refuses_the_handshake_or_speaks_another_revision_is_refused() {
    let error = |id: i64| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no token"}}}}"#);
    let other = |id: i64| welcome(id, "2024-11-05");
    let answers: [(&dyn Fn(i64) -> String, &str); 2] = [(&error, "no token"), (&other, "2025-06-18")];
    for (answer, said) in answers {
        let mut rig = rig();
        greet(&mut rig);
        lose(&mut rig);
        rig.from_client(&call(1));
        restart(&mut rig);
        let greeting = parsed(&rig.at_server());
        assert_eq!(rig.relay.poll_restart_refused(), None);
        rig.from_server(&answer(greeting[0]["id"].as_i64().unwrap()));
        let why = rig.relay.poll_restart_refused().unwrap();
        assert!(why.contains(said), "{why}");
        assert_eq!(rig.relay.poll_restart_refused(), None, "once");
        assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]), "nothing that waits was sent");
        rig.end(Side::Server, &DIED);
        assert_eq!(ended(&rig.at_client()), [json!(1)]);
    }
}

#[test]
fn a_server_that_dies_again_before_it_has_shaken_hands_is_greeted_anew_and_keeps_what_waits() {
    let mut rig = rig();
    greet(&mut rig);
    lose(&mut rig);
    rig.from_client(&call(1));
    for died_after in 0..3 {
        restart(&mut rig);
        if died_after > 0 {
            rig.write(Side::Server, 10 * died_after);
        }
        lose(&mut rig);
        assert_eq!(rig.at_client(), [""; 0]);
    }
    let told = greet_again(&mut rig);
    assert_eq!(&told[1..], [call(1)]);
}

#[test]
fn what_waits_is_answered_when_the_starts_come_to_nothing_and_what_comes_later_waits_again() {
    let mut rig = rig();
    greet_in(&mut rig, WITH_ARRAYS);
    lose(&mut rig);
    rig.from_client(&call(1));
    rig.from_client(&format!("[{},{}]", call(2), call(3)));
    rig.relay.handle_restart_failed(rig.now);
    rig.pass(Duration::ZERO);
    let mut over = ended(&rig.at_client().iter().flat_map(|line| apart(line)).collect::<Vec<_>>());
    over.sort_by_key(Value::as_i64);
    assert_eq!(over, [json!(1), json!(2), json!(3)]);
    rig.from_client(&call(4));
    let told = greet_again_in(&mut rig, WITH_ARRAYS);
    assert_eq!(&told[1..], [call(4)]);
}

/// The messages of a line, which may be an array.
fn apart(line: &str) -> Vec<String> {
    let read: Value = serde_json::from_str(line).expect("a message");
    read.as_array().map_or_else(|| vec![line.to_owned()], |all| all.iter().map(Value::to_string).collect())
}

#[test]
fn an_array_that_was_not_sent_is_over_with_its_server() {
    let mut rig = rig();
    greet_in(&mut rig, WITH_ARRAYS);
    rig.from_client(&format!("[{},{}]", call(1), call(2)));
    lose(&mut rig);
    let over = ended(&rig.at_client().iter().flat_map(|line| apart(line)).collect::<Vec<_>>());
    assert_eq!(over.len(), 2);
    assert_eq!(greet_again_in(&mut rig, WITH_ARRAYS).len(), 1);
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}"#;

// MCP-S04: the client sends its subscriptions again.
#[test]
fn in_a_revision_without_sessions_nobody_is_greeted_and_subscriptions_end() {
    for bridge in [None, Some(BridgeConfig::default())] {
        let mut rig = RelayRig::new(RelayConfig { restart: true, bridge, ..RelayConfig::default() });
        let modern = |id: i64, method: &str| request(id, method, &format!("{{{META}}}"));
        rig.from_client(&modern(1, "tools/list"));
        rig.from_client(&modern(2, "subscriptions/listen"));
        rig.at_server();
        assert!(rig.relay.restart_obstacle().is_some(), "it has not answered anything");
        rig.from_server(&result(1));
        rig.at_client();
        lose(&mut rig);
        assert_eq!(ended(&rig.at_client()), [json!(2)]);
        rig.from_client(&modern(3, "tools/list"));
        assert_eq!(rig.at_server(), [""; 0]);
        restart(&mut rig);
        assert_eq!(rig.at_server(), [modern(3, "tools/list")]);
        assert_eq!(rig.at_client(), [""; 0]);
        rig.from_server(&result(3));
        assert_eq!(rig.at_client(), [result(3)]);
    }
}

#[test]
fn a_client_of_one_era_goes_on_with_a_server_of_the_other() {
    let bridge = Some(BridgeConfig { serves_modern: true, ..BridgeConfig::default() });
    let mut rig = RelayRig::new(RelayConfig { restart: true, bridge, ..RelayConfig::default() });
    rig.from_client(&initialize("0"));
    let refuse = |rig: &mut RelayRig, asked: &Value| {
        let error = r#""error":{"code":-32601,"message":"Method not found"}"#;
        rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{},{error}}}"#, asked["id"]));
    };
    let discovered = r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#;
    let learn = |rig: &mut RelayRig| {
        let greeting = parsed(&rig.at_server());
        assert_eq!(greeting[0]["method"], "initialize");
        refuse(rig, &greeting[0]);
        let asked = parsed(&rig.at_server());
        assert_eq!(asked[0]["method"], "server/discover");
        rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{{discovered}}}}}"#, asked[0]["id"]));
    };
    learn(&mut rig);
    assert_eq!(parsed(&rig.at_client())[0]["result"]["protocolVersion"], "2025-06-18");
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    rig.from_client(&call(1));
    rig.at_server();
    lose(&mut rig);
    assert_eq!(ended(&rig.at_client()), [json!(1)]);
    rig.from_client(&call(2));
    restart(&mut rig);
    learn(&mut rig);
    let sent = parsed(&rig.at_server());
    let called = sent.iter().find(|sent| sent["method"] == "tools/call").unwrap();
    assert_eq!(methods(&rig.at_client()), CHANGED[..1]);
    rig.from_server(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[],"resultType":"complete"}}}}"#,
        called["id"]
    ));
    assert_eq!(parsed(&rig.at_client())[0]["id"], 2);
}

#[test]
fn a_server_that_is_not_of_mcp_or_has_not_answered_is_not_started_again() {
    let mut fresh = rig();
    assert!(fresh.relay.restart_obstacle().is_some());
    fresh.from_client(&initialize("0"));
    fresh.at_server();
    assert!(fresh.relay.restart_obstacle().is_some());
    let mut acp = rig();
    acp.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    acp.at_server();
    let asked = acp.relay.requests(Side::Client).next().unwrap().upstream.to_string();
    acp.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{asked},"result":{{"protocolVersion":1}}}}"#));
    acp.at_client();
    assert!(acp.relay.restart_obstacle().is_some());
    let mut unasked = RelayRig::new(RelayConfig::default());
    greet(&mut unasked);
    assert!(unasked.relay.restart_obstacle().is_some());
}

#[test]
fn a_client_that_sets_more_than_is_kept_is_told_the_end_as_without_and_memory_stays_bounded() {
    let mut rig = rig();
    greet(&mut rig);
    let before = rig.relay.held();
    let long = "x".repeat(4096);
    for id in 1..600 {
        rig.from_client(&request(id, "resources/subscribe", &format!(r#"{{"uri":"file:///{id}/{long}"}}"#)));
        rig.at_server();
        rig.from_server(&result(id));
        rig.at_client();
    }
    let obstacle = rig.relay.restart_obstacle().unwrap();
    assert!(obstacle.contains("more than is kept"), "{obstacle}");
    assert!(rig.relay.held() < before + (2 << 20), "{}", rig.relay.held());
}

#[test]
fn a_client_that_sets_more_than_is_kept_while_there_is_no_server_cannot_go_on_with_the_next() {
    for is_greeted in [false, true] {
        let mut rig = rig();
        greet(&mut rig);
        lose(&mut rig);
        if is_greeted {
            restart(&mut rig);
            rig.at_server();
        }
        let long = "x".repeat(1 << 16);
        for id in 1..=16 {
            assert_eq!(rig.relay.poll_restart_refused(), None, "{id}");
            rig.from_client(&request(id, "resources/subscribe", &format!(r#"{{"uri":"file:///{id}/{long}"}}"#)));
        }
        let why = rig.relay.poll_restart_refused().unwrap();
        assert!(why.contains("more than is kept"), "{why}");
        restart(&mut rig);
        assert_eq!(rig.at_server(), [""; 0], "nothing reaches a server that was not greeted");
    }
}

#[test]
fn a_clock_of_ours_runs_on_while_there_is_no_server() {
    use rescind_proto::{link::Clock, relay::ClockRule};
    let clocks = vec![ClockRule { clock: Clock::Response, method: None, name: None, limit: Duration::from_secs(5) }];
    let mut rig = RelayRig::new(RelayConfig { restart: true, clocks, ..RelayConfig::default() });
    greet(&mut rig);
    lose(&mut rig);
    rig.from_client(&call(1));
    rig.pass(Duration::from_secs(5));
    assert_eq!(parsed(&rig.at_client())[0]["error"]["code"], -31001);
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    assert_eq!(greet_again(&mut rig).len(), 1);
}

#[test]
fn a_new_server_that_does_not_answer_its_greeting_is_overdue_after_a_minute_and_the_next_one_is_not() {
    let mut rig = rig();
    greet(&mut rig);
    lose(&mut rig);
    rig.from_client(&call(1));
    restart(&mut rig);
    let greeting = parsed(&rig.at_server());
    rig.pass(Duration::from_millis(59_999));
    assert_eq!(rig.relay.overdue_greeting(), None);
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.relay.overdue_greeting(), Some(Duration::from_secs(60)));
    assert_eq!(rig.at_client(), [""; 0], "what waits is the affair of its driver");
    lose(&mut rig);
    assert_eq!(rig.relay.overdue_greeting(), None);
    rig.relay.handle_restart_failed(rig.now);
    rig.pass(Duration::ZERO);
    assert_eq!(ended(&rig.at_client()), [json!(1)]);
    // Too late, and of none that there is.
    rig.from_server(&welcome(greeting[0]["id"].as_i64().unwrap(), "2025-06-18"));
    assert_eq!(rig.at_client(), [""; 0]);
    rig.from_client(&call(2));
    let told = greet_again(&mut rig);
    assert_eq!(&told[1..], [call(2)]);
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.relay.overdue_greeting(), None, "it has answered");
}

/// As the client's own `initialize` has it.
#[test]
fn a_clock_that_is_set_for_initialize_is_that_of_the_greeting() {
    use rescind_proto::{link::Clock, relay::ClockRule};
    let of = |method: Option<&str>, limit| ClockRule {
        clock: Clock::Response,
        method: method.map(Into::into),
        name: None,
        limit: Duration::from_secs(limit),
    };
    let clocks = vec![of(None, 600), of(Some("initialize"), 5)];
    let mut rig = RelayRig::new(RelayConfig { restart: true, clocks, ..RelayConfig::default() });
    greet(&mut rig);
    lose(&mut rig);
    restart(&mut rig);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.relay.overdue_greeting(), Some(Duration::from_secs(5)));
}

#[test]
fn an_answer_that_comes_before_its_driver_has_acted_is_in_time() {
    let mut rig = rig();
    greet(&mut rig);
    lose(&mut rig);
    restart(&mut rig);
    let greeting = parsed(&rig.at_server());
    rig.pass(Duration::from_secs(60));
    rig.from_server(&welcome(greeting[0]["id"].as_i64().unwrap(), "2025-06-18"));
    assert_eq!((rig.relay.overdue_greeting(), rig.relay.awaits_server()), (None, false));
}

#[test]
fn no_server_is_told_twice_that_the_handshake_is_over() {
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    // When the client says so.
    for moment in ["as it dies", "half sent", "while there is none", "while it is greeted"] {
        let mut rig = rig();
        rig.from_client(&initialize("0"));
        let asked = parsed(&rig.at_server());
        rig.from_server(&welcome(asked[0]["id"].as_i64().unwrap(), "2025-06-18"));
        rig.at_client();
        let say = |rig: &mut RelayRig, now| {
            if moment == now {
                rig.from_client(INITIALIZED);
            }
        };
        say(&mut rig, "as it dies");
        say(&mut rig, "half sent");
        if moment == "half sent" {
            rig.write(Side::Server, 10);
        }
        lose(&mut rig);
        say(&mut rig, "while there is none");
        rig.from_client(&call(1));
        restart(&mut rig);
        let greeting = parsed(&rig.at_server());
        say(&mut rig, "while it is greeted");
        rig.from_server(&welcome(greeting[0]["id"].as_i64().unwrap(), "2025-06-18"));
        assert_eq!(methods(&rig.at_server()), ["notifications/initialized", "tools/call"], "{moment}");
    }
}

/// What the walk below knows of its calls, by number.
#[derive(Debug, Default)]
struct Calls {
    /// Made, not cancelled, and not answered.
    open: BTreeSet<i64>,
    /// Received by a server, ever.
    received: BTreeSet<i64>,
    /// Received by the server that there is, and not answered by it.
    held: Vec<i64>,
    /// The id of the greeting that waits for an answer.
    greeting: Option<i64>,
}

impl Calls {
    fn read_server(&mut self, rig: &mut RelayRig) {
        for message in parsed(&rig.at_server()) {
            let id = message["id"].as_i64();
            match message["method"].as_str().expect("it has that") {
                "initialize" => self.greeting = id,
                "tools/call" => {
                    assert_eq!(self.greeting, None, "a call before the handshake");
                    let id = id.expect("it has that");
                    assert!(self.received.insert(id), "call {id} was sent twice");
                    self.held.push(id);
                }
                "notifications/initialized" | "notifications/cancelled" => {}
                other => panic!("{other}"),
            }
        }
    }

    fn read_client(&mut self, rig: &mut RelayRig) {
        for message in parsed(&rig.at_client()) {
            if let Some(id) = message["id"].as_i64() {
                assert!(self.open.remove(&id), "an answer too many: {message}");
            }
        }
    }
}

/// A server dies at any moment, half way through anything, and is started again or not: no call is sent twice, and each one
/// that was not cancelled gets one answer.
#[test]
fn however_it_goes_no_call_is_sent_twice_and_each_gets_one_answer() {
    for seed in 1..300 {
        let mut dice = Dice(seed);
        let mut rig = rig();
        greet(&mut rig);
        let (mut calls, mut is_down, mut next) = (Calls::default(), false, 1000);
        for _ in 0..120 {
            match dice.roll(12) {
                0..=2 => {
                    rig.from_client(&call(next));
                    calls.open.insert(next);
                    next += 1;
                }
                3 => {
                    let open: Vec<_> = calls.open.iter().copied().collect();
                    if let Some(id) = open.get(dice.roll(open.len().max(1))) {
                        let params = format!(r#"{{"requestId":{id}}}"#);
                        // What has come before its cancel is read before.
                        calls.read_client(&mut rig);
                        rig.from_client(&format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#
                        ));
                        calls.open.remove(id);
                    }
                }
                4 => rig.write(Side::Server, dice.roll(200)),
                5 | 6 => calls.read_server(&mut rig),
                7 | 8 if !calls.held.is_empty() => {
                    let id = calls.held.swap_remove(dice.roll(calls.held.len()));
                    rig.from_server(&result(id));
                }
                9 if !is_down => {
                    rig.bytes(Side::Server, &br#"{"jsonrpc":"2.0","id":1"#[..dice.roll(20)]);
                    lose(&mut rig);
                    (calls.held, calls.greeting, is_down) = (Vec::new(), None, true);
                }
                10 if is_down && dice.roll(4) == 0 => rig.relay.handle_restart_failed(rig.now),
                10 if is_down => {
                    restart(&mut rig);
                    is_down = false;
                }
                11 => {
                    if let Some(id) = calls.greeting.take() {
                        rig.from_server(&welcome(id, "2025-06-18"));
                    }
                }
                _ => calls.read_client(&mut rig),
            }
        }
        if is_down {
            restart(&mut rig);
        }
        while {
            calls.read_server(&mut rig);
            calls.greeting.is_some() || !calls.held.is_empty()
        } {
            if let Some(id) = calls.greeting.take() {
                rig.from_server(&welcome(id, "2025-06-18"));
            }
            for id in core::mem::take(&mut calls.held) {
                rig.from_server(&result(id));
            }
        }
        calls.read_client(&mut rig);
        assert!(calls.open.is_empty(), "seed {seed}: without an answer: {:?}", calls.open);
        assert_eq!(rig.relay.in_flight(Side::Client), 0);
        rig.relay.check_invariants();
    }
}

struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}
