//! What is known of each request and each cancel on its way to the server: it has left, or was taken back (D51).

use rescind_proto::link::Departure;
use serde_json::Value;

use crate::rig::*;

fn left(id: impl Into<Value>) -> Departure {
    Departure::Request(named(id))
}

fn cancel_left(id: impl Into<Value>) -> Departure {
    Departure::Cancel(named(id))
}

fn returned(id: impl Into<Value>) -> Departure {
    Departure::Returned(named(id))
}

fn withdrawn(id: impl Into<Value>) -> Departure {
    Departure::Withdrawn(named(id))
}

#[test]
fn a_request_leaves_when_its_body_is_written_and_its_cancel_when_its_own_is() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.handed().remove(0);
    assert_eq!(rig.departed(), []);
    rig.write(post.key);
    assert_eq!(rig.departed(), [left(1)]);
    rig.stream(post.key);
    rig.say(&cancel(1));
    let sent = rig.handed().remove(0);
    assert_eq!(rig.departed(), []);
    rig.write(sent.key);
    assert_eq!(rig.departed(), [cancel_left(1)]);
    // However often it is tried.
    rig.fail(sent.key, "connection reset");
    rig.pass_to_timer();
    let again = rig.sent_one();
    rig.accept(again.key);
    assert_eq!(rig.departed(), []);
}

#[test]
fn a_response_shows_that_its_request_has_left() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.handed().remove(0);
    rig.stream(post.key);
    assert_eq!(rig.departed(), [left(1)]);
}

#[test]
fn a_call_that_waits_for_the_session_is_taken_back_with_its_cancel() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let greeting = rig.sent_one();
    rig.say(&call(1));
    rig.say(&call(2));
    rig.say(&cancel(1));
    assert_eq!(rig.departed(), [withdrawn(1)]);
    rig.json(greeting.key, 200, &[], &initialized(0, LEGACY));
    rig.sent_one();
    assert_eq!(rig.departed(), [left(2)]);
}

#[test]
fn a_call_that_waits_for_its_turn_is_taken_back_with_its_cancel() {
    let mut limited = config();
    limited.max_fetches = 2;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    for id in 1..=3 {
        rig.say(&call(id));
    }
    rig.sent();
    assert_eq!(rig.departed(), [left(1), left(2)]);
    rig.say(&cancel(3));
    assert_eq!(rig.departed(), [withdrawn(3)]);
}

#[test]
fn outside_a_session_a_cancel_leaves_when_the_stream_is_closed() {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    rig.say(&modern_call(2));
    rig.say(&modern_call(3));
    let posts = rig.handed();
    rig.write(posts[0].key);
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [posts[0].key]);
    assert_eq!(rig.departed(), [left(1), cancel_left(1)]);
    rig.say(&cancel(2));
    assert_eq!(rig.departed(), [withdrawn(2)]);
    rig.json(posts[2].key, 200, &[], &result(3));
    // It was answered first, and the answer is taken back.
    rig.say(&cancel(3));
    assert_eq!(rig.departed(), [left(3), withdrawn(3)]);
    assert!(rig.heard().is_empty());
}

#[test]
fn a_cancel_whose_request_is_answered_first_does_not_leave() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.say(&cancel(1));
    rig.json(post.key, 200, &[], &result(1));
    rig.pass(secs(1));
    assert_eq!(rig.departed(), [left(1)]);
    rig.check_empty();
}

#[test]
fn what_cannot_be_sent_is_known_never_to_have_left_before_it_is_answered() {
    // Nobody listens.
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    let post = rig.handed().remove(0);
    rig.unreached(post.key);
    assert_eq!(rig.departed(), [withdrawn(1)]);
    assert_eq!(rig.error(1).0, -31002);
    // There are too many, or it has no id of its own.
    let mut limited = config();
    limited.max_in_flight = 1;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    rig.say(&call(1));
    assert_eq!(rig.departed(), [withdrawn(2)]);
    // The session is not opened.
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let greeting = rig.sent_one();
    rig.say(&call(1));
    rig.unreached(greeting.key);
    let post = rig.sent_one();
    assert_eq!(rig.departed(), [left(1)], "it is sent all the same");
    rig.fail(post.key, "connection reset");
    assert_eq!(rig.departed(), []);
}

#[test]
fn a_call_that_leaves_and_is_never_answered_has_left() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.fail(post.key, "connection reset");
    assert_eq!(rig.error(1).0, -31002);
    assert_eq!(rig.departed(), [left(1)]);
}

#[test]
fn a_call_that_was_refused_for_want_of_a_token_is_taken_back_with_its_cancel() {
    for is_modern in [true, false] {
        let mut rig = if is_modern { Rig::new() } else { Rig::in_session(LEGACY) };
        let ask = |id: i64| if is_modern { modern_call(id) } else { call(id) };
        rig.say(&ask(1));
        rig.say(&ask(2));
        let posts = rig.sent();
        posts.iter().for_each(|post| rig.client.handle_signing_in(post.key));
        rig.say(&cancel(1));
        assert_eq!(rig.departed(), [left(1), left(2), returned(1), returned(2), withdrawn(1)]);
        // The other leaves once it is sent again.
        assert!(rig.client.handle_sent_again(rig.now, posts[1].key));
        assert_eq!(rig.departed(), []);
        assert!(rig.write(posts[1].key));
        assert_eq!(rig.departed(), [left(2)]);
    }
}

#[test]
fn a_call_that_is_redirected_or_whose_session_is_lost_leaves_again() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.head(post.key, 307, &[("location", "/other")]);
    assert_eq!(rig.departed(), [left(1), returned(1)]);
    let post = rig.sent_one();
    assert_eq!(rig.departed(), [left(1)]);
    rig.answer(post.key, 404, &[], "");
    assert_eq!(rig.departed(), [Departure::Session, returned(1)]);
    rig.say(&cancel(1));
    assert_eq!(rig.departed(), [withdrawn(1)]);
}

#[test]
fn a_call_whose_refusal_is_being_read_is_taken_back_although_it_has_left() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.head(post.key, 500, &[]);
    rig.say(&cancel(1));
    assert_eq!(rig.departed(), [left(1), withdrawn(1)]);
}

#[test]
fn each_member_of_a_batch_leaves_under_its_own_id() {
    for is_handed in [false, true] {
        let mut rig = Rig::in_session("2025-03-26");
        rig.say(&format!("[{},{},{}]", call(1), call(2), call("2")));
        if is_handed {
            rig.handed();
        }
        rig.say(&cancel(1));
        assert_eq!(rig.departed(), [withdrawn(1)]);
        rig.sent_one();
        assert_eq!(rig.departed(), [left(2), left("2")]);
    }
    let mut rig = Rig::in_session("2025-03-26");
    rig.say(&format!("[{},{},{}]", call(1), call(2), cancel(1)));
    rig.sent_one();
    assert_eq!(rig.departed(), [withdrawn(1), left(2)]);
}

#[test]
fn what_has_not_left_when_the_client_closes_never_does() {
    let mut limited = config();
    limited.max_fetches = 1;
    let mut rig = Rig::in_session_with(limited, LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    rig.sent();
    rig.client.handle_close();
    rig.sent();
    assert_eq!(rig.departed(), [left(1), withdrawn(2)]);
}

#[test]
fn a_cancel_that_nobody_takes_has_not_left() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&cancel(1));
    for _ in 0..4 {
        let sent = rig.handed().remove(0);
        rig.fail(sent.key, "connection refused");
        rig.pass(secs(10));
    }
    assert_eq!(rig.departed(), [left(1)]);
    assert_eq!(rig.notices().len(), 1);
}
