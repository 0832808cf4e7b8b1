//! A cancel that is posted, and what becomes of the stream (D41).

use crate::rig::*;

/// Case 46, 48.
#[test]
fn a_cancel_reaches_the_program_and_the_stream_ends_without_a_response() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 1));
    rig.at(client.link);
    let posted = rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.at(client.link), [cancel("1")]);
    assert_eq!(rig.whole(posted, 202), "");
    assert!(!rig.read(key).has_ended, "until it was passed on");
    rig.settle(client.link, "1");
    let answer = rig.read(key);
    assert!(answer.has_ended);
    assert_eq!(answer.messages(), [progress("7", 1)]);
    rig.leaves_nothing();
}

/// Case 48.
#[test]
fn a_cancelled_call_without_a_head_ends_as_an_empty_stream() {
    for revision in ["2025-06-18", LEGACY] {
        let mut rig = Rig::new();
        let client = rig.session(revision);
        let key = rig.post_to(&client, &call("1"));
        rig.post_to(&client, &cancel("1"));
        rig.settle(client.link, "1");
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.is_stream(), answer.has_ended), (200, true, true));
        assert_eq!(answer.events, []);
        rig.leaves_nothing();
    }
}

#[test]
fn a_cancelled_stream_without_an_event_ends_too() {
    let mut rig = Rig::new();
    let client = rig.session("2025-06-18");
    for is_taken in [false, true] {
        let key = rig.post_to(&client, &call("1"));
        rig.pass_millis(100);
        if is_taken {
            assert!(rig.read(key).is_stream());
        }
        rig.settle(client.link, "1");
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.has_ended, answer.events.len()), (200, true, 0));
    }
    rig.leaves_nothing();
}

#[test]
fn nothing_is_said_to_a_cancelled_call_any_more() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.pass_millis(100);
    rig.settle(client.link, "1");
    rig.say(client.link, &progress("7", 1));
    rig.answer(client.link, "1", "late");
    assert_eq!(rig.read(key).messages(), [""; 0], "MCP-C06");
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.leaves_nothing();
}

/// Case 49.
#[test]
fn nobody_comes_back_to_a_cancelled_stream() {
    for is_away in [false, true] {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        let key = rig.post_to(&client, &call_with_token("1", "7"));
        rig.say(client.link, &progress("7", 1));
        let first = rig.read(key).events[0].id.clone().unwrap();
        if is_away {
            rig.hang_up(key);
        }
        rig.post_to(&client, &cancel("1"));
        rig.settle(client.link, "1");
        let back = rig.come_back(&client, &first);
        assert_eq!(rig.read(back).status, 405, "an empty stream would be asked for again and again");
        let other = rig.post_to(&client, &call("2"));
        rig.answer(client.link, "2", "done");
        rig.whole(other, 200);
        rig.leaves_nothing();
    }
}

#[test]
fn an_answer_that_crosses_the_cancel_is_given() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    rig.at(client.link);
    rig.post_to(&client, &cancel("1"));
    rig.answer(client.link, "1", "done");
    rig.settle(client.link, "1");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn a_cancel_may_overtake_its_request() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let posted = rig.post_to(&client, &cancel("1"));
    let key = rig.post_to(&client, &call("1"));
    assert_eq!(rig.at(client.link), [cancel("1"), call("1")], "in this order, which the other side knows (D9)");
    assert_eq!(rig.whole(posted, 202), "");
    rig.settle(client.link, "1");
    assert!(rig.read(key).has_ended);
    rig.leaves_nothing();
}

/// Case 50.
#[test]
fn a_cancel_concerns_no_other_session() {
    let mut rig = Rig::new();
    let (mine, other) = (rig.session(LEGACY), rig.session(LEGACY));
    let key = rig.post_to(&mine, &call("1"));
    rig.at(mine.link);
    rig.post_to(&other, &cancel("1"));
    assert_eq!(rig.at(mine.link), [""; 0]);
    assert_eq!(rig.at(other.link), [cancel("1")], "its own program knows none of this id");
    rig.answer(mine.link, "1", "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn a_cancel_keeps_its_reason_and_what_else_it_says() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.post_to(&client, &call("1"));
    let received = rig.at(client.link);
    let ours: serde_json::Value = serde_json::from_str(&received[1]).unwrap();
    rig.answer(client.link, "1", "done");
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"Stop","requestId": {id} ,"x":1}}}}"#
        )
    };
    rig.post_to(&client, &cancel("1"));
    assert_eq!(rig.at(client.link), [cancel(&ours["id"].to_string())], "only the id differs (D33)");
    rig.leaves_nothing();
}

#[test]
fn malformed_cancels_are_accepted_and_left_to_the_link() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    rig.post_to(&client, &call("1"));
    rig.at(client.link);
    for id in ["true", "1.5", "[1]", "{}", "null"] {
        let key = rig.post_to(&client, &cancel(id));
        assert_eq!(rig.at(client.link), [cancel(id)]);
        assert_eq!(rig.read(key).status, 202);
    }
    let bare = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
    let key = rig.post_to(&client, bare);
    assert_eq!(rig.read(key).status, 202);
    assert_eq!(rig.at(client.link), [bare]);
    assert_eq!(rig.server.in_flight(), 1);
    rig.leaves_nothing();
}

#[test]
fn settling_twice_or_what_is_not_in_flight_does_nothing() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    rig.settle(client.link, "2");
    assert_eq!(rig.read(key).status, 0);
    rig.settle(client.link, "1");
    rig.settle(client.link, "1");
    let again = rig.post_to(&client, &call("1"));
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.whole(again, 200), result_of("1", "done"), "the id can be used again");
    rig.leaves_nothing();
}
