//! Requests that become tasks, on their way through a relay (D38).

use core::time::Duration;

use rescind_proto::{
    dialect::mcp,
    id::RequestId,
    link::{Clock, RequestKey, Verdict},
    receipt::Outcome,
    relay::{ClockRule, RelayConfig, RelayEvent, TaskNews},
    rule::Rule,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const AUGMENTED: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{"ttl":60000}}}"#;
const CREATED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t-1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":60000}}}"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
const HANDLE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t-1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttlMs":null}}"#;
const CANCEL_1: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
const OURS: &str = r#"{"jsonrpc":"2.0","id":2147483647,"method":"tasks/cancel","params":{"taskId":"t-1"}}"#;
const OURS_MODERN: &str = r#"{"jsonrpc":"2.0","id":2147483647,"method":"tasks/cancel","params":{"taskId":"t-1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","id":2147483647,"result":{"taskId":"t-1","status":"cancelled","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:01Z","ttl":60000}}"#;
const ACKNOWLEDGED: &str = r#"{"jsonrpc":"2.0","id":2147483647,"result":{"resultType":"complete"}}"#;
const ALL: &str = r#"{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}"#;

/// After a handshake of 2025-11-25 in which the server declared these capabilities of tasks.
fn november(config: RelayConfig, tasks: &str) -> RelayRig {
    let mut rig = RelayRig::new(config);
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}}}}}}}"#,
    );
    rig.at_server();
    rig.from_server(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tasks":{tasks}}}}}}}"#
    ));
    rig.at_client();
    rig
}

fn modern() -> RelayRig {
    let dialects = Sides { client: Some(&mcp::REVISION_2026_07_28), server: Some(&mcp::REVISION_2026_07_28) };
    RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
}

/// The request is at the server.
fn asked(mut rig: RelayRig, request: &str) -> RelayRig {
    rig.from_client(request);
    assert_eq!(rig.at_server(), [request]);
    rig
}

/// What was told of tasks.
fn news(rig: &RelayRig) -> Vec<TaskNews> {
    let told = |event: &RelayEvent| match event {
        RelayEvent::Task { request: RequestKey { from: Side::Client, .. }, task, id, news } => {
            assert_eq!((&**task, id), ("t-1", &RequestId::integer(1)));
            Some(*news)
        }
        RelayEvent::Task { .. }
        | RelayEvent::Opened { .. }
        | RelayEvent::PartOf { .. }
        | RelayEvent::Settled { .. }
        | RelayEvent::Cancel(_)
        | RelayEvent::Receipt { .. }
        | RelayEvent::Silenced { .. }
        | RelayEvent::TimedOut { .. }
        | RelayEvent::Stuck { .. }
        | RelayEvent::Late { .. }
        | RelayEvent::Rejected { .. }
        | RelayEvent::Violation { .. }
        | RelayEvent::GivenUp { .. }
        | RelayEvent::Frame { .. } => None,
    };
    rig.events.iter().filter_map(told).collect()
}

fn is_nothing_left(rig: &mut RelayRig) -> bool {
    rig.pass(Duration::from_secs(3600));
    rig.relay.residue() == 0
}

/// TASK-10.
#[test]
fn what_belongs_to_a_task_passes_byte_for_byte() {
    let mut rig = asked(november(RelayConfig::default(), ALL), AUGMENTED);
    rig.from_server(CREATED);
    assert_eq!(rig.at_client(), [CREATED]);
    let related = r#""_meta" : {"io.modelcontextprotocol/related-task":{"taskId" :"t-1"}}"#;
    let from_client = [
        r#"{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{ "taskId":"t-1"}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{{"taskId":"t-1",{related}}}}}"#),
        r#"{"jsonrpc":"2.0","id":4,"method":"tasks/cancel","params":{"taskId":"t-1" }}"#.to_owned(),
    ];
    for body in &from_client {
        rig.from_client(body);
    }
    assert_eq!(rig.at_server(), from_client);
    let from_server = [
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{"taskId":"t-1",{related}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{{"message":"?",{related}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[],{related}}}}}"#),
    ];
    for body in &from_server {
        rig.from_server(body);
    }
    assert_eq!(rig.at_client(), from_server);
    assert_eq!(news(&rig), [TaskNews::Made]);
}

/// Case 56. MCP-C13.
#[test]
fn a_cancelled_notification_for_a_task_is_a_violation_and_goes_nowhere() {
    let mut rig = asked(november(RelayConfig::default(), ALL), AUGMENTED);
    assert!(rig.relay.requests(Side::Client).all(|request| request.is_task), "it is shown as what it is");
    rig.from_client(CANCEL_1);
    rig.from_server(CREATED);
    assert_eq!(rig.at_client(), [CREATED], "the request was not cancelled");
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpC13); 2]);
    assert_eq!(rig.violations(), [(Side::Client, Rule::McpC13); 2]);
}

/// Case 56. MCP-C13: with the extension only the answer tells that a request is a task.
#[test]
fn a_cancelled_notification_after_the_handle_of_the_extension_is_a_violation() {
    let mut rig = asked(modern(), MODERN);
    assert!(!rig.relay.requests(Side::Client).any(|request| request.is_task));
    rig.from_server(HANDLE);
    assert_eq!(rig.at_client(), [HANDLE]);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpC13)]);
    assert_eq!(rig.violations(), [(Side::Client, Rule::McpC13)]);
    assert_eq!(news(&rig), [TaskNews::Made]);
}

/// MCP-P01, and MCP-H04 where nobody wants it any more.
#[test]
fn progress_of_a_task_passes_beyond_its_handle_until_it_is_given_up() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let asks = AUGMENTED.replace(r#""task""#, r#""_meta":{"progressToken":"p"},"task""#);
    for is_stopped in [false, true] {
        let mut rig = asked(november(RelayConfig::default(), ALL), &asks);
        if is_stopped {
            let key = rig.key(Side::Client, "1").unwrap();
            assert!(rig.relay.stop(rig.now, key, None));
        }
        rig.from_server(CREATED);
        rig.at_client();
        rig.from_server(progress);
        assert_eq!(rig.at_client().len(), usize::from(!is_stopped));
    }
}

/// TASK-11: without the capability it is no task, whatever its params say.
#[test]
fn a_request_that_the_server_does_not_take_as_a_task_is_cancelled_as_any_other() {
    let mut rig = asked(november(RelayConfig::default(), r#"{"cancel":{}}"#), AUGMENTED);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1]);
    rig.from_server(CREATED);
    assert_eq!(rig.at_server(), [""; 0], "an answer that looks like a handle is none");
    assert_eq!(rig.violations(), []);
}

/// Case 59. D38.
#[test]
fn a_handle_that_comes_after_an_operator_stopped_the_request_is_cancelled_once() {
    let mut rig = asked(november(RelayConfig::default(), ALL), AUGMENTED);
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.at_client().len(), 1, "the requester is told at once");
    assert_eq!(rig.at_server(), [""; 0], "a task is never cancelled by notification (MCP-C13)");
    rig.from_server(CREATED);
    assert_eq!(rig.at_server(), [OURS]);
    rig.from_server(CREATED);
    rig.pass(Duration::from_secs(1));
    rig.from_server(CANCELLED);
    rig.from_server(CANCELLED);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.at_client(), [""; 0], "neither the handle nor the answer to our own request is the client's");
    let after = Duration::from_secs(1);
    let orphaned = TaskNews::Orphaned;
    assert_eq!(
        news(&rig),
        [TaskNews::Made, orphaned(Outcome::Asked), orphaned(Outcome::Confirmed { after })],
        "what was observed, and no more"
    );
    assert!(is_nothing_left(&mut rig));
}

/// Case 59. D16, D38.
#[test]
fn a_handle_that_comes_after_a_clock_ran_out_is_cancelled() {
    let limit = Duration::from_secs(5);
    let rule = ClockRule { clock: Clock::Response, method: None, name: None, limit };
    let mut rig = asked(november(RelayConfig { clocks: vec![rule], ..RelayConfig::default() }, ALL), AUGMENTED);
    rig.pass(limit);
    assert_eq!(rig.at_client().len(), 1);
    rig.from_server(CREATED);
    assert_eq!(rig.at_server(), [OURS]);
    // It had ended by itself (TASK-02).
    rig.from_server(r#"{"jsonrpc":"2.0","id":2147483647,"error":{"code":-32602,"message":"terminal"}}"#);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(news(&rig).last(), Some(&TaskNews::Orphaned(Outcome::CompletedFirst)));
    assert!(is_nothing_left(&mut rig));
}

/// Case 59. D38: the extension's client sends what its transport demands; the handle may cross it.
#[test]
fn a_handle_that_crosses_the_cancel_of_its_request_is_cancelled() {
    let mut rig = asked(modern(), MODERN);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1]);
    rig.from_server(HANDLE);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.at_server(), [OURS_MODERN], "with the `_meta` without which it is refused (TASK-24)");
    rig.from_server(ACKNOWLEDGED);
    assert_eq!(rig.at_client(), [""; 0]);
    let asked = OURS_MODERN.replace("2147483647", "2147483646").replace("tasks/cancel", "tasks/get");
    assert_eq!(rig.at_server(), [asked], "whether it has ended its status tells");
    rig.from_server(
        r#"{"jsonrpc":"2.0","id":2147483646,"result":{"resultType":"complete","taskId":"t-1","status":"cancelled"}}"#,
    );
    assert_eq!(rig.at_client(), [""; 0]);
    let told = [TaskNews::Made, TaskNews::Orphaned(Outcome::Asked), TaskNews::Orphaned(Outcome::Sent)];
    assert_eq!(news(&rig), told, "an acknowledgement is the receipt of a wish (TASK-21)");
    assert!(is_nothing_left(&mut rig));
}

/// Case 59: the handle is in the relay when the cancel comes.
#[test]
fn a_handle_that_is_taken_back_from_the_client_is_cancelled() {
    let mut rig = asked(modern(), MODERN);
    rig.from_server(HANDLE);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_client(), [""; 0]);
    let at_server = rig.at_server();
    assert_eq!(at_server, [OURS_MODERN], "the request has its answer, only the task can be cancelled");
}

/// Case 59: whatever is taken back afterwards.
#[test]
fn an_orphan_is_cancelled_once_though_the_answer_of_ours_is_taken_back_too() {
    let mut rig = asked(modern(), MODERN);
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    rig.from_server(HANDLE);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_client(), [""; 0]);
    let ours = rig.at_server().into_iter().filter(|message| message.contains("tasks/cancel"));
    assert_eq!(ours.collect::<Vec<_>>(), [OURS_MODERN]);
}

/// Whose answer is no handle has left no task behind.
#[test]
fn an_ordinary_answer_that_comes_late_cancels_nothing() {
    for late in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"taskId":"t-1"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":5}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
    ] {
        let mut rig = asked(modern(), MODERN);
        rig.from_client(CANCEL_1);
        rig.at_server();
        rig.from_server(late);
        assert_eq!(rig.at_server(), [""; 0], "{late}");
    }
}

/// D38: who lets no task be cancelled cannot be asked.
#[test]
fn an_orphan_of_a_server_without_the_cancel_capability_is_told_of() {
    let mut rig = asked(november(RelayConfig::default(), r#"{"requests":{"tools":{"call":{}}}}"#), AUGMENTED);
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    rig.from_server(CREATED);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(news(&rig).last(), Some(&TaskNews::Orphaned(Outcome::NotSendable)));
}

/// D32: the id of our own request is nobody else's.
#[test]
fn a_client_that_takes_the_id_of_our_own_request_gets_another_upstream() {
    let mut rig = asked(modern(), MODERN);
    rig.from_client(CANCEL_1);
    rig.from_server(HANDLE);
    rig.at_server();
    rig.from_client(&MODERN.replace(r#""id":1"#, r#""id":2147483647"#));
    assert_eq!(rig.at_server(), [MODERN.replace(r#""id":1"#, r#""id":2147483646"#)]);
    // A cancel by that id means the client's request, never ours.
    rig.from_client(&CANCEL_1.replace(":1}", ":2147483647}"));
    assert_eq!(rig.at_server(), [CANCEL_1.replace(":1}", ":2147483646}")]);
    rig.from_server(ACKNOWLEDGED);
    assert_eq!(rig.at_client(), [""; 0]);
}

/// Tasks go both ways: a client may run what its server asks.
#[test]
fn an_orphan_at_the_client_is_cancelled_there() {
    let mut rig = november(RelayConfig::default(), ALL);
    rig.from_server(r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","task":{}}}"#);
    assert_eq!(rig.at_client().len(), 1);
    let key = rig.key(Side::Server, r#""e""#).unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    rig.at_server();
    rig.from_client(&CREATED.replace(r#""id":1"#, r#""id":"e""#));
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.at_client(), [OURS.replace("2147483647", r#""rescind-2147483647""#)]);
}

/// The server's end leaves nothing to be asked, and nothing to remember.
#[test]
fn a_server_that_ends_while_our_own_request_is_open_leaves_nothing() {
    let mut rig = asked(modern(), MODERN);
    rig.from_client(CANCEL_1);
    rig.from_server(HANDLE);
    rig.at_server();
    rig.end(Side::Server, &rescind_proto::relay::End::Closed);
    assert_eq!(rig.at_client(), [""; 0]);
    assert!(is_nothing_left(&mut rig));
}
