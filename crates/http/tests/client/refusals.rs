//! What is said for a server that refuses, and where it sends its clients.

use http::Method;
use serde_json::json;

use crate::rig::*;

/// A call outside a session, sent.
fn calling() -> (Rig, Sent) {
    let mut rig = Rig::new();
    rig.say(&modern_call(1));
    let post = rig.sent_one();
    (rig, post)
}

/// A call in a session, sent.
fn calling_in_session() -> (Rig, Sent) {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    (rig, post)
}

#[test]
fn an_error_that_is_the_body_answers_the_request() {
    let refused = [
        (404, error(1, -32601, "no such method")),
        (400, error(1, -32022, "unsupported")),
        (200, error(1, -32602, "bad params")),
        (400, json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "x"}})),
        (400, json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "x", "data": {"id": 5}}})),
        // What some SDK gives errors that it cannot attribute.
        (400, error("server-error", -32600, "x")),
        (500, error(null(), -32603, "x")),
    ];
    for (status, body) in refused {
        for (mut rig, post) in [calling(), calling_in_session()] {
            rig.json(post.key, status, &[], &body);
            let mut expected = body.clone();
            expected["id"] = json!(1);
            assert_eq!(rig.heard_one(), expected, "{status}");
            rig.check_empty();
        }
    }
}

fn null() -> serde_json::Value {
    serde_json::Value::Null
}

#[test]
fn an_error_without_an_id_answers_each_request_of_a_batch() {
    let mut rig = Rig::in_session("2025-03-26");
    rig.say(&format!("[{},{}]", call(1), call(2)));
    let post = rig.sent_one();
    rig.json(post.key, 400, &[], &error(null(), -32600, "no batches here"));
    let heard = rig.heard();
    assert_eq!(heard.iter().map(|error| error["id"].clone()).collect::<Vec<_>>(), [json!(1), json!(2)]);
    for error in heard {
        assert_eq!(error["error"]["code"], -31002);
        assert_eq!(error["error"]["message"], "https://mcp.test answered 400 Bad Request: no batches here");
    }
    rig.check_empty();
}

#[test]
fn any_other_refusal_is_said_in_words() {
    let html = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\x1b[2J nginx</body></html>";
    for (mut rig, post) in [calling(), calling_in_session()] {
        rig.answer(post.key, 502, &[("content-type", "text/html")], html);
        let heard = rig.heard_one();
        assert_eq!(heard["error"]["code"], -31002);
        assert_eq!(heard["error"]["data"], json!({"mayHaveRun": true, "httpStatus": 502}));
        assert_eq!(
            heard["error"]["message"],
            "https://mcp.test answered 502 Bad Gateway: <html> <head><title>502 Bad Gateway</title></head> <body> [2J \
             nginx</body></html>"
        );
        rig.check_empty();
    }
    let (mut rig, post) = calling_in_session();
    rig.answer(post.key, 418, &[], "");
    let heard = rig.heard_one();
    assert_eq!(heard["error"]["data"], json!({"mayHaveRun": false, "httpStatus": 418}));
    assert_eq!(heard["error"]["message"], "https://mcp.test answered 418 I'm a teapot");
}

#[test]
fn a_server_that_wants_to_know_who_asks_is_said_to() {
    let challenge = r#"Bearer resource_metadata="https://mcp.test/.well-known/oauth-protected-resource""#;
    let (mut rig, post) = calling();
    rig.answer(post.key, 401, &[("www-authenticate", challenge)], r#"{"error":"invalid_token"}"#);
    let (code, text) = rig.error(1);
    assert_eq!(code, -31002);
    assert_eq!(text, r#"https://mcp.test wants authorization (401 Unauthorized; Bearer): {"error":"invalid_token"}"#);
    let (mut rig, post) = calling_in_session();
    let body = error(null(), -32001, "Missing token");
    rig.json(post.key, 403, &[("www-authenticate", "Basic realm=x")], &body);
    assert_eq!(rig.error(1).1, "https://mcp.test wants authorization (403 Forbidden; Basic): Missing token");
    let (mut rig, post) = calling();
    rig.json(post.key, 403, &[], &error(null(), -32600, "Invalid origin"));
    assert_eq!(rig.error(1), (-32600, "Invalid origin".to_owned()));
}

#[test]
fn what_a_client_needs_to_sign_in_is_in_the_error() {
    for (mut rig, post) in [calling(), calling_in_session()] {
        let challenges = [("www-authenticate", r#"Bearer error="invalid_token""#), ("www-authenticate", "Basic")];
        rig.answer(post.key, 401, &challenges, "");
        let challenge = r#"Bearer error="invalid_token", Basic"#;
        let data = json!({"mayHaveRun": false, "httpStatus": 401, "wwwAuthenticate": challenge});
        assert_eq!(rig.heard_one()["error"]["data"], data);
    }
    // Whatever else it says, and also if it does not say how to sign in.
    let (mut rig, post) = calling();
    rig.json(post.key, 401, &[], &error(1, -32001, "Missing token"));
    let heard = rig.heard_one();
    assert_eq!(heard["error"]["message"], "https://mcp.test wants authorization (401 Unauthorized): Missing token");
    assert_eq!(heard["error"]["data"], json!({"mayHaveRun": false, "httpStatus": 401}));
    // Of other statuses it is nobody's business.
    let (mut rig, post) = calling();
    rig.answer(post.key, 418, &[("www-authenticate", "Bearer")], "");
    assert_eq!(rig.heard_one()["error"]["data"], json!({"mayHaveRun": false, "httpStatus": 418}));
}

#[test]
fn a_success_that_is_no_answer_is_none() {
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 6] = [
        (202, &[], "", "answered 202 Accepted, and gave no answer to the request"),
        (204, &[], "", "ended its response without an answer"),
        (
            200,
            &[("content-type", "text/html")],
            "<p>Log in</p>",
            "answered with text/html, which is no message: <p>Log in</p>",
        ),
        (200, &[("content-type", "application/json")], "", "ended its response without an answer"),
        (200, &[("content-type", "application/json")], "{\"ok\":true}", "gave no answer to the request: {\"ok\":true}"),
        (
            200,
            &[("content-type", "application/json"), ("content-encoding", "gzip")],
            "",
            "compressed the answer, which it was not asked to",
        ),
    ];
    for (status, headers, body, words) in cases {
        for (mut rig, post) in [calling(), calling_in_session()] {
            rig.answer(post.key, status, headers, body);
            let (code, text) = rig.error(1);
            assert_eq!(code, -31002);
            assert!(text.starts_with(&format!("https://mcp.test {words}")), "{text}");
            rig.check_empty();
        }
    }
}

#[test]
fn an_answer_without_a_content_type_is_read_as_json() {
    let (mut rig, post) = calling();
    rig.answer(post.key, 200, &[], &result(1).to_string());
    assert_eq!(rig.heard_one(), result(1));
}

#[test]
fn an_answer_on_several_lines_becomes_one() {
    let (mut rig, post) = calling();
    rig.answer(
        post.key,
        200,
        &[("content-type", "application/json; charset=utf-8")],
        "{\"jsonrpc\":\"2.0\",\r\n \"id\": 1,\n\"result\":{}\n}\n",
    );
    let message = rig.client.poll_message().unwrap().json;
    assert!(!message.contains(&b'\n') && !message.contains(&b'\r'));
}

#[test]
fn the_answer_to_another_request_is_none() {
    let (mut rig, post) = calling();
    rig.stream(post.key);
    rig.event(post.key, &result(2));
    assert!(rig.heard().is_empty());
    assert_eq!(rig.notices().len(), 1);
    rig.end(post.key);
    assert_eq!(rig.error(1).0, -31002);
}

#[test]
fn an_id_that_went_through_careless_hands_is_put_right() {
    for careless in [r#""1""#, "1.0"] {
        let (mut rig, post) = calling();
        rig.answer(post.key, 200, &[], &format!(r#"{{"jsonrpc":"2.0","id":{careless},"result":{{}}}}"#));
        assert_eq!(rig.heard_one(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    }
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_request() {
    let (mut rig, post) = calling();
    rig.stream(post.key);
    rig.body(post.key, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}]\n\n");
    assert_eq!(rig.error(1).0, -32603);
    let (mut rig, post) = calling();
    rig.stream(post.key);
    rig.client.handle_body(rig.now, post.key, b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"\xff\"}}\n\n");
    assert_eq!(rig.heard_one()["result"]["x"], "\u{FFFD}", "as most clients would have read it (D43)");
    // What is no message at all ends nothing.
    let (mut rig, post) = calling();
    rig.stream(post.key);
    rig.body(post.key, "data: keep-alive\n\ndata: {\"x\":1}\n\n");
    assert!(rig.heard().is_empty());
    rig.event(post.key, &result(1));
    assert_eq!(rig.heard_one(), result(1));
}

#[test]
fn a_server_of_the_first_transport_is_named() {
    for (is_modern, status) in [(true, 405), (false, 404), (false, 400)] {
        let mut rig = Rig::new();
        rig.say(&if is_modern { modern_call(0) } else { initialize(LEGACY) });
        let post = rig.sent_one();
        rig.answer(post.key, status, &[], "Cannot POST /sse");
        assert!(rig.heard().is_empty());
        let get = rig.sent_one();
        assert_eq!(
            (get.method.clone(), &*get.url, get.header("accept")),
            (Method::GET, URL, Some("text/event-stream"))
        );
        rig.stream(get.key);
        rig.body(get.key, "event: endpoint\ndata: /messages?session=1\n\n");
        assert_eq!(rig.take_aborted(), [get.key]);
        let (code, text) = rig.error(0);
        assert_eq!(code, -31002);
        assert!(text.contains("HTTP+SSE") && text.contains("2024-11-05"), "{text}");
        rig.check_empty();
    }
}

#[test]
fn a_server_that_is_not_of_the_first_transport_is_asked_about_it_once() {
    for how in 0..5 {
        let (mut rig, post) = calling();
        rig.answer(post.key, 400, &[], "Bad Request: no session");
        let get = rig.sent_one();
        match how {
            0 => rig.answer(get.key, 405, &[], ""),
            1 => rig.fail(get.key, "connection reset"),
            2 => {
                rig.stream(get.key);
                rig.event(get.key, &progress(1));
            }
            3 => {
                rig.stream(get.key);
                rig.end(get.key);
            }
            _ => rig.pass(secs(5)),
        }
        assert_eq!(rig.error(1).1, "https://mcp.test answered 400 Bad Request: Bad Request: no session", "{how}");
        rig.say(&modern_call(2));
        let post = rig.sent_one();
        rig.answer(post.key, 400, &[], "Bad Request: no session");
        assert_eq!(rig.error(2).0, -31002);
        assert!(rig.sent().is_empty());
        rig.check_empty();
    }
}

#[test]
fn a_cancel_while_the_transport_is_asked_about_ends_that() {
    let (mut rig, post) = calling();
    rig.answer(post.key, 404, &[], "");
    let get = rig.sent_one();
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [get.key]);
    rig.check_empty();
}

#[test]
fn a_server_that_answers_in_json_is_not_asked_about_its_transport() {
    let (mut rig, post) = calling();
    rig.json(post.key, 400, &[], &error(null(), -32000, "Bad Request: Server not initialized"));
    assert_eq!(rig.error(1).0, -32000);
    assert!(rig.sent().is_empty());
}

#[test]
fn a_redirect_that_keeps_the_method_is_followed() {
    for status in [307, 308] {
        let config = config().header("Authorization: Bearer t").unwrap();
        let mut rig = Rig::in_session_with(config, LEGACY);
        rig.say(&call(1));
        let post = rig.sent_one();
        rig.head(post.key, status, &[("location", "/mcp/")]);
        assert_eq!(rig.take_aborted(), [post.key]);
        let post = rig.sent_one();
        assert_eq!((post.method.clone(), &*post.url, &*post.body), (Method::POST, "https://mcp.test/mcp/", &*call(1)));
        assert_eq!((post.header("authorization"), post.header("mcp-session-id")), (Some("Bearer t"), Some("s1")));
        rig.json(post.key, 200, &[], &result(1));
        assert_eq!(rig.heard_one(), result(1));
        rig.check_empty();
    }
}

#[test]
fn secrets_are_not_told_to_another_origin() {
    let config = || config().header("Authorization: Bearer t").unwrap().header("X-Api-Key: k").unwrap();
    for location in ["https://other.test/mcp", "https://mcp.test:8443/mcp", "//other.test/mcp"] {
        let mut rig = Rig::in_session_with(config(), LEGACY);
        rig.say(&call(1));
        let post = rig.sent_one();
        rig.head(post.key, 307, &[("location", location)]);
        let post = rig.sent_one();
        for name in ["authorization", "x-api-key", "mcp-session-id"] {
            assert_eq!(post.header(name), None, "{location} {name}");
        }
        assert_eq!(post.body, call(1));
        // Back to where they may be told.
        rig.head(post.key, 307, &[("location", URL)]);
        let post = rig.sent_one();
        assert_eq!((post.header("x-api-key"), post.header("mcp-session-id")), (Some("k"), Some("s1")));
    }
}

#[test]
fn the_id_of_a_session_is_told_to_who_opened_it() {
    let mut rig = Rig::new();
    rig.say(&initialize(LEGACY));
    let post = rig.sent_one();
    rig.head(post.key, 308, &[("location", "https://other.test/mcp")]);
    let post = rig.sent_one();
    rig.json(post.key, 200, &[("mcp-session-id", "s9")], &initialized(0, LEGACY));
    rig.heard();
    rig.say(&call(1));
    let post = rig.sent_one();
    assert_eq!((&*post.url, post.header("mcp-session-id")), (URL, None));
    rig.head(post.key, 308, &[("location", "https://other.test/mcp")]);
    let post = rig.sent_one();
    assert_eq!((&*post.url, post.header("mcp-session-id")), ("https://other.test/mcp", Some("s9")));
    rig.stream(post.key);
    rig.event_with_id(post.key, "e-1", &progress(1));
    rig.end(post.key);
    rig.pass_to_timer();
    let get = rig.sent_one();
    assert_eq!((&*get.url, get.header("last-event-id")), (URL, None));
    rig.head(get.key, 302, &[("location", "https://other.test/mcp")]);
    let get = rig.sent_one();
    assert_eq!((&*get.url, get.header("last-event-id")), ("https://other.test/mcp", Some("e-1")));
    rig.client.handle_close();
    let delete = rig.sent_one();
    assert_eq!((&*delete.url, delete.header("mcp-session-id")), (URL, None));
    rig.head(delete.key, 307, &[("location", "https://other.test/mcp")]);
    assert_eq!(rig.sent_one().header("mcp-session-id"), Some("s9"));
}

#[test]
fn redirects_that_cannot_be_followed_are_said_in_words() {
    for (status, location, words) in [
        (
            302,
            "https://login.test/start?state=secret",
            "redirects POST with 302 Found, to https://login.test/start: give",
        ),
        (301, "/other", "redirects POST with 301 Moved Permanently, to https://mcp.test/other: give"),
        (303, "/other", "redirects POST with 303 See Other"),
        (307, "http://mcp.test/mcp", "redirects to http://mcp.test, which is not encrypted"),
        (307, "ftp://mcp.test/", "answered 307 Temporary Redirect"),
        (304, "/other", "answered 304 Not Modified"),
    ] {
        let (mut rig, post) = calling();
        rig.answer(post.key, status, &[("location", location)], "");
        let (code, text) = rig.error(1);
        assert_eq!(code, -31002);
        assert!(text.starts_with(&format!("https://mcp.test {words}")), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(rig.sent().is_empty());
        rig.check_empty();
    }
    let (mut rig, post) = calling();
    let mut key = post.key;
    for n in 0..5 {
        rig.head(key, 307, &[("location", &format!("/{n}"))]);
        key = rig.sent_one().key;
    }
    rig.head(key, 307, &[("location", "/6")]);
    assert!(rig.error(1).1.contains("more than 5 times"));
    rig.check_empty();
}

#[test]
fn a_cancel_of_what_was_redirected_goes_its_own_way() {
    let (mut rig, post) = calling_in_session();
    rig.head(post.key, 307, &[("location", "/a")]);
    rig.say(&cancel(1));
    assert!(rig.sent().is_empty(), "the server has refused it, and the next has not got it");
    rig.check_empty();
    let (mut rig, post) = calling_in_session();
    rig.head(post.key, 307, &[("location", "/a")]);
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.say(&cancel(1));
    let sent = rig.sent_one();
    rig.head(sent.key, 307, &[("location", "/a")]);
    let sent = rig.sent_one();
    assert_eq!((&*sent.url, &*sent.body), ("https://mcp.test/a", &*cancel(1)));
    rig.accept(sent.key);
    rig.end(post.key);
    rig.check_empty();
}

#[test]
fn a_notification_or_an_answer_that_is_refused_is_told() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let post = rig.sent_one();
    rig.answer(post.key, 400, &[], "no");
    rig.say(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    let post = rig.sent_one();
    rig.fail(post.key, "connection reset");
    let told: Vec<String> = rig.notices().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "notifications/roots/list_changed was not accepted: 400 Bad Request",
            "an answer was not accepted: connection reset"
        ]
    );
    // What never left does no harm if it is sent again.
    rig.say(r#"{"jsonrpc":"2.0","id":6,"result":{}}"#);
    let post = rig.handed().remove(0);
    rig.fail(post.key, "connection refused");
    rig.pass_to_timer();
    let post = rig.sent_one();
    rig.accept(post.key);
    assert!(rig.notices().is_empty());
    rig.check_empty();
}

#[test]
fn a_refusal_without_an_end_is_read_no_further_than_it_must_be() {
    let (mut rig, post) = calling();
    rig.head(post.key, 500, &[]);
    for _ in 0..100 {
        rig.body(post.key, &"x".repeat(1000));
    }
    assert_eq!(rig.error(1).0, -31002);
    assert_eq!(rig.take_aborted(), [post.key]);
    let (mut rig, post) = calling();
    rig.head(post.key, 500, &[]);
    rig.body(post.key, "half");
    rig.pass(secs(30));
    assert!(rig.error(1).1.ends_with(": half"));
    let (mut rig, post) = calling();
    rig.head(post.key, 500, &[]);
    rig.body(post.key, "half");
    rig.fail(post.key, "connection reset");
    assert!(rig.error(1).1.ends_with(": half"));
    rig.check_empty();
}
