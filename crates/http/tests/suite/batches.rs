//! Batches, which only 2025-03-26 has (MCP-B01).

use http::Method;

use super::rig::*;

const BATCHES: &str = "2025-03-26";

#[test]
fn a_batch_with_a_null_id_is_refused_whole() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{},{}]", call("1"), call("null")));
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

/// Each member is a step of the machine, and others wait for all of them.
#[test]
pub(crate) fn a_batch_with_more_members_than_one_may_have_is_refused_whole() {
    let most = rescind_http::server::HttpServerConfig::default().max_batch;
    for (members, status) in [(most, 200), (most + 1, 413), (60_000, 413)] {
        for member in [call("1"), call_with_token("1", "7"), cancel("1"), note("a"), result_of("1", "late")] {
            let mut rig = Rig::new();
            let client = rig.session(BATCHES);
            let batch = vec![&*member; members].join(",");
            let key = rig.post_to(&client, &format!("[{batch}]"));
            let answer = rig.read(key);
            let expected = if status == 200 && !member.contains("tools/call") { 202 } else { status };
            assert_eq!(answer.status, expected, "{members} of {member}");
            let passed = rig.at(client.link).len();
            assert!(passed <= if status == 200 { most } else { 0 }, "{passed} of {members} of {member}");
        }
    }
}

/// What follows the last member that it may have is not looked at, whatever it is.
#[test]
fn a_batch_that_is_too_long_is_refused_before_all_of_it_is_read() {
    let most = rescind_http::server::HttpServerConfig::default().max_batch;
    for rest in ["", "]", ",", "@@@", "}}", ",[1]]", "\u{0}"] {
        let mut rig = Rig::new();
        let client = rig.session(BATCHES);
        let key = rig.post_to(&client, &format!("[{}{rest}", vec![note("a"); most + 1].join(",")));
        assert_eq!(rig.read(key).status, 413, "{rest:?}");
        assert_eq!(rig.at(client.link), [""; 0]);
    }
}

#[test]
fn a_batch_without_requests_needs_no_stream() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let headers = [("accept", "application/json"), ("mcp-session-id", &*client.id)];
    let key = rig.send(&Method::POST, "/mcp", &headers, &format!("[{}]", note("a")));
    assert_eq!(rig.whole(key, 202), "");
    assert_eq!(rig.at(client.link), [note("a")]);
    let key = rig.send(&Method::POST, "/mcp", &headers, &format!("[{}]", call("1")));
    assert_eq!(rig.read(key).status, 406);
    rig.leaves_nothing();
}

#[test]
fn the_answers_to_a_batch_come_on_one_stream_as_they_come() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{}, {} ,\n{}]", call("1"), note("a"), call("2")));
    assert_eq!(rig.at(client.link), [call("1"), note("a"), call("2")], "member by member, in order");
    assert!(rig.read(key).is_stream(), "at once: there may be several answers");
    rig.answer(client.link, "2", "second");
    assert!(!rig.read(key).has_ended);
    rig.answer(client.link, "1", "first");
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [result_of("2", "second"), result_of("1", "first")]);
    assert!(answer.has_ended);
    rig.leaves_nothing();
}

/// The cancel takes back what its program has not seen, and nothing beside it.
#[test]
fn what_follows_a_request_and_its_cancel_in_a_batch_reaches_its_program() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{},{},{}]", call("1"), cancel("1"), call("2")));
    assert_eq!(rig.at(client.link), [call("2")]);
    rig.answer(client.link, "2", "done");
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [result_of("2", "done")]);
    assert!(answer.has_ended);
    rig.leaves_nothing();
}

/// Case 51.
#[test]
fn of_a_batch_only_the_member_that_is_named_is_cancelled() {
    for cancelled_last in [false, true] {
        let mut rig = Rig::new();
        let client = rig.session(BATCHES);
        let key = rig.post_to(&client, &format!("[{},{}]", call("1"), call("2")));
        rig.at(client.link);
        if cancelled_last {
            rig.answer(client.link, "1", "done");
        }
        rig.post_to(&client, &cancel("2"));
        assert_eq!(rig.at(client.link), [cancel("2")]);
        rig.settle(client.link, "2");
        assert_eq!(rig.read(key).has_ended, cancelled_last);
        rig.answer(client.link, "1", "done");
        let answer = rig.read(key);
        assert_eq!(answer.messages(), [result_of("1", "done")]);
        assert!(answer.has_ended);
        rig.leaves_nothing();
    }
}

#[test]
fn a_batch_whose_members_were_all_cancelled_ends_and_is_not_resumed() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{},{}]", call_with_token("1", "7"), call("2")));
    rig.say(client.link, &progress("7", 1));
    let last = rig.read(key).last_id().unwrap();
    rig.settle(client.link, "1");
    rig.settle(client.link, "2");
    assert!(rig.read(key).has_ended);
    let key = rig.come_back(&client, &last);
    assert_eq!(rig.read(key).status, 405);
    rig.leaves_nothing();
}

#[test]
fn a_batch_may_cancel_its_own_members_and_use_an_id_twice() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{},{},{}]", cancel("1"), call("1"), call("1")));
    let received = rig.at(client.link);
    assert_eq!(received[..2], [cancel("1"), call("1")]);
    let second: serde_json::Value = serde_json::from_str(&received[2]).unwrap();
    rig.settle(client.link, "1");
    rig.answer(client.link, &second["id"].to_string(), "done");
    assert_eq!(rig.read(key).messages(), [result_of("1", "done")]);
    rig.leaves_nothing();
}

#[test]
fn other_revisions_have_no_batches() {
    for revision in ["2025-06-18", LEGACY] {
        let mut rig = Rig::new();
        let client = rig.session(revision);
        let key = rig.post_to(&client, &format!("[{}]", call("1")));
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32600));
        assert_eq!(rig.at(client.link), [""; 0]);
        rig.leaves_nothing();
    }
}

#[test]
fn a_batch_with_a_member_that_is_no_message_is_refused_whole() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    for member in ["1", "[]", "{}", r#"{"jsonrpc":"2.0","id":2,"id":3,"method":"x"}"#, r#"{"jsonrpc":"2.0"}"#] {
        let key = rig.post_to(&client, &format!("[{},{member}]", call("1")));
        assert_eq!(rig.read(key).status, 400, "{member}");
    }
    let key = rig.post_to(&client, "[]");
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_batch_opens_no_session() {
    let mut rig = Rig::new();
    let key = rig.post(&[], r#"[{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}]"#);
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.opened, []);
    rig.leaves_nothing();
}

#[test]
fn what_a_program_says_in_a_batch_is_said_message_by_message() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let keys = ["1", "2"].map(|id| rig.post_to(&client, &call(id)));
    rig.say(client.link, &format!("[{},{}]\n", result_of("2", "second"), result_of("1", "first")));
    assert_eq!(rig.whole(keys[0], 200), result_of("1", "first"));
    assert_eq!(rig.whole(keys[1], 200), result_of("2", "second"));
    rig.leaves_nothing();
}
