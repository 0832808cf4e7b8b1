//! Two hundred sessions keep their history in one folder at once, each in a process of its own, and some are killed.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader, Read, Write, stdin, stdout},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use rescind_ledger::history::{SLOT_SIZE, SLOTS, journal::Journal, past::History};
use serde_json::json;

const SESSIONS: u64 = 200;

/// Events of a session: more than all files hold of two hundred.
const EVENTS: u64 = 120;

const FOLDER: &str = "HISTORY_OF_THE_TEST";
const SESSION: &str = "SESSION_OF_THE_TEST";

struct Alarm(mpsc::Sender<()>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn line(value: &serde_json::Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// One session, in a process that the test below starts. Alone it does nothing.
#[test]
fn a_session_of_the_two_hundred() {
    let (Some(folder), Ok(name)) = (env::var_os(FOLDER), env::var(SESSION)) else { return };
    let side = json!({"protocol": "mcp-2025-11-25"});
    let session = json!({"version": 1, "name": name, "program": "rescind", "pid": 1, "ancestors": [], "serverPid": null,
        "command": [], "started": 5, "client": side, "server": side});
    let journal = Journal::new(PathBuf::from(folder), &name, 5);
    journal.begin(line(
        &json!({"event": "snapshot", "seq": 0, "now": 0, "session": session, "requests": [], "inFlight": 0}),
    ));
    let (rings, rung) = mpsc::channel();
    let waker = Waker::from(Arc::new(Alarm(rings)));
    for seq in 1..=EVENTS {
        let request = json!({"key": format!("c{seq}"), "from": "client", "id": "1", "method": "x".repeat(500), "since": 1,
            "state": "ended", "settled": {"at": seq, "how": "result"}});
        let event =
            json!({"event": "changes", "seq": seq, "now": seq, "requests": [request], "brief": 0, "inFlight": 0});
        journal.append(line(&event), 1);
        while journal.poll_written(&Context::from_waker(&waker)).is_pending() {
            rung.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }
    // No more than its own failure would be told.
    let said = format!("{} {:?}", journal.left_out(), journal.failure());
    writeln!(stdout(), "\nwritten {said}").unwrap();
    // It lives until it is told to end, or killed.
    let _ = stdin().read(&mut [0]);
}

struct Session {
    process: Child,
    input: Option<ChildStdin>,
}

impl Session {
    fn begin(folder: &Path, number: u64) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "a_session_of_the_two_hundred", "--nocapture"]);
        command.env(FOLDER, folder).env(SESSION, number.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        Self { process, input }
    }

    /// Waits until all is written; what it says of that.
    fn written(&mut self) -> String {
        let lines = BufReader::new(self.process.stdout.take().unwrap()).lines();
        lines.map_while(Result::ok).find(|line| line.starts_with("written ")).unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The bytes of all files; what is removed meanwhile has none, and what takes its place is counted once.
fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let sizes: BTreeMap<_, _> =
        files.filter_map(|file| Some((file.file_name(), file.metadata().ok()?.len()))).collect();
    sizes.values().sum()
}

#[test]
fn two_hundred_sessions_at_once_keep_within_the_bound_and_none_loses_what_it_writes_while_it_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let most = u64::from(SLOTS) * SLOT_SIZE;
    let is_over = Arc::new(AtomicBool::new(false));
    let watch = {
        let (path, is_over) = (path.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut largest = 0;
            while !is_over.load(Ordering::Relaxed) {
                largest = largest.max(size(&path));
                thread::yield_now();
            }
            largest
        })
    };
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|number| Session::begin(&path, number)).collect();
    for session in &mut sessions {
        assert_eq!(session.written(), "written 0 None");
    }
    let history = History::read(&path).unwrap();
    let has_last = |history: &History| {
        let last = |past: &rescind_ledger::history::past::PastSession| {
            past.requests.last().is_some_and(|one| one.key == format!("c{EVENTS}"))
        };
        history.sessions.iter().filter(|past| last(past)).map(|past| past.session.name.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(has_last(&history).len() as u64, SESSIONS, "each session has its file");
    assert!(history.sessions.iter().all(|past| past.is_live));
    assert_eq!((history.torn, history.damaged), (0, 0));
    // Half of them are killed; those that come now take their room, and never that of the living.
    let (dead, alive): (Vec<_>, Vec<_>) = sessions.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
    drop(dead);
    let mut later: Vec<Session> = (0..SESSIONS / 2).map(|number| Session::begin(&path, 1000 + number)).collect();
    for session in &mut later {
        assert_eq!(session.written(), "written 0 None");
    }
    let last = has_last(&History::read(&path).unwrap());
    assert!(alive.iter().all(|(number, _)| last.contains(&number.to_string())));
    assert!((0..SESSIONS / 2).all(|number| last.contains(&(1000 + number).to_string())));
    is_over.store(true, Ordering::Relaxed);
    let largest = watch.join().unwrap();
    assert!(largest <= most && largest > most / 2, "{largest} of {most}");
}
