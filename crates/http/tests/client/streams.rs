//! Streams whose connection ends too early: how they are resumed, and what is said for those that cannot be.

use http::Method;
use serde_json::json;

use crate::rig::*;

/// A call in a session whose stream is open.
fn streaming() -> (Rig, Sent) {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    (rig, post)
}

#[test]
fn a_broken_stream_is_resumed_behind_its_last_event() {
    let (mut rig, post) = streaming();
    rig.body(post.key, "id: e-0\ndata:\n\n");
    rig.event_with_id(post.key, "e-1", &progress(1));
    // What was cut off does not count.
    rig.body(post.key, "id: e-2\ndata: {\"jsonrpc\":");
    rig.fail(post.key, "connection reset");
    assert!(rig.sent().is_empty());
    assert!(rig.pass_to_timer() >= ms(500));
    let get = rig.sent_one();
    assert_eq!((get.method.clone(), get.header("last-event-id")), (Method::GET, Some("e-1")));
    assert_eq!((get.header("mcp-session-id"), get.header("accept")), (Some("s1"), Some("text/event-stream")));
    rig.stream(get.key);
    rig.event_with_id(get.key, "e-2", &progress(1));
    rig.event_with_id(get.key, "e-3", &result(1));
    rig.end(get.key);
    assert_eq!(rig.heard(), [progress(1), progress(1), result(1)]);
    rig.check_empty();
}

#[test]
fn an_event_that_is_sent_twice_is_delivered_once() {
    let (mut rig, post) = streaming();
    for n in 1..5 {
        rig.event_with_id(post.key, &format!("e-{n}"), &progress(n));
    }
    rig.fail(post.key, "connection reset");
    rig.pass_to_timer();
    let get = rig.sent_one();
    rig.stream(get.key);
    for n in 1..7 {
        rig.event_with_id(get.key, &format!("e-{n}"), &progress(n));
    }
    rig.fail(get.key, "connection reset");
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!(get.header("last-event-id"), Some("e-6"));
    rig.stream(get.key);
    rig.event_with_id(get.key, "e-6", &progress(6));
    rig.event_with_id(get.key, "e-7", &result(1));
    let expected: Vec<_> = (1..7).map(progress).chain([result(1)]).collect();
    assert_eq!(rig.heard(), expected);
}

#[test]
fn a_server_whose_events_all_have_one_id_is_heard_as_long_as_nothing_breaks() {
    let (mut rig, post) = streaming();
    rig.event_with_id(post.key, "same", &progress(1));
    rig.event_with_id(post.key, "same", &progress(2));
    rig.event_with_id(post.key, "same", &result(1));
    assert_eq!(rig.heard().len(), 3);
}

#[test]
fn a_connection_that_ends_in_order_is_not_the_end_of_the_stream() {
    let (mut rig, post) = streaming();
    rig.body(post.key, "id: e-0\nretry: 2500\ndata:\n\n");
    rig.end(post.key);
    assert_eq!(rig.pass_to_timer(), ms(2500), "the server's word counts (MCP-H07)");
    for _ in 0..50 {
        let get = rig.sent_one();
        assert_eq!(get.header("last-event-id"), Some("e-0"));
        rig.stream(get.key);
        // A sign of life, and nothing else: this may go on.
        rig.body(get.key, ":\n\n");
        rig.end(get.key);
        assert_eq!(rig.pass_to_timer(), ms(2500));
    }
    let get = rig.sent_one();
    rig.stream(get.key);
    rig.event_with_id(get.key, "e-1", &result(1));
    rig.end(get.key);
    assert_eq!(rig.heard_one(), result(1));
    rig.check_empty();
}

#[test]
fn a_stream_that_brings_nothing_is_given_up_after_a_while() {
    for is_in_order in [true, false] {
        let (mut rig, post) = streaming();
        rig.body(post.key, "id: e-0\ndata:\n\n");
        rig.fail(post.key, "connection reset");
        let mut waits = Vec::new();
        let mut asked = 0;
        while rig.client.poll_timeout().is_some() {
            waits.push(rig.pass_to_timer());
            let get = rig.sent_one();
            asked += 1;
            if is_in_order {
                rig.stream(get.key);
                rig.end(get.key);
            } else {
                rig.fail(get.key, "connection refused");
            }
        }
        assert_eq!(asked, 10);
        assert!(waits[0] >= ms(500) && waits[0] <= ms(625), "{waits:?}");
        assert!(waits[9] >= secs(30) && waits[9] <= secs(38), "{waits:?}");
        let (code, text) = rig.error(1);
        assert_eq!(code, -31002);
        let why = if is_in_order { "ended its response without an answer" } else { "connection refused" };
        assert!(text.contains(why) && text.contains("may have been carried out"), "{text}");
        rig.check_empty();
    }
}

#[test]
fn a_server_that_nobody_reaches_any_more_is_given_up_soon() {
    let (mut rig, post) = streaming();
    rig.body(post.key, "id: e-0\ndata:\n\n");
    rig.fail(post.key, "connection reset");
    let lost = rig.now;
    for _ in 0..4 {
        assert!(rig.heard().is_empty());
        rig.pass_to_timer();
        let get = rig.sent_one();
        rig.unreached(get.key);
    }
    let heard = rig.heard_one();
    assert_eq!(heard["error"]["data"]["mayHaveRun"], true);
    let text = heard["error"]["message"].as_str().unwrap();
    assert!(text.contains("connection refused") && text.contains("could not be resumed"), "{text}");
    assert!(rig.now.since(lost) < secs(10), "{:?}", rig.now.since(lost));
    rig.check_empty();
}

#[test]
fn a_server_that_comes_back_is_resumed() {
    let (mut rig, post) = streaming();
    rig.body(post.key, "id: e-0\ndata:\n\n");
    rig.fail(post.key, "connection reset");
    for _ in 0..3 {
        rig.pass_to_timer();
        let get = rig.sent_one();
        rig.unreached(get.key);
    }
    rig.pass_to_timer();
    let get = rig.sent_one();
    rig.stream(get.key);
    rig.event_with_id(get.key, "e-1", &result(1));
    rig.end(get.key);
    assert_eq!(rig.heard(), [result(1)]);
    rig.check_empty();
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let (mut rig, post) = streaming();
    rig.body(post.key, "id: e-0\ndata:\n\n");
    rig.end(post.key);
    for status in [503, 429, 502] {
        rig.pass_to_timer();
        let get = rig.sent_one();
        rig.answer(get.key, status, &[], "");
        rig.take_aborted();
    }
    rig.pass_to_timer();
    let get = rig.sent_one();
    rig.stream(get.key);
    rig.event(get.key, &result(1));
    assert_eq!(rig.heard_one(), result(1));
}

#[test]
fn a_stream_that_the_server_does_not_resume_is_lost() {
    for status in [404, 405, 400, 204] {
        let (mut rig, post) = streaming();
        rig.body(post.key, "id: e-0\ndata:\n\n");
        rig.end(post.key);
        rig.pass_to_timer();
        let get = rig.sent_one();
        rig.answer(get.key, status, &[], "");
        let heard = rig.heard_one();
        assert_eq!(heard["error"]["code"], -31002);
        assert_eq!(heard["error"]["data"], json!({"mayHaveRun": true, "httpStatus": status}));
        let text = heard["error"]["message"].as_str().unwrap();
        assert!(text.contains(&format!("does not resume the stream ({status}")), "{text}");
        rig.pass(secs(60));
        assert!(rig.sent().is_empty(), "it is not asked for again, nor is the session given up");
    }
}

#[test]
fn a_stream_without_ids_that_ends_without_an_answer_is_lost() {
    for is_in_order in [true, false] {
        let (mut rig, post) = streaming();
        rig.event(post.key, &progress(1));
        if is_in_order {
            rig.end(post.key);
        } else {
            rig.fail(post.key, "unexpected end of file");
        }
        assert_eq!(rig.heard().len(), 2);
        rig.pass(secs(60));
        assert!(rig.sent().is_empty());
        rig.check_empty();
    }
}

#[test]
fn an_id_that_no_header_can_hold_or_that_is_taken_back_cannot_be_resumed_behind() {
    for last in ["\u{1}".to_owned(), "x".repeat(2000), String::new()] {
        let (mut rig, post) = streaming();
        rig.event_with_id(post.key, "e-1", &progress(1));
        rig.event_with_id(post.key, &last, &progress(1));
        rig.end(post.key);
        assert_eq!(rig.heard().len(), 3, "{last:?}");
    }
}

#[test]
fn a_stream_that_breaks_before_it_began_is_lost() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let written = rig.sent();
    rig.say(&call(3));
    let handed = rig.handed();
    rig.fail(written[0].key, "connection closed before message completed");
    let (code, text) = rig.error(1);
    assert_eq!(code, -31002);
    assert_eq!(
        text,
        "https://mcp.test did not answer (connection closed before message completed); \
         the request may have been carried out"
    );
    rig.fail(handed[0].key, "tcp connect error: Connection refused (os error 111)");
    let heard = rig.heard_one();
    assert_eq!(heard["error"]["data"], json!({"mayHaveRun": false}));
    assert_eq!(
        heard["error"]["message"],
        "cannot reach https://mcp.test: tcp connect error: Connection refused (os error 111)"
    );
    rig.head(written[1].key, 200, &[("content-type", "application/json")]);
    rig.body(written[1].key, r#"{"jsonrpc":"2.0","id":2,"#);
    rig.fail(written[1].key, "connection reset");
    assert_eq!(rig.error(2).0, -31002);
    rig.check_empty();
}

#[test]
fn a_handshake_may_be_resumed_too() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.head(post.key, 200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s1")]);
    rig.body(post.key, "id: e-0\ndata:\n\n");
    rig.end(post.key);
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!((get.header("mcp-session-id"), get.header("last-event-id")), (Some("s1"), Some("e-0")));
    rig.stream(get.key);
    rig.event(get.key, &initialized(0, LEGACY));
    assert_eq!(rig.heard().len(), 1);
    rig.say(&call(1));
    assert_eq!(rig.sent_one().header("mcp-protocol-version"), Some(LEGACY));
}

#[test]
fn a_stream_that_stays_open_after_its_answer_is_let_go() {
    let (mut rig, post) = streaming();
    rig.event(post.key, &result(1));
    assert_eq!(rig.heard_one(), result(1));
    rig.event(post.key, &progress(1));
    assert_eq!(rig.heard_one(), progress(1));
    rig.event(post.key, &result(1));
    assert!(rig.heard().is_empty(), "a request is answered once");
    rig.pass(secs(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    rig.check_empty();
}

#[test]
fn in_a_session_an_answer_may_come_on_any_stream() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    rig.say(&call(2));
    let posts = rig.sent();
    rig.stream(posts[0].key);
    rig.event(posts[0].key, &result(2));
    rig.event(posts[0].key, &result(1));
    assert_eq!(rig.heard(), [result(2), result(1)]);
    rig.pass(secs(1));
    assert_eq!(rig.take_aborted().len(), 2);
    rig.check_empty();
}

#[test]
fn outside_a_session_a_broken_stream_loses_its_request() {
    for is_in_order in [true, false] {
        let mut rig = Rig::new();
        rig.say(&modern_call(1));
        let post = rig.sent_one();
        rig.stream(post.key);
        rig.event_with_id(post.key, "e-1", &progress(1));
        if is_in_order {
            rig.end(post.key);
        } else {
            rig.fail(post.key, "connection reset");
        }
        assert_eq!(rig.heard().len(), 2);
        rig.pass(secs(60));
        assert!(rig.sent().is_empty(), "it is neither resumed nor sent again (MCP-H06)");
        rig.check_empty();
    }
}

#[test]
fn outside_a_session_events_have_no_ids_that_matter() {
    let (mut rig, post) = listening();
    rig.event_with_id(post.key, "1", &changed());
    rig.fail(post.key, "connection reset");
    rig.pass_to_timer();
    let post = rig.sent_one();
    assert_eq!((post.method.clone(), post.header("last-event-id")), (Method::POST, None));
    rig.stream(post.key);
    rig.event_with_id(post.key, "1", &changed());
    assert_eq!(rig.heard(), [changed(), changed()]);
}

fn listen() -> String {
    modern(7, "subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}))
}

fn acknowledged(tools: bool) -> serde_json::Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    let params = json!({"_meta": meta, "notifications": {"toolsListChanged": tools}});
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
}

fn changed() -> serde_json::Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})
}

/// A subscription that the server has acknowledged.
fn listening() -> (Rig, Sent) {
    let mut rig = Rig::new();
    rig.say(&listen());
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &acknowledged(true));
    assert_eq!(rig.heard_one(), acknowledged(true));
    (rig, post)
}

#[test]
fn a_subscription_that_breaks_is_sent_again() {
    let (mut rig, post) = listening();
    rig.fail(post.key, "connection reset");
    assert!(rig.sent().is_empty() && rig.heard().is_empty());
    assert!(rig.pass_to_timer() >= ms(500));
    let post = rig.sent_one();
    assert_eq!((post.method.clone(), &*post.body), (Method::POST, &*listen()));
    assert_eq!(post.header("mcp-method"), Some("subscriptions/listen"));
    rig.fail(post.key, "connection refused");
    rig.pass_to_timer();
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &acknowledged(true));
    rig.event(post.key, &changed());
    assert_eq!(rig.heard(), [changed()], "the local client does not notice");
    rig.end(post.key);
    rig.pass_to_timer();
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &acknowledged(false));
    assert_eq!(rig.heard(), [acknowledged(false)], "unless it gets less than before");
    // A cancel ends it, wherever it is.
    rig.fail(post.key, "connection reset");
    rig.say(&cancel(7));
    rig.pass(secs(60));
    assert!(rig.sent().is_empty() && rig.heard().is_empty());
    rig.check_empty();
}

#[test]
fn a_subscription_that_is_refused_or_cannot_be_sent_at_first_is_answered() {
    let mut rig = Rig::new();
    rig.say(&listen());
    let post = rig.sent_one();
    rig.fail(post.key, "connection refused");
    assert_eq!(rig.error(7).0, -31002);
    let (mut rig, post) = listening();
    rig.end(post.key);
    rig.pass_to_timer();
    let post = rig.sent_one();
    rig.json(post.key, 404, &[], &error(7, -32601, "not any more"));
    assert_eq!(rig.error(7).0, -32601);
    rig.check_empty();
}

#[test]
fn a_subscription_that_never_comes_back_is_given_up() {
    let (mut rig, post) = listening();
    rig.fail(post.key, "connection reset");
    let mut sent = 0;
    while rig.client.poll_timeout().is_some() {
        rig.pass_to_timer();
        let post = rig.sent_one();
        rig.fail(post.key, "connection refused");
        sent += 1;
    }
    assert_eq!(sent, 10);
    assert_eq!(rig.error(7).0, -31002);
    rig.check_empty();
}

#[test]
fn a_server_may_end_a_subscription_in_any_of_three_ways() {
    let (mut rig, post) = listening();
    let done = json!({"jsonrpc": "2.0", "id": 7, "result": {"resultType": "complete"}});
    rig.event(post.key, &done);
    rig.end(post.key);
    assert_eq!(rig.heard_one(), done);
    rig.check_empty();
    let (mut rig, post) = listening();
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    rig.event(post.key, &cancelled);
    rig.end(post.key);
    assert_eq!(rig.heard_one(), cancelled);
    rig.pass(secs(60));
    assert!(rig.sent().is_empty());
    rig.check_empty();
}

#[test]
fn outside_a_session_a_server_asks_nothing() {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.event(post.key, &json!({"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {}}));
    assert!(rig.heard().is_empty());
    assert_eq!(rig.notices().len(), 1);
    rig.say(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    assert!(rig.sent().is_empty());
}
