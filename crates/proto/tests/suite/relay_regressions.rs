//! What the explorer, the walks and real peers have found in the relay, each as the shortest way to it.

use core::time::Duration;

use rescind_proto::{
    dialect::{Dialect, acp, mcp},
    receipt::Outcome,
    relay::{End, Relay, RelayConfig},
    side::{Side, Sides},
    time::Instant,
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"m/call","params":{"_meta":{"progressToken":"t"}}}"#;

fn between(client: &'static Dialect, server: &'static Dialect) -> RelayRig {
    let dialects = Sides { client: Some(client), server: Some(server) };
    RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
}

#[test]
fn nothing_is_queued_for_a_side_that_can_no_longer_be_written_to() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    rig.from_client(CALL);
    rig.at_server();
    rig.relay.handle_write_closed(rig.now, Side::Server);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.relay.pending(Side::Server), b"");
    assert_eq!(rig.outcome("1"), Some(Outcome::Unknown));
}

#[test]
fn a_servers_end_queues_no_cancel_for_a_deaf_client() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    rig.from_server(CALL);
    rig.at_client();
    rig.relay.handle_write_closed(rig.now, Side::Client);
    rig.end(Side::Server, &End::Closed);
    assert_eq!(rig.relay.pending(Side::Client), b"");
}

#[test]
fn a_cancel_that_no_deaf_server_can_hear_is_still_answered() {
    let mut rig = between(&acp::V1, &acp::V1);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"m/call","params":{}}"#);
    rig.at_server();
    rig.relay.handle_write_closed(rig.now, Side::Server);
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
fn the_answer_of_a_forgotten_request_is_not_taken_for_one_whose_id_looks_alike() {
    let call = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m/call","params":{{}}}}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    for time in [0, 600] {
        for late in ["5", "5.0"] {
            let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
            rig.from_client(&call("5"));
            rig.at_server();
            rig.from_client(cancel);
            rig.at_server();
            rig.pass(Duration::from_secs(time));
            rig.from_client(&call("\"5\""));
            let passed = rig.at_server();
            rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{late},"result":{{}}}}"#));
            assert_eq!(rig.at_client(), [""; 0], "{late} after {time} s");
            let id = if passed == [call("\"5\"")] { "\"5\"" } else { "\"rescind-2147483647\"" };
            rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
            assert_eq!(rig.at_client(), [r#"{"jsonrpc":"2.0","id":"5","result":{}}"#]);
        }
    }
}

#[test]
fn a_sides_tombstones_do_not_outlive_the_longest_age_because_the_other_has_younger_ones() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    let call = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m/call","params":{{}}}}"#);
    let cancel =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    for (side, id) in [(Side::Client, 1), (Side::Server, 2), (Side::Client, 3)] {
        rig.send(side, &call(id));
        rig.send(side, &cancel(id));
        rig.pass(Duration::from_secs(100));
    }
    rig.pass(Duration::from_secs(399));
    assert_eq!((rig.relay.remembered(Side::Client), rig.relay.remembered(Side::Server)), (1, 1));
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.relay.remembered(Side::Client), rig.relay.remembered(Side::Server)), (1, 0));
}

#[test]
fn a_side_that_has_ended_is_not_heard() {
    let mut rig = between(&mcp::LATEST_LEGACY, &mcp::LATEST_LEGACY);
    rig.end(Side::Server, &End::Closed);
    rig.from_server(CALL);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.relay.in_flight(Side::Server), 0);
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

/// An id that has to be replaced in the very first message: the copy was framed as a line.
#[test]
fn what_the_first_message_leads_to_is_framed_as_it_is() {
    let mut relay = Relay::new(RelayConfig::default());
    let framed = |id: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
        format!("Content-Length: {}\r\n\r\n{body}", body.len())
    };
    relay.handle_input(Instant::ORIGIN, Side::Client, framed("0").as_bytes());
    let pending = relay.pending(Side::Server);
    assert_eq!(core::str::from_utf8(pending), Ok(&*framed("2147483647")));
}

/// Without a handshake the dialect is a guess until a cancel is spelled, and every request in flight was in the one that
/// the spelling tells.
#[test]
fn the_first_cancel_tells_the_dialect_of_every_request_in_flight() {
    let mut rig = RelayRig::new(RelayConfig::default());
    for id in [1, 2] {
        rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work"}}"#));
    }
    rig.from_server(r#"{"jsonrpc":"2.0","id":7,"method":"ask"}"#);
    rig.at_server();
    rig.at_client();
    let cancel = |id: u32| format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#);
    for id in [1, 2] {
        rig.from_client(&cancel(id));
        assert_eq!(rig.at_server(), [cancel(id)]);
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32800,"message":"Request cancelled"}}}}"#);
        rig.from_server(&answer);
        assert_eq!(rig.at_client(), [answer], "in this dialect a cancelled request is answered (ACP-01)");
    }
    rig.from_server(&cancel(7));
    assert_eq!(rig.at_client(), [cancel(7)]);
}
