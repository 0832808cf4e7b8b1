//! Input of every wrong kind: it is refused, and leaves nothing.

use crate::rig::*;

#[test]
fn a_request_with_a_null_id_opens_nothing() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("null"));
    assert_eq!(rig.read(key).status, 400);
    let key = rig.post(&[], r#"{"jsonrpc":"2.0","id":null,"method":"initialize","params":{}}"#);
    assert_eq!(rig.read(key).status, 400);
    let key = rig.post_modern(&modern_call("null"));
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.opened.len(), 1, "only the session");
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn an_id_or_a_token_that_is_too_long_is_refused() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let long = format!("\"{}\"", "x".repeat(5000));
    for request in [call(&long), call_with_token("1", &long)] {
        let key = rig.post_to(&client, &request);
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32600));
    }
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_null_token_is_none() {
    let mut rig = Rig::new();
    let mut request = modern_call("1");
    request["params"]["_meta"]["progressToken"] = serde_json::Value::Null;
    rig.post_modern(&request);
    let link = rig.shared();
    assert_eq!(rig.at(link), [request.to_string()]);
    rig.leaves_nothing();
}

#[test]
fn what_is_no_message_is_refused_with_its_fault() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for (body, code) in [
        ("", -32700),
        ("x", -32700),
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"} {}"#, -32700),
        ("null", -32600),
        ("5", -32600),
        ("\"x\"", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","\u0069d":1,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, -32600),
    ] {
        for named in [false, true] {
            let key = if named { rig.post_to(&client, body) } else { rig.post(&[], body) };
            let answer = rig.read(key);
            assert_eq!((answer.status, answer.code()), (400, code), "{body}");
        }
    }
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_refusal_names_the_request_where_it_can_be_read() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, r#"{"jsonrpc":"2.0","id":"a","method":5}"#);
    assert_eq!(rig.read(key).json()["id"], "a");
    let key = rig.post_to(&client, "x");
    assert_eq!(rig.read(key).json()["id"], serde_json::Value::Null);
    rig.leaves_nothing();
}

#[test]
fn what_a_program_says_that_is_no_message_is_dropped() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    for text in ["", "x", "{}", "[]", "[1]", r#"{"jsonrpc":"2.0","id":1}"#, "log line"] {
        rig.say(client.link, text);
    }
    assert_eq!(rig.dropped.len(), 7);
    assert_eq!(rig.read(key).status, 0);
    rig.answer(client.link, "1", "done");
    rig.whole(key, 200);
    rig.leaves_nothing();
}

#[test]
fn keys_that_mean_nothing_any_more_do_nothing() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    rig.answer(client.link, "1", "done");
    rig.whole(key, 200);
    rig.hang_up(key);
    assert!(rig.server.poll_head(rig.now, key).is_none());
    assert_eq!(rig.server.poll_body(rig.now, key), rescind_http::server::BodyChunk::End);
    rig.close(client.link);
    rig.close(client.link);
    assert!(rig.server.poll_input(client.link).is_none());
    rig.leaves_nothing();
}
