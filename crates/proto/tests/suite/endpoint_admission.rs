//! How many handlers run, who waits, and when a slot is free again (D12).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionConfig, ConnectionEvent, HandlerEnd, IncomingState, Reply},
    dialect::{acp, lsp, mcp},
    link::{Rejected, Verdict},
    receipt::Ending,
    side::Side,
};

use crate::endpoint_rig::*;

fn bounded(running: usize, queued: usize) -> ConnectionConfig {
    let mut config = config(Side::Server, &mcp::LATEST_LEGACY);
    config.max_running = running;
    config.max_queued = queued;
    config
}

// Case 13.
#[test]
fn a_queued_request_that_is_cancelled_never_starts() {
    let mut rig = Rig::new(bounded(1, 4));
    let first = rig.serve("1", "work");
    rig.hear(&[&call("2", "work"), &call("3", "work")]);
    assert_eq!(rig.start(), []);
    assert_eq!((rig.running(), rig.queued()), (1, 2));
    rig.hear(&[&mcp_cancel("2")]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted]);
    assert_eq!(rig.endings(), [Ending::NeverStarted]);
    rig.end(first, OK);
    let started = rig.start();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].id.0.to_string(), "3", "the next in line runs");
    rig.end(started[0].key, OK);
    assert_eq!(rig.say(), [result("1"), result("3")]);
    rig.leaves_nothing();
}

// Case 13: an event that was not polled is not a handler that runs.
#[test]
fn a_request_whose_event_was_not_polled_counts_as_queued() {
    let mut rig = Rig::new(bounded(4, 4));
    rig.hear(&[&call("1", "work")]);
    assert_eq!((rig.running(), rig.queued()), (0, 1));
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.start(), []);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_cancelled_offer_gives_its_slot_to_the_next_in_line() {
    let mut rig = Rig::new(bounded(1, 4));
    rig.hear(&[&call("1", "work"), &call("2", "work"), &mcp_cancel("1")]);
    let started = rig.start();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].id.0.to_string(), "2");
}

// One slot and a call back: the peer asks again before it answers.
#[test]
fn a_handler_that_waits_for_its_peer_holds_no_slot() {
    let mut rig = Rig::new(bounded(1, 2));
    let first = rig.serve("1", "work");
    rig.hear(&[&call("2", "work")]);
    assert_eq!(rig.start(), [], "the first is at work");
    let options = CallOptions { parent: Some(first), ..CallOptions::default() };
    let asked = rig.ask_with("ask", "", &options);
    rig.say();
    let second = rig.start().pop().expect("the first waits");
    assert_eq!(rig.running(), 2);
    rig.hear(&[&call("3", "work")]);
    assert_eq!(rig.start(), [], "the second is at work");
    // Back at work without a slot, it keeps others from starting until both but one have ended.
    rig.hear(&[&result("1")]);
    assert_eq!(rig.settled().pop().map(|(key, _)| key), Some(asked));
    rig.end(second.key, OK);
    assert_eq!(rig.start(), [], "the first is at work again");
    rig.end(first, OK);
    let third = rig.start().pop().expect("the slot is free");
    rig.end(third.key, OK);
    rig.say();
    rig.leaves_nothing();
}

// However deep two sides ask each other back, their requests are bounded together.
#[test]
fn handlers_that_wait_for_their_peer_are_bounded_with_those_that_are_queued() {
    let mut rig = Rig::new(bounded(1, 2));
    for id in ["1", "2", "3"] {
        let key = rig.serve(id, "work");
        rig.ask_with("ask", "", &CallOptions { parent: Some(key), ..CallOptions::default() });
    }
    assert_eq!(rig.running(), 3);
    rig.hear(&[&call("4", "work")]);
    assert_eq!((rig.start(), rig.refusals()), (vec![], vec![Rejected::Overloaded]));
}

// D48: one that asked its peer in an answer, and in a request besides.
#[test]
fn a_suspended_handler_that_waits_for_a_request_too_is_counted_once() {
    let mut rig = Rig::new(bounded(1, 4));
    let first = rig.serve("1", "work");
    let asked = rig.ask_with("ask", "", &CallOptions { parent: Some(first), ..CallOptions::default() });
    assert!(rig.conn.suspend(rig.now, first, Reply::Result(b"{}")));
    rig.say();
    let second = rig.serve("2", "work");
    rig.hear(&[&call("3", "work"), &result("1")]);
    assert_eq!(rig.settled().pop().map(|(key, _)| key), Some(asked));
    assert_eq!(rig.start(), [], "the second is at work");
    rig.end(second, OK);
    let third = rig.start().pop().expect("the first still waits");
    rig.end(third.key, OK);
    rig.end(first, OK);
    rig.say();
    rig.leaves_nothing();
}

// D12, D48: what it waits for must get in.
#[test]
fn a_suspended_handler_keeps_nobody_out_and_is_at_work_again_once_it_is_stopped() {
    let mut rig = Rig::new(bounded(1, 1));
    let suspended = ["1", "2"].map(|id| {
        let key = rig.serve(id, "work");
        assert!(rig.conn.suspend(rig.now, key, Reply::Result(b"{}")));
        rig.say();
        key
    });
    let third = rig.serve("3", "work");
    rig.hear(&[&call("4", "work"), &call("5", "work")]);
    assert_eq!((rig.start(), rig.refusals()), (vec![], vec![Rejected::Overloaded]), "one runs, one waits");
    assert!(rig.conn.stop(rig.now, suspended[0], Cause::new(CauseCode::Caller)));
    rig.end(third, OK);
    rig.hear(&[&call("5", "work")]);
    assert_eq!((rig.start(), rig.refusals()), (vec![], vec![Rejected::Overloaded]), "what was stopped is at work");
    rig.end(suspended[0], HandlerEnd::Cancelled);
    let fourth = rig.start().pop().expect("the slot is free");
    rig.end(fourth.key, OK);
    // A shield keeps the token from firing, and not the count from being right.
    assert!(rig.conn.shield(suspended[1]));
    assert!(!rig.conn.stop(rig.now, suspended[1], Cause::new(CauseCode::Operator)));
    let sixth = rig.serve("6", "work");
    rig.end(sixth, OK);
    rig.conn.resume(suspended[1]);
    rig.hear(&[&call("7", "work")]);
    assert_eq!(rig.start(), [], "nobody comes back to it");
    rig.end(suspended[1], OK);
    let seventh = rig.start().pop().expect("it has ended");
    rig.end(seventh.key, OK);
    rig.say();
    rig.log.clear();
    rig.leaves_nothing();
}

// Case 14.
#[test]
fn a_slot_is_free_when_the_handler_has_ended_not_when_it_was_cancelled() {
    let mut rig = Rig::new(bounded(1, 4));
    let first = rig.serve("1", "work");
    rig.hear(&[&call("2", "work"), &mcp_cancel("1")]);
    assert_eq!(rig.fired(), [(first, CauseCode::Caller)]);
    assert_eq!(rig.start(), [], "the cancelled handler still runs");
    assert_eq!(rig.running(), 1);
    rig.pass(secs(5));
    assert_eq!(rig.dropped(), [first]);
    assert_eq!(rig.start(), [], "to be dropped is not to have ended");
    rig.end(first, HandlerEnd::Dropped);
    assert_eq!(rig.start().len(), 1);
}

// Case 14: HTTP/2's rapid reset.
#[test]
fn a_flood_of_requests_and_cancels_never_runs_more_handlers_than_the_bound() {
    let mut rig = Rig::new(bounded(8, 16));
    let mut running = Vec::new();
    for id in 0..100_000 {
        let id = id.to_string();
        rig.conn.handle_input(rig.now, format!("{}\n", call(&id, "work")).as_bytes());
        running.extend(rig.start().into_iter().map(|request| request.key));
        rig.conn.handle_input(rig.now, format!("{}\n", mcp_cancel(&id)).as_bytes());
        rig.log.clear();
        assert!(rig.running() <= 8 && rig.queued() <= 16);
        // Handlers unwind slowly: one ends for every hundred requests.
        if running.len() == 8 && id.ends_with("00") {
            rig.end(running.remove(0), HandlerEnd::Cancelled);
        }
    }
    assert!(rig.conn.counters().violations.is_empty());
    for key in running {
        rig.end(key, HandlerEnd::Cancelled);
    }
    rig.say();
    rig.log.clear();
    rig.leaves_nothing();
}

// Case 15.
#[test]
fn cancels_and_responses_pass_a_saturated_server() {
    let mut rig = Rig::new(bounded(1, 1));
    let ours = rig.call("roots/list");
    let first = rig.serve("1", "work");
    rig.hear(&[&call("2", "work"), &call("3", "work")]);
    assert_eq!(rig.refusals(), [Rejected::Overloaded]);
    rig.hear(&[&result("1"), &mcp_cancel("1")]);
    assert_eq!(rig.settled().len(), 1, "the response to {ours:?} passed");
    assert_eq!(rig.fired(), [(first, CauseCode::Caller)]);
    assert!(rig.conn.wants_input());
}

#[test]
fn one_request_too_many_is_refused_with_an_error() {
    let mut rig = Rig::new(bounded(1, 1));
    rig.hear(&[&call("1", "work"), &call("2", "work"), &call("3", "work")]);
    assert_eq!(rig.refusals(), [Rejected::Overloaded]);
    assert_eq!(
        rig.say(),
        [r#"{"jsonrpc":"2.0","id":3,"error":{"code":-31004,"message":"too many requests in flight"}}"#]
    );
}

#[test]
fn those_in_line_start_in_the_order_of_their_arrival() {
    let mut rig = Rig::new(bounded(2, 100));
    for id in 0..20 {
        rig.hear(&[&call(&id.to_string(), "work")]);
    }
    for id in (0..20).filter(|id| id % 3 == 0) {
        rig.hear(&[&mcp_cancel(&id.to_string())]);
    }
    let mut order = Vec::new();
    loop {
        let started = rig.start();
        if started.is_empty() {
            break;
        }
        for request in started {
            order.push(request.id.0.as_integer().unwrap());
            rig.end(request.key, OK);
        }
    }
    assert_eq!(order, (0..20).filter(|id| id % 3 != 0).collect::<Vec<_>>());
}

#[test]
fn a_request_carries_its_method_and_params_untouched() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let params = r#"{ "name" : "é\u0041", "deep":[{"x":1e400}] }"#;
    rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)]);
    let started = rig.start();
    assert_eq!(started[0].payload.method(), "tools/call");
    assert_eq!(started[0].payload.params(), Some(params.as_bytes()));
    assert_eq!(started[0].dialect, &mcp::LATEST_LEGACY);
}

// Case 73, D11.
#[test]
fn notifications_and_answers_come_in_the_order_of_the_wire() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("tools/call");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}"#;
    rig.hear(&[note, &result("1"), note]);
    rig.poll();
    let order: Vec<_> = rig.log.iter().map(std::mem::discriminant).collect();
    assert_eq!(order[0], order[2]);
    assert!(matches!(&rig.log[1], ConnectionEvent::Settled { request: settled, .. } if *settled == key));
}

#[test]
fn what_is_in_flight_can_be_seen() {
    let mut rig = Rig::new(bounded(2, 2));
    let (one, two) = (rig.serve("1", "a"), rig.serve("2", "b"));
    rig.hear(&[&call("3", "c"), &mcp_cancel("2")]);
    rig.end(one, OK);
    let seen: Vec<_> = rig.conn.incoming().map(|view| (view.method.to_owned(), view.state, view.cause)).collect();
    assert_eq!(
        seen,
        [
            ("a".to_owned(), IncomingState::Answering, None),
            ("b".to_owned(), IncomingState::Stopping, Some(CauseCode::Caller)),
            ("c".to_owned(), IncomingState::Queued, None),
        ]
    );
    let _ = two;
}

// D17.
#[test]
fn a_request_that_outlives_its_deadline_in_line_never_starts() {
    let mut config = config(Side::Server, &acp::V1);
    config.max_running = 1;
    let mut rig = Rig::new(config);
    rig.serve("1", "work");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":2,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":50}}}"#]);
    rig.pass(millis(1050));
    assert_eq!(rig.endings(), [Ending::NeverStarted]);
    assert_eq!(
        rig.say(),
        [r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"Request cancelled: request timed out"}}"#]
    );
}

#[test]
fn a_handler_is_given_the_token_under_which_its_requester_wants_progress() {
    let token_of = |dialect, params: &str| {
        let mut rig = server(dialect);
        rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"work","params":{params}}}"#)]);
        rig.start()[0].progress_token().map(<[u8]>::to_vec)
    };
    assert_eq!(token_of(&mcp::LATEST, r#"{"_meta":{"progressToken":"t"}}"#).as_deref(), Some(&br#""t""#[..]));
    assert_eq!(token_of(&mcp::LATEST, r#"{"_meta":{}}"#), None);
    assert_eq!(token_of(&lsp::LSP, r#"{"workDoneToken":7}"#).as_deref(), Some(&b"7"[..]));
}

// Params may hold secrets.
#[test]
fn the_debug_output_of_a_request_has_its_method_and_not_its_params() {
    let mut rig = server(&mcp::LATEST);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"login","params":{"password":"x"}}"#]);
    assert_eq!(format!("{:?}", rig.start()[0].payload), "login(16 bytes)");
}
