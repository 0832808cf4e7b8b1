//! Two sides that settle cancels differently: nobody is left hanging, nobody hears too much (D34).

use core::time::Duration;

use rescind_proto::{
    dialect::{CancelForm, Dialect, Family, acp, lsp, mcp},
    framing::Framing,
    link::Verdict,
    receipt::{Answer, Outcome},
    relay::{End, RelayConfig, RelayEvent, StuckSign},
    rule::Rule,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

fn between(client: &'static Dialect, server: &'static Dialect) -> RelayRig {
    let dialects = Sides { client: Some(client), server: Some(server) };
    RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"done":true}}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
const MCP_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
const ACP_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
const LSP_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;

/// A dialect of nobody's: the words of ACP, the silence of MCP.
static SILENT_ACP: Dialect =
    Dialect { name: "custom", family: Family::Custom, settlement: mcp::LATEST_LEGACY.settlement, ..acp::V1 };

#[test]
fn a_silent_server_under_an_answered_dialect_is_answered_for_after_the_grace() {
    let mut rig = between(&acp::V1, &SILENT_ACP);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(ACP_CANCEL);
    assert_eq!(rig.at_server(), [ACP_CANCEL]);
    rig.pass(Duration::from_millis(4999));
    assert_eq!(rig.at_client(), [""; 0]);
    rig.pass(Duration::from_millis(1));
    let text = "cancelled; not confirmed, the work may still be running";
    assert_eq!(
        rig.at_client(),
        [format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32800,"message":"{text}","data":{{"receipt":{{"cause":"caller","outcome":"sent"}}}}}}}}"#
        )]
    );
    assert!(!rig.events.iter().any(|event| matches!(event, RelayEvent::Stuck { .. })), "silence is all that it owes");
    rig.from_server(RESULT);
    assert_eq!((rig.at_client(), rig.late()), (vec![], 1), "the upstream's own answer comes too late");
    assert!(matches!(rig.outcome("1"), Some(Outcome::AnsweredAfter { answer: Answer::Result, .. })));
}

#[test]
fn an_answering_server_under_a_silent_dialect_is_swallowed() {
    let mut rig = between(&mcp::LATEST_LEGACY, &lsp::LSP);
    rig.from_client(CALL);
    let server_call = rig.at_server();
    rig.from_client(MCP_CANCEL);
    let sent = rig.at_server();
    assert_eq!(server_call, [CALL.replace("\"id\":1", "\"id\":2147483647")], "eras differ: the relay's own ids");
    assert_eq!(sent, [LSP_CANCEL.replace("\"id\":1", "\"id\":2147483647")]);
    rig.from_server(&CANCELLED.replace("\"id\":1", "\"id\":2147483647"));
    assert_eq!(rig.at_client(), [""; 0]);
    assert!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })));
}

#[test]
fn a_server_that_owes_an_answer_to_a_cancel_is_watched_until_the_grace_ends() {
    let watched = |client: &'static Dialect, server: &'static Dialect, cancel: &str| {
        let mut rig = between(client, server);
        rig.from_client(CALL);
        rig.at_server();
        let idle = rig.relay.poll_timeout();
        assert_eq!(idle, None, "no clock runs yet");
        rig.from_client(cancel);
        rig.at_server();
        rig.at_client();
        let in_flight = rig.relay.in_flight(Side::Client);
        let grace = rig.relay.poll_timeout() == Some(rig.now + Duration::from_secs(5));
        rig.pass(Duration::from_secs(5));
        let stuck = |event: &RelayEvent| matches!(event, RelayEvent::Stuck { sign: StuckSign::NoAnswer, .. });
        (in_flight, grace, rig.events.iter().any(stuck))
    };
    assert_eq!(watched(&mcp::LATEST_LEGACY, &lsp::LSP, MCP_CANCEL), (0, true, true), "its requester waits no more");
    assert_eq!(watched(&lsp::LSP, &lsp::LSP, LSP_CANCEL), (1, true, true));
    assert_eq!(watched(&acp::V1, &SILENT_ACP, ACP_CANCEL), (1, true, false), "it is answered for");
    assert_eq!(watched(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY, MCP_CANCEL), (0, false, false), "nobody waits");
}

#[test]
fn an_answered_server_answers_an_answered_client() {
    for (dialect, cancel) in [(&acp::V1, ACP_CANCEL), (&lsp::LSP, LSP_CANCEL)] {
        for answer in [CANCELLED, RESULT] {
            let mut rig = between(dialect, dialect);
            rig.from_client(CALL);
            rig.at_server();
            rig.from_client(cancel);
            assert_eq!(rig.at_server(), [cancel]);
            rig.from_server(answer);
            assert_eq!(rig.at_client(), [answer], "exactly one answer, whatever it says");
            rig.pass(Duration::from_secs(60));
            assert_eq!(rig.at_client(), [""; 0]);
            assert_eq!(matches!(rig.outcome("1"), Some(Outcome::Confirmed { .. })), answer == CANCELLED);
        }
    }
}

#[test]
fn a_request_withdrawn_under_an_answered_dialect_is_answered_at_once() {
    let mut rig = between(&lsp::LSP, &lsp::LSP);
    rig.from_client(CALL);
    rig.from_client(LSP_CANCEL);
    assert_eq!(rig.at_server(), [""; 0]);
    let receipt = r#""data":{"receipt":{"cause":"caller","outcome":"never_sent"}}"#;
    assert_eq!(rig.at_client(), [CANCELLED.replace("cancelled\"}", &format!("cancelled\",{receipt}}}"))]);
}

#[test]
fn an_overtaking_cancel_under_an_answered_dialect_is_answered() {
    let mut rig = between(&lsp::LSP, &lsp::LSP);
    rig.from_client(LSP_CANCEL);
    rig.from_client(CALL);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.at_client().len(), 1);
}

#[test]
fn spellings_are_translated_both_ways() {
    let mut rig = between(&acp::V1, &acp::RFD_2025_11_13);
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    rig.from_client(hello);
    rig.at_server();
    let agent = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}}"#;
    rig.from_server(agent);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(ACP_CANCEL);
    assert_eq!(rig.at_server(), [LSP_CANCEL], "the proposal's spelling is the one of LSP");
}

#[test]
fn a_peer_that_used_the_older_spelling_gets_it_back() {
    let mut rig = between(&acp::V1, &acp::V1);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":1,"message":"no"}}"#);
    assert_eq!(rig.at_server(), [ACP_CANCEL], "the agent gets the current form");
    rig.from_server(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read","params":{}}"#);
    rig.at_client();
    rig.from_server(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#);
    assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":7}}"#]);
}

#[test]
fn the_proposals_gate_has_three_scenarios() {
    let none = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    let yes = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}}"#;
    let agent_no = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
    let agent_yes = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"fs/read","params":{}}"#;
    for (client, agent, to_agent, to_client) in
        [(yes, agent_no, false, true), (none, agent_yes, true, false), (yes, agent_yes, true, true)]
    {
        let mut rig = RelayRig::new(RelayConfig::default());
        rig.from_client(client);
        rig.at_server();
        rig.from_server(agent);
        rig.at_client();
        rig.from_client(CALL);
        rig.at_server();
        rig.from_server(ask);
        rig.at_client();
        rig.from_client(LSP_CANCEL);
        assert_eq!(rig.at_server().len(), usize::from(to_agent));
        rig.from_server(LSP_CANCEL);
        assert_eq!(rig.at_client().len(), usize::from(to_client));
        let refused = usize::from(!to_agent) + usize::from(!to_client);
        assert_eq!(rig.violations().iter().filter(|(_, rule)| *rule == Rule::Acp20).count(), refused);
    }
}

#[test]
fn nothing_is_cancelled_before_the_proposals_handshake_ends() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}}"#);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":0}}"#);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.violations(), [(Side::Client, Rule::Acp21)]);
}

#[test]
fn lsp_cancels_wait_for_the_handshake_and_end_with_shutdown() {
    let mut rig = RelayRig::new(RelayConfig { framing: Some(Framing::Headers), ..RelayConfig::default() });
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1}}"#);
    assert_eq!(rig.at_server().len(), 1);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(LSP_CANCEL);
    assert_eq!(rig.violations(), [(Side::Client, Rule::Lsp06)]);
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}"#);
    rig.from_client(LSP_CANCEL);
    assert_eq!(rig.at_server(), [LSP_CANCEL]);
    rig.from_client(r#"{"jsonrpc":"2.0","id":2,"method":"work","params":{}}"#);
    rig.from_client(r#"{"jsonrpc":"2.0","id":3,"method":"shutdown"}"#);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.verdicts().last(), Some(&Verdict::Forbidden(Rule::Lsp06)));
}

#[test]
fn a_server_that_dies_answers_a_cancelled_request_of_an_answered_dialect() {
    let mut rig = between(&lsp::LSP, &lsp::LSP);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(LSP_CANCEL);
    rig.at_server();
    rig.end(Side::Server, &End::Exited(1));
    let answers = rig.at_client();
    assert_eq!(answers.len(), 1);
    assert!(answers[0].contains("-32800") && answers[0].contains("unknown"), "{answers:?}");
}

/// The words of another dialect of the user's own.
#[test]
fn a_table_of_ones_own_is_spoken() {
    static MINE: Dialect = Dialect {
        name: "mine",
        family: Family::Custom,
        cancel: CancelForm { method: "abort", id: "call", reason: Some("why") },
        ..mcp::LATEST_LEGACY
    };
    let mut rig = between(&mcp::LATEST_LEGACY, &MINE);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(&MCP_CANCEL.replace("\"requestId\":1", "\"requestId\":1,\"reason\":\"Stop\""));
    assert_eq!(rig.at_server(), [r#"{"jsonrpc":"2.0","method":"abort","params":{"call":1,"why":"Stop"}}"#]);
}

#[test]
fn a_spelling_tells_the_dialect_when_no_handshake_was_seen() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(ACP_CANCEL);
    assert_eq!(rig.at_server(), [ACP_CANCEL]);
    rig.from_server(CANCELLED);
    assert_eq!(rig.at_client(), [CANCELLED], "an ACP client is owed its answer");
}

#[test]
fn a_server_may_answer_a_revision_without_a_handshake_with_one_that_has_it() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}"#);
    assert_eq!(rig.relay.dialect(Side::Server).name, "mcp-2026-07-28");
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
    assert_eq!(rig.relay.dialect(Side::Server).name, "mcp-2025-06-18");
}

#[test]
fn an_operator_who_ends_the_waiting_of_a_cancelled_request_did_not_cancel_it() {
    let mut rig = between(&acp::V1, &acp::V1);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(ACP_CANCEL);
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, None));
    assert!(!rig.relay.stop(rig.now, key, None), "it is over");
    assert_eq!((rig.at_client().len(), rig.at_server().len()), (1, 1));
    assert_eq!(rig.verdicts(), [Verdict::Accepted], "one cancel");
    rig.pass(Duration::from_secs(5));
    assert!(rig.events.iter().any(|event| matches!(event, RelayEvent::Stuck { sign: StuckSign::NoAnswer, .. })));
}
