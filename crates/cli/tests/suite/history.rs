//! What has ended stays known: `rescind ps --history`, and what `run` and `serve` keep for it on disk.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use rescind_ledger::history::past::History;
use rescind_testkit::puppet::{Rig, Service};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    operator::{self, Said},
    shim::{
        PROGRAM,
        words::{
            cancelled, error, expect_alive, greet_mcp, notification, pass_to_client, pass_to_server, request,
            request_with, result, with_token,
        },
    },
};

const MCP: &str = "2025-11-25";

/// Only a failing test ever waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A home for the history of a test.
struct Home {
    around: tempfile::TempDir,
    /// The command, with this home.
    program: String,
}

impl Home {
    fn new() -> Self {
        Self::with("")
    }

    /// The command is started after these lines of a shell.
    fn with(lines: &str) -> Self {
        let around = tempfile::tempdir().unwrap();
        let program = around.path().join("rescind");
        let home = around.path().display();
        let script = format!(
            "#!/bin/sh\nunset RESCIND_NO_HISTORY\nexport HOME='{home}' XDG_STATE_HOME='{home}/state'\n{lines}\nexec '{PROGRAM}' \"$@\"\n"
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
        // What tests start lies beside the command.
        std::os::unix::fs::symlink(Path::new(PROGRAM).with_file_name("examples"), around.path().join("examples"))
            .unwrap();
        Self { program: program.to_str().unwrap().to_owned(), around }
    }

    /// What `rescind` keeps for long.
    fn state(&self) -> PathBuf {
        let home = self.around.path();
        if cfg!(target_os = "macos") {
            home.join("Library/Application Support/rescind")
        } else {
            home.join("state/rescind")
        }
    }

    fn folder(&self) -> PathBuf {
        self.state().join("history")
    }

    fn rig(&self, flags: &[&str]) -> Rig {
        let mut rig = Rig::builder(&self.program).flags(flags.iter().copied()).start();
        greet_mcp(&mut rig, MCP);
        rig
    }

    fn read(&self) -> History {
        History::read(&self.folder()).unwrap()
    }

    /// Waits until the history is such.
    fn until(&self, is_so: impl Fn(&History) -> bool) -> History {
        let begun = Instant::now();
        loop {
            let history = self.read();
            if is_so(&history) {
                return history;
            }
            assert!(begun.elapsed() < PATIENCE, "{history:#?}");
            std::thread::yield_now();
        }
    }

    fn ps(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(&self.program);
        command.args(["ps", "--history"]).args(arguments);
        operator::end(command)
    }

    /// All that is on disk.
    fn text(&self) -> String {
        let files = fs::read_dir(self.folder()).unwrap();
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }
}

fn call(id: u32) -> String {
    request_with(&id.to_string(), "tools/call", r#"{"name":"fetch","arguments":{"url":"SECRET"}}"#)
}

/// A call and its answer pass.
fn exchange(rig: &mut Rig, id: u32) {
    pass_to_server(rig, &call(id));
    pass_to_client(rig, &result(&id.to_string(), r#"{"content":"SECRET"}"#));
}

fn end(mut rig: Rig) -> i32 {
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    rig.shim.expect_said_nothing();
    rig.shim.id
}

/// How many requests are known of the one session.
fn ends(history: &History) -> usize {
    history.sessions.first().map_or(0, |past| past.requests.len())
}

/// The threads of a process.
#[cfg(target_os = "linux")]
fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.ok()?)).map(|name| name.trim_end().to_owned()).collect()
}

#[test]
fn what_has_ended_is_listed_after_the_end_of_its_session_and_nothing_that_was_said() {
    let home = Home::new();
    let mut rig = home.rig(&[]);
    exchange(&mut rig, 1);
    pass_to_server(&mut rig, &call(2));
    pass_to_server(&mut rig, &notification("notifications/cancelled", r#"{"requestId":2,"reason":"SECRET"}"#));
    pass_to_server(&mut rig, &call(3));
    pass_to_client(&mut rig, &error("3", -32000, "SECRET"));
    let name = end(rig);
    let said = home.ps(&[]);
    assert_eq!((said.code, &*said.stderr), (0, ""));
    let lines: Vec<&str> = said.stdout.lines().collect();
    let heading: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(heading, ["ENDED", "ID", "CLIENT", "SERVER", "METHOD", "TOOK", "HOW", "CANCEL"]);
    assert_eq!(lines.len(), 5);
    let has = |line: &str, words: &[&str]| assert!(words.iter().all(|word| line.contains(word)), "{line} {words:?}");
    has(lines[1], &[&format!("{name}/hello"), "initialize", "result"]);
    has(lines[2], &[&format!("{name}/1 "), "test", "tools/call:fetch", "result"]);
    has(lines[3], &[&format!("{name}/2 "), "cancelled", "sent; MCP does not confirm"]);
    has(lines[4], &[&format!("{name}/3 "), "error -32000"]);
    let document: Value = serde_json::from_str(&home.ps(&["--json", "--method", "tools/call:fetch"]).stdout).unwrap();
    let past = &document["history"][0];
    assert_eq!((&past["end"]["exitCode"], &past["running"]), (&0.into(), &false.into()));
    assert_eq!(past["requests"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&past["requests"][0]["label"], &past["requests"][0]["name"]),
        (&format!("{name}/1").into(), &"fetch".into())
    );
    assert!(!home.text().contains("SECRET"), "{}", home.text());
}

#[test]
fn the_history_is_closed_to_others() {
    let home = Home::new();
    end(home.rig(&[]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.folder()), 0o700);
    let files: Vec<PathBuf> = fs::read_dir(home.folder()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!((files.len(), mode(&files[0])), (1, 0o600));
}

#[test]
fn the_last_ends_are_listed_last_and_of_the_session_that_is_named() {
    let home = Home::new();
    let mut first = home.rig(&[]);
    exchange(&mut first, 1);
    let first = end(first);
    let mut second = home.rig(&[]);
    (1..=4).for_each(|id| exchange(&mut second, id));
    let second = end(second);
    let said = home.ps(&["--limit", "2"]);
    assert_eq!(said.stderr, "note: 5 earlier ones are not listed: --limit N lists more\n");
    let ids: Vec<&str> = said
        .stdout
        .lines()
        .skip(1)
        .filter_map(|line| line.split("  ").map(str::trim).find(|word| word.contains('/')))
        .collect();
    assert_eq!(ids, [format!("{second}/3"), format!("{second}/4")]);
    let said = home.ps(&["--session", &first.to_string()]);
    assert_eq!(said.stdout.lines().count(), 3, "{said:?}");
    // By the names of its entry and its client, also of several sessions.
    let named = |client: &str| end(home.rig(&["--name=github", &format!("--client-name={client}")]));
    let (zed, cursor) = (named("zed"), named("cursor"));
    let of = |name: &str| {
        let said = home.ps(&["--session", name]);
        let cells = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .skip(1)
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        };
        said.stdout.lines().skip(1).map(cells).collect::<Vec<_>>()
    };
    let [of_zed, of_cursor] = [format!("{zed}/hello zed github"), format!("{cursor}/hello cursor github")];
    assert_eq!(of("github"), [of_zed, of_cursor.clone()]);
    assert_eq!(of("cursor:github"), [of_cursor]);
    let said = home.ps(&["--session", "nobody"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("error: nobody: no history of such a session\nhint: "), "{said:?}");
}

#[test]
fn a_session_that_runs_has_a_history_too() {
    let home = Home::new();
    let mut rig = home.rig(&[]);
    exchange(&mut rig, 1);
    let history = home.until(|history| ends(history) == 2);
    assert!(history.sessions[0].is_live && history.sessions[0].end.is_none());
    expect_alive(&mut rig);
}

#[test]
fn what_a_cancel_learns_after_the_end_is_in_the_history() {
    let home = Home::new();
    let mut rig = home.rig(&[]);
    pass_to_server(&mut rig, &request_with("1", "tools/call", &with_token("1")));
    pass_to_server(&mut rig, &cancelled("1"));
    let words = |history: &History, words: &str| {
        let of = |past: &rescind_ledger::history::past::PastSession| {
            past.requests
                .iter()
                .any(|request| request.cancel.as_ref().is_some_and(|cancel| cancel.words.starts_with(words)))
        };
        history.sessions.iter().any(of)
    };
    home.until(|history| words(history, "sent; MCP does not confirm"));
    rig.server.send(&result("1", "{}"));
    home.until(|history| words(history, "answered after"));
    expect_alive(&mut rig);
}

#[test]
fn a_kill_loses_nothing_that_was_written_before_it() {
    let home = Home::new();
    let mut rig = home.rig(&[]);
    (1..=20).for_each(|id| exchange(&mut rig, id));
    home.until(|history| ends(history) == 21);
    rig.shim.kill(Signal::KILL);
    rig.shim.wait();
    let history = home.read();
    assert_eq!((ends(&history), history.torn, history.damaged), (21, 0, 0));
    assert!(!history.sessions[0].is_live && history.sessions[0].end.is_none());
    // As if it had been killed in the middle of the next one.
    let file = fs::read_dir(home.folder()).unwrap().next().unwrap().unwrap().path();
    fs::write(&file, fs::read_to_string(&file).unwrap() + r#"{"event":"changes","requests":[{"key":"c22","fr"#)
        .unwrap();
    let said = home.ps(&[]);
    assert_eq!(said.stdout.lines().count(), 22);
    assert_eq!(
        said.stderr,
        "note: 1 file breaks off in the middle of a line: a session was killed, or the disk was full\n"
    );
    // Another session goes on beside it.
    end(home.rig(&[]));
    assert_eq!(home.read().sessions.len(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_in_which_nothing_has_ended_has_no_thread_and_no_file_for_it() {
    let home = Home::new();
    let mut rig = Rig::start(&home.program);
    pass_to_server(&mut rig, &request("1", "initialize"));
    assert!(!threads(rig.shim.id).contains(&"history".to_owned()) && !home.state().exists());
    pass_to_client(&mut rig, &result("1", "{}"));
    home.until(|history| ends(history) == 1);
    let begun = Instant::now();
    while threads(rig.shim.id).contains(&"history".to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the thread stays");
        std::thread::yield_now();
    }
    pass_to_server(&mut rig, &request("2", "ping"));
    pass_to_client(&mut rig, &result("2", "{}"));
    home.until(|history| ends(history) == 2);
    assert_eq!(fs::read_dir(home.folder()).unwrap().count(), 1);
}

#[test]
fn a_session_keeps_none_if_it_is_told_so_or_is_not_listed() {
    for (lines, flag) in [("", "--no-history"), ("", "--unlisted"), ("export RESCIND_NO_HISTORY=1", "--no-hold")] {
        let home = Home::with(lines);
        let mut rig = home.rig(&[flag]);
        exchange(&mut rig, 1);
        end(rig);
        assert!(!home.state().exists(), "{lines} {flag}");
        let said = home.ps(&[]);
        assert_eq!((said.code, &*said.stdout), (0, ""));
        assert!(said.stderr.starts_with("nothing that has ended is kept in "), "{said:?}");
    }
}

#[test]
fn a_home_that_does_not_exist_is_not_made_for_it() {
    let home = Home::with("export HOME=\"$HOME/nowhere\"; unset XDG_STATE_HOME");
    let mut rig = home.rig(&[]);
    exchange(&mut rig, 1);
    end(rig);
    assert!(!home.around.path().join("nowhere").exists());
}

/// The session cannot write, for this reason.
fn expect_warning(rig: &mut Rig, why: &str) {
    let line = rig.shim.stderr.line();
    assert_eq!(line, format!("warning: rescind ps --history does not have all of this session: {why}"));
    assert_eq!(rig.shim.stderr.line(), "hint: --no-history (or RESCIND_NO_HISTORY=1) keeps none");
}

/// It goes on and ends, and warns no more.
fn expect_nothing_else(mut rig: Rig) {
    (100..120).for_each(|id| exchange(&mut rig, id));
    rig.server.exit(0);
    rig.shim.expect_exit(0);
    assert_eq!(String::from_utf8(rig.shim.stderr.rest()).unwrap(), "");
}

#[test]
fn a_folder_that_cannot_be_made_ends_no_session_and_is_told_once() {
    let home = Home::new();
    fs::create_dir_all(home.state().parent().unwrap()).unwrap();
    fs::write(home.state(), "").unwrap();
    let mut rig = home.rig(&[]);
    expect_warning(&mut rig, "Not a directory (os error 20)");
    expect_nothing_else(rig);
}

/// The kernel sends SIGXFSZ for it, whose default is death.
#[test]
fn a_limit_on_file_sizes_ends_no_session_and_is_told_once() {
    let home = Home::with("ulimit -f 0");
    let mut rig = home.rig(&[]);
    expect_warning(&mut rig, "file too large");
    expect_nothing_else(rig);
    assert_eq!(fs::read_dir(home.folder()).unwrap().count(), 0);
}

#[test]
fn files_within_a_limit_on_file_sizes_are_as_small_as_it_wants() {
    // Blocks are of 512 bytes, or of 1024.
    let home = Home::with("ulimit -f 8");
    let mut rig = home.rig(&[]);
    (1..=60).for_each(|id| exchange(&mut rig, id));
    end(rig);
    assert_eq!(ends(&home.read()), 61);
    assert!(fs::read_dir(home.folder()).unwrap().count() > 1);
}

/// Left out where this user may not mount.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::print_stdout, reason = "says that it is left out")]
fn a_full_disk_ends_no_session_and_is_told_once_and_what_fits_is_there() {
    const OWN_MOUNTS: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    if !Command::new("unshare").args(OWN_MOUNTS).arg("true").status().is_ok_and(|status| status.success()) {
        println!("left out: this user may not mount");
        return;
    }
    let home = Home::new();
    let state = home.state();
    fs::create_dir_all(&state).unwrap();
    // Two pages.
    let mount = format!("mount -t tmpfs -o size=8k,mode=700 none '{}' && exec \"$@\"", state.display());
    let under = ["unshare"].into_iter().chain(OWN_MOUNTS).chain(["sh", "-c", &mount, "sh"]);
    let mut rig = Rig::builder(&home.program).under(under).start();
    greet_mcp(&mut rig, MCP);
    (1..=60).for_each(|id| exchange(&mut rig, id));
    expect_warning(&mut rig, "No space left on device (os error 28)");
    let seen = format!("/proc/{}/root{}", rig.shim.id, home.folder().display());
    let history = History::read(Path::new(&seen)).unwrap();
    assert!((1..61).contains(&ends(&history)) && history.damaged == 0, "{history:#?}");
    expect_nothing_else(rig);
}

/// A session of the next century, and a file of that time, as a clock leaves them that was wrong for a while.
#[test]
fn a_clock_that_was_far_in_the_future_makes_no_age_negative_and_hides_nothing() {
    let home = Home::new();
    let mut rig = home.rig(&[]);
    exchange(&mut rig, 1);
    end(rig);
    let started = home.read().sessions[0].session.started;
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let later = started + u64::try_from(century.as_micros()).unwrap();
    let path = home.folder().join("200.jsonl");
    fs::write(&path, home.text().replace(&started.to_string(), &later.to_string())).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() + century).unwrap();
    end(home.rig(&[]));
    let said = home.ps(&[]);
    assert_eq!((said.code, said.stdout.lines().count()), (0, 6), "{said:?}");
    assert!(said.stdout.lines().last().unwrap().starts_with("just now "), "{said:?}");
}

#[test]
fn what_a_service_has_served_is_in_the_history() {
    let home = Home::new();
    let service = Service::start(&home.program, [] as [&str; 0]);
    let mut session = service.open_session(MCP);
    let mut connection = service.connect();
    connection.post(&session.headers(), &call(1));
    let asked = session.server.receive();
    let id = rescind_proto::json::member(asked.as_bytes(), "id").map(|id| String::from_utf8_lossy(id).into_owned());
    session.server.send(&result(&id.unwrap(), "{}"));
    let head = connection.head();
    connection.message(&head);
    let history = home.until(|history| {
        history.sessions.iter().flat_map(|past| &past.requests).any(|request| request.name.as_deref() == Some("fetch"))
    });
    assert_eq!(history.torn + history.damaged, 0);
    assert!(!home.text().contains("SECRET"));
}
