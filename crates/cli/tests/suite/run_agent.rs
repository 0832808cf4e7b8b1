//! Cancels of agents and language servers through `rescind run`, where every request is answered. Case numbers are
//! those of the field's collected behaviours.

use std::fs;

use rescind_testkit::puppet::{Framing, Rig};
use serde_json::Value;

use crate::shim::{
    PROGRAM, error_of,
    words::{error, greet_acp, notification, pass_to_client, pass_to_server, request, request_with, result},
};

fn acp(flags: &[&str]) -> Rig {
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    greet_acp(&mut rig, "", "");
    rig
}

fn cancel_request(id: &str) -> String {
    notification("$/cancel_request", &format!(r#"{{"requestId":{id}}}"#))
}

/// Case 12, where the requester must be answered.
#[test]
fn a_cancel_in_the_same_read_as_its_request_is_answered_where_that_is_due() {
    let mut rig = acp(&[]);
    rig.client.send_together(&[&request("1", "session/load"), &cancel_request("1")]);
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
    rig.expect_server_hears_nothing();
}

/// Case 63.
#[test]
fn a_mute_server_does_not_leave_a_client_waiting_that_must_be_answered() {
    let mut rig = acp(&["--grace", "20ms"]);
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &cancel_request("1"));
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -32800, "{error}");
    assert_eq!(error["message"], "cancelled; not confirmed, the work may still be running", "{error}");
    assert_eq!(error["data"]["receipt"]["outcome"], "sent", "{error}");
    // What it says later is swallowed.
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
}

#[test]
fn an_answer_to_a_cancelled_request_passes_where_one_is_due() {
    for answer in [result("1", r#"{"partial":true}"#), error("1", -32800, "Request cancelled")] {
        let mut rig = acp(&[]);
        pass_to_server(&mut rig, &request("1", "session/load"));
        pass_to_server(&mut rig, &cancel_request("1"));
        pass_to_client(&mut rig, &answer);
        rig.expect_client_hears_nothing();
    }
}

/// Case 71: the agent declares the capability.
#[test]
fn a_declared_capability_lets_the_cancel_through_in_its_spelling() {
    let mut rig = Rig::start(PROGRAM);
    greet_acp(&mut rig, "", r#","agentCapabilities":{"cancellation":{"request":true}}"#);
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &notification("$/cancelRequest", r#"{"id":1}"#));
    pass_to_client(&mut rig, &error("1", -32800, "Cancelled"));
}

/// Case 71: the client alone declares it, so the agent cannot be told.
#[test]
fn a_capability_that_is_missing_keeps_the_cancel_off_the_wire() {
    let mut rig = Rig::builder(PROGRAM).flags(["--log", "info", "--grace", "20ms"]).start();
    greet_acp(&mut rig, r#","clientCapabilities":{"cancellation":{"request":true}}"#, "");
    pass_to_server(&mut rig, &request("1", "session/load"));
    rig.client.send(&notification("$/cancelRequest", r#"{"id":1}"#));
    rig.expect_server_hears_nothing();
    // The other direction is open: the client declared it.
    pass_to_client(&mut rig, &request("7", "fs/read_text_file"));
    pass_to_client(&mut rig, &notification("$/cancelRequest", r#"{"id":7}"#));
    pass_to_server(&mut rig, &error("7", -32800, "Cancelled"));
}

/// Case 71: both declare it.
#[test]
fn a_capability_of_both_opens_both_directions() {
    let mut rig = Rig::start(PROGRAM);
    let capability = r#"{"cancellation":{"request":true}}"#;
    greet_acp(
        &mut rig,
        &format!(r#","clientCapabilities":{capability}"#),
        &format!(r#","agentCapabilities":{capability}"#),
    );
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &notification("$/cancelRequest", r#"{"id":1}"#));
    pass_to_client(&mut rig, &request("7", "fs/read_text_file"));
    pass_to_client(&mut rig, &notification("$/cancelRequest", r#"{"id":7}"#));
}

/// Case 71.
#[test]
fn nothing_is_cancelled_before_the_handshake_has_ended_nor_the_handshake() {
    let mut rig = Rig::builder(PROGRAM).flags(["--protocol", "acp-rfd-2025-11-13"]).start();
    let params = r#"{"protocolVersion":1}"#;
    pass_to_server(&mut rig, &request_with("0", "initialize", params));
    pass_to_server(&mut rig, &request("1", "session/new"));
    rig.client.send(&notification("$/cancelRequest", r#"{"id":1}"#));
    rig.client.send(&notification("$/cancelRequest", r#"{"id":0}"#));
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// Case 77.
#[test]
fn a_cancelled_turn_is_cancelled_as_a_session() {
    let mut rig = acp(&[]);
    pass_to_server(&mut rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
    rig.client.send(&cancel_request("1"));
    rig.server.expect(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    rig.expect_server_hears_nothing();
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
}

#[test]
fn a_session_cancel_passes_and_the_turn_is_answered_by_the_agent() {
    let mut rig = acp(&[]);
    pass_to_server(&mut rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
    pass_to_server(&mut rig, &notification("session/cancel", r#"{"sessionId":"s"}"#));
    pass_to_client(&mut rig, &notification("session/update", r#"{"sessionId":"s","update":{}}"#));
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
}

fn update(session: &str, kind: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"{kind}","sessionId":"child"}}"#);
    notification("session/update", &format!(r#"{{"sessionId":"{session}","update":{update}}}"#))
}

/// Case 62, of a turn (D34).
#[test]
fn after_a_timeout_the_late_updates_of_a_prompt_reach_nobody_and_news_of_a_child_does() {
    let mut rig = acp(&["--timeout", "session/prompt=20ms"]);
    pass_to_server(&mut rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
    rig.server.expect(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31001, "{error}");
    assert_eq!(error["message"], "no answer or progress for 20ms (set by rescind run --timeout)", "{error}");
    for kind in ["agent_message_chunk", "tool_call", "tool_call_update", "plan"] {
        rig.server.send(&update("s", kind));
        pass_to_client(&mut rig, &update("s", "subagent_update"));
        pass_to_client(&mut rig, &update("child", kind));
    }
    rig.server.send(&result("1", r#"{"stopReason":"cancelled"}"#));
    pass_to_client(&mut rig, &update("s", "agent_message_chunk"));
}

/// D16: the time is that of other requests, one after the other.
#[test]
fn a_load_whose_updates_stream_outlives_its_timeout_and_one_that_is_silent_does_not() {
    let mut rig = acp(&["--timeout", "session/load=2s", "--timeout", "session/set_mode=300ms"]);
    pass_to_server(&mut rig, &request_with("1", "session/load", r#"{"sessionId":"s"}"#));
    for tick in 2..10 {
        let id = tick.to_string();
        pass_to_server(&mut rig, &request_with(&id, "session/set_mode", r#"{"sessionId":"s"}"#));
        rig.server.expect(&cancel_request(&id));
        assert_eq!(error_of(&rig.client.receive(), &id)["code"], -31001);
        pass_to_client(&mut rig, &update("s", "agent_message_chunk"));
    }
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["message"], "no answer or progress for 2s (set by rescind run --timeout)", "{error}");
    rig.server.expect(&cancel_request("1"));
}

/// D16: a person signs in, in a browser.
#[test]
fn signing_in_has_no_timeout_unless_one_names_it() {
    let mut rig = acp(&["--timeout", "300ms", "--timeout", "initialize=1m"]);
    pass_to_server(&mut rig, &request_with("1", "authenticate", r#"{"methodId":"oauth"}"#));
    // A later request's time is up before.
    pass_to_server(&mut rig, &request_with("2", "session/new", "{}"));
    rig.server.expect(&cancel_request("2"));
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31001);
    pass_to_client(&mut rig, &result("1", "{}"));
}

/// Twenty-seven tools wait for a person, who stops the turn, and then presses "Allow" on each card that the client still
/// shows (D37). The tools are the agent's: what has run lies in a folder.
#[test]
fn a_late_allow_after_the_clients_own_stop_runs_no_tool() {
    let tools = tempfile::tempdir().expect("a temporary folder is made");
    // As agents do: it runs what was allowed, and nothing else.
    let act = |answer: &str| {
        let answer: Value = serde_json::from_str(answer).expect("the answer is JSON");
        if answer["result"]["outcome"]["outcome"] == "selected" {
            fs::write(tools.path().join(answer["id"].to_string()), "ran").expect("the tool runs");
        }
    };
    let has_run = || fs::read_dir(tools.path()).expect("the folder is there").count();
    let allow = |id: &str| result(id, r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#);
    let session = r#"{"sessionId":"s"}"#;

    let mut rig = acp(&[]);
    pass_to_server(&mut rig, &request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#));
    // One is allowed in time, so that it is seen that tools run.
    pass_to_client(&mut rig, &request_with("100", "session/request_permission", session));
    rig.client.send(&allow("100"));
    act(&rig.server.receive());
    assert_eq!(has_run(), 1);

    let cards: Vec<String> = (101..128).map(|id| id.to_string()).collect();
    for id in &cards {
        pass_to_client(&mut rig, &request_with(id, "session/request_permission", session));
    }
    pass_to_server(&mut rig, &notification("session/cancel", session));
    for id in &cards {
        let answer = rig.server.receive();
        act(&answer);
        assert_eq!(answer, result(id, r#"{"outcome":{"outcome":"cancelled"}}"#));
    }
    for id in &cards {
        rig.client.expect(&cancel_request(id));
    }
    for id in &cards {
        rig.client.send(&allow(id));
    }
    rig.expect_server_hears_nothing();
    assert_eq!(has_run(), 1, "a tool ran that nobody waits for");
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
}

/// D3: a peer that uses the older spelling is spoken to in it.
#[test]
fn an_agent_that_spells_it_the_old_way_is_told_the_old_way() {
    let mut rig = acp(&[]);
    let kotlin = |id: &str| notification("$/cancelRequest", &format!(r#"{{"requestId":{id}}}"#));
    pass_to_client(&mut rig, &request("7", "fs/read_text_file"));
    rig.server.send(&kotlin("7"));
    rig.client.expect(&cancel_request("7"));
    pass_to_server(&mut rig, &request("1", "session/load"));
    rig.client.send(&cancel_request("1"));
    rig.server.expect(&kotlin("1"));
}

#[test]
fn a_language_server_is_cancelled_in_its_framing_and_answers() {
    let mut rig = Rig::start(PROGRAM);
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(&mut rig, &request_with("0", "initialize", r#"{"processId":1,"capabilities":{}}"#));
    pass_to_client(&mut rig, &result("0", r#"{"capabilities":{}}"#));
    pass_to_server(&mut rig, &notification("initialized", "{}"));
    pass_to_server(&mut rig, &request("1", "textDocument/references"));
    pass_to_server(&mut rig, &notification("$/cancelRequest", r#"{"id":1}"#));
    pass_to_client(&mut rig, &error("1", -32800, "Request cancelled"));
    rig.client.send(&notification("$/cancelRequest", r#"{"id":1}"#));
    rig.expect_server_hears_nothing();
}
