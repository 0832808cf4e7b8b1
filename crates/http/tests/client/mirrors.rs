//! Headers that repeat what a message says (2026-07-28).

use serde_json::{Value, json};

use crate::rig::*;

#[test]
fn method_and_name_are_repeated() {
    let task = json!({"taskId": "t-1"});
    for (method, params, name) in [
        ("tools/call", json!({"name": "work"}), Some("work")),
        ("prompts/get", json!({"name": "über"}), Some("=?base64?w7xiZXI=?=")),
        ("resources/read", json!({"uri": "file:///a b"}), Some("file:///a b")),
        ("tasks/cancel", task.clone(), Some("t-1")),
        ("tasks/get", task.clone(), Some("t-1")),
        ("tools/list", json!({"name": "x"}), None),
        ("tools/call", json!({"name": 5}), None),
        ("server/discover", json!({}), None),
    ] {
        let mut rig = Rig::new();
        rig.say(&modern(1, method, &params));
        let post = rig.sent_one();
        assert_eq!(post.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(post.header("mcp-method"), Some(method));
        assert_eq!(post.header("mcp-name"), name);
        assert_eq!(post.header("mcp-session-id"), None);
    }
}

#[test]
fn a_revision_that_is_not_known_here_is_repeated_too() {
    for version in ["2099-01-01", "v999.0.0"] {
        let mut rig = Rig::new();
        rig.say(&modern(1, "server/discover", &json!({})).replace(MODERN, version));
        assert_eq!(rig.sent_one().header("mcp-protocol-version"), Some(version));
    }
}

#[test]
fn in_a_session_nothing_is_repeated() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    assert_eq!((post.header("mcp-method"), post.header("mcp-name")), (None, None));
}

#[test]
fn a_method_that_no_header_can_hold_is_not_sent() {
    let mut rig = Rig::new();
    rig.say(&modern(1, "a\nb", &json!({})));
    assert_eq!(rig.error(1).0, -32600);
    assert!(rig.sent().is_empty());
}

#[test]
fn a_notification_names_the_revision_of_the_requests_beside_it() {
    let mut rig = Rig::new();
    rig.say(&modern(1, "server/discover", &json!({})));
    rig.sent();
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let post = rig.sent_one();
    assert_eq!(post.header("mcp-protocol-version"), Some(MODERN));
    assert_eq!(post.header("mcp-method"), Some("notifications/x"));
}

fn tool(name: &str, header: &str, kind: &str) -> Value {
    let properties = json!({"region": {"type": kind, "x-mcp-header": header}, "query": {"type": "string"}});
    json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
}

fn list(id: impl Into<Value>, tools: &[Value]) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {"tools": tools}})
}

fn sql(id: impl Into<Value>, region: &str) -> String {
    modern(id, "tools/call", &json!({"name": "sql", "arguments": {"region": region, "query": "x"}}))
}

/// The server has listed these tools.
fn listed(rig: &mut Rig, tools: &[Value]) -> Value {
    rig.say(&modern("list", "tools/list", &json!({})));
    let post = rig.sent_one();
    rig.json(post.key, 200, &[], &list("list", tools));
    rig.heard_one()
}

#[test]
fn arguments_are_repeated_as_the_tool_wants_it() {
    let mut rig = Rig::new();
    let tools = [tool("sql", "Region", "string"), json!({"name": "plain"})];
    assert_eq!(listed(&mut rig, &tools), list("list", &tools), "the list is passed as it is");
    rig.say(&sql(1, "us-west1"));
    assert_eq!(rig.sent_one().header("mcp-param-region"), Some("us-west1"));
    rig.say(&sql(2, " é"));
    assert_eq!(rig.sent_one().header("mcp-param-region"), Some("=?base64?IMOp?="));
    rig.say(&modern(3, "tools/call", &json!({"name": "sql", "arguments": {"query": "x"}})));
    assert_eq!(rig.sent_one().header("mcp-param-region"), None);
    rig.say(&modern(4, "tools/call", &json!({"name": "plain", "arguments": {"region": "x"}})));
    assert_eq!(rig.sent_one().header("mcp-param-region"), None);
    listed(&mut rig, &[tool("sql", "Place", "string")]);
    rig.say(&sql(5, "x"));
    let post = rig.sent_one();
    assert_eq!((post.header("mcp-param-region"), post.header("mcp-param-place")), (None, Some("x")));
}

#[test]
fn a_tool_that_could_not_be_called_rightly_is_taken_out_of_the_list() {
    let mut rig = Rig::new();
    let good = tool("good", "Region", "string");
    let heard = listed(&mut rig, &[tool("bad", "Region", "number"), good.clone()]);
    assert_eq!(heard, list("list", &[good]));
    let notices: Vec<String> = rig.notices().iter().map(ToString::to_string).collect();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].starts_with("the tool bad was left out: "), "{notices:?}");
}

#[test]
fn in_a_session_a_list_is_passed_as_it_is() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#);
    let post = rig.sent_one();
    let answer = list("list", &[tool("bad", "Region", "number"), tool("sql", "Region", "string")]);
    rig.json(post.key, 200, &[], &answer);
    assert_eq!(rig.heard_one(), answer);
    assert_eq!(rig.client.tools(), 0);
}

fn mismatch(id: impl Into<Value>) -> Value {
    error(id, -32020, "Header mismatch: Mcp-Param-Region is missing")
}

#[test]
fn a_call_whose_headers_are_refused_is_sent_again_with_those_of_the_list() {
    let mut rig = Rig::new();
    rig.say(&sql(1, "us"));
    let post = rig.sent_one();
    rig.json(post.key, 400, &[], &mismatch(1));
    assert!(rig.heard().is_empty());
    let survey = rig.sent_one();
    assert_eq!((&*survey.message_method(), survey.header("mcp-method")), ("tools/list", Some("tools/list")));
    let meta = &survey.json()["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
    let id = survey.json()["id"].clone();
    let mut page = list(id, &[json!({"name": "other"})]);
    page["result"]["nextCursor"] = json!("more");
    rig.json(survey.key, 200, &[], &page);
    let survey = rig.sent_one();
    assert_eq!(survey.json()["params"]["cursor"], "more");
    rig.stream(survey.key);
    rig.event(survey.key, &progress(1));
    let id = survey.json()["id"].clone();
    rig.event(survey.key, &list(id, &[tool("sql", "Region", "string")]));
    let post = rig.sent_one();
    assert_eq!((&*post.body, post.header("mcp-param-region")), (&*sql(1, "us"), Some("us")));
    // Once is enough.
    rig.json(post.key, 400, &[], &mismatch(1));
    assert_eq!(rig.heard(), [mismatch(1)]);
    rig.check_empty();
}

#[test]
fn a_list_that_cannot_be_read_leaves_the_refusal_as_it_was() {
    for how in 0..4 {
        let mut rig = Rig::new();
        rig.say(&sql(1, "us"));
        let post = rig.sent_one();
        rig.json(post.key, 400, &[], &mismatch(Value::Null));
        let survey = rig.sent_one();
        match how {
            0 => rig.fail(survey.key, "connection reset"),
            1 => rig.json(survey.key, 200, &[], &error(survey.json()["id"].clone(), -32603, "x")),
            2 => rig.answer(survey.key, 500, &[], ""),
            _ => {
                rig.stream(survey.key);
                rig.end(survey.key);
            }
        }
        assert_eq!(rig.heard(), [mismatch(1)], "{how}");
        rig.check_empty();
    }
}

#[test]
fn a_cancel_while_the_list_is_read_ends_that() {
    let mut rig = Rig::new();
    rig.say(&sql(1, "us"));
    let post = rig.sent_one();
    rig.json(post.key, 400, &[], &mismatch(1));
    let survey = rig.sent_one();
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [survey.key]);
    assert!(rig.sent().is_empty());
    rig.check_empty();
}

#[test]
fn a_user_agent_of_the_users_takes_the_place_of_ours() {
    let agents = |rig: &mut Rig| -> Vec<String> {
        rig.say(&modern_call(1));
        let sent = rig.sent_one();
        sent.headers.get_all("user-agent").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(agents(&mut Rig::new()), [concat!("rescind/", env!("CARGO_PKG_VERSION"))]);
    assert_eq!(agents(&mut Rig::with(config().header("User-Agent: mine").unwrap())), ["mine"]);
}
