//! When a cancel may be sent at all: the capability of the proposal of 2025-11-13, and LSP's handshake
//! (case 71, ACP-20, ACP-21, LSP-06).

use rescind_proto::{
    cause::CauseCode,
    connection::{ConnectionConfig, HandlerEnd, IncomingKey, Reply},
    dialect::{acp, lsp},
    framing::Framing,
    link::Verdict,
    receipt::Outcome,
    rule::Rule,
    side::Side,
};

use crate::endpoint_rig::*;

const YES: &str = r#"{"cancellation":{"request":true}}"#;

fn hello(declares: bool) -> String {
    format!(r#"{{"protocolVersion":1,"clientCapabilities":{}}}"#, if declares { YES } else { "{}" })
}

fn welcome(declares: bool) -> String {
    format!(r#"{{"protocolVersion":1,"agentCapabilities":{}}}"#, if declares { YES } else { "{}" })
}

/// A client of which nobody said what it speaks, after the handshake.
fn free_client(client: bool, agent: bool) -> Rig {
    let mut rig = Rig::new(ConnectionConfig::new(Side::Client));
    rig.ask("initialize", &hello(client));
    rig.say();
    rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, welcome(agent))]);
    rig.settled();
    rig
}

fn free_agent(client: bool, agent: bool) -> Rig {
    let mut rig = Rig::new(ConnectionConfig::new(Side::Server));
    let key = initialize(&mut rig, client);
    rig.end(key, HandlerEnd::Returned(Reply::Result(welcome(agent).as_bytes())));
    rig.say();
    rig
}

fn initialize(rig: &mut Rig, declares: bool) -> IncomingKey {
    rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}}"#, hello(declares))]);
    rig.start().remove(0).key
}

// Case 71: both, one side, neither.
#[test]
fn a_cancel_goes_only_to_a_side_that_declared_it() {
    for (client, agent) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut rig = free_client(client, agent);
        let proposal = client || agent;
        assert_eq!(rig.conn.dialect(), if proposal { &acp::RFD_2025_11_13 } else { &acp::V1 });
        let key = rig.call("work");
        rig.cancel(key);
        assert_eq!(rig.settled().len(), 1);
        let (outcome, said) = match (proposal, agent) {
            (false, _) => (Outcome::Sent, vec![acp_cancel("2")]),
            (true, true) => (Outcome::Sent, vec![lsp_cancel("2")]),
            (true, false) => (Outcome::NotSendable, vec![]),
        };
        assert_eq!(rig.say(), said, "client {client}, agent {agent}");
        assert_eq!(rig.outcome(key), Some(outcome));
        rig.leaves_nothing();
    }
}

// D30.
#[test]
fn a_cancel_to_a_side_that_did_not_declare_it_is_ignored() {
    for agent in [true, false] {
        let mut rig = free_agent(true, agent);
        let key = rig.serve("1", "work");
        rig.hear(&[&lsp_cancel("1")]);
        if agent {
            assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
            rig.end(key, HandlerEnd::Cancelled);
            assert!(rig.say()[0].contains(r#"{"code":-32800,"message":"Cancelled"}"#));
        } else {
            assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::Acp20)]);
            assert_eq!(rig.violations(), [Rule::Acp20]);
            assert_eq!(rig.fired(), []);
            rig.end(key, OK);
            assert_eq!(rig.say(), [result("1")]);
        }
    }
}

// ACP-21.
#[test]
fn nothing_is_cancelled_before_capabilities_are_exchanged() {
    let mut config = ConnectionConfig::new(Side::Client);
    config.dialect = Some(&acp::RFD_2025_11_13);
    let mut rig = Rig::new(config);
    let handshake = rig.ask("initialize", &hello(true));
    let early = rig.ask("work", "");
    rig.say();
    rig.cancel(early);
    rig.cancel(handshake);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.outcome(early), Some(Outcome::NotSendable));
    assert_eq!(rig.outcome(handshake), Some(Outcome::NotSendable));
}

// D30, ACP-21.
#[test]
fn a_cancel_that_arrives_during_the_handshake_is_a_violation() {
    let mut config = config(Side::Server, &acp::RFD_2025_11_13);
    config.dialect = Some(&acp::RFD_2025_11_13);
    let mut rig = Rig::new(config);
    initialize(&mut rig, true);
    let key = rig.serve("1", "work");
    rig.hear(&[&lsp_cancel("1")]);
    assert_eq!(rig.violations(), [Rule::Acp21]);
    assert_eq!(rig.fired(), []);
    rig.end(key, OK);
}

fn lsp_client() -> Rig {
    let mut config = ConnectionConfig::new(Side::Client);
    config.dialect = Some(&lsp::LSP);
    config.framing = Framing::Line;
    Rig::new(config)
}

// LSP-06, D18.
#[test]
fn a_language_client_cancels_nothing_before_the_handshake_and_after_shutdown() {
    let mut rig = lsp_client();
    rig.ask("initialize", "{}");
    let early = rig.ask("a", "");
    rig.say();
    rig.cancel(early);
    assert_eq!(rig.outcome(early), Some(Outcome::NotSendable));
    rig.hear(&[&result("1")]);
    let fine = rig.ask("b", "");
    rig.say();
    rig.cancel(fine);
    assert_eq!(rig.say(), [lsp_cancel("3")]);
    let late = rig.ask("c", "");
    rig.ask("shutdown", "");
    rig.say();
    rig.cancel(late);
    assert_eq!(rig.outcome(late), Some(Outcome::NotSendable));
    assert_eq!(rig.say(), [""; 0]);
}

#[test]
fn a_language_server_may_cancel_after_the_clients_shutdown() {
    let mut rig = server(&lsp::LSP);
    rig.serve("1", "shutdown");
    let key = rig.call("workspace/applyEdit");
    rig.cancel(key);
    assert_eq!(rig.say(), [lsp_cancel("1")]);
}
