//! A client of ACP v2 (D55): a prompt of ours ends with the work that it has begun, as its agent reports it, and not with
//! its answer. Each test names its rows of the specification.

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionEvent, Limit, OutgoingKey, Settlement},
    dialect::acp,
    link::{Clock, LateKind},
    receipt::{Answer, Outcome},
};

use crate::endpoint_rig::*;

const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;

const PARAMS: &str = r#"{"sessionId":"s"}"#;

fn editor() -> Rig {
    client(&acp::V2_DRAFT)
}

fn prompt(rig: &mut Rig) -> OutgoingKey {
    let key = rig.ask("session/prompt", PARAMS);
    rig.say();
    key
}

/// A prompt that was inserted and is worked on.
fn at_work() -> (Rig, OutgoingKey) {
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.hear(&[&inserted("1"), &running()]);
    assert_eq!(rig.settled(), [], "its answer is not its end");
    (rig, key)
}

fn inserted(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"messageId":"m{id}"}}}}"#)
}

fn state(members: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"state_update",{members}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#)
}

fn running() -> String {
    state(r#""state":"running""#)
}

fn idle(reason: &str) -> String {
    state(&format!(r#""state":"idle","stopReason":"{reason}""#))
}

fn over(reason: &str) -> Settlement {
    let update = format!(r#"{{"sessionUpdate":"state_update","state":"idle","stopReason":"{reason}"}}"#);
    Settlement::Result(update.into_bytes().into())
}

// ACP-50.
#[test]
fn a_prompt_ends_when_its_session_is_idle_and_not_when_it_is_answered() {
    let (mut rig, key) = at_work();
    assert_eq!(rig.conn.waiting(), 1);
    for other in [
        state(r#""state":"requires_action""#),
        running(),
        state(r#""state":"_thinking""#),
        state(r#""state":"unknown""#),
    ] {
        rig.hear(&[&other]);
    }
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"t","update":{"sessionUpdate":"state_update","state":"idle"}}}"#]);
    assert_eq!(rig.settled(), [], "no other word, and no other session, means that nothing works");
    rig.hear(&[&idle("end_turn")]);
    assert_eq!(rig.settled(), [(key, over("end_turn"))]);
    rig.hear(&[&idle("end_turn"), &inserted("1")]);
    assert_eq!(rig.settled(), [], "the same report again is no new end");
    rig.leaves_nothing();
}

// D11: a caller wakes after every notification that preceded its end, the one that tells the end included.
#[test]
fn the_report_of_the_end_is_delivered_before_the_end() {
    let (mut rig, _) = at_work();
    rig.poll();
    rig.log.clear();
    rig.hear(&[&idle("end_turn")]);
    rig.poll();
    let order: Vec<_> = rig.log.iter().map(|event| matches!(event, ConnectionEvent::Notification(_))).collect();
    assert_eq!(order, [true, false]);
}

#[test]
fn the_first_report_may_come_before_the_answer_and_so_may_the_last() {
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.hear(&[&running(), &inserted("1")]);
    assert_eq!(rig.settled(), []);
    rig.hear(&[&idle("refusal")]);
    assert_eq!(rig.settled(), [(key, over("refusal"))]);
    let next = prompt(&mut rig);
    rig.hear(&[&running(), &idle("end_turn")]);
    assert_eq!(rig.settled(), [], "whether it was inserted is not known");
    rig.hear(&[&inserted("2")]);
    assert_eq!(rig.settled(), [(next, over("end_turn"))]);
    rig.leaves_nothing();
}

#[test]
fn two_prompts_whose_work_was_over_before_their_answers_both_end() {
    let mut rig = editor();
    let keys = [prompt(&mut rig), prompt(&mut rig)];
    let long = "x".repeat(20_000);
    let second = state(&format!(r#""state":"idle","stopReason":"end_turn","_meta":{{"a":"{long}"}}"#));
    rig.hear(&[&running(), &idle("refusal"), &running(), &second]);
    rig.hear(&[&inserted("2"), &inserted("1")]);
    let kept = Settlement::Result(b"{}".as_slice().into());
    assert_eq!(rig.settled(), [(keys[1], kept), (keys[0], over("refusal"))], "what is long is not kept");
    rig.leaves_nothing();
}

// ACP-50: repeated snapshots are no end of what has not begun.
#[test]
fn a_snapshot_before_the_work_begins_ends_nothing() {
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.hear(&[&idle("end_turn"), &inserted("1"), &idle("end_turn")]);
    assert_eq!(rig.settled(), []);
    rig.hear(&[&running(), &idle("end_turn")]);
    assert_eq!(rig.settled(), [(key, over("end_turn"))]);
}

#[test]
fn a_prompt_that_joins_work_which_goes_on_ends_with_it() {
    let (mut rig, first) = at_work();
    let second = prompt(&mut rig);
    rig.hear(&[&inserted("2"), &idle("end_turn")]);
    assert_eq!(rig.settled(), [(first, over("end_turn")), (second, over("end_turn"))]);
    // Also if nobody has prompted that.
    rig.hear(&[&running()]);
    let third = prompt(&mut rig);
    rig.hear(&[&inserted("3"), &idle("max_tokens")]);
    assert_eq!(rig.settled(), [(third, over("max_tokens"))]);
    // One that waits for it does not.
    rig.hear(&[&running()]);
    let fourth = prompt(&mut rig);
    rig.hear(&[&idle("end_turn"), &inserted("4")]);
    assert_eq!(rig.settled(), []);
    rig.hear(&[&running(), &idle("end_turn")]);
    assert_eq!(rig.settled(), [(fourth, over("end_turn"))]);
    rig.leaves_nothing();
}

#[test]
fn work_that_fails_ends_its_prompt_with_the_error() {
    let (mut rig, key) = at_work();
    rig.hear(&[&state(r#""state":"idle","stopReason":"error","error":{"code":-32603,"message":"no model"}"#)]);
    let error = Settlement::PeerError(br#"{"code":-32603,"message":"no model"}"#.as_slice().into());
    assert_eq!(rig.settled(), [(key, error)]);
}

#[test]
fn a_prompt_that_is_not_inserted_ends_with_its_error() {
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.hear(&[&error("1", -32800)]);
    assert!(matches!(&rig.settled()[..], [(found, Settlement::PeerError(_))] if *found == key));
    rig.leaves_nothing();
}

// D55, D4: its caller does not wait; what came of it is learnt from the session.
#[test]
fn dropping_a_prompt_cancels_its_session_once_and_the_idle_confirms() {
    for (report, outcome) in [
        (idle("cancelled"), Outcome::Confirmed { after: millis(6) }),
        (idle("end_turn"), Outcome::AnsweredAfter { after: millis(6), answer: Answer::Result }),
    ] {
        let (mut rig, key) = at_work();
        rig.cancel(key);
        rig.cancel(key);
        assert_eq!(rig.say(), [CANCEL]);
        assert_eq!(rig.settled(), [(key, Settlement::Cancelled(Cause::new(CauseCode::Caller)))]);
        rig.hear(&[&running()]);
        assert_eq!(rig.outcome(key), Some(Outcome::Sent), "nothing is claimed that was not reported");
        rig.pass(millis(6));
        rig.hear(&[&report]);
        assert_eq!(rig.outcome(key), Some(outcome));
        rig.leaves_nothing();
    }
}

#[test]
fn a_cancel_that_has_not_left_is_taken_back_by_the_idle() {
    let (mut rig, key) = at_work();
    rig.cancel(key);
    rig.hear(&[&idle("end_turn")]);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.outcome(key), Some(Outcome::CompletedFirst));
    rig.leaves_nothing();
}

// ACP-51, ACP-01.
#[test]
fn a_prompt_that_is_dropped_before_its_insertion_is_cancelled_with_its_session() {
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.cancel(key);
    assert_eq!(rig.say(), [CANCEL]);
    rig.hear(&[&error("1", -32800)]);
    assert!(matches!(rig.outcome(key), Some(Outcome::Confirmed { .. })));
    rig.leaves_nothing();
    // The cancel has crossed its insertion: it covers the work, too.
    let mut rig = editor();
    let key = prompt(&mut rig);
    rig.cancel(key);
    rig.say();
    rig.hear(&[&inserted("1"), &running()]);
    assert_eq!(rig.outcome(key), Some(Outcome::Sent));
    rig.hear(&[&idle("cancelled")]);
    assert!(matches!(rig.outcome(key), Some(Outcome::Confirmed { .. })));
    rig.leaves_nothing();
}

#[test]
fn a_prompt_that_was_not_sent_is_withdrawn() {
    let mut rig = editor();
    let key = rig.ask("session/prompt", PARAMS);
    rig.cancel(key);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.outcome(key), Some(Outcome::NeverSent));
}

// D55: the work of others is not stopped with it.
#[test]
fn beside_other_work_a_prompt_that_waits_is_withdrawn_by_its_id() {
    for late in [false, true] {
        let (mut rig, first) = at_work();
        let second = prompt(&mut rig);
        rig.cancel(second);
        let said = rig.say();
        assert!(said.len() == 1 && said[0].contains(r#""$/cancel_request","params":{"requestId":2"#), "{said:?}");
        if late {
            rig.hear(&[&inserted("2")]);
            assert!(matches!(rig.outcome(second), Some(Outcome::AnsweredAfter { .. })), "it was too late");
        } else {
            rig.hear(&[&error("2", -32800)]);
            assert!(matches!(rig.outcome(second), Some(Outcome::Confirmed { .. })));
        }
        rig.settled();
        rig.hear(&[&idle("end_turn")]);
        assert_eq!(rig.settled(), [(first, over("end_turn"))]);
        rig.leaves_nothing();
    }
}

// D34: the bound for those who wait for the agent's word.
#[test]
fn a_session_cancel_by_hand_is_the_only_one_and_its_prompt_waits_for_the_idle_30_seconds() {
    let (mut rig, key) = at_work();
    rig.conn.notify(rig.now, "session/cancel", PARAMS.as_bytes()).unwrap();
    assert_eq!((rig.say(), rig.settled()), (vec![CANCEL.to_owned()], vec![]));
    rig.pass(secs(29));
    rig.hear(&[&idle("cancelled")]);
    assert_eq!(rig.settled(), [(key, over("cancelled"))]);
    assert!(matches!(rig.outcome(key), Some(Outcome::Confirmed { .. })));
    rig.leaves_nothing();
    let (mut rig, key) = at_work();
    rig.conn.notify(rig.now, "session/cancel", PARAMS.as_bytes()).unwrap();
    rig.say();
    rig.pass(secs(30));
    assert_eq!(rig.settled(), [(key, Settlement::Cancelled(Cause::new(CauseCode::Caller)))]);
    assert_eq!(rig.outcome(key), Some(Outcome::Sent), "it may go on");
    rig.hear(&[&idle("cancelled")]);
    assert!(matches!(rig.outcome(key), Some(Outcome::Confirmed { .. })), "what is learnt later is told");
    rig.leaves_nothing();
}

#[test]
fn a_session_cancel_by_hand_before_any_insertion_is_one_message() {
    let mut rig = editor();
    let keys = [prompt(&mut rig), prompt(&mut rig)];
    rig.conn.notify(rig.now, "session/cancel", PARAMS.as_bytes()).unwrap();
    assert_eq!(rig.say(), [CANCEL]);
    rig.hear(&[&error("1", -32800), &error("2", -32800)]);
    let ended: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(ended, keys);
    rig.leaves_nothing();
}

#[test]
fn a_session_cancel_by_hand_reaches_work_that_nobody_has_prompted() {
    let mut rig = editor();
    rig.hear(&[&running()]);
    let unsent = rig.ask("session/prompt", PARAMS);
    rig.conn.notify(rig.now, "session/cancel", PARAMS.as_bytes()).unwrap();
    assert_eq!(rig.say(), [CANCEL], "the prompt that waits is taken back");
    assert_eq!(rig.outcome(unsent), Some(Outcome::NeverSent));
    rig.leaves_nothing();
}

// D16: the clocks of a call run until it is over.
#[test]
fn a_prompt_that_takes_too_long_cancels_its_session() {
    let mut rig = editor();
    let options = CallOptions { total_timeout: Limit::After(secs(5)), ..CallOptions::default() };
    let key = rig.ask_with("session/prompt", PARAMS, &options);
    rig.say();
    rig.hear(&[&inserted("1"), &running()]);
    rig.pass(secs(5));
    assert_eq!(rig.settled(), [(key, Settlement::TimedOut { clock: Clock::Total, after: secs(5) })]);
    assert_eq!(rig.say(), [CANCEL]);
}

// ACP-53: which of the questions are over, the agent says.
#[test]
fn a_question_is_answered_when_its_agent_withdraws_it_and_not_when_we_cancel() {
    for by_hand in [false, true] {
        let (mut rig, key) = at_work();
        rig.hear(&[&format!(
            r#"{{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{PARAMS}}}"#
        )]);
        let card = rig.start().remove(0).key;
        if by_hand {
            rig.conn.notify(rig.now, "session/cancel", PARAMS.as_bytes()).unwrap();
        } else {
            rig.cancel(key);
        }
        assert_eq!((rig.say(), rig.fired()), (vec![CANCEL.to_owned()], vec![]), "it may belong to other work");
        rig.hear(&[&acp_cancel(r#""p""#)]);
        assert_eq!(rig.fired(), [(card, CauseCode::Caller)]);
        rig.end(card, OK);
        assert!(rig.say()[0].contains(r#""id":"p","result":"#));
        rig.hear(&[&idle("cancelled")]);
        rig.leaves_nothing();
    }
}

// ACP-53: what is known to belong to that work may be answered before.
#[test]
fn a_question_is_answered_when_its_work_was_cancelled_and_nothing_else_goes_on() {
    let listed = r#""background":[{"type":"terminal","terminalId":"t"}]"#;
    for (background, is_answered) in [(r#""background":[]"#, true), (listed, false), (r#""background":null"#, false)] {
        let (mut rig, key) = at_work();
        rig.hear(&[&format!(
            r#"{{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{PARAMS}}}"#
        )]);
        let card = rig.start().remove(0).key;
        rig.cancel(key);
        rig.say();
        rig.hear(&[&state(&format!(r#""state":"idle","stopReason":"cancelled",{background}"#))]);
        let cancelled = r#"{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}"#;
        assert_eq!(rig.say().iter().any(|line| line == cancelled), is_answered, "{background}");
        rig.end(card, OK);
        rig.leaves_nothing();
    }
}

// ACP-57: what its agent has not reported by then it never will.
#[test]
fn a_closed_session_ends_its_prompts() {
    for answer in [result("2"), error("2", -32002)] {
        let (mut rig, key) = at_work();
        rig.ask("session/close", PARAMS);
        rig.say();
        rig.hear(&[&answer]);
        let ends = rig.settled();
        assert_eq!(ends.last(), Some(&(key, Settlement::Cancelled(Cause::parent(CauseCode::Caller)))), "{answer}");
        rig.leaves_nothing();
    }
    let (mut rig, key) = at_work();
    rig.ask("session/close", PARAMS);
    rig.say();
    rig.hear(&[&idle("cancelled"), &result("2")]);
    assert_eq!(rig.settled()[0], (key, over("cancelled")));
    rig.leaves_nothing();
}

#[test]
fn the_end_of_the_connection_ends_a_prompt_and_claims_nothing() {
    let (mut rig, key) = at_work();
    rig.cancel(key);
    rig.say();
    rig.settled();
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.outcome(key), Some(Outcome::Unknown));
    let (mut rig, key) = at_work();
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.settled(), [(key, Settlement::Closed)]);
}

#[test]
fn a_second_answer_to_an_inserted_prompt_is_late() {
    let (mut rig, key) = at_work();
    rig.hear(&[&error("1", -32603)]);
    assert_eq!(rig.settled(), []);
    let late = rig.take(|event| if let ConnectionEvent::Late { what, .. } = event { Some(*what) } else { None });
    assert_eq!(late, [LateKind::from(Answer::Error)]);
    rig.hear(&[&idle("end_turn")]);
    assert_eq!(rig.settled(), [(key, over("end_turn"))]);
}
