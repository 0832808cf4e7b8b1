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

/// D43.
#[test]
fn a_request_that_is_not_json_is_refused_under_its_id() {
    for broken in [
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"x":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"x":1,}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"tools/call\",\"params\":{\"x\":\"a\tb\"}}",
        r#"{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"x":"#,
        r#"{"method":"tools/call","params":{"id":4},"id":ID,"jsonrpc":"2.0",}"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"tools/call\",\"params\":{'x':1}}",
        "{'jsonrpc':'2.0','id':ID,'method':'tools/call','params':{'id':4}}",
        "{jsonrpc: '2.0', id: ID, method: 'tools/call'}",
    ] {
        for id in ["7", "-1", "\"seven\""] {
            let mut rig = Rig::new();
            let client = rig.session(LEGACY);
            let body = broken.replace("ID", id);
            for key in [rig.post_to(&client, &body), rig.post(&[("mcp-protocol-version", MODERN)], &body)] {
                let answer = rig.read(key);
                assert_eq!((answer.status, answer.code()), (400, -32700), "{body}");
                assert_eq!(answer.json()["id"].to_string(), id, "{body}");
            }
            assert_eq!(rig.at(client.link), [""; 0]);
            rig.leaves_nothing();
        }
    }
    // What a broken answer or notification names is no request of its sender.
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    for body in
        [r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#, r#"{"jsonrpc":"2.0","method":"x","params":{"id":7,}}"#]
    {
        let key = rig.post_to(&client, body);
        assert_eq!(rig.read(key).json()["id"], serde_json::Value::Null, "{body}");
    }
}

/// D43.
#[test]
fn a_mark_before_a_posted_message_is_skipped() {
    for mark in ["\u{feff}", " \u{feff}", "\r\n\u{feff} "] {
        let mut rig = Rig::new();
        let client = rig.session(LEGACY);
        rig.post_to(&client, &format!("{mark}{}", call("1")));
        assert_eq!(rig.at(client.link).len(), 1, "{mark:?}");
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        rig.post(&[], &format!("{mark}{hello}"));
        assert_eq!(rig.opened.len(), 2, "{mark:?}");
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
        rig.post(&headers, &format!("{mark}{}", modern_call("1")));
        let link = rig.shared();
        let [line] = &*rig.at(link) else { panic!("{mark:?}") };
        assert_eq!(line.trim_start(), modern_call("1").to_string(), "{mark:?}");
    }
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
