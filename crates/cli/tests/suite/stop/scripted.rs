//! With scripted shims, which choose what becomes known and when.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use rescind_feed::{End, Implementation, Outcome, Request, Session, Side, State, TaskAtWork, TaskStatus};
use rescind_testkit::fake_shim::{FakeShim, asked, request, session};
use serde_json::Value;

use crate::shim::{PROGRAM, terminal::Terminal};

/// A directory of sockets.
struct Sockets {
    path: PathBuf,
    _around: tempfile::TempDir,
}

impl Sockets {
    fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        Self { path: around.path().join("sockets"), _around: around }
    }

    fn shim(&self, name: &str, change: impl FnOnce(&mut Session)) -> FakeShim {
        let mut session = session(name, &["/opt/server", "--flag"]);
        change(&mut session);
        FakeShim::open(&self.path, session)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("stop").args(arguments).env("RESCIND_RUNTIME_DIR", &self.path).env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    /// The exit code, stdout and stderr.
    fn stop(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// The server confirms every cancel at once.
fn confirms(request: &mut Request, reason: Option<&str>) {
    cancelled(request, reason, Outcome::Confirmed);
}

fn cancelled(request: &mut Request, reason: Option<&str>, outcome: Outcome) {
    let mut cancel = asked(0, reason);
    let is_confirmed = outcome == Outcome::Confirmed;
    (cancel.outcome, cancel.after) = (outcome, is_confirmed.then_some(12_000));
    (cancel.confirms, cancel.written) = (is_confirmed, Some(0));
    request.cancel = Some(cancel.in_words(None));
    request.state = State::Ended;
}

fn ordered(shim: &FakeShim) -> Vec<String> {
    shim.wait_for(|seen| Some(seen.orders.iter().flat_map(|order| order.requests.clone()).collect()))
}

#[test]
fn every_request_of_either_side_is_stopped_once() {
    let sockets = Sockets::new();
    let (one, two) = (sockets.shim("4711", |_| {}), sockets.shim("4712", |_| {}));
    let from_server = Request { key: "s3".into(), from: Side::Server, ..request(3, "sampling/createMessage", None, 0) };
    one.put([request(1, "tools/call", Some("index"), 0), from_server]);
    two.put([request(2, "tools/call", None, 0)]);
    one.on_cancel(confirms);
    two.on_cancel(confirms);
    let (code, stdout, stderr) = sockets.stop(&["--reason", "enough"]);
    let mut lines: Vec<_> = stdout.lines().collect();
    assert_eq!((code, stderr.as_str(), lines.pop()), (0, "", Some("2 stopped, 1 withdrawn")));
    lines.sort_unstable();
    let words = "stopped: confirmed after 12 ms";
    let withdrawn = "4711/server:3: withdrawn: confirmed after 12 ms".to_owned();
    assert_eq!(lines, [format!("4711/1: {words}"), withdrawn, format!("4712/2: {words}")]);
    assert_eq!((ordered(&one).len(), ordered(&two).len()), (2, 1));
    assert!(one.wait_for(|seen| Some(seen.orders[0].reason.as_deref() == Some("enough"))));
    assert_eq!(sockets.stop(&[]), (0, String::new(), "nothing is in flight\n".into()), "all of it is over");
}

/// The outer server passes the cancel on by itself; only what that leaves is cancelled here.
#[test]
fn what_the_cancel_of_an_outer_session_ends_is_not_cancelled_again() {
    let sockets = Sockets::new();
    let outer = sockets.shim("4711", |_| {});
    let inner = std::sync::Arc::new(sockets.shim("4720", |session| session.ancestors = vec![4715, 4711, 4000]));
    outer.put([request(1, "tools/call", None, 0)]);
    inner.put([request(2, "tools/call", None, 0), request(3, "tools/call", None, 0)]);
    let passed_on = std::sync::Arc::clone(&inner);
    outer.on_cancel(move |request, reason| {
        passed_on.change("c2", |request| {
            confirms(request, None);
            request.cancel.as_mut().unwrap().cause = "caller".into();
        });
        confirms(request, reason);
    });
    inner.on_cancel(confirms);
    let (code, stdout, stderr) = sockets.stop(&[]);
    assert_eq!((code, stdout.lines().last()), (0, Some("3 stopped")), "{stdout}{stderr}");
    assert_eq!((ordered(&outer), ordered(&inner)), (vec!["c1".into()], vec!["c3".into()]));
}

#[test]
fn what_a_cancelled_request_causes_is_stopped_and_what_else_begins_is_counted() {
    let sockets = Sockets::new();
    let shim = std::sync::Arc::new(sockets.shim("4711", |_| {}));
    shim.set_now(9);
    shim.put([request(1, "tools/call", None, 0)]);
    let (begins, began) = std::sync::mpsc::channel();
    shim.on_cancel(move |request, reason| {
        match request.key.as_str() {
            "c1" => drop((request.cancel = Some(asked(0, reason)), begins.send(()))),
            _ => confirms(request, reason),
        };
    });
    let changing = std::sync::Arc::clone(&shim);
    let changes = std::thread::spawn(move || {
        began.recv().unwrap();
        let child = Request { parent: Some("c1".into()), from: Side::Server, ..request(5, "roots/list", None, 50) };
        changing.put([child, request(6, "tools/call", None, 60)]);
        changing.wait_for(|seen| seen.orders.iter().any(|order| order.requests == ["c5"]).then_some(()));
        changing.change("c1", |request| confirms(request, None));
    });
    let (code, stdout, stderr) = sockets.stop(&["--within", "20s"]);
    assert_eq!((code, stdout.lines().last()), (0, Some("1 stopped, 1 withdrawn")), "{stdout}{stderr}");
    changes.join().unwrap();
    assert_eq!(stderr, "note: 1 request began meanwhile and was not cancelled\n");
    assert_eq!(ordered(&shim), ["c1", "c5"]);
}

#[test]
fn names_narrow_it_and_one_that_matches_nothing_is_said() {
    let sockets = Sockets::new();
    let named =
        |name: &str| Implementation { name: Some(name.into()), protocol: "mcp-2025-11-25".into(), version: None };
    let one = sockets.shim("4711", |session| (session.client, session.server) = (named("an-editor"), named("index")));
    let two = sockets.shim("4712", |session| session.client = named("an-agent"));
    for shim in [&one, &two] {
        shim.put([request(1, "tools/call", None, 0), request(2, "tools/call", None, 0)]);
        shim.on_cancel(confirms);
    }
    let (code, stdout, _) = sockets.stop(&["--dry-run", "--client", "an-editor", "--client", "an-agent"]);
    assert_eq!((code, stdout.lines().count()), (0, 5), "{stdout}");
    assert!(stdout.starts_with("ID      SERVER") && stdout.contains("  running"), "{stdout}");
    assert_eq!((ordered(&one).len(), ordered(&two).len()), (0, 0));
    let (code, stdout, stderr) = sockets.stop(&["--server", "index", "--server", "nobody"]);
    assert_eq!((code, stdout.lines().last()), (1, Some("2 stopped")), "{stdout}");
    assert!(stderr.starts_with("error: --server nobody: matches no session\nhint: "), "{stderr}");
    assert_eq!((ordered(&one).len(), ordered(&two).len()), (2, 0));
    let (code, stdout, stderr) = sockets.stop(&["--session", "7"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.starts_with("error: --session 7: matches no session\n"), "{stderr}");
    let (code, stdout, _) = sockets.stop(&["--session", "4712", "--server", "server"]);
    assert_eq!((code, stdout.lines().last()), (0, Some("2 stopped")), "its program has that name");
}

#[test]
fn a_session_that_does_not_answer_delays_no_other_and_is_named() {
    let sockets = Sockets::new();
    let (mute, other) = (sockets.shim("4711", |_| {}), sockets.shim("4712", |_| {}));
    mute.put([request(1, "tools/call", None, 0)]);
    mute.freeze();
    other.put([request(2, "tools/call", None, 0)]);
    other.on_cancel(confirms);
    let (code, stdout, stderr) = sockets.stop(&["--json", "--within", "300ms"]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &document["counts"]["stopped"]), (2, &1.into()), "{stdout}");
    let [answered, silent] = document["sessions"].as_array().unwrap().as_slice() else { panic!("{stdout}") };
    assert_eq!((&answered["name"], &answered["requests"][0]["state"]), (&"4712".into(), &"stopped".into()));
    assert_eq!((&silent["name"], &silent["error"]), (&"4711".into(), &"not answering".into()));
    assert!(stderr.starts_with("error: 4711: not answering; what is in flight in it is unknown"), "{stderr}");
}

#[test]
fn on_a_terminal_a_table_is_drawn_and_a_person_decides_about_servers() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    let works_on = |request: &mut Request, reason: Option<&str>| {
        cancelled(request, reason, Outcome::Sent);
        request.state = State::Stuck;
        let late = rescind_feed::Late { at: 9, answers: 0, notices: 3 };
        request.cancel = request.cancel.take().map(|cancel| cancel.in_words(Some(&late)));
    };
    let answered = |answer: &str| {
        shim.put([request(1, "tools/call", Some("index"), 0)]);
        shim.on_cancel(works_on);
        let terminal = Terminal::open();
        let mut command = sockets.command(&["--within", "300ms"]);
        let child = command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end()).spawn().unwrap();
        let shown = terminal.shows_until("End this server? [y/N]");
        assert!(shown.contains("4711/1  server  tools/call:index"), "{shown}");
        assert!(shown.contains("still working") && shown.contains("0 stopped, 1 still working"), "{shown}");
        assert!(shown.contains("  4711  server  1 request would not stop"), "{shown}");
        terminal.type_in(answer);
        (child, terminal)
    };
    let (mut child, _terminal) = answered("\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(shim.wait_for(|seen| Some(seen.ends.len())), 0);
    let (mut child, terminal) = answered("y\n");
    let order = shim.wait_for(|seen| seen.ends.first().copied());
    assert_eq!(order.started, session("4711", &[]).started);
    shim.end(End::Signal(9));
    terminal.shows_until("0 stopped, 1 ended with its server");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn two_thousand_requests_are_told_together() {
    let sockets = Sockets::new();
    let (many, few) = (sockets.shim("4711", |_| {}), sockets.shim("4712", |_| {}));
    many.put((1..=2000).map(|id| request(id, "tools/call", Some("index"), 0)));
    few.put([request(1, "tools/call", None, 0), request(2, "tools/call", None, 0)]);
    many.on_cancel(confirms);
    few.on_cancel(confirms);
    let (code, stdout, stderr) = sockets.stop(&["--within", "30s"]);
    let mut lines: Vec<_> = stdout.lines().collect();
    assert_eq!((code, lines.pop()), (0, Some("2002 stopped")), "{stdout}{stderr}");
    let (told, single): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.contains(" requests: "));
    let count = |line: &&str| line.strip_prefix("4711: ")?.split(' ').next()?.parse::<usize>().ok();
    let together: usize = told.iter().filter_map(count).sum();
    let alone = single.iter().filter(|line| line.starts_with("4711/")).count();
    assert_eq!((together + alone, single.len() - alone), (2000, 2), "{stdout}");
    assert!(told.iter().all(|line| line.ends_with(" requests: stopped: confirmed after 12 ms")), "{stdout}");
    assert!(told.len() + single.len() < 100, "{stdout}");
    let document: Value = serde_json::from_str(&sockets.stop(&["--json"]).1).unwrap();
    assert_eq!(document["sessions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn on_a_terminal_the_wait_is_counted_down_and_enter_ends_it() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    shim.put((1..=40).map(|id| request(id, "tools/call", Some("index"), 0)));
    // Written, and progress goes on: more may become known for as long as anybody waits.
    shim.on_cancel(|request, reason| {
        cancelled(request, reason, Outcome::Sent);
        request.state = State::Stuck;
        let late = rescind_feed::Late { at: 9, answers: 0, notices: 3 };
        request.cancel = request.cancel.take().map(|cancel| cancel.in_words(Some(&late)));
    });
    let terminal = Terminal::open();
    let mut command = sockets.command(&["--within", "3h"]);
    let mut child = command.stdin(terminal.end()).stdout(terminal.end()).stderr(terminal.end()).spawn().unwrap();
    let shown = terminal.shows_until("still working");
    assert!(shown.contains("waiting for what settles, 10800 s at most; Enter ends the wait"), "{shown}");
    assert!(shown.contains("4711 (40 requests)"), "{shown}");
    terminal.type_in("\n");
    let shown = terminal.shows_until("End this server? [y/N]");
    assert!(shown.contains("0 stopped, 40 still working"), "{shown}");
    // The key that ended the wait has answered nothing.
    terminal.type_in("n\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!((ordered(&shim).len(), shim.wait_for(|seen| Some(seen.ends.len()))), (40, 0));
}

/// The connection to a server elsewhere is not closed: its client would lose the server, and the work would go on.
#[test]
fn kill_leaves_the_connection_to_a_server_elsewhere() {
    let sockets = Sockets::new();
    let remote = sockets.shim("4711", |session| session.command = vec!["https://example.com/mcp".into()]);
    remote.put([request(1, "tools/call", None, 0)]);
    remote.on_cancel(|request, reason| cancelled(request, reason, Outcome::Sent));
    let (code, stdout, stderr) = sockets.stop(&["--within", "300ms", "--kill=unknown"]);
    assert_eq!((code, stdout.lines().last()), (1, Some("0 stopped, 1 unknown")), "{stdout}{stderr}");
    assert_eq!(
        stderr,
        "hint: 4711: its server is another machine's (https://example.com/mcp), where alone it can be ended\n"
    );
    assert_eq!(remote.wait_for(|seen| Some(seen.ends.len())), 0);
}

#[test]
fn a_session_that_breaks_off_is_said_and_nobody_is_sent_to_end_it() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    shim.put([request(1, "tools/call", None, 0)]);
    shim.on_cancel(|request, reason| {
        request.cancel = Some(rescind_feed::Cancel { written: Some(0), outcome: Outcome::Sent, ..asked(0, reason) });
    });
    let child = sockets.command(&["--within", "1h"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shim.wait_for(|seen| (!seen.orders.is_empty()).then_some(()));
    drop(shim);
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((output.status.code(), stdout.lines().last()), (Some(1), Some("0 stopped, 1 unknown")), "{stdout}");
    assert!(stdout.contains("its shim is gone"), "{stdout}");
    assert_eq!(stderr, "hint: `rescind ps --orphans` shows what sessions that are gone have left\n");
}

/// As of a client that asks again and again how a task goes, and leaves when it is cancelled.
#[test]
fn a_question_that_starts_no_work_leaves_none_when_its_session_ends() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    shim.put([request(1, "tasks/get", None, 0), request(2, "tools/call", None, 0)]);
    shim.on_cancel(|request, reason| {
        let sent = rescind_feed::Cancel { written: Some(0), outcome: Outcome::Sent, ..asked(0, reason) };
        request.cancel = Some(sent.in_words(None));
    });
    let child = sockets.command(&["--within", "1h"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shim.wait_for(|seen| (!seen.orders.is_empty()).then_some(()));
    shim.put([request(3, "tasks/get", None, 0)]);
    shim.end(End::Unknown);
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(stdout.lines().last(), Some("0 stopped, 1 finished, 1 unknown"), "{stdout}{stderr}");
    assert!(!stderr.contains("began meanwhile"), "{stderr}");
}

/// A turn whose interrupt was refused, or a task whose server goes on, is asked once more, as `rescind cancel` does.
#[test]
fn what_is_stuck_is_asked_again() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    let mut stuck = request(1, "turn/start", None, 0);
    stuck.cancel = Some(rescind_feed::Cancel {
        written: Some(0),
        outcome: Outcome::Sent,
        confirms: true,
        ..asked(0, None).in_words(None)
    });
    stuck.state = State::Stuck;
    shim.put([stuck, request(2, "turn/start", None, 0)]);
    shim.on_cancel(confirms);
    let (code, stdout, stderr) = sockets.stop(&["--within", "300ms"]);
    assert_eq!((code, stdout.lines().last()), (1, Some("1 stopped, 1 no answer")), "{stdout}{stderr}");
    assert_eq!(ordered(&shim), ["c1", "c2"]);
}

/// The shim keeps so many that may still be worked on, and no more (D52).
#[test]
fn what_was_cancelled_and_is_no_longer_listed_is_not_nothing() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |session| session.unkept_released = 3);
    let note = "note: 4711: 3 requests that were cancelled and are not known to have stopped are no longer listed: ";
    for flags in [&[][..], &["--dry-run"]] {
        let (code, stdout, stderr) = sockets.stop(flags);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.starts_with(note) && stderr.contains("nothing else is known to be in flight"), "{stderr}");
    }
    let (code, stdout, _) = sockets.stop(&["--json"]);
    assert_eq!((code, stdout.lines().count()), (1, 1), "{stdout}");
    let child = sockets.command(&["--kill=unknown"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shim.wait_for(|seen| seen.ends.first().copied());
    shim.end(End::Signal(15));
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.ends_with("4711: its server has ended\n"), "{stderr}");
}

/// What a server says of a task after its cancel is no missing answer.
#[test]
fn a_task_that_its_server_reports_after_its_cancel_is_still_working() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711", |_| {});
    let reported = |reported| Some(TaskAtWork { status: TaskStatus::Working, reported });
    shim.put([1, 2].map(|id| Request { at_work: reported(5), ..request(id, "task", None, 0) }));
    shim.on_cancel(move |request, reason| {
        let sent =
            rescind_feed::Cancel { written: Some(10), outcome: Outcome::Sent, confirms: true, ..asked(9, reason) };
        request.cancel = Some(sent.in_words(None));
        if request.key == "c2" {
            request.at_work = reported(20);
        }
    });
    let (code, stdout, stderr) = sockets.stop(&["--within", "300ms"]);
    assert_eq!((code, stdout.lines().last()), (1, Some("0 stopped, 1 still working, 1 no answer")), "{stdout}{stderr}");
    assert!(stdout.contains("/task:2: still working: "), "{stdout}");
}

/// What cannot be seen is not over, whatever hides it (D55, D57, D58).
#[test]
fn a_session_whose_work_cannot_be_seen_is_never_over() {
    let sockets = Sockets::new();
    let shims = ["unknown", "codex-unseen"].map(|protocol| {
        let shim = sockets.shim(protocol, |session| session.server.protocol = protocol.into());
        let (code, stdout, stderr) = sockets.stop(&["--session", protocol]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.ends_with("nothing is seen in flight\n"), "{stderr}");
        shim
    });
    drop(shims);
    let _seen = sockets.shim("seen", |_| {});
    assert_eq!(sockets.stop(&[]), (0, String::new(), "nothing is in flight\n".into()));
}
