//! ACP v2 through a relay (D55): work that a session reports by itself, and what a Stop does to it. Each test names its row
//! of the specification. The agent here is the test.

use core::time::Duration;

use rescind_proto::{
    child::{ChildEnd, ChildState},
    dialect::acp,
    link::RequestKey,
    receipt::{Answer, Outcome},
    relay::{End, RelayConfig, RequestState, RequestView},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use crate::both_ends::{answer_own, client, sent, server as agent};

/// A link that has agreed on version 2.
fn greeted() -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig::default());
    client(&mut rig, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2}}));
    agent(&mut rig, &json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 2}}));
    assert_eq!(rig.relay.dialect(Side::Server), &acp::V2_DRAFT);
    rig
}

fn request(id: &Value, method: &str, session: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": session}})
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

fn cancel(session: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
}

#[track_caller]
fn update(rig: &mut RelayRig, session: &str, update: &Value) {
    agent(
        rig,
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}),
    );
}

/// The agent reports a state: members of an update.
#[track_caller]
fn state(rig: &mut RelayRig, session: &str, mut members: Value) {
    members["sessionUpdate"] = "state_update".into();
    update(rig, session, &members);
}

#[track_caller]
fn running(rig: &mut RelayRig, session: &str) {
    state(rig, session, json!({"state": "running", "background": []}));
}

#[track_caller]
fn idle(rig: &mut RelayRig, session: &str, reason: &str) {
    state(rig, session, json!({"state": "idle", "stopReason": reason, "background": []}));
}

/// A prompt of session "s" is sent, inserted, and worked on.
fn at_work() -> RelayRig {
    let mut rig = greeted();
    begin(&mut rig, 1, "s");
    rig
}

fn begin(rig: &mut RelayRig, id: i64, session: &str) {
    client(rig, &request(&id.into(), "session/prompt", session));
    agent(rig, &result(&id.into(), &json!({"messageId": format!("m{id}")})));
    running(rig, session);
}

/// What is in flight for the client: method and id.
fn in_flight(rig: &RelayRig) -> Vec<String> {
    let views = rig.relay.requests(Side::Client);
    let mut found: Vec<_> = views.map(|view| format!("{} {}", view.method, shown(&view))).collect();
    found.sort();
    found
}

fn shown(view: &RequestView<'_>) -> String {
    let mut out = Vec::new();
    view.id.write(&mut out);
    String::from_utf8(out).expect("ids are text")
}

#[track_caller]
fn key(rig: &RelayRig, id: &str) -> RequestKey {
    let mut views = rig.relay.requests(Side::Client);
    views.find(|view| shown(view) == id).unwrap_or_else(|| panic!("{id} is not in flight")).key
}

fn outcome(rig: &RelayRig, key: RequestKey) -> Option<Outcome> {
    Some(rig.relay.view(key)?.cancel?.outcome)
}

/// The operator stops this; what the agent is sent.
#[track_caller]
fn stop(rig: &mut RelayRig, key: RequestKey) -> Vec<Value> {
    assert!(rig.relay.stop(rig.now, key, None));
    sent(rig)
}

fn listed(items: &Value) -> Value {
    json!({"state": "running", "background": items})
}

const NOTHING: [&str; 0] = [];

#[test]
fn work_is_in_flight_from_running_to_idle_whatever_answers_the_prompt_acp_50() {
    let mut rig = greeted();
    client(&mut rig, &request(&1.into(), "session/prompt", "s"));
    assert_eq!(in_flight(&rig), ["session/prompt 1"], "the prompt waits for its insertion");
    agent(&mut rig, &result(&1.into(), &json!({"messageId": "m"})));
    assert_eq!(in_flight(&rig), NOTHING, "it was inserted; no work was reported");
    rig.pass(Duration::from_secs(3));
    running(&mut rig, "s");
    let view = rig.relay.view(key(&rig, "1")).unwrap();
    assert_eq!((view.method, view.state, view.since), ("session/prompt", RequestState::Sent, rig.now));
    rig.pass(Duration::from_secs(3600));
    assert_eq!(in_flight(&rig), ["session/prompt 1"]);
    idle(&mut rig, "s", "end_turn");
    assert_eq!(in_flight(&rig), NOTHING);
    idle(&mut rig, "s", "end_turn");
    assert_eq!(in_flight(&rig), NOTHING, "a repeated snapshot is no new end");
}

#[test]
fn work_without_a_prompt_is_in_flight_and_a_repeated_snapshot_is_no_new_work_acp_50() {
    let mut rig = greeted();
    state(&mut rig, "s", json!({"state": "requires_action", "background": []}));
    running(&mut rig, "s");
    running(&mut rig, "s");
    running(&mut rig, "t");
    assert_eq!(in_flight(&rig), [r#"turn "s""#, r#"turn "t""#]);
    idle(&mut rig, "s", "end_turn");
    assert_eq!(in_flight(&rig), [r#"turn "t""#]);
}

#[test]
fn a_state_that_is_not_known_is_not_idle_acp_50() {
    for members in [json!({"state": "_dreaming"}), json!({"state": "unknown"}), json!({"state": null}), json!({})] {
        let mut rig = at_work();
        state(&mut rig, "s", members.clone());
        assert_eq!(in_flight(&rig), ["session/prompt 1"], "{members}");
    }
    let mut rig = greeted();
    state(&mut rig, "s", json!({"state": "_dreaming", "background": []}));
    assert_eq!(in_flight(&rig), [r#"turn "s""#], "what is not idle may work");
}

#[test]
fn work_may_begin_before_its_prompt_is_inserted_acp_50() {
    let mut rig = greeted();
    client(&mut rig, &request(&1.into(), "session/prompt", "s"));
    running(&mut rig, "s");
    assert_eq!(in_flight(&rig), ["session/prompt 1"; 2]);
    idle(&mut rig, "s", "end_turn");
    agent(&mut rig, &result(&1.into(), &json!({"messageId": "m"})));
    assert_eq!(in_flight(&rig), NOTHING);
    running(&mut rig, "s");
    assert_eq!(in_flight(&rig), [r#"turn "s""#], "that is work of the agent's own");
}

#[test]
fn a_stop_is_confirmed_by_the_cancelled_idle_and_by_nothing_before_it_acp_52() {
    let mut rig = at_work();
    let turn = key(&rig, "1");
    assert_eq!(stop(&mut rig, turn), [cancel("s")]);
    assert_eq!(outcome(&rig, turn), Some(Outcome::Sent));
    rig.pass(Duration::from_millis(20));
    update(&mut rig, "s", &json!({"sessionUpdate": "agent_message_chunk"}));
    running(&mut rig, "s");
    assert_eq!(outcome(&rig, turn), Some(Outcome::Sent), "the work's last updates");
    idle(&mut rig, "s", "cancelled");
    assert_eq!(outcome(&rig, turn), Some(Outcome::Confirmed { after: Duration::from_millis(20) }));
    assert_eq!((in_flight(&rig), rig.at_client(), rig.at_server()), (vec![], vec![], vec![]));
}

#[test]
fn work_that_ends_otherwise_was_not_stopped_acp_52() {
    for (reason, answer) in [("end_turn", Answer::Result), ("error", Answer::Error)] {
        let mut rig = at_work();
        let turn = key(&rig, "1");
        stop(&mut rig, turn);
        idle(&mut rig, "s", reason);
        assert_eq!(outcome(&rig, turn), Some(Outcome::AnsweredAfter { after: Duration::ZERO, answer }), "{reason}");
    }
    let mut rig = at_work();
    let turn = key(&rig, "1");
    assert!(rig.relay.stop(rig.now, turn, None));
    rig.from_server(
        &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update":
            {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}}})
        .to_string(),
    );
    assert_eq!(outcome(&rig, turn), Some(Outcome::CompletedFirst));
    assert_eq!(rig.at_server(), [""; 0], "its cancel was taken back: it must not meet the next work");
}

#[test]
fn an_agent_that_ignores_the_stop_stays_in_view_and_can_be_stopped_again_acp_52() {
    let mut rig = at_work();
    let turn = key(&rig, "1");
    stop(&mut rig, turn);
    rig.pass(Duration::from_secs(29));
    assert!(!rig.relay.view(turn).unwrap().is_stuck);
    rig.pass(Duration::from_secs(2));
    let view = rig.relay.view(turn).unwrap();
    assert!(view.is_stuck && view.ended.is_none());
    assert_eq!(stop(&mut rig, turn), [cancel("s")]);
    idle(&mut rig, "s", "cancelled");
    assert!(matches!(outcome(&rig, turn), Some(Outcome::Confirmed { .. })));
}

#[test]
fn the_clients_own_cancel_passes_and_counts_as_one_of_the_foreground_work_acp_51() {
    let mut rig = at_work();
    let turn = key(&rig, "1");
    state(&mut rig, "s", listed(&json!([{"type": "terminal", "terminalId": "term"}])));
    client(&mut rig, &cancel("s"));
    client(&mut rig, &cancel("s"));
    assert_eq!(outcome(&rig, turn), Some(Outcome::Sent));
    assert!(!rig.relay.stop_alone(rig.now, turn, None), "it is cancelled");
    state(
        &mut rig,
        "s",
        json!({"state": "idle", "stopReason": "cancelled", "background": [{"type": "terminal", "terminalId": "term"}]}),
    );
    assert!(matches!(outcome(&rig, turn), Some(Outcome::Confirmed { .. })));
    assert_eq!(in_flight(&rig), [r#"terminal "term""#], "listed work goes on, and was not cancelled");
    assert_eq!(outcome(&rig, key(&rig, r#""term""#)), None);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.at_server(), [""; 0], "nothing is added to a client's own Stop");
}

#[test]
fn a_prompt_that_was_not_inserted_is_cancelled_with_its_session_acp_51() {
    let mut rig = greeted();
    client(&mut rig, &request(&1.into(), "session/prompt", "s"));
    let prompt = key(&rig, "1");
    assert_eq!(stop(&mut rig, prompt), [cancel("s")]);
    assert_eq!(rig.at_client(), [""; 0], "its agent answers it");
    agent(&mut rig, &error(&1.into(), -32800));
    assert!(matches!(outcome(&rig, prompt), Some(Outcome::Confirmed { .. })));
}

#[test]
fn a_prompt_that_was_inserted_first_takes_its_cancel_along_acp_51() {
    for is_running_first in [true, false] {
        let mut rig = greeted();
        client(&mut rig, &request(&1.into(), "session/prompt", "s"));
        let prompt = key(&rig, "1");
        stop(&mut rig, prompt);
        if is_running_first {
            running(&mut rig, "s");
        }
        agent(&mut rig, &result(&1.into(), &json!({"messageId": "m"})));
        assert!(matches!(outcome(&rig, prompt), Some(Outcome::AnsweredAfter { .. })), "an insertion is no stop");
        if !is_running_first {
            running(&mut rig, "s");
        }
        let turn = key(&rig, "1");
        assert_eq!(outcome(&rig, turn), Some(Outcome::Sent), "the one cancel covers it");
        idle(&mut rig, "s", "cancelled");
        assert!(matches!(outcome(&rig, turn), Some(Outcome::Confirmed { .. })));
        assert_eq!(rig.at_server(), [""; 0], "and is not sent twice");
        running(&mut rig, "s");
        assert_eq!(outcome(&rig, key(&rig, r#""s""#)), None, "later work was not cancelled");
    }
}

#[test]
fn a_prompt_beside_work_is_cancelled_by_itself_acp_51() {
    let mut rig = at_work();
    client(&mut rig, &request(&2.into(), "session/prompt", "s"));
    let by_id = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}});
    let prompt = key(&rig, "2");
    let found = stop(&mut rig, prompt);
    assert_eq!(found, std::slice::from_ref(&by_id));
    agent(&mut rig, &error(&2.into(), -32800));
    assert!(matches!(outcome(&rig, prompt), Some(Outcome::Confirmed { .. })));
    assert_eq!((in_flight(&rig), outcome(&rig, key(&rig, "1"))), (vec!["session/prompt 1".to_owned()], None));
    // A client that withdraws one prompt does not mean its session.
    idle(&mut rig, "s", "end_turn");
    client(&mut rig, &request(&2.into(), "session/prompt", "s"));
    client(&mut rig, &by_id);
    agent(&mut rig, &result(&2.into(), &json!({"messageId": "m"})));
    running(&mut rig, "s");
    assert_eq!(outcome(&rig, key(&rig, "2")), None, "it was inserted all the same (ACP-01)");
}

#[test]
fn the_agent_says_which_cards_are_over_and_a_client_that_keeps_one_loses_it_acp_53() {
    let card = |id: &str| request(&id.into(), "session/request_permission", "s");
    let withdraw = |id: &str| json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
    let denied = |id: &str| result(&id.into(), &json!({"outcome": {"outcome": "cancelled"}}));
    let mut rig = at_work();
    for id in ["kept", "answered", "background"] {
        agent(&mut rig, &card(id));
    }
    let turn = key(&rig, "1");
    assert_eq!(stop(&mut rig, turn), [cancel("s")], "no card is answered before its agent says that it is over");
    for id in ["kept", "answered"] {
        agent(&mut rig, &withdraw(id));
    }
    rig.pass(Duration::from_millis(999));
    client(&mut rig, &denied("answered"));
    assert_eq!(sent(&mut rig), [Value::Null; 0]);
    rig.pass(Duration::from_millis(1));
    assert_eq!(sent(&mut rig), [denied("kept")]);
    let allowed = result(&"kept".into(), &json!({"outcome": {"outcome": "selected", "optionId": "allow"}}));
    rig.from_client(&allowed.to_string());
    assert_eq!(rig.at_server(), [""; 0], "a late answer authorises nothing (ACP-54)");
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.at_server(), [""; 0]);
    client(&mut rig, &result(&"background".into(), &json!({"outcome": {"outcome": "selected", "optionId": "allow"}})));
}

#[test]
fn an_item_is_cancelled_only_where_it_grants_that_now_acp_55() {
    for (kind, id, update_kind, method) in [
        ("terminal", "terminalId", "terminal_update", "terminal/cancel"),
        ("tool_call", "toolCallId", "tool_call_update", "tool_call/cancel"),
    ] {
        let news = |grant: Value| json!({"sessionUpdate": update_kind, id: "i", "capabilities": grant});
        let mut rig = at_work();
        state(&mut rig, "s", listed(&json!([{"type": kind, id: "i"}])));
        let item = key(&rig, r#""i""#);
        assert_eq!(rig.relay.view(item).unwrap().method, kind);
        for no_grant in [json!({}), json!({"cancel": null}), Value::Null] {
            update(&mut rig, "s", &news(json!({"cancel": {}})));
            update(&mut rig, "s", &news(no_grant));
            assert_eq!(stop(&mut rig, item), [Value::Null; 0]);
            assert_eq!(outcome(&rig, item), Some(Outcome::NotSendable));
        }
        let mut rig = at_work();
        update(&mut rig, "s", &news(json!({"cancel": {}})));
        state(&mut rig, "s", listed(&json!([{"type": kind, id: "i"}])));
        let item = key(&rig, r#""i""#);
        let found = stop(&mut rig, item);
        assert_eq!((&found[0]["method"], &found[0]["params"]), (&json!(method), &json!({"sessionId": "s", id: "i"})));
        answer_own(&mut rig, &result(&found[0]["id"], &json!({})));
        assert_eq!(outcome(&rig, item), Some(Outcome::Sent), "accepted is not stopped");
        assert_eq!(in_flight(&rig).len(), 2);
    }
}

#[test]
fn a_grant_that_is_withdrawn_takes_a_waiting_cancel_back_acp_55() {
    let mut rig = at_work();
    let grant = |grant: Value| json!({"sessionUpdate": "terminal_update", "terminalId": "i", "capabilities": grant});
    update(&mut rig, "s", &grant(json!({"cancel": {}})));
    state(&mut rig, "s", listed(&json!([{"type": "terminal", "terminalId": "i"}])));
    let item = key(&rig, r#""i""#);
    assert!(rig.relay.stop(rig.now, item, None));
    let params = json!({"sessionId": "s", "update": grant(Value::Null)});
    rig.from_server(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
    assert_eq!((sent(&mut rig), outcome(&rig, item)), (vec![], Some(Outcome::NotSendable)));
}

#[test]
fn the_end_of_an_item_is_its_final_status_or_its_leaving_the_list_acp_55() {
    let tool = |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "i", "status": status});
    let exit = json!({"sessionUpdate": "terminal_update", "terminalId": "i", "exitStatus": {"exitCode": 143}});
    let (result, error) = (Answer::Result, Answer::Error);
    let after = Duration::ZERO;
    for (kind, id, end, expected) in [
        ("tool_call", "toolCallId", tool("cancelled"), Outcome::Confirmed { after }),
        ("tool_call", "toolCallId", tool("completed"), Outcome::AnsweredAfter { after, answer: result }),
        ("tool_call", "toolCallId", tool("failed"), Outcome::AnsweredAfter { after, answer: error }),
        ("terminal", "terminalId", exit, Outcome::Confirmed { after }),
        ("terminal", "terminalId", Value::Null, Outcome::Confirmed { after }),
    ] {
        let mut rig = at_work();
        let grant = json!({"sessionUpdate": format!("{kind}_update"), id: "i", "capabilities": {"cancel": {}}});
        update(&mut rig, "s", &grant);
        let items = json!([{"type": kind, id: "i"}]);
        state(&mut rig, "s", listed(&items));
        let item = key(&rig, r#""i""#);
        stop(&mut rig, item);
        for status in ["paused", "_later"] {
            update(&mut rig, "s", &tool(status));
        }
        assert_eq!(outcome(&rig, item), Some(Outcome::Sent));
        if end.is_null() {
            running(&mut rig, "s");
        } else {
            update(&mut rig, "s", &end);
            state(&mut rig, "s", listed(&items));
        }
        assert_eq!(outcome(&rig, item), Some(expected), "{kind} {end}");
        assert_eq!(in_flight(&rig), ["session/prompt 1"], "a list that is older than its end begins nothing");
        running(&mut rig, "s");
        state(&mut rig, "s", listed(&items));
        assert_eq!(in_flight(&rig).len(), 2, "it may be used again");
    }
}

/// Only a word of its agent says that it was cancelled: it may have ended by itself.
#[test]
fn an_item_that_nobody_could_ask_to_end_is_not_told_as_stopped_when_it_is_over_acp_55() {
    let tool = |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "i", "status": status});
    let exit = json!({"sessionUpdate": "terminal_update", "terminalId": "i", "exitStatus": {"exitCode": 0}});
    let after = Duration::ZERO;
    let (result, error) = (
        Outcome::AnsweredAfter { after, answer: Answer::Result },
        Outcome::AnsweredAfter { after, answer: Answer::Error },
    );
    for (kind, id, end, expected) in [
        ("terminal", "terminalId", Value::Null, result),
        ("terminal", "terminalId", exit, result),
        ("tool_call", "toolCallId", Value::Null, result),
        ("tool_call", "toolCallId", tool("completed"), result),
        ("tool_call", "toolCallId", tool("failed"), error),
        ("tool_call", "toolCallId", tool("cancelled"), Outcome::Confirmed { after }),
    ] {
        let mut rig = at_work();
        let items = json!([{"type": kind, id: "i"}]);
        state(&mut rig, "s", listed(&items));
        let item = key(&rig, r#""i""#);
        assert_eq!(stop(&mut rig, item), [Value::Null; 0]);
        assert_eq!(outcome(&rig, item), Some(Outcome::NotSendable));
        if end.is_null() {
            running(&mut rig, "s");
        } else {
            update(&mut rig, "s", &end);
        }
        assert_eq!(outcome(&rig, item), Some(expected), "{kind} {end}");
        assert_eq!(in_flight(&rig), ["session/prompt 1"]);
    }
}

#[test]
fn a_refused_cancel_of_an_item_leaves_it_in_view_acp_55() {
    let mut rig = at_work();
    update(
        &mut rig,
        "s",
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "i", "capabilities": {"cancel": {}}}),
    );
    state(&mut rig, "s", listed(&json!([{"type": "tool_call", "toolCallId": "i"}])));
    let item = key(&rig, r#""i""#);
    let found = stop(&mut rig, item);
    answer_own(&mut rig, &error(&found[0]["id"], -32602));
    assert!(rig.relay.view(item).unwrap().is_stuck);
    assert_eq!(stop(&mut rig, item).len(), 1, "it can be asked again");
}

#[test]
fn a_refused_cancel_of_an_item_that_has_ended_leaves_nothing_stuck_acp_55() {
    let mut rig = at_work();
    let tool = |more: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "i"});
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update
    };
    update(&mut rig, "s", &tool(json!({"capabilities": {"cancel": {}}})));
    state(&mut rig, "s", listed(&json!([{"type": "tool_call", "toolCallId": "i"}])));
    let item = key(&rig, r#""i""#);
    let found = stop(&mut rig, item);
    update(&mut rig, "s", &tool(json!({"status": "completed"})));
    answer_own(&mut rig, &error(&found[0]["id"], -32602));
    assert_eq!(rig.relay.tally().stuck, 0, "a server is ended for such");
    assert!(matches!(outcome(&rig, item), Some(Outcome::AnsweredAfter { .. })));
}

#[test]
fn an_item_that_could_not_be_cancelled_is_once_it_grants_that_acp_55() {
    let mut rig = at_work();
    state(&mut rig, "s", listed(&json!([{"type": "terminal", "terminalId": "i"}])));
    let item = key(&rig, r#""i""#);
    assert_eq!((stop(&mut rig, item), outcome(&rig, item)), (vec![], Some(Outcome::NotSendable)));
    update(
        &mut rig,
        "s",
        &json!({"sessionUpdate": "terminal_update", "terminalId": "i", "capabilities": {"cancel": {}}}),
    );
    assert_eq!(stop(&mut rig, item)[0]["method"], "terminal/cancel");
}

#[test]
fn a_second_order_releases_nobody_where_nobody_waits_acp_52() {
    let mut rig = at_work();
    let work = key(&rig, "1");
    stop(&mut rig, work);
    assert!(!rig.relay.view(work).unwrap().may_be_released);
    for _ in 0..2 {
        assert!(!rig.relay.release(rig.now, work));
    }
    update(&mut rig, "s", &json!({"sessionUpdate": "agent_message_chunk", "content": {}}));
    idle(&mut rig, "s", "cancelled");
    assert!(matches!(outcome(&rig, work), Some(Outcome::Confirmed { .. })));
}

#[test]
fn a_stop_of_the_turn_reaches_its_background_work_after_its_session_acp_55() {
    let mut rig = at_work();
    for item in ["a", "b"] {
        let grant = json!({"sessionUpdate": "terminal_update", "terminalId": item, "capabilities": {"cancel": {}}});
        update(&mut rig, "s", &grant);
    }
    let items =
        json!([{"type": "terminal", "terminalId": "a"}, {"type": "terminal", "terminalId": "b"}, {"type": "_x"}]);
    state(&mut rig, "s", listed(&items));
    state(&mut rig, "t", listed(&json!([{"type": "terminal", "terminalId": "other"}])));
    let turn = key(&rig, "1");
    assert_eq!(rig.relay.background_of(turn).len(), 3);
    let found = stop(&mut rig, turn);
    let methods: Vec<_> = found.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["session/cancel", "terminal/cancel", "terminal/cancel"]);
    assert_eq!((&found[1]["params"]["terminalId"], &found[2]["params"]["terminalId"]), (&json!("a"), &json!("b")));
    assert_ne!(found[1]["id"], found[2]["id"]);
    assert_eq!(outcome(&rig, key(&rig, r#""_x""#)), Some(Outcome::NotSendable), "no word for it is known");
    let mut alone = at_work();
    state(&mut alone, "s", listed(&items));
    let turn = key(&alone, "1");
    assert!(alone.relay.stop_alone(alone.now, turn, None));
    assert_eq!(outcome(&alone, key(&alone, r#""a""#)), None);
}

#[test]
fn background_work_that_is_not_reported_is_not_nothing_acp_56() {
    let item = json!([{"type": "terminal", "terminalId": "i"}]);
    let mut rig = greeted();
    assert!(!rig.relay.may_hide_work());
    state(&mut rig, "s", json!({"state": "idle"}));
    assert!(rig.relay.may_hide_work());
    state(&mut rig, "s", json!({"state": "idle", "background": null}));
    assert!(rig.relay.may_hide_work());
    state(&mut rig, "s", json!({"state": "idle", "background": item}));
    assert!(!rig.relay.may_hide_work());
    assert_eq!(in_flight(&rig), [r#"terminal "i""#]);
    // No longer reported: it is not known to be over.
    state(&mut rig, "s", json!({"state": "running"}));
    assert_eq!((in_flight(&rig).len(), rig.relay.may_hide_work()), (2, true));
    idle(&mut rig, "s", "end_turn");
    assert_eq!((in_flight(&rig), rig.relay.may_hide_work()), (vec![], false), "the whole list: nothing works");
}

#[test]
fn an_item_of_a_kind_that_is_not_known_is_work_acp_56() {
    let mut rig = greeted();
    let items =
        json!([{"type": "_watcher", "id": 7}, {"type": "_watcher", "id": 8}, {"type": "subagent", "sessionId": "c"}]);
    state(&mut rig, "s", json!({"state": "idle", "background": items}));
    assert_eq!(in_flight(&rig), [r#"background "_watcher""#, r#"background "_watcher""#, r#"subagent "c""#]);
    state(&mut rig, "s", json!({"state": "idle", "background": [{"type": "_watcher", "id": 8}]}));
    assert_eq!(in_flight(&rig), [r#"background "_watcher""#]);
    for bad in [json!(7), json!([7, {}, {"type": 1}]), json!("x"), json!([{"type": "terminal"}])] {
        state(&mut rig, "s", json!({"state": "idle", "background": bad}));
        assert!(rig.relay.may_hide_work(), "{bad}");
    }
}

#[test]
fn closing_a_session_ends_all_its_work_and_an_unknown_session_is_closed_acp_57() {
    for answer in [result(&9.into(), &json!({})), error(&9.into(), -32002)] {
        let mut rig = at_work();
        begin(&mut rig, 2, "t");
        state(&mut rig, "s", listed(&json!([{"type": "terminal", "terminalId": "i"}])));
        client(&mut rig, &request(&9.into(), "session/close", "s"));
        assert_eq!(in_flight(&rig).len(), 4);
        agent(&mut rig, &answer);
        assert_eq!(in_flight(&rig), ["session/prompt 2"], "{answer}");
    }
    let mut rig = at_work();
    client(&mut rig, &request(&9.into(), "session/close", "s"));
    agent(&mut rig, &error(&9.into(), -32603));
    assert_eq!(in_flight(&rig), ["session/prompt 1"]);
}

#[test]
fn a_childs_own_state_is_its_state_and_its_cancel_is_confirmed_by_it_acp_36() {
    let mut rig = at_work();
    let news = json!({"sessionUpdate": "subagent_update", "sessionId": "c", "capabilities": {"cancel": {}}});
    update(&mut rig, "s", &news);
    running(&mut rig, "c");
    state(&mut rig, "s", listed(&json!([{"type": "subagent", "sessionId": "c"}])));
    let child = rig.relay.children().next().unwrap();
    let (child, state_of) = (child.key, child.state);
    assert_eq!((state_of, in_flight(&rig)), (ChildState::Running, vec!["session/prompt 1".to_owned()]));
    let turn = key(&rig, "1");
    assert_eq!(stop(&mut rig, turn), [cancel("s"), cancel("c")], "under its grant (ACP-34)");
    idle(&mut rig, "s", "cancelled");
    let told = |rig: &RelayRig| rig.relay.child(child).unwrap().cancel.unwrap().outcome;
    assert_eq!(told(&rig), Outcome::Sent);
    idle(&mut rig, "c", "cancelled");
    assert!(matches!(told(&rig), Outcome::Confirmed { .. }));
    assert_eq!(rig.relay.child(child).unwrap().state, ChildState::Idle(ChildEnd::Cancelled));
}

#[test]
fn an_agent_that_is_gone_leaves_its_work_unknown_acp_54() {
    let mut rig = at_work();
    state(&mut rig, "s", listed(&json!([{"type": "terminal", "terminalId": "i"}])));
    let turn = key(&rig, "1");
    stop(&mut rig, turn);
    rig.end(Side::Server, &End::Closed);
    assert_eq!(outcome(&rig, turn), Some(Outcome::Unknown));
    assert_eq!((in_flight(&rig), rig.at_client()), (vec![], vec![]), "no message is due for it");
}

#[test]
fn what_an_agent_floods_is_bounded_and_said_to_be_so() {
    let mut rig = greeted();
    for number in 0..400 {
        state(&mut rig, &format!("s{number}"), json!({"state": "running", "background": []}));
    }
    assert!(rig.relay.may_hide_work());
    assert_eq!(rig.relay.requests(Side::Client).count(), 256);
    let items: Vec<_> = (0..1000).map(|id| json!({"type": "terminal", "terminalId": id.to_string()})).collect();
    let mut rig = greeted();
    state(&mut rig, "s", json!({"state": "idle", "background": items}));
    assert!(rig.relay.may_hide_work());
    assert_eq!(rig.relay.requests(Side::Client).count(), 64);
    let long = "x".repeat(300);
    state(&mut rig, &long, json!({"state": "running", "background": []}));
    state(&mut rig, "s", json!({"state": "idle", "background": [{"type": "terminal", "terminalId": long}]}));
    assert!(in_flight(&rig).is_empty() && rig.relay.may_hide_work());
}

#[test]
fn a_key_against_duplicates_passes_and_no_prompt_is_sent_again_by_the_relay_acp_58() {
    let mut rig = greeted();
    let prompt = |id: i64| {
        let params = json!({"sessionId": "s", "prompt": [], "idempotencyKey": "k"});
        json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})
    };
    client(&mut rig, &prompt(1));
    client(&mut rig, &prompt(2));
    for id in [1, 2] {
        agent(&mut rig, &result(&id.into(), &json!({"messageId": "m"})));
    }
    rig.pass(Duration::from_secs(600));
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
}

#[test]
fn an_id_is_not_null_and_is_free_again_after_its_answer_acp_59() {
    let mut rig = greeted();
    for again in [false, true] {
        client(&mut rig, &request(&1.into(), "session/prompt", "s"));
        if !again {
            rig.from_client(&request(&1.into(), "session/prompt", "s").to_string());
            assert_eq!(rig.at_client().len(), 1, "it is in flight, and the second is refused");
        }
        // The two directions are separate.
        agent(&mut rig, &request(&1.into(), "session/request_permission", "s"));
        client(&mut rig, &result(&1.into(), &json!({"outcome": {"outcome": "cancelled"}})));
        agent(&mut rig, &result(&1.into(), &json!({"messageId": "m"})));
    }
    rig.from_client(&request(&Value::Null, "session/prompt", "s").to_string());
    assert_eq!((rig.at_client().len(), rig.at_server()), (1, vec![]));
}

/// An agent may list what it leaves at work only with the end of its turn.
#[test]
fn background_work_knows_the_turn_that_began_it_after_its_end_too_acp_56() {
    let mut rig = at_work();
    let turn = key(&rig, "1");
    let terminal = |id: &str| json!({"type": "terminal", "terminalId": id});
    state(&mut rig, "s", listed(&json!([terminal("during")])));
    let both = json!([terminal("during"), terminal("with its end")]);
    state(&mut rig, "s", json!({"state": "idle", "stopReason": "end_turn", "background": both}));
    let all = json!([terminal("during"), terminal("with its end"), terminal("later")]);
    state(&mut rig, "s", json!({"state": "idle", "background": all}));
    let opened_by = |id: &str| rig.relay.view(key(&rig, id)).expect("it is at work").opened_by;
    assert_eq!([r#""during""#, r#""with its end""#, r#""later""#].map(opened_by), [Some(turn), Some(turn), None]);
}
