//! A server before which somebody stands who takes messages, and says later what became of them (D51).

use core::time::Duration;

use rescind_proto::{
    id::RequestId,
    link::Departure,
    receipt::Outcome,
    relay::{End, RelayConfig, RequestState},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;

/// The call was taken.
fn taken() -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig { server_departs: true, ..RelayConfig::default() });
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    );
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#);
    rig.at_client();
    rig.from_client(CALL);
    assert_eq!(rig.at_server(), [CALL]);
    rig
}

fn departs(rig: &mut RelayRig, departure: &Departure) {
    rig.relay.handle_departure(rig.now, Side::Server, departure);
    rig.pass(Duration::from_millis(1));
}

fn state(rig: &RelayRig, id: &str) -> RequestState {
    let request = rig.key(Side::Client, id).expect("it was made");
    rig.relay.view(request).expect("it is known").state
}

#[test]
fn a_request_that_was_taken_is_sent_when_it_has_left() {
    let mut rig = taken();
    assert_eq!(state(&rig, "1"), RequestState::Queued);
    departs(&mut rig, &Departure::Request(RequestId::integer(1)));
    assert_eq!(state(&rig, "1"), RequestState::Sent);
    rig.from_client(CANCEL);
    assert_eq!(rig.at_server(), [CANCEL]);
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::Asked, None));
    rig.pass(Duration::from_secs(1));
    let left = rig.now;
    departs(&mut rig, &Departure::Cancel(RequestId::integer(1)));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::Sent, Some(left)));
}

#[test]
fn a_request_that_was_taken_back_was_never_sent() {
    let mut rig = taken();
    rig.from_client(CANCEL);
    assert_eq!(rig.at_server(), [CANCEL], "whoever has taken the request takes it back");
    departs(&mut rig, &Departure::Withdrawn(RequestId::integer(1)));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::NeverSent, None));
    // Of the next with this id its own is said.
    rig.from_client(CALL);
    assert_eq!(rig.at_server(), [CALL]);
    departs(&mut rig, &Departure::Cancel(RequestId::integer(1)));
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    assert_eq!(state(&rig, "1"), RequestState::Sent, "what has left in order to be cancelled has left");
}

#[test]
fn a_request_that_the_other_side_has_given_back_has_not_left() {
    let mut rig = taken();
    let id = RequestId::integer(1);
    departs(&mut rig, &Departure::Request(id.clone()));
    departs(&mut rig, &Departure::Returned(id.clone()));
    assert_eq!(state(&rig, "1"), RequestState::Queued);
    rig.from_client(CANCEL);
    assert_eq!(rig.at_server(), [CANCEL]);
    departs(&mut rig, &Departure::Withdrawn(id));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::NeverSent, None));
}

/// A dialect whose cancelled requests are answered gives that answer at once, and waits for nobody.
#[test]
fn one_whose_dialect_owes_an_answer_has_it_without_a_grace() {
    let mut rig = RelayRig::new(RelayConfig { server_departs: true, ..RelayConfig::default() });
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.at_client();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#);
    rig.at_server();
    assert_eq!(rig.outcome("1"), Some(Outcome::Asked));
    assert!(rig.at_client().is_empty());
    departs(&mut rig, &Departure::Withdrawn(RequestId::integer(1)));
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    let told = rig.at_client();
    assert_eq!(told, [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
}

#[test]
fn what_had_not_left_when_the_server_ended_is_not_known() {
    for ends in [(|rig: &mut RelayRig| rig.end(Side::Server, &End::Closed)) as fn(&mut RelayRig), |rig| {
        rig.relay.handle_write_closed(rig.now, Side::Server);
        rig.pass(Duration::from_millis(1));
    }] {
        let mut rig = taken();
        rig.from_client(CANCEL);
        rig.at_server();
        ends(&mut rig);
        let receipt = rig.receipt(Side::Client, "1").unwrap();
        assert_eq!((receipt.outcome, receipt.written), (Outcome::Unknown, None));
    }
}

#[test]
fn an_answer_says_that_the_request_had_left_and_disarms_its_cancel() {
    let mut rig = taken();
    rig.from_client(CANCEL);
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(rig.outcome("1"), Some(Outcome::CompletedFirst));
    departs(&mut rig, &Departure::Request(RequestId::integer(1)));
    departs(&mut rig, &Departure::Withdrawn(RequestId::integer(1)));
    let receipt = rig.receipt(Side::Client, "1").unwrap();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::CompletedFirst, None));
}

/// An array leaves member by member.
#[test]
fn each_member_of_an_array_departs_by_its_own_id() {
    let mut rig = RelayRig::new(RelayConfig { server_departs: true, ..RelayConfig::default() });
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
    );
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#);
    rig.at_client();
    rig.from_client(&format!("[{CALL},{}]", CALL.replace("\"id\":1", "\"id\":2")));
    assert_eq!(rig.at_server().len(), 1);
    departs(&mut rig, &Departure::Request(RequestId::integer(2)));
    assert_eq!((state(&rig, "1"), state(&rig, "2")), (RequestState::Queued, RequestState::Sent));
    rig.from_client(CANCEL);
    rig.at_server();
    departs(&mut rig, &Departure::Withdrawn(RequestId::integer(1)));
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
}
