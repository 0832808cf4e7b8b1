//! A side that has gone away, for a driver that stands for the endpoint itself (D27); and the view of what is open.

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    dialect::{Dialect, acp, mcp},
    receipt::Outcome,
    relay::{RelayConfig, RequestState},
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn rig(dialect: &'static Dialect) -> RelayRig {
    let dialects = Sides { client: Some(dialect), server: Some(dialect) };
    RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() })
}

fn ask(rig: &mut RelayRig, id: u32) {
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#));
}

#[test]
fn what_a_client_asked_is_cancelled_when_it_goes_and_what_was_not_written_never_starts() {
    let mut rig = rig(&mcp::LATEST_LEGACY);
    ask(&mut rig, 1);
    assert_eq!(rig.at_server().len(), 1);
    ask(&mut rig, 2);
    rig.relay.handle_disconnect(rig.now, Side::Client);
    let heard = rig.at_server();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains("notifications/cancelled") && heard[0].contains("connection ended"), "{heard:?}");
    rig.pass(Duration::ZERO);
    let receipts = ["1", "2"].map(|id| rig.receipt(Side::Client, id).map(|r| (r.cause.code, r.outcome)));
    let cause = CauseCode::Disconnect;
    assert_eq!(receipts, [Some((cause, Outcome::Sent)), Some((cause, Outcome::NeverSent))]);
    // Nobody waits for the answer any more.
    rig.from_server(ANSWER);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.relay.in_flight(Side::Client), 0);
}

// MCP-P03.
#[test]
fn progress_that_was_not_written_when_its_client_went_never_is() {
    let mut rig = rig(&mcp::LATEST_LEGACY);
    for id in [1, 2] {
        let meta = format!(r#""_meta":{{"progressToken":{id}}}"#);
        rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{meta}}}}}"#));
    }
    rig.at_server();
    let progress = |token: u32| {
        let params = format!(r#"{{"progressToken":{token},"progress":1}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    rig.from_server(&progress(1));
    rig.from_server(&progress(2));
    let begun = 10;
    rig.write(Side::Client, begun);
    rig.relay.handle_disconnect(rig.now, Side::Client);
    let heard = rig.at_client();
    assert_eq!(heard, [progress(1)], "what has begun is finished, and nothing else begins");
}

#[test]
fn where_a_cancel_is_answered_a_client_that_only_closed_its_output_is() {
    let mut rig = rig(&acp::V1);
    ask(&mut rig, 1);
    rig.at_server();
    rig.relay.handle_disconnect(rig.now, Side::Client);
    assert_eq!(rig.at_server().len(), 1);
    rig.from_server(ANSWER);
    assert_eq!(rig.at_client(), [ANSWER]);
}

#[test]
fn what_the_other_side_asked_goes_on() {
    let mut rig = rig(&acp::V1);
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}"#;
    rig.from_server(ask);
    assert_eq!(rig.at_client(), [ask]);
    rig.relay.handle_disconnect(rig.now, Side::Client);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.relay.in_flight(Side::Server), 1);
}

#[test]
fn the_view_tells_how_far_each_request_is() {
    let mut rig = rig(&acp::V1);
    let states = |rig: &RelayRig| rig.relay.requests(Side::Client).map(|r| r.state).collect::<Vec<_>>();
    ask(&mut rig, 1);
    assert_eq!(states(&rig), [RequestState::Queued]);
    rig.at_server();
    assert_eq!(states(&rig), [RequestState::Sent]);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert_eq!(states(&rig), [RequestState::Cancelling]);
    let cause = rig.relay.requests(Side::Client).next().and_then(|r| Some(r.cancel?.cause.code));
    assert_eq!(cause, Some(CauseCode::Caller));
    rig.from_server(ANSWER);
    assert_eq!(states(&rig), [RequestState::Answering]);
    rig.at_client();
    assert_eq!(states(&rig), []);
}
