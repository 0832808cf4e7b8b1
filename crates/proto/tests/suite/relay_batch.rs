//! Batches through a relay (MCP-B01, D36).

use rescind_proto::{
    dialect::{Dialect, mcp},
    receipt::Outcome,
    relay::RelayConfig,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

fn between(client: &'static Dialect, server: &'static Dialect) -> RelayRig {
    RelayRig::new(RelayConfig {
        dialects: Sides { client: Some(client), server: Some(server) },
        ..RelayConfig::default()
    })
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
fn progress_that_left_in_an_array_does_not_keep_later_progress_from_being_taken_back() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}"#);
    rig.at_server();
    let progress = |n: i32| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t","progress":{n}}}}}"#
        )
    };
    let together = array(&[progress(1), progress(2)]);
    rig.from_server(&together);
    rig.from_server(&progress(3));
    rig.write(Side::Client, together.len() + 1);
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_client(), [together], "silence is what a cancelled request gets");
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

#[test]
fn a_batch_of_nothing_but_garbage_gets_one_error() {
    let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
    rig.from_client(&format!("[1{}]", ",1".repeat(500_000)));
    let answers = rig.at_client();
    assert!(answers.len() == 1 && answers[0].contains("-32700"), "{} answers", answers.len());
    assert_eq!(rig.at_server(), [""; 0]);
}

// D36: no client of such a revision sends one, and no server of it could read one.
#[test]
fn an_array_is_refused_as_a_whole_where_the_revision_has_none() {
    let mut rig = between(&mcp::REVISION_2025_06_18, &mcp::REVISION_2025_06_18);
    rig.from_client(&array(&[call(1), call(2)]));
    let answers = rig.at_client();
    assert!(answers.len() == 1 && answers[0].contains("-32700"), "{answers:?}");
    assert_eq!(rig.at_server(), [""; 0]);
    rig.from_client(&call(1));
    assert_eq!(rig.at_server(), [call(1)], "the id is free");
}

#[test]
fn an_array_of_a_server_is_taken_apart_whatever_its_revision_for_callers_wait() {
    let mut rig = between(&mcp::REVISION_2025_06_18, &mcp::REVISION_2025_06_18);
    rig.from_client(&call(1));
    rig.from_client(&call(2));
    rig.at_server();
    rig.from_server(&array(&[result(2), "7".into(), result(1)]));
    assert_eq!(rig.at_client(), [result(2), result(1)]);
}

#[test]
fn answers_to_one_batch_are_bounded() {
    for garbage in [",1", r#",{"id":1,"method":0}"#] {
        let mut rig = between(&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_03_26);
        rig.from_client(&format!("[{}{}]", call(1), garbage.repeat(100_000)));
        assert_eq!(rig.at_server(), [array(&[call(1)])]);
        let answers = rig.at_client();
        let bytes: usize = answers.iter().map(String::len).sum();
        assert!(bytes < 70_000, "{bytes} bytes of answers");
        assert!(answers.last().is_some_and(|last| last.contains("too many refusals for one batch")));
        assert!(rig.events.len() < 2000, "{} events", rig.events.len());
    }
}

#[test]
fn a_member_that_is_not_utf_8_is_mended_and_its_neighbours_pass() {
    for server in [&mcp::REVISION_2025_03_26, &mcp::REVISION_2025_06_18] {
        let mut rig = between(server, server);
        rig.from_client(&call(1));
        rig.from_client(&call(2));
        rig.at_server();
        let mut answers = array(&[result(1), result(2)]).replace("{}", r#"{"a":"?"}"#).into_bytes();
        let broken = answers.iter().position(|byte| *byte == b'?').expect("it is there");
        answers[broken] = 0xe9;
        answers.push(b'\n');
        rig.bytes(rescind_proto::side::Side::Server, &answers);
        let heard = rig.at_client().concat();
        assert!(heard.contains("\u{fffd}") && heard.contains(r#""id":2"#), "{heard}");
    }
}
