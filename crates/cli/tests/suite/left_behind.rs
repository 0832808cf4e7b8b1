//! What sessions leave behind, however they end: it is listed, and ended, and nothing else is.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rescind_ledger::identity::ProcessId;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::Value;

use crate::shim::PROGRAM;

/// A server, and what it starts: `sh -c $WORKER worker FOLDER KIND`. It reads until its input ends, or from a pipe into
/// which no one writes, so that it has no child to wait for.
const WORKER: &str = r#"
    forever() { while :; do read line <&9; done; }
    exec 9<>"$1/never"
    case $2 in
        forks) sh -c "$WORKER" worker "$1" stays & ;;
        daemon) setsid sh -c "$WORKER" worker "$1" forks-more & ;;
        forks-more) sh -c "$WORKER" worker "$1" stays-deaf & sh -c "$WORKER" worker "$1" stays & forever ;;
        deaf) trap '' TERM INT HUP; setsid sh -c "$WORKER" worker "$1" stays-deaf & ;;
        stripped) setsid sh -c "$WORKER" worker "$1" strips & ;;
        strips) env -i WORKER="$WORKER" PATH="$PATH" sh -c "$WORKER" worker "$1" stays & forever ;;
        stays) forever ;;
        stays-deaf) trap '' TERM INT HUP; forever ;;
    esac
    echo '{"jsonrpc":"2.0","method":"started"}'
    while read line; do :; done
    [ "$2" != deaf ] || forever
"#;

/// A client: it starts a shim, holds the end of its input, and waits.
const CLIENT: &str = r#"
    mkfifo "$2/input"
    exec 3<>"$2/input"
    "$RESCIND" run --finish 20ms sh -c "$WORKER" worker "$1" "$3" <"$2/input" >"$2/output" 3>&- &
    echo $!
    wait
"#;

/// A folder in which sessions run, with sockets of their own.
struct World {
    folder: tempfile::TempDir,
}

/// A client with its shim.
struct Session {
    client: Child,
    shim: ProcessId,
    output: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("mkfifo").arg(folder.path().join("never")).status().unwrap().success());
        std::fs::create_dir(folder.path().join("sockets")).unwrap();
        Command::new("chmod").arg("700").arg(folder.path().join("sockets")).status().unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("RESCIND_RUNTIME_DIR", self.path().join("sockets")).env("WORKER", WORKER).env("RESCIND", PROGRAM);
        command
    }

    fn rescind(&self, arguments: &[&str]) -> Output {
        self.command(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts a client whose server is of this kind. The server may not have started yet.
    fn session(&self, kind: &str) -> Session {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let own = self.path().join(SESSIONS.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir(&own).unwrap();
        let mut client = self.command("sh");
        client.args(["-c", CLIENT, "client"]).arg(self.path()).arg(&own).arg(kind);
        let mut client = client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let shim = ProcessId::of(line.trim().parse().unwrap()).unwrap();
        Session { client, shim, output: own.join("output") }
    }

    /// The processes that run `worker` for this world, as `/proc` has them.
    fn workers(&self) -> BTreeSet<u64> {
        let wanted = format!("\0worker\0{}\0", self.path().display());
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let running = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let mut line = Vec::new();
            std::fs::File::open(entry.path().join("cmdline")).ok()?.read_to_end(&mut line).ok()?;
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            (name == "sh\n" && String::from_utf8_lossy(&line).contains(&wanted)).then_some(pid)
        });
        running.collect()
    }

    /// The processes that `rescind ps --orphans` lists.
    fn orphans(&self) -> BTreeSet<u64> {
        let listed: Value = serde_json::from_slice(&self.rescind(&["ps", "--orphans", "--json"]).stdout).unwrap();
        let sessions = listed["sessions"].as_array().unwrap();
        let processes = sessions.iter().flat_map(|session| session["processes"].as_array().unwrap());
        processes.map(|process| process["pid"].as_u64().unwrap()).collect()
    }

    /// Starts a worker that belongs to no session.
    fn double(&self, kind: &str) -> Child {
        let mut command = self.command("setsid");
        command.args(["sh", "-c", WORKER, "worker"]).arg(self.path()).arg(kind);
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for World {
    /// A test that fails leaves nothing either.
    fn drop(&mut self) {
        self.rescind(&["reap", "--yes", "--grace", "50ms"]);
    }
}

impl Session {
    /// Waits until the server has started all that it starts.
    fn expect_started(&self) {
        eventually("the server to start", || {
            let said = std::fs::read_to_string(&self.output).unwrap_or_default();
            said.contains("started").then_some(())
        });
    }

    /// The watcher, if it has started.
    fn guard(&self) -> Option<ProcessId> {
        let children = format!("/proc/{0}/task/{0}/children", self.shim.pid);
        let children = std::fs::read_to_string(children).ok()?;
        let mut children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        children.find(|pid| name(pid) == "shim-guard\n").and_then(ProcessId::of)
    }

    /// Waits until the shim has ended.
    fn expect_end(&self) {
        eventually("the shim to end", || (!self.shim.is_alive()).then_some(()));
    }

    fn kill_client(&mut self) {
        let _ = self.client.kill();
        self.client.wait().unwrap();
        // It is not a shim yet, and waits for ever for a client to open its input.
        if std::fs::read_to_string(format!("/proc/{}/comm", self.shim.pid)).is_ok_and(|name| name == "sh\n") {
            kill(self.shim);
        }
    }
}

/// Kills a process that has not ended yet.
fn kill(id: ProcessId) {
    let Some(pid) = Pid::from_raw(id.pid.try_into().unwrap()) else { return };
    let Ok(held) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    if id.is_alive() {
        let _ = rustix::process::pidfd_send_signal(held, Signal::KILL);
    }
}

/// Looks again and again, for a minute at most.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_processes_of_a_session_are_listed_as_a_tree_with_its_client() {
    let world = World::new();
    let mut session = world.session("daemon");
    session.expect_started();
    let workers = eventually("the daemon's children", || Some(world.workers()).filter(|workers| workers.len() == 4));
    let listed: Value = serde_json::from_slice(&world.rescind(&["ps", "--processes", "--json"]).stdout).unwrap();
    let entry = &listed["sessions"][0];
    assert_eq!(entry["shim"], serde_json::json!({ "pid": session.shim.pid, "alive": true }));
    assert_eq!(entry["client"], serde_json::json!({ "pid": session.client.id(), "name": "sh", "alive": true }));
    let all = entry["processes"].as_array().unwrap();
    let of = |pid: u64| all.iter().find(|process| process["pid"] == pid).unwrap();
    assert!(workers.iter().all(|pid| of(*pid)["memory"].as_u64() > Some(0)), "{listed:#}");
    let depths: BTreeSet<u64> = workers.iter().map(|pid| of(*pid)["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, BTreeSet::from([0, 1, 2]), "{listed:#}");
    assert_eq!((all.len(), world.orphans()), (5, BTreeSet::new()));
    let table = said(&world.rescind(&["ps", "--processes"]));
    assert!(table.contains(&format!("client: sh ({})", session.client.id())), "{table}");
    session.kill_client();
    world.rescind(&["reap", "--yes"]);
    let table = said(&world.rescind(&["ps", "--processes"]));
    session.expect_end();
    assert!(table.contains("its client has ended") || !table.contains(&session.shim.pid.to_string()), "{table}");
    assert!(world.rescind(&["reap", "--yes", "--grace", "100ms"]).status.success());
    assert_eq!(world.workers(), BTreeSet::new());
}

#[test]
fn what_a_session_leaves_is_shown_before_it_is_ended() {
    let world = World::new();
    let mut session = world.session("daemon");
    session.expect_started();
    session.kill_client();
    session.expect_end();
    let left = eventually("the server to end", || Some(world.workers()).filter(|workers| workers.len() == 3));
    assert_eq!(world.orphans(), left);
    for (arguments, code, words) in [
        (&["reap", "--dry-run"][..], 0, "left"),
        (&["reap"], 2, "would end 3, and cannot ask without a terminal"),
        (&["reap", "--yes", "no-such-thing"], 2, "no session or process of this name has left anything"),
    ] {
        let output = world.rescind(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
        assert_eq!(world.workers(), left);
    }
    // One branch, then the rest.
    let leaf = left.last().unwrap().to_string();
    assert!(world.rescind(&["reap", "--yes", "--grace", "50ms", &leaf]).status.success());
    assert_eq!(world.workers().len(), 2);
    let output = world.rescind(&["reap", "--yes", "--grace", "50ms", &session.shim.pid.to_string()]);
    assert!(output.status.success() && world.workers().is_empty(), "{}", said(&output));
    let again = world.rescind(&["reap", "--yes"]);
    assert!(again.status.success() && said(&again).contains("no process of an ended session is left"));
}

#[test]
fn a_session_that_runs_is_not_reaped() {
    let world = World::new();
    let mut session = world.session("daemon");
    session.expect_started();
    let workers = eventually("the daemon's children", || Some(world.workers()).filter(|workers| workers.len() == 4));
    let output = world.rescind(&["reap", "--yes", &session.shim.pid.to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("is still running"), "{}", said(&output));
    assert!(world.rescind(&["reap", "--yes"]).status.success());
    assert_eq!(world.workers(), workers);
    session.kill_client();
    session.expect_end();
    assert!(world.rescind(&["reap", "--yes", "--grace", "50ms"]).status.success());
}

/// There the same processes have started at other times. Skipped where this user may not make such a namespace.
#[test]
#[expect(clippy::print_stdout, reason = "says that it is skipped")]
fn a_session_is_left_alone_by_a_reader_in_another_time_namespace() {
    // The first reads what processes have as their mark; root alone may make it.
    const ELSEWHERE: [&[&str]; 2] = [
        &["--time", "--fork", "--boottime", "100000"],
        &["--user", "--map-root-user", "--time", "--fork", "--boottime", "100000"],
    ];
    let may_be = |how: &&[&str]| {
        let mut command = Command::new("unshare");
        let tried = command.args(*how).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(how) = ELSEWHERE.into_iter().find(may_be) else {
        println!("left out: this user may not make a time namespace");
        return;
    };
    let world = World::new();
    let mut session = world.session("daemon");
    session.expect_started();
    let workers = eventually("the daemon's children", || Some(world.workers()).filter(|workers| workers.len() == 4));
    let elsewhere = |arguments: &[&str]| {
        let mut command = world.command("unshare");
        command.args(how).arg(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let listed: Value = serde_json::from_slice(&elsewhere(&["ps", "--orphans", "--json"]).stdout).unwrap();
    assert_eq!(listed["sessions"], serde_json::json!([]), "{listed:#}");
    for arguments in [&["reap", "--yes", "--grace", "50ms"][..], &["reap", "--yes", &session.shim.pid.to_string()]] {
        elsewhere(arguments);
        assert_eq!(world.workers(), workers, "{arguments:?}");
    }
    let records = std::fs::read_dir(world.path().join("sockets")).unwrap().filter_map(Result::ok);
    let records = records.filter(|entry| entry.path().extension().is_some_and(|suffix| suffix == "session"));
    assert_eq!(records.count(), 1, "its record is kept");
    session.kill_client();
    session.expect_end();
    assert!(world.rescind(&["reap", "--yes", "--grace", "50ms"]).status.success());
}

/// The directory of a reader may be written otherwise than that of the shim.
#[test]
fn what_a_session_leaves_is_found_by_every_spelling_of_its_directory() {
    let world = World::new();
    let mut session = world.session("daemon");
    session.expect_started();
    session.kill_client();
    session.expect_end();
    let left = eventually("the server to end", || Some(world.workers()).filter(|workers| workers.len() == 3));
    std::os::unix::fs::symlink(world.path(), world.path().join("link")).unwrap();
    let reap = |spelling: &str, arguments: &[&str]| {
        let mut command = world.command(PROGRAM);
        command.env("RESCIND_RUNTIME_DIR", spelling).current_dir(world.path());
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let path = |tail: &str| format!("{}/{tail}", world.path().display());
    for spelling in [
        path("sockets/"),
        path("sockets//"),
        path("/sockets"),
        path("./sockets/."),
        path("sockets/../sockets"),
        path("link/sockets"),
        "sockets".to_owned(),
        "./sockets/".to_owned(),
    ] {
        let listed: Value = serde_json::from_slice(&reap(&spelling, &["ps", "--orphans", "--json"]).stdout).unwrap();
        let processes = listed["sessions"][0]["processes"].as_array().map_or(0, Vec::len);
        assert_eq!(processes, left.len(), "{spelling}: {listed:#}");
    }
    let output = reap(&path("sockets/"), &["reap", "--yes", "--grace", "50ms"]);
    assert!(output.status.success() && world.workers().is_empty(), "{}", said(&output));
}

/// Clients, shims and watchers are killed in any order at any moment, also while a record is being written.
#[test]
fn whatever_is_killed_what_is_left_is_listed_and_reaped_and_nothing_else() {
    const ROUNDS: u64 = 200;
    const KINDS: [&str; 4] = ["forks", "daemon", "deaf", "stripped"];
    let world = World::new();
    let mut doubles: Vec<Child> = ["stays", "stays-deaf", "forks-more"].map(|kind| world.double(kind)).into();
    eventually("the doubles", || (world.workers().len() == 5).then_some(()));
    let mut live = world.session("daemon");
    live.expect_started();
    let untouched = eventually("the daemon", || Some(world.workers()).filter(|workers| workers.len() == 9));

    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if round >= ROUNDS {
                        return;
                    }
                    let mut chance = Chance(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                    let mut session = world.session(KINDS[chance.below(4)]);
                    if chance.below(2) == 0 {
                        session.expect_started();
                    }
                    let mut victims = ["client", "shim", "guard"];
                    victims.swap(0, chance.below(3));
                    victims.swap(1, 1 + chance.below(2));
                    let spared = chance.below(2);
                    for victim in &victims[..3 - spared] {
                        // A moment to let the others go on; any moment is right.
                        std::thread::sleep(Duration::from_micros(chance.below(20_000) as u64));
                        match *victim {
                            "client" => session.kill_client(),
                            "shim" => kill(session.shim),
                            _ => session.guard().into_iter().for_each(kill),
                        }
                    }
                    if session.client.try_wait().unwrap().is_none() {
                        session.kill_client();
                    }
                    session.expect_end();
                }
            });
        }
    });
    // The last watchers are still at work.
    let left = eventually("the orphans to be those that run", || {
        let (orphans, workers) = (world.orphans(), world.workers());
        let left: BTreeSet<u64> = workers.difference(&untouched).copied().collect();
        (orphans == left).then_some(left)
    });
    assert!(left.len() > 100, "{}", left.len());
    let output = world.rescind(&["reap", "--yes", "--grace", "300ms"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(world.workers(), untouched);
    assert_eq!(world.orphans(), BTreeSet::new());
    let records = std::fs::read_dir(world.path().join("sockets")).unwrap().filter_map(Result::ok);
    let records = records.filter(|entry| entry.path().extension().is_some_and(|suffix| suffix == "session"));
    assert_eq!(records.count(), 1, "only the record of the session that runs is kept");

    live.kill_client();
    live.expect_end();
    assert!(world.rescind(&["reap", "--yes", "--grace", "100ms"]).status.success());
    let ours: BTreeSet<u64> = world.workers();
    assert_eq!(ours.len(), 5, "the doubles live on");
    for double in &mut doubles {
        let group = Pid::from_raw(double.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process_group(group, Signal::KILL).unwrap();
        double.wait().unwrap();
    }
}

/// Two have the same arguments, and one of them can still be written to.
#[test]
fn what_clients_have_left_without_a_shim_is_found_by_its_arguments() {
    const LEAVE: &str = r#"exec 8<&0; "$@" <&8 >/dev/null & echo $!"#;
    let world = World::new();
    // They do not read their input, and so do not notice its end.
    let file = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
    let start = |name: &str| {
        std::fs::write(file(name), "").unwrap();
        let mut launcher = world.command("sh");
        launcher.args(["-c", LEAVE, "launcher", "tail", "-f", &file(name)]);
        let mut launcher = launcher.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let input = launcher.stdin.take().unwrap();
        launcher.wait().unwrap();
        let id = ProcessId::of(line.trim().parse().unwrap()).unwrap();
        eventually("it to become the command", || {
            std::fs::read_to_string(format!("/proc/{}/comm", id.pid)).is_ok_and(|name| name == "tail\n").then_some(())
        });
        (id, input)
    };
    let (left, input) = start("one");
    let (used, still_used) = start("one");
    let (other, other_input) = start("two");
    drop((input, other_input));
    let adopt = ["reap", "--adopt", "--grace", "100ms"];
    let one = file("one");
    let command = ["--", "tail", "-f", &one];
    let shown = world.rescind(&[&adopt[..], &["--dry-run"], &command[..]].concat());
    assert!(said(&shown).starts_with(&left.pid.to_string()) && left.is_alive(), "{}", said(&shown));
    let output = world.rescind(&[&adopt[..], &["--yes"], &command[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!([left, used, other].map(ProcessId::is_alive), [false, true, true], "{}", said(&output));
    drop(still_used);
    let output = world.rescind(&[&adopt[..], &["--yes"], &command[..]].concat());
    assert_eq!((used.is_alive(), other.is_alive()), (false, true), "{}", said(&output));
    kill(other);
}

/// The same numbers in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % 1_000_003).unwrap() % limit
    }
}

/// It is installed on many machines and starts on few: no session has used it.
#[test]
fn an_engine_that_does_not_run_and_was_never_used_is_warned_of_once() {
    let home = crate::wrap::Home::new();
    let docker = home.put(Path::new("bin/docker"), b"#!/bin/sh\necho 'Is the docker daemon running?' >&2\nexit 1\n");
    std::fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = |words: &[&str]| {
        let mut command = home.command(words);
        command.env("PATH", docker.parent().unwrap());
        command.env("RESCIND_RUNTIME_DIR", home.path().join("run"));
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let first = said(&["ps", "--orphans"]);
    assert!(first.contains("docker ps: Is the docker daemon running?; its containers are not listed"), "{first}");
    for words in [&["ps", "--orphans"][..], &["reap", "--dry-run"], &["ps", "--orphans", "--json"]] {
        let said = said(words);
        assert!(!said.contains("docker"), "{words:?}: {said}");
    }
    // Another reason is news.
    std::fs::write(&docker, "#!/bin/sh\necho 'permission denied' >&2\nexit 1\n").unwrap();
    assert!(said(&["ps", "--orphans"]).contains("docker ps: permission denied"));
}
