//! What is seen while work runs.

use rescind_console::Recording;
use rescind_feed::{Arguments, End, FrameView, Request, Session, Settled, SettledHow, Side, State};
use rescind_testkit::fake_shim::{FakeShim, Seen, percent, request, session};

use super::{
    driver::{Browser, key},
    stage::{SECOND, Stage, bar, cancel, on_stage, row},
};

#[test]
fn an_empty_page_says_how_to_begin_and_fills_by_itself() {
    on_stage(|stage, browser| {
        browser.until(
            "!document.getElementById('empty').hidden && document.body.innerText.includes('rescind run COMMAND')",
        );
        browser.picture("table-1-empty");
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.set_now(8 * SECOND);
        let mut index = request(1, "tools/call", Some("index"), SECOND);
        index.progress = Some(percent(8 * SECOND, 10.0, "shard 1 of 10"));
        index.deadline = Some(70 * SECOND);
        let mut sampling = request(7, "sampling/createMessage", None, 3 * SECOND);
        (sampling.key, sampling.from, sampling.parent) = ("s7".into(), Side::Server, Some("c1".into()));
        shim.put([index, request(2, "tools/call", Some("search"), 5 * SECOND), sampling]);

        row(browser, "4711", "c1", "10 %");
        row(browser, "4711", "c1", "shard 1 of 10");
        row(browser, "4711", "c1", "in 1 min");
        row(browser, "4711", "s7", "server:7");
        bar(browser, "4711", "c1", "index · 10 %");
        // A request that was made during another lies under it.
        browser.until(
            "document.querySelector('.bar[data-uid=\"4711/s7\"]').offsetTop > document.querySelector('.bar[data-uid=\"4711/c1\"]').offsetTop",
        );
        browser.until("document.querySelector('.bar[data-uid=\"4711/s7\"] .elbow:not([hidden])')");

        // Progress moves, in the row and inside the bar; the bar grows by itself.
        let fill = "document.querySelector('.bar[data-uid=\"4711/c1\"] .fill').getBoundingClientRect().width";
        let before = browser.run(&format!("return {fill}")).as_f64().expect("a width");
        shim.change("c1", |request| request.progress = Some(percent(8 * SECOND, 60.0, "shard 6 of 10")));
        row(browser, "4711", "c1", "60 %");
        browser.until(&format!("{fill} > {}", before * 2.0));
        let width = "document.querySelector('.bar[data-uid=\"4711/c2\"] .body').getBoundingClientRect().width";
        let before = browser.run(&format!("return {width}")).as_f64().expect("a width");
        browser.until(&format!("{width} > {before} + 1"));
        browser.picture("table-2-running");

        shim.change("c2", |request| {
            request.state = State::Ended;
            request.settled = Some(Settled { at: 9 * SECOND, how: SettledHow::Error, code: Some(-32_603) });
        });
        row(browser, "4711", "c2", "error -32603");
    });
}

/// Counts the frames in which the page says that there is no session.
const COUNT_CLAIMS: &str = "globalThis.claims = 0;
    (function look() {
      const empty = document.getElementById('empty');
      if (empty && !empty.hidden) globalThis.claims += 1;
      requestAnimationFrame(look);
    })();";

#[test]
fn a_page_does_not_say_that_nothing_runs_before_it_knows() {
    let Some(browser) = Browser::start() else { return };
    browser.before_each_page(COUNT_CLAIMS);
    let stage = Stage::open();
    let shim = stage.shim("4711", &["npx", "polite-server"]);
    shim.put([request(1, "tools/call", Some("index"), 0)]);
    browser.go(stage.link());
    row(&browser, "4711", "c1", "running");
    assert_eq!(browser.run("return claims"), 0, "beside a session that runs");

    // One that does not answer is no reason to say so either, while it is waited for and afterwards.
    let silent = Stage::open();
    let stopped = silent.shim("4712", &["npx", "polite-server"]);
    stopped.put([request(1, "tools/call", Some("index"), 0)]);
    stopped.freeze();
    browser.go(silent.link());
    browser.until("!document.getElementById('looking').hidden");
    browser.until("document.getElementById('unheard').innerText.includes('4712: not answering')");
    browser.picture("table-6-not-answering");
    assert_eq!(browser.run("return claims"), 0, "beside a session that does not answer");
    stopped.thaw();
    row(&browser, "4712", "c1", "running");
    browser.until("document.getElementById('unheard').hidden && document.getElementById('looking').hidden");
    assert_eq!(browser.run("return claims"), 0);

    // It says so once it is so.
    let none = Stage::open();
    browser.go(none.link());
    browser.until("claims > 0 && document.getElementById('looking').hidden");
    browser.until("document.body.innerText.includes('None of your rescind run processes was found')");
}

#[test]
fn messages_are_shown_when_asked_for() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put([request(1, "tools/call", Some("index"), 0), request(2, "tools/call", Some("other"), 0)]);
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"index","token":"hunter2","n":12345678901234567890}}"#;
        let frame =
            FrameView { at: 0, from: Side::Client, text: text.into(), length: text.len() as u64, by_shim: false };
        shim.put_frames("c1", vec![frame]);
        row(browser, "4711", "c1", "index");
        browser.click("#rows tr[data-uid='4711/c1'] .c-method");
        browser.until("!document.getElementById('pane').hidden");
        // Nothing was asked of the shim before somebody asked.
        let asked = |wanted: &'static str| {
            move |seen: &Seen| Some(seen.paths.iter().filter(|path| path.contains(wanted)).count())
        };
        assert_eq!(shim.wait_for(asked("/v1/requests/")), 0);
        assert_eq!(browser.run("return document.body.innerText.includes('hunter2')"), false);
        browser.click("#messages-show");
        // Numbers are as they came, whatever their size.
        browser.until("document.getElementById('messages').innerText.includes('\"n\": 12345678901234567890')");
        browser.until("document.getElementById('messages').innerText.includes('\"token\": \"hunter2\"')");
        browser.picture("details-1-messages");
        assert_eq!(shim.wait_for(asked("/v1/requests/c1")), 1);

        browser.click("#rows tr[data-uid='4711/c2'] .c-method");
        browser.until("!document.body.innerText.includes('hunter2')");
        browser.click("#messages-show");
        browser.until("/not kept|None of its messages/.test(document.getElementById('messages-note').textContent)");
    });
}

/// Whoever opens the page because a call hangs sees what was asked, although nobody looked when it came.
#[test]
fn arguments_are_shown_when_asked_for() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        let ended = Request { state: State::Ended, ..request(4, "tools/call", Some("ended"), 0) };
        shim.put([1, 2, 3].map(|id| request(id, "tools/call", Some("index"), 0)).into_iter().chain([ended]));
        let text = r#"{"name":"index","arguments":{"path":"/etc","n":12345678901234567890,"token":"hunter2"}}"#;
        let kept = |text: &str, length: usize| Arguments {
            text: text.into(),
            length: length as u64,
            cut: text.len() < length,
            ..Arguments::default()
        };
        shim.put_arguments("c1", kept(text, text.len()));
        shim.put_arguments("c2", kept(&text[..40], 5_000_000));
        shim.put_arguments("c3", Arguments { left_out: true, ..Arguments::default() });
        row(browser, "4711", "c1", "index");
        let open = |key: &str| browser.click(&format!("#rows tr[data-uid='4711/{key}'] .c-method"));
        open("c1");
        browser.until("!document.getElementById('pane').hidden && !document.getElementById('arguments').hidden");
        let asked = |seen: &Seen| Some(seen.paths.iter().filter(|path| path.contains("/v1/requests/")).count());
        assert_eq!(shim.wait_for(asked), 0, "nothing was asked of the shim before somebody asked");
        assert_eq!(browser.run("return document.body.innerText.includes('hunter2')"), false);
        browser.click("#arguments-show");
        browser.until("document.getElementById('arguments-text').innerText.includes('\"n\": 12345678901234567890')");
        browser.until("document.activeElement.matches('#arguments-text summary')");
        browser.picture("details-arguments");
        open("c2");
        browser.until("!document.body.innerText.includes('hunter2')");
        browser.click("#arguments-show");
        browser
            .until("document.getElementById('arguments-text').innerText.includes('the first 40 of 5,000,000 bytes')");
        open("c3");
        browser.click("#arguments-show");
        browser.until(
            "document.getElementById('arguments-note').textContent.startsWith('Not kept: its session had no room')",
        );
        open("c4");
        browser.until("document.getElementById('arguments').hidden");
    });
}

/// Two entries of one name are told apart, and each is shown as its client calls it.
#[test]
fn sessions_are_called_as_their_clients_call_them() {
    on_stage(|stage, browser| {
        let of = |number: &str, client: &str, folder: &str| Session {
            entry: Some("github".into()),
            client_name: Some(client.into()),
            folder: Some(folder.into()),
            ..session(number, &["npx", "some-server"])
        };
        let open = |session| FakeShim::open(&stage.sockets(), session);
        let (one, two) = (open(of("4711", "cursor", "/work/a")), open(of("4712", "codex", "/work/b")));
        one.put([request(1, "tools/call", Some("index"), 0)]);
        two.put([request(1, "tools/call", Some("index"), 0)]);
        row(browser, "4711", "c1", "github");
        row(browser, "4712", "c1", "github");
        for (number, client, folder) in [("4711", "cursor", "/work/a"), ("4712", "codex", "/work/b")] {
            let lane = format!("document.querySelector('.lane[data-session=\"{number}\"]').innerText");
            browser.until(&format!(
                "{lane}.includes('github') && {lane}.includes('{client} →') && {lane}.includes('in {folder}')"
            ));
            browser.until(&format!("[...document.querySelectorAll('#chips-session .chip')].some((chip) => chip.textContent === 'github {client} {number}')"));
        }
        // The search finds a client, too.
        browser.run("const search = document.getElementById('search'); search.value = 'codex'; search.dispatchEvent(new Event('input'))");
        browser.until("!document.querySelector('#rows tr[data-uid=\"4711/c1\"]') && document.querySelector('#rows tr[data-uid=\"4712/c1\"]')");
    });
}

#[test]
fn two_consoles_are_in_step_and_a_reload_goes_on() {
    on_stage(|stage, first| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put([request(1, "tools/call", Some("index"), 0), request(2, "tools/call", Some("search"), 0)]);
        let second = Browser::start().expect("a second browser");
        second.go(stage.page());
        row(&second, "4711", "c1", "running");
        cancel(first, "4711", "c1", "seen by both");
        row(first, "4711", "c1", "cancelling…");
        row(&second, "4711", "c1", "cancelling…");
        second.until("document.getElementById('announce').textContent.includes('cancelling…')");

        first.reload();
        row(first, "4711", "c1", "cancelling…");
        row(first, "4711", "c2", "running");
        shim.change("c2", |request| request.progress = Some(percent(SECOND, 50.0, "half")));
        row(first, "4711", "c2", "50 %");
        row(&second, "4711", "c2", "50 %");
        assert_eq!(second.complaints(), Vec::<String>::new());
    });
}

#[test]
fn a_shim_that_breaks_off_is_found_again() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put([request(1, "tools/call", Some("index"), 0)]);
        row(browser, "4711", "c1", "running");
        // It is not found again before the page was looked at.
        shim.freeze();
        shim.break_off();
        browser.until("document.querySelector('.lane.is-over')");
        row(browser, "4711", "c1", "unknown");
        shim.thaw();
        row(browser, "4711", "c1", "running");
        browser.until("!document.querySelector('.lane.is-over')");
    });
}

#[test]
fn a_console_that_ends_is_said_and_time_stands_still() {
    let Some(browser) = Browser::start() else { return };
    let mut stage = Stage::open();
    browser.go(stage.link());
    let shim = stage.shim("4711", &["npx", "polite-server"]);
    shim.put([request(1, "tools/call", Some("index"), 0)]);
    row(&browser, "4711", "c1", "running");
    stage.close();
    browser.until("!document.getElementById('lost').hidden");
    let age = "document.querySelector('#rows tr .c-age').textContent";
    // For sixty frames it shows the same, where it shows tenths of seconds.
    browser.until(&format!(
        "((text) => (globalThis.last === text ? (globalThis.looks += 1) > 60 : void ((globalThis.last = text), (globalThis.looks = 0))))({age})"
    ));
    browser.picture("table-3-connection-lost");
}

#[test]
fn paused_is_what_was_and_resumed_is_what_is() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put([request(1, "tools/call", Some("index"), 0)]);
        row(browser, "4711", "c1", "running");
        browser.press(['p']);
        browser.until("document.getElementById('pause').getAttribute('aria-pressed') === 'true'");
        shim.put([request(2, "tools/call", Some("search"), 0)]);
        shim.change("c1", |request| request.progress = Some(percent(SECOND, 50.0, "half")));
        // Both were heard of, and neither is shown.
        browser.until("document.getElementById('paused').textContent.startsWith('Paused: 2 changes')");
        browser.picture("table-4-paused");
        assert_eq!(browser.run("return document.querySelectorAll('#rows tr').length"), 1);
        assert_eq!(browser.run("return document.getElementById('rows').innerText.includes('50 %')"), false);
        browser.press(['p']);
        row(browser, "4711", "c2", "search");
        row(browser, "4711", "c1", "50 %");
    });
}

#[test]
fn chips_and_words_choose_in_both_views() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        let other = stage.shim("4712", &["npx", "other-server"]);
        let mut ended = request(3, "resources/read", None, 0);
        ended.state = State::Ended;
        ended.settled = Some(Settled { at: 40_000, how: SettledHow::Result, code: None });
        shim.put([request(1, "tools/call", Some("index"), 0), request(2, "tools/call", Some("search"), 0), ended]);
        other.put([request(1, "tools/call", Some("index"), 0)]);
        row(browser, "4712", "c1", "index");
        row(browser, "4711", "c3", "result");
        browser.press(['/']);
        browser.write("INDEX 4711");
        let rows = |wanted: &str| {
            browser.until(&format!(
                "[...document.querySelectorAll('#rows tr')].map((row) => row.dataset.uid).sort().join() === {wanted:?}"
            ));
        };
        rows("4711/c1");
        browser.until(
            "[...document.querySelectorAll('.bar:not([hidden])')].map((bar) => bar.dataset.uid).join() === '4711/c1'",
        );
        browser.click("#clear");
        rows("4711/c1,4711/c2,4711/c3,4712/c1");
        browser.click(".chip[data-value='ended']");
        rows("4711/c3");
        browser.click(".chip[data-value='running']");
        browser.click(".chip[data-value='4712']");
        rows("4712/c1");
        browser.picture("table-5-filtered");
    });
}

#[test]
fn a_session_below_another_is_shown_below_it() {
    on_stage(|stage, browser| {
        let mut above = session("4711", &["some-agent"]);
        (above.server_pid, above.started) = (Some(900), 1_790_000_000_000_000);
        let mut below = session("4712", &["npx", "some-server"]);
        (below.ancestors, below.started) = (vec![950, 900, 1], 1_790_000_005_000_000);
        let mut apart = session("4713", &["another"]);
        apart.started = 1_790_000_002_000_000;
        let _shims = [above, below, apart].map(|facts| FakeShim::open(&stage.sockets(), facts));
        browser.until(
            "[...document.querySelectorAll('.lane')].map((lane) => lane.dataset.session + (lane.classList.contains('is-under') ? ' under' : '')).join() === '4711,4712 under,4713'",
        );
    });
}

#[test]
fn a_session_says_what_its_limits_have_refused() {
    on_stage(|stage, browser| {
        let mut facts = session("4711", &["npx", "some-server"]);
        facts.limits = [("--limit tools/call=10/1m", 54), ("--limit-repeats 5", 0)]
            .map(|(limit, count)| (limit.to_owned(), count))
            .into();
        let _shim = FakeShim::open(&stage.sockets(), facts);
        browser.until(
            "document.querySelector('.lane[data-session=\"4711\"]')?.innerText.includes('54 refused by --limit tools/call=10/1m')",
        );
        browser.until("!document.querySelector('.lane[data-session=\"4711\"]').innerText.includes('--limit-repeats')");
    });
}

#[test]
fn from_the_keyboard_alone_a_request_is_found_and_cancelled() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put((1..4).map(|id| request(id, "tools/call", Some("index"), id)));
        row(browser, "4711", "c3", "running");
        let focused = "document.activeElement.dataset.uid";
        browser.press(['j']);
        browser.until(&format!("{focused} === '4711/c1'"));
        browser.press(['j']);
        browser.until(&format!("{focused} === '4711/c2'"));
        browser.press([key::ENTER]);
        browser.until("document.activeElement.id === 'pane-title'");
        browser.press([key::ESCAPE]);
        browser.until(&format!("document.getElementById('pane').hidden && {focused} === '4711/c2'"));
        browser.press(['c']);
        browser.until("document.activeElement.id === 'reason'");
        // Letters are text here, not keys.
        browser.write("jpk c");
        browser.picture("details-2-reason");
        browser.press([key::ENTER]);
        let order = shim.wait_for(|seen| seen.orders.first().cloned());
        assert_eq!((order.requests, order.reason.as_deref()), (vec!["c2".into()], Some("jpk c")));
        browser.until("document.activeElement.id === 'pane-title'");
        browser.press([key::ESCAPE]);
        browser.until(&format!("{focused} === '4711/c2'"));
        browser.press(['?']);
        browser.until("document.getElementById('help').open");
        browser.picture("help");
        browser.press([key::ESCAPE]);
        browser.until("!document.getElementById('help').open");
        browser.press([key::TAB]);
        shim.end(End::ExitCode(0));
    });
}

#[test]
fn a_recording_opens_in_the_same_view_and_stands_still() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("yesterday.jsonl");
    std::fs::write(&file, include_str!("recording.jsonl")).expect("a file");
    let stage = Stage::with(vec![Recording::open(&file, "yesterday").expect("a recording")]);
    browser.go(stage.link());
    let rows = browser
        .until("document.querySelectorAll('#rows tr').length === 5 && document.getElementById('rows').innerText");
    let rows = rows.as_str().expect("rows");
    for words in ["obeys", "sent; MCP does not confirm", "ignores", "answered after 199 ms", "sleepy"] {
        assert!(rows.contains(words), "{words}: {rows}");
    }
    assert!(!rows.contains("Cancel…"), "{rows}");
    // All of it is in sight, at the time it had.
    browser.until("document.querySelectorAll('.bar:not([hidden])').length >= 4");
    browser.until("document.querySelector('#zoom [data-span=all]').getAttribute('aria-pressed') === 'true'");
    browser.run("[...document.querySelectorAll('#rows tr')].find((row) => row.innerText.includes('ignores')).click()");
    browser.until("document.getElementById('cancel').hidden && document.getElementById('receipt-facts').innerText.includes('took too long')");
    browser.click("#messages-show");
    browser.until("document.getElementById('messages').innerText.includes('\"name\": \"ignores\"')");
    browser.picture("recording");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The words of all buttons and fields that can be seen.
const CONTROLS: &str = "[...document.querySelectorAll('button, input, a, summary')].filter((node) => node.checkVisibility() && !node.closest('th'))
    .map((node) => `${node.textContent.trim()} ${node.getAttribute('aria-label') ?? ''}`).join('; ')";

/// A shim that was killed leaves requests in flight, of which nothing more is known.
#[test]
fn a_recording_has_no_button_that_could_do_nothing() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("killed.jsonl");
    let whole = include_str!("recording.jsonl");
    let ended = whole.find("\"kind\":\"server_ended\"").expect("the end of its server");
    let (before, _) = whole[..ended].rsplit_once('\n').expect("lines");
    let open = r#"{"t":900000,"kind":"opened","from":"client","id":99,"method":"tools/call","upstream":99}"#;
    std::fs::write(&file, format!("{before}\n{open}\n")).expect("a file");
    let stage = Stage::with(vec![Recording::open(&file, "killed").expect("a recording")]);
    // No frame in between shows one either.
    browser.before_each_page(
        "globalThis.offered = 0;
         (function look() {
           for (const node of document.querySelectorAll('.only-live')) if (node.checkVisibility() && document.querySelector('.lane')) offered += 1;
           requestAnimationFrame(look);
         })();",
    );
    browser.go(stage.link());
    browser.until("document.querySelectorAll('#rows tr').length === 6");
    browser.until("document.querySelector('.lane.is-over')");
    browser.until("document.getElementById('totals-calm').textContent === '1 recording'");
    browser.run("[...document.querySelectorAll('#rows tr')].find((row) => row.innerText.includes('unknown')).click()");
    browser.until("!document.getElementById('pane').hidden");
    browser.press(['s', 'o', 'c', 'p']);
    assert_eq!(browser.run("return document.querySelectorAll('dialog[open]').length"), 0);
    assert_eq!(browser.run("return document.getElementById('paused').hidden"), true);
    browser.press(['?']);
    browser.until("document.getElementById('help').open");
    let controls = browser.run(&format!("return {CONTROLS}"));
    let controls = controls.as_str().expect("words");
    for gone in ["Stop", "Cancel", "End", "Processes", "Pause", "Follow", "Metrics"] {
        assert!(!controls.contains(gone), "{gone}: {controls}");
    }
    let help = browser.run("return document.getElementById('help').innerText");
    let help = help.as_str().expect("help");
    assert!(!help.contains("cancel it, after asking") && help.contains("show its details"), "{help}");
    browser.press([key::ESCAPE]);
    browser.picture("recording-2-killed");
    browser.click(".lane.is-over .lane-head .dismiss");
    browser.until("!document.getElementById('dismissed').hidden && document.getElementById('empty').hidden");
    assert_eq!(browser.run("return offered"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
