//! Followed work where two things cross: no cancel is lost between them, none reaches other work, and no receipt says more than
//! was seen (D28, D54, D55, D58).

use core::time::Duration;

use rescind_proto::{
    dialect::codex::{APP_SERVER, UNSEEN},
    link::RequestKey,
    receipt::Outcome,
    relay::RelayConfig,
    side::Side,
};
use rescind_testkit::{relay_rig::RelayRig, sim::watcher::Watcher};
use serde_json::{Value, json};

use crate::both_ends::{answer_own, cancel, client, greeted, own_request, passes, request, result, server};

const GRANTED: &str = r#","capabilities":{"cancel":{}},"state":{"state":"running"}"#;
const RUNNING: &str = r#","state":{"state":"running"}"#;
const FINISHED: &str = r#","state":{"state":"idle","stopReason":"end_turn"}"#;

/// A link of ACP with children in this version, and a prompt of session "s" in flight, id 1.
fn prompted(version: &str) -> RelayRig {
    let mut rig = greeted(version, r#","clientCapabilities":{"subagents":{}}"#, RelayConfig::default());
    passes(&mut rig, Side::Client, &request("1", "session/prompt", "s"));
    rig
}

/// The agent reports this of the session's child, and its client receives it.
#[track_caller]
fn reports(rig: &mut RelayRig, child: &str, members: &str) {
    let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
    let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
    let news = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
    rig.from_server(&news);
    assert_eq!(rig.at_client(), [news]);
}

/// The outcome of the first child's cancel.
fn outcome(rig: &RelayRig) -> Option<Outcome> {
    rig.relay.children().next()?.cancel.map(|receipt| receipt.outcome)
}

/// What is in flight for the client: method and id.
fn in_flight(rig: &RelayRig) -> Vec<String> {
    let mut found: Vec<_> =
        rig.relay.requests(Side::Client).map(|view| format!("{} {:?}", view.method, view.id)).collect();
    found.sort();
    found
}

#[test]
fn what_a_turn_has_shown_stays_known_when_its_cancel_is_lost_with_the_agent() {
    let mut rig = prompted("1");
    rig.from_client(&cancel("s"));
    rig.from_server(&result("1", r#"{"stopReason":"end_turn"}"#));
    assert_eq!(rig.outcome("1"), Some(Outcome::CompletedFirst));
    rig.relay.handle_write_closed(rig.now, Side::Server);
    rig.at_client();
    assert_eq!(rig.outcome("1"), Some(Outcome::CompletedFirst));
}

/// The client's own cancel has no ticket: nothing takes it back.
#[test]
fn a_child_that_ends_before_the_clients_cancel_has_left_was_first() {
    let mut rig = prompted("1");
    reports(&mut rig, "a", GRANTED);
    rig.from_client(&cancel("a"));
    reports(&mut rig, "a", FINISHED);
    assert_eq!(outcome(&rig), Some(Outcome::CompletedFirst));
    assert_eq!(rig.at_server(), [cancel("a")]);
    assert_eq!(outcome(&rig), Some(Outcome::CompletedFirst));
}

/// Of the operator, or of the client. It is half out when the work ends, and so it cannot be taken back.
#[test]
fn a_cancel_for_a_childs_earlier_work_says_nothing_of_the_one_for_its_next() {
    for is_by_client in [false, true] {
        let mut rig = prompted("1");
        reports(&mut rig, "a", GRANTED);
        let child = rig.relay.children().next().expect("it is kept").key;
        if is_by_client {
            rig.from_client(&cancel("a"));
        } else {
            assert!(rig.relay.stop_child(rig.now, child, None));
        }
        rig.write(Side::Server, 5);
        reports(&mut rig, "a", FINISHED);
        reports(&mut rig, "a", RUNNING);
        assert!(rig.relay.stop_child(rig.now, child, None));
        rig.write(Side::Server, cancel("a").len() + 1 - 5);
        assert_eq!(outcome(&rig), Some(Outcome::Asked), "it has not left");
        reports(&mut rig, "a", r#","capabilities":null"#);
        assert_eq!(outcome(&rig), Some(Outcome::NotSendable));
        assert_eq!(rig.at_server(), [cancel("a")], "that for its next work is taken back");
    }
}

#[test]
fn an_observer_learns_of_each_child_that_gives_way_to_another() {
    let mut rig = prompted("1");
    let mut watcher = Watcher::new(&mut rig.relay);
    for number in 0..1030 {
        reports(&mut rig, &format!("c{number}"), FINISHED);
    }
    watcher.follow(&mut rig.relay).expect("all of it is told");
    assert_eq!(rig.relay.children().count(), 1024);
}

/// ACP-42, ACP-57.
#[test]
fn the_background_of_a_child_ends_when_its_parents_session_is_closed() {
    let mut rig = prompted("2");
    passes(&mut rig, Side::Server, &result("1", r#"{"messageId":"m"}"#));
    let state = |session: &str, members: &Value| {
        let mut update = members.clone();
        update["sessionUpdate"] = "state_update".into();
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
    };
    server(&mut rig, &state("s", &json!({"state": "running", "background": []})));
    reports(&mut rig, "a", GRANTED);
    let terminal = json!([{"type": "terminal", "terminalId": "t"}]);
    server(&mut rig, &state("a", &json!({"state": "running", "background": terminal})));
    server(&mut rig, &state("other", &json!({"state": "running", "background": terminal})));
    passes(&mut rig, Side::Client, &request("9", "session/close", "s"));
    assert_eq!(in_flight(&rig).len(), 5);
    passes(&mut rig, Side::Server, &result("9", "{}"));
    assert_eq!(in_flight(&rig), ["terminal \"t\"", "turn \"other\""], "another session goes on");
    assert_eq!(rig.relay.children().count(), 0);
}

/// ACP-52: the cancelled idle stands before new work, and ends what was cancelled before it began.
#[test]
fn the_cancel_of_a_prompt_whose_work_never_began_is_not_that_of_the_next() {
    let mut rig = prompted("2");
    let key = rig.key(Side::Client, "1").expect("it is in flight");
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.at_server(), [cancel("s")]);
    passes(&mut rig, Side::Server, &result("1", r#"{"messageId":"m"}"#));
    let state = |state: &str| {
        let update = format!(r#"{{"sessionUpdate":"state_update",{state},"background":[]}}"#);
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#)
    };
    passes(&mut rig, Side::Server, &state(r#""state":"idle","stopReason":"cancelled""#));
    passes(&mut rig, Side::Client, &request("2", "session/prompt", "s"));
    passes(&mut rig, Side::Server, &state(r#""state":"running""#));
    let work = rig.relay.requests(Side::Client).find(|view| format!("{:?}", view.id) == "2" && view.cancel.is_none());
    assert!(work.is_some(), "{:?}", in_flight(&rig));
    assert!(rig.relay.requests(Side::Client).all(|view| view.cancel.is_none()), "nothing of it is cancelled");
}

/// A link of Codex with the turn "u" of the thread "t" at work.
fn codex() -> (RelayRig, RequestKey) {
    let mut rig = RelayRig::new(RelayConfig::default());
    let params = json!({"clientInfo": {}, "capabilities": {"experimentalApi": true}});
    client(&mut rig, &json!({"id": 0, "method": "initialize", "params": params}));
    server(&mut rig, &json!({"id": 0, "result": {"userAgent": "x", "codexHome": "/h"}}));
    starts(&mut rig, "t", "u");
    let turn = rig.key(Side::Client, "\"u\"").expect("it is at work");
    (rig, turn)
}

/// The server reports that a turn has begun.
#[track_caller]
fn starts(rig: &mut RelayRig, thread: &str, turn: &str) {
    rig.from_server(
        &json!({"method": "turn/started", "params": {"threadId": thread, "turn": {"id": turn}}}).to_string(),
    );
    assert_eq!(rig.at_client().len(), 1);
}

/// The server reports that the turn "u" has opened the thread "c".
#[track_caller]
fn announces(rig: &mut RelayRig) {
    let item = json!({"type": "collabAgentToolCall", "id": "i", "receiverThreadIds": ["c"]});
    let params = json!({"threadId": "t", "turnId": "u", "item": item});
    rig.from_server(&json!({"method": "item/completed", "params": params}).to_string());
    assert_eq!(rig.at_client().len(), 1);
}

/// The relay interrupts this turn, and the server says yes.
#[track_caller]
fn interrupts(rig: &mut RelayRig, thread: &str, turn: &str) {
    let (method, id, params) = own_request(rig);
    assert_eq!((&*method, params), ("turn/interrupt", json!({"threadId": thread, "turnId": turn})));
    answer_own(rig, &json!({"id": id, "result": {}}));
}

/// CDX-10.
#[test]
fn an_agent_that_is_seen_only_after_its_turn_was_cancelled_is_cancelled_with_it() {
    let (mut rig, turn) = codex();
    rig.relay.stop(rig.now, turn, None);
    interrupts(&mut rig, "t", "u");
    announces(&mut rig);
    starts(&mut rig, "c", "a");
    interrupts(&mut rig, "c", "a");
    // It was at work, and whose it is was not known.
    let (mut rig, turn) = codex();
    starts(&mut rig, "c", "a");
    rig.relay.stop(rig.now, turn, None);
    interrupts(&mut rig, "t", "u");
    announces(&mut rig);
    interrupts(&mut rig, "c", "a");
}

#[test]
fn an_agent_goes_on_whose_turn_was_cancelled_alone_or_by_its_client() {
    let (mut rig, turn) = codex();
    rig.relay.stop_alone(rig.now, turn, None);
    interrupts(&mut rig, "t", "u");
    announces(&mut rig);
    starts(&mut rig, "c", "a");
    assert_eq!(rig.at_server(), [""; 0]);
    let (mut rig, _) = codex();
    client(&mut rig, &json!({"id": 2, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": "u"}}));
    announces(&mut rig);
    starts(&mut rig, "c", "a");
    assert_eq!(rig.at_server(), [""; 0]);
}

/// Its client has interrupted the turn, which goes on: an operator's order for the turn alone is for nothing else, either.
#[test]
fn a_turn_that_did_not_heed_its_client_is_cancelled_alone() {
    let (mut rig, turn) = codex();
    announces(&mut rig);
    starts(&mut rig, "c", "a");
    client(&mut rig, &json!({"id": 2, "method": "turn/interrupt", "params": {"threadId": "t", "turnId": "u"}}));
    rig.pass(Duration::from_secs(31));
    assert!(rig.relay.view(turn).is_some_and(|view| view.is_stuck));
    assert!(rig.relay.stop_alone(rig.now, turn, None));
    interrupts(&mut rig, "t", "u");
    assert_eq!(rig.at_server(), [""; 0], "its agent goes on");
}

/// D60: whatever still waits for the client.
#[test]
fn a_prompt_waits_for_a_released_turn_also_behind_an_answer_that_its_client_has_not_read() {
    let mut rig = prompted("1");
    let (later, next) = (request("2", "session/prompt", "s"), request("3", "session/prompt", "s"));
    rig.from_client(&later);
    rig.from_client(&cancel("s"));
    let key = rig.key(Side::Client, "2").expect("it is in flight");
    assert!(!rig.relay.release(rig.now, key) && rig.relay.release(rig.now, key));
    assert_eq!(rig.at_client().len(), 1);
    rig.from_server(&result("1", r#"{"stopReason":"end_turn"}"#));
    rig.write(Side::Server, later.len() + 1);
    rig.from_client(&next);
    let key = rig.key(Side::Client, "3").expect("it is in flight");
    assert!(rig.relay.view(key).is_some_and(|view| view.waits_for_turn));
}

/// CDX-16: what its client receives again, the relay does, too.
#[test]
fn the_turns_of_a_thread_are_seen_again_once_its_client_is_back() {
    let (mut rig, turn) = codex();
    client(&mut rig, &json!({"id": 4, "method": "thread/unsubscribe", "params": {"threadId": "t"}}));
    server(&mut rig, &json!({"id": 4, "result": {"status": "unsubscribed"}}));
    let dialect = |rig: &RelayRig, turn| rig.relay.view(turn).map(|view| view.upstream_dialect);
    assert_eq!(dialect(&rig, turn), Some(&UNSEEN));
    starts(&mut rig, "t", "v");
    let later = rig.key(Side::Client, "\"v\"").expect("it is at work");
    assert_eq!((dialect(&rig, turn), dialect(&rig, later)), (Some(&APP_SERVER), Some(&APP_SERVER)));
}
