//! Sessions: how they are opened and listened to, and how they end.

use http::Method;
use rescind_http::client::HttpClientNotice;
use serde_json::json;

use crate::rig::*;

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[test]
fn a_handshake_opens_a_session_that_everything_later_names() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    assert_eq!((post.method.clone(), &*post.url, &*post.body), (Method::POST, URL, &*initialize(LEGACY)));
    assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(post.header("content-type"), Some("application/json"));
    assert_eq!((post.header("mcp-session-id"), post.header("mcp-protocol-version")), (None, None));
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, "2025-06-18"));
    assert_eq!(rig.heard_one(), initialized(0, "2025-06-18"));
    let in_session = |sent: &Sent| {
        assert_eq!(sent.header("mcp-session-id"), Some("s1"));
        assert_eq!(sent.header("mcp-protocol-version"), Some("2025-06-18"));
    };
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    in_session(&post);
    rig.accept(post.key);
    let get = rig.sent_one();
    assert_eq!((get.method.clone(), get.header("accept")), (Method::GET, Some("text/event-stream")));
    assert_eq!(get.header("last-event-id"), None);
    in_session(&get);
    rig.say(&call(1));
    let post = rig.sent_one();
    assert_eq!(post.body, call(1));
    in_session(&post);
    rig.json(post.key, 200, &[], &result(1));
    assert_eq!(rig.heard_one(), result(1));
    rig.client.handle_close();
    let delete = rig.sent_one();
    assert_eq!((delete.method.clone(), &*delete.body), (Method::DELETE, ""));
    in_session(&delete);
    assert!(!rig.client.is_closed());
    rig.answer(delete.key, 204, &[], "");
    assert!(rig.client.is_closed());
    rig.check_empty();
}

#[test]
fn what_is_said_before_the_handshake_is_over_waits_for_it() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    rig.say(INITIALIZED);
    rig.say(&call(1));
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &initialized(0, LEGACY));
    let post = rig.sent_one();
    assert_eq!(post.message_method(), "notifications/initialized");
    rig.pass(secs(1));
    assert!(rig.sent().is_empty());
    rig.head(post.key, 202, &[]);
    let sent: Vec<String> = rig.sent().iter().map(|sent| format!("{} {}", sent.method, sent.body)).collect();
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent.iter().any(|sent| sent == "GET "));
    assert!(sent.iter().any(|sent| *sent == format!("POST {}", call(1))));
}

#[test]
fn a_cancel_of_what_waits_for_the_handshake_takes_it_back() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    rig.say(&call(1));
    rig.say(&cancel(1));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[], &initialized(0, LEGACY));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.heard().len(), 1);
    rig.check_empty();
}

#[test]
fn a_handshake_that_fails_may_be_tried_again() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &error(0, -32602, "no such revision"));
    assert_eq!(rig.error(0).0, -32602);
    rig.say(&initialize("2025-06-18"));
    let post = rig.sent_one();
    assert_eq!(post.header("mcp-session-id"), None);
    rig.fail(post.key, "connection reset");
    let (code, text) = rig.error(0);
    assert_eq!(code, -31002);
    assert_eq!(text, "https://mcp.test did not answer (connection reset); the request may have been carried out");
    rig.say(&initialize("2025-06-18"));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s2")], &initialized(0, "2025-06-18"));
    assert_eq!(rig.heard().len(), 1);
    rig.say(&call(1));
    assert_eq!(rig.sent_one().header("mcp-session-id"), Some("s2"));
}

#[test]
fn a_second_handshake_ends_the_first_session() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&initialize(LEGACY));
    let (code, text) = rig.error(1);
    assert_eq!(code, -31002);
    assert!(text.contains("another session"), "{text}");
    assert_eq!(rig.take_aborted(), [post.key]);
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|sent| sent.method.clone()).collect::<Vec<_>>(), [Method::DELETE, Method::POST]);
    assert_eq!((sent[0].header("mcp-session-id"), sent[1].header("mcp-session-id")), (Some("s1"), None));
}

#[test]
fn a_server_may_give_a_session_no_id() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    assert_eq!((post.header("mcp-session-id"), post.header("mcp-protocol-version")), (None, Some(LEGACY)));
    rig.accept(post.key);
    rig.sent();
    rig.say(&call(1));
    let post = rig.sent_one();
    // Nobody has forgotten anything.
    rig.answer(post.key, 404, &[], "Not found");
    rig.heard();
    assert!(rig.sent().is_empty());
    rig.client.handle_close();
    assert!(rig.sent().is_empty());
    assert!(rig.client.is_closed());
}

#[test]
fn an_end_of_the_handshake_that_is_lost_is_said_again() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.fail(post.key, "connection reset");
    assert!(rig.sent().is_empty());
    rig.pass_to_timer();
    let post = rig.sent_one();
    assert_eq!(post.body, INITIALIZED);
    rig.answer(post.key, 503, &[], "");
    rig.pass_to_timer();
    let post = rig.sent_one();
    rig.accept(post.key);
    assert_eq!(rig.sent().len(), 2, "the call, and a GET");
}

#[test]
fn a_server_that_says_nothing_to_the_end_of_the_handshake_is_asked_after_a_while() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    rig.say(&call(1));
    let greeting = rig.sent_one();
    rig.pass(ms(9_999));
    assert!(rig.sent().is_empty());
    rig.pass(ms(1));
    assert_eq!(rig.sent_one().body, call(1));
    rig.accept(greeting.key);
    assert_eq!(rig.sent_one().method, Method::GET, "it is listened to as soon as it says something");
}

#[test]
fn a_server_that_refuses_the_end_of_the_handshake_is_asked_all_the_same() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    assert_eq!(rig.notices().len(), 1);
    let post = rig.sent_one();
    assert_eq!((post.header("mcp-session-id"), &*post.body), (Some("s1"), &*call(1)));
}

#[test]
fn the_server_is_listened_to_and_heard() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    rig.accept(post.key);
    let get = rig.sent_one();
    rig.stream(get.key);
    rig.heard();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}});
    rig.event_with_id(get.key, "a-1", &changed);
    rig.event_with_id(get.key, "a-2", &question);
    assert_eq!(rig.heard(), [changed.clone(), question]);
    rig.say(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#);
    let post = rig.sent_one();
    assert_eq!((&*post.body, post.header("mcp-session-id")), (r#"{"jsonrpc":"2.0","id":"q","result":{}}"#, Some("s1")));
    rig.accept(post.key);
    // The connection breaks: what was missed is asked for.
    rig.fail(get.key, "connection reset");
    assert!(rig.sent().is_empty());
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!((get.method.clone(), get.header("last-event-id")), (Method::GET, Some("a-2")));
    rig.stream(get.key);
    rig.event_with_id(get.key, "a-2", &changed);
    rig.event_with_id(get.key, "a-3", &changed);
    assert_eq!(rig.heard(), [changed], "what was heard before is not heard again");
    // The server ends it in order, and says when to come back.
    rig.body(get.key, "retry: 7000\n\n");
    rig.end(get.key);
    assert_eq!(rig.pass_to_timer(), secs(7));
    let get = rig.sent_one();
    assert_eq!(get.header("last-event-id"), Some("a-3"));
    rig.answer(get.key, 503, &[], "");
    assert!(rig.pass_to_timer() >= secs(7));
    assert_eq!(rig.sent_one().header("last-event-id"), Some("a-3"));
    assert!(rig.notices().is_empty());
}

/// A session whose server was asked for a stream to listen on, and that request.
fn asked_to_listen() -> (Rig, Sent) {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    rig.accept(post.key);
    rig.heard();
    let get = rig.sent_one();
    (rig, get)
}

/// Statuses that say for now: the stream is asked for again, whether it was there before or not.
const PASSING: [u16; 6] = [408, 429, 500, 502, 503, 504];

/// Those of which servers without such a stream use one, and others while they are replaced.
const REFUSALS: [u16; 20] =
    [200, 202, 204, 400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 415, 421, 422, 426, 451, 501];

#[test]
fn a_server_that_never_let_anyone_listen_is_not_asked_again_unless_it_may_pass() {
    for status in REFUSALS {
        let (mut rig, get) = asked_to_listen();
        rig.answer(get.key, status, &[], "");
        assert!(rig.client.poll_timeout().is_none() && rig.sent().is_empty(), "{status}");
        assert!(rig.notices().is_empty(), "{status}");
    }
    for status in PASSING {
        let (mut rig, get) = asked_to_listen();
        rig.answer(get.key, status, &[], "");
        rig.pass_to_timer();
        assert_eq!(rig.sent_one().method, Method::GET, "{status}");
    }
}

#[test]
fn a_stream_to_listen_on_that_breaks_and_is_refused_is_asked_for_again_and_that_is_told() {
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    for status in REFUSALS.into_iter().chain(PASSING) {
        let (mut rig, mut get) = asked_to_listen();
        rig.stream(get.key);
        rig.event_with_id(get.key, "a-1", &changed);
        rig.heard();
        rig.fail(get.key, "connection reset");
        let mut waits = vec![rig.pass_to_timer()];
        for _ in 0..20 {
            get = rig.sent_one();
            rig.answer(get.key, status, &[], "");
            waits.push(rig.pass_to_timer());
        }
        assert!(waits.windows(2).take(5).all(|pair| pair[1] > pair[0]), "{status}: {waits:?}");
        assert!(waits[10..].iter().all(|wait| (secs(30)..=secs(38)).contains(wait)), "{status}: {waits:?}");
        let is_told = !PASSING.contains(&status);
        let notices = rig.notices();
        assert_eq!(notices.len(), usize::from(is_told), "{status}: {notices:?}");
        if is_told {
            let text = notices[0].to_string();
            assert!(text.contains(&status.to_string()), "{text}");
        }
        // One that forgot the event is asked for a new stream.
        get = rig.sent_one();
        let cursor = (!matches!(status, 400 | 404 | 410)).then_some("a-1");
        assert_eq!(get.header("last-event-id"), cursor, "{status}");
        rig.stream(get.key);
        assert_eq!(rig.notices(), if is_told { vec![HttpClientNotice::HeardAgain] } else { vec![] }, "{status}");
        rig.event(get.key, &changed);
        assert_eq!(rig.heard_one(), changed);
        // The next time is told as well.
        rig.fail(get.key, "connection reset");
        rig.pass_to_timer();
        get = rig.sent_one();
        rig.answer(get.key, status, &[], "");
        assert_eq!(rig.notices().len(), usize::from(is_told), "{status}");
    }
}

/// The stream asks in vain; the next message finds out, and the new session is listened to.
#[test]
fn a_session_that_is_gone_while_it_is_listened_to_is_opened_again_by_the_next_message() {
    let (mut rig, get) = asked_to_listen();
    rig.stream(get.key);
    rig.fail(get.key, "connection reset");
    rig.pass_to_timer();
    let get = rig.sent_one();
    rig.answer(get.key, 404, &[], "");
    assert_eq!(rig.notices().len(), 1);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    let post = rig.sent_one();
    assert_eq!(post.message_method(), "initialize");
    rig.json(post.key, 200, &[("mcp-session-id", "s2")], &initialized(0, LEGACY));
    let mut gets = 0;
    for sent in rig.sent() {
        if sent.body.contains("initialized") {
            rig.accept(sent.key);
        }
        gets += usize::from(sent.method == Method::GET);
    }
    for sent in rig.sent() {
        assert_eq!(sent.header("mcp-session-id"), Some("s2"));
        gets += usize::from(sent.method == Method::GET);
    }
    assert_eq!(gets, 1, "the old one is not asked for any more");
}

#[test]
fn a_server_that_ends_each_stream_at_once_is_asked_less_and_less_often() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    rig.accept(post.key);
    let mut waits = Vec::new();
    for _ in 0..40 {
        let get = rig.sent_one();
        rig.stream(get.key);
        rig.end(get.key);
        waits.push(rig.pass_to_timer());
    }
    assert!((ms(500)..ms(626)).contains(&waits[0]), "{waits:?}");
    assert!(waits.windows(2).take(5).all(|pair| pair[1] > pair[0]), "{waits:?}");
    assert!(waits[10..].iter().all(|wait| (secs(30)..=secs(38)).contains(wait)), "{waits:?}");
}

#[test]
fn a_session_ends_with_what_was_said_before_and_all_responses_closed() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    rig.stream(posts[0].key);
    rig.say(&cancel(2));
    assert!(rig.sent().is_empty(), "its request was sent just now");
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    rig.client.handle_close();
    let sent = rig.sent();
    let shown: Vec<String> = sent.iter().map(|sent| format!("{} {}", sent.method, sent.body)).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown.contains(&format!("POST {}", cancel(2))) && shown.contains(&"DELETE ".to_owned()));
    let mut aborted = rig.take_aborted();
    aborted.sort();
    assert_eq!(aborted, [posts[0].key, posts[1].key]);
    rig.say(&call(3));
    assert!(rig.sent().is_empty());
    // The server answers some, and not others.
    rig.accept(sent[0].key);
    rig.pass(secs(30));
    assert!(rig.client.is_closed());
    rig.check_empty();
}

/// A session with a call whose cancel was just sent.
fn cancelling() -> (Rig, Sent) {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&cancel(1));
    let cancel = rig.sent_one();
    (rig, cancel)
}

/// A connection that was kept may be closed by its server just when it is used again: then the last that can be said is
/// said on another one, at once and once more.
#[test]
fn what_ends_work_is_sent_again_when_its_connection_breaks() {
    let (mut rig, first) = cancelling();
    rig.fail(first.key, "connection closed");
    let second = rig.sent_one();
    assert_eq!((&second.body, second.header("mcp-session-id")), (&cancel(1), Some("s1")));
    rig.client.handle_close();
    rig.take_aborted();
    let delete = rig.sent_one();
    rig.fail(delete.key, "connection closed");
    let again = rig.sent_one();
    assert_eq!((again.method.clone(), again.header("mcp-session-id")), (Method::DELETE, Some("s1")));
    rig.fail(again.key, "connection refused");
    rig.fail(second.key, "connection refused");
    assert!(rig.sent().is_empty());
    assert!(rig.client.is_closed());
    rig.check_empty();
}

#[test]
fn a_cancel_whose_connection_breaks_after_the_end_is_sent_again() {
    let (mut rig, first) = cancelling();
    rig.client.handle_close();
    rig.take_aborted();
    let delete = rig.sent_one();
    rig.fail(first.key, "connection closed");
    let second = rig.sent_one();
    assert_eq!(second.body, cancel(1));
    rig.accept(second.key);
    rig.answer(delete.key, 204, &[], "");
    assert!(rig.client.is_closed());
    rig.check_empty();
}

#[test]
fn what_comes_after_the_end_begins_nothing() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let greeting = rig.sent_one();
    rig.client.handle_close();
    let delete = rig.sent_one();
    rig.accept(greeting.key);
    rig.answer(delete.key, 404, &[], "");
    assert!(rig.sent().is_empty());
    assert!(rig.client.is_closed());
    let mut rig = Rig::in_session(LEGACY);
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let post = rig.sent_one();
    rig.client.handle_close();
    let delete = rig.sent_one();
    rig.answer(post.key, 404, &[], "");
    rig.answer(delete.key, 404, &[], "");
    assert!(rig.sent().is_empty());
    assert!(rig.client.is_closed());
}

#[test]
fn a_session_id_that_could_not_be_one_is_none() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "a b")], &initialized(0, LEGACY));
    rig.say(&call(1));
    assert_eq!(rig.sent_one().header("mcp-session-id"), None);
}

#[test]
fn nothing_secret_is_shown() {
    let config = config().header("Authorization: Bearer hidden").unwrap();
    let mut rig = Rig::with(config);
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    assert_eq!(post.header("authorization"), Some("Bearer hidden"));
    rig.json(post.key, 200, &[("mcp-session-id", "hidden")], &initialized(0, LEGACY));
    rig.say(INITIALIZED);
    let post = rig.sent_one();
    rig.accept(post.key);
    let get = rig.sent_one();
    rig.stream(get.key);
    rig.body(get.key, "id: hidden\ndata:\n\n");
    for shown in [format!("{:?}", rig.client), format!("{:?} {:?}", post.headers, get.headers)] {
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
