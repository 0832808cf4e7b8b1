//! An endpoint whose messages are taken by what carries it, which says later what has become of them (D51).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionEvent, Limit, OutgoingKey, OutgoingState, Settlement},
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

/// What carries the connection, as it is in truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Carrier {
    has_request: bool,
    has_cancel: bool,
    request_left: bool,
    cancel_left: bool,
    is_withdrawn: bool,
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Takes what the connection has for it.
    Take,
    Cancel,
    CancelAndWait,
    Pass,
    RequestLeaves,
    Returns,
    CancelLeaves,
    Withdraws,
    Answers,
    Ends,
}

impl Carrier {
    /// Whether this can happen now.
    fn may(&self, act: Act, rig: &Rig) -> bool {
        let is_gone = self.is_withdrawn || self.is_answered;
        match act {
            Act::Take => !rig.conn.pending().is_empty(),
            Act::Cancel | Act::CancelAndWait | Act::Pass | Act::Ends => true,
            Act::RequestLeaves => self.has_request && !self.request_left && !is_gone,
            Act::Returns => self.request_left && !self.cancel_left && !is_gone,
            Act::CancelLeaves => self.has_cancel && self.request_left && !self.cancel_left && !is_gone,
            Act::Withdraws => self.has_cancel && !self.cancel_left && !is_gone,
            Act::Answers => self.request_left && !is_gone,
        }
    }
}

/// Plays every order of what can happen, and judges what is known of the cancel by what was.
fn play(rig: &Rig, key: OutgoingKey, carrier: Carrier, depth: usize, path: &mut Vec<Act>) {
    const ACTS: [Act; 10] = [
        Act::Take,
        Act::Cancel,
        Act::CancelAndWait,
        Act::Pass,
        Act::RequestLeaves,
        Act::Returns,
        Act::CancelLeaves,
        Act::Withdraws,
        Act::Answers,
        Act::Ends,
    ];
    for act in ACTS {
        if !carrier.may(act, rig) {
            continue;
        }
        let (mut rig, mut carrier) = (Rig { conn: rig.conn.clone(), now: rig.now, log: rig.log.clone() }, carrier);
        match act {
            Act::Take => {
                for line in rig.say() {
                    carrier.has_cancel |= !line.contains(r#""method":"work""#);
                    carrier.has_request |= line.contains(r#""method":"work""#);
                }
            }
            Act::Cancel => _ = rig.cancel(key),
            Act::CancelAndWait => {
                rig.conn.cancel_and_wait(rig.now, key, Cause::new(CauseCode::Caller), secs(1));
            }
            Act::Pass => rig.pass(secs(5)),
            Act::RequestLeaves => {
                carrier.request_left = true;
                departs(&mut rig, Departure::Request);
            }
            Act::Returns => {
                carrier.request_left = false;
                departs(&mut rig, Departure::Returned);
            }
            Act::CancelLeaves => {
                carrier.cancel_left = true;
                departs(&mut rig, Departure::Cancel);
            }
            Act::Withdraws => {
                carrier.is_withdrawn = true;
                departs(&mut rig, Departure::Withdrawn);
            }
            Act::Answers => {
                carrier.is_answered = true;
                rig.hear(&[&result("1")]);
            }
            Act::Ends => rig.conn.handle_eof(rig.now),
        }
        path.push(act);
        rig.poll();
        let settled = |event: &&ConnectionEvent| matches!(event, ConnectionEvent::Settled { .. });
        let ends = rig.log.iter().filter(settled).count();
        assert!(ends <= 1, "settled twice: {path:?}");
        let is_over = act == Act::Ends || carrier.is_withdrawn || carrier.is_answered;
        assert!(!is_over || ends == 1, "its caller waits for ever: {path:?}");
        if let Some(receipt) = rig.receipt(key) {
            let claims = receipt.written.is_some();
            assert_eq!(claims, carrier.cancel_left && claims, "it claims that a cancel has left: {path:?}");
            let is_true = match receipt.outcome {
                Outcome::Sent | Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. } => carrier.cancel_left,
                Outcome::NeverSent => !carrier.request_left && !carrier.cancel_left,
                Outcome::CompletedFirst => (carrier.is_answered || carrier.is_withdrawn) && !carrier.cancel_left,
                Outcome::Asked => !carrier.cancel_left && !is_over,
                Outcome::Unknown => act == Act::Ends,
                Outcome::NotSendable | _ => false,
            };
            assert!(is_true, "{:?} is untrue of {carrier:?}: {path:?}", receipt.outcome);
        }
        if act != Act::Ends && depth > 1 {
            play(&rig, key, carrier, depth - 1, path);
        }
        path.pop();
    }
}

#[test]
fn in_no_order_of_events_does_a_receipt_claim_what_did_not_happen() {
    for dialect in DIALECTS {
        let mut rig = departing(dialect);
        let options = CallOptions { response_timeout: Limit::After(secs(8)), ..CallOptions::default() };
        let key = rig.ask_with("work", "", &options);
        play(&rig, key, Carrier::default(), 6, &mut Vec::new());
    }
}
