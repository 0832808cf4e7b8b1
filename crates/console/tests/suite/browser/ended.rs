//! What has ended: folded, opened, and what is still known of it; and who stopped what.

use std::{fs, path::Path};

use rescind_feed::{End, Outcome, Request, Session, Settled, SettledHow, State};
use rescind_testkit::fake_shim::{FakeShim, asked, request, session};
use serde_json::json;

use super::{
    driver::{Browser, key},
    stage::{SECOND, Stage, cancel, on_stage, row, stopped},
};

/// Waits for an element to have these words.
fn until_text(browser: &Browser, id: &str, text: &str) {
    browser.until(&format!("document.getElementById({id:?}).textContent.includes({text:?})"));
}

/// An entry of a client's configuration.
fn entry(number: &str, name: &str, client: &str, started: u64) -> Session {
    Session {
        entry: Some(name.into()),
        client_name: Some(client.into()),
        folder: Some("/work/shop".into()),
        started,
        ..session(number, &["npx"])
    }
}

/// An operator stopped it, and its client was told so.
fn stopped_at(mut request: Request, at: u64) -> Request {
    let mut cancel = asked(at, Some("wrong index"));
    (cancel.written, cancel.outcome) = (Some(at), Outcome::Sent);
    stopped(&mut request, cancel, at);
    request
}

/// Writes what the history has of a session: a call that was answered, one that was stopped, one that failed.
fn remember(folder: &Path, number: &str, name: &str, client: &str, started: u64) {
    let mut read = request(1, "tools/call", Some("read_file"), SECOND);
    over(&mut read, SECOND + 48_000, SettledHow::Result, None);
    let mut failed = request(3, "tools/call", Some("query"), 7 * SECOND);
    over(&mut failed, 8 * SECOND, SettledHow::Error, Some(-32_603));
    let requests = [read, stopped_at(request(2, "tools/call", Some("index"), 2 * SECOND), 5 * SECOND), failed];
    let session = entry(number, name, client, started);
    let lines = [
        json!({ "rescind": "history", "version": 1, "session": number, "started": started }),
        json!({ "event": "snapshot", "seq": 1, "now": 1, "session": session, "requests": [], "inFlight": 0 }),
        json!({ "event": "changes", "seq": 2, "now": 8 * SECOND, "requests": requests, "brief": 4, "inFlight": 0 }),
        json!({ "event": "ended", "seq": 3, "now": 9 * SECOND, "how": { "exitCode": 0 } }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let many = fs::read_dir(folder).expect("a folder").count();
    fs::write(folder.join(format!("{many:03}.jsonl")), text).expect("a file of the history");
}

fn over(request: &mut Request, at: u64, how: SettledHow, code: Option<i64>) {
    request.state = State::Ended;
    request.settled = Some(Settled { at, how, code });
}

/// Of a past request is said what is known, although nothing runs that could be asked. By keys alone.
#[test]
fn past_sessions_are_one_line_that_opens_down_to_what_is_known_of_each_request() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    remember(folder.path(), "3000", "github", "cursor", 1_789_000_000_000_000);
    remember(folder.path(), "3001", "sentry", "codex", 1_789_000_100_000_000);
    let stage = Stage::remembering(folder.path().to_owned());
    let live = stage.shim("4711", &["npx", "polite-server"]);
    live.put([request(1, "tools/call", Some("index"), 0)]);
    browser.go(stage.link());
    row(&browser, "4711", "c1", "running");
    until_text(&browser, "past-toggle", "Ended sessions 2");
    browser
        .until("document.querySelectorAll('.lane').length === 1 && document.querySelectorAll('#rows tr').length === 1");
    assert_eq!(browser.run("return document.getElementById('past-list').checkVisibility()"), false);

    browser.run("document.getElementById('past-toggle').focus()");
    browser.press([key::ENTER, key::DOWN, key::DOWN]);
    // The last end is the first line.
    browser.until("document.activeElement.closest('.past-session')?.dataset.session === '3000'");
    let lines = browser.run("return document.getElementById('past-list').innerText.replace(/\\s+/g, ' ')");
    let lines = lines.as_str().expect("lines");
    for words in
        ["sentry codex", "github cursor", "after 9.0 s", "exited with 0", "7 requests", "1 error", "1 cancelled"]
    {
        assert!(lines.contains(words), "{words}: {lines}");
    }
    assert!(lines.find("sentry") < lines.find("github"), "{lines}");
    browser.press([key::SPACE]);
    browser.until("document.querySelectorAll('#past-list ul button').length === 3");
    browser.press([key::DOWN, key::DOWN]);
    browser.until("document.activeElement.dataset.uid === '3000/c2'");
    browser.picture("ended-1-open");
    browser.press([key::ENTER]);
    browser.until("document.activeElement.id === 'pane-title'");
    until_text(&browser, "pane-title", "index");
    until_text(&browser, "pane-state", "stopped by an operator after 3.0 s");
    for known in [
        "github of cursor in /work/shop",
        "3.0 s",
        "stopped by an operator: its client was told so (-31003)",
        "exited with 0",
    ] {
        until_text(&browser, "facts", known);
    }
    until_text(&browser, "receipt-words", "sent; MCP does not confirm");
    until_text(&browser, "receipt-facts", "wrong index");
    until_text(&browser, "messages-note", "The history keeps no messages and no arguments.");
    assert_eq!(
        browser.run("return ['messages-show', 'arguments-show', 'cancel'].some((id) => document.getElementById(id).checkVisibility())"),
        false
    );
    browser.picture("ended-2-details");

    // The search goes through them, too.
    browser.press([key::ESCAPE]);
    browser.press(['/']);
    browser.write("sentry");
    until_text(&browser, "past-count", "1 of 2");
    browser.until("document.querySelectorAll('.past-session').length === 1");
    assert_eq!(browser.run("return document.body.innerText.includes('no such session')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn with_nothing_running_the_page_says_what_to_do_and_keeps_the_past_folded() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    remember(folder.path(), "3000", "github", "cursor", 1_789_000_000_000_000);
    let stage = Stage::remembering(folder.path().to_owned());
    browser.go(stage.link());
    until_text(&browser, "past-count", "1");
    browser.until("document.getElementById('empty').checkVisibility()");
    until_text(&browser, "empty", "Nothing is running now");
    for command in ["rescind wrap", "rescind demo"] {
        assert_eq!(browser.run(&format!("return Boolean(document.querySelector('[data-copy=\"{command}\"]'))")), true);
    }
    until_text(&browser, "totals-calm", "nothing is running · 1 ended");
    browser.picture("ended-3-nothing-runs");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_session_that_ends_beside_another_is_folded_unless_it_left_something_in_flight() {
    on_stage(|stage, browser| {
        let [calm, cut, last] = ["4711", "4712", "4713"].map(|name| stage.shim(name, &["npx", "polite-server"]));
        let mut ended = request(1, "tools/call", Some("index"), 0);
        over(&mut ended, SECOND, SettledHow::Result, None);
        calm.put([ended]);
        cut.put([request(1, "tools/call", Some("index"), 0)]);
        last.put([request(1, "tools/call", Some("index"), 0)]);
        for name in ["4711", "4712", "4713"] {
            row(browser, name, "c1", "index");
        }
        calm.end(End::ExitCode(0));
        until_text(browser, "past-count", "1");
        browser.until("!document.querySelector('.lane[data-session=\"4711\"]') && !document.querySelector('#rows tr[data-uid=\"4711/c1\"]')");
        // What it left is what is looked for now.
        cut.end(End::Signal(9));
        row(browser, "4712", "c1", "unknown");
        browser.until(
            "document.querySelector('.lane.is-over[data-session=\"4712\"]').innerText.includes('ended by signal 9')",
        );
        // The live ones come first.
        browser.until("document.querySelector('.lane').dataset.session === '4713'");
        // Alone, they are all there is to see.
        last.end(End::ExitCode(0));
        browser
            .until("document.querySelectorAll('.lane.is-over').length === 3 && document.getElementById('past').hidden");
    });
}

/// The feed knows operators only as such: "by you" is what this browser ordered and the session accepted.
#[test]
fn what_this_browser_stopped_is_called_so_and_what_another_did_is_not() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.set_now(5 * SECOND);
        shim.on_cancel(|request, _| *request = stopped_at(request.clone(), 5 * SECOND));
        shim.put((1..=4).map(|id| request(id, "tools/call", Some("index"), id)));
        cancel(browser, "4711", "c1", "");
        row(browser, "4711", "c1", "stopped by you");
        until_text(browser, "pane-state", "stopped by you");
        until_text(browser, "receipt-facts", "you");
        // Another operator, and a timeout of the shim.
        shim.change("c2", |request| *request = stopped_at(request.clone(), 5 * SECOND));
        shim.change("c3", |request| {
            *request = stopped_at(request.clone(), 5 * SECOND);
            request.cancel.as_mut().expect("a cancel").cause = "timeout".into();
            request.settled.as_mut().expect("an end").code = Some(-31_001);
        });
        shim.change("c4", |request| {
            *request = stopped_at(request.clone(), 5 * SECOND);
            request.state = State::Released;
        });
        row(browser, "4711", "c2", "stopped by an operator");
        row(browser, "4711", "c3", "answered by rescind -31001");
        row(browser, "4711", "c4", "stopped by an operator; released");
        browser.picture("ended-4-stopped-by-you");
        browser.reload();
        row(browser, "4711", "c1", "stopped by you");
        row(browser, "4711", "c2", "stopped by an operator");
        let other = Browser::start().expect("a second browser");
        other.go(stage.page());
        row(&other, "4711", "c1", "stopped by an operator");
    });
}

/// A session of the same number that began at another time is another one.
#[test]
fn a_number_that_is_used_again_is_not_taken_for_what_was_stopped_under_it() {
    on_stage(|stage, browser| {
        let open = |started| {
            let shim = FakeShim::open(&stage.sockets(), entry("4711", "github", "cursor", started));
            shim.on_cancel(|request, _| *request = stopped_at(request.clone(), 5 * SECOND));
            shim.put([request(1, "tools/call", Some("index"), 0)]);
            shim
        };
        let first = open(1_790_000_000_000_000);
        cancel(browser, "4711", "c1", "");
        row(browser, "4711", "c1", "stopped by you");
        first.end(End::ExitCode(0));
        browser.until("document.querySelector('.lane.is-over')");
        drop(first);
        let second = open(1_790_000_900_000_000);
        row(browser, "4711", "c1", "running");
        second.change("c1", |request| *request = stopped_at(request.clone(), 5 * SECOND));
        row(browser, "4711", "c1", "stopped by an operator");
    });
}
