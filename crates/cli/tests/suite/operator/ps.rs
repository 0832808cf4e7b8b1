//! `rescind ps`.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixListener,
        process::CommandExt,
    },
    process::{Child, Command, Stdio},
    thread,
};

use rescind_feed::{
    Arguments, Cancel, Child as Subagent, ChildState, Outcome, Request, Settled, SettledHow, Side, State,
};
use rescind_testkit::{
    fake_shim::{asked, percent, request, session},
    puppet::Rig,
};
use serde_json::Value;

use crate::{
    operator::{Sockets, say, words},
    shim::{PROGRAM, terminal::Terminal, words::expect_alive},
};

/// A command that goes on until it is killed, also where a test fails.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_directory_whose_path_is_longer_than_an_address_is_no_hindrance() {
    let around = tempfile::tempdir().unwrap();
    let sockets = around.path().join("x".repeat(120));
    let mut rig = Rig::builder(PROGRAM).sockets(&sockets).start();
    expect_alive(&mut rig);
    let said = say(&sockets, &["ps", "--sessions"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, "nothing is in flight (1 session)\n"));
    assert!(said.stdout.contains("idle"), "{}", said.stdout);
}

#[test]
fn a_server_that_stands_still_since_its_client_does_not_read_is_named() {
    let around = tempfile::tempdir().unwrap();
    let sockets = around.path().join("own");
    let server = r#"printf '{"jsonrpc":"2.0","method":"x","params":{"text":"'; head -c 20000000 /dev/zero | tr '\0' y
        echo '"}}'; exec cat"#;
    let mut command = Command::new(PROGRAM);
    command.args(["run", "sh", "-c", server]).env("RESCIND_RUNTIME_DIR", &sockets);
    let mut shim = Watching(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let listed = || say(&sockets, &["ps", "--sessions"]).stderr;
    // It takes a while until so much waits.
    let found = (0..1000).map(|_| listed()).find(|said| said.contains("does not read")).unwrap();
    assert!(found.contains(": its client does not read, so nothing more is read of its server, which may stand still"));
    let (mut line, mut stdout) = (String::new(), BufReader::new(shim.0.stdout.take().unwrap()));
    stdout.read_line(&mut line).unwrap();
    assert!((0..1000).any(|_| !listed().contains("does not read")));
}

/// A shim of a later version: no row is lost, each is shown with its word, and none is taken for stopped.
#[test]
fn rows_with_words_of_a_later_shim_are_listed_and_are_not_said_to_have_stopped() {
    let sockets = Sockets::new();
    let later = sockets.shim("4711");
    let paused = Request { state: State::Later("paused".into()), ..request(1, "tools/call", Some("a"), 0) };
    let mut parked = request(2, "tools/call", Some("b"), 0);
    let cancel = Cancel { outcome: Outcome::Later("parked".into()), ..asked(0, None) };
    parked.cancel = Some(Cancel { words: "parked; nobody knows for how long".into(), ..cancel });
    let state = ChildState::Later("dreaming".into());
    let child = Subagent { parent_session: "\"s\"".into(), state, can_cancel: true, reported: 0 };
    let child = Request { child: Some(child), key: "k3".into(), ..request(3, "subagent", None, 0) };
    later.put([paused, parked, child, request(4, "tools/call", Some("c"), 0)]);
    let said = sockets.say(&["ps"]);
    assert_eq!((said.code, said.stderr.as_str(), said.stdout.lines().count()), (0, "", 5), "{said:?}");
    for word in ["paused", "parked; nobody knows for how long", "dreaming", "running"] {
        assert!(said.stdout.contains(word), "{word}: {said:?}");
    }
    let said = sockets.say(&["stop", "--within", "1s"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("4711/2: unknown: parked; nobody knows for how long"), "{said:?}");
    assert!(said.stdout.contains("0 stopped") && !said.stdout.contains("finished"), "{said:?}");
}

#[test]
fn what_is_in_flight_is_a_table_over_all_sessions() {
    let sockets = Sockets::new();
    let (one, two, _idle) = (sockets.shim("99"), sockets.shim("4711"), sockets.shim("4712"));
    let mut first = request(17, "tools/call", Some("index"), 1_000_000);
    first.progress = Some(percent(2, 42.0, "indexing"));
    first.deadline = Some(25_000_000);
    one.put([first]);
    one.set_now(13_000_000);
    let asked_of_client = Request { from: Side::Server, ..request(3, "sampling/createMessage", None, 0) };
    let cancelled = Request { state: State::Cancelling, cancel: Some(asked(0, None)), ..request(4, "x", None, 0) };
    two.put([Request { key: "s3".into(), ..asked_of_client }, cancelled]);
    let said = sockets.say(&["ps"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<_> = said.stdout.lines().map(words).collect();
    let expected = [
        vec!["ID", "SERVER", "FROM", "METHOD", "AGE", "STATE", "PROGRESS", "DEADLINE", "CANCEL"],
        vec!["99/17", "server", "client", "tools/call:index", "12.0 s", "running", "42% indexing", "in 12.0 s"],
        vec!["4711/4", "server", "client", "x", "0 µs", "cancelling", "cancelling…"],
        vec!["4711/server:3", "server", "server", "sampling/createMessage", "0 µs", "running"],
    ];
    assert_eq!(lines, expected);
    let said = sockets.say(&["ps", "--sessions"]);
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(words(lines[0])[..4], ["ID", "SERVER", "PROTOCOL", "FROM"]);
    assert_eq!(words(lines[4]), ["4712", "server", "mcp-2025-11-25", "0 µs", "idle"]);
    assert_eq!(lines[0].find("PROTOCOL"), lines[4].find("mcp-2025-11-25"), "{}", said.stdout);
}

#[test]
fn arguments_are_below_their_requests_and_a_shim_that_keeps_none_is_named() {
    let sockets = Sockets::new();
    let (one, older) = (sockets.shim("1"), sockets.shim("2"));
    one.put([1, 2, 3].map(|id| request(id, "tools/call", Some("a"), 0)));
    older.put([request(1, "tools/call", Some("b"), 0)]);
    older.be_older();
    let text = r#"{"name":"a","arguments":{"path":"/etc","x":"\u001b[31m"}}"#;
    one.put_arguments("c1", Arguments { text: text.into(), length: text.len() as u64, ..Arguments::default() });
    let cut = Arguments { text: text[..9].into(), length: 70_000, cut: true, left_out: false };
    one.put_arguments("c2", cut);
    let said = sockets.say(&["ps", "--args"]);
    assert_eq!(said.code, 0);
    assert_eq!(said.stderr, "note: 2: its rescind is older than this one, and keeps no arguments\n");
    let lines: Vec<_> =
        said.stdout.lines().map(|line| if line.starts_with(' ') { line } else { words(line)[0] }).collect();
    let expected = [
        "ID",
        "1/1",
        r#"    {"path":"/etc","x":"\u001b[31m"}"#,
        "1/2",
        r#"    {"name":" … (the first 9 of 70000 bytes)"#,
        "1/3",
        "2/1",
    ];
    assert_eq!(lines, expected);
    // Nothing is asked of a shim that nobody asks for.
    let before = one.wait_for(|seen| Some(seen.paths.iter().filter(|path| path.contains("arguments")).count()));
    assert!(!sockets.say(&["ps"]).stdout.contains("/etc"));
    assert_eq!(one.wait_for(|seen| Some(seen.paths.iter().filter(|path| path.contains("arguments")).count())), before);
    let said = sockets.say(&["ps", "--args", "--watch"]);
    assert_eq!(said.code, 2);
}

#[test]
fn filters_leave_out_what_does_not_fit() {
    let sockets = Sockets::new();
    let (one, two) = (sockets.shim("1"), sockets.shim("2"));
    one.put([request(1, "tools/call", Some("a"), 0), request(2, "tools/call", Some("b"), 50_000_000)]);
    let ended = Request { state: State::Ended, ..request(3, "tools/call", Some("a"), 0) };
    let stuck = Request { state: State::Stuck, ..request(4, "prompts/get", None, 0) };
    two.put([ended, stuck]);
    one.set_now(60_000_000);
    two.set_now(60_000_000);
    let ids = |arguments: &[&str]| {
        let said = sockets.say(&[&["ps"], arguments].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.stdout.lines().skip(1).map(|line| words(line)[0].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["1/1", "1/2", "2/4"]);
    assert_eq!(ids(&["--recent"]), ["1/1", "1/2", "2/3", "2/4"]);
    assert_eq!(ids(&["--session", "2"]), ["2/4"]);
    assert_eq!(ids(&["--method", "tools/call"]), ["1/1", "1/2"]);
    assert_eq!(ids(&["--method", "tools/call:b"]), ["1/2"]);
    assert_eq!(ids(&["--older-than", "30s"]), ["1/1", "2/4"]);
    assert_eq!(ids(&["--state", "stuck"]), ["2/4"]);
    assert_eq!(ids(&["--state", "stuck", "--state", "ended"]), ["2/3", "2/4"]);
    assert_eq!(ids(&["--from", "client", "--older-than", "30s", "--session", "1"]), ["1/1"]);
    let said = sockets.say(&["ps", "--session", "3"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.starts_with("error: 3: no such session\nhint: "), "{}", said.stderr);
    let said = sockets.say(&["ps", "--session", ""]);
    assert!(said.stderr.starts_with("error: \"\": no such session\nhint: "), "{}", said.stderr);
    let said = sockets.say(&["ps", "--from", "server"]);
    assert_eq!(said.stderr, "no matching request is in flight (2 sessions)\n");
    for (flag, value, problem) in [
        ("--older-than", "soon", "not a duration; write 500ms, 10s, 2m or 1h"),
        ("--older-than", "-1s", "must not be negative; write 500ms, 10s, 2m or 1h"),
        ("--method", "", "has no method; write METHOD or METHOD:TOOL"),
        ("--method", ":x", "has no method; write METHOD or METHOD:TOOL"),
    ] {
        let said = sockets.say(&["ps", flag, value]);
        let is_said = said.stderr.starts_with(&format!("error: invalid value '{value}' for '{flag} <"));
        assert!(said.code == 2 && is_said && said.stderr.contains(&format!(">': {problem}\n")), "{said:?}");
    }
}

#[test]
fn what_is_released_is_listed_with_its_age_since_the_cancel() {
    let sockets = Sockets::new();
    let (one, two) = (sockets.shim("1"), sockets.shim("2"));
    let mut cancel = asked(50_000_000, None);
    (cancel.written, cancel.outcome) = (Some(50_000_000), rescind_feed::Outcome::Sent);
    let settled = Some(Settled { at: 50_000_000, how: SettledHow::Silent, code: None });
    let released = Request {
        state: State::Released,
        cancel: Some(cancel.in_words(None)),
        settled,
        ..request(1, "tools/call", Some("a"), 0)
    };
    one.put([released, request(2, "tools/call", Some("b"), 10_000_000)]);
    for shim in [&one, &two] {
        shim.set_now(60_000_000);
    }
    let rows = |arguments: &[&str]| {
        let said = sockets.say(&[&["ps"], arguments].concat());
        assert_eq!(said.code, 0, "{said:?}");
        let row = |line: &str| words(line).into_iter().map(str::to_owned).collect::<Vec<_>>();
        said.stdout.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    let released = ["1/1", "server", "client", "tools/call:a", "10.0 s", "released", "sent; MCP does not confirm"];
    let running = ["1/2", "server", "client", "tools/call:b", "50.0 s", "running"];
    assert_eq!(rows(&[]), [&running[..], &released[..]], "what is in flight first");
    assert_eq!(rows(&["--state", "released"]), [&released[..]]);
    assert_eq!(rows(&["--state", "running"]), [&running[..]]);
    assert_eq!(rows(&["--recent"]), [&released[..], &running[..]]);
    one.change("c2", |request| request.state = State::Ended);
    let sessions: Vec<_> = rows(&["--sessions"]).into_iter().map(|row| (row[0].clone(), row.last().cloned())).collect();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    assert_eq!(sessions[0], ("1/1".into(), Some("sent; MCP does not confirm".into())));
    assert_eq!(sessions[1], ("2".into(), Some("idle".into())));
}

#[test]
fn where_nothing_is_in_flight_it_says_in_how_many_sessions() {
    let sockets = Sockets::new();
    let others = "; sessions started with --unlisted, or with another RESCIND_RUNTIME_DIR, are not listed\n";
    let is_said = |said: &str, place: &str| {
        // Which of the two depends on whether this user's clients have a shim.
        let is_remedy = said.contains("restart your clients") || said.contains("`rescind wrap`");
        said.starts_with(&format!("no sessions in {place}: ")) && is_remedy && said.ends_with(others)
    };
    let said = sockets.say(&["ps"]).stderr;
    assert!(is_said(&said, &format!("{} (RESCIND_RUNTIME_DIR)", sockets.path.display())), "{said}");
    let missing = sockets.path.join("nothing");
    let said = say(&missing, &["ps"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""));
    let nowhere = format!("{} (RESCIND_RUNTIME_DIR), which does not exist", missing.display());
    assert!(is_said(&said.stderr, &nowhere), "{said:?}");
    let _shims = (sockets.shim("1"), sockets.shim("2"));
    let said = sockets.say(&["ps"]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "nothing is in flight (2 sessions)\n"));
    assert_eq!(sockets.say(&["ps", "--sessions"]).stdout.lines().count(), 3);
    // One that was left by a shim that is gone is no session.
    left_socket(&sockets, "3");
    let said = sockets.say(&["ps", "--session", "3"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.starts_with("error: 3: no such session\n"), "{said:?}");
}

/// A socket that a killed shim has left.
fn left_socket(sockets: &Sockets, name: &str) {
    let path = sockets.path.join(format!("{name}.sock"));
    drop(UnixListener::bind(&path).unwrap());
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A script counts lines, or asks whether there are any.
#[test]
fn where_nothing_fits_a_filter_stdout_is_empty() {
    let sockets = Sockets::new();
    let (at_work, _idle, stopped) = (sockets.shim("1"), sockets.shim("2"), sockets.shim("3"));
    at_work.put([request(1, "tools/call", Some("index"), 0)]);
    at_work.set_now(1_000_000);
    let filters: [&[&str]; 6] = [
        &["--state", "stuck"],
        &["--method", "prompts/get"],
        &["--older-than", "1h"],
        &["--from", "server"],
        &["--state", "ended"],
        &["--recent", "--state", "ended", "--session", "1"],
    ];
    for filter in filters {
        let said = sockets.say(&[&["ps"], filter].concat());
        assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{filter:?}");
        assert!(said.stderr.starts_with("no matching request is in flight"), "{filter:?}: {said:?}");
        let said = sockets.say(&[&["ps", "--json"], filter].concat());
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        let requests = document["sessions"].as_array().unwrap().iter().map(|one| one["requests"].as_array().unwrap());
        assert_eq!((requests.flatten().count(), said.code), (0, 0), "{filter:?}");
    }
    // Sessions are listed where they are asked for.
    let said = sockets.say(&["ps", "--state", "stuck", "--sessions"]);
    assert_eq!(said.stdout.lines().count(), 4, "{said:?}");
    // One that does not answer is no request; that it does not is said, and is the exit code.
    stopped.freeze();
    let said = sockets.say(&["ps", "--state", "stuck"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    let lines: Vec<_> = said.stderr.lines().collect();
    let silent = "warning: 3: not answering; its requests are not listed";
    assert_eq!(lines, ["no matching request is in flight in the 2 sessions that answered", silent, TRY_AGAIN]);
}

/// Said once after the sessions that do not answer.
const TRY_AGAIN: &str =
    "hint: try again; if that does not help, look at the process of this number: it may be suspended or overloaded";

#[test]
fn watching_says_only_in_words_that_nothing_fits() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "tools/call", Some("index"), 0)]);
    let terminal = Terminal::open();
    let child =
        Watching(sockets.command(&["ps", "--watch", "--state", "stuck"]).stdout(terminal.end()).spawn().unwrap());
    let shown = terminal.shows_until("no matching request is in flight (1 session)");
    assert!(!shown.contains("no sessions") && !shown.contains("mcp-2025-11-25"), "{shown:?}");
    drop(child);
    // And elsewhere in nothing at all: lines are what fits, and a session that is lost is told of on stderr.
    let stuck = |id| Request { state: State::Stuck, ..request(id, "prompts/get", None, 0) };
    let mut child = Watching(sockets.command(&["ps", "--watch", "--state", "stuck"]).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut words = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    shim.put([stuck(4)]);
    assert_eq!(lines.next().unwrap(), "1/4  prompts/get  stuck");
    drop(shim);
    assert_eq!(words.next().unwrap(), "1: gone");
    let other = sockets.shim("2");
    other.put([stuck(5)]);
    assert_eq!(lines.next().unwrap(), "2/5  prompts/get  stuck");
    drop(child);
}

/// Answers whoever connects with these bytes, as a shim that has no room does, and reads nothing.
fn curt_shim(sockets: &Sockets, name: &str, answer: &'static [u8]) {
    let path = sockets.path.join(format!("{name}.sock"));
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let _ = connection.and_then(|mut connection| connection.write_all(answer));
        }
    });
}

#[test]
fn a_shim_that_turns_everybody_away_is_not_answering() {
    let sockets = Sockets::new();
    curt_shim(&sockets, "1", b"");
    curt_shim(&sockets, "2", b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let said = sockets.say(&["ps"]);
    assert_eq!(said.code, 1, "{said:?}");
    let lines: Vec<_> = said.stdout.lines().skip(1).map(words).collect();
    assert_eq!(lines, [["1", "not answering"], ["2", "not answering"]]);
    assert!(!said.stderr.contains("no sessions") && !said.stderr.contains("nothing"), "{said:?}");
    let said = sockets.say(&["ps", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    for session in document["sessions"].as_array().unwrap() {
        assert_eq!((&session["answered"], &session["error"]), (&false.into(), &"not answering".into()));
    }
    assert_eq!((document["sessions"].as_array().unwrap().len(), said.code), (2, 1));
    let _shim = sockets.shim("3");
    for (target, unasked) in [("1/17", "session 1"), ("17", "sessions 1, 2")] {
        let said = sockets.say(&["cancel", target]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.starts_with("error: 1: not answering\n"), "{said:?}");
        assert!(
            said.stderr.contains(&format!("error: {target}: not cancelled, since {unasked} could not be asked\n")),
            "{said:?}"
        );
        assert!(!said.stderr.contains("no such request"), "{said:?}");
    }
    let said = sockets.say(&["cancel", "--method", "tools/call"]);
    assert!(
        said.code == 2 && said.stderr.contains("no request in flight matches in the sessions that answered"),
        "{said:?}"
    );
}

#[test]
fn a_stopped_shim_holds_nothing_up() {
    let sockets = Sockets::new();
    let (stopped, lively) = (sockets.shim("1"), sockets.shim("2"));
    stopped.freeze();
    lively.put([request(1, "tools/call", None, 0)]);
    let said = sockets.say(&["ps"]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (1, &*format!("warning: 1: not answering; its requests are not listed\n{TRY_AGAIN}\n"))
    );
    let lines: Vec<_> = said.stdout.lines().skip(1).map(words).collect();
    assert_eq!(lines, [vec!["1", "not answering"], vec!["2/1", "server", "client", "tools/call", "0 µs", "running"]]);
    let said = sockets.say(&["ps", "--json"]);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(document["sessions"][0]["error"], "not answering");
    assert_eq!(document["sessions"][1]["requests"][0]["label"], "2/1");
    // A socket that a killed shim has left is no session.
    left_socket(&sockets, "3");
    assert_eq!(sockets.say(&["ps", "--session", "2"]).stdout.lines().count(), 2);
    assert_eq!(sockets.say(&["ps"]).stdout.lines().count(), 3);
}

/// Text that turns a terminal upside down if it reaches one.
const HARMFUL: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\n\u{7f}\u{200f}";

fn harmful(sockets: &Sockets) -> rescind_testkit::fake_shim::FakeShim {
    let mut facts = session("1", &[HARMFUL]);
    facts.server.name = Some(format!("server{HARMFUL}"));
    facts.client.protocol = HARMFUL.into();
    let shim = sockets.shim_of(facts);
    let id = serde_json::to_string(&format!("id{HARMFUL}")).unwrap();
    let mut request = Request { id, ..request(1, &format!("method{HARMFUL}"), Some(&format!("tool{HARMFUL}")), 0) };
    request.progress = Some(percent(1, 1.0, &format!("progress{HARMFUL}")));
    let mut cancel = asked(0, Some(&format!("reason{HARMFUL}")));
    cancel.words = format!("words{HARMFUL}");
    request.cancel = Some(cancel);
    shim.put([request]);
    shim
}

#[test]
fn text_of_programs_does_nothing_to_a_terminal() {
    let sockets = Sockets::new();
    let _shim = harmful(&sockets);
    let is_inert = |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || "\u{202e}\u{200f}".contains(c)));
    for arguments in [&["ps"][..], &["ps", "--sessions"], &["ps", "--json"], &["ps", "--from", "server"]] {
        let said = sockets.say(arguments);
        assert_eq!(said.code, 0);
        assert!(is_inert(&said.stdout) && is_inert(&said.stderr), "{said:?}");
    }
    assert_eq!(sockets.say(&["ps"]).stdout.lines().count(), 2);
    // JSON means what it meant.
    let document: Value = serde_json::from_str(&sockets.say(&["ps", "--json"]).stdout).unwrap();
    assert_eq!(document["sessions"][0]["requests"][0]["method"], format!("method{HARMFUL}"));
    let said = sockets.say(&["ps", "--session", HARMFUL]);
    assert!(is_inert(&said.stderr), "{said:?}");
}

#[test]
fn a_terminal_is_coloured_and_its_width_is_kept() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711");
    let stuck = Request { state: State::Stuck, ..request(1, &"long".repeat(100), Some("tool"), 0) };
    shim.put([stuck]);
    let shown = |no_colour: &str| {
        let terminal = Terminal::open();
        let mut command = sockets.command(&["ps"]);
        command.stdout(terminal.end()).env("NO_COLOR", no_colour);
        assert!(command.status().unwrap().success());
        terminal.shows_until("stuck")
    };
    let coloured = shown("");
    assert!(coloured.contains("\u{1b}[1;31m4711/1"), "{coloured:?}");
    let plain = shown("1");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain:?}");
}

#[test]
fn watching_elsewhere_than_on_a_terminal_adds_a_line_for_each_change() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "tools/call", Some("index"), 0)]);
    let mut child = Watching(sockets.command(&["ps", "--watch"]).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "1/1  tools/call:index  running");
    // Progress is no line; a cancel is.
    shim.change("c1", |request| request.progress = Some(percent(5, 1.0, "")));
    shim.change("c1", |request| {
        request.state = State::Cancelling;
        request.cancel = Some(asked(5, None));
    });
    assert_eq!(lines.next().unwrap(), "1/1  tools/call:index  cancelling  cancelling…");
    let second = sockets.shim("2");
    second.put([request(7, "prompts/get", None, 0)]);
    assert_eq!(lines.next().unwrap(), "2/7  prompts/get  running");
    // When nobody reads any more, it ends.
    drop(lines);
    shim.put([request(2, "tools/call", None, 9)]);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn watching_as_json_is_a_line_for_each_event() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    let mut child = Watching(sockets.command(&["ps", "--watch", "--json"]).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(lines.next().unwrap()["event"]["event"], "snapshot");
    shim.put([request(1, "tools/call", None, 0)]);
    let changed = lines.next().unwrap();
    assert_eq!((&changed["session"], &changed["event"]["requests"][0]["id"]), (&"1".into(), &"1".into()));
    drop(shim);
    assert_eq!(lines.next().unwrap()["error"], "gone");
    drop(child);
}

#[test]
fn watching_on_a_terminal_draws_the_table_anew() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put([request(1, "tools/call", Some("index"), 0)]);
    let terminal = Terminal::open();
    let child = Watching(sockets.command(&["ps", "--watch"]).stdout(terminal.end()).spawn().unwrap());
    terminal.shows_until("tools/call:index");
    shim.put((2..40).map(|id| request(id, "tools/call", Some("more"), id)));
    let shown = terminal.shows_until("and 19 more");
    assert!(shown.contains("F\u{1b}[J"), "{shown:?}");
    drop(child);
}

#[test]
fn those_of_a_state_and_the_newest_are_found_wherever_in_a_long_list_they_stand() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.set_now(10_000);
    shim.put((0..2500).map(|id| request(id, "tools/call", Some("index"), id)));
    shim.put([Request { state: State::Queued, ..request(2499, "tools/call", Some("index"), 2499) }]);
    let said = sockets.say(&["ps", "--state", "queued"]);
    assert_eq!((said.stdout.lines().count(), said.stderr.as_str()), (2, ""), "{said:?}");
    assert_eq!(words(said.stdout.lines().nth(1).unwrap())[0], "1/2499");
    let said = sockets.say(&["ps", "--recent"]);
    assert_eq!((said.stdout.lines().count(), said.stderr.as_str()), (2501, ""));
}

#[test]
fn a_hundred_thousand_requests_are_counted_and_the_oldest_shown() {
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    shim.put((0..100_000).map(|id| request(id, "tools/call", Some("index"), id)));
    let said = sockets.say(&["ps"]);
    assert_eq!(said.stdout.lines().count(), 1001);
    assert_eq!(words(said.stdout.lines().nth(1).unwrap())[0], "1/0");
    assert_eq!(said.stderr, "note: 1: 99000 more requests are not listed\n");
    // Wherever in the list one stands, it can be named.
    let said = sockets.say(&["cancel", "1/99999", "--no-wait"]);
    assert_eq!((said.stdout.as_str(), said.code), ("1/99999: cancelling…\n", 0));
}

#[test]
fn a_directory_that_is_open_to_others_is_not_used() {
    let sockets = Sockets::new();
    let _shim = sockets.shim("1");
    fs::set_permissions(&sockets.path, fs::Permissions::from_mode(0o755)).unwrap();
    for arguments in [&["ps"][..], &["ps", "--watch"], &["cancel", "1/1"], &["console", "--no-open"]] {
        let said = sockets.say(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}");
        let problem =
            "is open to other users (mode 755)\nhint: if only rescind uses it, close it to others (chmod 700); ";
        assert!(said.stderr.contains(problem), "{}", said.stderr);
    }
    fs::set_permissions(&sockets.path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(sockets.path.join("1.sock"), fs::Permissions::from_mode(0o666)).unwrap();
    let said = sockets.say(&["ps"]);
    assert!(said.stderr.contains("1.sock: is open to other users; not used"), "{}", said.stderr);
    assert_eq!(said.stdout, "");
}

#[test]
fn what_another_user_has_made_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        let _ = writeln!(std::io::stderr(), "skipped: only root can make another user's socket");
        return;
    }
    let nobody = 65_534;
    let sockets = Sockets::new();
    let shim = sockets.shim("1");
    chown(shim.socket(), Some(nobody), None).unwrap();
    let said = sockets.say(&["ps"]);
    assert!(said.stderr.contains("1.sock: belongs to another user; not used"), "{}", said.stderr);
    chown(&sockets.path, Some(nobody), None).unwrap();
    let said = sockets.say(&["ps"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("belongs to user 65534, not to user 0"), "{}", said.stderr);
    // And the other way round: another user looks into ours.
    let ours = Sockets::new();
    let _shim = ours.shim("1");
    fs::set_permissions(ours.path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where that user may not even run the command, there is nothing to try.
    if let Ok(output) = ours.command(&["ps"]).uid(nobody).output() {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said.contains("belongs to user 0, not to user 65534"), "{said}");
    }
}
