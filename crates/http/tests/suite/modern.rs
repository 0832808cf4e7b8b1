//! The revision without sessions: what its headers must say, what a closed stream means, and where messages go.

use http::Method;
use serde_json::{Value, json};

use crate::rig::*;

/// The id under which the program knows the only request that it received.
fn only_id(received: &[String]) -> String {
    let [only] = received else { panic!("not one message: {received:?}") };
    serde_json::from_str::<Value>(only).unwrap()["id"].to_string()
}

/// Case 45.
#[test]
fn a_hang_up_cancels_exactly_once_and_nothing_follows() {
    for begun in [false, true] {
        let mut rig = Rig::new();
        let mut call = modern_call("1");
        call["params"]["_meta"]["progressToken"] = json!("t");
        let key = rig.post_modern(&call);
        let link = rig.shared();
        let received = rig.at(link);
        let id = only_id(&received);
        let token =
            serde_json::from_str::<Value>(&received[0]).unwrap()["params"]["_meta"]["progressToken"].to_string();
        if begun {
            rig.pass_millis(100);
            rig.read(key);
        }
        rig.hang_up(key);
        rig.hang_up(key);
        assert_eq!(rig.at(link), [format!("closed {id}")], "MCP-H03");
        rig.say(link, &progress(&token, 1));
        rig.answer(link, &id, "late");
        rig.settle(link, &id);
        assert_eq!(rig.read(key).messages(), [""; 0], "MCP-H04");
        assert_eq!(rig.at(link), [""; 0]);
        rig.leaves_nothing();
    }
}

#[test]
fn a_hang_up_after_the_answer_cancels_nothing() {
    let mut rig = Rig::new();
    let link = {
        let whole = rig.post_modern(&modern_call("1"));
        let link = rig.shared();
        let id = only_id(&rig.at(link));
        rig.answer(link, &id, "done");
        rig.hang_up(whole);
        link
    };
    let stream = rig.post_modern(&modern_call("1"));
    rig.pass_millis(100);
    rig.read(stream);
    let id = only_id(&rig.at(link));
    rig.answer(link, &id, "done");
    rig.hang_up(stream);
    assert_eq!(rig.at(link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_hang_up_concerns_no_other_client() {
    let mut rig = Rig::new();
    let keys = [0; 3].map(|_| rig.post_modern(&modern_call("1")));
    let link = rig.shared();
    let ids: Vec<_> = rig.at(link).iter().map(|message| only_id(std::slice::from_ref(message))).collect();
    rig.hang_up(keys[1]);
    assert_eq!(rig.at(link), [format!("closed {}", ids[1])], "D42");
    for place in [0, 2] {
        rig.answer(link, &ids[place], &format!("answer {place}"));
        assert_eq!(rig.whole(keys[place], 200), result_of("1", &format!("answer {place}")));
    }
    rig.leaves_nothing();
}

#[test]
fn a_client_that_reads_nothing_has_hung_up() {
    let mut rig = Rig::with(rescind_http::server::HttpServerConfig { max_unsent: 300, ..config() });
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = only_id(&rig.at(link));
    for number in 0..10 {
        rig.say(link, &note(&number.to_string()));
    }
    assert_eq!(rig.at(link), [format!("closed {id}")]);
    assert!(rig.read(key).has_ended);
    rig.leaves_nothing();
}

#[test]
fn a_posted_cancel_is_accepted_and_cancels_nothing() {
    let mut rig = Rig::new();
    let key = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = only_id(&rig.at(link));
    for cancelled in ["1", &id] {
        let posted = rig.post(&[("mcp-protocol-version", MODERN)], &cancel(cancelled));
        assert_eq!(rig.whole(posted, 202), "");
    }
    assert_eq!(rig.at(link), [""; 0], "MCP-H05");
    rig.answer(link, &id, "done");
    rig.whole(key, 200);
    rig.leaves_nothing();
}

#[test]
fn notifications_that_a_shared_program_may_be_sent_are_passed_on() {
    let mut rig = Rig::new();
    rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.at(link);
    let posted = rig.post(&[("mcp-protocol-version", MODERN)], &note("x"));
    assert_eq!(rig.whole(posted, 202), "");
    assert_eq!(rig.at(link), [note("x")]);
    rig.leaves_nothing();
}

#[test]
fn there_is_nothing_to_get_to_delete_or_to_resume() {
    let mut rig = Rig::new();
    for method in [Method::GET, Method::DELETE] {
        let key = rig.send(&method, "/mcp", &[("mcp-protocol-version", MODERN), ("last-event-id", "1-1")], "");
        let answer = rig.read(key);
        assert_eq!(answer.status, 405);
        assert_eq!(answer.header("allow"), Some("POST, GET, DELETE"));
    }
    rig.leaves_nothing();
}

#[test]
fn answers_and_batches_of_clients_are_refused() {
    let mut rig = Rig::new();
    for body in [result_of("1", "x"), format!("[{}]", modern_call("1"))] {
        let key = rig.post(&[("mcp-protocol-version", MODERN)], &body);
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32600));
    }
    rig.leaves_nothing();
}

#[test]
fn a_session_header_is_ignored() {
    let mut rig = Rig::new();
    let call = modern_call("1");
    let headers =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow"), ("mcp-session-id", "x")];
    let key = rig.post(&headers, &call.to_string());
    let link = rig.shared();
    let id = only_id(&rig.at(link));
    rig.answer(link, &id, "done");
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
    rig.leaves_nothing();
}

#[test]
fn headers_must_say_what_the_message_says() {
    const VERSION: (&str, &str) = ("mcp-protocol-version", MODERN);
    const METHOD: (&str, &str) = ("mcp-method", "tools/call");
    const NAME: (&str, &str) = ("mcp-name", "slow");
    let mut rig = Rig::new();
    let refused: [&[(&str, &str)]; 9] = [
        &[],
        &[METHOD, NAME],
        &[VERSION, NAME],
        &[VERSION, METHOD],
        &[("mcp-protocol-version", "2025-11-25"), METHOD, NAME],
        &[VERSION, ("mcp-method", "Tools/call"), NAME],
        &[VERSION, METHOD, ("mcp-name", "Slow")],
        &[VERSION, METHOD, ("mcp-method", "x"), NAME],
        &[VERSION, METHOD, ("mcp-name", "=?base64?c2xvdw?=")],
    ];
    for headers in refused {
        let key = rig.post(headers, &modern_call("7").to_string());
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32020), "{headers:?}");
        assert_eq!(answer.json()["id"], 7);
    }
    assert_eq!(rig.opened, []);
    let key = rig.post(&[VERSION, METHOD, NAME], &modern_call("7").to_string());
    assert_eq!(rig.read(key).status, 0);
    rig.leaves_nothing();
}

#[test]
fn a_modern_header_over_a_legacy_message_is_a_mismatch() {
    let mut rig = Rig::new();
    let mut call = modern_call("1");
    call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    let key = rig.post_modern(&call);
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (400, -32020));
    rig.leaves_nothing();
}

#[test]
fn a_request_names_its_revision_and_what_its_client_can_do() {
    let mut rig = Rig::new();
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut call = modern_call("7");
        let meta = call["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{missing}")).unwrap();
        let key = rig.post_modern(&call);
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32602), "{missing}");
        assert_eq!(answer.json()["id"], 7);
        call["params"].as_object_mut().unwrap().remove("_meta");
        let key = rig.post_modern(&call);
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32602));
    }
    assert_eq!(rig.opened, []);
    rig.leaves_nothing();
}

#[test]
fn names_are_repeated_for_the_methods_that_have_one() {
    let mut rig = Rig::new();
    for (method, member) in [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
    ] {
        let request = modern("1", method, &json!({ member: "the name" }));
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
        let key = rig.post(&headers, &request.to_string());
        assert_eq!(rig.read(key).code(), -32020);
        let key = rig.post_modern(&request);
        assert_eq!(rig.read(key).status, 0, "{method}");
    }
    let key = rig.post_modern(&modern("1", "tools/list", &json!({})));
    assert_eq!(rig.read(key).status, 0);
    rig.leaves_nothing();
}

#[test]
fn a_name_in_base64_is_decoded_before_it_is_compared() {
    let mut rig = Rig::new();
    for (name, header) in [
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("slow", "=?base64?c2xvdw==?="),
    ] {
        let request = modern("1", "tools/call", &json!({ "name": name }));
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", header)];
        let key = rig.post(&headers, &request.to_string());
        assert_eq!(rig.read(key).status, 0, "{name}");
    }
    rig.leaves_nothing();
}

/// A machine that has passed on a list with a tool that wants its arguments in headers.
fn with_tool_in_headers() -> Rig {
    let mut rig = Rig::new();
    let key = rig.post_modern(&modern("1", "tools/list", &json!({})));
    let link = rig.shared();
    let id = only_id(&rig.at(link));
    let properties = json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "level": {"type": "integer", "x-mcp-header": "Level"},
    });
    let tool = json!({"name": "slow", "inputSchema": {"type": "object", "properties": properties}});
    let list = json!({"jsonrpc": "2.0", "id": id.parse::<u64>().unwrap(), "result": {"tools": [tool]}});
    rig.say(link, &list.to_string());
    assert_eq!(rig.read(key).status, 200);
    rig
}

/// What a call of that tool is answered; 0 if it was passed on.
fn call_in_headers(rig: &mut Rig, arguments: &Value, headers: &[(&str, &str)]) -> (u16, i64) {
    let call = modern("7", "tools/call", &json!({"name": "slow", "arguments": arguments}));
    let own = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
    let key = rig.post(&[&own[..], headers].concat(), &call.to_string());
    let answer = rig.read(key);
    if answer.status == 0 { (0, 0) } else { (answer.status, answer.code()) }
}

#[test]
fn arguments_that_headers_repeat_are_compared_with_them() {
    let mut rig = with_tool_in_headers();
    for (arguments, headers) in [
        (json!({"region": "Hello"}), &[("mcp-param-region", "Hello")][..]),
        (json!({"region": "Hello"}), &[("mcp-param-region", "=?base64?SGVsbG8=?=")]),
        (json!({"region": "=?base64?SGVsbG8="}), &[("mcp-param-region", "=?base64?SGVsbG8=")]),
        (json!({"level": 42.0}), &[("mcp-param-level", "42")]),
        (json!({"level": 1.5}), &[("mcp-param-level", "1.5")]),
        (json!({"region": null}), &[]),
        (json!({}), &[]),
    ] {
        assert_eq!(call_in_headers(&mut rig, &arguments, headers), (0, 0), "{arguments} {headers:?}");
    }
    for (arguments, headers) in [
        (json!({"region": "Hello"}), &[][..]),
        (json!({"region": "Hello"}), &[("mcp-param-region", "hello")]),
        (json!({"region": "Hello"}), &[("mcp-param-region", "Hello"), ("mcp-param-region", "Hello")]),
        (json!({"region": "Hello"}), &[("mcp-param-region", "=?base64?SGVsbG8?=")]),
        (json!({"region": "Hello"}), &[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")]),
        (json!({"level": 42}), &[("mcp-param-level", "43")]),
        (json!({"region": null}), &[("mcp-param-region", "Hello")]),
        (json!({}), &[("mcp-param-region", "Hello")]),
    ] {
        assert_eq!(call_in_headers(&mut rig, &arguments, headers), (400, -32020), "{arguments} {headers:?}");
    }
}

#[test]
fn the_tools_of_a_process_that_is_gone_are_forgotten() {
    let mut rig = with_tool_in_headers();
    let link = rig.shared();
    rig.close(link);
    let key = rig.post_modern(&modern("1", "x", &json!({})));
    assert_eq!(rig.read(key).status, 0);
    assert_eq!(call_in_headers(&mut rig, &json!({"region": "Hello"}), &[]), (0, 0));
}

#[test]
fn errors_that_are_the_transports_have_their_status() {
    for (code, status) in [(-32601, 404), (-32020, 400), (-32021, 400), (-32022, 400), (-32602, 200), (-32800, 200)] {
        let mut rig = Rig::new();
        let key = rig.post_modern(&modern_call("1"));
        let link = rig.shared();
        let id = only_id(&rig.at(link));
        rig.say(
            link,
            &json!({"jsonrpc": "2.0", "id": id.parse::<u64>().unwrap(), "error": {"code": code, "message": "no"}})
                .to_string(),
        );
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (status, code));
        assert_eq!(answer.json()["id"], 1);
        rig.leaves_nothing();
    }
}

#[test]
fn a_revision_that_is_not_known_here_is_left_to_the_server() {
    for version in ["2099-01-01", "v999.0.0"] {
        let mut rig = Rig::new();
        let mut call = modern_call("1");
        call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let headers = [("mcp-protocol-version", version), ("mcp-method", "tools/call"), ("mcp-name", "slow")];
        let key = rig.post(&headers, &call.to_string());
        let link = rig.shared();
        let id = only_id(&rig.at(link));
        let data = json!({"supported": [MODERN], "requested": version});
        let error = json!({"code": -32022, "message": "unsupported", "data": data});
        rig.say(link, &json!({"jsonrpc": "2.0", "id": id.parse::<u64>().unwrap(), "error": error}).to_string());
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32022), "{version}");
        rig.leaves_nothing();
    }
}

#[test]
fn a_notification_without_a_name_is_for_a_request_that_is_alone_and_else_for_nobody() {
    let mut rig = Rig::new();
    let first = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    rig.say(link, &note("alone"));
    let second = rig.post_modern(&modern_call("1"));
    rig.say(link, &note("for whom?"));
    assert_eq!(rig.dropped, ["notifications/message"]);
    assert_eq!(rig.read(first).messages(), [note("alone")]);
    assert_eq!(rig.read(second).status, 0);
    rig.leaves_nothing();
}

#[test]
fn a_program_that_is_gone_ends_all_its_streams_and_the_next_request_opens_another_link() {
    let mut rig = Rig::new();
    let keys = [0; 2].map(|_| rig.post_modern(&modern_call("1")));
    let link = rig.shared();
    rig.pass_millis(100);
    rig.read(keys[0]);
    rig.close(link);
    assert_eq!(rig.read(keys[0]).messages(), [gone("1")]);
    assert!(rig.read(keys[0]).has_ended);
    assert_eq!(rig.read(keys[1]).messages(), [gone("1")]);
    let key = rig.post_modern(&modern_call("1"));
    let next = rig.shared();
    assert_ne!(link, next);
    let id = only_id(&rig.at(next));
    rig.answer(next, &id, "done");
    rig.whole(key, 200);
    rig.leaves_nothing();
}
