//! What becomes of a cancel, in each era and at each moment (cases 45 to 51).

use serde_json::{Value, json};

use crate::rig::*;

/// A call in a session whose POST was written a while ago.
fn calling() -> (Rig, Sent) {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.pass(secs(1));
    (rig, post)
}

/// A call in a session whose stream is open.
fn streaming() -> (Rig, Sent) {
    let (mut rig, post) = calling();
    rig.stream(post.key);
    (rig, post)
}

#[test]
fn case_46_in_a_session_a_cancel_is_posted_as_it_is() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    assert_eq!((&*sent.body, sent.header("mcp-session-id")), (&*cancel(1), Some("s1")));
    assert_eq!(sent.header("mcp-protocol-version"), Some(LEGACY));
    assert!(rig.take_aborted().is_empty());
    rig.accept(sent.key);
    assert_eq!(rig.client.in_flight(), 0);
    // The server ends the stream, as it should.
    rig.end(post.key);
    assert!(rig.sent().is_empty() && rig.take_aborted().is_empty());
    rig.check_empty();
}

#[test]
fn a_stream_that_stays_open_after_its_cancel_was_taken_is_let_go() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.accept(sent.key);
    rig.pass(ms(999));
    assert!(rig.take_aborted().is_empty());
    rig.pass(ms(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.check_empty();
}

#[test]
fn a_stream_is_let_go_after_five_seconds_if_nobody_takes_the_cancel() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.pass(ms(4_999));
    assert!(rig.take_aborted().is_empty());
    rig.pass(ms(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.accept(sent.key);
    rig.check_empty();
}

#[test]
fn what_still_comes_for_a_cancelled_request_is_passed_on() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.event(post.key, &progress(1));
    rig.accept(sent.key);
    rig.event(post.key, &error(1, 0, "Request cancelled"));
    assert_eq!(rig.heard(), [progress(1), error(1, 0, "Request cancelled")]);
    rig.end(post.key);
    rig.check_empty();
}

#[test]
fn case_49_a_cancelled_stream_is_not_resumed() {
    let (mut rig, post) = streaming();
    rig.event_with_id(post.key, "e-1", &progress(1));
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.fail(post.key, "connection reset");
    rig.accept(sent.key);
    rig.pass(secs(60));
    assert!(rig.sent().is_empty());
    rig.check_empty();
}

#[test]
fn case_49_a_cancel_while_a_stream_waits_to_be_resumed_ends_that() {
    for is_asked in [false, true] {
        let (mut rig, post) = streaming();
        rig.event_with_id(post.key, "e-1", &progress(1));
        rig.fail(post.key, "connection reset");
        if is_asked {
            rig.pass_to_timer();
            assert_eq!(rig.handed().len(), 1);
        }
        rig.say(&cancel(1));
        assert_eq!(rig.take_aborted().len(), usize::from(is_asked));
        let sent = rig.sent_one();
        assert_eq!(sent.body, cancel(1));
        rig.accept(sent.key);
        rig.pass(secs(60));
        assert!(rig.sent().is_empty());
        rig.check_empty();
    }
}

#[test]
fn a_request_that_was_not_handed_out_is_taken_back_with_its_cancel() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty() && rig.take_aborted().is_empty());
    rig.check_empty();
}

#[test]
fn a_request_of_which_nothing_was_written_is_taken_back_with_its_cancel() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.handed().remove(0);
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    assert!(!rig.write(post.key), "nothing may leave any more");
    assert!(rig.sent().is_empty());
    rig.check_empty();
}

#[test]
fn a_cancel_does_not_overtake_a_request_that_was_just_written() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.pass(ms(30));
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty());
    rig.pass(ms(69));
    assert!(rig.sent().is_empty());
    rig.pass(ms(1));
    assert_eq!(rig.sent_one().body, cancel(1));
    // Unless the server has it for certain.
    rig.say(&call(2));
    let other = rig.sent_one();
    rig.say(&cancel(2));
    assert!(rig.sent().is_empty());
    rig.stream(other.key);
    assert_eq!(rig.sent_one().body, cancel(2));
    assert!(rig.take_aborted().is_empty());
    rig.end(post.key);
}

#[test]
fn case_48_a_request_whose_response_has_not_begun_is_cancelled_all_the_same() {
    let (mut rig, post) = calling();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.accept(sent.key);
    rig.pass(secs(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.check_empty();
}

#[test]
fn an_answer_that_comes_before_the_cancel_has_left_disarms_it() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.say(&cancel(1));
    rig.json(post.key, 200, &[], &result(1));
    rig.pass(secs(1));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.heard_one(), result(1));
    rig.check_empty();
    // Handed out, but nothing of it was written.
    rig.say(&call(2));
    let post = rig.sent_one();
    rig.pass(secs(1));
    rig.say(&cancel(2));
    let sent = rig.handed().remove(0);
    rig.json(post.key, 200, &[], &result(2));
    assert_eq!(rig.take_aborted(), [sent.key]);
    assert!(!rig.write(sent.key));
    rig.heard();
    rig.check_empty();
}

#[test]
fn a_cancel_that_comes_after_the_answer_says_nothing() {
    let (mut rig, post) = streaming();
    rig.event(post.key, &result(1));
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.heard_one(), result(1), "it crossed the cancel");
    rig.say(&cancel(1));
    rig.say(&cancel("never made"));
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#);
    assert!(rig.sent().is_empty());
    rig.end(post.key);
    rig.check_empty();
}

#[test]
fn a_request_is_cancelled_once() {
    let (mut rig, _post) = streaming();
    rig.say(&cancel(1));
    rig.say(&cancel(1));
    assert_eq!(rig.sent().len(), 1);
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty());
}

#[test]
fn the_handshake_is_never_cancelled() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.say(&cancel(0));
    assert!(rig.sent().is_empty() && rig.take_aborted().is_empty());
    rig.json(post.key, 200, &[], &initialized(0, LEGACY));
    assert_eq!(rig.heard().len(), 1);
}

#[test]
fn a_cancel_that_did_not_arrive_is_sent_again() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.fail(sent.key, "connection reset");
    rig.pass_to_timer();
    let sent = rig.sent_one();
    assert_eq!(sent.body, cancel(1));
    rig.answer(sent.key, 502, &[], "Bad gateway");
    rig.pass_to_timer();
    let sent = rig.sent_one();
    rig.accept(sent.key);
    rig.pass(secs(1));
    assert!(rig.take_aborted().contains(&post.key));
    assert!(rig.notices().is_empty());
    rig.check_empty();
}

#[test]
fn a_cancel_that_never_arrives_is_given_up_and_told() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    for _ in 0..4 {
        let sent = rig.sent_one();
        rig.fail(sent.key, "connection refused");
        rig.pass(secs(10));
    }
    assert!(rig.sent().is_empty());
    assert_eq!(
        rig.notices().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["notifications/cancelled was not accepted: connection refused"]
    );
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.check_empty();
}

#[test]
fn a_cancel_that_the_server_refuses_is_not_repeated() {
    let (mut rig, post) = streaming();
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.answer(sent.key, 400, &[], "");
    assert_eq!(rig.notices().len(), 1);
    rig.pass(secs(1));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.take_aborted(), [post.key]);
}

#[test]
fn a_cancel_of_a_request_that_was_refused_is_none() {
    let (mut rig, post) = calling();
    rig.head(post.key, 500, &[]);
    rig.body(post.key, "Internal");
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.check_empty();
}

#[test]
fn case_51_of_a_batch_only_the_named_member_is_cancelled() {
    let mut rig = Rig::in_session("2025-03-26");
    rig.say(&format!("[{},{}]", call(1), call(2)));
    let post = rig.sent_one();
    assert_eq!(post.body, format!("[{},{}]", call(1), call(2)));
    rig.stream(post.key);
    rig.event_with_id(post.key, "e-1", &progress(1));
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.accept(sent.key);
    rig.pass(secs(60));
    assert!(rig.take_aborted().is_empty(), "the other still waits");
    rig.fail(post.key, "connection reset");
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!(get.header("last-event-id"), Some("e-1"));
    rig.stream(get.key);
    rig.event_with_id(get.key, "e-2", &result(2));
    assert_eq!(rig.heard(), [progress(1), result(2)]);
    rig.end(get.key);
    rig.check_empty();
}

#[test]
fn a_member_of_a_batch_that_was_not_written_is_taken_out_of_it() {
    for is_handed in [false, true] {
        let mut rig = Rig::in_session("2025-03-26");
        let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        rig.say(&format!("[{},{note},{}]", call(1), call(2)));
        let handed = if is_handed { rig.handed() } else { Vec::new() };
        rig.say(&cancel(1));
        assert_eq!(rig.take_aborted(), handed.iter().map(|sent| sent.key).collect::<Vec<_>>());
        let post = rig.sent_one();
        assert_eq!(post.body, format!("[{note},{}]", call(2)));
        rig.json(post.key, 200, &[], &json!([result(2)]));
        assert_eq!(rig.heard_one(), result(2));
        rig.check_empty();
    }
}

#[test]
fn a_request_and_its_cancel_in_one_batch_leave_together_or_not_at_all() {
    let mut rig = Rig::in_session("2025-03-26");
    rig.say(&format!("[{},{},{}]", cancel(1), call(1), call(2)));
    let post = rig.sent_one();
    assert_eq!(post.body, format!("[{}]", call(2)));
    rig.pass(secs(1));
    // A cancel of an earlier request goes its own way.
    rig.say(&format!("[{},{}]", cancel(2), call(3)));
    let sent = rig.sent();
    let mut bodies: Vec<&str> = sent.iter().map(|sent| &*sent.body).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, [format!("[{}]", call(3)), cancel(2)]);
    rig.say(&format!("[{},{}]", cancel(9), call(9)));
    assert!(rig.sent().is_empty());
}

#[test]
fn where_there_are_no_batches_each_member_goes_alone() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&format!("[{},{},{}]", call(1), call(2), cancel(1)));
    assert_eq!(rig.sent_one().body, call(2));
}

#[test]
fn case_45_outside_a_session_closing_the_stream_is_the_cancel() {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &progress(1));
    assert_eq!(rig.heard_one(), progress(1));
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    assert!(rig.sent().is_empty(), "nothing is POSTed (MCP-H05)");
    rig.event(post.key, &result(1));
    rig.end(post.key);
    assert!(rig.heard().is_empty());
    rig.check_empty();
}

#[test]
fn case_48_outside_a_session_a_cancel_closes_at_any_moment() {
    // Queued, handed out, written, refused with a body to come, and in the midst of JSON.
    for moment in 0..5 {
        let mut rig = Rig::new();
        rig.say(&modern_call(1));
        let handed = if moment == 0 { Vec::new() } else { rig.handed() };
        if moment >= 2 {
            rig.write(handed[0].key);
        }
        match moment {
            3 => rig.head(handed[0].key, 500, &[]),
            4 => {
                rig.head(handed[0].key, 200, &[("content-type", "application/json")]);
                rig.body(handed[0].key, r#"{"jsonrpc":"2.0","#);
            }
            _ => {}
        }
        rig.say(&cancel(1));
        assert_eq!(rig.take_aborted(), handed.iter().map(|sent| sent.key).collect::<Vec<_>>(), "{moment}");
        assert!(rig.sent().is_empty() && rig.heard().is_empty());
        rig.check_empty();
    }
}

#[test]
fn outside_a_session_nothing_is_delivered_after_a_cancel() {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    rig.say(&modern_call(2));
    rig.say(&modern_call(3));
    let posts = rig.sent();
    rig.stream(posts[0].key);
    rig.event(posts[0].key, &progress(1));
    rig.json(posts[1].key, 200, &[], &result(2));
    rig.stream(posts[2].key);
    rig.event(posts[2].key, &progress(3));
    rig.event(posts[2].key, &result(3));
    // Its answer came, but was not taken yet.
    rig.say(&cancel(1));
    rig.say(&cancel(3));
    assert_eq!(rig.heard(), [result(2)]);
    rig.say(&cancel(2));
    rig.end(posts[2].key);
    rig.check_empty();
}

#[test]
fn an_id_can_be_used_again_once_its_request_was_answered_or_cancelled() {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    let first = rig.sent_one();
    rig.stream(first.key);
    rig.say(&cancel(1));
    rig.say(&modern_call(1));
    let second = rig.sent_one();
    rig.event(first.key, &result(1));
    assert!(rig.heard().is_empty());
    rig.json(second.key, 200, &[], &result(1));
    assert_eq!(rig.heard_one(), result(1));
    rig.say(&modern_call(1));
    assert_eq!(rig.sent().len(), 1);
    rig.say(&modern_call(1));
    assert_eq!(rig.error(1).0, -32600);
}

#[test]
fn the_era_of_a_cancel_is_that_of_its_request() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&modern_call("new"));
    rig.say(&call("old"));
    let posts = rig.sent();
    let (new, old) = match posts[0].header("mcp-session-id") {
        None => (&posts[0], &posts[1]),
        Some(_) => (&posts[1], &posts[0]),
    };
    assert_eq!(new.header("mcp-protocol-version"), Some(MODERN));
    rig.pass(secs(1));
    rig.say(&cancel("new"));
    assert_eq!(rig.take_aborted(), [new.key]);
    assert!(rig.sent().is_empty());
    rig.say(&cancel("old"));
    assert!(rig.take_aborted().is_empty());
    assert_eq!(rig.sent_one().body, cancel("old"));
    let _ = old;
}

#[test]
fn case_50_ids_of_another_type_are_others() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(5));
    rig.say(&call("5"));
    let posts = rig.sent();
    rig.pass(secs(1));
    rig.say(&cancel("5"));
    assert_eq!(rig.sent_one().body, cancel("5"));
    let five: Vec<Value> = posts.iter().map(|post| post.json()["id"].clone()).collect();
    assert_eq!(five, [json!(5), json!("5")]);
    rig.json(posts[0].key, 200, &[], &result(5));
    assert_eq!(rig.heard_one(), result(5));
}

#[test]
fn what_waits_for_its_turn_is_taken_back_without_a_word() {
    let mut limited = config();
    limited.max_fetches = 1;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    for id in 1..100 {
        rig.say(&call(id));
    }
    let post = rig.sent_one();
    for id in 2..99 {
        rig.say(&cancel(id));
    }
    rig.pass(secs(1));
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    assert_eq!(sent.body, cancel(1), "a cancel does not wait for its turn");
    rig.accept(sent.key);
    rig.pass(secs(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    assert_eq!(rig.sent_one().body, call(99));
}
