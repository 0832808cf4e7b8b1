//! The view of processes, over a scripted list: what is shown, what is asked, and what is ordered.

use serde_json::{Value, json};

use super::{
    driver::{Browser, key},
    layout,
    stage::Stage,
};

fn process(pid: u32, depth: usize, kept: Option<&str>) -> Value {
    let mut process = json!({
        "pid": pid, "start": 7_000 + pid, "parent": 1, "depth": depth, "name": "sh", "arguments": ["sh", format!("<b>{pid}</b>")],
        "age": 90_000_000, "cpu": 1_200_000, "memory": 5_242_880, "stopped": false,
    });
    if let Some(kept) = kept {
        process["kept"] = kept.into();
    }
    process
}

/// One session that runs, and two that have ended.
fn sessions() -> Value {
    let client = json!({ "pid": 99, "name": "agent", "alive": false });
    json!({ "sessions": [
        { "session": "50", "mark": "50-1-0000000000000001-0", "shim": { "pid": 50, "alive": true }, "client": client, "command": ["live"],
          "processes": [process(51, 0, None), process(52, 1, Some("ancestor"))] },
        { "session": "60", "mark": "60-1-0000000000000001-0", "shim": { "pid": 60, "alive": false },
          "processes": [process(61, 0, None), process(62, 1, None), process(63, 0, Some("terminal"))] },
        { "session": "70", "mark": "70-1-0000000000000001-0", "shim": { "pid": 70, "alive": false },
          "processes": [process(71, 0, Some("ancestor"))] },
    ] })
}

/// Answers in place of the console, and notes what it was asked. The containers come once `answerContainers` is called.
fn script(containers: &Value, reply: &Value, status: u16) -> String {
    format!(
        "globalThis.asked = []; const real = fetch;
         const containers = new Promise((resolve) => {{ globalThis.answerContainers = resolve; }});
         globalThis.fetch = async (path, options) => {{
           if (!String(path).startsWith('processes')) return real(path, options);
           asked.push([path, options?.body ?? null]);
           if (path === 'processes/containers') await containers;
           const [body, status] = {{ 'processes': [{}, 200], 'processes/containers': [{containers}, 200] }}[path] ?? [{reply}, {status}];
           return new Response(JSON.stringify(body), {{ status }});
         }};",
        sessions()
    )
}

pub(super) fn on_page(containers: &Value, reply: &Value, status: u16, case: impl FnOnce(&Browser)) {
    let Some(browser) = Browser::start() else { return };
    let stage = Stage::open();
    browser.before_each_page(&script(containers, reply, status));
    browser.go(stage.link());
    browser.until("!document.getElementById('empty').hidden");
    case(&browser);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The first order.
pub(super) fn order(browser: &Browser) -> Value {
    let body = browser.until("asked.find(([path]) => path === 'processes/reap')?.[1]");
    serde_json::from_str(body.as_str().expect("a body")).expect("JSON")
}

#[test]
fn only_what_is_left_and_not_kept_is_ended_after_a_question() {
    let how = |pid: u32, ended: bool, how: &str| json!({ "pid": pid, "start": 7_000 + pid, "name": "sh", "arguments": ["sh"], "ended": ended, "how": how });
    let reply = json!({ "processes": [how(61, true, "killed"), how(65, false, "not ended: it belongs to another user")], "containers": [] });
    on_page(&json!({}), &reply, 200, |browser| {
        // Nothing is read, and nothing hinted at, before the view is opened.
        assert_eq!(
            browser.run("return [asked.length, document.getElementById('totals-left').textContent]"),
            json!([0, ""])
        );
        browser.press(['o']);
        browser.until("document.querySelectorAll('#processes-list section').length === 3");
        let titles =
            "[...document.querySelectorAll('#processes-list h3')].map((title) => title.textContent.trim()).join()";
        assert_eq!(browser.run(&format!("return {titles}")), "60,70,50 live");
        let row = |pid: u32| {
            let text = browser
                .run(&format!("return document.querySelector('#processes-list tr[data-pid=\"{pid}\"]').innerText"));
            text.as_str().expect("a row").trim_end().replace('\t', " ")
        };
        assert_eq!(row(61), "sh <b>61</b> 61 1 min 30 s 1.2 s 5.0 MiB left");
        assert!(row(63).ends_with("left, kept: on a terminal"), "{}", row(63));
        assert!(row(71).ends_with("left, kept: started this console"), "{}", row(71));
        assert!(row(52).ends_with("5.0 MiB"), "{}", row(52));
        browser.until("document.getElementById('processes-summary').textContent === '6 processes of 3 sessions · 4 left by ended sessions · 2 of these kept'");
        browser.until(
            "document.getElementById('processes-list').innerText.includes('running; its client has ended: agent (99)')",
        );
        browser.until("document.getElementById('totals-left').textContent.includes('4 processes left')");
        browser.picture("processes-4-kept");
        browser.resize(360, 780);
        browser.until("document.documentElement.scrollWidth <= innerWidth");
        browser.picture("processes-5-phone");
        assert_eq!(layout::all(browser, true), Vec::<String>::new());
        browser.resize(1280, 900);
        assert_eq!(layout::all(browser, false), Vec::<String>::new());

        browser.click("#processes-end");
        browser.until("document.getElementById('processes-question').textContent.startsWith('End 2 processes of 1 ended session,')");
        browser.until("document.activeElement.id === 'processes-close'");
        browser.press([key::ENTER]);
        browser.until("document.getElementById('processes-question').textContent === ''");
        assert_eq!(browser.run("return asked.filter(([path]) => path === 'processes/reap').length"), 0);
        browser.click("#processes-end");
        browser.click("#processes-send");
        let processes = json!([{ "pid": 61, "start": 7_061 }, { "pid": 62, "start": 7_062 }]);
        let session = json!({ "mark": "60-1-0000000000000001-0", "processes": processes });
        let expected = json!({ "sessions": [session], "containers": [] });
        assert_eq!(order(browser), expected);
        let line = |pid: u32, words: &str| {
            browser.until(&format!(
                "document.querySelector('#processes-ended li[data-pid=\"{pid}\"]')?.innerText.includes({words:?})"
            ));
        };
        line(61, "✓ killed");
        line(65, "▲ not ended: it belongs to another user");
        line(62, "✓ not found");
        browser.until("document.getElementById('announce').textContent.includes('2 processes ended, 1 not ended')");
        browser.press([key::ESCAPE]);
        browser.until("!document.getElementById('processes').open");
    });
}

#[test]
fn a_refused_order_is_explained() {
    let reply = json!({ "error": "session 60 is still running", "hint": "nothing was ended" });
    on_page(&json!({}), &reply, 409, |browser| {
        browser.click("#processes-open");
        browser.until("!document.getElementById('processes-end').disabled");
        browser.click("#processes-end");
        browser.click("#processes-send");
        let note = "document.getElementById('processes-note').textContent";
        browser.until(&format!("{note} === 'Not ended: session 60 is still running; nothing was ended'"));
        assert_eq!(browser.run("return document.querySelectorAll('#processes-ended li').length"), 0);
    });
}
