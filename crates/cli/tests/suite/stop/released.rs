//! What was cancelled and is not known to have ended (D52): with real processes, and what their work left as a mark.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rescind_testkit::{
    fake_shim::{FakeShim, session},
    puppet::Rig,
};
use serde_json::Value;

use super::servers::{Dialect, stop};
use crate::{
    operator::{Said, say},
    shim::{
        PROGRAM,
        terminal::Terminal,
        words::{cancelled, expect_alive, greet_mcp, notification, pass_to_server, progress, request_with, result},
    },
};

/// Answers the handshake, and then works on whatever it is asked, or told: it never reads again, says nothing, and leaves
/// a mark as long as it works. SIGTERM does not end it.
const SILENT: &str = r#"
read -r hello
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"silent","version":"1"}}}'
read -r initialized
read -r call
trap '' TERM
while :; do echo at work >>"$1"; sleep 0.02; done
"#;

/// A client of a server that is silent, with a call in flight.
struct Silent {
    shim: Child,
    mark: std::path::PathBuf,
}

impl Silent {
    fn open(sockets: &Path, mark: &Path) -> Self {
        Self::open_with(sockets, mark, SILENT)
    }

    fn open_with(sockets: &Path, mark: &Path, script: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--", "sh", "-c", script, "sh"]).arg(mark).env("RESCIND_RUNTIME_DIR", sockets);
        let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, mut output) = (shim.stdin.as_mut().unwrap(), BufReader::new(shim.stdout.as_mut().unwrap()));
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
        writeln!(input, "{}", request_with("0", "initialize", params)).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(answer.contains("silent"), "{answer}");
        writeln!(input, "{}", notification("notifications/initialized", "{}")).unwrap();
        writeln!(input, "{}", request_with("1", "tools/call", r#"{"name":"tool"}"#)).unwrap();
        let silent = Self { shim, mark: mark.to_owned() };
        silent.works();
        silent
    }

    /// Returns once its work has left one mark more than there was.
    fn works(&self) {
        let marks = || fs::metadata(&self.mark).map_or(0, |file| file.len());
        let (before, begun) = (marks(), Instant::now());
        while marks() == before {
            assert!(begun.elapsed() < Duration::from_secs(30), "the work has stopped");
            std::thread::yield_now();
        }
    }

    fn server(&self, sockets: &Path) -> u64 {
        let listed: Value = serde_json::from_str(&say(sockets, &["ps", "--json"]).stdout).unwrap();
        listed["sessions"][0]["session"]["serverPid"].as_u64().unwrap()
    }

    /// Its server's process is gone, and the shim with it.
    fn expect_end(mut self, server: u64) {
        self.shim.wait().unwrap();
        assert!(!Path::new(&format!("/proc/{server}")).exists(), "process {server} lives");
    }
}

/// The states of the requests that are listed.
fn states(sockets: &Path) -> Vec<String> {
    let listed: Value = serde_json::from_str(&say(sockets, &["ps", "--json"]).stdout).unwrap();
    let sessions = listed["sessions"].as_array().unwrap().iter();
    let requests = sessions.flat_map(|one| one["requests"].as_array().unwrap());
    requests.map(|request| request["state"].as_str().unwrap().to_owned()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn the_second_stop_ends_a_server_that_ignores_everything() {
    let around = tempfile::tempdir().unwrap();
    let path = around.path().join("sockets");
    let silent = Silent::open(&path, &around.path().join("mark"));
    let name = silent.shim.id().to_string();
    let server = silent.server(&path);
    let told = stop(&path, &["--within", "1s"]);
    assert_eq!((told.code, told.summary.as_str()), (1, "0 stopped, 1 unknown"), "{}", told.stderr);
    let hint = format!(
        "hint: `rescind stop --kill=unknown` ends the servers of what is not known to have stopped; `rescind end {name}` \
         ends this one\n"
    );
    assert_eq!(told.stderr, hint);
    silent.works();
    // It is not forgotten.
    let said = say(&path, &["ps"]);
    let row = said.stdout.lines().nth(1).unwrap();
    assert!(row.starts_with(&format!("{name}/1  silent")) && row.contains("  released  "), "{said:?}");
    assert!(row.ends_with("sent; MCP does not confirm"), "{row}");
    assert_eq!(said.stderr, "");
    assert_eq!(states(&path), ["released"]);
    assert!(!say(&path, &["ps", "--sessions"]).stdout.contains("idle"));
    // A Stop that only ends what is known to work on leaves it, as often as it is said.
    for arguments in [&["--within", "1s", "--kill"][..], &["--within", "1s"]] {
        let told = stop(&path, arguments);
        assert_eq!((told.code, told.summary.as_str()), (1, "0 stopped, 1 unknown"), "{}", told.stderr);
        assert_eq!(told.stderr, hint);
    }
    silent.works();
    let told = stop(&path, &["--within", "1s", "--kill=unknown"]);
    assert_eq!((told.code, told.summary.as_str()), (0, "0 stopped, 1 ended with its server"), "{}", told.stderr);
    assert_eq!((told.states[&name].join(", "), told.stderr.as_str()), ("unknown, ended".to_owned(), ""));
    silent.expect_end(server);
    assert!(stop(&path, &[]).stderr.starts_with("no sessions"), "nothing is left");
}

#[test]
fn what_a_client_has_cancelled_is_ended_and_nothing_healthy_is() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let [mut mute, mut polite, mut agent] = [Dialect::Mcp, Dialect::Mcp, Dialect::Acp].map(|one| one.open(&path));
    for rig in [&mut mute, &mut polite] {
        pass_to_server(rig, &cancelled("1"));
    }
    // One answers late, which shows that it has ended, and an agent confirms.
    polite.server.send(&result("1", "{}"));
    polite.expect_client_hears_nothing();
    pass_to_server(&mut agent, &notification("session/cancel", r#"{"sessionId":"s"}"#));
    agent.server.send(&result("1", r#"{"stopReason":"cancelled"}"#));
    agent.client.receive();
    assert_eq!(states(&path), ["released"]);
    let told = stop(&path, &["--within", "1s", "--kill=unknown"]);
    assert_eq!((told.code, told.summary.as_str()), (0, "0 stopped, 1 ended with its server"), "{}", told.stderr);
    mute.server.puppet.expect_death();
    expect_alive(&mut polite);
    expect_alive(&mut agent);
    assert_eq!(states(&path), [""; 0]);
}

#[test]
fn what_reports_progress_after_its_cancel_is_stuck_and_then_released() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Rig::builder(PROGRAM).flags(["--grace", "100ms"]).sockets(&path).start();
    greet_mcp(&mut rig, "2025-11-25");
    pass_to_server(&mut rig, &request_with("1", "tools/call", r#"{"name":"tool","_meta":{"progressToken":1}}"#));
    pass_to_server(&mut rig, &cancelled("1"));
    let becomes = |rig: &mut Rig, wanted: &str, progresses: bool| {
        let begun = Instant::now();
        loop {
            if progresses {
                rig.server.send(&progress("1", 2));
            }
            match states(&path).join(" ") {
                state if state == wanted => return,
                state => assert!(begun.elapsed() < Duration::from_secs(30), "{state}, not {wanted}"),
            }
        }
    };
    becomes(&mut rig, "released", false);
    becomes(&mut rig, "stuck", true);
    becomes(&mut rig, "released", false);
    rig.server.send(&result("1", "{}"));
    rig.expect_client_hears_nothing();
    assert_eq!(states(&path), [""; 0], "it has answered");
    expect_alive(&mut rig);
}

#[test]
fn a_person_is_asked_before_a_server_ends_of_which_nothing_is_known() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Dialect::Mcp.open(&path);
    let name = rig.shim.id.to_string();
    pass_to_server(&mut rig, &cancelled("1"));
    let answered = |answer: &str| {
        let terminal = Terminal::open();
        let mut command = Command::new(PROGRAM);
        command.args(["stop", "--within", "1s"]).env("RESCIND_RUNTIME_DIR", &path).env("NO_COLOR", "1");
        let mut child = command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end()).spawn().unwrap();
        let shown = terminal.shows_until("End this server? [y/N]");
        assert!(shown.contains(&format!("  {name}  test  1 request not known to have stopped")), "{shown}");
        terminal.type_in(answer);
        (child.wait().unwrap().code(), terminal)
    };
    let (code, terminal) = answered("\n");
    assert_eq!(code, Some(1));
    terminal.shows_until(&format!("`rescind end {name}` ends this one"));
    expect_alive(&mut rig);
    let (code, terminal) = answered("y\n");
    assert_eq!(code, Some(0));
    terminal.shows_until("0 stopped, 1 ended with its server");
    rig.server.puppet.expect_death();
}

#[test]
fn a_session_is_ended_without_a_request() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let [mut rig, mut other] = [(); 2].map(|()| {
        let mut rig = Rig::builder(PROGRAM).sockets(&path).start();
        greet_mcp(&mut rig, "2025-11-25");
        rig
    });
    let name = rig.shim.id.to_string();
    // Nobody is asked without a terminal, and nothing is done.
    let Said { stdout, stderr, code } = say(&path, &["end", &name]);
    assert_eq!((stdout.as_str(), code), ("", 2));
    let asks =
        format!("error: rescind end: would end the server of session {name}, and cannot ask without a terminal\n");
    assert_eq!(stderr, format!("{asks}hint: use --yes\n"));
    let mut grandchild = rig.grandchild();
    expect_alive(&mut rig);
    let ended = say(&path, &["end", "--yes", &name]);
    assert_eq!(
        (ended.stdout.as_str(), ended.code),
        (&*format!("{name}: ended: by signal 15\n"), 0),
        "{}",
        ended.stderr
    );
    rig.server.puppet.expect_death();
    grandchild.expect_death();
    expect_alive(&mut other);
}

#[test]
fn a_session_is_ended_after_a_question_that_says_what_is_in_it() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Dialect::Mcp.open(&path);
    let name = rig.shim.id.to_string();
    pass_to_server(&mut rig, &cancelled("1"));
    pass_to_server(&mut rig, &request_with("2", "tools/call", r#"{"name":"tool"}"#));
    let answered = |answer: &str| {
        let terminal = Terminal::open();
        let mut command = Command::new(PROGRAM);
        command.args(["end", &name]).env("RESCIND_RUNTIME_DIR", &path).env("NO_COLOR", "1");
        let mut child = command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end()).spawn().unwrap();
        let shown = terminal.shows_until("End this server? [y/N]");
        let line = format!("  {name}  test  1 request in flight; 1 request not known to have stopped");
        assert!(shown.contains(&line), "{shown}");
        terminal.type_in(answer);
        (child.wait().unwrap().code(), terminal)
    };
    let (code, terminal) = answered("\n");
    assert_eq!(code, Some(1));
    terminal.shows_until("nothing was ended");
    pass_to_server(&mut rig, &notification("x", "{}"));
    let (code, terminal) = answered("y\n");
    assert_eq!(code, Some(0));
    terminal.shows_until(&format!("{name}: ended: by signal 15"));
    rig.server.puppet.expect_death();
    assert!(rig.client.receive().contains("because an operator asked for it"));
}

#[test]
fn what_cannot_be_ended_is_said_with_what_can() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let _remote = FakeShim::open(&path, session("4711", &["https://example.com/mcp"]));
    let said = say(&path, &["end", "--yes", "4711"]);
    assert_eq!((said.stdout.as_str(), said.code), ("", 2));
    let cause = "its server is another machine's (https://example.com/mcp), where alone it can be ended";
    let hint = "`rescind stop --session 4711` asks it to stop what is in flight";
    assert_eq!(said.stderr, format!("error: 4711: {cause}\nhint: {hint}\n"));
    let said = say(&path, &["end", "--yes", "4712"]);
    assert_eq!((said.stdout.as_str(), said.code), ("", 2));
    assert_eq!(said.stderr, "error: 4712: no such session\nhint: `rescind ps --sessions` lists all sessions\n");
    let said = say(&path, &["end", "--yes", "4711/17"]);
    assert_eq!((said.stdout.as_str(), said.code), ("", 2));
    assert!(said.stderr.starts_with("error: 4711/17: is a request, and not a session\nhint: "), "{}", said.stderr);
    let frozen = FakeShim::open(&path, session("4713", &["server"]));
    frozen.freeze();
    let said = say(&path, &["end", "--yes", "4713"]);
    assert_eq!((said.stdout.as_str(), said.code), ("", 2));
    assert!(said.stderr.starts_with("error: 4713: not answering\nhint: "), "{}", said.stderr);
}

/// A process in a group of its own does not end with the server.
#[cfg(target_os = "linux")]
#[test]
fn what_had_left_the_group_of_a_server_that_was_ended_is_named() {
    let away = r#"setsid sh -c 'echo $$ >"$1.away"; exec sleep 3600' sh "$1" >/dev/null 2>&1 &"#;
    for (arguments, code) in [(&["stop", "--within", "1s", "--kill=unknown"][..], 1), (&["end", "--yes"], 0)] {
        let around = tempfile::tempdir().unwrap();
        let (path, mark) = (around.path().join("sockets"), around.path().join("mark"));
        let silent = Silent::open_with(&path, &mark, &format!("{away}\n{SILENT}"));
        let (name, server) = (silent.shim.id().to_string(), silent.server(&path));
        let begun = Instant::now();
        let away = loop {
            match fs::read_to_string(mark.with_extension("away")) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => assert!(begun.elapsed() < Duration::from_secs(30), "it has not begun"),
            }
        };
        let session = if arguments[0] == "end" { Some(&*name) } else { None };
        let said = say(&path, &arguments.iter().copied().chain(session).collect::<Vec<_>>());
        silent.expect_end(server);
        let note = format!("note: {name}: its server has ended; 1 process of its session still runs: {away} sleep; ");
        assert_eq!((said.code, said.stderr), (code, format!("{note}`rescind reap {name}` ends it\n")));
        let lives = || Path::new(&format!("/proc/{away}/cwd")).exists();
        assert!(lives(), "it is true");
        assert_eq!(say(&path, &["reap", "--yes", &name]).code, 0);
        assert!(!lives());
    }
}
