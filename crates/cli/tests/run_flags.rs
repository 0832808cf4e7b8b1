//! Every flag of `rescind run`, on real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod shim;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
};

use rescind_testkit::puppet::Rig;
use rustix::fs::Mode;
use serde_json::{Value, json};
use shim::{
    PROGRAM, error_of,
    process::peak_memory,
    words::{
        cancelled, error, greet_acp, greet_mcp, notification, pass_to_client, pass_to_server, progress, request,
        request_with, result, with_token,
    },
};

fn rig(flags: &[&str]) -> Rig {
    Rig::builder(PROGRAM).flags(flags).start()
}

fn cancel_request(id: &str) -> String {
    notification("$/cancel_request", &format!(r#"{{"requestId":{id}}}"#))
}

fn json_of(message: &str) -> Value {
    serde_json::from_str(message).unwrap()
}

#[test]
fn without_flags_nothing_is_printed() {
    let mut rig = rig(&[]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.client.send(&cancelled("99"));
    rig.server.send("garbage");
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
    rig.server.exit(1);
    rig.shim.expect_exit(1);
    rig.shim.expect_said_nothing();
}

#[test]
fn protocol_pins_what_both_sides_speak() {
    let mut rig = rig(&["--protocol", "acp-v1"]);
    // Nothing has told what is spoken.
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &cancel_request("1"));
    pass_to_client(&mut rig, &error("1", -32800, "Request cancelled"));
}

#[test]
fn a_pinned_protocol_beats_the_handshake() {
    let mut rig = rig(&["--protocol", "mcp-2026-07-28"]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_client(&mut rig, &request("1", "sampling/createMessage"));
    // MCP-M01, of that revision only.
    rig.server.send(&cancelled("1"));
    rig.expect_client_hears_nothing();
}

#[test]
fn a_family_leaves_the_revision_to_the_handshake() {
    let mut rig = rig(&["--protocol", "mcp"]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_client(&mut rig, &request("1", "sampling/createMessage"));
    pass_to_client(&mut rig, &cancelled("1"));
}

#[test]
fn server_protocol_translates_between_two_spellings() {
    let mut rig = rig(&["--protocol", "acp-v1", "--server-protocol", "acp-rfd-2025-11-13"]);
    greet_acp(&mut rig, "", r#","agentCapabilities":{"cancellation":{"request":true}}"#);
    rig.client.send(&request("1", "session/load"));
    let upstream = json_of(&rig.server.receive())["id"].to_string();
    rig.client.send(&cancel_request("1"));
    rig.server.expect(&notification("$/cancelRequest", &format!(r#"{{"id":{upstream}}}"#)));
    rig.server.send(&error(&upstream, -32800, "Cancelled"));
    rig.client.expect(&error("1", -32800, "Cancelled"));
}

#[test]
fn server_protocol_translates_silence_into_an_answer() {
    let mut rig = rig(&["--protocol", "acp-v1", "--server-protocol", "mcp-2025-11-25", "--grace", "10ms"]);
    rig.client.send(&request("1", "tools/call"));
    let upstream = json_of(&rig.server.receive())["id"].to_string();
    rig.client.send(&cancel_request("1"));
    rig.server.expect(&cancelled(&upstream));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
}

#[test]
fn a_file_may_be_a_dialect() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    let dialect = json!({
        "name": "mine", "base": "acp-v1",
        "cancel": {"method": "agent/abort", "id": "call", "reason": "why"},
        "settlement": "silent",
    });
    fs::write(&file, dialect.to_string()).unwrap();
    let mut rig = rig(&["--protocol", "mcp-2025-11-25", "--server-protocol", file.to_str().unwrap()]);
    rig.client.send(&request("1", "tools/call"));
    let upstream = json_of(&rig.server.receive())["id"].to_string();
    rig.client.send(&notification("notifications/cancelled", r#"{"requestId":1,"reason":"enough"}"#));
    rig.server.expect(&notification("agent/abort", &format!(r#"{{"call":{upstream},"why":"enough"}}"#)));
    rig.expect_client_hears_nothing();
}

#[test]
fn a_file_that_is_no_dialect_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    fs::write(&file, r#"{"name":"mine","base":"smtp"}"#).unwrap();
    let (said, code) = shim::run_to_end(&["run", "--protocol", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(code, 125);
    assert!(said.contains("\"smtp\" is not a known dialect"), "{said}");
}

#[test]
fn a_timeout_cancels_the_work_and_answers_with_an_error_that_says_which_clock() {
    let mut rig = rig(&["--timeout", "50ms"]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!(error["code"], -31001, "{error}");
    assert_eq!((&error["data"]["clock"], &error["data"]["afterMs"]), (&json!("response"), &json!(50)), "{error}");
    assert_eq!(error["data"]["receipt"]["cause"], "timeout", "{error}");
    let cancel = json_of(&rig.server.receive());
    assert_eq!(cancel["params"]["requestId"], 1, "{cancel}");
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
}

/// MCP-C03.
#[test]
fn a_timeout_of_initialize_sends_no_cancel() {
    let mut rig = rig(&["--timeout", "initialize=10ms"]);
    pass_to_server(&mut rig, &request_with("0", "initialize", r#"{"protocolVersion":"2025-11-25"}"#));
    assert_eq!(error_of(&rig.client.receive(), "0")["code"], -31001);
    rig.expect_server_hears_nothing();
}

#[test]
fn a_timeout_may_name_a_method() {
    let mut rig = rig(&["--timeout", "tools/call=10ms"]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/list"));
    pass_to_server(&mut rig, &request("2", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31001);
    rig.server.receive();
    pass_to_client(&mut rig, &result("1", "{}"));
}

#[test]
fn a_timeout_may_name_a_tool_and_the_most_specific_counts() {
    let flags = ["--timeout", "1h", "--timeout", "tools/call=2h", "--timeout", "tools/call:slow=10ms"];
    let mut rig = rig(&flags);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/list"));
    pass_to_server(&mut rig, &request_with("2", "tools/call", r#"{"name":"quick"}"#));
    pass_to_server(&mut rig, &request_with("3", "tools/call", r#"{"name":"slow"}"#));
    assert_eq!(error_of(&rig.client.receive(), "3")["code"], -31001);
    rig.server.receive();
    pass_to_client(&mut rig, &result("1", "{}"));
    pass_to_client(&mut rig, &result("2", "{}"));
}

/// Two requests whose clocks run out one after the other, and a third whose clock says when the first makes progress.
fn race(flags: &[&str]) -> Rig {
    let mut rig = rig(flags);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("\"t\"")));
    pass_to_server(&mut rig, &request("2", "tools/list"));
    pass_to_server(&mut rig, &request("3", "ping"));
    assert_eq!(error_of(&rig.client.receive(), "3")["code"], -31001);
    pass_to_client(&mut rig, &progress("\"t\"", 1));
    rig
}

#[test]
fn progress_that_the_client_asked_for_starts_the_time_anew() {
    let mut rig = race(&["--timeout", "ping=1s", "--timeout", "tools/call=2s", "--timeout", "tools/list=2500ms"]);
    assert_eq!(error_of(&rig.client.receive(), "2")["code"], -31001);
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31001);
}

#[test]
fn progress_does_not_move_the_total_timeout() {
    let totals = ["--total-timeout", "tools/call=600ms", "--total-timeout", "tools/list=700ms"];
    let mut rig = race(&[&["--timeout", "1h", "--timeout", "ping=300ms"], &totals[..]].concat());
    let error = error_of(&rig.client.receive(), "1");
    assert_eq!((&error["code"], &error["data"]["clock"]), (&json!(-31001), &json!("total")), "{error}");
    assert_eq!(error_of(&rig.client.receive(), "2")["data"]["afterMs"], 700);
}

#[test]
fn grace_is_how_long_a_mute_server_may_leave_a_client_waiting() {
    let mut rig = rig(&["--grace", "0s"]);
    greet_acp(&mut rig, "", "");
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &cancel_request("1"));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
}

fn stuck(flags: &[&str]) -> Rig {
    let mut rig = rig(flags);
    greet_acp(&mut rig, "", "");
    pass_to_server(&mut rig, &request("1", "session/load"));
    pass_to_server(&mut rig, &request("2", "session/load"));
    rig
}

#[test]
fn on_stuck_report_says_so_on_stderr_once() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "report"]);
    pass_to_server(&mut rig, &cancel_request("1"));
    let said = rig.shim.stderr.line();
    assert_eq!(said, "rescind: the server still works on a cancelled request: session/load 1 (no_answer)");
    rig.client.receive();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

#[test]
fn on_stuck_kill_ends_the_server_and_answers_what_else_was_in_flight() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "kill"]);
    rig.server.puppet.survive(15);
    pass_to_server(&mut rig, &cancel_request("1"));
    assert_eq!(
        rig.shim.stderr.line(),
        "rescind: the server still works on a cancelled request: session/load 1 (no_answer); it is ended"
    );
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "2");
    assert_eq!((&error["code"], &error["data"]["signal"]), (&json!(-31002), &json!(9)), "{error}");
    rig.shim.expect_exit(128 + 9);
}

/// A client that does not obey a server's cancel is reported, and the server does not pay for it.
#[test]
fn on_stuck_kill_leaves_the_server_alone_when_the_client_is_stuck() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "kill"]);
    pass_to_client(&mut rig, &request("7", "fs/read_text_file"));
    pass_to_client(&mut rig, &cancel_request("7"));
    let said = rig.shim.stderr.line();
    assert_eq!(said, "rescind: the client still works on a cancelled request: fs/read_text_file 7 (no_answer)");
    assert_eq!(error_of(&rig.server.receive(), "7")["code"], -32800);
    pass_to_client(&mut rig, &result("2", "{}"));
}

#[test]
fn a_server_that_obeys_is_not_stuck() {
    let mut rig = stuck(&["--on-stuck", "kill"]);
    pass_to_server(&mut rig, &cancel_request("1"));
    pass_to_client(&mut rig, &error("1", -32800, "Request cancelled"));
    pass_to_client(&mut rig, &result("2", "{}"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

/// The lines of a recording.
fn lines(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(json_of).collect()
}

#[test]
fn record_holds_every_frame_at_each_point_it_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.jsonl");
    let mut rig = rig(&["--record", file.to_str().unwrap()]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &cancelled("1"));
    rig.server.send(&result("1", r#"{"é":"\u0000"}"#));
    rig.server.send_bytes(b"\xff\xfe\n");
    rig.expect_client_hears_nothing();
    rig.server.exit(3);
    rig.shim.expect_exit(3);

    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = lines(&file);
    assert_eq!((&lines[0]["rescind"], &lines[0]["version"]), (&json!("recording"), &json!(1)));
    let frames = |hop: &str| -> Vec<&str> {
        lines.iter().filter(|line| line["hop"] == hop).filter_map(|line| line["frame"].as_str()).collect()
    };
    let call = format!("{}\n", request("1", "tools/call"));
    let late = format!("{}\n", result("1", r#"{"é":"\u0000"}"#));
    assert!(frames("from_client").contains(&call.as_str()) && frames("to_server").contains(&call.as_str()));
    assert!(frames("from_server").contains(&late.as_str()) && !frames("to_client").contains(&late.as_str()));
    assert!(lines.iter().any(|line| line["base64"] == "//4K"), "bytes that are no text: {lines:#?}");

    let times: Vec<u64> = lines[1..].iter().map(|line| line["t"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).cloned().collect::<Vec<_>>();
    let outcomes: Vec<Value> = of("receipt").iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["asked", "sent", "answered_after"]);
    assert_eq!(of("cancel")[0]["verdict"], "accepted");
    assert_eq!(of("late")[0]["what"], "result");
    assert_eq!(of("server_ended")[0]["exitCode"], 3);
    let last = lines.last().unwrap();
    assert_eq!((&last["kind"], &last["protocol"]["client"]), (&json!("end"), &json!("mcp-2025-11-25")));
}

#[test]
fn record_overwrites_a_recording_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |file: &str| shim::run_to_end(&["run", "--record", file, "--", "true"]);
    let recording = path("recording");
    for _ in 0..2 {
        let (said, code) = run(&recording);
        assert_eq!((said.as_str(), code), ("", 0));
        assert_eq!(lines(Path::new(&recording)).last().unwrap()["kind"], "end");
    }
    let notes = path("notes");
    fs::write(&notes, "do not lose this").unwrap();
    let (said, code) = run(&notes);
    assert_eq!(code, 125);
    assert_eq!(
        said,
        format!("error: {notes}: exists and is no recording\nhint: name a new file, or remove this one\n")
    );
    assert_eq!(fs::read_to_string(&notes).unwrap(), "do not lose this");
    let link = path("link");
    std::os::unix::fs::symlink(&recording, &link).unwrap();
    let (said, code) = run(&link);
    assert_eq!((said, code), (format!("error: {link}: is a symbolic link\nhint: name the file itself\n"), 125));
    let (said, code) = run(&path("no/such/folder"));
    assert_eq!(code, 125, "{said}");
}

#[test]
fn record_makes_an_earlier_recording_private() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (said, code) = shim::run_to_end(&["run", "--record", file.to_str().unwrap(), "--", "true"]);
    assert_eq!((said.as_str(), code), ("", 0));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn record_refuses_a_file_to_which_another_shim_records() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording").to_str().unwrap().to_owned();
    let _first = rig(&["--record", &file]);
    let (said, code) = shim::run_to_end(&["run", "--record", &file, "--", "true"]);
    assert_eq!(code, 125);
    assert!(said.contains("another process is recording to it"), "{said}");
}

#[test]
fn a_recording_that_cannot_be_written_any_more_does_not_end_the_link() {
    let mut rig = rig(&["--record", "/dev/full"]);
    greet_mcp(&mut rig, "2025-11-25");
    assert_eq!(rig.shim.stderr.line(), "error: /dev/full: No space left on device (os error 28)");
    assert_eq!(rig.shim.stderr.line(), "hint: the recording ends there; the link goes on");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
}

/// A recording that leaves something out would lie, so the link waits for a slow one, in bounded memory.
#[test]
fn a_link_waits_for_its_recording() {
    const MESSAGES: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut rig = rig(&["--record", fifo.to_str().unwrap()]);
    let long = notification("x", &format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000)));
    let (mut client, line) = (rig.client.take_blocking_output(), format!("{long}\n"));
    let client = thread::spawn(move || {
        for _ in 0..MESSAGES {
            client.write_all(line.as_bytes()).unwrap();
        }
        client
    });
    for _ in 0..10 {
        rig.server.expect(&long);
    }
    // Only now does anybody read the recording.
    let recording = thread::spawn(move || {
        let lines = BufReader::new(fs::File::open(&fifo).unwrap()).lines();
        let lines = lines.map(|line| json_of(&line.unwrap()));
        let frames = lines.take_while(|line| line["kind"] != "end").filter(|line| line["kind"] == "frame");
        frames.filter(|line| line["frame"].as_str().unwrap().len() > 100_000).count()
    });
    for _ in 10..MESSAGES {
        rig.server.expect(&long);
    }
    let peak = peak_memory(rig.shim.id);
    assert!(peak < 32 << 20, "the shim took {peak} bytes");
    rig.server.exit(0);
    assert_eq!(recording.join().unwrap(), 2 * MESSAGES, "each where it came from and where it went");
    rig.shim.expect_exit(0);
    client.join().unwrap();
}

#[test]
fn what_was_recorded_before_a_kill_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let mut rig = rig(&["--record", file.to_str().unwrap()]);
    pass_to_server(&mut rig, &request("1", "tools/call"));
    // A round trip later the shim has been idle, and its thread has had the first line at least.
    pass_to_client(&mut rig, &result("1", "{}"));
    while lines(&file).len() < 3 {
        std::thread::yield_now();
    }
    rig.shim.kill(rustix::process::Signal::KILL);
    rig.shim.wait();
    let lines = lines(&file);
    assert_eq!(lines[0]["rescind"], "recording");
    assert_ne!(lines.last().unwrap()["kind"], "end", "incomplete, and says so");
}

/// A session in which something happens on every level.
fn eventful(rig: &mut Rig) {
    greet_mcp(rig, "2025-11-25");
    pass_to_server(rig, &request("1", "tools/call"));
    let reason = r#"{"requestId":1,"reason":"user\npressed \u001b[31mStop"}"#;
    pass_to_server(rig, &notification("notifications/cancelled", reason));
    rig.client.send(&cancelled("1"));
    rig.client.send(&cancelled("99999"));
    rig.client.send(&cancelled("true"));
    rig.client.send(&cancelled("[]"));
    rig.server.send(&cancelled("5"));
    rig.server.send(&result("1", r#"{"secret":"hunter2"}"#));
    rig.expect_client_hears_nothing();
}

/// What is logged of it on this level.
fn logged(level: &str) -> Vec<String> {
    let mut rig = rig(&["--log", level]);
    eventful(&mut rig);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let logged = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    assert!(!logged.contains("hunter2") && !logged.contains('\u{1b}'), "{logged}");
    logged.lines().map(str::to_owned).collect()
}

/// D31.
#[test]
fn log_info_tells_of_cancels_received_and_sent_with_who_and_why() {
    let logged = logged("info");
    let line = |text: &str| {
        let about_it = |line: &&String| line.contains(text) && (line.contains(" id=1 ") || line.contains("ended"));
        let found: Vec<&String> = logged.iter().filter(about_it).collect();
        assert_eq!(found.len(), 1, "{text}: {logged:#?}");
        found[0].clone()
    };
    let received = line("INFO  cancel received");
    assert!(received.contains(r#" from=client id=1 method="tools/call" initiator=client"#), "{received}");
    assert!(received.contains("reason=\"user\u{fffd}pressed \u{fffd}[31mStop\""), "{received}");
    assert!(received.contains(" verdict=accepted in_flight=0"), "{received}");
    assert!(received.as_bytes()[4] == b'-' && received.contains("Z INFO"), "a time: {received}");
    let sent = line("INFO  cancel sent");
    assert!(sent.contains(" id=1 ") && sent.contains("initiator=client") && sent.ends_with("in_flight=0"), "{sent}");
    line("INFO  receipt");
    line("INFO  the server ended exit_code=0");
    assert!(!logged.iter().any(|line| line.contains("DEBUG") || line.contains("TRACE")), "{logged:#?}");
}

#[test]
fn log_error_tells_of_the_first_malformed_cancel_only() {
    let logged = logged("error");
    assert_eq!(logged.len(), 1, "{logged:#?}");
    assert!(logged[0].contains("ERROR cancel received from=client"), "{logged:#?}");
    assert!(logged[0].contains("verdict=malformed"), "{logged:#?}");
}

#[test]
fn log_warn_adds_what_names_nothing() {
    // A cancel that names nothing is held for a request that overtook it; only then it is unknown. The server's
    // end does not wait for that, so the session goes on until the line is there.
    let mut rig = rig(&["--log", "warn"]);
    eventful(&mut rig);
    let mut line = rig.shim.stderr.line();
    while !(line.contains("WARN  cancel received") && line.contains("verdict=unknown")) {
        line = rig.shim.stderr.line();
    }
    assert!(!line.contains("INFO"), "{line}");
}

#[test]
fn log_debug_adds_what_came_too_late_and_trace_each_frame_without_its_contents() {
    let debug = logged("debug");
    assert!(debug.iter().any(|line| line.contains("DEBUG late, swallowed from=server id=1 what=result")), "{debug:#?}");
    assert!(debug.iter().any(|line| line.contains("DEBUG cancel received") && line.contains("repeated")), "{debug:#?}");
    let trace = logged("trace");
    assert!(trace.iter().any(|line| line.contains("TRACE frame hop=from_client bytes=")), "{trace:#?}");
}

#[test]
fn log_file_takes_the_log_and_appends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    for times in 1..=2 {
        let flags = ["--log", "info", "--log-file", file.to_str().unwrap()];
        let mut rig = rig(&flags);
        eventful(&mut rig);
        rig.server.exit(0);
        rig.shim.expect_exit(0);
        rig.shim.expect_said_nothing();
        let logged = fs::read_to_string(&file).unwrap();
        assert_eq!(logged.matches("cancel sent").count(), times, "{logged}");
    }
}

#[test]
fn log_file_alone_is_a_usage_error() {
    let (said, code) = shim::run_to_end(&["run", "--log-file", "x", "--", "true"]);
    assert_eq!(code, 125);
    assert!(said.contains("--log"), "{said}");
}

#[test]
fn max_message_is_the_longest_that_passes() {
    let mut rig = rig(&["--max-message", "500"]);
    greet_mcp(&mut rig, "2025-11-25");
    rig.client.send(&request_with("1", "tools/call", &format!(r#"{{"text":"{}"}}"#, "x".repeat(500))));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31005);
    pass_to_server(&mut rig, &request("2", "tools/call"));
}

#[test]
fn max_in_flight_refuses_one_more() {
    let mut rig = rig(&["--max-in-flight", "2"]);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    pass_to_server(&mut rig, &request("2", "tools/call"));
    rig.client.send(&request("3", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "3")["code"], -31004);
    pass_to_client(&mut rig, &result("1", "{}"));
    pass_to_server(&mut rig, &request("4", "tools/call"));
}

#[test]
fn values_that_make_no_sense_are_usage_errors() {
    for flags in [
        ["--protocol", "smtp"],
        ["--timeout", "10"],
        ["--timeout", "=10s"],
        ["--total-timeout", "soon"],
        ["--grace", "forever"],
        ["--on-stuck", "ignore"],
        ["--log", "loud"],
        ["--max-message", "0"],
        ["--max-in-flight", "0"],
    ] {
        let (said, code) = shim::run_to_end(&["run", flags[0], flags[1], "--", "true"]);
        assert_eq!(code, 125, "{flags:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains(flags[0]), "{flags:?}: {said}");
    }
}
