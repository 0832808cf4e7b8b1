//! With real `rescind run` processes, a thread of the test as the server of each: what it did is what counts.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rescind_testkit::puppet::{Framing, Rig};
use rustix::process::{Pid, Signal, kill_process};

use crate::shim::{
    PROGRAM, error_of,
    words::{
        error, expect_alive, greet_acp, greet_mcp, notification, pass_to_client, pass_to_server, progress,
        request_with, result,
    },
};

/// The time that `stop` has, in which all servers but the dead have long done what they do.
const WITHIN: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Mcp,
    Acp,
    Lsp,
}

/// What a server does about a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// It stops, and answers where its protocol has an answer.
    Polite,
    /// It works on, and reports so.
    Deaf,
    /// It works on for a while, and then answers.
    Working,
    /// Half of its answer is written when the cancel comes.
    Crossing,
    /// It never says anything.
    Mute,
    /// It exits.
    Exits,
    /// Its process is stopped before the cancel comes.
    Suspended,
    /// Its shim's process is.
    ShimSuspended,
}

/// What the work did, as the server knows.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    heard: bool,
    worked_on: bool,
    answered: bool,
    over: bool,
}

pub(super) struct Session {
    pub(super) rig: Rig,
    pub(super) dialect: Dialect,
    pub(super) temper: Temper,
    marks: Arc<Mutex<Marks>>,
}

fn greet_lsp(rig: &mut Rig) {
    rig.client.frame(Framing::Headers);
    rig.server.frame(Framing::Headers);
    pass_to_server(rig, &request_with("0", "initialize", r#"{"processId":1,"capabilities":{}}"#));
    pass_to_client(rig, &result("0", r#"{"capabilities":{}}"#));
    pass_to_server(rig, &notification("initialized", "{}"));
}

impl Dialect {
    /// A session with request 1 in flight.
    pub(super) fn open(self, sockets: &Path) -> Rig {
        let mut rig = Rig::builder(PROGRAM).sockets(sockets).start();
        self.begin(&mut rig);
        rig
    }

    /// Shakes hands and sends request 1.
    pub(super) fn begin(self, rig: &mut Rig) {
        let call = match self {
            Self::Mcp => {
                greet_mcp(rig, "2025-11-25");
                request_with("1", "tools/call", r#"{"name":"tool","_meta":{"progressToken":1}}"#)
            }
            Self::Acp => {
                greet_acp(rig, "", "");
                request_with("1", "session/prompt", r#"{"sessionId":"s","prompt":[]}"#)
            }
            Self::Lsp => {
                greet_lsp(rig);
                request_with("1", "textDocument/references", "{}")
            }
        };
        pass_to_server(rig, &call);
    }

    pub(super) const fn cancel(self) -> &'static str {
        match self {
            Self::Mcp => "notifications/cancelled",
            Self::Acp => "session/cancel",
            Self::Lsp => "$/cancelRequest",
        }
    }

    fn framed(self, message: &str) -> String {
        match self {
            Self::Mcp | Self::Acp => format!("{message}\n"),
            Self::Lsp => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
        }
    }

    fn answer(self) -> String {
        result("1", if self == Self::Acp { r#"{"stopReason":"end_turn"}"# } else { "{}" })
    }

    /// A sign of work.
    fn sign(self) -> String {
        match self {
            Self::Mcp => progress("1", 2),
            Self::Acp => notification("session/update", r#"{"sessionId":"s","update":{}}"#),
            Self::Lsp => notification("window/logMessage", "{}"),
        }
    }
}

impl Session {
    pub(super) fn open(sockets: &Path, dialect: Dialect, temper: Temper) -> Self {
        Self { rig: dialect.open(sockets), dialect, temper, marks: Arc::default() }
    }

    pub(super) fn name(&self) -> String {
        self.rig.shim.id.to_string()
    }

    fn mark(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.marks.lock().unwrap());
    }

    /// Does what this server does, until it has nothing more to do.
    pub(super) fn serve(mut self) -> Self {
        let answer = self.dialect.framed(&self.dialect.answer());
        let (begun, rest) = answer.split_at(answer.len() / 2);
        match self.temper {
            Temper::Crossing => self.rig.server.send_bytes(begun.as_bytes()),
            Temper::Suspended => {
                kill_process(Pid::from_raw(self.rig.server.puppet.id).unwrap(), Signal::STOP).unwrap();
                return self;
            }
            Temper::ShimSuspended => {
                self.rig.shim.kill(Signal::STOP);
                return self;
            }
            Temper::Polite | Temper::Deaf | Temper::Working | Temper::Mute | Temper::Exits => {}
        }
        let heard = self.rig.server.receive();
        assert!(heard.contains(self.dialect.cancel()), "{heard}");
        self.mark(|marks| marks.heard = true);
        match self.temper {
            Temper::Polite => {
                // First the work, then the word.
                self.mark(|marks| marks.over = true);
                match self.dialect {
                    Dialect::Mcp => {}
                    Dialect::Acp => self.rig.server.send(&result("1", r#"{"stopReason":"cancelled"}"#)),
                    Dialect::Lsp => self.rig.server.send(&error("1", -32800, "Request cancelled")),
                }
            }
            Temper::Deaf => {
                self.mark(|marks| marks.worked_on = true);
                self.rig.server.send(&self.dialect.sign());
            }
            Temper::Working => {
                self.mark(|marks| marks.worked_on = true);
                self.rig.server.send(&self.dialect.sign());
                self.mark(|marks| (marks.over, marks.answered) = (true, true));
                self.rig.server.send(&self.dialect.answer());
            }
            Temper::Crossing => {
                self.mark(|marks| (marks.over, marks.answered) = (true, true));
                self.rig.server.send_bytes(rest.as_bytes());
            }
            Temper::Exits => {
                self.mark(|marks| marks.over = true);
                self.rig.server.exit(3);
            }
            Temper::Mute | Temper::Suspended | Temper::ShimSuspended => {}
        }
        self
    }
}

/// The states that `stop` printed of each session, in order, and the last line.
pub(super) struct Told {
    pub(super) states: BTreeMap<String, Vec<String>>,
    pub(super) summary: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: i32,
    took: Duration,
}

pub(super) fn stop(sockets: &Path, arguments: &[&str]) -> Told {
    let begun = Instant::now();
    let mut command = Command::new(PROGRAM);
    command.arg("stop").args(arguments).env("RESCIND_RUNTIME_DIR", sockets).stdin(Stdio::null());
    let output = command.output().unwrap();
    let took = begun.elapsed();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut states = BTreeMap::<String, Vec<String>>::new();
    for line in stdout.lines() {
        if let Some((session, rest)) = line.split_once('/') {
            states.entry(session.to_owned()).or_default().push(rest.split(": ").nth(1).unwrap().to_owned());
        }
    }
    let summary = stdout.lines().next_back().unwrap_or_default().to_owned();
    Told {
        states,
        summary,
        stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
        took,
    }
}

/// Servers of each protocol and temper, and what `stop` says of the work of each.
pub(super) const KINDS: [(Dialect, Temper, &str); 19] = {
    use Dialect::{Acp, Lsp, Mcp};
    use Temper::{Crossing, Deaf, Exits, Mute, Polite, ShimSuspended, Suspended, Working};
    [
        (Mcp, Polite, "unknown"),
        (Mcp, Deaf, "still working"),
        (Mcp, Working, "finished"),
        (Mcp, Crossing, "finished"),
        (Mcp, Mute, "unknown"),
        (Mcp, Exits, "ended"),
        (Mcp, Suspended, "unknown"),
        (Mcp, ShimSuspended, ""),
        (Acp, Polite, "stopped"),
        (Acp, Deaf, "still working"),
        (Acp, Working, "finished"),
        (Acp, Crossing, "finished"),
        (Acp, Mute, "no answer"),
        (Acp, Exits, "ended"),
        (Lsp, Polite, "stopped"),
        (Lsp, Working, "finished"),
        (Lsp, Crossing, "finished"),
        (Lsp, Mute, "no answer"),
        (Lsp, Suspended, "no answer"),
    ]
};

#[test]
fn every_receipt_is_true_of_the_work_and_comes_in_time() {
    use Dialect::Mcp;
    use Temper::{Exits, Mute, Polite, ShimSuspended, Suspended};
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let sessions: Vec<_> = KINDS.iter().map(|&(dialect, temper, _)| Session::open(&path, dialect, temper)).collect();
    let names: Vec<String> = sessions.iter().map(Session::name).collect();
    let marks: Vec<_> = sessions.iter().map(|session| Arc::clone(&session.marks)).collect();
    let (asleep, awake): (Vec<_>, Vec<_>) =
        sessions.into_iter().partition(|one| matches!(one.temper, Suspended | ShimSuspended));
    let asleep: Vec<_> = asleep.into_iter().map(Session::serve).collect();
    let served: Vec<_> = awake.into_iter().map(|session| thread::spawn(|| session.serve())).collect();
    let within = format!("{}s", WITHIN.as_secs());
    let told = stop(&path, &["--within", &within, "--kill"]);
    let mut served: Vec<Session> = served.into_iter().map(|one| one.join().unwrap()).chain(asleep).collect();

    for ((name, (dialect, temper, expected)), marks) in names.iter().zip(KINDS).zip(marks) {
        let what = format!("{dialect:?} {temper:?}: {:?}", told.states.get(name));
        let marks = *marks.lock().unwrap();
        let Some(states) = told.states.get(name) else {
            assert_eq!(temper, ShimSuspended, "{what}");
            assert!(told.stderr.contains(&format!("error: {name}: not answering")), "{}", told.stderr);
            continue;
        };
        assert_eq!(states[0], expected, "{what}");
        match states[0].as_str() {
            "stopped" => assert!(marks.heard && marks.over && !marks.answered, "{what}"),
            "finished" => assert!(marks.answered, "{what}"),
            "still working" => assert!(marks.worked_on && !marks.over, "{what}"),
            "no answer" => assert!(!marks.over && !marks.answered, "{what}"),
            // Nothing is claimed, and nothing that was to be known is held back.
            "unknown" => assert!(dialect == Mcp && !marks.worked_on && !marks.answered, "{what}"),
            "ended" => assert!(temper == Exits, "{what}"),
            other => panic!("{other}: {what}"),
        }
        let is_killed = matches!(states[0].as_str(), "still working" | "no answer");
        assert_eq!(states[1..], if is_killed { vec!["ended"] } else { vec![] }, "{what}");
    }
    // What would not stop has ended with its server, and nothing else has.
    for session in &mut served {
        let states = told.states.get(&session.name()).cloned().unwrap_or_default();
        match (session.temper, states.last().map(String::as_str)) {
            (_, Some("ended")) => session.rig.server.puppet.expect_death(),
            (Suspended, _) => kill_process(Pid::from_raw(session.rig.server.puppet.id).unwrap(), Signal::CONT).unwrap(),
            (ShimSuspended, _) => session.rig.shim.kill(Signal::CONT),
            (Mute | Polite, Some("unknown")) => {
                assert_eq!(error_of(&session.rig.client.receive(), "1")["code"], -31_003);
                expect_alive(&mut session.rig);
            }
            _ => {}
        }
    }
    assert_eq!(told.summary, "2 stopped, 6 finished, 7 ended with its server, 3 unknown", "{}", told.stderr);
    assert_eq!(told.code, 2, "one did not answer: {}", told.stderr);
    // The ladder of those that were ended comes on top.
    assert!(told.took < WITHIN + Duration::from_secs(8), "{:?}", told.took);
}

#[test]
fn what_would_not_stop_is_ended_only_when_that_is_said() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Dialect::Acp.open(&path);
    let told = stop(&path, &["--within", "1s"]);
    assert_eq!((told.code, told.summary.as_str()), (1, "0 stopped, 1 no answer"), "{}", told.stderr);
    assert!(told.stderr.contains("`rescind stop --kill`"), "{}", told.stderr);
    assert!(rig.server.receive().contains("session/cancel"));
    rig.expect_server_hears_nothing();
    let told = stop(&path, &["--within", "1s", "--kill"]);
    assert_eq!((told.code, told.summary.as_str()), (0, "0 stopped, 1 ended with its server"), "{}", told.stderr);
    rig.server.puppet.expect_death();
    assert!(rig.client.receive().contains(r#""stopReason":"cancelled""#));
}

#[test]
fn work_that_goes_on_after_an_earlier_cancel_is_still_stopped() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Dialect::Mcp.open(&path);
    pass_to_server(&mut rig, &crate::shim::words::cancelled("1"));
    rig.server.send(&progress("1", 2));
    rig.expect_client_hears_nothing();
    let told = stop(&path, &["--within", "1s", "--kill"]);
    assert_eq!(told.states[&rig.shim.id.to_string()], ["still working", "ended"], "{}", told.stderr);
    rig.server.puppet.expect_death();
}

/// A shim behind a shim: the cancel arrives at the server once, and both sessions know how it ended.
#[test]
fn a_session_inside_another_is_stopped_by_the_cancel_of_the_outer_one() {
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let nested = || {
        let mut rig = Rig::builder(PROGRAM).under([PROGRAM, "run", "--"]).sockets(&path).start();
        greet_lsp(&mut rig);
        pass_to_server(&mut rig, &request_with("1", "textDocument/references", "{}"));
        rig
    };
    let mut rig = nested();
    let served = thread::spawn(move || {
        assert!(rig.server.receive().contains("$/cancelRequest"));
        rig.server.send(&error("1", -32800, "Request cancelled"));
        rig
    });
    let told = stop(&path, &[]);
    assert_eq!((told.code, told.summary.as_str()), (0, "2 stopped"), "{}", told.stderr);
    let mut rig = served.join().unwrap();
    rig.expect_server_hears_nothing();
    let output = Command::new(PROGRAM).args(["ps", "--recent", "--json"]).env("RESCIND_RUNTIME_DIR", &path).output();
    let listed: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let mut causes: Vec<_> = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let requests = one["requests"].as_array().unwrap();
            let request = requests.iter().find(|request| request["id"] == "1").unwrap();
            request["cancel"]["cause"].as_str().unwrap().to_owned()
        })
        .collect();
    causes.sort();
    assert_eq!(causes, ["caller", "operator"]);
    rig.server.exit(0);
    rig.shim.expect_exit(0);

    // Ended from outside in, if it does not obey; the server is ended in any case.
    let mut rig = nested();
    let told = stop(&path, &["--within", "1s", "--kill"]);
    rig.server.puppet.expect_death();
    assert_eq!((told.code, told.summary.as_str()), (0, "0 stopped, 2 ended with its server"), "{}", told.stderr);
}

/// Both sides of a session send requests, and three hundred are one order.
#[test]
fn three_hundred_requests_of_a_session_and_those_of_its_server_are_all_stopped() {
    const MANY: u32 = 300;
    let sockets = tempfile::tempdir().unwrap();
    let path = sockets.path().join("sockets");
    let mut rig = Rig::builder(PROGRAM).sockets(&path).start();
    greet_lsp(&mut rig);
    for id in 1..=MANY {
        pass_to_server(&mut rig, &request_with(&id.to_string(), "textDocument/references", "{}"));
    }
    pass_to_client(&mut rig, &request_with("7", "workspace/configuration", "{}"));
    let served = thread::spawn(move || {
        assert!(rig.client.receive().contains("$/cancelRequest"), "of the server's own request");
        rig.client.send(&error("7", -32800, "Request cancelled"));
        for _ in 1..=MANY {
            let heard: serde_json::Value = serde_json::from_str(&rig.server.receive()).unwrap();
            assert_eq!(heard["method"], "$/cancelRequest", "{heard}");
            rig.server.send(&error(&heard["params"]["id"].to_string(), -32800, "Request cancelled"));
        }
        rig
    });
    let told = stop(&path, &["--within", "20s"]);
    assert_eq!((told.code, told.summary.as_str()), (0, "300 stopped, 1 withdrawn"), "{}", told.stderr);
    served.join().unwrap();
}
