//! Batches through a relay (MCP-B01, D36).

use rescind_proto::{
    dialect::{Dialect, mcp},
    receipt::Outcome,
    relay::Config,
    side::Sides,
};
use rescind_testkit::relay_rig::RelayRig;

fn between(client: &'static Dialect, server: &'static Dialect) -> RelayRig {
    RelayRig::new(Config { dialects: Sides { client: Some(client), server: Some(server) }, ..Config::default() })
}

fn call(id: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#)
}

fn result(id: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn cancel(id: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn array(members: &[String]) -> String {
    format!("[{}]", members.join(","))
}

#[test]
fn a_batch_goes_on_as_one_array_where_the_revision_has_them() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(&array(&[call(1), call(2)]));
    assert_eq!(rig.at_server(), [array(&[call(1), call(2)])]);
    rig.from_server(&array(&[result(2), result(1)]));
    assert_eq!(rig.at_client(), [array(&[result(2), result(1)])]);
}

#[test]
fn a_batch_is_split_for_any_other_revision() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_06_18);
    rig.from_client(&array(&[call(1), call(2)]));
    assert_eq!(rig.at_server(), [call(1), call(2)]);
    rig.from_server(&result(2));
    assert_eq!(rig.at_client(), [result(2)], "answers as they come");
}

#[test]
fn only_the_named_member_is_cancelled() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(&array(&[call(1), call(2)]));
    rig.at_server();
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_server(), [cancel(1)]);
    rig.from_server(&array(&[result(1), result(2)]));
    assert_eq!(rig.at_client(), [array(&[result(2)])]);
}

#[test]
fn an_array_of_cancelled_answers_is_no_message() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(&array(&[call(1)]));
    rig.at_server();
    rig.from_client(&cancel(1));
    rig.at_server();
    rig.from_server(&array(&[result(1)]));
    assert_eq!(rig.at_client(), [""; 0]);
}

#[test]
fn a_cancel_in_its_requests_own_array_withdraws_it_before_or_behind() {
    for members in [[call(1), cancel(1), call(2)], [cancel(1), call(1), call(2)]] {
        let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
        rig.from_client(&array(&members));
        assert_eq!(rig.at_server(), [array(&[call(2)])]);
        assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
    }
}

#[test]
fn a_cancel_of_a_waiting_arrays_member_follows_the_array() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(&array(&[call(1), call(2)]));
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_server(), [array(&[call(1), call(2)]), cancel(1)]);
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent));
}

#[test]
fn an_empty_or_broken_batch_is_refused() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client("[]");
    assert_eq!(rig.at_client().len(), 1);
    rig.from_client(&format!("[1,[],{}]", call(1)));
    assert_eq!(rig.at_server(), [array(&[call(1)])]);
    assert_eq!(rig.at_client().len(), 2, "one error for each broken member");
}
