//! The keyboard: what it reaches, and that redrawing leaves the focus where it is.

use rescind_feed::{End, Outcome, Request, Settled, SettledHow, State};
use rescind_testkit::fake_shim::{asked, request};

use super::{
    driver::{Browser, key},
    stage::{SECOND, on_stage, row, stopped},
};

/// The most presses of Tab on the way to anything: more than this and nobody arrives.
const FAR: usize = 30;

/// Presses Tab until the focus is there.
fn tab_to(browser: &Browser, id: &str) {
    for _ in 0..FAR {
        if browser.run("return document.activeElement?.id ?? ''") == id {
            return;
        }
        browser.press([key::TAB]);
    }
    panic!("{FAR} presses of Tab do not lead to {id}");
}

fn answered(request: &mut Request) {
    request.state = State::Ended;
    request.settled = Some(Settled { at: 2 * SECOND, how: SettledHow::Result, code: None });
}

#[test]
fn everything_is_stopped_with_tab_and_enter_alone() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.set_now(5 * SECOND);
        shim.on_cancel(|request, reason| {
            let mut cancel = asked(5 * SECOND, reason);
            (cancel.written, cancel.outcome) = (Some(5 * SECOND), Outcome::Sent);
            stopped(request, cancel, 5 * SECOND);
        });
        shim.put((1..=2).map(|id| request(id, "tools/call", Some("index"), id)));
        row(browser, "4711", "c2", "running");
        tab_to(browser, "stop-open");
        browser.press([key::ENTER]);
        browser.until("document.activeElement.id === 'stop-close'");
        tab_to(browser, "stop-reason");
        browser.write("enough");
        tab_to(browser, "stop-send");
        browser.press([key::ENTER]);
        let order = shim.wait_for(|seen| seen.orders.first().cloned());
        assert_eq!((order.requests.len(), order.reason.as_deref()), (2, Some("enough")));
        // The receipts are said, although what lies behind a dialog is not read.
        browser.until("document.querySelector('#stop #announce')?.textContent.includes('2 unknown') || document.querySelector('#stop #announce')?.textContent.includes('Cancel of')");
        browser.press([key::ESCAPE]);
        browser.until("!document.getElementById('stop').open");
    });
}

#[test]
fn the_focus_stays_on_its_row_whatever_comes_goes_and_moves() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put((1..=6).map(|id| request(id, "tools/call", Some("index"), id * 1000)));
        row(browser, "4711", "c6", "running");
        browser.press(['j', 'j', 'j']);
        let focused = "document.activeElement.dataset?.uid";
        browser.until(&format!("{focused} === '4711/c3'"));
        // Those around it end and become stuck, new ones come, and it moves itself.
        shim.change("c1", answered);
        shim.change("c5", |request| request.state = State::Stuck);
        shim.put((7..=40).map(|id| request(id, "tools/call", Some("later"), id * 1000)));
        row(browser, "4711", "c40", "later");
        assert_eq!(browser.run(&format!("return {focused}")), "4711/c3");
        shim.change("c3", answered);
        row(browser, "4711", "c3", "result");
        assert_eq!(browser.run(&format!("return {focused}")), "4711/c3");
        browser.press([key::END]);
        browser.until(&format!("{focused} === '4711/c1' || {focused} === '4711/c3'"));
        browser.press([key::SPACE]);
        browser.until("document.activeElement.id === 'pane-title'");
    });
}

#[test]
fn the_focus_stays_on_the_button_of_a_lane_and_on_a_line_of_the_past() {
    on_stage(|stage, browser| {
        let shims = ["4711", "4712", "4713", "4714"].map(|name| stage.shim(name, &["npx", "polite-server"]));
        for shim in &shims {
            shim.put([request(1, "tools/call", Some("index"), 0)]);
        }
        for name in ["4711", "4712", "4713", "4714"] {
            row(browser, name, "c1", "index");
        }
        let [first, second, third, fourth] = shims;
        for shim in [&first, &second] {
            shim.change("c1", answered);
        }
        row(browser, "4712", "c1", "result");
        first.end(End::ExitCode(0));
        browser.until("document.getElementById('past-count').textContent === '1'");
        browser.run(
            "document.getElementById('past-toggle').click(); document.querySelector('.past-session > button').focus()",
        );
        second.end(End::ExitCode(0));
        browser.until("document.querySelectorAll('.past-session').length === 2");
        assert_eq!(browser.run("return document.activeElement.parentNode.dataset.session"), "4711");

        // A lane that ends goes below the others, with the focus on what is left of its buttons.
        browser.run("document.querySelector('.lane[data-session=\"4713\"] .end').focus()");
        third.end(End::Signal(9));
        browser.until("document.querySelector('.lane.is-over[data-session=\"4713\"]')");
        browser.until("document.activeElement.matches('.lane[data-session=\"4713\"] .dismiss')");
        fourth.change("c1", answered);
    });
}

#[test]
fn chips_are_one_stop_and_stay_in_their_order_whatever_is_counted() {
    on_stage(|stage, browser| {
        let [one, other] = ["4712", "4711"].map(|name| stage.shim(name, &["npx", "polite-server"]));
        one.put([request(1, "tools/call", Some("index"), 0)]);
        row(browser, "4712", "c1", "running");
        other.put((1..=3).map(|id| request(id, "tools/call", Some("index"), 0)));
        row(browser, "4711", "c3", "running");
        let order = "[...document.querySelectorAll('.chip')].map((chip) => chip.dataset.value).join()";
        let before = browser.run(&format!("return {order}"));
        browser.until("document.querySelector('.chip[data-value=running]').textContent === 'running 4'");
        for id in 1..=3 {
            other.change(&format!("c{id}"), answered);
        }
        one.change("c1", |request| request.state = State::Stuck);
        browser.until("document.querySelector('.chip[data-value=ended]').textContent === 'ended 3'");
        browser.until("document.querySelector('.chip[data-value=stuck]').textContent === 'stuck 1'");
        assert_eq!(browser.run(&format!("return {order}")), before);

        assert_eq!(browser.run("return document.querySelectorAll('#chips-state .chip[tabindex=\"0\"]').length"), 1);
        browser.run("document.querySelector('#chips-state .chip').focus()");
        browser.press([key::RIGHT]);
        browser.until("document.activeElement.dataset.value === 'running'");
        browser.press([key::SPACE]);
        browser.until("document.activeElement.getAttribute('aria-pressed') === 'true'");
        // It is still there after a redrawing, and the group is left by one press.
        one.change("c1", |request| request.state = State::Running);
        row(browser, "4712", "c1", "running");
        assert_eq!(browser.run("return document.activeElement.dataset.value"), "running");
        browser.press([key::TAB]);
        browser.until("document.activeElement.closest('#chips-side')");
    });
}

/// A screen reader is told at most once a second, however much happens.
#[test]
fn what_is_said_aloud_is_bounded() {
    // In the time of frames: on a busy machine a frame may be drawn long after its time.
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.put((1..=200).map(|id| request(id, "tools/call", Some("index"), id)));
        row(browser, "4711", "c1", "running");
        browser.run(
            "globalThis.said = [];
             new MutationObserver(() => said.push([document.timeline.currentTime, document.getElementById('announce').textContent]))
               .observe(document.getElementById('announce'), { childList: true });",
        );
        for id in 1..=200 {
            shim.change(&format!("c{id}"), |request| {
                let mut cancel = asked(SECOND, None);
                (cancel.written, cancel.outcome) = (Some(SECOND), Outcome::Sent);
                stopped(request, cancel, SECOND);
            });
        }
        browser.until("said.some(([, text]) => /changes; the last/.test(text))");
        let short = browser.run("return said.slice(1).filter(([at], index) => at - said[index][0] < 950).length");
        assert_eq!(short, 0, "{}", browser.run("return said"));
    });
}
