//! The keys of what has ended, for a driver that keeps a history.

use core::time::Duration;

use rescind_proto::{
    link::RequestKey,
    receipt::{Answer, Outcome},
    relay::{Emit, RelayConfig, Settled},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

fn mcp(ends: bool) -> RelayRig {
    let emit = Emit { ends, ..Emit::default() };
    let mut rig = RelayRig::new(RelayConfig { emit, ..RelayConfig::default() });
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    );
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#);
    rig.at_client();
    rig
}

fn call(rig: &mut RelayRig, id: u32) {
    rig.from_client(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","_meta":{{"progressToken":{id}}}}}}}"#
    ));
    rig.at_server();
}

fn answer(rig: &mut RelayRig, id: u32) {
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    rig.at_client();
}

fn cancel(rig: &mut RelayRig, id: u32) {
    rig.from_client(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
    rig.at_server();
}

fn progress(rig: &mut RelayRig, id: u32) {
    rig.from_server(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1}}}}"#
    ));
    rig.at_client();
}

fn ended(rig: &mut RelayRig) -> Vec<RequestKey> {
    std::iter::from_fn(|| rig.relay.poll_ended()).collect()
}

/// The ids of what has ended.
fn ids(rig: &mut RelayRig) -> Vec<String> {
    let keys = ended(rig);
    keys.into_iter().map(|key| rig.relay.view(key).expect("it is remembered").id.to_string()).collect()
}

#[test]
fn an_end_is_reported_once_and_not_before_it() {
    let mut rig = mcp(true);
    assert_eq!(ids(&mut rig), ["0"]);
    call(&mut rig, 1);
    call(&mut rig, 2);
    assert_eq!(ids(&mut rig), [""; 0]);
    answer(&mut rig, 2);
    let keys = ended(&mut rig);
    assert_eq!(keys.len(), 1);
    assert_eq!(rig.relay.view(keys[0]).unwrap().ended.map(|end| end.how), Some(Settled::Answered));
    rig.from_server(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
    rig.at_client();
    rig.from_client(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    rig.at_server();
    assert_eq!(ended(&mut rig).iter().map(|key| key.from).collect::<Vec<_>>(), [Side::Server]);
}

#[test]
fn what_a_cancel_learns_after_the_end_is_reported_too() {
    let mut rig = mcp(true);
    ended(&mut rig);
    call(&mut rig, 1);
    cancel(&mut rig, 1);
    let outcome = |rig: &RelayRig, key| rig.relay.view(key).unwrap().cancel.map(|receipt| receipt.outcome);
    let last = ended(&mut rig).pop().unwrap();
    assert_eq!(outcome(&rig, last), Some(Outcome::Sent));
    // It works on, and then nothing more is heard of it.
    rig.pass(Duration::from_secs(6));
    progress(&mut rig, 1);
    assert_eq!(ended(&mut rig), [last]);
    assert!(rig.relay.view(last).unwrap().works_on);
    for _ in 0..5 {
        progress(&mut rig, 1);
    }
    assert_eq!(ended(&mut rig), [], "each further message is no news");
    rig.pass(Duration::from_secs(5));
    assert_eq!(ended(&mut rig), [last]);
    assert!(!rig.relay.view(last).unwrap().works_on);
    answer(&mut rig, 1);
    assert_eq!(ended(&mut rig), [last]);
    let after = Duration::from_secs(11);
    assert_eq!(outcome(&rig, last), Some(Outcome::AnsweredAfter { after, answer: Answer::Result }));
}

#[test]
fn what_ends_with_its_link_is_reported() {
    let mut rig = mcp(true);
    ended(&mut rig);
    call(&mut rig, 1);
    rig.relay.handle_eof(rig.now, Side::Server, &rescind_proto::relay::End::Exited(3));
    rig.at_client();
    assert_eq!(ids(&mut rig), ["1"]);
}

#[test]
fn nothing_is_kept_for_a_driver_that_wants_no_ends() {
    let mut rig = mcp(false);
    call(&mut rig, 1);
    answer(&mut rig, 1);
    assert_eq!((ended(&mut rig), rig.relay.poll_unkept_ends()), (Vec::new(), 0));
}

#[test]
fn ends_that_nobody_asks_for_have_a_bound_and_the_rest_is_counted() {
    let mut rig = mcp(true);
    for id in 1..=20_000 {
        call(&mut rig, id);
        answer(&mut rig, id);
    }
    assert_eq!(ended(&mut rig).len(), 1 << 14);
    assert_eq!(rig.relay.poll_unkept_ends(), 20_001 - (1 << 14));
    assert_eq!(rig.relay.poll_unkept_ends(), 0);
}
