//! An endpoint whose messages are taken by what carries it, which says later what has become of them (D51).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, Limit, OutgoingKey, OutgoingState, Settlement},
    dialect::{Dialect, acp, lsp, mcp},
    id::RequestId,
    link::{Clock, Departure},
    receipt::{Answer, Outcome},
    side::Side,
    time::Instant,
};

use crate::endpoint_rig::*;

const DIALECTS: [&Dialect; 4] = [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP];

fn departing(dialect: &'static Dialect) -> Rig {
    let mut config = config(Side::Client, dialect);
    config.departs = true;
    Rig::new(config)
}

fn departs(rig: &mut Rig, departure: fn(RequestId) -> Departure) {
    departs_of(rig, 1, departure);
}

fn departs_of(rig: &mut Rig, id: i64, departure: fn(RequestId) -> Departure) {
    rig.conn.handle_departure(rig.now, &departure(RequestId::integer(id)));
    rig.check();
}

fn state(rig: &Rig) -> Option<OutgoingState> {
    rig.conn.outgoing().next().map(|call| call.state)
}

/// What is known of a cancel: its outcome, and when it left.
fn known(rig: &mut Rig, key: OutgoingKey) -> (Outcome, Option<Instant>) {
    let receipt = rig.receipt(key).expect("it was cancelled");
    (receipt.outcome, receipt.written)
}

fn cancelled() -> Settlement {
    Settlement::Cancelled(Cause::new(CauseCode::Caller))
}

/// A request that was cancelled, and whose cancel was taken.
fn cancelled_call(rig: &mut Rig) -> OutgoingKey {
    let key = rig.call("work");
    assert!(rig.cancel(key));
    assert_eq!(rig.say().len(), 1, "whoever has taken the request takes the cancel");
    assert_eq!(rig.settled(), [(key, cancelled())]);
    assert_eq!(known(rig, key), (Outcome::Asked, None));
    key
}

#[test]
fn a_request_and_its_cancel_are_sent_when_they_have_left() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let key = rig.call("work");
        assert_eq!(state(&rig), Some(OutgoingState::Queued));
        departs(&mut rig, Departure::Request);
        assert_eq!(state(&rig), Some(OutgoingState::Sent));
        rig.cancel(key);
        rig.say();
        assert_eq!((known(&mut rig, key), rig.conn.counters().cancels_sent), ((Outcome::Asked, None), 0));
        rig.pass(secs(1));
        let left = rig.now;
        departs(&mut rig, Departure::Cancel);
        assert_eq!((known(&mut rig, key), rig.conn.counters().cancels_sent), ((Outcome::Sent, Some(left)), 1));
        departs(&mut rig, Departure::Cancel);
        assert_eq!(rig.conn.counters().cancels_sent, 1);
        if !dialect.is_silent() {
            rig.hear(&[&error("1", dialect.gave_up.code)]);
            assert!(matches!(known(&mut rig, key).0, Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. }));
        }
        rig.leaves_nothing();
    }
}

#[test]
fn a_request_that_was_taken_back_with_its_cancel_was_never_sent() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let key = cancelled_call(&mut rig);
        departs(&mut rig, Departure::Withdrawn);
        assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
        assert!(!rig.conn.knows(key), "nothing more can be learnt of it");
        departs(&mut rig, Departure::Cancel);
        assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
        rig.leaves_nothing();
    }
}

#[test]
fn a_clock_that_runs_out_before_the_request_has_left_sends_nothing_either() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let options = CallOptions { response_timeout: Limit::After(secs(3)), ..CallOptions::default() };
        let key = rig.ask_with("work", "", &options);
        rig.say();
        rig.pass(secs(3));
        assert_eq!(rig.settled(), [(key, Settlement::TimedOut { clock: Clock::Response, after: secs(3) })]);
        assert_eq!(rig.say().len(), 1);
        departs(&mut rig, Departure::Withdrawn);
        assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
        rig.leaves_nothing();
    }
}

#[test]
fn a_request_that_was_given_back_has_not_left_until_it_is_sent_again() {
    let mut rig = departing(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    departs(&mut rig, Departure::Request);
    departs(&mut rig, Departure::Returned);
    assert_eq!(state(&rig), Some(OutgoingState::Queued));
    rig.cancel(key);
    rig.say();
    departs(&mut rig, Departure::Withdrawn);
    assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
    rig.leaves_nothing();
}

#[test]
fn a_request_that_had_left_and_is_taken_back_was_answered_first() {
    let mut rig = departing(&mcp::LATEST);
    let key = rig.call("work");
    departs(&mut rig, Departure::Request);
    rig.cancel(key);
    rig.say();
    departs(&mut rig, Departure::Withdrawn);
    assert_eq!(known(&mut rig, key), (Outcome::CompletedFirst, None));
    rig.leaves_nothing();
}

#[test]
fn a_caller_that_waits_after_its_cancel_waits_no_longer_than_the_request_can_be_answered() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let key = rig.call("work");
        assert!(rig.conn.cancel_and_wait(rig.now, key, Cause::new(CauseCode::Caller), secs(30)));
        rig.say();
        assert_eq!(rig.settled(), []);
        departs(&mut rig, Departure::Withdrawn);
        assert_eq!(rig.settled(), [(key, cancelled())]);
        assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
        rig.leaves_nothing();
    }
}

#[test]
fn an_answer_that_comes_before_the_cancel_has_left_completed_first() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let key = cancelled_call(&mut rig);
        departs(&mut rig, Departure::Request);
        rig.hear(&[&result("1")]);
        assert_eq!(known(&mut rig, key), (Outcome::CompletedFirst, None));
        departs(&mut rig, Departure::Cancel);
        assert_eq!(known(&mut rig, key), (Outcome::CompletedFirst, None));
        rig.leaves_nothing();
    }
}

#[test]
fn an_answer_that_comes_after_the_cancel_has_left_came_after_it() {
    let mut rig = departing(&acp::V1);
    let key = cancelled_call(&mut rig);
    departs(&mut rig, Departure::Request);
    departs(&mut rig, Departure::Cancel);
    rig.pass(secs(1));
    rig.hear(&[&result("1")]);
    assert_eq!(known(&mut rig, key).0, Outcome::AnsweredAfter { after: secs(1), answer: Answer::Result });
    rig.leaves_nothing();
}

#[test]
fn what_had_not_left_at_the_end_of_the_link_is_not_known() {
    let ends: [fn(&mut Rig); 2] = [|rig| rig.conn.handle_eof(rig.now), |rig| rig.conn.handle_write_closed(rig.now)];
    for ends in ends {
        let mut rig = departing(&mcp::LATEST_LEGACY);
        let key = cancelled_call(&mut rig);
        ends(&mut rig);
        assert_eq!(known(&mut rig, key), (Outcome::Unknown, None));
        rig.leaves_nothing();
    }
}

#[test]
fn a_shutdown_learns_what_was_taken_back_at_the_end() {
    let mut rig = departing(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    rig.conn.shutdown(rig.now);
    rig.say();
    assert!(rig.is_closed(), "it waits for nobody");
    departs(&mut rig, Departure::Withdrawn);
    assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
    rig.leaves_nothing();
}

#[test]
fn a_cancel_that_never_leaves_is_forgotten_in_the_end() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let key = cancelled_call(&mut rig);
        departs(&mut rig, Departure::Request);
        rig.pass(secs(590));
        assert_eq!(known(&mut rig, key), (Outcome::Asked, None));
        rig.pass(secs(20));
        assert_eq!(known(&mut rig, key), (Outcome::Unknown, None));
        rig.leaves_nothing();
    }
}

#[test]
fn a_flood_of_cancels_that_never_leave_is_bounded() {
    for reports in [true, false] {
        let mut config = config(Side::Client, &mcp::LATEST_LEGACY);
        (config.departs, config.remembered, config.reports_cancels) = (true, 16, reports);
        let mut rig = Rig::new(config);
        for _ in 0..1000 {
            let key = rig.call("work");
            rig.cancel(key);
            rig.say();
            rig.poll();
            rig.log.clear();
            assert!(rig.conn.remembered() <= 4 * 16 && rig.conn.outgoing().count() <= 4 * 16);
        }
        // The last of them are still known by their departures.
        departs_of(&mut rig, 1000, Departure::Cancel);
        assert_eq!(rig.conn.counters().cancels_sent, 1);
        rig.leaves_nothing();
    }
}

#[test]
fn a_departure_of_what_waits_here_or_was_never_made_changes_nothing() {
    let mut rig = departing(&mcp::LATEST_LEGACY);
    let key = rig.ask("work", "");
    for departure in [Departure::Request, Departure::Cancel, Departure::Returned, Departure::Withdrawn] {
        departs(&mut rig, departure);
        departs_of(&mut rig, 7, departure);
        rig.conn.handle_departure(rig.now, &departure(RequestId::string("1")));
    }
    assert_eq!(state(&rig), Some(OutgoingState::Queued));
    assert!(rig.cancel(key));
    assert_eq!(known(&mut rig, key), (Outcome::NeverSent, None));
    assert_eq!(rig.say(), [""; 0]);
    // A cancel that waits here has not been taken.
    let key = rig.call("work");
    rig.cancel(key);
    departs_of(&mut rig, 2, Departure::Withdrawn);
    departs_of(&mut rig, 2, Departure::Cancel);
    assert_eq!(known(&mut rig, key), (Outcome::Asked, None));
    rig.say();
    departs_of(&mut rig, 2, Departure::Cancel);
    assert_eq!(known(&mut rig, key).0, Outcome::Sent);
    rig.leaves_nothing();
}
