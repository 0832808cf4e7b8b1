//! A server that has forgotten the session: it is opened again, once, and what was refused is sent again.

use http::Method;
use rescind_proto::link::Departure;

use crate::rig::*;

const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;

/// The handshake is said again, and accepted under another id.
fn reopen(rig: &mut Rig, sent: Vec<Sent>, id: &str) {
    let [post] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((&*post.body, post.header("mcp-session-id")), (&*initialize(LEGACY), None));
    rig.json(post.key, 200, &[("mcp-session-id", id)], &initialized(0, LEGACY));
    let post = rig.sent_one();
    assert_eq!((&*post.message_method(), post.header("mcp-session-id")), ("notifications/initialized", Some(id)));
    rig.head(post.key, 202, &[]);
}

#[test]
fn a_request_that_was_refused_is_sent_again_in_a_new_session() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], UNKNOWN);
    let sent = rig.sent();
    assert!(rig.departed().contains(&Departure::Session));
    // What the local client says meanwhile waits.
    rig.say(&call(2));
    assert!(rig.handed().is_empty());
    reopen(&mut rig, sent, "s2");
    let sent = rig.sent();
    let gets = sent.iter().filter(|sent| sent.method == Method::GET).count();
    assert_eq!((sent.len(), gets), (3, 1), "the server is listened to again");
    for post in &sent {
        assert_eq!(post.header("mcp-session-id"), Some("s2"));
    }
    for post in sent.iter().filter(|sent| sent.method == Method::POST) {
        rig.json(post.key, 200, &[], &result(post.json()["id"].clone()));
    }
    assert_eq!(rig.heard(), [result(1), result(2)], "of the handshake nothing is told");
    assert_eq!(rig.notices().len(), 2);
    rig.client.handle_close();
    let delete = rig.sent_one();
    assert_eq!((delete.method.clone(), delete.header("mcp-session-id")), (Method::DELETE, Some("s2")));
}

#[test]
fn what_was_in_flight_in_the_lost_session_is_answered_with_an_error() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let reading = rig.sent_one();
    rig.stream(reading.key);
    rig.say(&call(2));
    let away = rig.sent_one();
    rig.stream(away.key);
    rig.event_with_id(away.key, "e-1", &progress(2));
    rig.fail(away.key, "connection reset");
    rig.heard();
    rig.say(&call(3));
    let refused = rig.sent_one();
    rig.answer(refused.key, 404, &[], "");
    let heard = rig.heard();
    assert_eq!(heard.iter().map(|error| error["id"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for error in heard {
        assert_eq!(error["error"]["code"], -31002);
        assert_eq!(error["error"]["message"], "the session ended on the server; the request may have been carried out");
    }
    assert_eq!(rig.take_aborted(), [reading.key]);
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    assert!(rig.sent().iter().any(|sent| sent.body == call(3)));
}

#[test]
fn requests_that_are_refused_together_are_all_sent_again() {
    let mut rig = Rig::in_session(LEGACY);
    for id in 1..4 {
        rig.say(&call(id));
    }
    let posts = rig.sent();
    rig.answer(posts[0].key, 404, &[], "");
    let sent = rig.sent();
    rig.answer(posts[1].key, 404, &[], "");
    reopen(&mut rig, sent, "s2");
    rig.answer(posts[2].key, 404, &[], "");
    let sent = rig.sent();
    let mut bodies: Vec<&str> =
        sent.iter().filter(|sent| sent.method == Method::POST).map(|sent| &*sent.body).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, [call(1), call(2), call(3)], "and the session is opened once");
    assert!(rig.heard().is_empty());
}

#[test]
fn a_request_that_the_lost_session_does_not_answer_at_all_is_given_up() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    rig.answer(posts[0].key, 404, &[], "");
    rig.pass(ms(4_999));
    assert!(rig.heard().is_empty());
    rig.pass(ms(1));
    assert_eq!(rig.error(2).0, -31002);
    assert_eq!(rig.take_aborted(), [posts[1].key]);
    // Another that does answer is heard.
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    rig.answer(posts[0].key, 404, &[], "");
    rig.stream(posts[1].key);
    rig.pass(secs(20));
    rig.event(posts[1].key, &result(2));
    assert_eq!(rig.heard_one(), result(2));
}

#[test]
fn a_request_is_sent_again_once() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    let post = rig.sent().into_iter().find(|sent| sent.body == call(1)).unwrap();
    rig.answer(post.key, 404, &[], "Not found");
    assert_eq!(rig.error(1).1, "https://mcp.test answered 404 Not Found: Not found");
    assert!(rig.sent().iter().all(|sent| sent.method == Method::GET));
}

#[test]
fn a_server_that_forgets_each_session_at_once_makes_no_circle() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s2")], &initialized(0, LEGACY));
    let post = rig.sent_one();
    assert_eq!(post.message_method(), "notifications/initialized");
    rig.answer(post.key, 404, &[], "");
    let post = rig.sent_one();
    assert_eq!(post.body, call(1));
    rig.answer(post.key, 404, &[], "");
    assert_eq!(rig.error(1).0, -31002);
    assert!(rig.sent().is_empty());
    rig.check_empty();
}

#[test]
fn a_session_that_cannot_be_opened_again_ends_what_waits_for_it_and_the_next_request_tries_again() {
    for how in 0..3 {
        let mut rig = Rig::in_session(LEGACY);
        rig.say(&call(1));
        let post = rig.sent_one();
        rig.answer(post.key, 404, &[], "");
        rig.say(&call(2));
        rig.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let post = rig.sent_one();
        let why = match how {
            0 => {
                rig.json(post.key, 200, &[], &error(0, -32602, "no such revision"));
                "no such revision"
            }
            1 => {
                rig.fail(post.key, "connection refused");
                "connection refused"
            }
            _ => {
                rig.answer(post.key, 503, &[], "");
                "503 Service Unavailable"
            }
        };
        let heard = rig.heard();
        assert_eq!(heard.iter().map(|error| error["id"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        let text = heard[0]["error"]["message"].as_str().unwrap();
        assert!(text.contains("no new one could be opened") && text.contains(why), "{text}");
        rig.check_empty();
        rig.say(&call(3));
        let sent = rig.sent();
        reopen(&mut rig, sent, "s3");
        assert!(rig.sent().iter().any(|sent| sent.body == call(3)));
    }
}

#[test]
fn a_cancelled_request_is_not_sent_again() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    rig.say(&cancel(2));
    rig.answer(posts[0].key, 404, &[], "");
    rig.answer(posts[1].key, 404, &[], "");
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    rig.pass(secs(1));
    let bodies: Vec<String> = rig.sent().into_iter().map(|sent| sent.body).collect();
    assert!(bodies.contains(&call(1)));
    assert!(!bodies.contains(&call(2)) && !bodies.contains(&cancel(2)), "{bodies:?}");
    // Nor one that is cancelled while it waits for the new session.
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    rig.say(&cancel(1));
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    assert!(rig.sent().iter().all(|sent| sent.method == Method::GET));
}

#[test]
fn of_a_batch_only_what_was_not_cancelled_is_sent_again() {
    let mut rig = Rig::in_session("2025-03-26");
    rig.say(&format!("[{},{}]", call(1), call(2)));
    let post = rig.sent_one();
    rig.pass(secs(1));
    rig.say(&cancel(1));
    let cancelled = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    rig.answer(cancelled.key, 404, &[], "");
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s2")], &initialized(0, "2025-03-26"));
    let post = rig.sent_one();
    rig.accept(post.key);
    let bodies: Vec<String> = rig.sent().into_iter().map(|sent| sent.body).collect();
    assert!(bodies.contains(&format!("[{}]", call(2))), "{bodies:?}");
}

#[test]
fn a_notification_that_was_refused_is_said_again_and_an_answer_is_not() {
    let mut rig = Rig::in_session(LEGACY);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    rig.say(note);
    rig.say(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#);
    let posts = rig.sent();
    rig.answer(posts[1].key, 404, &[], "");
    rig.answer(posts[0].key, 404, &[], "");
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    let bodies: Vec<String> = rig.sent().into_iter().map(|sent| sent.body).collect();
    assert_eq!(bodies.iter().filter(|body| **body == note).count(), 1);
    assert_eq!(bodies.len(), 2, "{bodies:?}");
}

#[test]
fn a_method_that_the_server_does_not_know_is_no_lost_session() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.json(post.key, 404, &[], &error(1, -32601, "no such method"));
    assert_eq!(rig.error(1).0, -32601);
    assert!(rig.sent().is_empty());
}

#[test]
fn requests_outside_a_session_do_not_mind_that_it_is_lost() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&modern_call("new"));
    let new = rig.sent_one();
    rig.stream(new.key);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    assert!(rig.heard().is_empty());
    rig.event(new.key, &result("new"));
    assert_eq!(rig.heard_one(), result("new"));
    rig.say(&modern_call("other"));
    assert!(rig.sent().iter().any(|sent| sent.body == modern_call("other")));
}

#[test]
fn a_handshake_of_the_local_client_takes_the_place_of_ours() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    let ours = rig.sent_one();
    let theirs = initialize(LEGACY).replace(r#""id":0"#, r#""id":"again""#);
    rig.say(&theirs);
    let post = rig.sent_one();
    assert_eq!(post.body, theirs);
    rig.json(ours.key, 200, &[("mcp-session-id", "ours")], &initialized(0, LEGACY));
    rig.json(post.key, 200, &[("mcp-session-id", "theirs")], &initialized("again", LEGACY));
    assert_eq!(rig.heard(), [initialized("again", LEGACY)]);
    let sent = rig.sent_one();
    assert_eq!((&*sent.body, sent.header("mcp-session-id")), (&*call(1), Some("theirs")));
}

#[test]
fn a_cancel_of_the_lost_session_is_not_repeated_in_the_new_one() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let cancelled = rig.sent_one();
    rig.stream(cancelled.key);
    rig.say(&cancel(1));
    let lost = rig.sent_one();
    rig.say(&call(2));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    rig.fail(lost.key, "connection reset");
    let sent = rig.sent();
    reopen(&mut rig, sent, "s2");
    rig.pass(secs(10));
    assert!(rig.sent().iter().all(|sent| sent.body != cancel(1)));
}
