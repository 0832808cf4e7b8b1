//! Codex app-server, as a relay passes and follows it (D58, CDX-01 to CDX-18). The server here is the test: bytes in, bytes
//! out.

use core::time::Duration;
use std::collections::BTreeSet;

use rescind_proto::{
    bridge::BridgeConfig,
    cause::CauseCode,
    dialect::{Dialect, UNKNOWN, codex},
    link::RequestKey,
    receipt::{Answer, Outcome},
    relay::{End, RelayConfig, RelayEvent, RequestState, RequestView},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use crate::both_ends::{answer_own, client, own_request, passes, server};

const ANSWER: &str = r#"{"id":0,"result":{"userAgent":"codex_vscode/0.171.0 (Linux)","codexHome":"/h","platformFamily":"unix","platformOs":"linux"}}"#;

/// A link that has greeted: `capabilities` is JSON.
fn greeted(capabilities: &str) -> RelayRig {
    // As `rescind run` begins: it could still be a server of another era, and then what is written would leave later.
    let config = RelayConfig { bridge: Some(BridgeConfig::default()), ..RelayConfig::default() };
    greeted_by(config, capabilities)
}

fn greeted_by(config: RelayConfig, capabilities: &str) -> RelayRig {
    let mut rig = RelayRig::new(config);
    let info = r#"{"name":"codex_vscode","title":"Codex","version":"1"}"#;
    let hello =
        format!(r#"{{"id":0,"method":"initialize","params":{{"clientInfo":{info},"capabilities":{capabilities}}}}}"#);
    passes(&mut rig, Side::Client, &hello);
    assert_eq!(rig.relay.dialect(Side::Client), &UNKNOWN, "a request alone shows nothing");
    passes(&mut rig, Side::Server, ANSWER);
    passes(&mut rig, Side::Client, r#"{"method":"initialized"}"#);
    rig
}

fn codex() -> RelayRig {
    let rig = greeted(r#"{"experimentalApi":true}"#);
    assert_eq!(rig.relay.dialect(Side::Server), &codex::APP_SERVER);
    rig
}

/// The client starts a turn `turn` of `thread`, which the server answers at once.
fn begin(rig: &mut RelayRig, id: i64, thread: &str, turn: &str) -> RequestKey {
    client(rig, &json!({"id": id, "method": "turn/start", "params": {"threadId": thread, "input": []}}));
    server(rig, &json!({"id": id, "result": {"turn": {"id": turn, "status": "inProgress", "items": []}}}));
    started(rig, thread, turn);
    turn_at_work(rig, &id.to_string()).key
}

fn started(rig: &mut RelayRig, thread: &str, turn: &str) {
    server(
        rig,
        &json!({"method": "turn/started", "params": {"threadId": thread, "turn": {"id": turn, "status": "inProgress"}}}),
    );
}

fn completed(rig: &mut RelayRig, thread: &str, turn: &str, status: &str) {
    let turn = json!({"id": turn, "status": status, "error": null});
    server(rig, &json!({"method": "turn/completed", "params": {"threadId": thread, "turn": turn}, "emittedAtMs": 7}));
}

fn item(rig: &mut RelayRig, which: &str, thread: &str, turn: &str, item: &Value) {
    server(
        rig,
        &json!({"method": format!("item/{which}"), "params": {"threadId": thread, "turnId": turn, "item": item}}),
    );
}

fn at_work(rig: &RelayRig) -> Vec<String> {
    let mut found: Vec<_> =
        rig.relay.requests(Side::Client).map(|view| format!("{} {:?}", view.method, view.id)).collect();
    found.sort();
    found
}

#[track_caller]
fn turn_at_work<'a>(rig: &'a RelayRig, id: &str) -> RequestView<'a> {
    let key = rig.key(Side::Client, id);
    let views: Vec<_> = rig.relay.requests(Side::Client).filter(|view| Some(view.key) == key).collect();
    views.into_iter().next().unwrap_or_else(|| panic!("{id} is not at work"))
}

fn outcome(rig: &RelayRig, key: RequestKey) -> Outcome {
    rig.relay.view(key).and_then(|view| view.cancel.cloned()).expect("it was cancelled").outcome
}

/// CDX-01, CDX-02, CDX-03, CDX-04, CDX-15: nothing is refused, renamed or added.
#[test]
fn every_message_of_codex_passes_as_it_is() {
    let mut rig = codex();
    let all = [
        (Side::Client, r#"{"id":1,"method":"initialize","params":{"clientInfo":{}}}"#),
        (Side::Server, r#"{"id":1,"error":{"code":-32600,"message":"Already initialized"}}"#),
        (Side::Client, r#"{"id":"a","method":"model/list","params":{},"trace":{"traceparent":"x"}}"#),
        (Side::Client, r#"{"id":9223372036854775807,"method":"model/list","params":{}}"#),
        (Side::Client, r#"{"id":9223372036854775807,"method":"model/list","params":{}}"#),
        (Side::Server, r#"{"id":9223372036854775807,"result":{}}"#),
        (
            Side::Server,
            r#"{"id":9223372036854775807,"error":{"code":-32001,"message":"Server overloaded; retry later."}}"#,
        ),
        (Side::Server, r#"{"id":"a","error":{"code":-32603,"message":"x"}}"#),
        (Side::Client, r#"{"id":null,"method":"model/list"}"#),
        (Side::Client, r#"[{"id":3,"method":"model/list"}]"#),
        (Side::Client, "not JSON"),
        (Side::Client, r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#),
        (Side::Client, r#"{"method":"$/cancelRequest","params":{"id":1}}"#),
        (Side::Client, r#"{"method":"$/cancel_request","params":{"requestId":1}}"#),
        (
            Side::Server,
            r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","turnId":"u"}}"#,
        ),
        (Side::Client, r#"{"id":0,"result":{"decision":"accept"}}"#),
        (Side::Server, r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#),
        (Side::Client, r#"{"id":4,"method":"thread/search/cancel","params":{"requestId":"a"}}"#),
        (Side::Client, r#"{"jsonrpc":"2.0","id":5,"method":"model/list"}"#),
        (Side::Server, r#"{"method":"error","params":{"threadId":"t","turnId":"u","willRetry":true}}"#),
    ];
    for (from, message) in all {
        passes(&mut rig, from, message);
    }
    assert_eq!(rig.violations(), []);
    rig.relay.check_invariants();
}

/// By its answer, and by its name; what is not sure stays unknown.
#[test]
fn codex_is_recognised_by_the_answer_to_its_handshake_and_by_its_name() {
    for other in [r#"{"userAgent":"x"}"#, r#"{"codexHome":"/h"}"#, r#"{"userAgent":"x","codexHome":null}"#, "{}"] {
        let mut rig = RelayRig::new(RelayConfig::default());
        passes(&mut rig, Side::Client, r#"{"id":0,"method":"initialize","params":{"clientInfo":{}}}"#);
        passes(&mut rig, Side::Server, &format!(r#"{{"id":0,"result":{other}}}"#));
        assert_eq!(rig.relay.dialect(Side::Client), &UNKNOWN, "{other}");
    }
    let mut rig = RelayRig::new(RelayConfig::default());
    passes(&mut rig, Side::Client, r#"{"id":0,"method":"initialize","params":{"clientInfo":{}}}"#);
    passes(&mut rig, Side::Server, r#"{"id":0,"error":{"code":-32600,"message":"no"}}"#);
    assert_eq!(rig.relay.dialect(Side::Client), &UNKNOWN);

    let named = Dialect::by_name("codex").expect("it has a name");
    let dialects = Sides { client: Some(named), server: None };
    let mut rig = RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() });
    // CDX-01: it is the server that refuses.
    passes(&mut rig, Side::Client, r#"{"id":1,"method":"thread/start","params":{}}"#);
    passes(&mut rig, Side::Server, r#"{"id":1,"error":{"code":-32600,"message":"Not initialized"}}"#);
    begin(&mut rig, 2, "t", "u");
}

/// CDX-05, CDX-06.
#[test]
fn a_turn_is_in_flight_from_the_answer_to_its_start_until_it_is_completed() {
    let mut rig = codex();
    client(&mut rig, &json!({"id": 3, "method": "turn/start", "params": {"threadId": "t", "input": []}}));
    let request = rig.key(Side::Client, "3").unwrap();
    server(&mut rig, &json!({"id": 3, "result": {"turn": {"id": "u", "status": "inProgress"}}}));
    let turn = turn_at_work(&rig, "3");
    assert_ne!(turn.key, request, "the request is over, and its turn is not");
    assert_eq!((turn.method, turn.state, turn.upstream == turn.id), ("turn/start", RequestState::Sent, true));
    let turn = turn.key;
    started(&mut rig, "t", "u");
    // Another start during the turn joins it.
    client(&mut rig, &json!({"id": 4, "method": "turn/start", "params": {"threadId": "t", "input": []}}));
    server(&mut rig, &json!({"id": 4, "result": {"turn": {"id": "u", "status": "inProgress"}}}));
    // An id may be used again meanwhile.
    client(&mut rig, &json!({"id": 3, "method": "model/list", "params": {}}));
    server(&mut rig, &json!({"id": 3, "result": {"data": []}}));
    // Neither an error that is retried nor the end of another turn is its end.
    server(&mut rig, &json!({"method": "error", "params": {"threadId": "t", "turnId": "u", "willRetry": true}}));
    completed(&mut rig, "t", "other", "completed");
    completed(&mut rig, "another", "u", "completed");
    server(
        &mut rig,
        &json!({"method": "thread/status/changed", "params": {"threadId": "t", "status": {"type": "idle"}}}),
    );
    assert_eq!(at_work(&rig).len(), 1, "{:?}", at_work(&rig));
    completed(&mut rig, "t", "u", "completed");
    assert_eq!(at_work(&rig), [""; 0]);
    let ended = rig.relay.view(turn).unwrap().ended.unwrap();
    assert_eq!(ended.answer, Some(Answer::Result));
    // Late words about its beginning begin nothing.
    started(&mut rig, "t", "u");
    assert_eq!(at_work(&rig), [""; 0]);
    rig.relay.check_invariants();
}

/// CDX-14.
#[test]
fn a_turn_whose_id_comes_later_is_in_flight_from_then_on() {
    let mut rig = codex();
    client(&mut rig, &json!({"id": 1, "method": "thread/compact/start", "params": {"threadId": "t"}}));
    server(&mut rig, &json!({"id": 1, "result": {}}));
    assert_eq!(at_work(&rig), [""; 0]);
    started(&mut rig, "t", "u");
    assert_eq!(at_work(&rig), ["thread/compact/start 1"]);
    // A shell command is a part of the turn at work.
    client(&mut rig, &json!({"id": 2, "method": "thread/shellCommand", "params": {"threadId": "t", "command": "x"}}));
    server(&mut rig, &json!({"id": 2, "result": {}}));
    completed(&mut rig, "t", "u", "failed");
    // A review may run in a thread of its own.
    client(&mut rig, &json!({"id": 3, "method": "review/start", "params": {"threadId": "t", "delivery": "detached"}}));
    server(&mut rig, &json!({"id": 3, "result": {"turn": {"id": "v", "status": "inProgress"}, "reviewThreadId": "r"}}));
    started(&mut rig, "r", "v");
    assert_eq!(at_work(&rig), ["review/start 3"]);
    completed(&mut rig, "r", "v", "completed");
    // The word that it has begun may come before the answer, and where no start was seen it is called a turn.
    client(&mut rig, &json!({"id": 4, "method": "turn/start", "params": {"threadId": "t"}}));
    started(&mut rig, "t", "w");
    started(&mut rig, "q", "x");
    server(&mut rig, &json!({"id": 4, "result": {"turn": {"id": "w", "status": "inProgress"}}}));
    assert_eq!(at_work(&rig), ["turn \"x\"", "turn/start 4"]);
    completed(&mut rig, "t", "w", "completed");
    completed(&mut rig, "q", "x", "completed");
    assert_eq!(at_work(&rig), [""; 0]);
}

/// CDX-07.
#[test]
fn a_clients_own_interrupt_passes_and_counts_as_a_cancel_of_the_turn() {
    for (name, answered_first) in [("u", true), ("", false)] {
        let mut rig = codex();
        let turn = begin(&mut rig, 3, "t", "u");
        let params = json!({"threadId": "t", "turnId": name});
        rig.from_client(&json!({"id": 5, "method": "turn/interrupt", "params": params}).to_string());
        assert_eq!(outcome(&rig, turn), Outcome::Asked);
        rig.at_server();
        assert_eq!(outcome(&rig, turn), Outcome::Sent);
        assert_eq!(rig.relay.view(turn).unwrap().state, RequestState::Cancelling);
        client(&mut rig, &json!({"id": 6, "method": "turn/interrupt", "params": params}));
        rig.pass(Duration::from_millis(3));
        if answered_first {
            server(&mut rig, &json!({"id": 5, "result": {}}));
        }
        completed(&mut rig, "t", "u", "interrupted");
        if !answered_first {
            server(&mut rig, &json!({"id": 5, "result": {}}));
        }
        server(&mut rig, &json!({"id": 6, "result": {}}));
        let receipt = rig.relay.view(turn).unwrap().cancel.unwrap().clone();
        assert_eq!(receipt.outcome, Outcome::Confirmed { after: Duration::from_millis(3) });
        assert_eq!(receipt.cause.code, CauseCode::Caller);
        assert_eq!(at_work(&rig), [""; 0]);
    }
}

/// CDX-07: in one write with the start of its turn.
#[test]
fn an_interrupt_before_the_turn_has_a_name_counts_for_it() {
    let mut rig = codex();
    client(&mut rig, &json!({"id": 3, "method": "turn/start", "params": {"threadId": "t"}}));
    client(&mut rig, &json!({"id": 4, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": ""}}));
    client(&mut rig, &json!({"id": 5, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": "wrong"}}));
    server(&mut rig, &json!({"id": 3, "result": {"turn": {"id": "u", "status": "inProgress"}}}));
    let turn = turn_at_work(&rig, "3").key;
    assert_eq!(outcome(&rig, turn), Outcome::Sent);
    server(
        &mut rig,
        &json!({"id": 5, "error": {"code": -32600, "message": "expected active turn id wrong but found u"}}),
    );
    assert_eq!(outcome(&rig, turn), Outcome::Sent, "the other named no turn");
    server(&mut rig, &json!({"id": 4, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    assert!(matches!(outcome(&rig, turn), Outcome::Confirmed { .. }));
}

/// CDX-07.
#[test]
fn an_operators_cancel_interrupts_the_turn_with_an_id_of_the_relays_own() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    assert!(rig.relay.stop(rig.now, turn, Some("enough")));
    assert_eq!(outcome(&rig, turn), Outcome::Asked);
    let (method, id, params) = own_request(&mut rig);
    assert_eq!((&*method, params), ("turn/interrupt", json!({"threadId": "t", "turnId": "u"})));
    assert_eq!(outcome(&rig, turn), Outcome::Sent);
    assert!(!rig.relay.stop(rig.now, turn, None), "it is being cancelled");
    // A client that happens to use the same id is told apart.
    rig.from_client(&json!({"id": id, "method": "model/list", "params": {}}).to_string());
    let (_, other, _) = own_request(&mut rig);
    assert_ne!(other, id);
    rig.pass(Duration::from_millis(2));
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    assert_eq!(outcome(&rig, turn), Outcome::Confirmed { after: Duration::from_millis(2) });
    rig.from_server(&json!({"id": other, "result": {"data": []}}).to_string());
    assert_eq!(rig.at_client(), [json!({"id": id, "result": {"data": []}}).to_string()]);
    assert_eq!(at_work(&rig), [""; 0]);
    assert!(!rig.relay.stop(rig.now, turn, None), "it is over");
    rig.relay.check_invariants();
}

/// CDX-07: what the answer to an interrupt says.
#[test]
fn an_interrupt_that_is_refused_says_whether_the_turn_was_over() {
    for words in ["no active turn to interrupt", "expected active turn id u but found v"] {
        let mut rig = codex();
        let turn = begin(&mut rig, 3, "t", "u");
        rig.relay.stop(rig.now, turn, None);
        let (_, id, _) = own_request(&mut rig);
        answer_own(&mut rig, &json!({"id": id, "error": {"code": -32600, "message": words}}));
        assert_eq!(outcome(&rig, turn), Outcome::CompletedFirst, "{words}");
        assert_eq!(at_work(&rig), [""; 0], "{words}");
    }
    // CDX-03: it goes on, and can be cancelled again.
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "error": {"code": -32001, "message": "Server overloaded; retry later."}}));
    let view = rig.relay.view(turn).unwrap();
    assert!(view.is_stuck && view.ended.is_none(), "{view:?}");
    assert!(rig.relay.stop(rig.now, turn, None));
    let (method, again, _) = own_request(&mut rig);
    assert_eq!((&*method, again == id), ("turn/interrupt", false));
    answer_own(&mut rig, &json!({"id": again, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    assert!(matches!(outcome(&rig, turn), Outcome::Confirmed { .. }));
}

#[test]
fn a_turn_that_ends_before_its_interrupt_has_left_needs_none() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    completed_unread(&mut rig);
    assert_eq!(outcome(&rig, turn), Outcome::CompletedFirst);
    assert_eq!(rig.at_server(), [""; 0], "it was withdrawn");
}

fn completed_unread(rig: &mut RelayRig) {
    rig.from_server(
        &json!({"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "completed"}}})
            .to_string(),
    );
}

#[test]
fn a_turn_that_ends_by_itself_after_its_interrupt_is_not_told_as_stopped() {
    for (status, answer) in [("completed", Answer::Result), ("failed", Answer::Error)] {
        let mut rig = codex();
        let turn = begin(&mut rig, 3, "t", "u");
        rig.relay.stop(rig.now, turn, None);
        own_request(&mut rig);
        completed(&mut rig, "t", "u", status);
        assert_eq!(outcome(&rig, turn), Outcome::AnsweredAfter { after: Duration::ZERO, answer });
    }
}

#[test]
fn a_turn_that_does_not_stop_stays_in_view_and_its_end_is_still_told() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    rig.pass(Duration::from_secs(29));
    assert!(!rig.relay.view(turn).unwrap().is_stuck);
    rig.pass(Duration::from_secs(2));
    let view = rig.relay.view(turn).unwrap();
    assert!(view.is_stuck && view.ended.is_none());
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "nobody is answered");
    completed(&mut rig, "t", "u", "interrupted");
    assert!(matches!(outcome(&rig, turn), Outcome::Confirmed { .. }));
}

/// CDX-05, CDX-17.
#[test]
fn the_end_of_the_server_ends_its_turns_and_answers_only_requests() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    let other = begin(&mut rig, 4, "q", "v");
    rig.relay.stop(rig.now, other, None);
    own_request(&mut rig);
    client(&mut rig, &json!({"id": 5, "method": "model/list", "params": {}}));
    rig.relay.handle_eof(rig.now, Side::Server, &End::Exited(0));
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].starts_with(r#"{"id":5,"error":{"code":-31002"#), "as Codex writes it: {answers:?}");
    assert_eq!(at_work(&rig), [""; 0]);
    assert!(rig.relay.view(turn).unwrap().ended.is_some());
    assert_eq!(outcome(&rig, other), Outcome::Unknown);
    rig.relay.check_invariants();
}

/// CDX-08.
#[test]
fn a_card_is_part_of_its_turn_and_is_closed_when_the_server_says_so() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    for id in [0, 1] {
        server(
            &mut rig,
            &json!({"id": id, "method": "item/commandExecution/requestApproval", "params": {"threadId": "t", "turnId": "u"}}),
        );
    }
    let cards: Vec<_> = rig.relay.requests(Side::Server).map(|view| (view.key, view.parent)).collect();
    assert!(cards.len() == 2 && cards.iter().all(|(_, parent)| *parent == Some(turn)), "{cards:?}");
    client(&mut rig, &json!({"id": 0, "result": {"decision": "accept"}}));
    let resolved = |id: u32| json!({"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": id}});
    server(&mut rig, &resolved(0));
    let open = rig.key(Side::Server, "1").unwrap();
    server(&mut rig, &resolved(1));
    assert_eq!(rig.relay.in_flight(Side::Server), 0);
    let view = rig.relay.view(open).unwrap();
    assert_eq!((view.cancel.unwrap().outcome, view.cancel.unwrap().cause.code), (Outcome::Sent, CauseCode::Caller));
    // What its client answers all the same passes: the server ignores it.
    client(&mut rig, &json!({"id": 1, "result": {"decision": "accept"}}));
    server(&mut rig, &resolved(1));
    server(&mut rig, &resolved(99));
    // One whose turn is cancelled here waits for the server to withdraw it.
    server(&mut rig, &json!({"id": 3, "method": "item/tool/call", "params": {"threadId": "t", "turnId": "u"}}));
    let card = rig.key(Side::Server, "3").unwrap();
    assert!(rig.relay.stop(rig.now, turn, None));
    own_request(&mut rig);
    assert_eq!((outcome(&rig, card), rig.at_client()), (Outcome::Asked, vec![]));
    server(&mut rig, &resolved(3));
    assert!(matches!(outcome(&rig, card), Outcome::Confirmed { .. }));
    assert_eq!(rig.relay.view(card).unwrap().cancel.unwrap().cause.code, CauseCode::Parent);
    // One that an operator cancelled alone could not be told so; then it is known to be closed.
    server(
        &mut rig,
        &json!({"id": 2, "method": "item/tool/requestUserInput", "params": {"threadId": "t", "turnId": "u"}}),
    );
    let card = rig.key(Side::Server, "2").unwrap();
    assert!(rig.relay.stop(rig.now, card, None));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    assert_eq!(outcome(&rig, card), Outcome::NotSendable);
    server(&mut rig, &resolved(2));
    assert!(matches!(outcome(&rig, card), Outcome::Confirmed { .. }));
    rig.relay.check_invariants();
}

/// CDX-10.
#[test]
fn each_turn_of_an_agent_that_a_turn_has_opened_is_interrupted_with_it() {
    let mut rig = codex();
    let root = begin(&mut rig, 3, "t", "u");
    let spawn =
        |ids: Value| json!({"type": "collabAgentToolCall", "id": "i", "tool": "spawnAgent", "receiverThreadIds": ids});
    item(&mut rig, "started", "t", "u", &spawn(json!([])));
    // Its turn may begin before that is said whose it is.
    started(&mut rig, "c1", "a");
    assert_eq!(turn_at_work(&rig, "\"a\"").parent, None);
    item(&mut rig, "completed", "t", "u", &spawn(json!(["c1"])));
    let first = turn_at_work(&rig, "\"a\"");
    assert_eq!((first.parent, first.method), (Some(root), "turn"));
    let first = first.key;
    item(&mut rig, "started", "c1", "a", &json!({"type": "subAgentActivity", "id": "j", "agentThreadId": "c2"}));
    started(&mut rig, "c2", "b");
    let second = turn_at_work(&rig, "\"b\"").key;
    assert_eq!(rig.relay.view(second).unwrap().parent, Some(first));
    // Another that has nothing to do with them.
    let other = begin(&mut rig, 9, "z", "y");

    assert!(rig.relay.stop(rig.now, root, None));
    let told: Vec<Value> = rig.at_server().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut turns: Vec<_> = told.iter().map(|one| (one["method"].clone(), one["params"]["turnId"].clone())).collect();
    turns.sort_by_key(|(_, turn)| turn.to_string());
    let interrupt = json!("turn/interrupt");
    let wanted = ["a", "b", "u"].map(|turn| (interrupt.clone(), json!(turn)));
    assert_eq!(turns, wanted);
    for (thread, turn) in [("t", "u"), ("c1", "a"), ("c2", "b")] {
        completed(&mut rig, thread, turn, "interrupted");
    }
    for key in [root, first, second] {
        assert!(matches!(outcome(&rig, key), Outcome::Confirmed { .. }));
    }
    assert_eq!(rig.relay.view(second).unwrap().cancel.unwrap().cause.code, CauseCode::Parent);
    assert_eq!(at_work(&rig), ["turn/start 9"]);
    assert!(rig.relay.view(other).unwrap().cancel.is_none());
}

/// CDX-10: a client's own Stop is passed on as it is, and what works on stays in view.
#[test]
fn an_agent_that_survives_the_clients_interrupt_stays_in_view() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    item(
        &mut rig,
        "completed",
        "t",
        "u",
        &json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]}),
    );
    started(&mut rig, "c", "a");
    client(&mut rig, &json!({"id": 5, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": "u"}}));
    server(&mut rig, &json!({"id": 5, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    assert_eq!((at_work(&rig), rig.at_server()), (vec!["turn \"a\"".to_owned()], vec![]));
    completed(&mut rig, "c", "a", "completed");
    assert_eq!(at_work(&rig), [""; 0]);
}

fn command(item: &str, process: &Value) -> Value {
    json!({"type": "commandExecution", "id": item, "command": "sleep 1000", "processId": process, "status": "inProgress"})
}

/// CDX-09, CDX-13.
#[test]
fn a_command_that_outlives_its_turn_is_in_view_and_is_ended_where_the_client_may_say_so() {
    for is_granted in [true, false] {
        let mut rig = greeted(&format!(r#"{{"experimentalApi":{is_granted}}}"#));
        let turn = begin(&mut rig, 3, "t", "u");
        item(&mut rig, "started", "t", "u", &command("over", &json!("70")));
        item(&mut rig, "completed", "t", "u", &command("over", &json!("70")));
        item(&mut rig, "started", "t", "u", &command("short", &Value::Null));
        item(&mut rig, "started", "t", "u", &command("long", &json!("71")));
        item(&mut rig, "started", "t", "other", &command("of-another-turn", &json!("72")));
        assert_eq!(at_work(&rig), ["turn/start 3"], "it is a part of its turn");
        rig.relay.stop(rig.now, turn, None);
        own_request(&mut rig);
        completed_interrupted(&mut rig);
        assert_eq!(at_work(&rig), ["terminal \"long\""]);
        let terminal = turn_at_work(&rig, "\"long\"").key;
        assert_eq!(rig.relay.view(terminal).unwrap().parent, Some(turn));
        if !is_granted {
            assert_eq!(rig.at_server(), [""; 0], "the server would refuse it");
            assert_eq!(outcome(&rig, terminal), Outcome::NotSendable);
            // It may still be told that it is over.
            item(&mut rig, "completed", "t", "u", &command("long", &json!("71")));
            assert_eq!(at_work(&rig), [""; 0]);
            continue;
        }
        let (method, id, params) = own_request(&mut rig);
        assert_eq!(method, "thread/backgroundTerminals/terminate");
        assert_eq!(params, json!({"threadId": "t", "processId": "71"}));
        assert_eq!(outcome(&rig, terminal), Outcome::Sent);
        answer_own(&mut rig, &json!({"id": id, "result": {"terminated": true}}));
        assert!(matches!(outcome(&rig, terminal), Outcome::Confirmed { .. }));
        assert_eq!(at_work(&rig), [""; 0]);
        item(&mut rig, "completed", "t", "u", &command("long", &json!("71")));
        rig.relay.check_invariants();
    }
}

fn completed_interrupted(rig: &mut RelayRig) {
    rig.from_server(
        &json!({"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "u", "status": "interrupted"}}})
            .to_string(),
    );
    assert_eq!(rig.at_client().len(), 1);
}

/// CDX-09: after a turn that its client has stopped, or that ended by itself, nothing is ended in its name.
#[test]
fn a_command_that_outlives_a_turn_that_nobody_cancelled_here_is_left_alone_until_it_is_stopped() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    item(&mut rig, "started", "t", "u", &command("long", &json!("71")));
    client(&mut rig, &json!({"id": 5, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": "u"}}));
    server(&mut rig, &json!({"id": 5, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    let terminal = turn_at_work(&rig, "\"long\"").key;
    assert_eq!(rig.at_server(), [""; 0]);
    assert!(rig.relay.stop(rig.now, terminal, None));
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "result": {"terminated": false}}));
    assert_eq!(outcome(&rig, terminal), Outcome::CompletedFirst);
    // An error is no end.
    begin(&mut rig, 6, "t", "v");
    item(&mut rig, "started", "t", "v", &command("next", &json!("72")));
    completed(&mut rig, "t", "v", "completed");
    let terminal = turn_at_work(&rig, "\"next\"").key;
    rig.relay.stop(rig.now, terminal, None);
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "error": {"code": -32600, "message": "thread not found"}}));
    assert!(rig.relay.view(terminal).unwrap().is_stuck);
    item(&mut rig, "completed", "t", "v", &command("next", &json!("72")));
    assert_eq!(at_work(&rig), [""; 0]);
}

/// CDX-12.
#[test]
fn a_command_of_the_client_is_ended_by_its_name_and_cannot_be_without_one() {
    let mut rig = codex();
    client(&mut rig, &json!({"id": 3, "method": "command/exec", "params": {"command": ["x"], "processId": "p"}}));
    let call = rig.key(Side::Client, "3").unwrap();
    assert!(rig.relay.stop(rig.now, call, None));
    let (method, id, params) = own_request(&mut rig);
    assert_eq!((&*method, params), ("command/exec/terminate", json!({"processId": "p"})));
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    assert_eq!(outcome(&rig, call), Outcome::Sent);
    server(&mut rig, &json!({"id": 3, "result": {"exitCode": 137, "stdout": "", "stderr": ""}}));
    assert!(matches!(outcome(&rig, call), Outcome::Confirmed { .. }));

    client(&mut rig, &json!({"id": 4, "method": "command/exec", "params": {"command": ["x"]}}));
    let call = rig.key(Side::Client, "4").unwrap();
    assert!(rig.relay.stop(rig.now, call, None));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    assert_eq!(outcome(&rig, call), Outcome::NotSendable);
    server(&mut rig, &json!({"id": 4, "result": {"exitCode": 0, "stdout": "", "stderr": ""}}));

    // One that the server was never given is answered here.
    rig.from_client(
        &json!({"id": 5, "method": "command/exec", "params": {"command": ["x"], "processId": "q"}}).to_string(),
    );
    let call = rig.key(Side::Client, "5").unwrap();
    assert!(rig.relay.stop(rig.now, call, None));
    assert_eq!(rig.at_server(), [""; 0]);
    assert!(rig.at_client()[0].starts_with(r#"{"id":5,"error":{"code":-31003"#));
}

/// CDX-16: the turn goes on unseen, and an interrupt still works.
#[test]
fn the_end_of_a_turn_whose_thread_the_client_has_left_is_not_known() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    client(&mut rig, &json!({"id": 4, "method": "thread/unsubscribe", "params": {"threadId": "t"}}));
    server(&mut rig, &json!({"id": 4, "result": {"status": "unsubscribed"}}));
    rig.relay.stop(rig.now, turn, None);
    let (method, id, _) = own_request(&mut rig);
    assert_eq!(method, "turn/interrupt");
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    rig.pass(Duration::from_secs(60));
    let view = rig.relay.view(turn).unwrap();
    assert!(view.ended.is_none() && !view.is_stuck, "nothing is owed, and nothing is known");
    assert_eq!((view.cancel.unwrap().outcome, view.upstream_dialect), (Outcome::Sent, &codex::UNSEEN));
}

/// CDX-18.
#[test]
fn a_client_that_is_not_told_of_the_end_hides_it_from_the_relay_too() {
    let hides = |methods: &str| greeted(&format!(r#"{{"optOutNotificationMethods":[{methods}]}}"#));
    // The status of the thread still tells, and does not tell why.
    let mut rig = hides(r#""turn/completed""#);
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    own_request(&mut rig);
    let status = |status: &str| json!({"method": "thread/status/changed", "params": {"threadId": "t", "status": {"type": status}}});
    server(&mut rig, &status("active"));
    assert_eq!(at_work(&rig).len(), 1);
    server(&mut rig, &status("idle"));
    assert!(matches!(outcome(&rig, turn), Outcome::AnsweredAfter { .. }));
    assert_eq!(at_work(&rig), [""; 0]);
    // Without that nothing does.
    let mut rig = hides(r#""item/started","turn/completed","thread/status/changed""#);
    assert_eq!(rig.relay.dialect(Side::Server), &codex::UNSEEN);
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    assert_eq!(outcome(&rig, turn), Outcome::Sent);
    assert!(rig.relay.dialect(Side::Server).is_silent(), "a cancel is not confirmed");
}

/// Bad input: nothing of it is followed, and all of it passes.
#[test]
fn news_of_threads_that_cannot_be_read_pass_and_begin_nothing() {
    let mut rig = codex();
    let long = "x".repeat(1000);
    let odd = [
        r#"{"method":"turn/started"}"#.to_owned(),
        r#"{"method":"turn/started","params":[]}"#.to_owned(),
        r#"{"method":"turn/started","params":{"threadId":7,"turn":{"id":"u"}}}"#.to_owned(),
        r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":7}}}"#.to_owned(),
        r#"{"method":"turn/started","params":{"threadId":"t","turn":"u"}}"#.to_owned(),
        format!(r#"{{"method":"turn/started","params":{{"threadId":"t","turn":{{"id":"{long}"}}}}}}"#),
        format!(r#"{{"method":"turn/started","params":{{"threadId":"{long}","turn":{{"id":"u"}}}}}}"#),
        r#"{"method":"turn/completed","params":{"threadId":"t","turn":null}}"#.to_owned(),
        r#"{"method":"item/started","params":{"threadId":"t","item":{"type":"commandExecution"}}}"#.to_owned(),
        r#"{"method":"item/started","params":{"threadId":"t","item":{"type":"collabAgentToolCall","receiverThreadIds":{}}}}"#.to_owned(),
        r#"{"method":"serverRequest/resolved","params":{"requestId":{}}}"#.to_owned(),
        r#"{"method":"serverRequest/resolved","params":{"requestId":null}}"#.to_owned(),
        r#"{"id":77,"result":{"turn":{"id":"u"}}}"#.to_owned(),
    ];
    for message in odd {
        passes(&mut rig, Side::Server, &message);
    }
    assert_eq!(at_work(&rig), [""; 0]);
    for message in [
        r#"{"id":1,"method":"turn/start","params":[]}"#,
        r#"{"id":2,"method":"turn/interrupt","params":{"threadId":"t","turnId":null}}"#,
        r#"{"id":3,"method":"command/exec","params":{"processId":7}}"#,
    ] {
        passes(&mut rig, Side::Client, message);
    }
    // The client's words are not the server's.
    passes(&mut rig, Side::Client, r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#);
    assert_eq!(rig.relay.requests(Side::Client).count(), 3);
    rig.relay.check_invariants();
}

/// A server that begins turns without end takes a bounded memory.
#[test]
fn a_flood_of_turns_and_commands_is_bounded() {
    let mut rig = codex();
    for number in 0..1100 {
        let name = format!("{number}{}", "y".repeat(200));
        let turn = json!({"threadId": name, "turn": {"id": name}});
        rig.from_server(&json!({"method": "turn/started", "params": turn}).to_string());
        let item = json!({"type": "commandExecution", "id": name, "processId": name});
        rig.from_server(
            &json!({"method": "item/started", "params": {"threadId": name, "turnId": name, "item": item}}).to_string(),
        );
        rig.at_client();
    }
    assert_eq!(rig.relay.in_flight(Side::Client), 1024);
    assert_eq!(rig.relay.unkept_work(), 2 * (1100 - 1024), "the rest is not hidden");
    assert!(rig.relay.held() < 16 << 20, "{}", rig.relay.held());
    for key in rig.relay.requests(Side::Client).map(|view| view.key).collect::<Vec<_>>() {
        rig.relay.stop(rig.now, key, None);
    }
    rig.relay.handle_eof(rig.now, Side::Server, &End::Signalled(9));
    rig.at_client();
    rig.pass(Duration::from_secs(24 * 3600));
    assert_eq!(rig.relay.residue(), 0, "nothing is left");
}

/// What is not followed is counted, also where its ids are too long, or the table of requests is full.
#[test]
fn work_that_finds_no_room_is_counted_and_work_that_is_known_is_not() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    completed(&mut rig, "t", "u", "completed");
    started(&mut rig, "t", "u");
    item(&mut rig, "started", "t", "u", &command("short", &Value::Null));
    assert_eq!(rig.relay.unkept_work(), 0, "it is over, or ends with its turn");
    let long = "x".repeat(300);
    started(&mut rig, "t", &long);
    started(&mut rig, &long, "v");
    item(&mut rig, "started", "t", "u", &command("long", &json!(long)));
    assert_eq!((at_work(&rig), rig.relay.unkept_work()), (vec![], 3));

    let full = RelayConfig { max_in_flight: 1, ..RelayConfig::default() };
    let mut rig = greeted_by(full, r#"{"experimentalApi":true}"#);
    started(&mut rig, "t", "u");
    started(&mut rig, "t", "v");
    assert_eq!((at_work(&rig).len(), rig.relay.unkept_work()), (1, 1));
}

/// A server that does not read: the second word for the same turn takes the place of the first.
#[test]
fn a_cancel_that_waits_is_not_sent_for_what_is_over_by_then() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    assert!(rig.relay.stop(rig.now, turn, None));
    rig.pass(Duration::from_secs(31));
    assert!(rig.relay.view(turn).unwrap().is_stuck && rig.relay.stop(rig.now, turn, None));
    completed_unread(&mut rig);
    assert_eq!((outcome(&rig, turn), rig.at_server()), (Outcome::CompletedFirst, vec![]));
}

/// `rescind cancel --turn-only`: an agent and a terminal work on, until the turn is stopped whole.
#[test]
fn a_turn_that_is_cancelled_alone_leaves_its_agents_and_terminals_at_work() {
    let begun = || {
        let mut rig = codex();
        let root = begin(&mut rig, 3, "t", "u");
        let spawn = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]});
        item(&mut rig, "completed", "t", "u", &spawn);
        started(&mut rig, "c", "a");
        item(&mut rig, "started", "t", "u", &command("long", &json!("71")));
        (rig, root)
    };
    let (mut rig, root) = begun();
    assert!(rig.relay.stop_alone(rig.now, root, None));
    let (method, id, params) = own_request(&mut rig);
    assert_eq!((&*method, params), ("turn/interrupt", json!({"threadId": "t", "turnId": "u"})));
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    completed(&mut rig, "t", "u", "interrupted");
    assert!(matches!(outcome(&rig, root), Outcome::Confirmed { .. }));
    assert_eq!((at_work(&rig), rig.at_server()), (vec!["terminal \"long\"".into(), "turn \"a\"".into()], vec![]));
    assert!(rig.relay.requests(Side::Client).all(|view| view.cancel.is_none() && view.parent == Some(root)));

    // Stopped whole while that is under way: now the rest is cancelled, too, and the turn is not asked twice.
    let (mut rig, root) = begun();
    assert!(rig.relay.stop_alone(rig.now, root, None));
    own_request(&mut rig);
    assert!(!rig.relay.stop(rig.now, root, None));
    assert_eq!(own_request(&mut rig).2, json!({"threadId": "c", "turnId": "a"}));
    assert!(!rig.relay.stop_alone(rig.now, root, None));
    completed_interrupted(&mut rig);
    assert_eq!(own_request(&mut rig).2, json!({"threadId": "t", "processId": "71"}));
    rig.relay.check_invariants();
}

/// CDX-11: a command of the user is a turn where none is at work, and an interrupt ends it.
#[test]
fn a_shell_command_of_the_user_is_stopped_as_a_turn() {
    let mut rig = codex();
    client(&mut rig, &json!({"id": 2, "method": "thread/shellCommand", "params": {"threadId": "t", "command": "x"}}));
    server(&mut rig, &json!({"id": 2, "result": {}}));
    started(&mut rig, "t", "u");
    item(&mut rig, "started", "t", "u", &command("shell", &json!("5")));
    let turn = turn_at_work(&rig, "2").key;
    assert!(rig.relay.stop(rig.now, turn, None));
    let (method, id, _) = own_request(&mut rig);
    assert_eq!(method, "turn/interrupt");
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    item(&mut rig, "completed", "t", "u", &json!({"type": "commandExecution", "id": "shell", "status": "failed"}));
    completed(&mut rig, "t", "u", "interrupted");
    assert!(matches!(outcome(&rig, turn), Outcome::Confirmed { .. }));
    assert_eq!((at_work(&rig), rig.at_server()), (vec![], vec![]), "nothing of it outlives the turn");
}

/// The client starts a process, which works from the answer on.
fn spawn(rig: &mut RelayRig, id: i64, handle: &str) -> RequestKey {
    client(rig, &json!({"id": id, "method": "process/spawn", "params": {"command": ["x"], "processHandle": handle}}));
    server(rig, &json!({"id": id, "result": {}}));
    turn_at_work(rig, &id.to_string()).key
}

fn exited(rig: &mut RelayRig, handle: &str, code: i64) {
    let params = json!({"processHandle": handle, "exitCode": code, "stdout": "", "stderr": ""});
    server(rig, &json!({"method": "process/exited", "params": params}));
}

/// CDX-13.
#[test]
fn a_process_of_the_client_works_until_it_has_exited_and_is_killed_by_its_handle() {
    let mut rig = codex();
    let process = spawn(&mut rig, 3, "p");
    assert_eq!(at_work(&rig), ["process/spawn 3"]);
    assert!(rig.relay.stop(rig.now, process, None));
    let (method, id, params) = own_request(&mut rig);
    assert_eq!((&*method, params), ("process/kill", json!({"processHandle": "p"})));
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    assert_eq!(outcome(&rig, process), Outcome::Sent, "the answer is not its end");
    rig.pass(Duration::from_millis(4));
    exited(&mut rig, "p", 137);
    assert_eq!(outcome(&rig, process), Outcome::Confirmed { after: Duration::from_millis(4) });
    // The handle may be used again. What ends by itself was not stopped, and a refused kill ends nothing.
    for (answer, is_stuck) in
        [(json!({"result": {}}), false), (json!({"error": {"code": -32600, "message": "no"}}), true)]
    {
        let process = spawn(&mut rig, 4, "p");
        rig.relay.stop(rig.now, process, None);
        let mut answer = answer;
        answer["id"] = own_request(&mut rig).1;
        answer_own(&mut rig, &answer);
        assert_eq!(rig.relay.view(process).unwrap().is_stuck, is_stuck);
        exited(&mut rig, "p", 0);
        let ended = Outcome::AnsweredAfter { after: Duration::ZERO, answer: Answer::Result };
        assert_eq!((outcome(&rig, process), at_work(&rig)), (ended, vec![]));
    }
    rig.relay.check_invariants();
}

/// CDX-13: what was refused, and what was over before the answer, is not at work; nor does an unknown end end anything.
#[test]
fn a_process_that_did_not_start_or_is_over_already_is_not_at_work() {
    let mut rig = codex();
    let spawn_of =
        |id: u32, handle: Value| json!({"id": id, "method": "process/spawn", "params": {"processHandle": handle}});
    client(&mut rig, &spawn_of(3, json!("p")));
    server(&mut rig, &json!({"id": 3, "error": {"code": -32600, "message": "requires experimentalApi capability"}}));
    client(&mut rig, &spawn_of(4, json!("q")));
    exited(&mut rig, "q", 0);
    server(&mut rig, &json!({"id": 4, "result": {}}));
    exited(&mut rig, "never", 137);
    client(&mut rig, &spawn_of(5, json!(7)));
    server(&mut rig, &json!({"id": 5, "result": {}}));
    assert_eq!((at_work(&rig), rig.relay.unkept_work()), (vec![], 0));
    let works = spawn(&mut rig, 6, "q");
    // A second one of that handle is refused, and the first works on.
    client(&mut rig, &spawn_of(7, json!("q")));
    server(&mut rig, &json!({"id": 7, "error": {"code": -32600, "message": "duplicate"}}));
    assert_eq!(at_work(&rig), ["process/spawn 6"]);
    rig.relay.handle_eof(rig.now, Side::Server, &End::Exited(0));
    assert!(rig.relay.view(works).unwrap().ended.is_some(), "it ends with its server (CDX-17)");
    rig.relay.check_invariants();
}

/// CDX-13: a start that was taken back is none, and the handle and its place are free.
#[test]
fn a_process_whose_start_is_taken_back_keeps_no_place() {
    let mut rig = codex();
    let queue = |rig: &mut RelayRig, id: i64, handle: &str| {
        let params = json!({"command": ["x"], "processHandle": handle});
        rig.from_client(&json!({"id": id, "method": "process/spawn", "params": params}).to_string());
        let waiting = rig.relay.requests(Side::Client).find(|view| view.state == RequestState::Queued);
        waiting.expect("it waits").key
    };
    for id in 1000..3000 {
        let start = queue(&mut rig, id, &format!("p{id}"));
        assert!(rig.relay.stop(rig.now, start, None));
        assert_eq!(outcome(&rig, start), Outcome::NeverSent);
        assert_eq!(rig.at_server(), [""; 0]);
        rig.at_client();
    }
    let works = spawn(&mut rig, 3, "p1000");
    assert_eq!((at_work(&rig), rig.relay.unkept_work()), (vec!["process/spawn 3".to_owned()], 0));
    // That of another with the handle of one that works takes nothing from this.
    let again = queue(&mut rig, 4, "p1000");
    assert!(rig.relay.stop(rig.now, again, None));
    rig.at_client();
    assert_eq!(at_work(&rig), ["process/spawn 3"]);
    exited(&mut rig, "p1000", 0);
    assert!(rig.relay.view(works).unwrap().ended.is_some());
    rig.relay.check_invariants();
}

/// CDX-10: each agent has opened the next, as many as are followed.
#[test]
fn a_turn_above_a_thousand_others_is_stopped_with_all_of_them() {
    const DEEP: usize = 1024;
    let mut rig = codex();
    let root = begin(&mut rig, 3, "0", "turn 0");
    let mut news = String::new();
    for depth in 1..DEEP {
        let (above, thread) = ((depth - 1).to_string(), depth.to_string());
        let spawn = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": [thread]});
        let spawned = json!({"threadId": above, "turnId": format!("turn {above}"), "item": spawn});
        let turn = json!({"id": format!("turn {thread}"), "status": "inProgress", "items": []});
        for (method, params) in
            [("item/completed", spawned), ("turn/started", json!({"threadId": thread, "turn": turn}))]
        {
            news += &format!("{}\n", json!({"method": method, "params": params}));
        }
    }
    // At once: the rig checks all of it after each message.
    rig.bytes(Side::Server, news.as_bytes());
    rig.at_client();
    assert_eq!((at_work(&rig).len(), rig.relay.unkept_work()), (DEEP, 0));
    assert!(rig.relay.stop(rig.now, root, None));
    let mut turns = BTreeSet::new();
    for message in rig.at_server() {
        assert!(turns.insert(interrupted_turn(&message)), "asked twice: {message}");
    }
    assert_eq!(turns.len(), DEEP);
    rig.relay.check_invariants();
}

/// One of them was cancelled alone before: a turn above it that is stopped whole reaches what is below all the same.
#[test]
fn a_turn_that_is_stopped_whole_reaches_what_is_below_one_that_was_cancelled_alone() {
    let mut rig = codex();
    let root = begin(&mut rig, 3, "t", "u");
    for (above, turn, thread, own) in [("t", "u", "c", "a"), ("c", "a", "d", "b")] {
        let spawn = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": [thread]});
        item(&mut rig, "completed", above, turn, &spawn);
        started(&mut rig, thread, own);
    }
    let agent = turn_at_work(&rig, "\"a\"").key;
    assert!(rig.relay.stop_alone(rig.now, agent, None));
    assert_eq!(own_request(&mut rig).2, json!({"threadId": "c", "turnId": "a"}));
    assert!(rig.relay.stop(rig.now, root, None));
    let asked: BTreeSet<_> = rig.at_server().iter().map(|message| interrupted_turn(message)).collect();
    assert_eq!(asked, ["b", "u"].map(str::to_owned).into());
}

/// The turn that a message of the relay interrupts.
fn interrupted_turn(message: &str) -> String {
    let message: Value = serde_json::from_str(message).expect("it is JSON");
    assert_eq!(message["method"], "turn/interrupt");
    message["params"]["turnId"].as_str().expect("it has that").to_owned()
}

/// CDX-09, CDX-13: what the client asks for, the relay learns.
#[test]
fn a_list_of_terminals_shows_those_that_were_not_seen_and_ends_those_that_it_lacks() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    item(&mut rig, "started", "t", "u", &command("over", &json!("70")));
    completed(&mut rig, "t", "u", "completed");
    let ask = |rig: &mut RelayRig, id: u32, cursor: Value, listed: &[(&str, &str)], next: Value| {
        let params = json!({"threadId": "t", "cursor": cursor, "limit": 25});
        client(rig, &json!({"id": id, "method": "thread/backgroundTerminals/list", "params": params}));
        let data: Vec<_> = listed
            .iter()
            .map(|(item, process)| json!({"itemId": item, "processId": process, "command": "x"}))
            .collect();
        server(rig, &json!({"id": id, "result": {"data": data, "nextCursor": next}}));
    };
    // Neither a part of the list nor a later page of it says what is over.
    ask(&mut rig, 4, Value::Null, &[("new", "71")], json!("more"));
    ask(&mut rig, 5, json!("more"), &[("other", "72")], Value::Null);
    assert_eq!(at_work(&rig), ["terminal \"new\"", "terminal \"other\"", "terminal \"over\""]);
    ask(&mut rig, 6, Value::Null, &[("new", "71")], Value::Null);
    assert_eq!(at_work(&rig), ["terminal \"new\""]);
    let terminal = turn_at_work(&rig, "\"new\"").key;
    assert_eq!(rig.relay.view(terminal).unwrap().parent, None, "its turn is not known");
    rig.relay.stop(rig.now, terminal, None);
    let (method, id, params) = own_request(&mut rig);
    assert_eq!(
        (&*method, params),
        ("thread/backgroundTerminals/terminate", json!({"threadId": "t", "processId": "71"}))
    );
    answer_own(&mut rig, &json!({"id": id, "result": {"terminated": true}}));
    // One that outlives its turn while the list is under way may be missing in it. Of another thread nothing is said.
    begin(&mut rig, 7, "t", "v");
    item(&mut rig, "started", "t", "v", &command("late", &json!("73")));
    let params = json!({"threadId": "t", "cursor": null});
    client(&mut rig, &json!({"id": 8, "method": "thread/backgroundTerminals/list", "params": params}));
    rig.pass(Duration::from_millis(1));
    completed(&mut rig, "t", "v", "completed");
    server(&mut rig, &json!({"id": 8, "result": {"data": [], "nextCursor": null}}));
    assert_eq!(at_work(&rig), ["terminal \"late\""]);
    for odd in
        [json!(null), json!({"data": 7}), json!({"data": [7, {}, {"itemId": 1, "processId": "x"}], "nextCursor": 1})]
    {
        client(&mut rig, &json!({"id": 9, "method": "thread/backgroundTerminals/list", "params": params}));
        server(&mut rig, &json!({"id": 9, "result": odd}));
    }
    assert_eq!(at_work(&rig), ["terminal \"late\""], "bad input shows nothing and ends nothing");
    rig.relay.check_invariants();
}

/// CDX-18: the end of a process or of an item that its client has turned off is not known.
#[test]
fn where_the_end_of_a_process_or_command_is_hidden_a_cancel_is_not_confirmed() {
    let mut rig =
        greeted(r#"{"experimentalApi":true,"optOutNotificationMethods":["process/exited","item/completed"]}"#);
    assert_eq!(rig.relay.dialect(Side::Server), &codex::APP_SERVER, "turns are told of");
    let process = spawn(&mut rig, 3, "p");
    rig.relay.stop(rig.now, process, None);
    let (_, id, _) = own_request(&mut rig);
    answer_own(&mut rig, &json!({"id": id, "result": {}}));
    rig.pass(Duration::from_secs(60));
    let view = rig.relay.view(process).unwrap();
    assert_eq!((view.cancel.unwrap().outcome, view.upstream_dialect), (Outcome::Sent, &codex::UNSEEN));
    assert!(!view.is_stuck && view.ended.is_none());
    let turn = begin(&mut rig, 4, "t", "u");
    item(&mut rig, "started", "t", "u", &command("long", &json!("71")));
    completed(&mut rig, "t", "u", "completed");
    assert_eq!(turn_at_work(&rig, "\"long\"").upstream_dialect, &codex::UNSEEN);
    assert!(rig.relay.view(turn).unwrap().ended.is_some());
}

/// CDX-15, D32: a client's request that has another id at the server is named there by that.
#[test]
fn an_id_in_a_payload_is_the_one_that_the_server_knows() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    rig.relay.stop(rig.now, turn, None);
    let (_, ours, _) = own_request(&mut rig);
    rig.from_client(&json!({"id": ours, "method": "thread/search", "params": {}}).to_string());
    let (_, theirs, _) = own_request(&mut rig);
    rig.from_client(&json!({"id": 4, "method": "thread/search/cancel", "params": {"requestId": ours}}).to_string());
    assert_eq!(own_request(&mut rig).2, json!({"requestId": theirs}));
    // Any other passes as it is.
    client(&mut rig, &json!({"id": 5, "method": "thread/search/cancel", "params": {"requestId": 3}}));
    client(&mut rig, &json!({"id": 6, "method": "thread/search/cancel", "params": {"requestId": 99}}));
}

/// A turn is owed to nobody: a server whose client is gone need not be kept for it (CDX-17).
#[test]
fn a_turn_at_work_is_not_an_answer_that_is_awaited() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    client(&mut rig, &json!({"id": 4, "method": "model/list", "params": {}}));
    assert_eq!((rig.relay.in_flight(Side::Client), rig.relay.awaited(Side::Client)), (2, 1));
    server(&mut rig, &json!({"id": 4, "result": {}}));
    assert_eq!((rig.relay.in_flight(Side::Client), rig.relay.awaited(Side::Client)), (1, 0));
}

/// A client that never reads: what its server says of a turn is followed all the same, and the interrupt goes out.
#[test]
fn a_client_that_never_reads_does_not_keep_a_turn_from_being_cancelled() {
    let mut rig = codex();
    let turn = begin(&mut rig, 3, "t", "u");
    for _ in 0..100 {
        rig.from_server(
            &json!({"method": "item/agentMessage/delta", "params": {"threadId": "t", "delta": "x"}}).to_string(),
        );
    }
    rig.relay.stop(rig.now, turn, None);
    let (method, id, _) = own_request(&mut rig);
    assert_eq!(method, "turn/interrupt");
    rig.from_server(&json!({"id": id, "result": {}}).to_string());
    completed_unread(&mut rig);
    assert!(matches!(outcome(&rig, turn), Outcome::AnsweredAfter { .. }));
    assert_eq!(rig.at_client().len(), 101);
    // One to which nothing can be written any more is not asked.
    let turn = begin(&mut rig, 4, "t", "v");
    rig.relay.handle_write_closed(rig.now, Side::Server);
    rig.relay.stop(rig.now, turn, None);
    assert_eq!(outcome(&rig, turn), Outcome::Unknown);
    rig.relay.check_invariants();
}

/// D58: what a recording needs to show the same tree. Told once, and where it becomes known later, then.
#[test]
fn a_part_is_reported_with_its_parent_once_that_is_known() {
    let mut rig = codex();
    begin(&mut rig, 3, "t", "u");
    item(&mut rig, "started", "t", "u", &json!({"type": "collabAgentToolCall", "receiverThreadIds": ["c"]}));
    started(&mut rig, "c", "a");
    started(&mut rig, "d", "b");
    for which in ["started", "completed"] {
        item(&mut rig, which, "c", "a", &json!({"type": "collabAgentToolCall", "receiverThreadIds": ["d"]}));
    }
    let parts = rig.events.iter().filter_map(|event| {
        let RelayEvent::PartOf { id, parent_id, .. } = event else { return None };
        Some(format!("{id} of {parent_id}"))
    });
    assert_eq!(parts.collect::<Vec<_>>(), [r#""a" of 3"#, r#""b" of "a""#]);
}

/// CDX-10.
#[test]
fn a_turn_of_an_agent_knows_the_turn_that_opened_it_after_its_end_too() {
    let mut rig = codex();
    let turn = begin(&mut rig, 1, "t", "u");
    item(&mut rig, "started", "t", "u", &json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]}));
    started(&mut rig, "c", "a");
    let opened_by = |rig: &RelayRig| {
        let mut agents = rig.relay.requests(Side::Client).filter(|view| view.method == "turn");
        agents.next().expect("it is at work").opened_by
    };
    assert_eq!(opened_by(&rig), Some(turn));
    completed(&mut rig, "t", "u", "completed");
    assert_eq!(opened_by(&rig), Some(turn));
    // It goes on with a turn of its own.
    completed(&mut rig, "c", "a", "completed");
    started(&mut rig, "c", "b");
    assert_eq!(opened_by(&rig), Some(turn));
    completed(&mut rig, "c", "b", "completed");
    // Another turn gives it work.
    let second = begin(&mut rig, 2, "t", "v");
    item(&mut rig, "started", "t", "v", &json!({"type": "collabAgentToolCall", "id": "j", "receiverThreadIds": ["c"]}));
    completed(&mut rig, "t", "v", "completed");
    started(&mut rig, "c", "d");
    assert_eq!(opened_by(&rig), Some(second));
}
