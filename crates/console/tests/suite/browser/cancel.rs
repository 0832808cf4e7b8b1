//! Cancel, through each outcome: the page says what the record says, and no more.

use rescind_feed::{Answer, Cancel, End, Late, Outcome, Request, Settled, SettledHow, State};
use rescind_testkit::fake_shim::{asked, percent, request};

use super::{
    driver::{Browser, key},
    stage::{SECOND, cancel, on_stage, row, stopped},
};

/// Waits for the words of the open request's cancel.
fn receipt(browser: &Browser, words: &str) {
    browser.until(&format!("document.getElementById('receipt-words').textContent.includes({words:?})"));
}

fn change(request: &mut Request, with: impl FnOnce(&mut Cancel)) {
    let mut cancel = request.cancel.take().expect("a cancel");
    with(&mut cancel);
    request.cancel = Some(cancel.in_words(request.late.as_ref()));
}

#[test]
fn an_agent_that_answers_confirms() {
    on_stage(|stage, browser| {
        let shim = stage.agent("4713");
        shim.set_now(9 * SECOND);
        shim.on_cancel(|request, reason| {
            let mut cancel = asked(9 * SECOND, reason);
            (cancel.confirms, cancel.protocol) = (true, "ACP".into());
            request.cancel = Some(cancel.in_words(None));
            request.state = State::Cancelling;
        });
        shim.put([request(1, "session/prompt", None, SECOND)]);
        cancel(browser, "4713", "c1", "wrong branch");
        receipt(browser, "cancelling…");
        row(browser, "4713", "c1", "cancelling");
        browser.picture("cancel-1-cancelling");
        assert_eq!(shim.wait_for(|seen| seen.orders.first().cloned()).reason.as_deref(), Some("wrong branch"));

        shim.change("c1", |request| {
            change(request, |cancel| (cancel.written, cancel.outcome) = (Some(9 * SECOND + 90), Outcome::Sent));
        });
        receipt(browser, "sent; not confirmed yet");
        shim.change("c1", |request| {
            change(request, |cancel| {
                (cancel.outcome, cancel.after, cancel.answer) =
                    (Outcome::Confirmed, Some(12_000), Some(Answer::Result));
            });
            request.state = State::Ended;
            request.settled = Some(Settled { at: 9 * SECOND + 12_000, how: SettledHow::Result, code: None });
        });
        receipt(browser, "confirmed after 12 ms");
        row(browser, "4713", "c1", "confirmed after 12 ms");
        // What it went through stays to be read.
        browser.until("document.getElementById('receipt-trail').innerText.split('\\n').length === 3");
        browser.until("document.getElementById('announce').textContent.includes('confirmed after 12 ms')");
        browser.picture("cancel-2-confirmed");
    });
}

#[test]
fn a_turn_that_does_not_end_is_cancelled_again_and_its_client_has_its_answer() {
    on_stage(|stage, browser| {
        let shim = stage.agent("4713");
        shim.set_now(9 * SECOND);
        shim.on_cancel(|request, reason| match request.cancel.take() {
            None => {
                let mut cancel = asked(9 * SECOND, reason);
                (cancel.confirms, cancel.protocol) = (true, "ACP".into());
                (cancel.written, cancel.outcome) = (Some(9 * SECOND), Outcome::Sent);
                request.cancel = Some(cancel.in_words(None));
                (request.state, request.may_be_released) = (State::Cancelling, true);
            }
            Some(cancel) => {
                request.cancel = Some(cancel.released());
                (request.state, request.may_be_released) = (State::Released, false);
            }
        });
        shim.put([request(1, "session/prompt", None, SECOND)]);
        cancel(browser, "4713", "c1", "");
        receipt(browser, "sent; not confirmed yet");
        browser.until("document.getElementById('cancel-send').textContent === 'Answer its client now'");
        browser.until("document.getElementById('reason').hidden");
        browser.picture("cancel-9-again");
        browser.click("#cancel-send");
        receipt(browser, "released; not confirmed");
        row(browser, "4713", "c1", "released");
        browser.until("document.getElementById('cancel').hidden");
        assert_eq!(shim.wait_for(|seen| (seen.orders.len() == 2).then_some(seen.orders.len())), 2);
    });
}

#[test]
fn a_silent_protocol_is_sent_and_nothing_more() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        shim.set_now(5 * SECOND);
        shim.on_cancel(|request, reason| {
            let mut cancel = asked(5 * SECOND, reason);
            (cancel.written, cancel.outcome) = (Some(5 * SECOND), Outcome::Sent);
            stopped(request, cancel, 5 * SECOND);
        });
        shim.put([request(1, "tools/call", Some("index"), SECOND)]);
        cancel(browser, "4711", "c1", "");
        receipt(browser, "sent; MCP does not confirm");
        row(browser, "4711", "c1", "sent; MCP does not confirm");
        let facts = browser.run("return document.getElementById('receipt-facts').innerText");
        let facts = facts.as_str().expect("facts");
        assert!(facts.contains("unknown whether it stopped"), "{facts}");
        assert_eq!(shim.wait_for(|seen| seen.orders.first().cloned()).reason, None);
        browser.picture("cancel-3-sent");
    });
}

#[test]
fn a_server_that_works_on_is_seen_to() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4712", &["npx", "server-everything"]);
        shim.set_now(20 * SECOND);
        shim.on_cancel(|request, reason| {
            let mut cancel = asked(20 * SECOND, reason);
            (cancel.written, cancel.outcome) = (Some(20 * SECOND), Outcome::Sent);
            stopped(request, cancel, 20 * SECOND);
        });
        let mut slow = request(1, "tools/call", Some("slow"), SECOND);
        slow.progress = Some(percent(20 * SECOND, 40.0, "step 4"));
        shim.put([slow]);
        cancel(browser, "4712", "c1", "took too long");
        receipt(browser, "sent; MCP does not confirm");
        shim.set_now(27 * SECOND);
        shim.change("c1", |request| {
            request.late = Some(Late { at: 27 * SECOND, answers: 0, notices: 7 });
            request.state = State::Stuck;
            change(request, |_| {});
        });
        receipt(browser, "progress still arriving");
        row(browser, "4712", "c1", "stuck");
        browser.until("document.getElementById('totals-stuck').textContent.includes('1 stuck')");
        browser.until("document.title.includes('1 stuck')");
        browser.until("document.querySelector('.bar.is-stuck .ghost:not([hidden])')");
        browser.picture("cancel-4-stuck");

        shim.set_now(40 * SECOND);
        shim.change("c1", |request| {
            request.late = Some(Late { at: 40 * SECOND, answers: 1, notices: 7 });
            request.state = State::Ended;
            change(request, |cancel| {
                (cancel.outcome, cancel.after, cancel.answer) =
                    (Outcome::AnsweredAfter, Some(20 * SECOND), Some(Answer::Result));
            });
        });
        receipt(browser, "answered after 20.0 s");
        browser.until("!document.getElementById('totals-stuck').textContent");
        browser.picture("cancel-5-answered-late");
        // The late answer lies at the end of its ghost, in sight.
        browser.until(
            "((mark, track) => mark.left > track.left && mark.left < track.right)(document.querySelector('.bar .mark-stop:not([hidden])').getBoundingClientRect(), document.querySelector('.track').getBoundingClientRect())",
        );
    });
}

#[test]
fn an_answer_that_crossed_is_told_as_one() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4714", &["crossing-server"]);
        shim.set_now(3 * SECOND);
        shim.on_cancel(|request, reason| {
            let mut cancel = asked(3 * SECOND, reason);
            (cancel.outcome, cancel.after, cancel.answer) = (Outcome::CompletedFirst, Some(0), Some(Answer::Result));
            request.cancel = Some(cancel.in_words(None));
            request.state = State::Ended;
            request.settled = Some(Settled { at: 3 * SECOND, how: SettledHow::Result, code: None });
        });
        shim.put([request(1, "tools/call", Some("quick"), SECOND)]);
        cancel(browser, "4714", "c1", "");
        receipt(browser, "answered before the cancel was sent");
        row(browser, "4714", "c1", "✓");
        browser.picture("cancel-6-answered-before");
    });
}

#[test]
fn a_connection_that_ends_leaves_it_unknown() {
    on_stage(|stage, browser| {
        let shim = stage.agent("4717");
        shim.set_now(3 * SECOND);
        shim.put([request(1, "session/prompt", None, SECOND), request(2, "session/load", None, SECOND)]);
        cancel(browser, "4717", "c1", "");
        receipt(browser, "cancelling…");
        shim.change("c1", |request| {
            change(request, |cancel| cancel.outcome = Outcome::Unknown);
            request.state = State::Ended;
            request.settled = Some(Settled { at: 4 * SECOND, how: SettledHow::Gone, code: None });
        });
        receipt(browser, "connection ended");
        // Nothing was told of the other one's end: it is unknown, and cannot be cancelled any more.
        std::fs::remove_file(shim.socket()).expect("its socket");
        shim.end(End::Signal(9));
        row(browser, "4717", "c2", "unknown");
        let text = row(browser, "4717", "c2", "session/load");
        assert!(!text.contains("Cancel…"), "{text}");
        browser.until("document.querySelector('.lane.is-over')?.innerText.includes('ended by signal 9')");
        browser.picture("cancel-7-connection-ended");

        browser.click(".lane.is-over .lane-head button");
        browser.until("!document.getElementById('empty').hidden");
    });
}

#[test]
fn what_stands_in_the_way_is_said() {
    on_stage(|stage, browser| {
        let shim = stage.shim("4711", &["npx", "polite-server"]);
        // Over before the order arrives, and nobody was told yet.
        shim.on_cancel(|request, _| request.cancel = Some(asked(SECOND, None)));
        shim.put([request(1, "tools/call", Some("index"), 0), request(2, "tools/call", Some("search"), 0)]);
        row(browser, "4711", "c1", "Cancel…");
        browser.click("#rows tr[data-uid='4711/c1'] .c-cancel button");
        browser.until("document.activeElement.id === 'reason'");
        std::fs::remove_file(shim.socket()).expect("its socket");
        browser.press([key::ENTER]);
        browser
            .until("document.getElementById('cancel-note').textContent.startsWith('Not cancelled: no such session')");
        browser.picture("cancel-8-refused");
        assert!(shim.request("c1").expect("a request").cancel.is_none());
        // The browser logs the answer's status.
        browser.complaints();
    });
}
