//! Logs of `rescind run`, on real processes (D31).

#![expect(clippy::print_stdout, reason = "a test that is left out says so")]

use std::{fs, os::unix::fs::PermissionsExt};

use rescind_testkit::puppet::Rig;

use crate::shim::{
    self, PROGRAM,
    words::{cancelled, greet_mcp, notification, pass_to_client, pass_to_server, request, request_with, result},
};

fn rig(flags: &[&str]) -> Rig {
    Rig::builder(PROGRAM).flags(flags).start()
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
    pass_to_server(rig, &request("2", "tools/call"));
    pass_to_client(rig, &result("2", "{}"));
    rig.client.send(&cancelled("2"));
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

/// D30.
#[test]
fn the_log_ends_with_how_often_each_rule_was_broken() {
    let mut rig = rig(&["--log", "info"]);
    greet_mcp(&mut rig, "2025-11-25");
    for _ in 0..3 {
        rig.client.send(&request("1", "tools/call"));
        let asked = rig.server.receive();
        rig.server.send(&asked.replace(r#""method":"tools/call""#, r#""result":{}"#));
        rig.client.expect(&result("1", "{}"));
    }
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let logged = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    let lines: Vec<_> = logged.lines().filter(|line| line.contains("rule broken")).collect();
    assert!(matches!(lines[..], [_, _, _]), "{lines:#?}");
    assert!(lines[2].ends_with("INFO  rule broken, total from=client rule=MCP-I02 count=2"), "{lines:#?}");
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
    let completed = |line: &&String| line.contains("cancel received") && line.contains(" id=2 ");
    let completed: Vec<_> = debug.iter().filter(completed).collect();
    assert!(
        completed.len() == 1 && completed[0].contains("DEBUG") && completed[0].contains("verdict=completed"),
        "{debug:#?}"
    );
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
fn a_log_file_is_its_users_alone_whatever_its_mode_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    fs::write(&file, "earlier\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let (said, code) = shim::run_to_end(&["run", "--log", "trace", "--log-file", file.to_str().unwrap(), "true"]);
    assert_eq!((said.as_str(), code), ("", 0));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    let logged = fs::read_to_string(&file).unwrap();
    assert!(logged.starts_with("earlier\n") && logged.contains("the server ended exit_code=0"), "{logged}");
}

#[test]
fn a_log_file_of_another_user_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    fs::write(&file, "theirs\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    if std::os::unix::fs::chown(&file, Some(NOBODY), None).is_err() {
        println!("left out: only root can give a file to another user");
        return;
    }
    let path = file.to_str().unwrap();
    let (said, code) = shim::run_to_end(&["run", "--log", "trace", "--log-file", path, "true"]);
    assert_eq!(code, 125, "{said}");
    assert_eq!(said, format!("error: {path}: belongs to another user, who could read it\nhint: name a new file\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o666);
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs\n");
}

/// The user that owns nothing.
const NOBODY: u32 = 65534;

#[test]
fn log_file_alone_is_a_usage_error() {
    let (said, code) = shim::run_to_end(&["run", "--log-file", "x", "--", "true"]);
    assert_eq!(code, 125);
    assert!(said.contains("--log"), "{said}");
}

/// What the test below puts wherever a peer can put text.
const SECRET: &str = "hunter2";

/// Everything by which bytes of params and results could reach the log: each message that is not passed on, by its
/// reason, and each that is; each with a password in it. What is logged on this level.
fn logged_of_secrets(level: &str) -> String {
    let mut rig = rig(&["--log", level, "--max-in-flight", "3", "--max-message", "4KiB", "--on-stuck", "report"]);
    let secret = format!(r#"{{"password":"{SECRET}"}}"#);
    greet_mcp(&mut rig, "2025-11-25");
    // Refused requests, with their params; params of requests that pass.
    pass_to_server(&mut rig, &request_with("1", "tools/call", &secret));
    rig.client.send(&request_with("1", "tools/call", &secret));
    rig.client.receive();
    pass_to_server(&mut rig, &request_with("2", "tools/call", &secret));
    pass_to_server(&mut rig, &request_with("3", "tools/call", &secret));
    rig.client.send(&request_with("4", "prompts/get", &secret));
    rig.client.receive();
    // A null id, a nameless member twice, an id that is an object, a version that is a password.
    for message in [
        request_with("null", "tools/call", &secret),
        format!(r#"{{"jsonrpc":"2.0","id":5,"id":6,"method":"tools/call","params":{secret}}}"#),
        request_with(&secret, "tools/call", "{}"),
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{secret}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":{secret}}}"#),
        format!("password={SECRET}"),
        format!(r#"{{"password":"{SECRET}"}}"#),
        format!(r#"{{"password":"{SECRET}{}"}}"#, "x".repeat(5000)),
        request_with("8", "tools/call", &format!(r#"["{SECRET}","{}"]"#, "x".repeat(5000))),
    ] {
        rig.client.send(&message);
        rig.client.receive();
    }
    // Cancels that cannot be read or name nothing, and one whose reason is no text.
    for params in [format!(r#"{{"requestId":{secret}}}"#), format!(r#"["{SECRET}"]"#), format!("\"{SECRET}\"")] {
        rig.client.send(&notification("notifications/cancelled", &params));
        rig.server.send(&notification("notifications/cancelled", &params));
    }
    rig.client.send(&notification("notifications/cancelled", &format!(r#"{{"requestId":99,"password":"{SECRET}"}}"#)));
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
    // From the server: lines that are no messages, answers that answer nothing or nobody, late ones, progress.
    let rest = format!(r#""error":{{"code":1,"message":"{SECRET}","data":{secret}}}}}"#);
    for message in [
        format!("Listening; password={SECRET}"),
        result("77", &secret),
        format!(r#"{{"jsonrpc":"2.0","id":78,{rest}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"{}",{rest}"#, "no such id"),
        format!(r#"{{"jsonrpc":"2.0","result":{secret}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":[{secret}],"result":{secret}}}"#),
    ] {
        rig.server.send(&message);
    }
    rig.server.send(&format!(r#"{{"jsonrpc":"2.0","id":null,{rest}"#));
    rig.server.send(&format!(r#"{{"jsonrpc":"2.0",{rest}"#));
    let reason = format!(r#"{{"requestId":1,"reason":"Stop","password":"{SECRET}"}}"#);
    rig.client.send(&notification("notifications/cancelled", &reason));
    rig.server.expect(&notification("notifications/cancelled", r#"{"requestId":1,"reason":"Stop"}"#));
    rig.server.send(&result("1", &secret));
    rig.server.send(&format!(r#"{{"jsonrpc":"2.0","id":2,{rest}"#));
    rig.server.send(&format!(r#"{{"jsonrpc":"2.0","id":3,"result":{secret},"error":{secret}}}"#));
    // The two that answer nothing, and the answers of 2 and 3.
    for _ in 0..4 {
        rig.client.receive();
    }
    // An id that was used.
    rig.client.send(&request_with("2", "tools/call", &secret));
    rig.server.receive();
    // The last words of both sides, with no end.
    rig.server.send_bytes(format!(r#"{{"jsonrpc":"2.0","result":{secret}"#).as_bytes());
    rig.server.exit(0);
    rig.shim.wait();
    String::from_utf8(rig.shim.stderr.rest()).unwrap()
}

#[test]
fn no_byte_of_params_or_results_is_logged_below_trace() {
    let logged = logged_of_secrets("debug");
    assert!(!logged.contains(SECRET), "{logged}");
    // It went through each of them.
    for path in [
        r#"from=client why=duplicate_id method="tools/call""#,
        r#"from=client why=overloaded method="prompts/get""#,
        "from=client why=garbage",
        "from=client why=too_large says=\"the message has ",
        "from=server why=garbage",
        "from=server why=unknown_response",
        "from=server why=stray_error",
        "from=server why=unfinished",
        "verdict=malformed",
        "late, swallowed from=server id=1",
        "rule broken",
        "cancel received from=client id=1",
        "settled",
    ] {
        assert!(logged.contains(path), "{path}: {logged}");
    }
    // Only a log of the level that says it holds secrets shows what was not passed on.
    let logged = logged_of_secrets("trace");
    for path in ["from=client why=garbage", "from=server why=unknown_response", "from=server why=unfinished"] {
        let shown = |line: &str| line.contains(path) && line.contains("excerpt=") && line.contains(SECRET);
        assert!(logged.lines().any(shown), "{path}: {logged}");
    }
}

#[test]
fn a_log_that_cannot_be_written_any_more_is_said_once_and_does_not_end_the_link() {
    let mut rig = rig(&["--log", "trace", "--log-file", "/dev/full"]);
    greet_mcp(&mut rig, "2025-11-25");
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let said = String::from_utf8(rig.shim.stderr.rest()).unwrap();
    assert_eq!(
        said,
        "error: the log: No space left on device (os error 28)\nhint: the rest of the session is not logged; to \
         log again, fix the cause and restart the session\n"
    );
}

/// To open one waits for a reader, and the server would wait with it.
#[test]
fn a_pipe_without_a_reader_is_no_log_file() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let path = fifo.to_str().unwrap();
    let (said, code) = shim::run_to_end(&["run", "--log", "info", "--log-file", path, "true"]);
    assert_eq!(code, 125, "{said}");
    assert_eq!(
        said,
        format!("error: {path}: is a pipe without a reader\nhint: start its reader first, or name a file\n")
    );
    // With one it is a log file as any other.
    let reader = fifo.clone();
    let reading = std::thread::spawn(move || fs::read_to_string(reader).unwrap());
    let (said, code) = loop {
        let ended = shim::run_to_end(&["run", "--log", "info", "--log-file", path, "true"]);
        if ended.1 != 125 {
            break ended;
        }
    };
    assert_eq!((said.as_str(), code), ("", 0));
    assert!(reading.join().unwrap().contains("the server ended exit_code=0"));
}
