//! Cancels of MCP requests through `rescind run`, case by case, on real processes. Case numbers are those of the
//! field's collected behaviours.

use std::{
    fs::File,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rescind_testkit::puppet::Rig;

use crate::shim::{
    PROGRAM, error_of,
    process::peak_memory,
    words::{
        cancelled, error, expect_alive, greet_mcp, notification, pass_to_client, pass_to_server, progress, request,
        request_with, result, with_token,
    },
};

const MCP: &str = "2025-11-25";

fn mcp() -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet_mcp(&mut rig, MCP);
    rig
}

/// The id of a message, as it stands there.
fn id_of(message: &str) -> String {
    rescind_proto::json::member(message.as_bytes(), "id")
        .map(|id| String::from_utf8_lossy(id).into_owned())
        .unwrap_or_default()
}

#[test]
fn a_cancel_reaches_the_server_and_its_late_answer_nobody() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &request("2", "tools/call"));
    let cancel = notification("notifications/cancelled", r#"{"requestId":1,"reason":"user pressed Stop"}"#);
    pass_to_server(&mut rig, &cancel);
    rig.server.send(&result("1", "{}"));
    // Case 17: the other call returns.
    pass_to_client(&mut rig, &result("2", "{}"));
    expect_alive(&mut rig);
}

/// Case 5.
#[test]
fn a_cancel_of_an_unknown_id_goes_nowhere() {
    let mut rig = mcp();
    rig.client.send(&cancelled("99"));
    rig.expect_server_hears_nothing();
    expect_alive(&mut rig);
    rig.expect_client_hears_nothing();
}

/// Case 6.
#[test]
fn a_cancel_of_a_completed_id_goes_nowhere() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_client(&mut rig, &result("1", "{}"));
    rig.client.send(&cancelled("1"));
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// Case 7.
#[test]
fn a_malformed_cancel_goes_nowhere() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let cancel = |params: &str| notification("notifications/cancelled", params);
    for params in [
        "{}",
        r#"{"requestId":null}"#,
        r#"{"requestId":true}"#,
        r#"{"requestId":1.0}"#,
        r#"{"requestId":1.5}"#,
        r#"{"requestId":[1]}"#,
        r#"{"requestId":{"id":1}}"#,
        r#"{"requestId":"1"}"#,
        r#"{"id":1}"#,
        "[1]",
        r#"{"requestId":1,"requestId":2}"#,
    ] {
        rig.client.send(&cancel(params));
        rig.expect_server_hears_nothing();
    }
    rig.client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    pass_to_client(&mut rig, &result("1", "{}"));
}

/// Case 7.
#[test]
fn a_reason_that_is_no_string_is_left_out_and_the_cancel_stands() {
    for reason in ["null", "5", r#"{"why":"because"}"#] {
        let mut rig = mcp();
        pass_to_server(&mut rig, &request("1", "tools/call"));
        rig.client.send(&notification("notifications/cancelled", &format!(r#"{{"requestId":1,"reason":{reason}}}"#)));
        rig.server.expect(&cancelled("1"));
    }
}

/// Case 9.
#[test]
fn ids_are_told_apart_by_type_and_value() {
    let long = format!("\"{}\"", "x".repeat(10_000));
    let ids = ["0", "\"\"", "5", "\"5\"", "9007199254740992", "9007199254740993", "18446744073709551617", &long];
    let mut rig = mcp();
    let mut upstream = Vec::new();
    for id in ids {
        rig.client.send(&request(id, "tools/call"));
        upstream.push(id_of(&rig.server.receive()));
    }
    // What a careless server would confuse has other names there; the rest keeps its own, exactly.
    assert_eq!(upstream[2], "5");
    assert_eq!(upstream[4..], ids[4..]);
    let mut distinct = upstream.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len(), "{upstream:?}");
    for (place, id) in ids.into_iter().enumerate() {
        if place % 2 == 0 {
            rig.client.send(&cancelled(id));
            rig.server.expect(&cancelled(&upstream[place]));
        }
    }
    for (place, id) in ids.into_iter().enumerate() {
        rig.server.send(&result(&upstream[place], "{}"));
        if place % 2 == 1 {
            rig.client.expect(&result(id, "{}"));
        }
    }
    rig.expect_client_hears_nothing();
}

/// Case 10.
#[test]
fn a_duplicate_in_flight_is_refused_and_the_first_stays_cancellable() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    rig.client.send(&request("1", "tools/list"));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32600);
    rig.expect_server_hears_nothing();
    pass_to_server(&mut rig, &cancelled("1"));
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
}

/// Case 11.
#[test]
fn an_id_is_reused_after_completion() {
    let mut rig = mcp();
    for _ in 0..2 {
        pass_to_server(&mut rig, &request("1", "tools/call"));
        pass_to_client(&mut rig, &result("1", "{}"));
    }
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.expect_client_hears_nothing();
}

/// Case 11: the new request must not get the old one's answer.
#[test]
fn an_id_reused_while_the_cancelled_work_unwinds_gets_its_own_answer() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.client.send(&request("1", "tools/list"));
    let second = rig.server.receive();
    assert!(second.contains("tools/list"), "{second}");
    let upstream = id_of(&second);
    assert_ne!(upstream, "1", "the server still works under that id");
    rig.server.send(&result("1", r#"{"of":"the first"}"#));
    rig.server.send(&result(&upstream, r#"{"of":"the second"}"#));
    rig.client.expect(&result("1", r#"{"of":"the second"}"#));
}

/// Case 12.
#[test]
fn a_cancel_in_the_same_read_as_its_request_is_never_lost() {
    let mut rig = mcp();
    rig.client.send_together(&[&request("1", "tools/call"), &cancelled("1")]);
    // No byte of the request was written yet: it is withdrawn, and nothing is left to cancel.
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// Cases 13 and 15: the server reads nothing; the cancel is not stuck behind what it has not read.
#[test]
fn a_request_cancelled_while_it_waits_for_the_pipe_never_starts() {
    let mut rig = mcp();
    let long = request_with("1", "tools/call", &format!(r#"{{"text":"{}"}}"#, "x".repeat(2_000_000)));
    rig.client.send(&long);
    rig.client.send(&request("2", "tools/call"));
    rig.client.send(&request("3", "tools/call"));
    rig.client.send(&cancelled("2"));
    // The answer to bad input is the barrier: the cancel has been read.
    rig.client.send("no message");
    rig.client.receive();
    rig.server.expect(&long);
    rig.server.expect(&request("3", "tools/call"));
    rig.expect_server_hears_nothing();
}

/// Cases 15 and 69.
#[test]
fn a_cancel_passes_whole_queued_messages_and_waits_only_for_the_one_being_written() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let text = "x".repeat(4 << 20);
    let begun = notification("x/begun", &format!(r#"{{"text":"{text}"}}"#));
    let queued = notification("x/queued", &format!(r#"{{"text":"{text}"}}"#));
    rig.client.send(&begun);
    rig.client.send(&queued);
    rig.client.send(&cancelled("1"));
    // The answer to bad input is the barrier: the cancel has been read, and the server has read nothing.
    rig.client.send("no message");
    rig.client.receive();
    rig.server.expect(&begun);
    rig.server.expect(&cancelled("1"));
    rig.server.expect(&queued);
}

/// Case 69.
#[test]
fn a_cancel_beside_a_message_of_32_megabytes_arrives_and_so_does_the_message() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let long = notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(32 << 20)));
    rig.client.send(&long);
    // Begun: from here on the cancel has to wait for it.
    let begun = rig.server.receive_bytes(1000);
    let mut client = rig.client.take_blocking_output();
    let cancel = thread::spawn(move || writeln!(client, "{}", cancelled("1")).unwrap());
    let rest = rig.server.receive();
    assert_eq!(begun.len() + rest.len(), long.len());
    assert!(long.as_bytes().starts_with(&begun) && long.ends_with(&rest));
    rig.server.expect(&cancelled("1"));
    cancel.join().unwrap();
}

/// Case 16.
#[test]
fn a_cancel_of_initialize_is_ignored_and_it_is_still_answered() {
    let mut rig = Rig::start(PROGRAM);
    let params = format!(r#"{{"protocolVersion":"{MCP}"}}"#);
    pass_to_server(&mut rig, &request_with("0", "initialize", &params));
    rig.client.send(&cancelled("0"));
    rig.expect_server_hears_nothing();
    pass_to_client(&mut rig, &result("0", &params));
}

/// Case 16, in one write: a widely used server never answers it then.
#[test]
fn a_cancel_of_initialize_in_the_same_write_is_ignored_too() {
    let mut rig = Rig::start(PROGRAM);
    let initialize = request_with("0", "initialize", &format!(r#"{{"protocolVersion":"{MCP}"}}"#));
    rig.client.send_together(&[&initialize, &cancelled("0")]);
    rig.server.expect(&initialize);
    rig.expect_server_hears_nothing();
}

/// D9. As rmcp writes them with many callers at once.
#[test]
fn of_hundreds_of_cancels_ahead_of_their_requests_none_is_lost() {
    let mut rig = mcp();
    let ids: Vec<String> = (100..295).map(|id| id.to_string()).collect();
    let cancels = ids.iter().map(|id| cancelled(id));
    let all: Vec<String> = cancels.chain(ids.iter().map(|id| request(id, "tools/call"))).collect();
    rig.client.send_together(&all.iter().map(String::as_str).collect::<Vec<_>>());
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    expect_alive(&mut rig);
}

/// Case 22.
#[test]
fn a_cancel_that_overtook_its_request_is_held_for_it() {
    let mut rig = mcp();
    rig.client.send_together(&[&cancelled("1"), &request("1", "tools/call")]);
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// Case 22: the other way round, a late cancel must not hit the next request with its id.
#[test]
fn a_late_cancel_does_not_hit_a_legal_reuse_of_its_id() {
    let mut rig = Rig::start(PROGRAM);
    let call = |id: &str| {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        request_with(id, "tools/call", meta)
    };
    pass_to_server(&mut rig, &call("1"));
    pass_to_client(&mut rig, &result("1", "{}"));
    rig.client.send(&cancelled("1"));
    pass_to_server(&mut rig, &call("1"));
    pass_to_client(&mut rig, &result("1", "{}"));
}

/// Case 61.
#[test]
fn each_hop_has_its_own_ids_where_the_eras_differ() {
    let flags = ["--protocol", "mcp-2026-07-28", "--server-protocol", "mcp-2025-11-25"];
    let mut rig = Rig::builder(PROGRAM).flags(flags).start();
    rig.client.send(&request("\"a\"", "tools/call"));
    let sent: serde_json::Value = serde_json::from_str(&rig.server.receive()).unwrap();
    let upstream = sent["id"].to_string();
    assert_ne!(upstream, "\"a\"");
    assert!(sent["id"].is_string(), "the type stays: {sent}");
    // The client's id means nothing to the server, and the server's nothing to the client.
    rig.client.send(&cancelled(&upstream));
    rig.client.send(&cancelled("\"a\""));
    rig.server.expect(&cancelled(&upstream));
    rig.expect_server_hears_nothing();
}

/// Case 62.
#[test]
fn late_progress_and_late_errors_are_swallowed() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("\"t\"")));
    pass_to_client(&mut rig, &progress("\"t\"", 1));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.server.send(&progress("\"t\"", 2));
    rig.server.send(&error("1", 0, "Request cancelled"));
    rig.server.send(&progress("\"t\"", 3));
    rig.expect_client_hears_nothing();
    // Nor does progress with a token that no request in flight gave (D62).
    rig.server.send(&progress("\"other\"", 1));
    rig.expect_client_hears_nothing();
}

/// Case 64.
#[test]
fn an_answer_to_a_cancelled_request_is_swallowed_where_silence_is_due() {
    let mut rig = mcp();
    for answer in [result("1", "{}"), error("1", -32800, "Request cancelled"), error("1", 0, "cancelled")] {
        pass_to_server(&mut rig, &request("1", "tools/call"));
        pass_to_server(&mut rig, &cancelled("1"));
        rig.server.send(&answer);
        rig.expect_client_hears_nothing();
    }
}

/// Case 66.
#[test]
fn an_answer_whose_id_changed_its_type_reaches_its_request() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("5", "tools/call"));
    rig.server.send(&result("\"5\"", "{}"));
    rig.client.expect(&result("5", "{}"));
    pass_to_server(&mut rig, &request("6", "tools/call"));
    rig.server.send(&result("6.0", "{}"));
    rig.client.expect(&result("6", "{}"));
}

/// Case 67.
#[test]
fn an_error_that_answers_a_notification_is_tolerated() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &notification("notifications/unheard_of", "{}"));
    let stray = r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no such method"}}"#;
    // Valid for this client's revision, so it is passed on.
    pass_to_client(&mut rig, stray);
    expect_alive(&mut rig);
}

/// Case 70.
#[test]
fn what_is_not_about_cancellation_passes_byte_for_byte() {
    let mut rig = mcp();
    for message in [
        r#"{"method":"x", "jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","method":"x","params":{"b":1,"a":2,"b":3}}"#,
        r#"{"jsonrpc":"2.0","method":"x","params":{"n":1.0e400,"m":-0,"s":"\ud800","t":"\u0000"}}"#,
        r#"{"jsonrpc":"2.0","method":"x","extra":[null,true,{"deep":[[[[]]]]}]}"#,
        "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"é\":\"\u{1f600}\"}}",
    ] {
        pass_to_server(&mut rig, message);
        pass_to_client(&mut rig, message);
    }
}

/// Case 70, with lines that end as on Windows.
#[test]
fn carriage_returns_pass() {
    let mut rig = mcp();
    let message = notification("x", "{}");
    rig.client.send_bytes(format!("{message}\r\n").as_bytes());
    rig.server.expect(&format!("{message}\r"));
}

/// Case 73.
#[test]
fn what_came_before_an_answer_is_heard_before_it() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("1")));
    let said = |number| notification("notifications/message", &format!(r#"{{"level":"info","data":{number}}}"#));
    let mut all: Vec<String> = (0..50).map(said).collect();
    all.push(result("1", "{}"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    rig.server.send_together(&all);
    for message in all {
        rig.client.expect(message);
    }
}

/// Case 74.
#[test]
fn a_client_that_floods_and_does_not_read_leaves_the_other_direction_open_and_memory_bounded() {
    let mut rig = mcp();
    let flood = Flood::start(rig.client.take_blocking_output());
    let mut number = 0;
    flood.until_paused(|| {
        number += 1;
        pass_to_client(&mut rig, &notification("y", &format!(r#"{{"number":{number}}}"#)));
    });
    // What waited arrives, and the flood goes on as far as it is read.
    for _ in 0..400 {
        rig.server.receive();
    }
    let peak = peak_memory(rig.shim.id);
    assert!(peak < MOST_HELD, "the shim took {peak} bytes");
    drop(rig);
    flood.end();
}

/// Case 74, from the other side.
#[test]
fn a_server_that_floods_and_does_not_read_leaves_the_other_direction_open_and_memory_bounded() {
    let mut rig = mcp();
    let flood = Flood::start(rig.server.take_blocking_output());
    let mut number = 0;
    flood.until_paused(|| {
        number += 1;
        pass_to_server(&mut rig, &notification("y", &format!("[{number}]")));
    });
    for _ in 0..400 {
        rig.client.receive();
    }
    let peak = peak_memory(rig.shim.id);
    assert!(peak < MOST_HELD, "the shim took {peak} bytes");
    drop(rig);
    flood.end();
}

/// Well above the bound on what one side may leave unread, with the program itself, and well below what a flood brings.
const MOST_HELD: usize = 64 << 20;

/// Notifications without end, of which each byte that left is counted.
struct Flood {
    written: Arc<AtomicUsize>,
    thread: thread::JoinHandle<()>,
}

impl Flood {
    fn start(mut into: File) -> Self {
        let line = format!("{}\n", notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000))));
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        // Ends with an error when the shim is gone.
        let thread = thread::spawn(move || {
            while into.write_all(line.as_bytes()).is_ok() {
                count.fetch_add(line.len(), Ordering::Relaxed);
            }
        });
        Self { written, thread }
    }

    /// Until the shim takes no more. In every `round_trip` it turns once, and would read what there is.
    fn until_paused(&self, mut round_trip: impl FnMut()) {
        let (mut before, mut quiet) = (0, 0);
        while quiet < 200 {
            round_trip();
            let written = self.written.load(Ordering::Relaxed);
            assert!(written < MOST_HELD, "the shim took {written} bytes that nobody reads");
            quiet = if written == before { quiet + 1 } else { 0 };
            before = written;
        }
    }

    fn end(self) {
        self.thread.join().expect("the flood ends with an error");
    }
}

/// Case 75.
#[test]
fn a_repeated_member_is_refused_however_it_is_spelt() {
    let mut rig = mcp();
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"method":"x","id":2}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","\u0069d":2}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}"#,
    ] {
        rig.client.send(message);
        let answer: serde_json::Value = serde_json::from_str(&rig.client.receive()).unwrap();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        rig.expect_server_hears_nothing();
    }
    pass_to_server(&mut rig, &request("1", "tools/call"));
    rig.client.send(&notification("notifications/cancelled", r#"{"requestId":2,"request\u0049d":1}"#));
    rig.expect_server_hears_nothing();
}

/// Case 76.
#[test]
fn an_escaped_id_is_the_same_id() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request(r#""\u00e9""#, "tools/call"));
    rig.client.send(&cancelled("\"é\""));
    // The server is told in its own words.
    rig.server.expect(&cancelled(r#""\u00e9""#));
    rig.server.send(&result("\"é\"", "{}"));
    rig.expect_client_hears_nothing();
}

#[test]
fn the_servers_own_requests_are_cancelled_at_the_client() {
    let mut rig = mcp();
    pass_to_client(&mut rig, &request("1", "sampling/createMessage"));
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_client(&mut rig, &cancelled("1"));
    // Whoever asked: the client's request with the same id is another one.
    pass_to_client(&mut rig, &result("1", "{}"));
    rig.client.send(&result("1", "{}"));
    rig.expect_server_hears_nothing();
}

#[test]
fn a_servers_death_cancels_what_it_had_asked() {
    let mut rig = mcp();
    pass_to_client(&mut rig, &request("1", "sampling/createMessage"));
    rig.server.exit(1);
    let cancel: serde_json::Value = serde_json::from_str(&rig.client.receive()).unwrap();
    assert_eq!(cancel["method"], "notifications/cancelled", "{cancel}");
    assert_eq!(cancel["params"]["requestId"], 1, "{cancel}");
    rig.client.expect_end();
}

/// D36: once the shim saw the cancel, it never answers where silence is due.
#[test]
fn a_cancelled_request_gets_nothing_when_the_server_dies() {
    let mut rig = mcp();
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.server.exit(1);
    rig.client.expect_end();
}
