//! The stream of a browser.

use rescind_feed::End;
use rescind_testkit::fake_shim::{self, percent, request};
use serde_json::json;

use super::rig::{Piece, Rig};

fn session(piece: &Piece) -> &str {
    piece.data["session"].as_str().unwrap()
}

#[test]
fn every_session_is_told_of_and_a_browser_that_comes_back_goes_on() {
    let rig = Rig::new();
    let (one, two) = (rig.shim("4711"), rig.shim("4712"));
    one.put([request(1, "tools/call", Some("index"), 0)]);
    let mut browser = rig.events(None);
    let mut first = [browser.next(), browser.next()];
    first.sort_by_key(|piece| session(piece).to_owned());
    assert_eq!(first.each_ref().map(|piece| piece.kind.as_str()), ["snapshot"; 2]);
    assert_eq!(first[0].data["event"]["requests"][0]["name"], "index");
    two.put([request(7, "tools/call", None, 0)]);
    let change = browser.next();
    assert_eq!((change.kind.as_str(), session(&change)), ("changes", "4712"));
    assert_eq!(change.data["event"]["requests"][0]["id"], "7");
    drop(browser);
    // While it is away, something happens in one of them.
    one.change("c1", |request| request.progress = Some(percent(5, 42.0, "indexing")));
    let mut again = rig.events(Some(&change.id));
    let missed = again.next();
    assert_eq!((missed.kind.as_str(), session(&missed)), ("changes", "4711"));
    assert_eq!(missed.data["event"]["requests"][0]["progress"]["progress"], 42.0);
    let resumed = two.wait_for(|seen| seen.subscriptions.get(1).copied());
    assert!(resumed.is_some());
}

#[test]
fn two_browsers_are_told_the_same() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    let mut browsers = [rig.events(None), rig.events(None)];
    for browser in &mut browsers {
        assert_eq!(browser.next().kind, "snapshot");
    }
    shim.put([request(1, "tools/call", None, 0)]);
    rig.post("sessions/4711/cancel", br#"{"requests":["c1"]}"#);
    for browser in &mut browsers {
        let words =
            browser.find(|piece| piece.data["event"]["requests"][0]["cancel"]["words"].as_str().map(str::to_owned));
        assert_eq!(words, "cancelling…");
    }
}

#[test]
fn sessions_that_come_end_and_die_are_told_of() {
    let rig = Rig::new();
    let mut browser = rig.events(None);
    let late = rig.shim("4711");
    let came = browser.next();
    assert_eq!((came.kind.as_str(), session(&came)), ("snapshot", "4711"));
    late.end(End::ExitCode(3));
    let ended = browser.next();
    assert_eq!((ended.kind.as_str(), ended.data["event"]["how"]["exitCode"].as_i64()), ("ended", Some(3)));
    assert_eq!(ended.id, "");
    drop(late);
    let dying = rig.shim("4712");
    let came = browser.next();
    assert_eq!((came.kind.as_str(), session(&came)), ("snapshot", "4712"));
    drop(dying);
    let gone = browser.next();
    assert_eq!((gone.kind.as_str(), session(&gone), gone.data["why"].as_str()), ("gone", "4712", Some("gone")));
    // A browser that was away meanwhile hears of it, too.
    let mut back = rig.events(Some("4712:1"));
    assert_eq!(back.next().kind, "gone");
}

#[test]
fn a_stream_that_breaks_off_begins_with_a_snapshot_again() {
    let rig = Rig::new();
    let shim = rig.shim("4711");
    let mut browser = rig.events(None);
    assert_eq!(browser.next().kind, "snapshot");
    shim.break_off();
    assert_eq!(browser.next().kind, "gone");
    let again = browser.next();
    assert_eq!((again.kind.as_str(), session(&again)), ("snapshot", "4711"));
}

#[test]
fn a_stopped_shim_holds_no_other_back() {
    let rig = Rig::new();
    let stopped = rig.shim("4711");
    stopped.freeze();
    let lively = rig.shim("4712");
    let mut browser = rig.events(None);
    assert_eq!(session(&browser.next()), "4712");
    lively.put([request(1, "tools/call", None, 0)]);
    assert_eq!(browser.next().kind, "changes");
    stopped.thaw();
    assert_eq!(browser.find(|piece| (session(piece) == "4711").then(|| piece.kind.clone())), "snapshot");
}

#[test]
fn a_browser_that_reads_slowly_is_given_a_snapshot_when_it_is_back() {
    const CHANGES: u64 = 4_000;
    const SIZE: usize = 16 << 10;
    let rig = Rig::new();
    let shim = rig.shim("4711");
    let (mut browser, mut quick) = (rig.events(None), rig.events(None));
    assert_eq!(browser.next().kind, "snapshot");
    let told = |piece: &Piece, n: u64| {
        let at = piece.data["event"]["requests"][0]["progress"]["at"].as_u64();
        (at == Some(n)).then(|| piece.kind.clone())
    };
    // One browser reads nothing of these 64 MB. Another reads along: the shim keeps only 256 events, and if the console
    // missed some, it would have little to keep for the first.
    for n in 0..CHANGES {
        let mut changed = request(1, "tools/call", None, 0);
        changed.progress = Some(percent(n, 1.0, &"x".repeat(SIZE)));
        shim.put([changed]);
        if n % 100 == 99 {
            quick.find(|piece| told(piece, n));
        }
    }
    assert_eq!(browser.find(|piece| told(piece, CHANGES - 1)), "snapshot");
    let all = CHANGES as usize * SIZE;
    assert!(browser.read < all / 2, "{} of {all} bytes were kept for it", browser.read);
}

/// As `rescind run` keeps it.
fn keep(rig: &Rig, name: &str) {
    let session = fake_shim::session(name, &["server"]);
    let started = session.started;
    let ended = json!({"key": "c1", "from": "client", "id": "1", "method": "tools/call", "name": "index", "since": 1,
        "state": "ended", "settled": {"at": 5, "how": "result"}});
    let lines = [
        json!({"rescind": "history", "version": 1, "session": name, "started": started}),
        json!({"event": "snapshot", "seq": 1, "now": 1, "session": session, "requests": [], "inFlight": 0}),
        json!({"event": "changes", "seq": 2, "now": 9, "requests": [ended], "brief": 0, "inFlight": 0}),
    ];
    std::fs::create_dir_all(&rig.history).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(rig.history.join("000.jsonl"), text).unwrap();
}

#[test]
fn a_browser_that_comes_after_the_end_of_a_session_is_shown_what_ended_and_what_runs_comes_first() {
    let rig = Rig::new();
    keep(&rig, "4711");
    let _running = rig.shim("4711");
    let mut browser = rig.events(None);
    let first = browser.next();
    assert_eq!((first.kind.as_str(), session(&first)), ("snapshot", "4711"));
    let past = browser.next();
    assert_eq!((past.kind.as_str(), session(&past)), ("snapshot", "4711-2"), "the number is the running one's");
    assert_eq!(past.data["event"]["requests"][0]["name"], "index");
    assert_eq!(browser.next().kind, "changes");
    let end = browser.next();
    assert_eq!((end.kind.as_str(), &end.data["event"]["how"]), ("ended", &json!("unknown")));
    // One that comes back has it.
    let mut again = rig.events(Some(&first.id));
    let late = rig.shim("4712");
    assert_eq!(session(&again.next()), "4712");
    drop(late);
}
