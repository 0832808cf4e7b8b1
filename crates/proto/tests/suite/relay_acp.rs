//! ACP turns through a relay (D37, ACP-08).

use core::time::Duration;

use rescind_proto::{
    link::Clock,
    receipt::Outcome,
    relay::{ClockRule, End, RelayConfig},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

const PROMPT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
const CANCEL_PROMPT: &str = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
const SESSION_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}"#;
const STOPPED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#;
const ASK: &str = r#"{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s"}}"#;
const ASK_CANCELLED: &str = r#"{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}"#;

fn acp_with(config: RelayConfig) -> RelayRig {
    let mut rig = RelayRig::new(config);
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.at_client();
    rig
}

fn prompted() -> RelayRig {
    let mut rig = acp_with(RelayConfig::default());
    rig.from_client(PROMPT);
    rig.at_server();
    rig
}

#[test]
fn a_cancelled_prompt_sends_one_session_cancel_and_no_other_notification() {
    let mut rig = prompted();
    rig.from_client(CANCEL_PROMPT);
    rig.from_client(CANCEL_PROMPT);
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    rig.from_server(UPDATE);
    rig.from_server(STOPPED);
    assert_eq!(rig.at_client(), [UPDATE, STOPPED]);
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })));
}

#[test]
fn a_session_cancel_of_the_client_passes_and_is_not_said_twice() {
    let mut rig = prompted();
    rig.from_client(SESSION_CANCEL);
    rig.from_client(CANCEL_PROMPT);
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent));
    rig.from_server(STOPPED);
    assert_eq!(rig.at_client(), [STOPPED]);
}

#[test]
fn cancelling_a_prompt_closes_the_permission_requests_of_its_session() {
    let mut rig = prompted();
    rig.from_server(ASK);
    rig.from_server(&ASK.replace("\"p\"", "\"q\"").replace("\"s\"", "\"other\""));
    rig.at_client();
    rig.from_client(CANCEL_PROMPT);
    assert_eq!(rig.at_server(), [SESSION_CANCEL, ASK_CANCELLED]);
    assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}"#]);
    rig.from_client(ASK_CANCELLED);
    assert_eq!(rig.at_server(), [""; 0], "the client's own answer comes after ours");
}

#[test]
fn a_client_that_cancels_the_session_itself_answers_permissions_itself() {
    let mut rig = prompted();
    rig.from_server(ASK);
    rig.at_client();
    rig.from_client(SESSION_CANCEL);
    assert_eq!((rig.at_server(), rig.at_client()), (vec![SESSION_CANCEL.to_owned()], vec![]));
    rig.from_client(ASK_CANCELLED);
    assert_eq!(rig.at_server(), [ASK_CANCELLED]);
}

#[test]
fn a_mute_agents_turn_is_ended_for_the_client_after_its_limit_and_muted() {
    let mut rig = prompted();
    rig.from_client(CANCEL_PROMPT);
    rig.at_server();
    rig.pass(Duration::from_secs(29));
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [UPDATE], "no synthetic stop reason before the limit, and updates still pass");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.at_client(), [STOPPED]);
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [""; 0], "muted until the agent's own answer");
    rig.from_server(STOPPED);
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [UPDATE]);
}

#[test]
fn only_updates_of_a_muted_turn_are_swallowed_and_what_else_names_its_session_passes() {
    let other = UPDATE.replace("session/update", "_vendor/note");
    let mut rig = prompted();
    rig.from_client(CANCEL_PROMPT);
    rig.at_server();
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.at_client(), [STOPPED]);
    rig.from_server(&other);
    assert_eq!(rig.at_client(), [&*other]);
    rig.from_client(UPDATE);
    assert_eq!(rig.at_server(), [UPDATE], "an update that is not the agent's");
}

#[test]
fn a_cancelled_permission_request_is_answered_with_its_own_result() {
    let mut rig = prompted();
    rig.from_server(ASK);
    rig.at_client();
    rig.from_server(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}"#);
    assert_eq!(rig.at_client().len(), 1);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.at_server(), [ASK_CANCELLED]);
}

#[test]
fn updates_reset_the_response_clock_of_their_turn() {
    let limit = Duration::from_secs(2);
    let clocks = vec![ClockRule { clock: Clock::Response, method: None, name: None, limit }];
    let mut rig = acp_with(RelayConfig { clocks, ..RelayConfig::default() });
    rig.from_client(PROMPT);
    rig.at_server();
    for _ in 0..5 {
        rig.pass(Duration::from_secs(1));
        rig.from_server(UPDATE);
    }
    assert_eq!(rig.at_server(), [""; 0]);
    rig.pass(limit);
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    assert!(rig.at_client().last().unwrap().contains("-31001"));
}

#[test]
fn an_operator_ends_a_turn_as_its_method_does() {
    let mut rig = prompted();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.at_client(), [""; 0], "the agent is asked to end its turn itself");
    assert_eq!(rig.at_server(), [SESSION_CANCEL]);
    assert!(!rig.relay.stop(rig.now, key, None), "once");
    rig.from_server(UPDATE);
    rig.from_server(STOPPED);
    assert_eq!(rig.at_client(), [UPDATE, STOPPED], "its own words, to the end");
    assert_eq!(rig.at_server(), [""; 0]);
}

#[test]
fn a_turn_that_its_agent_does_not_end_is_ended_for_the_operator() {
    let mut rig = prompted();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, Some("too \"dear\"")));
    assert_eq!(rig.at_server().len(), 1);
    rig.pass(Duration::from_secs(30));
    let receipt = r#"{"cause":"operator","reason":"too \"dear\"","outcome":"sent"}"#;
    let meta = format!(r#","_meta":{{"rescind/receipt":{receipt}}}"#);
    let stopped = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"stopReason":"cancelled"{meta}}}}}"#);
    assert_eq!(rig.at_client(), [stopped], "an error on a prompt makes some clients kill the agent");
    rig.from_server(UPDATE);
    rig.from_server(STOPPED);
    assert_eq!(rig.at_client(), [""; 0]);
}

#[test]
fn a_null_id_is_a_request_like_any_other() {
    let mut rig = acp_with(RelayConfig::default());
    let call = r#"{"jsonrpc":"2.0","id":null,"method":"session/new","params":{}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":null,"result":{}}"#;
    rig.from_client(call);
    assert_eq!(rig.at_server(), [call]);
    rig.from_server(answer);
    assert_eq!(rig.at_client(), [answer]);
}

#[test]
fn an_agent_that_dies_answers_its_cancelled_turn() {
    let mut rig = prompted();
    rig.from_client(CANCEL_PROMPT);
    rig.at_server();
    rig.end(Side::Server, &End::Signalled(9));
    assert_eq!(rig.at_client(), [STOPPED]);
    assert_eq!(rig.outcome("1"), Some(Outcome::Unknown));
}

/// A client that declares the cancels of the proposal, before an agent that does not (ACP-20).
fn gated() -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig::default());
    let declared = r#"{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{declared}}}"#));
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.at_client();
    rig.from_client(PROMPT);
    rig.at_server();
    rig
}

#[test]
fn the_gate_of_a_requests_cancel_is_none_for_that_of_a_turn() {
    let mut rig = gated();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.at_server(), [SESSION_CANCEL], "every agent understands it (D37)");
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent));
    rig.from_server(UPDATE);
    rig.from_server(STOPPED);
    assert_eq!(rig.at_client(), [UPDATE, STOPPED]);
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })));
}

#[test]
fn a_second_cancel_of_a_turn_does_not_pass_the_first() {
    let mut rig = acp_with(RelayConfig::default());
    rig.from_client(PROMPT);
    rig.from_client(&SESSION_CANCEL.replace("{\"sessionId", "{\"n\":1,\"sessionId"));
    let prompt = PROMPT.len() + 1;
    rig.write(Side::Server, prompt);
    rig.from_client(&SESSION_CANCEL.replace("{\"sessionId", "{\"n\":2,\"sessionId"));
    rig.write(Side::Server, SESSION_CANCEL.len() + "\"n\":1,".len() + 1);
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent), "the first has left");
    rig.from_server(STOPPED);
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })), "{:?}", rig.outcome("1"));
    let heard = rig.at_server();
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[1].contains("\"n\":1") && heard[2].contains("\"n\":2"), "{heard:?}");
}

#[test]
fn a_turn_stopped_before_the_client_cancels_it_is_told_once_and_ends_once() {
    let mut rig = prompted();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert!(!rig.relay.stop(rig.now, key, None));
    rig.from_client(SESSION_CANCEL);
    rig.from_client(CANCEL_PROMPT);
    assert_eq!(rig.at_server(), [SESSION_CANCEL, SESSION_CANCEL], "ours, and then what the client says");
    rig.pass(Duration::from_secs(30));
    assert_eq!(rig.at_client().len(), 1, "the agent is mute");
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.at_client(), rig.relay.residue()), (vec![], 0));
}

#[test]
fn a_queued_turn_that_is_stopped_never_starts() {
    let mut rig = acp_with(RelayConfig::default());
    rig.from_client(PROMPT);
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert_eq!(rig.at_server(), [""; 0]);
    assert!(rig.at_client()[0].contains(r#""stopReason":"cancelled""#));
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    rig.from_server(UPDATE);
    assert_eq!(rig.at_client(), [UPDATE], "nothing is muted for a turn that never was");
}

#[test]
fn a_turn_is_ended_at_once_when_its_agent_cannot_be_told() {
    let mut rig = prompted();
    let key = rig.key(Side::Client, "1").unwrap();
    rig.relay.handle_write_closed(rig.now, Side::Server);
    assert!(rig.relay.stop(rig.now, key, None));
    assert!(rig.at_client()[0].contains(r#""stopReason":"cancelled""#));
    assert_eq!(rig.outcome("1"), Some(Outcome::Unknown));
}

#[test]
fn what_an_agent_asks_is_no_turn_of_the_client() {
    let mut rig = acp_with(RelayConfig::default());
    rig.from_server(PROMPT);
    rig.at_client();
    rig.from_client(SESSION_CANCEL);
    rig.from_server(ASK);
    assert_eq!(rig.at_server(), [SESSION_CANCEL], "it passes");
    assert_eq!(rig.outcome("1"), None);
    assert!(rig.relay.requests(Side::Server).all(|view| view.cancel.is_none() && view.parent.is_none()));
}
