//! What the peer should not have sent (D6, D7, D30, D36), and batches (MCP-B01).

use rescind_proto::{
    cause::CauseCode,
    connection::{ConnectionConfig, HandlerEnd, Settlement},
    dialect::{Dialect, acp, lsp, mcp},
    frame::Reason,
    framing::Framing,
    id::RequestId,
    link::{Rejected, Verdict},
    receipt::Outcome,
    rule::Rule,
    side::Side,
};

use crate::endpoint_rig::*;

const BATCHING: &Dialect = &mcp::REVISION_2025_03_26;

#[test]
fn garbage_is_told_to_a_client_in_the_form_of_its_revision() {
    let told = |dialect| {
        let mut rig = server(dialect);
        rig.hear(&["{nonsense"]);
        assert_eq!(rig.refusals(), [Rejected::NotJson]);
        rig.say()
    };
    assert_eq!(told(&mcp::REVISION_2024_11_05), [""; 0]);
    assert_eq!(told(&mcp::LATEST), [r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not JSON"}}"#]);
    assert_eq!(told(&acp::V1), [r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#]);
}

#[test]
fn garbage_from_a_server_is_an_event_and_no_more() {
    let mut rig = client(&acp::V1);
    rig.hear(&["npm WARN deprecated", r#"{"jsonrpc":"2.0"}"#, "[]", "5"]);
    assert_eq!(rig.refusals().len(), 4);
    assert_eq!(rig.say(), [""; 0]);
}

// Case 75, D6.
#[test]
fn a_repeated_or_escaped_envelope_member_is_refused() {
    for (text, reason) in [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"work"}"#, Reason::RepeatedMember),
        (r#"{"jsonrpc":"2.0","id":1,"method":"work","method":"play"}"#, Reason::RepeatedMember),
        (r#"{"jsonrpc":"2.0","\u0069d":1,"method":"work"}"#, Reason::EscapedMember),
    ] {
        let mut rig = server(&acp::V1);
        rig.hear(&[text]);
        assert_eq!(rig.start(), [], "{text}");
        assert_eq!(rig.refusals(), [Rejected::Invalid(reason)]);
        let said = rig.say();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("-32600"));
    }
}

#[test]
fn a_bad_request_is_answered_under_its_id_unless_that_is_in_flight() {
    let mut rig = server(&acp::V1);
    let key = rig.serve("1", "work");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":2,"method":5}"#, r#"{"jsonrpc":"2.0","id":1,"method":5}"#]);
    let said = rig.say();
    assert!(said[0].contains(r#""id":2,"error":{"code":-32600"#));
    assert!(said[1].contains(r#""id":null,"error":{"code":-32600"#));
    rig.end(key, OK);
    assert_eq!(rig.say(), [result("1")]);
}

#[test]
fn a_bad_notification_or_response_is_not_answered() {
    let mut rig = server(&acp::V1);
    rig.hear(&[r#"{"jsonrpc":"2.0","method":5}"#, r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#]);
    assert_eq!(rig.refusals(), [Rejected::Invalid(Reason::BadMethod), Rejected::Invalid(Reason::TwoOutcomes)]);
    assert_eq!(rig.say(), [""; 0]);
}

#[test]
fn an_answer_that_cannot_be_read_ends_the_call() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("work");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}}"#]);
    assert_eq!(rig.settled(), [(key, Settlement::Unreadable(Rejected::Invalid(Reason::TwoOutcomes)))]);
    rig.leaves_nothing();
}

// D43.
#[test]
fn an_answer_that_is_not_json_and_plainly_names_a_call_ends_it() {
    for broken in [
        &b"{\"id\":1,\"result\":tru}\n"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"cut\n",
        b"{\"id\":1,\"res\xffult\":{},\"result\":{}}\n",
    ] {
        let mut rig = client(&mcp::LATEST);
        let key = rig.call("work");
        rig.conn.handle_input(rig.now, broken);
        assert_eq!(rig.settled(), [(key, Settlement::Unreadable(Rejected::NotJson))], "{}", broken.escape_ascii());
        assert_eq!(rig.say(), [""; 0]);
        rig.leaves_nothing();
    }
}

// D43.
#[test]
fn a_request_that_cannot_be_read_is_answered_under_its_id() {
    let unreadable = b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"m\",\"params\":{\"text\":\"\xe9\"}}\n";
    let answer = r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32700,"message":"not UTF-8"}}"#;
    // Whichever side waits for it.
    for mut rig in [server(&mcp::REVISION_2025_06_18), client(&mcp::REVISION_2025_06_18)] {
        rig.conn.handle_input(rig.now, unreadable);
        assert_eq!(rig.start(), []);
        assert_eq!(rig.say(), [answer]);
        rig.leaves_nothing();
    }
}

// MCP-I01.
#[test]
fn a_null_id_is_served_only_where_it_is_lawful() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    rig.hear(&[&call("null", "work")]);
    assert_eq!(rig.refusals(), [Rejected::NullId]);
    assert_eq!(rig.start(), []);
    let mut rig = server(&acp::V1);
    let key = rig.serve("null", "work");
    rig.hear(&[&acp_cancel("null")]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted]);
    rig.end(key, HandlerEnd::Cancelled);
    assert!(rig.say()[0].contains(r#""id":null"#));
}

fn small(role: Side, dialect: &'static Dialect) -> Rig {
    let mut config: ConnectionConfig = config(role, dialect);
    config.max_message = 100;
    Rig::new(config)
}

#[test]
fn a_request_that_is_too_long_is_the_one_that_fails() {
    let mut rig = small(Side::Server, &mcp::LATEST);
    let long = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"work","params":{{"x":"{}"}}}}"#, "x".repeat(200));
    rig.hear(&[&call("1", "a"), &long, &call("2", "b")]);
    assert_eq!(rig.start().len(), 2);
    assert_eq!(rig.refusals(), [Rejected::TooLarge]);
    let said = rig.say();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31005,"#), "{}", said[0]);
}

#[test]
fn an_answer_that_is_too_long_ends_its_call() {
    let mut rig = small(Side::Client, &mcp::LATEST);
    let (lost, other) = (rig.call("a"), rig.call("b"));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":"{}"}}}}"#, "x".repeat(200));
    rig.hear(&[&long, &result("2")]);
    let settled = rig.settled();
    assert_eq!(settled[0], (lost, Settlement::Unreadable(Rejected::TooLarge)));
    assert_eq!(settled[1].0, other);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn any_cut_of_the_input_means_the_same() {
    let lines = [call("1", "work"), mcp_cancel("1"), call("2", "work"), result("9")].join("\n") + "\n";
    for step in 1..lines.len() {
        let mut rig = server(&mcp::LATEST_LEGACY);
        for piece in lines.as_bytes().chunks(step) {
            rig.conn.handle_input(rig.now, piece);
        }
        assert_eq!(rig.start().len(), 1, "in steps of {step}");
        assert_eq!(rig.verdicts(), [Verdict::Accepted]);
        assert_eq!(rig.refusals(), [Rejected::UnknownResponse]);
    }
}

#[test]
fn an_input_that_ends_in_the_middle_is_reported() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    rig.conn.handle_input(rig.now, br#"{"jsonrpc":"2.0","id":1,"meth"#);
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.refusals(), [Rejected::Unfinished]);
    assert!(rig.is_closed());
}

#[test]
fn content_length_framing_both_ways() {
    let mut config = config(Side::Server, &lsp::LSP);
    config.framing = Framing::Headers;
    let mut rig = Rig::new(config);
    let body = call("1", "work");
    let text = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    rig.conn.handle_input(rig.now, text.as_bytes());
    let key = rig.start().remove(0).key;
    rig.end(key, OK);
    let n = rig.conn.pending().len();
    let answer = result("1");
    assert_eq!(rig.write(n), format!("Content-Length: {}\r\n\r\n{answer}", answer.len()));
}

// D2.
#[test]
fn the_spelling_of_a_cancel_tells_the_dialect_of_its_request() {
    let mut free = ConnectionConfig::new(Side::Server);
    free.deadline_travels = false;
    let mut rig = Rig::new(free);
    let key = rig.serve("1", "work");
    rig.hear(&[&acp_cancel("1")]);
    assert_eq!(rig.conn.dialect(), &acp::V1);
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say().len(), 1, "ACP wants an answer");
}

#[test]
fn the_first_cancel_tells_the_dialect_of_every_request_in_flight() {
    let mut rig = Rig::new(ConnectionConfig { deadline_travels: false, ..ConnectionConfig::new(Side::Server) });
    for (id, key) in ["1", "2"].map(|id| (id, rig.serve(id, "work"))) {
        rig.hear(&[&acp_cancel(id)]);
        assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
        rig.end(key, HandlerEnd::Cancelled);
        let said = rig.say();
        assert!(matches!(&said[..], [one] if one.contains(r#""code":-32800"#)), "ACP-01: {said:?}");
    }
    rig.leaves_nothing();
}

// D2.
#[test]
fn a_request_that_names_its_revision_is_served_in_it() {
    let mut rig = Rig::new(ConnectionConfig::new(Side::Server));
    rig.hear(&[
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"b"}"#,
    ]);
    let spoken: Vec<_> = rig.start().into_iter().map(|request| request.dialect.name).collect();
    assert_eq!(spoken, ["mcp-2025-03-26", "mcp-2026-07-28", "mcp-2025-03-26"]);
}

// D2.
#[test]
fn a_request_that_is_refused_tells_the_revision_too() {
    let mut rig = Rig::new(ConnectionConfig::new(Side::Server));
    rig.hear(&[
        r#"{"jsonrpc":"2.0","id":null,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    ]);
    assert!(rig.start().is_empty());
    assert_eq!(rig.conn.dialect(), &mcp::LATEST);
}

// MCP-M03.
#[test]
fn a_server_of_the_newest_revision_may_not_ask() {
    let mut rig = client(&mcp::LATEST);
    rig.serve("1", "roots/list");
    assert_eq!(rig.violations(), [Rule::McpM03]);
}

// MCP-C13, TASK-11.
#[test]
fn a_task_is_not_cancelled_by_a_notification_and_what_is_no_task_is() {
    for takes_tasks in [true, false] {
        let mut rig = server(&mcp::REVISION_2025_11_25);
        let capabilities = if takes_tasks { r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"# } else { "{}" };
        let key = rig.serve("0", "initialize");
        let welcome = format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities}}}"#);
        rig.end(key, HandlerEnd::Returned(rescind_proto::connection::Reply::Result(welcome.as_bytes())));
        rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":1}}}"#]);
        rig.start();
        rig.hear(&[&mcp_cancel("1")]);
        let expected = if takes_tasks { Verdict::Forbidden(Rule::McpC13) } else { Verdict::Accepted };
        assert_eq!(rig.verdicts(), [expected]);
        assert_eq!(rig.fired().len(), usize::from(!takes_tasks));
    }
}

// MCP-C13.
#[test]
fn our_own_task_is_not_cancelled_by_a_notification() {
    let mut rig = client(&mcp::REVISION_2025_11_25);
    rig.call("initialize");
    rig.hear(&[
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}}"#,
    ]);
    let key = rig.ask("tools/call", r#"{"name":"x","task":{}}"#);
    rig.say();
    rig.cancel(key);
    assert_eq!(rig.outcome(key), Some(Outcome::NotSendable));
    assert_eq!(rig.say(), [""; 0]);
}

// Case 51.
#[test]
fn one_member_of_a_batch_is_cancelled_and_the_others_are_answered_together() {
    let mut rig = server(BATCHING);
    rig.hear(&[&format!("[{},{},{}]", call("1", "a"), call("2", "b"), call("3", "c"))]);
    let keys: Vec<_> = rig.start().into_iter().map(|request| request.key).collect();
    assert_eq!(keys.len(), 3);
    rig.end(keys[2], OK);
    assert_eq!(rig.say(), [""; 0], "the array waits for its last member");
    rig.hear(&[&mcp_cancel("2")]);
    rig.end(keys[0], OK);
    assert_eq!(rig.say(), [format!("[{},{}]", result("3"), result("1"))]);
    rig.end(keys[1], OK);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

// D36: there is no empty array.
#[test]
fn a_batch_of_which_all_is_cancelled_is_not_answered() {
    let mut rig = server(BATCHING);
    rig.hear(&[&format!("[{},{}]", call("1", "a"), call("2", "b"))]);
    let keys: Vec<_> = rig.start().into_iter().map(|request| request.key).collect();
    rig.hear(&[&format!("[{},{}]", mcp_cancel("1"), mcp_cancel("2"))]);
    for key in keys {
        rig.end(key, OK);
    }
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

// MCP-B01: a cancel may stand before its request in the same array.
#[test]
fn a_cancel_before_its_request_in_one_array_stops_it() {
    let mut rig = server(BATCHING);
    rig.hear(&[&format!("[{},{},{}]", mcp_cancel("1"), call("1", "a"), call("2", "b"))]);
    let started = rig.start();
    assert_eq!(started.len(), 1);
    rig.end(started[0].key, OK);
    assert_eq!(rig.say(), [format!("[{}]", result("2"))]);
    rig.leaves_nothing();
}

#[test]
fn a_batch_holds_answers_for_us_and_refusals_for_the_peer() {
    let mut rig = server(BATCHING);
    let ours = rig.call("roots/list");
    let members = [result("1"), call("5", "a"), call("5", "a"), call("6", "initialize"), "7".to_owned()];
    rig.hear(&[&format!("[{}]", members.join(","))]);
    assert_eq!(rig.settled()[0].0, ours);
    assert_eq!(rig.refusals(), [Rejected::DuplicateId, Rejected::Batch, Rejected::Invalid(Reason::NoObject)]);
    let key = rig.start().remove(0).key;
    rig.end(key, OK);
    let said = rig.say();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].matches("-32600").count(), 2);
    assert!(said[0].ends_with(&format!("{}]", result("5"))));
    rig.leaves_nothing();
}

// D36.
#[test]
fn refusals_and_reports_of_one_batch_are_bounded() {
    let mut rig = server(BATCHING);
    rig.hear(&[&format!("[{}{}]", call("1", "work"), format!(",{}", call("2", "initialize")).repeat(10_000))]);
    assert_eq!(rig.refusals().len(), 1024);
    let key = rig.start()[0].key;
    rig.end(key, OK);
    let said = rig.say().concat();
    assert!(said.len() < 70_000, "{} bytes of answers", said.len());
    assert!(said.ends_with(&format!("{}]", result("1"))), "and what is served is answered");
    rig.leaves_nothing();
}

#[test]
fn a_batch_is_no_message_elsewhere() {
    let mut rig = server(&mcp::LATEST);
    rig.hear(&[&format!("[{}]", call("1", "a"))]);
    assert_eq!(rig.start(), []);
    assert_eq!(rig.refusals(), [Rejected::Batch]);
    assert!(rig.say()[0].contains("-32600"));
}

// D43: callers wait for what a server should not have put into an array.
#[test]
fn an_array_of_answers_is_taken_apart_whatever_the_revision() {
    let mut rig = client(&mcp::REVISION_2025_06_18);
    let (first, second) = (rig.call("a"), rig.call("b"));
    rig.hear(&[&format!("[{},7,{}]", result("2"), result("1"))]);
    assert_eq!(rig.settled().iter().map(|(key, _)| *key).collect::<Vec<_>>(), [second, first]);
    assert_eq!(rig.refusals(), [Rejected::Invalid(Reason::NoObject)]);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_request_in_an_array_that_should_not_be_one_is_answered_by_itself() {
    let mut rig = client(&mcp::REVISION_2025_06_18);
    rig.hear(&[r#"[{"jsonrpc":"2.0","id":5,"method":"roots/list"}]"#]);
    let key = rig.start()[0].key;
    rig.end(key, HandlerEnd::Returned(rescind_proto::connection::Reply::Result(b"{}")));
    assert_eq!(rig.say(), [result("5")]);
    rig.leaves_nothing();
}

#[test]
fn a_batch_that_outlives_the_link_leaves_nothing() {
    let mut rig = server(BATCHING);
    rig.hear(&[&format!("[{},{}]", call("1", "a"), call("2", "b"))]);
    let keys: Vec<_> = rig.start().into_iter().map(|request| request.key).collect();
    rig.end(keys[0], OK);
    rig.conn.handle_write_closed(rig.now);
    rig.end(keys[1], OK);
    assert!(rig.is_closed());
    rig.leaves_nothing();
}

#[test]
fn an_id_of_any_size_is_echoed_as_it_came() {
    let mut rig = server(&mcp::LATEST);
    let id = format!(r#""{}""#, "x".repeat(5000));
    let key = rig.serve(&id, "work");
    rig.end(key, OK);
    assert_eq!(rig.say(), [result(&id)]);
    assert_eq!(RequestId::from_json(id.as_bytes()).unwrap().to_string(), id);
}

#[test]
fn a_late_answer_that_cannot_be_read_settles_nobody_twice() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("work");
    rig.cancel(key);
    rig.say();
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}}"#]);
    assert_eq!(rig.settled().len(), 1);
    assert_eq!(rig.conn.counters().late, 1);
    rig.leaves_nothing();
}
