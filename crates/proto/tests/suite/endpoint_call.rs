//! Our requests: cancelled before, while and after they are written, answered early, late and never.

use core::time::Duration;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionEvent, Limit, Misuse, OutgoingState, Settlement},
    dialect::{Dialect, acp, lsp, mcp},
    link::{LateKind, Rejected},
    receipt::{Answer, Outcome},
    side::Side,
};

use crate::endpoint_rig::*;

const DIALECTS: [&Dialect; 5] = [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &acp::V2_DRAFT, &lsp::LSP];

fn cancelled() -> Settlement {
    Settlement::Cancelled(Cause::new(CauseCode::Caller))
}

fn answered() -> Settlement {
    Settlement::Result(b"{}".as_slice().into())
}

/// What we write to cancel request 1.
fn our_cancel(dialect: &Dialect) -> String {
    match dialect.cancel.reason {
        Some(_) => r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"cancelled by the caller"}}"#.into(),
        None => cancel_in(dialect, "1"),
    }
}

#[test]
fn a_request_is_written_and_its_answer_settles_it() {
    for dialect in DIALECTS {
        let mut rig = client(dialect);
        let key = rig.ask("work", r#"{"a":1}"#);
        assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{"a":1}}"#]);
        rig.hear(&[&result("1")]);
        assert_eq!(rig.settled(), [(key, answered())]);
        rig.leaves_nothing();
    }
}

// Cases 23 and 24, D14.
#[test]
fn cancel_before_send_sends_nothing() {
    for dialect in DIALECTS {
        let mut rig = client(dialect);
        let key = rig.ask("work", "");
        assert!(rig.cancel(key));
        assert_eq!(rig.settled(), [(key, cancelled())]);
        assert_eq!(rig.outcome(key), Some(Outcome::NeverSent));
        assert_eq!(rig.say(), [""; 0], "{dialect}");
        assert!(!rig.cancel(key), "it is over");
        rig.leaves_nothing();
    }
}

// Case 24.
#[test]
fn cancel_while_the_write_is_blocked_sends_both_in_order_or_neither() {
    for dialect in DIALECTS {
        let request = call("2", "work");
        for begun in 0..=request.len() + 1 {
            let mut rig = client(dialect);
            // Another request blocks the pipe.
            rig.ask("other", "");
            let key = rig.ask("work", "");
            let other = call("1", "other").len() + 1;
            let mut text = rig.write(other + begun);
            rig.cancel(key);
            assert_eq!(rig.settled(), [(key, cancelled())], "the caller never waits");
            text.push_str(&rig.say().join("\n"));
            let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
            let cancel = our_cancel(dialect).replace(":1", ":2");
            match begun {
                0 => assert_eq!(lines, [call("1", "other")]),
                _ => assert_eq!(lines, [call("1", "other"), request.clone(), cancel], "{dialect} after {begun}"),
            }
        }
    }
}

// Case 25, D15.
#[test]
fn cancel_after_send_sends_exactly_one_cancel() {
    for dialect in DIALECTS {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        rig.cancel(key);
        assert_eq!(rig.outcome(key), Some(Outcome::Asked));
        assert_eq!(rig.say(), [our_cancel(dialect)]);
        assert_eq!(rig.outcome(key), Some(Outcome::Sent));
        assert!(!rig.cancel(key));
        rig.pass(secs(3600));
        assert_eq!(rig.say(), [""; 0]);
        assert_eq!(rig.settled(), [(key, cancelled())]);
        rig.leaves_nothing();
    }
}

// Case 69, D13.
#[test]
fn a_cancel_passes_whole_queued_frames_and_waits_for_the_one_begun() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    let big = format!(r#"{{"data":"{}"}}"#, "x".repeat(100_000));
    rig.ask("big", &big);
    rig.ask("next", "");
    rig.write(10);
    rig.cancel(key);
    let lines = rig.say();
    assert!(lines[0].ends_with(&format!("{big}}}")));
    assert_eq!(lines[1], our_cancel(&mcp::LATEST_LEGACY));
    assert_eq!(lines[2], call("3", "next"));
}

// Case 26, D15.
#[test]
fn an_answer_before_the_cancel_was_written_disarms_it() {
    for dialect in DIALECTS {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        rig.hear(&[&result("1")]);
        assert_eq!(rig.say(), [""; 0], "{dialect}");
        assert_eq!(rig.outcome(key), Some(Outcome::CompletedFirst));
        assert_eq!(rig.settled(), [(key, cancelled())], "the caller was told before");
        rig.leaves_nothing();
    }
}

// Case 26.
#[test]
fn a_cancel_after_the_answer_is_nothing() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    rig.hear(&[&result("1")]);
    assert!(!rig.cancel(key));
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.settled(), [(key, answered())]);
    assert_eq!(rig.receipt(key), None);
    rig.leaves_nothing();
}

// Case 32, D28.
#[test]
fn what_comes_late_is_quiet_counted_and_in_the_receipt() {
    for (dialect, late, what, outcome) in [
        (&mcp::LATEST_LEGACY, result("1"), LateKind::Result, Answer::Result),
        (&mcp::LATEST_LEGACY, error("1", -32800), LateKind::Error, Answer::Error),
        (&lsp::LSP, error("1", -1), LateKind::Error, Answer::Error),
    ] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        rig.say();
        rig.pass(millis(30));
        rig.hear(&[&late]);
        assert_eq!(rig.outcome(key), Some(Outcome::AnsweredAfter { after: millis(30), answer: outcome }));
        let seen = rig.take(|event| if let ConnectionEvent::Late { what, .. } = event { Some(*what) } else { None });
        assert_eq!(seen, [what]);
        rig.hear(&[&late]);
        assert_eq!(rig.conn.counters().late, 2, "even twice");
        assert_eq!(rig.refusals(), []);
        assert_eq!(rig.settled().len(), 1);
        rig.leaves_nothing();
    }
}

#[test]
fn the_cancellation_error_confirms_the_cancel() {
    for dialect in [&acp::V1, &acp::V2_DRAFT, &lsp::LSP] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        rig.say();
        rig.pass(millis(7));
        rig.hear(&[&error("1", -32800)]);
        assert_eq!(rig.outcome(key), Some(Outcome::Confirmed { after: millis(7) }), "{dialect}");
        rig.leaves_nothing();
    }
}

#[test]
fn a_cancellation_result_of_the_method_confirms_the_cancel() {
    let mut rig = Rig::new(config(Side::Server, &acp::V1));
    let key = rig.call("session/request_permission");
    rig.cancel(key);
    rig.say();
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#]);
    assert_eq!(rig.outcome(key), Some(Outcome::Confirmed { after: Duration::ZERO }));
}

// Case 32.
#[test]
fn a_response_to_nothing_is_reported() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    rig.hear(&[&result("77"), &result(r#""abc""#)]);
    assert_eq!(rig.refusals(), [Rejected::UnknownResponse, Rejected::UnknownResponse]);
    rig.hear(&[&error("null", -32700), r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#]);
    assert_eq!(rig.refusals(), [Rejected::StrayError, Rejected::StrayError]);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_response_to_a_request_that_was_not_sent_answers_nobody() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.ask("work", "");
    rig.hear(&[&result("1")]);
    assert_eq!(rig.settled(), []);
    assert_eq!(rig.refusals(), [Rejected::UnknownResponse]);
    rig.say();
    rig.hear(&[&result("1")]);
    assert_eq!(rig.settled(), [(key, answered())]);
}

// Case 66, D10.
#[test]
fn an_id_that_only_resembles_ours_is_matched_and_counted() {
    for id in [r#""1""#, "1.0"] {
        let mut rig = client(&mcp::LATEST_LEGACY);
        let key = rig.call("work");
        rig.hear(&[&result(id)]);
        assert_eq!(rig.settled(), [(key, answered())], "{id}");
        assert_eq!(rig.conn.counters().loose_ids, 1);
    }
}

#[test]
fn an_error_settles_the_request_with_the_peers_words() {
    let mut rig = client(&lsp::LSP);
    let key = rig.call("work");
    rig.hear(&[&error("1", -32800)]);
    let error = br#"{"code":-32800,"message":"no"}"#.as_slice().into();
    assert_eq!(rig.settled(), [(key, Settlement::PeerError(error))], "the peer gave up; nobody here cancelled");
}

// D4.
#[test]
fn a_caller_may_wait_for_the_answer_after_the_cancel() {
    let mut rig = client(&acp::V1);
    let key = rig.call("work");
    rig.conn.cancel_and_wait(rig.now, key, Cause::new(CauseCode::Operator), secs(2));
    assert_eq!(rig.settled(), []);
    assert_eq!(rig.say(), [our_cancel(&acp::V1)]);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{"partial":1}}"#]);
    assert_eq!(rig.settled(), [(key, Settlement::Result(br#"{"partial":1}"#.as_slice().into()))]);
    rig.leaves_nothing();
}

// D4.
#[test]
fn a_caller_that_waits_is_told_cancelled_by_the_error_or_by_the_end_of_the_grace() {
    let cause = Cause::new(CauseCode::Operator);
    for answered in [true, false] {
        let mut rig = client(&acp::V1);
        let key = rig.call("work");
        rig.conn.cancel_and_wait(rig.now, key, cause.clone(), secs(2));
        rig.say();
        rig.pass(millis(1999));
        assert_eq!(rig.settled(), []);
        if answered {
            rig.hear(&[&error("1", -32800)]);
        } else {
            rig.pass(millis(1));
        }
        assert_eq!(rig.settled(), [(key, Settlement::Cancelled(cause.clone()))]);
        assert_eq!(rig.say(), [""; 0], "one cancel");
        rig.leaves_nothing();
    }
}

#[test]
fn a_caller_that_waited_may_stop_waiting() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("work");
    rig.conn.cancel_and_wait(rig.now, key, Cause::new(CauseCode::Operator), secs(2));
    rig.say();
    assert!(rig.cancel(key));
    assert_eq!(rig.settled(), [(key, Settlement::Cancelled(Cause::new(CauseCode::Operator)))], "the first cause stays");
    rig.leaves_nothing();
}

// Case 16, D18.
#[test]
fn initialize_is_never_cancelled_on_the_wire() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = client(dialect);
        let key = rig.call("initialize");
        rig.cancel(key);
        assert_eq!(rig.settled(), [(key, cancelled())]);
        assert_eq!(rig.outcome(key), Some(Outcome::NotSendable), "{dialect}");
        assert_eq!(rig.say(), [""; 0]);
        rig.hear(&[&result("1")]);
        assert_eq!(rig.conn.counters().late, 1);
        rig.leaves_nothing();
    }
}

// Case 36, D20.
#[test]
fn words_of_a_caller_go_on_the_wire_and_nothing_else_does() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    rig.cancel_for(key, Cause::new(CauseCode::Operator).with_text("lunch \"now\""));
    assert!(rig.say()[0].contains(r#""reason":"lunch \"now\"""#));
    let key = rig.call("work");
    rig.cancel_for(key, Cause::parent(CauseCode::Timeout));
    assert!(rig.say()[0].contains(r#""reason":"the request it served was cancelled""#));
}

// D3.
#[test]
fn a_peer_that_uses_an_older_spelling_gets_it_back() {
    let mut rig = client(&acp::V1);
    let key = rig.call("work");
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":99}}"#]);
    rig.cancel(key);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":1}}"#]);
}

// Case 37.
#[test]
fn a_detached_request_is_not_cancelled_with_its_parent() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let parent = rig.serve("1", "work");
    let options = CallOptions { parent: Some(parent), ..CallOptions::default() };
    let (kept, free) = (rig.ask_with("a", "", &options), rig.ask_with("b", "", &options));
    rig.say();
    rig.conn.detach(free);
    rig.hear(&[&mcp_cancel("1")]);
    let settled = rig.settled();
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].0, kept);
    rig.hear(&[&result("2")]);
    assert_eq!(rig.settled(), [(free, answered())]);
}

#[test]
fn requests_beyond_the_bound_are_the_callers_to_hold_back() {
    let mut config = config(Side::Client, &mcp::LATEST);
    config.max_in_flight = 1;
    let mut rig = Rig::new(config);
    let key = rig.ask("work", "");
    let more = rig.conn.request(rig.now, "work", b"", &CallOptions::default());
    assert_eq!(more, Err(Misuse::TooMany));
    rig.cancel(key);
    rig.ask("work", "");
}

// Case 34: 100,000 cancelled requests leave a bounded memory.
#[test]
fn a_hundred_thousand_cancelled_requests_are_forgotten() {
    let mut rig = client(&mcp::LATEST);
    let options = CallOptions { response_timeout: Limit::Never, total_timeout: Limit::Never, ..CallOptions::default() };
    for _ in 0..100_000 {
        let key = rig.conn.request(rig.now, "work", b"", &options).unwrap();
        let n = rig.conn.pending().len();
        rig.conn.handle_written(rig.now, n);
        rig.conn.cancel(rig.now, key, Cause::new(CauseCode::Caller));
        let n = rig.conn.pending().len();
        rig.conn.handle_written(rig.now, n);
        while rig.conn.poll_event().is_some() {}
        rig.now = rig.now + millis(1);
        rig.conn.handle_timeout(rig.now);
    }
    assert!(rig.conn.remembered() <= 5001, "{}", rig.conn.remembered());
    rig.leaves_nothing();
}

// Case 35.
#[test]
fn every_way_out_leaves_nothing_behind() {
    for dialect in DIALECTS {
        for way in 0..7 {
            let mut rig = client(dialect);
            let key = if way == 0 { rig.ask("work", "") } else { rig.call("work") };
            match way {
                0 | 1 => drop(rig.cancel(key)),
                2 => rig.hear(&[&result("1")]),
                3 => rig.hear(&[&error("1", -5)]),
                4 => rig.conn.handle_eof(rig.now),
                5 => rig.conn.handle_write_closed(rig.now),
                _ => rig.pass(secs(3600)),
            }
            if way == 6 && dialect.clocks.total.is_none() {
                rig.cancel(key);
            }
            assert_eq!(rig.settled().len(), 1, "{dialect} {way}");
            rig.leaves_nothing();
        }
    }
}

#[test]
fn line_breaks_in_params_do_not_break_the_frame() {
    let mut rig = client(&mcp::LATEST);
    rig.ask("work", "{\r\n  \"a\": 1\n}");
    assert_eq!(rig.say().len(), 1);
}

#[test]
fn what_is_in_flight_can_be_seen() {
    let mut rig = client(&mcp::LATEST);
    rig.ask("a", "");
    let b = rig.call("b");
    rig.cancel(b);
    rig.ask("c", "");
    let seen: Vec<_> = rig.conn.outgoing().map(|view| (view.method.to_owned(), view.state)).collect();
    assert_eq!(
        seen,
        [
            ("a".to_owned(), OutgoingState::Sent),
            ("b".to_owned(), OutgoingState::Cancelling),
            ("c".to_owned(), OutgoingState::Queued),
        ]
    );
}

// MCP-M02.
#[test]
fn a_server_ends_our_subscription_in_any_of_three_ways() {
    for way in 0..3 {
        let mut rig = client(&mcp::LATEST);
        let key = rig.call("subscriptions/listen");
        match way {
            0 => rig.hear(&[&mcp_cancel("1")]),
            1 => rig.hear(&[&result("1"), &mcp_cancel("1")]),
            _ => rig.conn.handle_eof(rig.now),
        }
        let expected = [Settlement::Ended { reason: None }, answered(), Settlement::Closed];
        assert_eq!(rig.settled(), [(key, expected[way].clone())]);
        assert_eq!(rig.violations(), []);
        rig.leaves_nothing();
    }
}

// Cases 31 and 33: the pipe is blocked, the clock is not.
#[test]
fn a_clock_does_not_wait_for_the_pipe() {
    let mut rig = client(&mcp::LATEST);
    let options = CallOptions { response_timeout: Limit::After(millis(300)), ..CallOptions::default() };
    let key = rig.ask_with("work", "", &options);
    rig.pass(millis(300));
    let settled = rig.settled();
    assert!(matches!(settled[0], (timed_out, Settlement::TimedOut { .. }) if timed_out == key));
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}
