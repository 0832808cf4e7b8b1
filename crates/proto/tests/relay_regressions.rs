//! What the explorer and the walks have found in the relay, each as the shortest way to it.

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, acp, mcp},
    receipt::Outcome,
    relay::{Config, End},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"m/call","params":{"_meta":{"progressToken":"t"}}}"#;

fn between(client: &'static Dialect, server: &'static Dialect) -> RelayRig {
    let dialects = Sides { client: Some(client), server: Some(server) };
    RelayRig::new(Config { dialects, ..Config::default() })
}

#[test]
fn nothing_is_queued_for_a_side_that_can_no_longer_be_written_to() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    rig.from_client(CALL);
    rig.at_server();
    rig.relay.handle_deaf(rig.now, Side::Server);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.relay.pending(Side::Server), b"");
    assert_eq!(rig.outcome("1"), Some(Outcome::Unknown));
}

#[test]
fn a_servers_end_queues_no_cancel_for_a_deaf_client() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    rig.from_server(CALL);
    rig.at_client();
    rig.relay.handle_deaf(rig.now, Side::Client);
    rig.end(Side::Server, &End::Closed);
    assert_eq!(rig.relay.pending(Side::Client), b"");
}

#[test]
fn a_cancel_that_no_deaf_server_can_hear_is_still_answered() {
    let mut rig = between(&acp::V1, &acp::V1);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"m/call","params":{}}"#);
    rig.at_server();
    rig.relay.handle_deaf(rig.now, Side::Server);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert_eq!(rig.at_client(), [""; 0], "the server may still answer what it has");
    rig.pass(Duration::from_secs(5));
    let answer = rig.at_client().pop().unwrap();
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"#), "{answer}");
}

#[test]
fn progress_that_waits_is_taken_back_when_its_request_is_cancelled() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    let other = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    let mut rig = between(&mcp::LATEST, &mcp::LATEST);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(progress);
    assert_eq!(rig.at_client(), [progress]);
    for frame in [progress, progress, other, progress] {
        rig.from_server(frame);
    }
    rig.write(Side::Client, 1);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.at_client(), [progress, other], "only what had begun is finished (MCP-H04)");
}

#[test]
fn a_subscriptions_messages_that_wait_are_taken_back_when_it_is_cancelled() {
    let mut rig = between(&mcp::LATEST, &mcp::LATEST);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#);
    rig.at_server();
    rig.from_server(
        r#"{"jsonrpc":"2.0","method":"n/changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#,
    );
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.at_client(), [""; 0]);
}
