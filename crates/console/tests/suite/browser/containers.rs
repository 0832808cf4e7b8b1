//! The view of processes with containers in it: over a scripted list, and with the stand-in for `docker`.

use rescind_ledger::mark::Mark;
use serde_json::{Value, json};

use super::{
    driver::Browser,
    processes::{on_page, order},
    stage::on_stage,
};
use crate::engine::{Engine, of_a_dead_shim};

fn own(session: u32, left: bool, container: &str) -> Value {
    json!({
        "session": session.to_string(), "mark": format!("{session}-1-0000000000000001-0"), "engine": "docker",
        "container": container, "left": left, "name": "<b>eager</b>", "image": "some/image", "state": "running",
    })
}

fn exec(session: u32, left: bool) -> Value {
    let mut entry = own(session, left, "house");
    ["name", "image", "state"].iter().for_each(|name| drop(entry.as_object_mut().unwrap().remove(*name)));
    entry
}

/// The text of a container's row.
fn row(browser: &Browser, session: u32, container: &str) -> String {
    let row = format!(
        "document.querySelector('#processes-list section[data-session=\"{session}\"] tr[data-container=\"{container}\"]')?.innerText"
    );
    let text = browser.until(&row);
    text.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text_is(browser: &Browser, id: &str, text: &str) {
    browser.until(&format!("document.getElementById('{id}').textContent === {text:?}"));
}

/// Session 50 runs, 60 has ended and left processes, too, and 80 has left nothing else.
#[test]
fn containers_are_listed_under_their_sessions_and_only_what_is_left_is_ended() {
    let (live, left, gone) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
    let containers = json!({
        "containers": [own(50, false, &live), own(60, true, &left), own(80, true, &gone), exec(50, false), exec(80, true)],
        "silent": ["podman ps did not answer within 5 s"],
    });
    let receipt = |container: &str, ended: bool, how: &str, session: u32| json!({ "mark": format!("{session}-1-0000000000000001-0"), "container": container, "ended": ended, "how": how });
    let receipts = [receipt(&left, true, "ended", 60), receipt("house", false, "not ended: no shell", 80)];
    let reply = json!({ "processes": [], "containers": receipts });
    on_page(&containers, &reply, 200, |browser| {
        browser.press(['o']);
        // The engine has not answered yet.
        browser.until("document.querySelectorAll('#processes-list section').length === 3");
        browser.run("answerContainers()");
        browser.until("document.querySelectorAll('#processes-list section').length === 4");
        assert_eq!(row(browser, 50, &live), "container aaaaaaaaaaaa <b>eager</b> (some/image) running");
        assert_eq!(row(browser, 50, "house"), "started by exec in container house");
        assert_eq!(row(browser, 60, &left), "container bbbbbbbbbbbb <b>eager</b> (some/image) left, running");
        assert_eq!(row(browser, 80, "house"), "started by exec in container house left, unknown");
        text_is(browser, "processes-silent", "podman ps did not answer within 5 s; its containers are not listed.");
        text_is(
            browser,
            "processes-summary",
            "6 processes of 4 sessions · 4 left by ended sessions · 2 of these kept · 5 containers, 3 left",
        );
        browser.until("document.getElementById('totals-left').textContent.includes('4 processes, 2 containers and what exec started in 1 container left')");
        browser.picture("containers-1-listed");
        browser.click("#processes-end");
        text_is(
            browser,
            "processes-question",
            "End 2 processes, 2 containers and what exec started in 1 container of 2 ended sessions, and what they start meanwhile? SIGTERM first, and SIGKILL 2.5 s later, 1 s later in containers.",
        );
        browser.click("#processes-send");
        let of = |session: u32, container: &str| json!({ "mark": format!("{session}-1-0000000000000001-0"), "container": container });
        let expected = [of(80, &gone), of(80, "house"), of(60, &left)];
        let mut ordered = order(browser)["containers"].as_array().unwrap().clone();
        ordered.sort_by_key(|one| expected.iter().position(|expected| expected == one));
        assert_eq!(ordered, expected);
        for (container, words) in [
            (left.as_str(), "✓ ended"),
            ("house", "▲ not ended: no shell"),
            (&gone, "✓ not found: it has ended by itself"),
        ] {
            browser.until(&format!(
                "document.querySelector('#processes-ended li[data-container=\"{container}\"]')?.innerText.includes({words:?})"
            ));
        }
        browser.until("document.getElementById('announce').textContent.includes('2 processes and 2 containers ended, 1 not ended')");
    });
}

#[test]
fn a_container_that_was_left_ends_from_the_page_and_a_live_one_does_not() {
    on_stage(|stage, browser| {
        let engine = Engine::new(&stage.sockets());
        let (live, dead) = (Mark::next().unwrap(), of_a_dead_shim());
        engine.record(live, "50", &["run", "some/image"]);
        engine.record(dead, "60", &["run", "some/image"]);
        let ((mut running, running_id), (mut left, left_id)) =
            (engine.run(Some(live), "one"), engine.run(Some(dead), "two"));
        browser.press(['o']);
        assert!(row(browser, 60, &left_id).ends_with("two (some/image) left, running"));
        assert!(row(browser, 50, &running_id).ends_with("one (some/image) running"));
        browser.click("#processes-end");
        text_is(
            browser,
            "processes-question",
            "End 1 container of 1 ended session? SIGTERM first, and SIGKILL 1 s later.",
        );
        browser.click("#processes-send");
        left.expect_end();
        browser.until(&format!(
            "document.querySelector('#processes-ended li[data-container=\"{left_id}\"]')?.innerText.includes('✓ ended')"
        ));
        browser.until(&format!("!document.querySelector('#processes-list tr[data-container=\"{left_id}\"]')"));
        browser.until("document.getElementById('processes-end').disabled");
        assert!(running.works());
    });
}
