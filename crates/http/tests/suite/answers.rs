//! How a request is answered: whole or as a stream, and what keeps a stream alive.

use std::time::Duration;

use http::Method;
use rescind_http::server::HttpServerConfig;
use serde_json::{Value, json};

use crate::rig::*;

#[test]
fn an_answer_that_comes_at_once_is_the_whole_body() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    assert_eq!(rig.at(client.link), [call("1")]);
    rig.answer(client.link, "1", "done");
    let answer = rig.read(key);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.body, Some(result_of("1", "done")));
    assert_eq!(answer.header("mcp-session-id"), None, "only the handshake names the session");
    rig.leaves_nothing();
}

#[test]
fn an_error_is_an_answer_too() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such tool"}}"#;
    let key = rig.post_to(&client, &call("1"));
    rig.say(client.link, error);
    assert_eq!(rig.whole(key, 200), error, "in a session its status says nothing");
    rig.leaves_nothing();
}

#[test]
fn an_answer_that_takes_longer_comes_as_a_stream_which_ends_with_it() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    rig.pass_millis(99);
    assert_eq!(rig.read(key).status, 0, "nothing is decided yet");
    rig.pass_millis(1);
    let answer = rig.read(key);
    assert!(answer.is_stream() && !answer.has_ended);
    assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    rig.answer(client.link, "1", "done");
    let answer = rig.read(key);
    assert_eq!(answer.messages(), [result_of("1", "done")]);
    assert!(answer.has_ended);
    rig.leaves_nothing();
}

#[test]
fn a_message_before_the_answer_makes_it_a_stream() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    rig.say(client.link, &progress("7", 1));
    assert!(rig.read(key).is_stream());
    rig.answer(client.link, "1", "done");
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.has_ended);
    assert_eq!(answer.messages(), [progress("7", 1), result_of("1", "done")]);
    rig.leaves_nothing();
}

// D62.
#[test]
fn progress_that_was_not_handed_out_is_withdrawn_before_its_answer_and_nothing_else_is() {
    for count in [1, 2, 20] {
        let mut rig = Rig::new();
        let client = rig.session("2025-03-26");
        let key = rig.post_to(&client, &format!("[{},{}]", call_with_token("1", "7"), call_with_token("2", "8")));
        rig.say(client.link, &progress("7", 0));
        rig.say(client.link, &progress("8", 0));
        assert_eq!(rig.read(key).messages(), [progress("7", 0), progress("8", 0)]);
        for number in 1..=count {
            rig.say(client.link, &progress("7", number));
            rig.say(client.link, &progress("8", number));
        }
        rig.answer(client.link, "1", "done");
        let mut expected = vec![progress("7", 0), progress("8", 0)];
        expected.extend((1..=count).map(|number| progress("8", number)));
        expected.push(result_of("1", "done"));
        assert_eq!(rig.read(key).messages(), expected);
        rig.answer(client.link, "2", "done");
        assert!(rig.read(key).has_ended);
        rig.leaves_nothing();
    }
}

#[test]
fn only_the_newest_revision_with_sessions_primes_a_stream_and_all_of_them_number_their_events() {
    for revision in ["2025-03-26", "2025-06-18", LEGACY] {
        let mut rig = Rig::new();
        let client = rig.session(revision);
        let key = rig.post_to(&client, &call("1"));
        rig.pass_millis(100);
        rig.answer(client.link, "1", "done");
        let events = rig.read(key).events;
        let primers = events.iter().filter(|event| event.data.is_empty()).count();
        assert_eq!(primers, usize::from(revision == LEGACY), "MCP-H07");
        let ids: Vec<_> = events.iter().map(|event| event.id.clone().expect("an id")).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
        rig.leaves_nothing();
    }
}

#[test]
fn ids_of_events_are_unique_in_their_session() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    let keys: Vec<_> = (1..4).map(|id| rig.post_to(&client, &call(&id.to_string()))).collect();
    rig.pass_millis(100);
    for id in 1..4 {
        rig.say(client.link, &note("to whoever listens"));
        rig.answer(client.link, &id.to_string(), "done");
    }
    let mut ids: Vec<_> = keys.into_iter().chain([listening]).flat_map(|key| rig.read(key).events).collect();
    ids.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(ids.len(), 10);
    assert!(ids.windows(2).all(|pair| pair[0].id != pair[1].id), "{ids:?}");
    rig.leaves_nothing();
}

#[test]
fn without_a_session_events_have_no_id() {
    let mut rig = Rig::new();
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.pass_millis(100);
    rig.answer(link, "1", "done");
    let events = rig.read(key).events;
    assert_eq!(events, [Event { id: None, data: result_of("1", "done") }], "they cannot be resumed (MCP-H06)");
    rig.leaves_nothing();
}

#[test]
fn a_client_that_takes_no_events_gets_its_answer_and_nothing_else() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for accept in ["application/json", "text/html", "text/event-stream-like"] {
        let headers = [("accept", accept), ("mcp-session-id", &*client.id)];
        let key = rig.send(&Method::POST, "/mcp", &headers, &call_with_token("1", "7"));
        rig.pass(Duration::from_secs(10));
        rig.say(client.link, &progress("7", 1));
        assert_eq!(rig.read(key).status, 0);
        rig.answer(client.link, "1", "done");
        assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    }
    rig.leaves_nothing();
}

#[test]
fn events_are_taken_by_every_spelling_of_accept() {
    for accept in [
        &["application/json, text/event-stream"][..],
        &["application/json", "Text/Event-Stream"],
        &["application/json;q=0.5, text/event-stream;q=0.5"],
        &["*/*"],
        &["text/*"],
        &[],
    ] {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        let mut headers = vec![("mcp-session-id", &*client.id)];
        headers.extend(accept.iter().map(|accept| ("accept", *accept)));
        let key = rig.send(&Method::POST, "/mcp", &headers, &call("1"));
        rig.pass_millis(100);
        assert!(rig.read(key).is_stream(), "{accept:?}");
        rig.leaves_nothing();
    }
}

#[test]
fn a_message_with_line_breaks_is_one_event_and_one_line() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"x\"}\n");
    assert_eq!(rig.at(client.link), ["{\"jsonrpc\":\"2.0\",  \"id\":1, \"method\":\"x\"} "]);
    rig.pass_millis(100);
    rig.say(client.link, "{\"jsonrpc\":\"2.0\",\n\"id\":1,\r\n\"result\":{}}\r\n");
    assert_eq!(rig.read(key).messages(), ["{\"jsonrpc\":\"2.0\", \"id\":1,  \"result\":{}}"]);
    rig.leaves_nothing();
}

#[test]
fn a_quiet_stream_says_something_once_every_keep_alive() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for key in [rig.listen(&client), rig.post_to(&client, &call("1"))] {
        rig.pass_millis(100);
        assert_eq!(rig.read(key).comments, 0);
        let mut last = 0;
        for quarter in 1..=40_u64 {
            rig.pass(Duration::from_millis(3750));
            let comments = rig.read(key).comments as u64;
            assert!(comments <= last + 1);
            last = comments;
            let seconds = Duration::from_millis(3750) * u32::try_from(quarter).unwrap();
            assert_eq!(comments, seconds.as_secs() / 15, "after {seconds:?}");
        }
    }
    rig.leaves_nothing();
}

#[test]
fn many_quiet_streams_wake_the_driver_a_few_times() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let keys: Vec<_> = (0..500).map(|id| rig.post_to(&client, &call(&id.to_string()))).collect();
    rig.pass_millis(100);
    for key in keys {
        assert!(rig.read(key).is_stream());
        rig.pass_millis(1);
    }
    // A keep-alive is 15 s, and each stream is looked at twice in that time.
    let until = rig.now + Duration::from_secs(15);
    let mut wakes = 0;
    while let Some(due) = rig.server.poll_timeout().filter(|due| *due <= until) {
        rig.now = due.max(rig.now);
        rig.server.handle_timeout(rig.now);
        wakes += 1;
    }
    assert!(wakes < 50, "{wakes} wakes");
    rig.drain();
    rig.leaves_nothing();
}

#[test]
fn a_stream_that_speaks_needs_no_sign_of_life() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    for number in 0..20 {
        rig.say(client.link, &progress("7", number));
        assert_eq!(rig.read(key).comments, 0);
        rig.pass(Duration::from_secs(7));
    }
    rig.leaves_nothing();
}

#[test]
fn a_response_that_is_not_decided_has_no_sign_of_life() {
    let mut rig = Rig::with(HttpServerConfig { stream_after: Duration::from_secs(60), ..config() });
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    rig.pass(Duration::from_secs(50));
    assert_eq!(rig.read(key).status, 0);
    rig.answer(client.link, "1", "done");
    assert_eq!(rig.whole(key, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn settings_of_no_length_do_not_spin() {
    let zero = Duration::ZERO;
    let mut rig = Rig::with(HttpServerConfig {
        stream_after: zero,
        keep_alive: zero,
        idle: zero,
        resume_within: zero,
        ask_within: zero,
        ..config()
    });
    let key = rig.post(&[], r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    rig.pass_millis(20);
    rig.read(key);
    rig.pass_millis(20);
    rig.leaves_nothing();
}

#[test]
fn many_events_come_in_pieces_that_a_driver_can_write() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call_with_token("1", "7"));
    let text = "x".repeat(50_000);
    for _ in 0..5 {
        rig.say(client.link, &note(&text));
    }
    let head = rig.server.poll_head(rig.now, key);
    assert!(head.is_some());
    let mut pieces = 0;
    while let rescind_http::server::BodyChunk::Bytes(bytes) = rig.server.poll_body(rig.now, key) {
        assert!(bytes.len() <= 64 << 10, "{}", bytes.len());
        pieces += 1;
    }
    assert_eq!(pieces, 5, "two would be longer than 64 KiB");
    rig.hang_up(key);
    rig.leaves_nothing();
}

/// D43: the program is a client of a server over HTTP, which has refused the request.
#[test]
fn a_refusal_of_the_server_behind_keeps_its_status_and_when_to_come_back() {
    let cases =
        [(429, Some("120"), 429), (503, None, 503), (500, Some("7"), 500), (404, Some("9"), 200), (600, None, 200)];
    for (behind, retry_after, expected) in cases {
        let mut rig = Rig::with(config());
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
        let reply = rig.post(&headers, &modern_call("1").to_string());
        let link = rig.shared();
        let asked: Value = serde_json::from_str(rig.at(link).last().unwrap()).unwrap();
        let id = asked["id"].clone();
        let mut data = json!({"mayHaveRun": false, "httpStatus": behind});
        data.as_object_mut().unwrap().extend(retry_after.map(|value| ("retryAfter".to_owned(), json!(value))));
        let error = json!({"code": -31002, "message": "x", "data": data});
        rig.say(link, &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        let answer = rig.read(reply);
        assert_eq!(answer.status, expected, "{behind}");
        assert_eq!(answer.header("retry-after"), retry_after.filter(|_| expected != 200), "{behind}");
    }
}

/// D43: the answer is a valid one, so nothing of it may change.
#[test]
fn an_answer_of_the_server_behind_keeps_its_status_and_when_to_come_back() {
    let cases = [
        (r#","rescind/http":{"httpStatus":429,"retryAfter":"120"}"#, 429, Some("120")),
        (r#","rescind/http":{"httpStatus":503}"#, 503, None),
        (r#","rescind/http":{"httpStatus":404,"retryAfter":"9"}"#, 200, None),
        (r#","rescind/http":7"#, 200, None),
        ("", 200, None),
    ];
    for (note, expected, retry_after) in cases {
        for is_modern in [true, false] {
            let mut rig = Rig::with(config());
            let (reply, link) = if is_modern {
                let reply = rig.post_modern(&modern_call("1"));
                (reply, rig.shared())
            } else {
                let client = rig.session(LEGACY);
                (rig.post_to(&client, &call("1")), client.link)
            };
            let asked: Value = serde_json::from_str(rig.at(link).last().unwrap()).unwrap();
            let error = r#""error":{"code":-32000,"message":"slow down","data":{"x":[1.0]}}"#;
            rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{},{error}{note}}}"#, asked["id"]));
            let answer = rig.read(reply);
            assert_eq!(answer.body.as_deref(), Some(&*format!(r#"{{"jsonrpc":"2.0","id":1,{error}}}"#)), "{note}");
            assert_eq!(answer.status, expected, "{note}");
            assert_eq!(answer.header("retry-after"), retry_after, "{note}");
        }
    }
}
