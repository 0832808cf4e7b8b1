//! Recordings of real links for people and programs that were not there: `rescind redact`, `rescind export`.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use rescind_console::Recording;
use rescind_feed::{Cancel, Child, Progress, Request};
use rescind_testkit::puppet::Rig;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::{
    recordings::{act_mcp, item, open, recorded, requests, stop, turn},
    run_acp_two, run_codex,
    shim::{
        self, PROGRAM,
        process::peak_memory,
        words::{greet_acp, notification, pass_to_client, pass_to_server, request_with, result},
    },
};

/// What the command writes to stdout, and its exit code.
fn output(arguments: &[&str]) -> (String, i32) {
    let done = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap();
    (String::from_utf8(done.stdout).unwrap(), done.status.code().unwrap())
}

/// A session in which nearly everything happens, and where it is recorded.
fn whole_session() -> tempfile::TempDir {
    let (mut rig, folder) = recorded(&[]);
    let stop = stop(&mut rig);
    act_mcp(&mut rig, stop);
    rig.server.exit(3);
    rig.shim.expect_exit(3);
    folder
}

fn path_in(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// A request without what a redacted recording has other words for.
fn nameless(request: Request) -> Request {
    let there = |text: Option<String>| text.map(|_| String::new());
    Request {
        id: String::new(),
        upstream: there(request.upstream),
        name: there(request.name),
        task: there(request.task),
        progress: request.progress.map(|progress| Progress {
            at: progress.at,
            count: progress.count,
            ..Progress::default()
        }),
        cancel: request.cancel.map(|cancel| Cancel { reason: there(cancel.reason), ..cancel }),
        child: request.child.map(|child| Child { parent_session: String::new(), ..child }),
        ..request
    }
}

/// Redacts the recording of a folder, and checks that the copy shows the same requests.
fn shows_the_same(folder: &Path) -> Recording {
    let (file, copy) = (path_in(folder, "session.jsonl"), path_in(folder, "copy.jsonl"));
    let (said, code) = shim::run_to_end(&["redact", &file, "-o", &copy]);
    assert!(code == 0 && said.starts_with("redacted ") && said.lines().count() == 1, "{said}");
    let copied = Recording::open(Path::new(&copy), "session").unwrap();
    assert_eq!(copied.remarks().collect::<Vec<_>>(), ["its texts were replaced by `rescind redact`"]);
    let all = |recording: &Recording| requests(recording).into_iter().map(nameless).collect::<Vec<_>>();
    assert_eq!(all(&copied), all(&open(folder)));
    copied
}

#[test]
fn a_redacted_session_shows_the_same_requests_and_none_of_its_words() {
    let folder = whole_session();
    let copied = shows_the_same(folder.path());
    let copy = path_in(folder.path(), "copy.jsonl");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&copy).unwrap();
    for word in ["fine", "stubborn", "enough", "by hand", "quick"] {
        assert!(!text.contains(word), "{word}");
    }
    // The length of each message is that which it had.
    let first = |recording: &Recording| {
        let of = &requests(recording)[1].key;
        recording.details(of).unwrap().frames.iter().map(|frame| frame.length).collect::<Vec<_>>()
    };
    assert_eq!(first(&copied), first(&open(folder.path())));
    let whole = text.len();
    assert_eq!(output(&["redact", &path_in(folder.path(), "session.jsonl")]).0.len(), whole, "the same each time");
}

#[test]
fn a_redacted_turn_of_acp_shows_the_same() {
    let (mut rig, folder) = recorded(&[]);
    greet_acp(&mut rig, "", "");
    let session = r#"{"sessionId":"s"}"#;
    pass_to_server(&mut rig, &request_with("1", "session/prompt", session));
    pass_to_client(&mut rig, &notification("session/update", session));
    pass_to_client(&mut rig, &request_with("1", "session/request_permission", session));
    pass_to_server(&mut rig, &notification("session/cancel", session));
    pass_to_server(&mut rig, &result("1", r#"{"outcome":{"outcome":"cancelled"}}"#));
    pass_to_client(&mut rig, &result("1", r#"{"stopReason":"cancelled"}"#));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    shows_the_same(folder.path());
}

#[test]
fn redacted_work_in_the_background_of_acp_shows_the_same() {
    let (mut rig, folder) = recorded(&[]);
    run_acp_two::begin_background(&mut rig);
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    shows_the_same(folder.path());
}

#[test]
fn a_redacted_turn_of_codex_shows_the_same() {
    let (mut rig, folder) = recorded(&[]);
    run_codex::greet(&mut rig, r#"{"experimentalApi":true}"#);
    run_codex::begin_turn(&mut rig, 3, "t", "u");
    let spawn = |id: &str, child: &str| json!({"type": "collabAgentToolCall", "id": id, "receiverThreadIds": [child]});
    item(&mut rig, "started", "t", "u", &spawn("i", "c"));
    turn(&mut rig, "c", "agent");
    turn(&mut rig, "d", "inner");
    item(&mut rig, "completed", "c", "agent", &spawn("j", "d"));
    item(&mut rig, "started", "t", "u", &json!({"type": "commandExecution", "id": "long", "processId": "71"}));
    run_codex::complete(&mut rig, "t", "u", "completed");
    run_codex::complete(&mut rig, "d", "inner", "completed");
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    shows_the_same(folder.path());
}

#[test]
fn a_secret_on_the_command_line_is_not_in_a_redacted_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = path_in(folder.path(), "session.jsonl");
    let server = ["env", "KEY=hunter2", "sh", "-c", "echo '{\"hunter2\":1}'; echo hunter2", "--token=hunter2"];
    let said = shim::run_to_end(&[&["run", "--record", &file], &server[..]].concat());
    assert_eq!(said.1, 0, "{said:?}");
    assert!(fs::read_to_string(&file).unwrap().contains("hunter2"));
    let (text, code) = output(&["redact", &file]);
    assert!(code == 0 && text.lines().count() > 3 && !text.contains("hunter2"), "{text}");
}

#[test]
fn redact_and_export_overwrite_nothing_and_refuse_what_is_no_recording() {
    let folder = whole_session();
    let at = |name: &str| path_in(folder.path(), name);
    let (file, notes) = (at("session.jsonl"), at("notes"));
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&notes, "do not lose this").unwrap();
    for command in [&["redact"][..], &["export", "--to", "har"], &["export", "--to", "otlp"]] {
        let run = |file: &str, out: &str| shim::run_to_end(&[command, &[file, "-o", out]].concat());
        for there in [&notes, &file] {
            assert_eq!(run(&file, there), (format!("error: {there}: exists\nhint: name a new file\n"), 2));
        }
        let new = at("new");
        let hint = "hint: name a file that `rescind run --record` has written\n";
        assert_eq!(run(&notes, &new), (format!("error: {notes}: is not a recording\n{hint}"), 2));
        assert!(!Path::new(&new).exists(), "nothing is left of what failed");
        let (said, code) = run(&at("gone"), &new);
        assert!(code == 2 && said.contains("No such file") && said.ends_with(hint), "{said}");
        let (said, code) = run(&file, &at("no/such/folder"));
        assert!(code == 2 && said.contains("mkdir -p"), "{said}");
    }
    assert_eq!(fs::read_to_string(&notes).unwrap(), "do not lose this");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let (said, code) = shim::run_to_end(&["redact", &file, "-o", &at("once")]);
    assert_eq!(code, 0, "{said}");
    let (said, code) = shim::run_to_end(&["redact", &at("once"), "-o", &at("twice")]);
    assert_eq!(
        (said, code),
        (format!("error: {}: is redacted already\nhint: it can be attached as it is\n", at("once")), 2)
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = whole_session();
    for command in ["redact", "export --to har", "export --to otlp"] {
        let file = path_in(folder.path(), "session.jsonl");
        let line = format!("\"$0\" {command} \"$1\" | true; exit ${{PIPESTATUS[0]}}");
        let done = Command::new("bash").args(["-c", &line, PROGRAM, &file]).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success() && !said.contains("error"), "{command}: {said}");
    }
}

/// More ids, names and keys than are remembered, each another one.
#[test]
fn a_long_recording_is_redacted_in_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("redact").arg(&fifo).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut redact = command.spawn().unwrap();
    let mut out = std::io::BufWriter::new(fs::File::options().write(true).open(&fifo).unwrap());
    let header = json!({"rescind": "recording", "version": 1, "program": "rescind 0.1.0"});
    writeln!(out, "{header}").unwrap();
    for n in 0..100_000 {
        let message = format!(
            r#"{{\"id\":\"id {n}\",\"method\":\"tools/call\",\"params\":{{\"name\":\"name {n}\",\"arguments\":{{\"key {n}\":1}}}}}}\n"#
        );
        writeln!(out, r#"{{"t":{n},"kind":"frame","hop":"from_client","frame":"{message}"}}"#).unwrap();
    }
    out.flush().unwrap();
    let peak = peak_memory(redact.id().cast_signed());
    drop(out);
    assert!(redact.wait().unwrap().success());
    assert!(peak < 56 << 20, "it took {peak} bytes");
}

/// The type of a member.
type Kind = fn(&Value) -> bool;

/// HAR 1.2: what its specification requires of each object, and of what type.
fn is_har(har: &Value) {
    let has = |of: &Value, members: &[(&str, Kind)]| {
        for (name, is_fit) in members {
            assert!(of.get(name).is_some_and(is_fit), "{name} of {of}");
        }
    };
    let log = &har["log"];
    has(log, &[("version", Value::is_string), ("creator", Value::is_object), ("entries", Value::is_array)]);
    assert_eq!(log["version"], "1.2");
    has(&log["creator"], &[("name", Value::is_string), ("version", Value::is_string)]);
    let mut before = String::new();
    for entry in log["entries"].as_array().unwrap() {
        has(
            entry,
            &[
                ("startedDateTime", Value::is_string),
                ("time", Value::is_number),
                ("request", Value::is_object),
                ("response", Value::is_object),
                ("cache", Value::is_object),
                ("timings", Value::is_object),
            ],
        );
        has(
            &entry["request"],
            &[
                ("method", Value::is_string),
                ("url", Value::is_string),
                ("httpVersion", Value::is_string),
                ("cookies", Value::is_array),
                ("headers", Value::is_array),
                ("queryString", Value::is_array),
                ("headersSize", Value::is_i64),
                ("bodySize", Value::is_i64),
            ],
        );
        has(&entry["request"]["postData"], &[("mimeType", Value::is_string), ("text", Value::is_string)]);
        has(
            &entry["response"],
            &[
                ("status", Value::is_u64),
                ("statusText", Value::is_string),
                ("httpVersion", Value::is_string),
                ("cookies", Value::is_array),
                ("headers", Value::is_array),
                ("content", Value::is_object),
                ("redirectURL", Value::is_string),
                ("headersSize", Value::is_i64),
                ("bodySize", Value::is_i64),
            ],
        );
        has(&entry["response"]["content"], &[("size", Value::is_u64), ("mimeType", Value::is_string)]);
        has(
            &entry["timings"],
            &[("send", Value::is_number), ("wait", Value::is_number), ("receive", Value::is_number)],
        );
        // Its parts are its time, and what is not known is -1.
        let parts = entry["timings"].as_object().unwrap().values().filter_map(Value::as_f64);
        let time = entry["time"].as_f64().unwrap();
        assert!((parts.filter(|part| *part >= 0.0).sum::<f64>() - time).abs() < 1e-6 && time >= 0.0, "{entry}");
        let started = entry["startedDateTime"].as_str().unwrap().to_owned();
        humantime::parse_rfc3339(&started).unwrap();
        assert!(before <= started, "in the order of their start");
        before = started;
    }
}

fn exported(folder: &Path, format: &str) -> Value {
    let (text, code) = output(&["export", &path_in(folder, "session.jsonl"), "--to", format]);
    assert_eq!(code, 0);
    assert_eq!(output(&["export", &path_in(folder, "session.jsonl"), "--to", format]).0, text, "the same each time");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_session_is_exported_as_har_with_an_entry_for_each_request() {
    let folder = whole_session();
    let har = exported(folder.path(), "har");
    is_har(&har);
    let entries = har["log"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), requests(&open(folder.path())).len());
    let of = |id: &str, from: &str| {
        entries.iter().find(|entry| entry["_rescind"]["id"] == id && entry["_rescind"]["from"] == from).unwrap()
    };
    let fine = of("1", "client");
    assert_eq!(fine["request"]["url"], "rescind://server/tools/call/fine");
    assert_eq!((&fine["response"]["status"], &fine["response"]["statusText"]), (&json!(200), &json!("result")));
    let asked: Value = serde_json::from_str(fine["request"]["postData"]["text"].as_str().unwrap()).unwrap();
    let answered: Value = serde_json::from_str(fine["response"]["content"]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&asked["params"]["name"], &answered["result"]), (&json!("fine"), &json!({"content": []})));
    assert_eq!(fine["_rescind"]["messages"].as_array().unwrap().len(), 4);
    assert_eq!(of("7", "server")["request"]["url"], "rescind://client/sampling/createMessage");
    assert_eq!(of("7", "server")["_rescind"]["parent"], fine["_rescind"]["key"]);
    let stubborn = of("2", "client");
    assert_eq!(
        (&stubborn["response"]["status"], &stubborn["response"]["statusText"]),
        (&json!(499), &json!("cancelled"))
    );
    assert!(stubborn["comment"].as_str().unwrap().starts_with("cancelled by caller: answered after"), "{stubborn}");
    let failing = of("0", "client");
    let failed = entries.iter().find(|entry| entry["response"]["statusText"] == "error -32000");
    assert!(failed.is_some_and(|entry| entry["response"]["status"] == 500), "{failing}");
    assert_eq!(of("6", "client")["_rescind"]["cancel"]["reason"], "by hand");
}

#[test]
fn a_session_is_exported_as_a_trace_with_a_span_for_each_request() {
    let folder = whole_session();
    let trace = exported(folder.path(), "otlp");
    let of = &trace["resourceSpans"][0];
    let spans = of["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 1 + requests(&open(folder.path())).len());
    let attribute = |of: &Value, name: &str| {
        let mut all = of.get("attributes").and_then(Value::as_array).into_iter().flatten();
        all.find(|one| one["key"] == name).map(|one| one["value"]["stringValue"].clone())
    };
    let is_hex = |text: &Value, length: usize| {
        text.as_str().is_some_and(|text| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let mut ids = std::collections::BTreeSet::new();
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert!(ids.insert(span["spanId"].as_str().unwrap()), "{span}");
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
        assert!(span.get("parentSpanId").is_none_or(|parent| spans.iter().any(|one| one["spanId"] == *parent)));
    }
    assert_eq!(spans[0].get("parentSpanId"), None);
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let fine = named("tools/call fine");
    assert_eq!(attribute(fine, "mcp.method.name"), Some(json!("tools/call")));
    assert_eq!(attribute(fine, "mcp.protocol.version"), Some(json!("2025-11-25")));
    assert_eq!(attribute(fine, "gen_ai.tool.name"), Some(json!("fine")));
    assert_eq!(attribute(fine, "outcome"), Some(json!("result")));
    assert_eq!((&fine["kind"], &fine["status"], &fine["parentSpanId"]), (&json!(3), &json!({}), &spans[0]["spanId"]));
    assert_eq!(named("sampling/createMessage")["parentSpanId"], fine["spanId"]);
    let stubborn = named("tools/call stubborn");
    let events: Vec<&Value> = stubborn["events"].as_array().unwrap().iter().map(|event| &event["name"]).collect();
    assert_eq!(events, ["cancel", "receipt", "late"]);
    assert_eq!(attribute(&stubborn["events"][0], "reason"), Some(json!("enough")));
    assert_eq!(attribute(&stubborn["events"][1], "outcome"), Some(json!("answered_after")));
    assert_eq!(
        (attribute(stubborn, "outcome"), attribute(stubborn, "cause")),
        (Some(json!("cancelled")), Some(json!("caller")))
    );
    assert_eq!(stubborn["status"], json!({}), "a cancel is neither an error nor a success");
    let failed = spans.iter().find(|span| attribute(span, "error.type") == Some(json!("-32000"))).unwrap();
    assert_eq!(failed["status"], json!({"code": 2}));
}

/// A trace that the client began can be found from the spans.
#[test]
fn a_span_links_the_trace_that_its_request_names() {
    let (mut rig, folder): (Rig, _) = recorded(&[]);
    shim::words::greet_mcp(&mut rig, "2025-11-25");
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    for (id, parent) in [("1", format!("00-{trace}-{span}-01")), ("2", "00-hunter2-x-01".to_owned())] {
        let params = json!({"name": "traced", "_meta": {"traceparent": parent}});
        pass_to_server(&mut rig, &request_with(id, "tools/call", &params.to_string()));
        pass_to_client(&mut rig, &result(id, r#"{"content":[],"isError":true}"#));
    }
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    let exported = exported(folder.path(), "otlp");
    let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let links: Vec<&Value> =
        spans.iter().filter(|span| span["name"] == "tools/call traced").map(|span| &span["links"]).collect();
    assert_eq!(links, [&json!([{"traceId": trace, "spanId": span}]), &Value::Null]);
    let errors = spans.iter().filter(|span| span["attributes"].to_string().contains("tool_error"));
    assert_eq!(errors.count(), 2);
}
