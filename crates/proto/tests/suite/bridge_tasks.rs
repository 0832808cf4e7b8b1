//! Tasks between the eras: made, looked at, asked, cancelled at each step (TASK-…, D38).

use core::time::Duration;

use rescind_proto::{bridge::BridgeConfig, link::RequestKey, receipt::Outcome, relay::End, side::Side};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use super::bridge::{NO_METHOD, OWN, cancel, error, is_nothing_left, plain, result, rig};

const TOOLS: &str = r#"{"tools":[{"name":"slow","execution":{"taskSupport":"required"}},{"name":"either","execution":{"taskSupport":"optional"}},{"name":"quick","execution":{"taskSupport":"forbidden"}},{"name":"plain"}]}"#;
const OLD: &str = r#""createdAt":"then","lastUpdatedAt":"now","ttl":60000,"pollInterval":500"#;
const NEW: &str = r#""createdAt":"then","lastUpdatedAt":"now","ttlMs":60000,"pollIntervalMs":500"#;

fn config() -> BridgeConfig {
    BridgeConfig {
        serves_modern: true,
        may_ask: true,
        started: Duration::from_secs(1_764_000_000),
        ..BridgeConfig::default()
    }
}

/// The ids of our own, from the first.
fn own(number: i64) -> i64 {
    OWN[0] - number
}

/// What a task is in 2025-11-25, and in the extension.
fn old(status: &str) -> String {
    format!(r#"{{"taskId":"t",{OLD},"status":"{status}"}}"#)
}

fn new(kind: &str, status: &str) -> String {
    format!(r#"{{"resultType":"{kind}","taskId":"t",{NEW},"status":"{status}"}}"#)
}

fn request_of(id: u32, method: &str, members: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"c","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{capabilities}}},{members}}}}}"#
    )
}

/// A request of a client of 2026-07-28 that takes tasks, and fills in forms.
fn request(id: u32, method: &str, members: &str) -> String {
    request_of(id, method, members, r#"{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#)
}

fn about(id: u32, method: &str) -> String {
    request(id, method, r#""taskId":"t""#)
}

/// A client of 2026-07-28 has listed the tools of a server of 2025-11-25 that makes tasks. The next id of ours is `own(3)`.
fn listed() -> RelayRig {
    listed_with(config())
}

fn listed_with(config: BridgeConfig) -> RelayRig {
    let mut rig = rig(config);
    rig.from_client(&request(0, "tools/list", r#""cursor":null"#));
    rig.at_server();
    rig.from_server(&error(own(0), NO_METHOD));
    rig.at_server();
    rig.from_server(&result(
        own(1),
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}"#,
    ));
    rig.at_server();
    rig.from_server(&result(own(2), TOOLS));
    rig.at_client();
    rig
}

/// The same, and it has called a tool as request 1, which is task `t`. The next id of ours is `own(4)`.
fn made() -> RelayRig {
    let mut rig = listed();
    rig.from_client(&request(1, "tools/call", r#""name":"slow","arguments":{"a":1},"task":{"ttl":5}"#));
    assert_eq!(
        rig.at_server(),
        [plain(own(3), "tools/call", r#""task":{},"name":"slow","arguments":{"a":1}"#)],
        "the client's own wish for a task means nothing (TASK-27)"
    );
    rig.from_server(&result(own(3), &format!(r#"{{"task":{}}}"#, old("working"))));
    assert_eq!(rig.at_client(), [result(1, &new("task", "working"))]);
    rig
}

/// A client with a session has greeted a server of 2026-07-28 that makes tasks. The next id of ours is `own(1)`.
fn greeted() -> RelayRig {
    greeted_by(r#"{"elicitation":{}}"#)
}

/// The same, and that client has these capabilities.
fn greeted_by(capabilities: &str) -> RelayRig {
    let mut rig = rig(config());
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}}}"#));
    rig.at_server();
    rig.from_server(&error(0, r#"{"code":-32022,"message":"no"}"#));
    rig.at_server();
    rig.from_server(&result(
        own(0),
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#,
    ));
    let greeting = rig.at_client();
    assert!(
        greeting[0].contains(r#""capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"tools":{}}"#),
        "{greeting:?}"
    );
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    rig
}

/// The request that the server got, and that it declares tasks.
fn got(rig: &mut RelayRig) -> Value {
    let got = rig.at_server();
    assert_eq!(got.len(), 1, "{got:?}");
    let got: Value = serde_json::from_str(&got[0]).expect("JSON");
    let declared = &got["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(*declared, json!({ "io.modelcontextprotocol/tasks": {} }), "{got}");
    got
}

fn calls_as_task(id: u32) -> String {
    plain(id, "tools/call", r#""name":"slow","task":{"ttl":60000}"#)
}

/// The same, and it has called a tool as a task, request 1, which is task `t`. The next id of ours is `own(2)`.
fn made_by_modern() -> RelayRig {
    made_for(greeted())
}

fn made_for(mut rig: RelayRig) -> RelayRig {
    rig.from_client(&calls_as_task(1));
    let call = got(&mut rig);
    assert_eq!(
        (&call["id"], &call["params"]["name"], call["params"].get("task")),
        (&json!(own(1)), &json!("slow"), None)
    );
    rig.from_server(&result(own(1), &new("task", "working")));
    assert_eq!(rig.at_client(), [result(1, &format!(r#"{{"task":{}}}"#, old("working")))]);
    rig
}

/// The one message that the client gets.
fn one(rig: &mut RelayRig) -> Value {
    let said = rig.at_client();
    assert_eq!(said.len(), 1, "{said:?}");
    serde_json::from_str(&said[0]).expect("JSON")
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_server_with_sessions_offers_its_tasks_as_the_extension() {
    let mut rig = listed();
    rig.from_client(&request(5, "server/discover", r#""x":1"#));
    assert_eq!(
        one(&mut rig)["result"]["capabilities"],
        json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
    );
}

#[test]
fn a_call_becomes_a_task_where_its_client_and_its_tool_allow_it() {
    let mut rig = listed();
    for (number, (name, becomes)) in
        [("slow", true), ("either", true), ("quick", false), ("plain", false)].iter().enumerate()
    {
        let number = i64::try_from(number).expect("few");
        rig.from_client(&request(1, "tools/call", &format!(r#""name":"{name}""#)));
        let task = if *becomes { r#""task":{},"# } else { "" };
        assert_eq!(rig.at_server(), [plain(own(3 + number), "tools/call", &format!(r#"{task}"name":"{name}""#))]);
        rig.from_server(&result(own(3 + number), "{}"));
        assert_eq!(rig.at_client(), [result(1, r#"{"resultType":"complete"}"#)], "an answer at once is one");
    }
    rig.from_client(&request_of(2, "tools/call", r#""name":"slow""#, "{}"));
    assert_eq!(rig.at_server(), [plain(own(7), "tools/call", r#""name":"slow""#)]);
    rig.from_server(&result(own(7), "{}"));
    rig.at_client();
    assert!(is_nothing_left(&mut rig));
}

// TASK-06, TASK-25.
#[test]
fn what_becomes_of_a_task_is_in_what_is_seen_of_it() {
    for (status, answer, expected) in [
        (
            "completed",
            result(own(6), r#"{"content":[],"isError":false}"#),
            json!({ "resultType": "complete", "content": [], "isError": false }),
        ),
        (
            "failed",
            result(
                own(6),
                r#"{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
            ),
            json!({ "resultType": "complete", "content": [], "isError": true }),
        ),
    ] {
        let mut rig = made();
        rig.from_client(&about(2, "tasks/get"));
        assert_eq!(rig.at_server(), [plain(own(4), "tasks/get", r#""taskId":"t""#)]);
        rig.from_server(&result(own(4), &old("working")));
        assert_eq!(rig.at_client(), [result(2, &new("complete", "working"))]);
        rig.from_client(&about(3, "tasks/get"));
        rig.at_server();
        rig.from_server(&result(own(5), &old(status)));
        assert_eq!(rig.at_server(), [plain(own(6), "tasks/result", r#""taskId":"t""#)]);
        rig.from_server(&answer);
        let seen = one(&mut rig)["result"].clone();
        assert_eq!((&seen["status"], &seen["result"], &seen["ttlMs"]), (&json!("completed"), &expected, &json!(60000)));
        assert!(is_nothing_left(&mut rig));
    }
}

#[test]
fn a_task_that_failed_with_an_error_has_that() {
    let mut rig = made();
    rig.from_client(&about(2, "tasks/get"));
    rig.at_server();
    rig.from_server(&result(own(4), &old("failed")));
    rig.at_server();
    rig.from_server(&error(own(5), r#"{"code":-32000,"message":"broken"}"#));
    let seen = one(&mut rig)["result"].clone();
    assert_eq!((&seen["status"], &seen["error"]["code"]), (&json!("failed"), &json!(-32000)));
}

// TASK-20, TASK-24.
#[test]
fn what_the_extension_has_not_or_a_client_has_not_declared_is_refused() {
    let mut rig = made();
    for method in ["tasks/result", "tasks/list"] {
        rig.from_client(&about(2, method));
        assert_eq!(code(&one(&mut rig)), -32601);
    }
    rig.from_client(&request_of(2, "tasks/get", r#""taskId":"t""#, "{}"));
    let refused = one(&mut rig);
    assert_eq!(code(&refused), -32021);
    assert_eq!(
        refused["error"]["data"]["requiredCapabilities"]["extensions"],
        json!({ "io.modelcontextprotocol/tasks": {} })
    );
    rig.from_client(&request(2, "tasks/get", r#""taskId":7"#));
    assert_eq!(code(&one(&mut rig)), -32602);
    assert!(rig.at_server().is_empty());
}

// TASK-21, TASK-22, TASK-07.
#[test]
fn a_cancel_of_a_task_is_acknowledged_whatever_has_become_of_it() {
    let mut rig = made();
    rig.from_client(&about(2, "tasks/cancel"));
    assert_eq!(rig.at_server(), [plain(own(4), "tasks/cancel", r#""taskId":"t""#)]);
    rig.from_server(&result(own(4), &old("cancelled")));
    assert_eq!(rig.at_client(), [result(2, r#"{"resultType":"complete"}"#)]);
    let refusal = r#"{"code":-32602,"message":"it has ended, or never was"}"#;
    rig.from_client(&about(3, "tasks/cancel"));
    rig.at_server();
    rig.from_server(&error(own(5), refusal));
    assert_eq!(rig.at_server(), [plain(own(6), "tasks/get", r#""taskId":"t""#)]);
    rig.from_server(&result(own(6), &old("completed")));
    assert_eq!(rig.at_client(), [result(3, r#"{"resultType":"complete"}"#)]);
    rig.from_client(&about(4, "tasks/cancel"));
    rig.at_server();
    rig.from_server(&error(own(7), refusal));
    rig.at_server();
    rig.from_server(&error(own(8), r#"{"code":-32602,"message":"no such task"}"#));
    assert_eq!(rig.at_client(), [error(4, refusal)]);
    assert!(is_nothing_left(&mut rig));
}

// Case 59. MCP-C13, D38.
#[test]
fn a_call_that_is_cancelled_before_its_task_is_known_has_that_cancelled_once_it_is() {
    let mut rig = listed();
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    rig.at_server();
    rig.from_client(&cancel(1));
    assert!(rig.at_server().is_empty(), "a task is not cancelled by a notification");
    rig.from_server(&result(own(3), &format!(r#"{{"task":{}}}"#, old("working"))));
    assert_eq!(rig.at_server(), [plain(own(4), "tasks/cancel", r#""taskId":"t""#)]);
    rig.from_server(&result(own(4), &old("cancelled")));
    assert_eq!(rig.at_server(), [plain(own(5), "tasks/get", r#""taskId":"t""#)], "across eras it is acknowledged only");
    rig.from_server(&result(own(5), &old("cancelled")));
    assert!(rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_call_that_the_server_has_not_got_is_taken_back() {
    let mut rig = listed();
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    rig.from_client(&cancel(1));
    assert!(rig.at_server().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_a_task_wants_to_know_is_in_what_is_seen_of_it_and_the_answer_reaches_the_server() {
    let mut rig = made();
    rig.from_client(&about(2, "tasks/get"));
    rig.at_server();
    rig.from_server(&result(own(4), &old("input_required")));
    assert_eq!(rig.at_server(), [plain(own(5), "tasks/result", r#""taskId":"t""#)], "then it asks");
    assert_eq!(one(&mut rig)["result"]["status"], "working", "what it wants to know is not known yet");
    let question = r#""message":"Sure?","requestedSchema":{"type":"object"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    rig.from_server(&plain(70, "elicitation/create", question));
    rig.from_client(&about(3, "tasks/get"));
    assert_eq!(rig.at_server(), [plain(own(6), "tasks/get", r#""taskId":"t""#)]);
    rig.from_server(&result(own(6), &old("input_required")));
    let seen = one(&mut rig)["result"].clone();
    assert_eq!(seen["status"], "input_required");
    assert_eq!(
        seen["inputRequests"],
        json!({ "1": { "method": "elicitation/create", "params": { "message": "Sure?", "requestedSchema": { "type": "object" } } } })
    );
    let answers = r#""taskId":"t","inputResponses":{"1":{"action":"accept"},"9":{"action":"accept"}}"#;
    rig.from_client(&request(4, "tasks/update", answers));
    assert_eq!(rig.at_server(), [result(70, r#"{"action":"accept"}"#)]);
    assert_eq!(rig.at_client(), [result(4, r#"{"resultType":"complete"}"#)]);
    rig.from_server(&result(own(5), r#"{"content":[]}"#));
    assert!(rig.at_client().is_empty(), "nobody waits for it but who looks");
    assert!(is_nothing_left(&mut rig));
}

// Case 58.
#[test]
fn a_task_that_is_cancelled_while_it_asks_is_asked_for_no_more() {
    let mut rig = made();
    rig.from_client(&about(2, "tasks/get"));
    rig.at_server();
    rig.from_server(&result(own(4), &old("input_required")));
    rig.at_server();
    rig.at_client();
    let question = r#""message":"Sure?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    rig.from_server(&plain(70, "elicitation/create", question));
    rig.from_client(&about(3, "tasks/cancel"));
    let told = rig.at_server();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], cancel(own(5)));
    assert!(told[1].contains(r#""id":70,"error""#), "{told:?}");
    assert_eq!(told[2], plain(own(6), "tasks/cancel", r#""taskId":"t""#));
    rig.from_server(&result(own(6), &old("cancelled")));
    assert_eq!(rig.at_client(), [result(3, r#"{"resultType":"complete"}"#)]);
    // Its client asks no more.
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.at_server(), [plain(own(7), "tasks/get", r#""taskId":"t""#)]);
    rig.from_server(&result(own(7), &old("cancelled")));
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_task_that_nobody_looks_at_asks_no_more() {
    let mut rig = made();
    let question = r#""message":"Sure?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    rig.from_server(&plain(70, "elicitation/create", question));
    assert!(rig.at_server().is_empty());
    rig.pass(Duration::from_secs(600));
    assert!(rig.at_server()[0].contains(r#""id":70,"error""#));
    assert!(is_nothing_left(&mut rig));
}

// What is asked of a task is not of a call that happens to be in flight.
#[test]
fn a_question_of_a_task_is_not_put_to_another_call() {
    let mut rig = made();
    rig.from_client(&request(2, "tools/call", r#""name":"plain""#));
    rig.at_server();
    let question = r#""message":"Sure?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#;
    rig.from_server(&plain(70, "elicitation/create", question));
    assert!(rig.at_client().is_empty());
    rig.from_server(&result(own(4), "{}"));
    assert_eq!(rig.at_client(), [result(2, r#"{"resultType":"complete"}"#)]);
}

#[test]
fn every_tool_of_a_server_without_sessions_can_be_a_task() {
    let mut rig = greeted();
    rig.from_client(&plain(1, "tools/list", ""));
    rig.at_server();
    rig.from_server(&result(own(1), r#"{"resultType":"complete","tools":[{"name":"a"},{"name":"b"}],"ttlMs":0}"#));
    let support = json!({ "taskSupport": "optional" });
    assert_eq!(
        one(&mut rig)["result"],
        json!({ "tools": [{ "execution": support, "name": "a" }, { "execution": support, "name": "b" }] })
    );
}

#[test]
fn an_older_client_is_told_nothing_of_tasks() {
    let mut rig = rig(config());
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#,
    );
    rig.at_server();
    rig.from_server(&error(0, r#"{"code":-32022,"message":"no"}"#));
    rig.at_server();
    rig.from_server(&result(
        own(0),
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#,
    ));
    assert_eq!(one(&mut rig)["result"]["capabilities"], json!({}));
}

// TASK-06, TASK-10.
#[test]
fn the_result_of_a_task_is_waited_for_and_looked_for() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    for look in 0..3 {
        let look_at = got(&mut rig);
        assert_eq!((&look_at["method"], &look_at["id"]), (&json!("tasks/get"), &json!(own(2 + look))));
        rig.from_server(&result(own(2 + look), &new("complete", "working")));
        assert!(rig.at_client().is_empty());
        rig.pass(Duration::from_millis(499));
        assert!(rig.at_server().is_empty(), "as often as the server wants it");
        rig.pass(Duration::from_millis(1));
    }
    got(&mut rig);
    let done = new("complete", "completed")
        .replace(r#""status""#, r#""result":{"resultType":"complete","content":[1]},"status""#);
    rig.from_server(&result(own(5), &done));
    assert_eq!(
        rig.at_client(),
        [result(2, r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}},"content":[1]}"#)]
    );
    rig.from_client(&plain(3, "tasks/get", r#""taskId":"t""#));
    got(&mut rig);
    rig.from_server(&result(own(6), &done));
    assert_eq!(rig.at_client(), [result(3, &old("completed"))]);
    assert!(is_nothing_left(&mut rig));
}

// TASK-12.
#[test]
fn a_tool_error_makes_the_task_one_that_failed() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/get", r#""taskId":"t""#));
    rig.at_server();
    let done = new("complete", "completed").replace(r#""status""#, r#""result":{"isError":true},"status""#);
    rig.from_server(&result(own(2), &done));
    assert_eq!(rig.at_client(), [result(2, &old("failed"))]);
}

// TASK-06: cancelling the wait does not cancel the task.
#[test]
fn a_wait_for_a_result_is_cancelled_alone() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), &new("complete", "working")));
    rig.from_client(&cancel(2));
    rig.pass(Duration::from_secs(60));
    assert!(rig.at_server().is_empty() && rig.at_client().is_empty(), "nobody looks any more");
    rig.from_client(&plain(3, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_client(&cancel(3));
    assert_eq!(rig.at_server(), [cancel(own(4))]);
    rig.from_server(&result(own(4), &new("complete", "working")));
    rig.pass(Duration::from_secs(60));
    assert!(rig.at_server().is_empty() && rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

// TASK-02, TASK-03, TASK-04.
#[test]
fn a_cancelled_task_stays_so_whatever_its_server_does() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), &new("complete", "working")));
    rig.from_client(&plain(3, "tasks/cancel", r#""taskId":"t""#));
    assert_eq!(got(&mut rig)["method"], "tasks/cancel");
    rig.from_server(&result(own(4), r#"{"resultType":"complete"}"#));
    assert_eq!(got(&mut rig)["method"], "tasks/get", "to say what it is now");
    rig.from_server(&result(own(5), &new("complete", "working")));
    assert_eq!(rig.at_client(), [result(3, &old("cancelled"))]);
    rig.pass(Duration::from_millis(500));
    let looks = rig.at_server();
    let is_of = |number: i64| looks.iter().any(|look| look.contains(&format!("\"id\":{}", own(number))));
    assert!(looks.len() == 2 && is_of(3) && is_of(6), "for who waits for the result, and for an operator: {looks:?}");
    let done = new("complete", "completed").replace(r#""status""#, r#""result":{},"status""#);
    rig.from_server(&result(own(3), &done));
    let ended = one(&mut rig);
    assert_eq!((&ended["id"], code(&ended)), (&json!(2), -32800));
    rig.from_server(&result(own(6), &done));
    assert!(rig.at_client().is_empty());
    rig.from_client(&plain(4, "tasks/get", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(7), &done));
    assert_eq!(rig.at_client(), [result(4, &old("cancelled"))]);
    rig.from_client(&plain(5, "tasks/cancel", r#""taskId":"t""#));
    assert_eq!(got(&mut rig)["method"], "tasks/cancel", "what the server has only promised it is asked again");
    rig.from_server(&result(own(8), r#"{"resultType":"complete"}"#));
    rig.at_server();
    rig.from_server(&result(own(9), &done));
    assert_eq!(code(&one(&mut rig)), -32602);
    assert!(is_nothing_left(&mut rig));
}

// TASK-02.
#[test]
fn a_cancel_of_a_task_that_has_ended_is_refused() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/cancel", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), r#"{"resultType":"complete"}"#));
    rig.at_server();
    rig.from_server(&result(own(3), &new("complete", "completed")));
    assert_eq!(code(&one(&mut rig)), -32602);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_a_server_answers_at_once_is_kept_as_a_task_that_has_ended() {
    let mut rig = greeted();
    rig.from_client(&calls_as_task(1));
    rig.at_server();
    rig.from_server(&result(own(1), r#"{"resultType":"complete","content":[1]}"#));
    let task = one(&mut rig)["result"]["task"].clone();
    assert_eq!(
        (&task["status"], &task["createdAt"], &task["ttl"]),
        (&json!("completed"), &json!("2025-11-24T16:00:00Z"), &json!(600_000))
    );
    let named = format!(r#""taskId":{}"#, task["taskId"]);
    rig.from_client(&plain(2, "tasks/get", &named));
    assert_eq!(one(&mut rig)["result"], task);
    rig.from_client(&plain(3, "tasks/result", &named));
    let given = one(&mut rig);
    assert_eq!(given["result"]["content"], json!([1]));
    assert_eq!(given["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
    rig.from_client(&plain(4, "tasks/cancel", &named));
    assert_eq!(code(&one(&mut rig)), -32602);
    assert!(rig.at_server().is_empty());
    rig.pass(Duration::from_secs(600));
    rig.from_client(&plain(5, "tasks/get", &named));
    assert_eq!(got(&mut rig)["method"], "tasks/get", "it is forgotten, and the server is asked");
    rig.from_server(&error(own(2), r#"{"code":-32602,"message":"no such task"}"#));
    rig.at_client();
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_a_task_wants_to_know_is_asked_while_its_result_is_waited_for() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    let asks = new("complete", "input_required").replace(
        r#""status""#,
        r#""inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Who?"}}},"status""#,
    );
    for look in 0..2 {
        rig.from_server(&result(own(if look == 0 { 2 } else { 4 }), &asks));
        if look == 0 {
            let question = one(&mut rig);
            assert_eq!((&question["method"], &question["id"]), (&json!("elicitation/create"), &json!(own(3))));
            assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "t");
        }
        rig.pass(Duration::from_millis(500));
        assert_eq!(got(&mut rig)["method"], "tasks/get");
        assert!(rig.at_client().is_empty(), "it is asked once");
    }
    rig.from_client(&result(own(3), r#"{"action":"accept"}"#));
    let update = got(&mut rig);
    assert_eq!((&update["method"], &update["params"]["taskId"]), (&json!("tasks/update"), &json!("t")));
    assert_eq!(update["params"]["inputResponses"], json!({ "name": { "action": "accept" } }));
    rig.from_server(&result(update["id"].as_i64().expect("an id"), r#"{"resultType":"complete"}"#));
    rig.from_client(&cancel(2));
    rig.from_server(&result(own(5), &asks));
    assert!(rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_question_of_a_task_is_taken_back_with_the_wait() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    let asks = new("complete", "input_required").replace(
        r#""status""#,
        r#""inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Who?"}}},"status""#,
    );
    rig.from_server(&result(own(2), &asks));
    one(&mut rig);
    rig.from_client(&cancel(2));
    assert_eq!(rig.at_client(), [cancel(own(3))]);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_a_client_cannot_be_asked_ends_its_wait_in_words() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    let asks = new("complete", "input_required")
        .replace(r#""status""#, r#""inputRequests":{"a":{"method":"sampling/createMessage","params":{}}},"status""#);
    rig.from_server(&result(own(2), &asks));
    assert_eq!(code(&one(&mut rig)), -32603);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_server_that_hears_nothing_any_more_ends_what_waits_for_its_tasks() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), &new("complete", "working")));
    rig.end(Side::Server, &End::Exited(3));
    let ended = one(&mut rig);
    assert_eq!((&ended["id"], code(&ended)), (&json!(2), -31002));
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_server_without_tasks_has_none_for_a_client_of_another_era() {
    let mut rig = rig(config());
    rig.from_client(&request(0, "tools/list", r#""cursor":null"#));
    rig.at_server();
    rig.from_server(&error(own(0), NO_METHOD));
    rig.at_server();
    rig.from_server(&result(own(1), super::bridge::GREETING));
    rig.at_server();
    rig.from_server(&result(own(2), TOOLS));
    rig.at_client();
    rig.from_client(&about(1, "tasks/get"));
    assert_eq!(code(&one(&mut rig)), -32601);
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    assert_eq!(rig.at_server(), [plain(own(3), "tools/call", r#""name":"slow""#)]);
}

/// The tool has been called, and the server wants to know something before it says which task that is. The next id of ours
/// is `own(4)`.
fn asked_before_it_is_a_task() -> (RelayRig, String) {
    let mut rig = listed();
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    rig.at_server();
    rig.from_server(&plain(70, "elicitation/create", r#""message":"Sure?""#));
    let asked = one(&mut rig)["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    (rig, asked["requestState"].to_string())
}

// MCP-C13, D38.
#[test]
fn a_task_whose_client_does_not_call_again_is_cancelled_once_it_is_known() {
    let (mut rig, _) = asked_before_it_is_a_task();
    rig.pass(Duration::from_secs(600));
    let told = rig.at_server();
    assert_eq!(told.len(), 1, "its question is refused, and a task is not cancelled by a notification: {told:?}");
    assert!(told[0].contains(r#""id":70,"error""#), "{told:?}");
    rig.from_server(&result(own(3), &format!(r#"{{"task":{}}}"#, old("working"))));
    assert_eq!(rig.at_server(), [plain(own(4), "tasks/cancel", r#""taskId":"t""#)]);
    rig.from_server(&result(own(4), &old("cancelled")));
    assert!(rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_handle_that_comes_while_its_client_is_asked_is_for_the_next_call_or_is_cancelled() {
    let handle = format!(r#"{{"task":{}}}"#, old("working"));
    let (mut rig, state) = asked_before_it_is_a_task();
    rig.from_server(&result(own(3), &handle));
    let again = format!(r#""name":"slow","requestState":{state},"inputResponses":{{"1":{{"action":"accept"}}}}"#);
    rig.from_client(&request(2, "tools/call", &again));
    assert_eq!(rig.at_client(), [result(2, &new("task", "working"))]);
    assert!(is_nothing_left(&mut rig));

    let (mut rig, _) = asked_before_it_is_a_task();
    rig.from_server(&result(own(3), &handle));
    assert!(rig.at_server().is_empty());
    rig.pass(Duration::from_secs(600));
    assert_eq!(rig.at_server(), [plain(own(4), "tasks/cancel", r#""taskId":"t""#)]);
    rig.from_server(&result(own(4), &old("cancelled")));
    assert!(is_nothing_left(&mut rig));
}

// TASK-02.
#[test]
fn a_task_that_was_cancelled_is_not_cancelled_again() {
    for status in ["working", "cancelled"] {
        let mut rig = made_by_modern();
        for id in [2, 3] {
            rig.from_client(&plain(id, "tasks/cancel", r#""taskId":"t""#));
        }
        assert_eq!(rig.at_server().len(), 2);
        for answered in [2, 3] {
            rig.from_server(&result(own(answered), r#"{"resultType":"complete"}"#));
        }
        rig.at_server();
        for answered in [4, 5] {
            rig.from_server(&result(own(answered), &new("complete", status)));
        }
        let said = rig.at_client();
        assert_eq!((said.len(), &said[0]), (2, &result(2, &old("cancelled"))));
        assert!(said[1].contains("-32602"), "{said:?}");
        rig.from_client(&plain(4, "tasks/cancel", r#""taskId":"t""#));
        rig.at_server();
        rig.from_server(&result(own(6), r#"{"resultType":"complete"}"#));
        rig.at_server();
        rig.from_server(&result(own(7), &new("complete", status)));
        assert_eq!(code(&one(&mut rig)), -32602);
        // What works on is in view until its server ends.
        assert_eq!(rig.relay.in_flight(Side::Client), usize::from(status == "working"));
        rig.end(Side::Server, &End::Closed);
        assert!(is_nothing_left(&mut rig));
    }
}

#[test]
fn a_task_that_says_twice_that_it_asks_is_looked_at_as_any() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), &new("input_required", "input_required")));
    assert!(rig.at_client().is_empty());
    rig.pass(Duration::from_millis(500));
    assert_eq!(got(&mut rig)["method"], "tasks/get");
    rig.from_server(&result(own(3), &new("input_required", "cancelled")));
    assert_eq!(code(&one(&mut rig)), -32800);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_result_that_cannot_be_read_is_fetched_again_for_what_its_task_asks() {
    let mut rig = made();
    for look in 0..2 {
        rig.from_client(&about(2 + look, "tasks/get"));
        rig.at_server();
        let own_look = own(4 + 2 * i64::from(look));
        rig.from_server(&result(own_look, &old("input_required")));
        assert_eq!(rig.at_server(), [plain(own_look - 1, "tasks/result", r#""taskId":"t""#)]);
        rig.from_server(&result(own_look - 1, "{").replace("}", ""));
        assert_eq!(one(&mut rig)["id"], 2 + look);
    }
    assert!(is_nothing_left(&mut rig));
}

// Beside the session's own rule (MCP-I02), which not every client keeps.
#[test]
fn what_comes_late_for_a_wait_that_was_given_up_answers_no_other_request() {
    let mut rig = made_for(greeted_by(r#"{"sampling":{}}"#));
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    let asks = new("complete", "input_required")
        .replace(r#""status""#, r#""inputRequests":{"a":{"method":"sampling/createMessage","params":{}}},"status""#);
    rig.from_server(&result(own(2), &asks));
    assert_eq!(one(&mut rig)["method"], "sampling/createMessage");
    rig.pass(Duration::from_millis(500));
    assert_eq!(got(&mut rig)["id"], own(4));
    rig.from_client(&error(own(3), r#"{"code":-1,"message":"no"}"#));
    assert_eq!(code(&one(&mut rig)), -32603);
    rig.from_client(&plain(2, "tasks/get", r#""taskId":"t""#));
    assert_eq!(got(&mut rig)["id"], own(5));
    rig.from_server(&result(own(4), &new("complete", "working")));
    assert!(rig.at_client().is_empty());
    rig.from_server(&result(own(5), &new("complete", "working")));
    assert_eq!(rig.at_client(), [result(2, &old("working"))]);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_question_that_a_task_asks_no_more_is_taken_back() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    let asks = |key: &str| {
        let wanted = format!(
            r#""inputRequests":{{"{key}":{{"method":"elicitation/create","params":{{"message":"?"}}}}}},"status""#
        );
        new("complete", "input_required").replace(r#""status""#, &wanted)
    };
    rig.from_server(&result(own(2), &asks("a")));
    assert_eq!(one(&mut rig)["id"], own(3));
    rig.pass(Duration::from_millis(500));
    rig.at_server();
    rig.from_server(&result(own(4), &asks("b")));
    let said = rig.at_client();
    assert_eq!((said.len(), &said[0]), (2, &cancel(own(3))), "{said:?}");
    assert!(said[1].contains("elicitation/create"), "{said:?}");
    rig.from_client(&cancel(2));
    assert!(is_nothing_left(&mut rig));
}

// Invariant 8.
#[test]
fn what_is_seen_of_tasks_is_kept_only_as_long_as_it_is_waited_for_and_fits() {
    let mut rig = made();
    let long =
        old("completed").replace(r#""status""#, &format!(r#""statusMessage":"{}","status""#, "a".repeat(100_000)));
    for look in 0..40 {
        rig.from_client(&about(10 + look, "tasks/get"));
        rig.at_server();
        rig.from_server(&result(own(4 + 2 * i64::from(look)), &long));
        assert_eq!(rig.at_server().len(), 1);
        rig.from_client(&cancel(10 + look));
        assert_eq!(rig.at_server(), [cancel(own(5 + 2 * i64::from(look)))]);
    }
    assert!(rig.relay.held() < 1_000_000, "{} bytes", rig.relay.held());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_is_seen_of_a_task_and_does_not_fit_is_refused() {
    let mut rig = listed_with(BridgeConfig { max_held: 10_000, ..config() });
    let long =
        old("completed").replace(r#""status""#, &format!(r#""statusMessage":"{}","status""#, "a".repeat(10_000)));
    rig.from_client(&about(1, "tasks/get"));
    rig.at_server();
    rig.from_server(&result(own(3), &long));
    assert!(code(&one(&mut rig)) < 0);
    rig.from_client(&about(2, "tasks/cancel"));
    rig.at_server();
    let refusal = format!(r#"{{"code":-32602,"message":"{}"}}"#, "a".repeat(10_000));
    rig.from_server(&error(own(4), &refusal));
    assert_eq!(rig.at_client(), [error(2, &refusal)]);
    assert!(rig.at_server().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_task_that_asks_what_nobody_can_be_asked_seems_to_work() {
    let mut rig = listed_with(BridgeConfig { may_ask: false, ..config() });
    rig.from_client(&about(1, "tasks/get"));
    rig.at_server();
    rig.from_server(&result(own(3), &old("input_required")));
    assert_eq!(rig.at_client(), [result(1, &new("complete", "working"))]);
}

// The extension reports on tasks to those that subscribe to it.
#[test]
fn what_a_server_with_sessions_reports_on_its_tasks_is_of_its_own_era() {
    let mut rig = made();
    rig.from_server(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{}}}"#,
        old("working")
    ));
    assert!(rig.at_client().is_empty());
}

#[test]
fn a_call_that_was_cancelled_long_ago_without_a_word_keeps_no_other_from_asking() {
    let mut rig = listed();
    rig.from_client(&request(1, "tools/call", r#""name":"slow""#));
    rig.at_server();
    rig.from_client(&cancel(1));
    rig.from_server(&result(own(3), "{}"));
    rig.pass(Duration::from_secs(61));
    rig.from_client(&request(2, "tools/call", r#""name":"plain""#));
    rig.at_server();
    rig.from_server(&plain(70, "elicitation/create", r#""message":"Sure?""#));
    assert_eq!(one(&mut rig)["result"]["resultType"], "input_required");
}

#[test]
fn a_question_of_a_call_whose_cancel_the_server_has_not_heard_is_put_to_no_other() {
    let mut rig = listed();
    for id in [1, 2] {
        rig.from_client(&request(id, "tools/call", r#""name":"slow""#));
    }
    rig.at_server();
    rig.from_client(&cancel(1));
    rig.pass(Duration::from_secs(61));
    rig.from_server(&plain(70, "elicitation/create", r#""message":"Sure?""#));
    assert!(rig.at_client().is_empty());
    assert!(rig.at_server()[0].contains(r#""id":70,"error""#));
    rig.from_server(&result(own(3), "{}"));
    rig.from_server(&result(own(4), "{}"));
    assert_eq!(rig.at_client().len(), 1);
    assert!(is_nothing_left(&mut rig));
}

/// The task that is in view.
fn at_work(rig: &RelayRig) -> RequestKey {
    let mut all = rig.relay.requests(Side::Client);
    all.find(|view| view.at_work.is_some()).map(|view| view.key).expect("it is at work")
}

/// The relay's own cancel of task `t`: what the server is asked, and answers, until it says this of the task.
fn stop_task(rig: &mut RelayRig, from: i64, status: &str) {
    let task = at_work(rig);
    assert!(rig.relay.stop(rig.now, task, None));
    assert_eq!(got(rig)["method"], "tasks/cancel");
    rig.from_server(&result(own(from), r#"{"resultType":"complete"}"#));
    assert_eq!(got(rig)["method"], "tasks/get");
    rig.from_server(&result(own(from + 1), &new("complete", status)));
    assert!(rig.at_client().is_empty(), "{status}");
}

/// The outcome of the cancel of the task, and whether it is still at work.
fn task_outcome(rig: &RelayRig) -> (Outcome, bool) {
    let mut views = rig.relay.summaries(Side::Client).filter_map(|summary| rig.relay.view(summary.key));
    let task = views.find(|view| view.at_work.is_some()).expect("it is remembered");
    (task.cancel.expect("it was cancelled").outcome, task.ended.is_none())
}

// TASK-21: the client's era wants to be told that the task is cancelled, and an operator what its server has said.
#[test]
fn a_task_whose_server_has_promised_to_cancel_it_is_confirmed_once_that_says_so() {
    let mut rig = made_by_modern();
    stop_task(&mut rig, 2, "working");
    assert_eq!(task_outcome(&rig), (Outcome::Sent, true));
    rig.pass(Duration::from_millis(500));
    assert_eq!(got(&mut rig)["method"], "tasks/get");
    rig.from_server(&result(own(4), &new("complete", "cancelled")));
    assert_eq!(task_outcome(&rig), (Outcome::Confirmed { after: Duration::from_millis(500) }, false));
    assert!(rig.at_client().is_empty() && is_nothing_left(&mut rig));
}

#[test]
fn a_task_that_its_server_has_cancelled_is_confirmed_at_once() {
    let mut rig = made_by_modern();
    stop_task(&mut rig, 2, "cancelled");
    assert_eq!(task_outcome(&rig), (Outcome::Confirmed { after: Duration::ZERO }, false));
    assert!(is_nothing_left(&mut rig));
}

// TASK-03, TASK-04 for its client; and what goes on stays in view.
#[test]
fn a_task_that_its_client_was_told_is_cancelled_is_in_view_while_its_server_works() {
    let mut rig = made_by_modern();
    rig.from_client(&plain(2, "tasks/cancel", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(2), r#"{"resultType":"complete"}"#));
    rig.at_server();
    rig.from_server(&result(own(3), &new("complete", "working")));
    assert_eq!(rig.at_client(), [result(2, &old("cancelled"))]);
    assert_eq!(task_outcome(&rig), (Outcome::Sent, true));
    rig.from_client(&plain(3, "tasks/result", r#""taskId":"t""#));
    rig.at_server();
    rig.from_server(&result(own(4), &new("complete", "working")));
    assert_eq!(code(&one(&mut rig)), -32800);
    assert_eq!(task_outcome(&rig), (Outcome::Sent, true));
    // It works on past its grace, and an operator's cancel reaches its server.
    for look in 5..8 {
        rig.pass(Duration::from_millis(500));
        got(&mut rig);
        rig.from_server(&result(own(look), &new("complete", "working")));
    }
    rig.pass(Duration::from_millis(3500));
    got(&mut rig);
    rig.from_server(&result(own(8), &new("complete", "working")));
    stop_task(&mut rig, 9, "working");
    assert_eq!(task_outcome(&rig), (Outcome::Sent, true));
    rig.pass(Duration::from_millis(500));
    got(&mut rig);
    rig.from_server(&result(own(11), &new("complete", "cancelled")));
    assert!(matches!(task_outcome(&rig), (Outcome::Confirmed { .. }, false)));
    assert!(rig.at_client().is_empty() && is_nothing_left(&mut rig));
}

#[test]
fn a_task_of_a_server_with_sessions_is_cancelled_by_an_operator_in_its_dialect() {
    for status in ["cancelled", "working"] {
        let mut rig = made();
        let task = at_work(&rig);
        assert!(rig.relay.stop(rig.now, task, None));
        assert_eq!(rig.at_server(), [plain(own(4), "tasks/cancel", r#""taskId":"t""#)]);
        rig.from_server(&result(own(4), &old(status)));
        assert_eq!(rig.at_server(), [plain(own(5), "tasks/get", r#""taskId":"t""#)]);
        rig.from_server(&result(own(5), &old(status)));
        let is_over = status == "cancelled";
        let outcome = if is_over { Outcome::Confirmed { after: Duration::ZERO } } else { Outcome::Sent };
        assert_eq!(task_outcome(&rig), (outcome, !is_over));
        assert!(rig.at_client().is_empty());
    }
}
