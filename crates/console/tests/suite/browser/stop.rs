//! Stop everything: the question, the receipts, and the end of servers that would not stop.

use rescind_feed::{End, Late, Outcome, Request, Settled, SettledHow, Side, State};
use rescind_testkit::fake_shim::{FakeShim, asked, request, session};

use super::{
    driver::{Browser, key},
    stage::{SECOND, on_stage, row, stopped},
};

fn until_text(browser: &Browser, id: &str, text: &str) {
    browser.until(&format!("document.getElementById({id:?}).textContent.includes({text:?})"));
}

/// Waits for the line of a request in the list of what is stopped.
fn line(browser: &Browser, uid: &str, text: &str) {
    browser
        .until(&format!("document.querySelector('#stop-list li[data-uid=\"{uid}\"]')?.innerText.includes({text:?})"));
}

fn confirms(request: &mut Request, reason: Option<&str>) {
    let mut cancel = asked(5 * SECOND, reason);
    (cancel.confirms, cancel.protocol, cancel.written) = (true, "ACP".into(), Some(5 * SECOND));
    (cancel.outcome, cancel.after) = (Outcome::Confirmed, Some(12_000));
    request.cancel = Some(cancel.in_words(None));
    request.state = State::Ended;
    request.settled = Some(Settled { at: 5 * SECOND, how: SettledHow::Result, code: None });
}

/// The server works on, and is stuck.
fn works_on(request: &mut Request, reason: Option<&str>) {
    let mut cancel = asked(5 * SECOND, reason);
    (cancel.written, cancel.outcome) = (Some(5 * SECOND), Outcome::Sent);
    request.late = Some(Late { at: 6 * SECOND, answers: 0, notices: 7 });
    stopped(request, cancel, 5 * SECOND);
    request.state = State::Stuck;
}

fn orders(shim: &FakeShim) -> Vec<Vec<String>> {
    shim.wait_for(|seen| Some(seen.orders.iter().map(|order| order.requests.clone()).collect()))
}

#[test]
fn everything_is_stopped_after_a_question_and_what_resists_is_ended_with_its_server() {
    on_stage(|stage, browser| {
        let (agent, deaf) = (stage.agent("4713"), stage.shim("4712", &["npx", "server-everything"]));
        for shim in [&agent, &deaf] {
            shim.set_now(5 * SECOND);
        }
        agent.on_cancel(confirms);
        deaf.on_cancel(works_on);
        agent.put([request(1, "session/prompt", None, SECOND), request(2, "session/load", None, SECOND)]);
        deaf.put([request(3, "tools/call", Some("slow"), SECOND)]);
        row(browser, "4713", "c2", "running");
        row(browser, "4712", "c3", "running");
        // By keys alone; the first press of Enter must not stop anything.
        browser.press(['s']);
        until_text(browser, "stop-title", "Stop 3 requests in 2 sessions?");
        browser.until("document.activeElement.id === 'stop-close'");
        browser.picture("stop-1-question");
        browser.press([key::ENTER]);
        browser.until("!document.getElementById('stop').open");
        assert_eq!((orders(&agent).len(), orders(&deaf).len()), (0, 0));

        browser.click("#stop-open");
        browser.until("document.getElementById('stop').open");
        browser.run("document.getElementById('stop-reason').focus()");
        browser.write("enough");
        browser.press([key::ENTER]);
        line(browser, "4713/c1", "stopped: confirmed after 12 ms");
        line(browser, "4713/c2", "stopped: confirmed after 12 ms");
        line(browser, "4712/c3", "still working: progress still arriving");
        until_text(browser, "stop-summary", "2 stopped, 1 still working");
        until_text(browser, "stop-servers", "server-everything 4712");
        browser.picture("stop-2-receipts");
        assert_eq!((orders(&agent), orders(&deaf)), (vec![vec!["c1".into(), "c2".into()]], vec![vec!["c3".into()]]));
        assert!(agent.wait_for(|seen| Some(seen.orders[0].reason.as_deref() == Some("enough"))));

        // What began since would end with it, and is named.
        deaf.put([request(4, "tools/call", Some("other"), 5 * SECOND)]);
        until_text(browser, "stop-servers", "1 other request in flight would end with it");
        until_text(browser, "stop-kill", "End 1 server");
        browser.click("#stop-kill");
        let order = deaf.wait_for(|seen| seen.ends.first().copied());
        assert_eq!(order.started, session("4712", &[]).started);
        deaf.end(End::Signal(15));
        line(browser, "4712/c3", "ended: with its server");
        until_text(browser, "stop-summary", "2 stopped, 1 ended");
        browser.until("document.getElementById('stop-kill').hidden");
        assert!(agent.wait_for(|seen| Some(seen.ends.is_empty())));
        browser.picture("stop-3-ended");
    });
}

#[test]
fn only_what_the_filter_selects_is_stopped() {
    on_stage(|stage, browser| {
        let shim = stage.agent("4713");
        shim.set_now(5 * SECOND);
        shim.on_cancel(confirms);
        shim.put([request(1, "session/prompt", None, SECOND), request(2, "session/load", None, SECOND)]);
        row(browser, "4713", "c2", "running");
        browser.run("document.getElementById('search').focus()");
        browser.write("load");
        until_text(browser, "stop-open", "Stop what is selected…");
        browser.click("#stop-open");
        until_text(browser, "stop-title", "Stop 1 request in 1 session?");
        until_text(browser, "stop-note", "The filter leaves out 1 request in flight.");
        browser.click("#stop-send");
        line(browser, "4713/c2", "stopped");
        assert_eq!(orders(&shim), [["c2"]]);
        assert_eq!(shim.request("c1").map(|request| request.cancel), Some(None));
    });
}

/// What an outer session's cancel ends is not cancelled a second time.
#[test]
fn an_inner_session_is_left_to_the_cancel_of_the_outer_one() {
    on_stage(|stage, browser| {
        let outer = stage.agent("4711");
        let mut facts = session("4720", &["inner"]);
        facts.ancestors = vec![session("4711", &[]).pid];
        let inner = std::sync::Arc::new(FakeShim::open(&stage.sockets(), facts));
        for shim in [&outer, &*inner] {
            shim.set_now(5 * SECOND);
        }
        let passed_on = std::sync::Arc::clone(&inner);
        outer.on_cancel(move |request, reason| {
            passed_on.change("c2", |request| confirms(request, None));
            confirms(request, reason);
        });
        inner.on_cancel(confirms);
        outer.put([request(1, "session/prompt", None, SECOND)]);
        inner.put([request(2, "tools/call", None, SECOND), request(3, "tools/call", None, SECOND)]);
        row(browser, "4711", "c1", "running");
        row(browser, "4720", "c3", "running");
        browser.click("#stop-open");
        browser.until("document.getElementById('stop').open");
        browser.click("#stop-send");
        until_text(browser, "stop-summary", "3 stopped");
        assert_eq!((orders(&outer), orders(&inner)), (vec![vec!["c1".into()]], vec![vec!["c3".into()]]));
    });
}

/// The client need not confirm that it took a card back, and the server is not offered for ending (D53).
#[test]
fn a_card_that_its_client_still_shows_offers_no_end_of_the_server() {
    on_stage(|stage, browser| {
        let agent = stage.agent("4713");
        agent.set_now(5 * SECOND);
        agent.on_cancel(|request, reason| match request.from {
            Side::Client => confirms(request, reason),
            Side::Server => {
                let mut cancel = asked(5 * SECOND, reason);
                (cancel.confirms, cancel.protocol) = (true, "ACP".into());
                (cancel.written, cancel.outcome) = (Some(5 * SECOND), Outcome::Sent);
                stopped(request, cancel, 5 * SECOND);
                request.state = State::Stuck;
            }
        });
        let card = Request { from: Side::Server, ..request(7, "session/request_permission", None, 2 * SECOND) };
        agent.put([request(1, "session/prompt", None, SECOND), card]);
        row(browser, "4713", "c1", "running");
        browser.click("#stop-open");
        browser.until("document.getElementById('stop').open");
        browser.click("#stop-send");
        line(browser, "4713/c1", "stopped");
        line(browser, "4713/c7", "with its client: sent; not confirmed yet; the card may still be shown");
        until_text(browser, "stop-summary", "1 stopped, 1 with its client");
        browser.until("document.getElementById('stop-kill').hidden");
        assert!(agent.wait_for(|seen| Some(seen.ends.is_empty())));
    });
}

/// What an earlier cancel has left: it is shown, and the second Stop offers to end its server (D52).
#[test]
fn what_was_cancelled_before_is_shown_and_its_server_is_ended_only_if_that_is_said() {
    on_stage(|stage, browser| {
        let (mute, other) = (stage.shim("4712", &["npx", "server-everything"]), stage.shim("4713", &["another"]));
        for shim in [&mute, &other] {
            shim.set_now(60 * SECOND);
        }
        let mut released = request(1, "tools/call", Some("slow"), SECOND);
        let mut cancel = asked(5 * SECOND, None);
        (cancel.written, cancel.outcome) = (Some(5 * SECOND), Outcome::Sent);
        stopped(&mut released, cancel, 5 * SECOND);
        released.state = State::Released;
        mute.put([released]);
        let shown = row(browser, "4712", "c1", "released");
        assert!(shown.contains("sent; MCP does not confirm"), "{shown}");
        until_text(browser, "totals-calm", "0 in flight · 1 released");
        browser.click("#stop-open");
        until_text(browser, "stop-title", "Stop 1 request in 1 session?");
        until_text(browser, "stop-note", "1 of these was cancelled before, and not known to have stopped.");
        browser.click("#stop-send");
        line(browser, "4712/c1", "unknown: sent; MCP does not confirm");
        until_text(browser, "stop-summary", "0 stopped, 1 unknown");
        until_text(browser, "stop-unknown", "Not known to have stopped: server-everything 4712.");
        browser.until("document.getElementById('stop-kill').hidden");
        browser.picture("stop-4-unknown");
        assert_eq!((orders(&mute).len(), mute.wait_for(|seen| Some(seen.ends.len()))), (0, 0));
        browser.click("#stop-kill-unknown");
        mute.wait_for(|seen| seen.ends.first().copied());
        mute.end(End::Signal(15));
        until_text(browser, "stop-summary", "0 stopped, 1 ended");
        assert!(other.wait_for(|seen| Some(seen.ends.is_empty())));
    });
}

#[test]
fn a_server_is_ended_without_a_request_after_a_question() {
    on_stage(|stage, browser| {
        let (here, elsewhere) = (stage.shim("4712", &["server"]), stage.shim("4713", &["https://example.com/mcp"]));
        let button = "document.querySelector('.lane[data-session=\"4712\"] .end')";
        browser.until(&format!("{button} && !{button}.hidden"));
        browser.until("document.querySelector('.lane[data-session=\"4713\"] .end')?.hidden");
        // The first press of Enter must not end anything.
        browser.run(&format!("{button}.click()"));
        until_text(browser, "end-title", "End the server of server 4712?");
        until_text(browser, "end-note", "Nothing in flight. All its work ends with it.");
        browser.until("document.activeElement.id === 'end-close'");
        browser.picture("end-question");
        browser.press([key::ENTER]);
        browser.until("!document.getElementById('end').open");
        assert!(here.wait_for(|seen| Some(seen.ends.is_empty())));
        browser.run(&format!("{button}.click()"));
        browser.until("document.getElementById('end').open");
        browser.click("#end-send");
        let order = here.wait_for(|seen| seen.ends.first().copied());
        assert_eq!(order.started, session("4712", &[]).started);
        until_text(browser, "end-note", "Ending…");
        here.end(End::Signal(15));
        until_text(browser, "end-note", "ended by signal 15");
        assert!(elsewhere.wait_for(|seen| Some(seen.ends.is_empty())));
    });
}
