//! Bad input from either side through `rescind run`: every row of D36, on real processes.

use rescind_testkit::puppet::{Framing, Rig};
use serde_json::Value;

use crate::shim::{
    PROGRAM, error_of,
    process::peak_memory,
    words::{
        cancelled, error, expect_alive, greet_acp, greet_mcp, notification, pass_to_client, pass_to_server, request,
        request_with, result,
    },
};

fn mcp(revision: &str) -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet_mcp(&mut rig, revision);
    rig
}

#[test]
fn garbage_from_the_client_gets_one_parse_error_and_is_not_forwarded() {
    let mut rig = mcp("2025-06-18");
    for (garbage, code) in [
        (&b"not json"[..], -32700),
        (b"{\"half\":", -32700),
        (b"\xff\xfe", -32700),
        (b"\0", -32700),
        (b"{} {}", -32700),
        (b"\"text\"", -32600),
        (b"5", -32600),
    ] {
        rig.client.send_bytes(&[garbage, b"\n"].concat());
        let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
        assert_eq!((answer.get("id"), &answer["error"]["code"]), (Some(&Value::Null), &Value::from(code)), "{answer}");
        rig.expect_client_hears_nothing();
        rig.expect_server_hears_nothing();
    }
    expect_alive(&mut rig);
}

#[test]
fn a_parse_error_has_no_id_where_the_revision_has_it_so() {
    let mut rig = mcp("2025-11-25");
    rig.client.send("not json");
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!((answer.get("id"), &answer["error"]["code"]), (None, &Value::from(-32700)), "{answer}");
}

/// That it came is a warning; its text may be a secret, and is logged where secrets may be.
#[test]
fn a_line_of_the_server_that_is_no_json_goes_to_the_log_only() {
    for (level, text) in [("warn", None), ("trace", Some("Server listening on stdio \u{fffd}[32mok"))] {
        let mut rig = Rig::builder(PROGRAM).flags(["--log", level]).start();
        greet_mcp(&mut rig, "2025-11-25");
        rig.server.send("Server listening on stdio \u{1b}[32mok");
        let mut logged = rig.shim.stderr.line();
        while logged.contains("TRACE") || logged.contains("DEBUG") {
            logged = rig.shim.stderr.line();
        }
        assert!(logged.contains("WARN  not passed on from=server why=garbage"), "{logged}");
        assert!(text.map_or_else(|| !logged.contains("Server"), |text| logged.contains(text)), "{logged}");
        rig.expect_client_hears_nothing();
        rig.expect_server_hears_nothing();
    }
}

#[test]
fn empty_lines_are_nothing() {
    let mut rig = mcp("2025-11-25");
    rig.client.send_bytes(b"\n\r\n   \n\t\n");
    rig.server.send_bytes(b"\n\r\n   \n\t\n");
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

#[test]
fn an_unfinished_message_at_the_end_is_not_passed_on() {
    let mut rig = mcp("2025-11-25");
    rig.server.send_bytes(br#"{"jsonrpc":"2.0","method":"x","par"#);
    rig.server.exit(0);
    rig.client.expect_end();
}

#[test]
fn a_stray_error_passes_only_in_the_form_that_the_clients_revision_knows() {
    let text = r#"{"code":-32601,"message":"no such method"}"#;
    let without = format!(r#"{{"jsonrpc":"2.0","error":{text}}}"#);
    let null = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{text}}}"#);
    for (revision, form) in [("2025-11-25", Some(&without)), ("2025-06-18", None), ("2024-11-05", None)] {
        for stray in [&without, &null] {
            let mut rig = mcp(revision);
            rig.server.send(stray);
            if let Some(form) = form {
                rig.client.expect(form);
            }
            rig.expect_client_hears_nothing();
        }
    }
    for stray in [&without, &null] {
        let mut rig = Rig::start(PROGRAM);
        greet_acp(&mut rig, "", "");
        rig.server.send(stray);
        rig.client.expect(&null);
    }
}

#[test]
fn an_answer_to_nothing_is_not_forwarded_from_either_side() {
    let mut rig = mcp("2025-11-25");
    for stray in [result("77", "{}"), error("\"x\"", -1, "no"), result("[1]", "{}")] {
        rig.server.send(&stray);
        rig.client.send(&stray);
    }
    rig.expect_client_hears_nothing();
    rig.expect_server_hears_nothing();
}

#[test]
fn a_second_answer_is_not_forwarded() {
    let mut rig = mcp("2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_client(&mut rig, &result("1", "{}"));
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_request() {
    let mut rig = mcp("2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    rig.server.send(r#"{"jsonrpc":"2.0","id":1}"#);
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -32603, "{error}");
    rig.expect_client_hears_nothing();
}

#[test]
fn a_null_id_is_refused_where_ids_may_not_be_null() {
    let mut rig = mcp("2025-11-25");
    rig.client.send(&request("null", "tools/call"));
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    rig.expect_server_hears_nothing();
}

#[test]
fn an_overlong_request_is_answered_alone_and_scanned_in_constant_memory() {
    let mut rig = Rig::builder(PROGRAM).flags(["--max-message", "1MiB"]).start();
    greet_mcp(&mut rig, "2025-11-25");
    // The id comes last: all of it has to be scanned.
    let overlong = format!(
        r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"text":"{}"}},"id":"long"}}"#,
        "x".repeat(64 << 20)
    );
    let before = peak_memory(rig.shim.id);
    rig.client.send(&overlong);
    let error = error_of(&rig.client.receive(), "\"long\"");
    assert_eq!(error["code"], -31005, "{error}");
    rig.expect_server_hears_nothing();
    expect_alive(&mut rig);
    let grown = peak_memory(rig.shim.id) - before;
    assert!(grown < 4 << 20, "the shim took {grown} bytes more");
}

#[test]
fn an_overlong_answer_ends_the_one_request_that_it_answers() {
    let mut rig = Rig::builder(PROGRAM).flags(["--max-message", "1MiB"]).start();
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &request("2", "tools/call"));
    rig.server.send(&result("1", &format!(r#"{{"text":"{}"}}"#, "x".repeat(2 << 20))));
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31005, "{error}");
    pass_to_client(&mut rig, &result("2", "{}"));
}

#[test]
fn an_overlong_notification_is_dropped() {
    let mut rig = Rig::builder(PROGRAM).flags(["--max-message", "1MiB"]).start();
    greet_mcp(&mut rig, "2025-11-25");
    rig.server.send(&notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(2 << 20))));
    rig.expect_client_hears_nothing();
}

#[test]
fn a_message_of_exactly_the_limit_passes() {
    let mut rig = Rig::builder(PROGRAM).flags(["--max-message", "1kB"]).start();
    greet_mcp(&mut rig, "2025-11-25");
    let frame = notification("x", r#"{"text":""}"#);
    let text = "x".repeat(1000 - frame.len());
    let exactly = notification("x", &format!(r#"{{"text":"{text}"}}"#));
    assert_eq!(exactly.len(), 1000);
    pass_to_server(&mut rig, &exactly);
    rig.client.send(&notification("x", &format!(r#"{{"text":"{text}y"}}"#)));
    rig.expect_server_hears_nothing();
}

#[test]
fn a_batch_goes_on_as_one_array_where_the_revision_has_them() {
    let mut rig = mcp("2025-03-26");
    let batch = format!("[{},{}]", request("1", "tools/call"), request("2", "tools/call"));
    pass_to_server(&mut rig, &batch);
    pass_to_server(&mut rig, &cancelled("1"));
    // The answers' array comes without the cancelled member, and is never empty.
    rig.server.send(&format!("[{},{}]", result("1", "{}"), result("2", "{}")));
    rig.client.expect(&format!("[{}]", result("2", "{}")));
    pass_to_server(&mut rig, &format!("[{}]", request("3", "tools/call")));
    pass_to_server(&mut rig, &cancelled("3"));
    rig.server.send(&format!("[{}]", result("3", "{}")));
    rig.expect_client_hears_nothing();
}

#[test]
fn a_batch_is_split_for_any_other_revision() {
    let flags = ["--protocol", "mcp-2025-03-26", "--server-protocol", "mcp-2025-06-18"];
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    rig.client.send(&format!("[{},{}]", request("1", "tools/call"), request("2", "tools/call")));
    rig.server.expect(&request("1", "tools/call"));
    rig.server.expect(&request("2", "tools/call"));
    pass_to_client(&mut rig, &result("2", "{}"));
    pass_to_client(&mut rig, &result("1", "{}"));
}

#[test]
fn an_empty_batch_is_refused() {
    let mut rig = mcp("2025-03-26");
    rig.client.send("[]");
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    rig.expect_server_hears_nothing();
}

#[test]
fn a_late_cancel_of_what_the_shim_settled_goes_no_further() {
    let mut rig = Rig::builder(PROGRAM).flags(["--timeout", "tools/call=10ms"]).start();
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31001);
    let cancel: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!(cancel["params"]["requestId"], 1, "{cancel}");
    // The client's own cancel comes too late, and is consumed.
    rig.client.send(&cancelled("1"));
    rig.expect_server_hears_nothing();
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
}

#[test]
fn a_cancel_of_what_a_dead_server_left_is_consumed() {
    let mut rig = mcp("2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    // It closes its output and lives: the link has a while to go.
    rig.server.close_output();
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31002);
    rig.client.send(&cancelled("1"));
    rig.client.send(&request("2", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31002);
}

/// It would swallow whatever follows, without a word.
#[test]
fn a_length_that_no_message_has_is_refused_and_the_link_goes_on() {
    let mut rig = Rig::start(PROGRAM);
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(&mut rig, &request_with("0", "initialize", r#"{"processId":1}"#));
    pass_to_client(&mut rig, &result("0", "{}"));
    rig.client.send_bytes(b"Content-Length: 9223372036854775807\r\n\r\n");
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    pass_to_server(&mut rig, &request("1", "textDocument/hover"));
    rig.server.send_bytes(b"Content-Length: 9223372036854775807\r\n\r\n");
    pass_to_client(&mut rig, &result("1", "null"));
}

#[test]
fn headers_that_make_no_sense_are_refused_and_the_link_goes_on() {
    let mut rig = Rig::start(PROGRAM);
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(&mut rig, &request_with("0", "initialize", r#"{"processId":1}"#));
    pass_to_client(&mut rig, &result("0", "{}"));
    rig.client.send_bytes(b"Content-Length: many\r\n\r\n");
    let answer: Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
    pass_to_server(&mut rig, &request("1", "textDocument/hover"));
    // Headers that are not ours to judge.
    let body = notification("x", "{}");
    let odd = format!("content-length: {}\r\nX-Odd: yes\r\n\r\n{body}", body.len());
    rig.client.send_bytes(odd.as_bytes());
    let through = rig.server.receive_bytes(odd.len());
    assert_eq!(String::from_utf8_lossy(&through), odd);
}

#[test]
fn a_cancel_that_its_sender_may_not_send_is_ignored() {
    let mut rig = Rig::builder(PROGRAM).flags(["--protocol", "mcp-2026-07-28"]).start();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    // MCP-M01: a server cancels nothing; MCP-C01: nobody cancels what the other side asked.
    rig.server.send(&cancelled("1"));
    rig.expect_client_hears_nothing();
    pass_to_client(&mut rig, &result("1", "{}"));
}
