//! The states in which the page is looked at: what is behind it, and how it comes to show that.
//!
//! All times are fixed, the page's own clock too, so that a state gives the same picture each time.

use std::{fs, path::Path};

use rescind_feed::{
    Answer, Arguments, Cancel, End, Late, Outcome, Request, Session, Settled, SettledHow, Side, State as RequestState,
};
use rescind_testkit::fake_shim::{FakeShim, asked, percent, request, session};
use serde_json::json;
use tempfile::TempDir;

use super::{
    driver::Browser,
    stage::{SECOND, Stage},
};

/// What the page takes for now, in microseconds since 1970: an afternoon of November 2026.
pub(crate) const NOW: u64 = 1_795_185_127_000_000;
const MINUTE: u64 = 60 * SECOND;
/// The code of an operator's stop.
const STOPPED: i64 = -31_003;

/// A state of the page.
pub(crate) struct State {
    pub(crate) name: &'static str,
    /// Sets what is behind the page.
    set: fn(&mut Scene),
    /// Brings the page there, once it shows all rows.
    show: fn(&Browser, &Scene),
    /// Whether its first request has to be whole on a phone's first screen.
    pub(crate) begins_with_a_request: bool,
}

/// The state in the pictures of the README.
pub(crate) const IN_README: &str = "7-stopped";

/// The states that people look at, and then those that are looked at for their faults.
pub(crate) const STATES: [State; 11] = [
    State { name: "1-no-session", set: |_| (), show: no_session, begins_with_a_request: false },
    State { name: "2-one-session", set: one_session, show: nothing, begins_with_a_request: true },
    State { name: "3-fifteen-sessions", set: fifteen_sessions, show: nothing, begins_with_a_request: true },
    State { name: "4-many-requests", set: many_requests, show: nothing, begins_with_a_request: true },
    State { name: "5-a-call-hangs", set: a_call_hangs, show: its_arguments, begins_with_a_request: true },
    State { name: "6-history", set: history, show: unfolded, begins_with_a_request: false },
    State { name: IN_README, set: before_a_stop, show: stopped, begins_with_a_request: true },
    State { name: "8-result-of-a-stop", set: before_a_stop, show: stop, begins_with_a_request: false },
    State { name: "9-odd-words", set: odd_words, show: odd_details, begins_with_a_request: false },
    State { name: "10-unfolded", set: fifteen_sessions, show: unfolded_on_a_phone, begins_with_a_request: false },
    State { name: "11-help", set: one_session, show: help, begins_with_a_request: false },
];

/// What is behind the page.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) shims: Vec<FakeShim>,
    /// How many rows the table has at first.
    rows: usize,
    past: TempDir,
}

impl State {
    /// Brings the page into this state. It stays so as long as the scene is kept.
    pub(crate) fn open(&self, browser: &Browser) -> Scene {
        let past = TempDir::new().expect("a folder for the history");
        let stage = Stage::remembering(past.path().to_owned());
        let mut scene = Scene { stage, shims: Vec::new(), rows: 0, past };
        (self.set)(&mut scene);
        browser.go(scene.stage.link());
        browser.until(&format!("document.querySelectorAll('#rows > *').length >= {}", scene.rows));
        browser.rest();
        (self.show)(browser, &scene);
        browser.rest();
        scene
    }
}

impl Scene {
    fn open(&mut self, facts: Session, requests: Vec<Request>) -> &FakeShim {
        let shim = FakeShim::open(&self.stage.sockets(), facts.clone());
        shim.set_now(NOW - facts.started);
        self.rows += requests.len();
        shim.put(requests);
        self.shims.push(shim);
        self.shims.last().expect("it was just opened")
    }
}

/// A session that began so long ago, of an entry in a client's configuration.
fn facts(number: u32, age: u64, client: &str, entry: &str, command: &[&str]) -> Session {
    let mut facts = session(&number.to_string(), command);
    facts.started = NOW - age;
    facts.client_name = (!client.is_empty()).then(|| client.into());
    facts.entry = (!entry.is_empty()).then(|| entry.into());
    facts.client.name = Some(format!("{client}-client"));
    facts.client.version = Some("1.8.2".into());
    facts.server.name = Some(format!("{entry}-server"));
    facts
}

/// A request of a session of this age that began so long ago.
fn call(id: u64, name: &str, age: u64, ago: u64) -> Request {
    request(id, "tools/call", Some(name), age - ago)
}

fn over(mut request: Request, after: u64, how: SettledHow, code: Option<i64>) -> Request {
    request.state = RequestState::Ended;
    request.settled = Some(Settled { at: request.since + after, how, code });
    request
}

fn answered(request: Request, after: u64) -> Request {
    over(request, after, SettledHow::Result, None)
}

/// Its client has cancelled it, and has its end at once.
fn cancelled(mut request: Request, after: u64, with: impl FnOnce(&mut Cancel)) -> Request {
    let at = request.since + after;
    let mut cancel = asked(at, None);
    (cancel.cause, cancel.written, cancel.outcome) = ("caller".into(), Some(at), Outcome::Sent);
    with(&mut cancel);
    request.cancel = Some(cancel.in_words(request.late.as_ref()));
    over(request, after, SettledHow::Silent, None)
}

fn answered_late(cancel: &mut Cancel) {
    (cancel.outcome, cancel.after, cancel.answer) = (Outcome::AnsweredAfter, Some(4 * SECOND), Some(Answer::Result));
}

fn with_progress(mut request: Request, at: u64, done: f64, words: &str) -> Request {
    request.progress = Some(percent(at, done, words));
    request
}

fn as_agent(mut facts: Session) -> Session {
    facts.client.protocol = "acp-v1".into();
    facts.server.protocol = "acp-v1".into();
    facts
}

fn nothing(_: &Browser, _: &Scene) {}

fn no_session(browser: &Browser, _: &Scene) {
    browser.until("!document.getElementById('empty').hidden");
}

/// What one session does on an ordinary day.
fn one_session(scene: &mut Scene) {
    let age = 4 * MINUTE;
    let about = facts(4712, age, "cursor", "github", &["npx", "-y", "@modelcontextprotocol/server-github"]);
    let mut index = with_progress(call(9, "rebuild_index", age, 21 * SECOND), age, 35.0, "shard 5 of 12");
    index.deadline = Some(age + 69 * SECOND);
    let mut sampling = request(3, "sampling/createMessage", None, age - 9 * SECOND);
    (sampling.key, sampling.from, sampling.parent) = ("s3".into(), Side::Server, Some("c9".into()));
    let requests = vec![
        index,
        sampling,
        call(10, "search_code", age, 6 * SECOND),
        answered(call(8, "get_file_contents", age, 40 * SECOND), 2 * SECOND),
        over(call(7, "create_issue", age, 52 * SECOND), SECOND, SettledHow::Error, Some(-32_602)),
        cancelled(call(6, "list_commits", age, 90 * SECOND), 3 * SECOND, answered_late),
    ];
    scene.open(about, requests);
}

/// Fifteen sessions of five clients, as after a week without a restart.
fn fifteen_sessions(scene: &mut Scene) {
    let clients = ["cursor", "claude-code", "zed", "vscode", "codex"];
    let entries = ["github", "filesystem", "postgres", "playwright", "memory", "sentry", "slack", "time"];
    for n in 0..15_u64 {
        let age = (150 - 7 * n) * MINUTE;
        let at = usize::try_from(n).expect("a small number");
        let (client, entry) = (clients[at % clients.len()], entries[at % entries.len()]);
        let package = format!("@example/server-{entry}");
        let mut about = facts(4700 + n as u32, age, client, entry, &["npx", "-y", &package]);
        about.folder = Some(format!("/home/ada/work/project-{}", n % 4));
        if client == "zed" {
            about = as_agent(about);
        }
        let mut requests = vec![answered(call(1, "read", age, (5 + n) * SECOND), 800_000)];
        if n % 3 == 0 {
            requests.push(with_progress(call(2, "search", age, (9 + n) * SECOND), age, 10.0 + 5.0 * n as f64, ""));
        }
        if n % 5 == 2 {
            requests.push(call(3, "query", age, (31 + n) * SECOND));
        }
        if n == 4 {
            requests.push(works_on(call(4, "crawl", age, 55 * SECOND), age - 20 * SECOND, Some("took too long"), age));
        }
        scene.open(about, requests);
    }
}

/// Two thousand requests of four sessions, forty of them in flight.
fn many_requests(scene: &mut Scene) {
    for n in 0..4_u64 {
        let age = 10 * MINUTE - n;
        let entry = ["github", "filesystem", "postgres", "playwright"][n as usize];
        let about = facts(4720 + n as u32, age, "claude-code", entry, &["npx", entry]);
        let name = |id: u64| ["read_file", "search", "query", "navigate", "list"][(id % 5) as usize];
        let requests = (0..500).map(|id| {
            let call = call(id, name(id), age, (500 - id) * SECOND);
            match id {
                490.. => call,
                _ if id % 50 == 7 => over(call, 300_000, SettledHow::Error, Some(-32_000)),
                _ => answered(call, 400_000 + id * 1_000),
            }
        });
        scene.open(about, requests.collect());
    }
    // The page lists no more at first.
    scene.rows = 100;
}

/// One call that has said nothing for eleven minutes, beside one that goes on.
fn a_call_hangs(scene: &mut Scene) {
    let age = 14 * MINUTE;
    let about = facts(4712, age, "cursor", "postgres", &["npx", "-y", "@example/server-postgres"]);
    let requests = vec![
        call(17, "query", age, 11 * MINUTE + 12 * SECOND),
        answered(call(16, "list_tables", age, 11 * MINUTE + 30 * SECOND), 300_000),
        with_progress(call(18, "export", age, 25 * SECOND), age - SECOND, 62.0, "62,000 of 100,000 rows"),
    ];
    let shim = scene.open(about, requests);
    let text = json!({ "name": "query", "arguments": {
        "sql": "UPDATE orders SET state = 'paid' WHERE id IN (SELECT order_id FROM payments WHERE settled_at < now() - interval '30 days')",
        "database": "staging", "timeout_ms": 0, "dry_run": false,
    } })
    .to_string();
    let length = text.len() as u64;
    shim.put_arguments("c17", Arguments { text, length, cut: false, left_out: false });
}

fn its_arguments(browser: &Browser, _: &Scene) {
    browser.run("document.querySelector('#rows > [data-uid=\"4712/c17\"]').click()");
    browser.until("!document.getElementById('pane').hidden");
    browser.run("document.getElementById('arguments-show').click()");
    browser.until("document.getElementById('arguments-text').textContent.includes('UPDATE orders')");
}

/// One session that runs, and six of this morning in the history.
fn history(scene: &mut Scene) {
    one_session(scene);
    let folder = scene.past.path().to_owned();
    let ends = [End::ExitCode(0), End::Signal(15), End::ExitCode(1), End::ExitCode(0), End::Signal(9), End::Unknown];
    for (n, end) in (0..).zip(ends) {
        let (began, age) = ((40 + 25 * n) * MINUTE, 20 * MINUTE);
        let entry = ["filesystem", "postgres", "playwright", "github", "memory", "slack"][n as usize];
        let mut about = facts(4600 + n as u32, began, "claude-code", entry, &["npx", entry]);
        about.folder = Some("/home/ada/work/shop".into());
        let requests = vec![
            answered(call(1, "read", age, 9 * MINUTE), 700_000),
            over(call(2, "search", age, 7 * MINUTE), SECOND, SettledHow::Error, Some(-32_603)),
            cancelled(call(3, "query", age, 5 * MINUTE), 3 * SECOND, |_| ()),
        ];
        remember(&folder, n, &about, &requests, age, end);
    }
}

/// Writes a session that has ended into the history.
fn remember(folder: &Path, slot: u64, facts: &Session, requests: &[Request], age: u64, end: End) {
    let first = json!({ "rescind": "history", "version": 1, "session": facts.name, "started": facts.started });
    let snapshot = json!({ "event": "snapshot", "seq": 0, "now": 0, "session": facts, "requests": [], "inFlight": 0 });
    let changes = json!({ "event": "changes", "seq": 1, "now": age, "requests": requests, "brief": 12, "inFlight": 0 });
    let ended = json!({ "event": "ended", "seq": 2, "now": age, "how": end });
    let lines: String = [first, snapshot, changes, ended].iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(format!("{slot:03}.jsonl")), lines).expect("a history");
}

/// The sessions that have ended are unfolded, and the first of them.
fn unfolded(browser: &Browser, _: &Scene) {
    browser.until("document.getElementById('totals-calm').textContent.includes('6 ended')");
    browser.run("document.querySelector('#past-toggle[aria-expanded=false]')?.click()");
    browser.rest();
    browser.run("document.querySelector('#past-list [aria-expanded=false]')?.click()");
}

/// What a phone folds is unfolded, and the page stands still.
fn unfolded_on_a_phone(browser: &Browser, _: &Scene) {
    for toggle in ["timeline", "filters"] {
        browser.run(&format!("document.querySelector('#{toggle}-toggle[aria-expanded=false]')?.click()"));
    }
    browser.run("document.getElementById('pause').click()");
    browser.until("!document.getElementById('paused').hidden");
}

/// Sessions whose servers do each something else with a cancel.
fn before_a_stop(scene: &mut Scene) {
    let age = 6 * MINUTE;
    let agent = as_agent(facts(4713, age, "zed", "some-agent", &["some-agent", "--acp"]));
    let mut permission = request(4, "session/request_permission", None, age - 10 * SECOND);
    (permission.key, permission.from, permission.parent) = ("s4".into(), Side::Server, Some("c1".into()));
    let prompt = with_progress(request(1, "session/prompt", None, age - 28 * SECOND), age, 40.0, "reading src/link.rs");
    scene.open(agent, vec![prompt, permission, request(2, "session/load", None, age - 15 * SECOND)]).on_cancel(obey);
    let about = facts(4712, age + 1, "cursor", "github", &["npx", "-y", "@modelcontextprotocol/server-github"]);
    let queued = Request { state: RequestState::Queued, ..call(15, "waits", age, SECOND) };
    let requests = vec![
        with_progress(call(11, "longRunningOperation", age, 27 * SECOND), age, 62.0, "step 62 of 100"),
        with_progress(call(12, "rebuild_index", age, 21 * SECOND), age, 35.0, "shard 5 of 12"),
        call(13, "read_graph", age, 14 * SECOND),
        call(14, "echo", age, 12 * SECOND),
        queued,
    ];
    scene.open(about, requests).on_cancel(obey);
    let fragile = facts(4711, age + 2, "cursor", "fragile", &["fragile-server"]);
    scene.open(fragile, vec![call(21, "dies", age, 19 * SECOND)]).on_cancel(obey);
}

/// Each kind of outcome, by the name of what is cancelled.
fn obey(request: &mut Request, reason: Option<&str>) {
    let at = 6 * MINUTE;
    let name = request.name.clone().unwrap_or_else(|| request.method.clone());
    let mut cancel = asked(at, reason);
    (cancel.written, cancel.outcome) = (Some(at), Outcome::Sent);
    let mut end = Some(Settled { at, how: SettledHow::AnsweredHere, code: Some(STOPPED) });
    match name.as_str() {
        "longRunningOperation" => {
            *request = works_on(request.clone(), at, reason, at + 6 * SECOND);
            return;
        }
        "session/prompt" => {
            (cancel.confirms, cancel.protocol) = (true, "ACP".into());
            (cancel.outcome, cancel.after) = (Outcome::Confirmed, Some(12_400));
            end = Some(Settled { at: at + 12_400, how: SettledHow::Result, code: None });
        }
        // Its agent never answers.
        "session/load" => {
            (cancel.confirms, cancel.protocol, end) = (true, "ACP".into(), None);
            request.state = RequestState::Stuck;
        }
        "session/request_permission" => cancel.protocol = "ACP".into(),
        "read_graph" => answered_late(&mut cancel),
        "echo" => {
            (cancel.outcome, cancel.after, cancel.answer) = (Outcome::CompletedFirst, Some(0), Some(Answer::Result));
            end = Some(Settled { at, how: SettledHow::Result, code: None });
        }
        "waits" => (cancel.written, cancel.outcome) = (None, Outcome::NeverSent),
        _ => {}
    }
    request.cancel = Some(cancel.in_words(None));
    if end.is_some() {
        (request.state, request.settled) = (RequestState::Ended, end);
    }
}

/// It was cancelled, and reports progress since.
fn works_on(mut request: Request, at: u64, reason: Option<&str>, until: u64) -> Request {
    let mut cancel = asked(at, reason);
    (cancel.written, cancel.outcome) = (Some(at), Outcome::Sent);
    request.late = Some(Late { at: until, answers: 0, notices: 12 });
    request.cancel = Some(cancel.in_words(request.late.as_ref()));
    request.settled = Some(Settled { at, how: SettledHow::AnsweredHere, code: Some(STOPPED) });
    request.state = RequestState::Stuck;
    request
}

/// All was stopped, and the page still says what became of that.
fn stop(browser: &Browser, scene: &Scene) {
    browser.run("document.getElementById('stop-open').click()");
    browser.until("document.getElementById('stop').open");
    browser.run(
        "document.getElementById('stop-reason').value = 'took too long'; document.getElementById('stop-send').click()",
    );
    browser.until("document.querySelectorAll('#stop-list > li').length === 9");
    browser.until("document.getElementById('stop-summary').textContent.includes('still working')");
    // Until no more is expected.
    let later = 11 * SECOND;
    browser.go_on(later);
    for (shim, age) in scene.shims.iter().zip([0, 1, 2]) {
        shim.set_now(6 * MINUTE + age + later);
    }
    scene.shims[2].end(End::Signal(15));
    browser.until("document.getElementById('stop-summary').textContent.includes('1 ended')");
    browser.until("document.getElementById('stop-title').textContent.startsWith('Result')");
}

/// All was stopped, and one of it is looked at.
fn stopped(browser: &Browser, scene: &Scene) {
    stop(browser, scene);
    browser.run("document.getElementById('stop-close').click()");
    browser.until("!document.getElementById('stop').open");
    browser.run("document.querySelector('#rows > [data-uid=\"4712/c11\"]').click()");
    browser.until("!document.getElementById('pane').hidden");
}

/// Words that are not made for a page.
fn odd_words(scene: &mut Scene) {
    let age = 5 * MINUTE;
    let long = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft".repeat(3);
    let words = [
        long.as_str(),
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{5e2}\u{5d5}\u{5dc}\u{5dd} / مرحبا بالعالم 42",
        "👩‍👩‍👧‍👦🏳️‍🌈🧑🏽‍🚀 emoji 👍🏿",
        "",
        "zero\u{200b}width\u{2060}\u{feff}joined\u{202e}gnp.exe",
        "<b onclick=\"alert(1)\">bold</b> &amp; </td><script>alert(2)</script>",
        "日本語の名前はとても長いことがあります、しかもスペースがありません",
    ];
    for (n, word) in (0..).zip(words) {
        let age = age - u64::from(n);
        let mut about = facts(4730 + n, age, word, word, &[word, "--flag", word]);
        about.client.name = Some(word.into());
        about.server.name = Some(word.into());
        about.client.version = Some(word.into());
        about.folder = Some(format!("/home/ada/{word}"));
        about.limits = [(format!("--limit {word}=1/1m"), 12)].into();
        let id = u64::from(n);
        let mut called = with_progress(call(10 + id, word, age, (10 + id) * SECOND), age, 40.0, word);
        called.id = json!(word).to_string();
        called.task = Some(word.into());
        let mut method = request(30 + id, word, None, age - 5 * SECOND);
        method = works_on(method, age - 4 * SECOND, Some(word), age);
        scene.open(about, vec![called, method]);
    }
}

fn odd_details(browser: &Browser, _: &Scene) {
    browser.run("document.querySelector('#rows > [data-uid=\"4730/c30\"]').click()");
    browser.until("!document.getElementById('pane').hidden");
}

fn help(browser: &Browser, _: &Scene) {
    browser.run("document.getElementById('help-open').click()");
    browser.until("document.getElementById('help').open");
}
