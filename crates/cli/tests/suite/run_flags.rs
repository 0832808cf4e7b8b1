//! Every flag of `rescind run` but those of recordings and logs, on real processes.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    process::{Command, Stdio},
};

use rescind_testkit::puppet::Rig;
use rustix::{fs::OFlags, process::Signal};
use serde_json::{Value, json};

use crate::shim::{
    self, PROGRAM, error_of,
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
    assert!(said.contains("\"base\": must be one of ") && said.contains("; found \"smtp\""), "{said}");
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

/// Its reader is a person, or a model that tells one, and neither knows the shim's codes.
#[test]
fn an_error_of_a_limit_names_the_flag_that_set_it() {
    let limits = ["--max-in-flight", "1", "--max-message", "2KiB"];
    let said = |rig: &mut Rig, id: &str, code: i32| {
        let error = error_of(&rig.client.receive(), id);
        assert_eq!(error["code"], code, "{error}");
        error["message"].as_str().unwrap().to_owned()
    };
    let rig_of = |clock: &str| {
        let mut rig = rig(&[&limits[..], &[clock, "tools/call=30ms"]].concat());
        greet_mcp(&mut rig, "2025-11-25");
        rig
    };
    let mut rig = rig_of("--timeout");
    let long = format!(r#"["{}"]"#, "x".repeat(3000));
    rig.client.send(&request_with("1", "prompts/get", &long));
    let words = "bytes; the limit is 2048 (see rescind run --max-message)";
    let message = said(&mut rig, "1", -31005);
    assert!(message.starts_with("the message has ") && message.ends_with(words), "{message}");
    pass_to_server(&mut rig, &request("2", "prompts/get"));
    rig.client.send(&request("3", "prompts/get"));
    let words = "too many requests in flight; the limit is 1 (see rescind run --max-in-flight)";
    assert_eq!(said(&mut rig, "3", -31004), words);
    rig.server.send(&result("2", &long));
    let message = said(&mut rig, "2", -31005);
    assert!(message.starts_with("answer too large: ") && message.ends_with("--max-message)"), "{message}");
    pass_to_server(&mut rig, &request("4", "tools/call"));
    assert_eq!(said(&mut rig, "4", -31001), "no answer or progress for 30ms (set by rescind run --timeout)");
    let mut rig = rig_of("--total-timeout");
    pass_to_server(&mut rig, &request("5", "tools/call"));
    assert_eq!(said(&mut rig, "5", -31001), "no answer within 30ms (set by rescind run --total-timeout)");
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
    assert_eq!(said, "warning: the server has not answered a cancelled request: session/load, id 1");
    rig.client.receive();
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
}

/// A client may give the shim a pipe as stderr that it never reads, and the server fills it.
#[test]
fn a_full_stderr_does_not_hold_up_the_link() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "report"]);
    let stderr = format!("/proc/{}/fd/2", rig.shim.id);
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let mut stderr = fs::OpenOptions::new().write(true).custom_flags(without_waiting).open(stderr).unwrap();
    while stderr.write_all(&[b'x'; 4096]).is_ok() {}
    pass_to_server(&mut rig, &cancel_request("1"));
    // What is to be said is said in the turn in which the client is answered.
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
    pass_to_client(&mut rig, &result("2", "{}"));
    // Once there is room for it, it can be read.
    let said = rig.shim.stderr.line();
    let said = said.trim_start_matches('x');
    assert_eq!(said, "warning: the server has not answered a cancelled request: session/load, id 1");
}

#[test]
fn on_stuck_kill_ends_the_server_and_answers_what_else_was_in_flight() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "kill"]);
    rig.server.puppet.survive(15);
    pass_to_server(&mut rig, &cancel_request("1"));
    assert_eq!(
        rig.shim.stderr.line(),
        "warning: the server has not answered a cancelled request: session/load, id 1; ending the server"
    );
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -32800);
    rig.server.puppet.expect_signal(15);
    rig.server.puppet.expect_death();
    rig.server.close();
    let error = error_of(&rig.client.receive(), "2");
    assert_eq!(error["code"], -31002, "{error}");
    assert_eq!(error["data"], json!({"signal": 9, "endedBy": "shim", "because": "stuck"}));
    assert!(error["message"].as_str().unwrap().contains("(--on-stuck kill)"), "{error}");
    rig.shim.expect_death(Signal::KILL);
}

/// A client that does not obey a server's cancel is reported, and the server does not pay for it.
#[test]
fn on_stuck_kill_leaves_the_server_alone_when_the_client_is_stuck() {
    let mut rig = stuck(&["--grace", "10ms", "--on-stuck", "kill"]);
    pass_to_client(&mut rig, &request("7", "fs/read_text_file"));
    pass_to_client(&mut rig, &cancel_request("7"));
    let said = rig.shim.stderr.line();
    assert_eq!(said, "warning: the client has not answered a cancelled request: fs/read_text_file, id 7");
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
fn values_that_make_no_sense_are_usage_errors_that_say_what_does() {
    const DURATION: &str = "write 500ms, 10s, 2m or 1h";
    let (no_unit, not_one) = ("has no unit; write 10s for seconds, ", format!("not a duration; {DURATION}"));
    let or_never = format!("{not_one}, or never");
    for (flag, value, problem) in [
        ("--protocol", "smtp", "unknown protocol; use auto, mcp, acp, a FILE.json, or one of "),
        ("--timeout", "10", no_unit),
        ("--timeout", "5m30", "its last number has no unit; write, for example, 5m30s"),
        ("--timeout", "tools/call:x", "has no duration; write METHOD=DURATION or METHOD:TOOL=DURATION"),
        ("--timeout", "0s", "must be longer than zero; for no limit, leave the flag out"),
        ("--timeout", "-1s", "must not be negative"),
        ("--timeout", "=10s", "has no method; write METHOD or METHOD:TOOL"),
        ("--timeout", "tools/call:=5s", "has no tool after the `:`; write METHOD or METHOD:TOOL"),
        ("--timeout", "a=b=2s", "has two `=`; write METHOD=DURATION or METHOD:TOOL=DURATION"),
        ("--total-timeout", "soon", &*not_one),
        ("--grace", "forever", &*not_one),
        ("--grace", "-1s", "must not be negative"),
        ("--finish", "sometime", &*or_never),
        ("--finish", "-1", "must not be negative"),
        ("--on-stuck", "ignore", ""),
        ("--log", "loud", ""),
        ("--max-message", "0", "must be from 256 bytes to 4GiB"),
        ("--max-message", "1B", "must be from 256 bytes to 4GiB"),
        ("--max-message", "99999999999GiB", "must be from 256 bytes to 4GiB"),
        (
            "--max-message",
            "much",
            "not a size; write a whole number of bytes, or one with a unit, such as 512KiB, 64MiB or 1GiB",
        ),
        ("--max-in-flight", "0", "must be a whole number from 1 to 4294967295"),
        ("--max-in-flight", "x", "must be a whole number from 1 to 4294967295"),
    ] {
        let (said, code) = shim::run_to_end(&["run", flag, value, "--", "true"]);
        assert_eq!(code, 125, "{flag} {value}: {said}");
        let named = said.starts_with(&format!("error: invalid value '{value}' for '{flag} <"));
        assert!(named && said.contains(&format!(">': {problem}")) | problem.is_empty(), "{flag} {value}: {said}");
        assert!(!said.contains("tip: to pass"), "no advice to make the command of it: {said}");
    }
}

#[test]
fn of_two_timeouts_for_the_same_requests_the_last_one_counts() {
    let flags = ["--timeout", "tools/call=1h", "--timeout", "1h", "--timeout", "tools/call=10ms"];
    let mut rig = rig(&flags);
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request("1", "tools/call"));
    assert_eq!(error_of(&rig.client.receive(), "1")["code"], -31001);
}

#[test]
fn a_protocol_that_is_no_dialect_says_what_is_amiss() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("missing.json").to_str().unwrap().to_owned();
    for (value, problem) in [
        (missing, "; check the path of this dialect file"),
        (file("mine.txt", "{}"), ">': the name of a dialect file must end in .json"),
        (
            file("broken.json", "{"),
            ">': not valid JSON: EOF while parsing an object at line 1 column 1; the file must be ",
        ),
        (
            file("empty.json", "{}"),
            ">': \"base\": missing; the file must be a JSON object with \"base\" (a known dialect",
        ),
    ] {
        let (said, code) = shim::run_to_end(&["run", "--protocol", &value, "--", "true"]);
        assert_eq!(code, 125, "{said}");
        assert!(said.starts_with("error: invalid value '") && said.contains(problem), "{said}");
    }
}

#[test]
fn protocols_with_two_framings_cannot_be_joined() {
    let said = shim::run_to_end(&["run", "--protocol", "mcp", "--server-protocol", "lsp", "true"]);
    let cause = "error: --server-protocol lsp: cannot be combined with --protocol mcp: rescind does not translate between \
                 LSP and other protocols";
    let hint = "hint: leave out --server-protocol, or name a revision of the same protocol";
    assert_eq!(said, (format!("{cause}\n{hint}\n"), 125));
}

/// D46: launchers drop the `--`.
#[test]
fn the_first_word_that_is_no_flag_begins_the_command_and_dashes_are_never_needed() {
    const SHOW: [&str; 4] = ["sh", "-c", r#"printf '%s\n' "$@" >&2"#, "sh"];
    let seen = |before: &[&str], words: &[&str]| {
        let arguments = [&["run"], before, &SHOW, words].concat();
        let (said, code) = shim::run_to_end(&arguments);
        assert_eq!(code, 0, "{arguments:?}: {said}");
        said.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for before in [&[][..], &["--"], &["--timeout", "2m"], &["--timeout=2m", "--unlisted", "--"]] {
        for words in [
            &["-y", "server", "--flag"][..],
            &["--timeout", "5"],
            &["--help"],
            &["-V"],
            &["--", "x"],
            &["x", "--", "--", "-"],
            &["--no-such-flag=of ours", ""],
        ] {
            assert_eq!(seen(before, words), words, "{before:?}");
        }
    }
}

/// D46.
#[test]
fn a_mistyped_flag_is_not_the_command() {
    let (said, code) = shim::run_to_end(&["run", "--timout", "2m", "true"]);
    assert_eq!(code, 125, "{said}");
    assert!(said.starts_with("error: unexpected argument '--timout'"), "{said}");
    assert!(said.ends_with("; did you mean '--timeout'?\n"), "{said}");
    assert!(!said.contains("-- --timout"), "that would run a program of this name: {said}");
}

#[test]
fn without_a_command_there_is_an_example_of_one() {
    for flags in [&[][..], &["--timeout", "2m"], &["--unlisted", "--"]] {
        let said = shim::run_to_end(&[&["run"], flags].concat());
        let remedy = "name the server's command, as in: rescind run npx -y some-mcp-server";
        assert_eq!(said, (format!("error: rescind run: no command was given; {remedy}\n"), 125), "{flags:?}");
    }
}

#[test]
fn a_command_that_cannot_be_run_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let words = "give the command and its arguments as separate words: npx -y some-mcp-server";
    for (command, cause, hint, code) in [
        ("", "\"\": command not found", "name the command; if a variable stands for it, the variable is empty", 127),
        ("npx -y server", "\"npx -y server\": command not found", words, 127),
        (folder, &format!("{folder}: is a directory"), "name a program in it", 126),
    ] {
        let said = shim::run_to_end(&["run", command]);
        assert_eq!(said, (format!("error: {cause}\nhint: {hint}\n"), code));
    }
}

/// D46: what looks like a flag can be a command behind `--`.
#[test]
fn behind_dashes_anything_is_the_command() {
    let (said, code) = shim::run_to_end(&["run", "--", "-weird", "--timeout"]);
    assert_eq!((code, said.lines().next().unwrap()), (127, "error: -weird: command not found"));
}

/// As `rescind wrap --urls` may have written it for every server of a file.
#[test]
fn on_stop_is_ignored_where_the_server_is_at_a_url() {
    let sockets = tempfile::tempdir().unwrap();
    let [without, with] = [&[][..], &["--on-stop", "end-processes"]].map(|flags| {
        let mut run = Command::new(PROGRAM);
        run.args(["run", "--url", "http://127.0.0.1:9/mcp"]).args(flags).env("RESCIND_RUNTIME_DIR", sockets.path());
        run.stdin(Stdio::null()).output().unwrap()
    });
    assert_eq!((with.status, with.stderr), (without.status, without.stderr));
}
