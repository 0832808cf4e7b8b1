//! Whatever a server answers, its client gets one valid message that says so.

use std::fmt::Write as _;

use http::Method;
use rescind_testkit::valid::{self, Protocol, Revision};
use serde_json::{Value, json};

use crate::rig::*;

/// A body and what is to be found of it in the client's answer.
struct Form {
    name: &'static str,
    content: Option<&'static str>,
    body: Vec<u8>,
    /// What the client's answer has to say of it.
    quoted: &'static str,
}

const JSON: Option<&str> = Some("application/json");

fn form(name: &'static str, content: Option<&'static str>, body: impl Into<Vec<u8>>, quoted: &'static str) -> Form {
    Form { name, content, body: body.into(), quoted }
}

/// Bodies that are not answers, as gateways, frameworks and broken servers write them.
fn no_answers() -> Vec<Form> {
    let mut huge = String::from("{\"error\":\"the beginning");
    (0..20_000).for_each(|number| write!(huge, " {number}").unwrap());
    huge.push_str("\"}");
    vec![
        form("a rate limit", JSON, r#"{"error":"rate limited"}"#, "rate limited"),
        form("express", JSON, r#"{"error":"Not Found"}"#, "Not Found"),
        form("oauth", JSON, r#"{"error":"invalid_token","error_description":"expired"}"#, "invalid_token"),
        form("a vendor's error", JSON, r#"{"error":{"type":"overloaded_error","message":"busy"}}"#, "busy"),
        form("fastapi", JSON, r#"{"detail":"Method Not Allowed"}"#, "Method Not Allowed"),
        form("a problem document", Some("application/problem+json"), r#"{"title":"Gone","status":410}"#, "Gone"),
        form("an id and no error object", JSON, r#"{"id":1,"error":"rate limited"}"#, "rate limited"),
        form("an envelope with a text", JSON, r#"{"jsonrpc":"2.0","id":1,"error":"rate limited"}"#, "rate limited"),
        form("an error without a code", JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"message":"slow"}}"#, "slow"),
        form("a code in words", JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":"E429","message":"slow"}}"#, "slow"),
        form(
            "a code with a fraction",
            JSON,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":4.5,"message":"slow"}}"#,
            "slow",
        ),
        form("an error without a message", JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}"#, "-32000"),
        form(
            "a message that is none",
            JSON,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":["deep"]}}"#,
            "deep",
        ),
        form("an array as error", JSON, r#"{"jsonrpc":"2.0","id":1,"error":["busy"]}"#, "busy"),
        form("a number as error", JSON, r#"{"jsonrpc":"2.0","id":1,"error":429}"#, "429"),
        form("a result without a version", JSON, r#"{"id":1,"result":{"ok":"yes"}}"#, "yes"),
        form("another version", JSON, r#"{"jsonrpc":"1.0","id":1,"result":{"ok":"yes"}}"#, "yes"),
        form("a version that is a number", JSON, r#"{"jsonrpc":2.0,"id":1,"result":{"ok":"yes"}}"#, "yes"),
        form("a result that is a text", JSON, r#"{"jsonrpc":"2.0","id":1,"result":"fine"}"#, "fine"),
        form("no result", JSON, r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "null"),
        form("a text", JSON, r#""try again later""#, "try again later"),
        form("null", JSON, "null", "null"),
        form("an empty object", JSON, "{}", "{}"),
        form("an empty array", JSON, "[]", ""),
        form("an array of errors", JSON, r#"[{"error":"rate limited"}]"#, ""),
        form("a web page", Some("text/html"), "<html>\r\n<h1>502</h1>\x1b[2J nginx</html>", "nginx"),
        form("a web page that says JSON", JSON, "<!DOCTYPE html><title>Sign in</title>", "Sign in"),
        form("a text of a proxy", Some("text/plain"), "upstream connect error", "upstream connect error"),
        form("no content type", None, "no healthy upstream", "no healthy upstream"),
        form("nothing", JSON, "", ""),
        form("white space", JSON, " \r\n\r\n", ""),
        form("a mark", JSON, "\u{FEFF}{\"error\":\"rate limited\"}", "rate limited"),
        form("a mark alone", JSON, "\u{FEFF}", ""),
        form("an event", Some("text/event-stream"), "data: {\"error\":\"rate limited\"}\n\n", ""),
        form("a huge one", JSON, huge, "the beginning"),
        form("cut off", JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"mess"#, ""),
        form("cut off in a result", JSON, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"#, ""),
        form("not UTF-8", JSON, b"{\"error\":\"rate \xFF limited\"}".to_vec(), "limited"),
        form("bytes", Some("application/octet-stream"), vec![0, 255, 1, 254, 2], ""),
        form("compressed", JSON, b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec(), ""),
        form("marks of direction", Some("text/plain"), "\u{202E}detimil\u{200B}etar", "detimil etar"),
    ]
}

const STATUSES: [u16; 13] = [200, 400, 401, 402, 403, 404, 405, 409, 413, 429, 500, 502, 503];

/// A client with one call on its way.
fn callers() -> [(&'static str, Rig, Sent); 3] {
    let mut modern = Rig::new();
    modern.say(&modern_call(1));
    let mut in_session = Rig::in_session(LEGACY);
    in_session.say(&call(1));
    let mut greeting = Rig::new();
    greeting.say(&initialize(LEGACY).replace("\"id\":0", "\"id\":1"));
    [("outside a session", modern), ("in a session", in_session), ("a handshake", greeting)].map(|(who, mut rig)| {
        let post = rig.sent_one();
        (who, rig, post)
    })
}

/// Answers a request with this body, and whatever is sent because of it.
fn answer_all(rig: &mut Rig, post: &Sent, status: u16, form: &Form, headers: &[(&str, &str)]) {
    let answer = |rig: &mut Rig, sent: &Sent| {
        // What is asked beside is refused, whatever else is said.
        let status = if sent.method == Method::POST { status } else { 405 };
        let mut all = headers.to_vec();
        all.extend(form.content.map(|content| ("content-type", content)));
        rig.head(sent.key, status, &all);
        rig.client.handle_body(rig.now, sent.key, &form.body);
        rig.end(sent.key);
    };
    answer(rig, post);
    for _ in 0..4 {
        for sent in rig.sent() {
            answer(rig, &sent);
        }
    }
}

/// The one line that the client gets, which is a valid answer to its request.
fn valid_answer(rig: &mut Rig, name: &str) -> Value {
    let mut lines = Vec::new();
    while let Some(line) = rig.client.poll_message() {
        lines.push(line.json);
    }
    let [line] = &*lines else { panic!("{name}: {} lines", lines.len()) };
    let line = std::str::from_utf8(line).unwrap();
    assert!(!line.contains('\n'), "{name}: a line break");
    valid::check(Protocol::Mcp(Revision::NoNull), line).unwrap_or_else(|why| panic!("{name}: {why}: {line}"));
    let message: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&message["id"], message.get("method")), (&json!(1), None), "{name}: {message}");
    message
}

/// D43: at every status, in either era and for a handshake.
#[test]
pub(crate) fn a_body_that_is_not_an_answer_becomes_an_error_that_every_client_can_read() {
    for status in STATUSES {
        for form in no_answers() {
            for (who, mut rig, post) in callers() {
                let name = format!("{status}, {}, {who}", form.name);
                answer_all(&mut rig, &post, status, &form, &[]);
                let error = valid_answer(&mut rig, &name)["error"].clone();
                let text = error["message"].as_str().unwrap();
                // What a success brings may be a message that cannot be read, which ends its request.
                let is_ended = status == 200 && error["code"] == -32603;
                assert!(error["code"] == -31002 || is_ended, "{name}: {error}");
                if error["code"] == -31002 && status != 200 {
                    assert!(text.contains(&status.to_string()), "{name}: {text}");
                }
                assert!(text.contains(form.quoted), "{name}: {text}");
                assert!(text.chars().count() < 500, "{name}: {text}");
                rig.check_empty();
            }
        }
    }
}

/// What is an answer passes to the byte, but for its id.
#[test]
fn a_body_that_is_an_answer_passes_at_every_status_whatever_id_its_error_has() {
    let mark = "\u{FEFF}";
    for status in [200, 400, 402, 404, 409, 429, 500, 503] {
        for id in ["\"id\":1,", "\"id\":null,", "", "\"id\":\"server-error\",", "\"id\":77,"] {
            for before in ["", mark, "\r\n"] {
                let error = r#""error":{"code":-32601,"message":"no \u0022such\u0022 method","data":{"x":[1.0]}}"#;
                let body = format!("{before}{{\"jsonrpc\":\"2.0\",{id}{error}}}\n");
                for (who, mut rig, post) in callers() {
                    let name = format!("{status}, {body:?}, {who}");
                    answer_all(&mut rig, &post, status, &form("an answer", JSON, body.clone(), ""), &[]);
                    let answer = valid_answer(&mut rig, &name);
                    assert_eq!(answer["error"]["message"], "no \"such\" method", "{name}");
                    assert_eq!(answer["error"]["data"], json!({"x": [1.0]}), "{name}");
                    rig.check_empty();
                }
            }
        }
    }
}

/// MCP-H09.
#[test]
fn a_404_with_method_not_found_is_an_answer_and_not_a_lost_session() {
    for id in [json!(1), Value::Null, json!("server-error")] {
        let mut rig = Rig::in_session(LEGACY);
        rig.say(&call(1));
        let post = rig.sent_one();
        rig.json(post.key, 404, &[], &error(id, -32601, "no such method"));
        assert_eq!(rig.heard_one(), error(1, -32601, "no such method"));
        assert!(rig.sent().is_empty(), "the session is not opened again");
        assert!(rig.notices().is_empty());
    }
}

#[test]
fn retry_after_is_passed_on_as_the_server_wrote_it() {
    let rate_limit = || form("a rate limit", JSON, r#"{"error":"rate limited"}"#, "");
    for value in ["120", "Fri, 31 Dec 1999 23:59:59 GMT"] {
        for (who, mut rig, post) in callers() {
            answer_all(&mut rig, &post, 429, &rate_limit(), &[("retry-after", value)]);
            let data = json!({"mayHaveRun": false, "httpStatus": 429, "retryAfter": value});
            assert_eq!(valid_answer(&mut rig, who)["error"]["data"], data);
        }
    }
    let long = "1".repeat(65);
    for (who, mut rig, post) in callers() {
        answer_all(&mut rig, &post, 429, &rate_limit(), &[("retry-after", &long)]);
        assert_eq!(valid_answer(&mut rig, who)["error"]["data"], json!({"mayHaveRun": false, "httpStatus": 429}));
    }
}

/// D43: its own server takes that off again.
#[test]
fn a_gateway_is_told_of_the_status_of_an_answer() {
    let cases = [
        (429, Some("120"), json!({"httpStatus": 429, "retryAfter": "120"})),
        (503, None, json!({"httpStatus": 503})),
        (400, Some("9"), Value::Null),
        (200, Some("9"), Value::Null),
    ];
    for notes_status in [true, false] {
        for (status, retry_after, note) in &cases {
            let mut config = config();
            config.notes_status = notes_status;
            let mut rig = Rig::with(config);
            rig.say(&modern_call(1));
            let post = rig.sent_one();
            let headers: Vec<_> = retry_after.iter().map(|value| ("retry-after", *value)).collect();
            rig.json(post.key, *status, &headers, &error(1, -32000, "slow down"));
            let mut answer = rig.heard_one();
            let told = answer.as_object_mut().unwrap().remove("rescind/http").unwrap_or_default();
            assert_eq!(told, if notes_status { note.clone() } else { Value::Null }, "{status}");
            assert_eq!(answer, error(1, -32000, "slow down"));
        }
    }
}

#[test]
pub(crate) fn an_event_that_is_not_an_answer_ends_the_request_that_it_names() {
    for body in [
        r#"{"id":1,"error":"rate limited"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"rate limited"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":"rate limited"}"#,
        "\u{FEFF}{\"id\":1,\"result\":{\"x\":\"rate limited\"}}",
    ] {
        for (who, mut rig, post) in callers() {
            rig.stream(post.key);
            rig.body(post.key, &format!("data: {body}\n\n"));
            let error = valid_answer(&mut rig, who)["error"].clone();
            assert_eq!(error["code"], -32603, "{error}");
            assert!(error["message"].as_str().unwrap().contains("rate limited"), "{error}");
        }
    }
}

#[test]
fn a_question_or_notification_without_a_version_is_not_passed_on_and_the_question_is_answered() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    rig.stream(post.key);
    rig.body(post.key, "data: {\"id\":7,\"method\":\"ping\"}\n\ndata: {\"method\":\"notifications/x\"}\n\n");
    assert!(rig.heard().is_empty());
    assert_eq!(rig.notices().len(), 2);
    let answer = rig.sent_one().json();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)));
    rig.body(post.key, "data: \u{FEFF}{\"id\":1,\"result\":{},\"jsonrpc\":\"2.0\"}\n\n");
    assert_eq!(rig.heard_one()["result"], json!({}));
}
