//! The turns of ACP sessions (D37, ACP-08).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionEvent, HandlerEnd, IncomingKey, OutgoingKey, Reply, Settlement},
    dialect::{acp, mcp},
    link::Verdict,
    receipt::{Ending, Outcome},
};

use crate::endpoint_rig::*;

const CANCEL_A: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a"}}"#;
const CANCELLED_OUTCOME: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

fn params(session: &str) -> String {
    format!(r#"{{"sessionId":"{session}"}}"#)
}

fn request(id: &str, method: &str, session: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{}}}"#, params(session))
}

fn prompt(rig: &mut Rig, session: &str) -> OutgoingKey {
    rig.ask("session/prompt", &params(session))
}

/// The peer's request in a session; its handler runs.
fn serve(rig: &mut Rig, id: &str, method: &str, session: &str) -> IncomingKey {
    rig.hear(&[&request(id, method, session)]);
    rig.start().remove(0).key
}

fn permission_cancelled(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{CANCELLED_OUTCOME}}}"#)
}

// Case 77.
#[test]
fn a_cancelled_prompt_sends_one_session_cancel_and_nothing_else() {
    for dialect in [&acp::V1, &acp::RFD_2025_11_13] {
        let mut rig = client(dialect);
        let key = prompt(&mut rig, "a");
        rig.say();
        rig.cancel(key);
        rig.cancel(key);
        assert_eq!(rig.say(), [CANCEL_A], "{dialect}");
        assert_eq!(rig.outcome(key), Some(Outcome::Sent));
        rig.pass(millis(6));
        rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
        assert_eq!(rig.outcome(key), Some(Outcome::Confirmed { after: millis(6) }));
        rig.leaves_nothing();
    }
}

#[test]
fn a_prompt_that_was_not_sent_is_withdrawn() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.cancel(key);
    assert_eq!(rig.say(), [""; 0]);
}

#[test]
fn a_prompt_that_times_out_sends_session_cancel() {
    let mut rig = client(&acp::V1);
    let options =
        CallOptions { total_timeout: rescind_proto::connection::Limit::After(secs(1)), ..CallOptions::default() };
    rig.ask_with("session/prompt", &params("a"), &options);
    rig.say();
    rig.pass(secs(1));
    assert_eq!(rig.say(), [CANCEL_A]);
}

// ACP-08, D37.
#[test]
fn cancelling_a_turn_answers_its_permission_requests() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.say();
    let ours = serve(&mut rig, "10", "session/request_permission", "a");
    let other = serve(&mut rig, "11", "session/request_permission", "b");
    rig.hear(&[&request("12", "session/request_permission", "a")]);
    rig.cancel(key);
    assert_eq!(rig.fired(), [(ours, CauseCode::Parent)], "the dialog closes; the other session's stays");
    assert_eq!(rig.endings(), [Ending::NeverStarted]);
    assert_eq!(rig.say(), [CANCEL_A.to_owned(), permission_cancelled("10"), permission_cancelled("12")]);
    rig.end(ours, HandlerEnd::Returned(Reply::Result(b"{}")));
    rig.end(other, OK);
    assert_eq!(rig.say(), [result("11")], "each is answered once");
    rig.leaves_nothing();
}

// ACP-39, D37.
#[test]
fn cancelling_a_turn_dismisses_its_elicitations_in_their_own_words() {
    let dismissed = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"cancel"}}}}"#);
    for by_hand in [false, true] {
        let mut rig = client(&acp::V1);
        let key = prompt(&mut rig, "a");
        rig.say();
        let ours = serve(&mut rig, "10", "elicitation/create", "a");
        let other = serve(&mut rig, "11", "elicitation/create", "b");
        rig.hear(&[r#"{"jsonrpc":"2.0","id":12,"method":"elicitation/create","params":{}}"#]);
        let of_no_session = rig.start().remove(0).key;
        if by_hand {
            rig.conn.notify(rig.now, "session/cancel", params("a").as_bytes()).expect("the link is open");
        } else {
            rig.cancel(key);
        }
        assert_eq!(rig.fired(), [(ours, CauseCode::Parent)], "the dialog closes; the others stay");
        assert_eq!(rig.say(), [CANCEL_A.to_owned(), dismissed("10")]);
        rig.hear(&[&request("13", "elicitation/create", "a")]);
        assert_eq!(rig.start(), [], "it crossed our cancel: nobody is asked");
        assert_eq!(rig.say(), [dismissed("13")]);
        rig.end(ours, HandlerEnd::Returned(Reply::Result(br#"{"action":"accept"}"#)));
        rig.end(other, OK);
        rig.end(of_no_session, OK);
        assert_eq!(rig.say(), [result("11"), result("12")], "each is answered once");
    }
}

/// News of a child, in this state.
fn news(child: &str, state: &str) -> String {
    let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}","state":{state}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"a","update":{update}}}}}"#)
}

// ACP-39: from then on it counts as one that was cancelled itself.
#[test]
fn the_questions_of_a_child_end_when_it_says_that_it_was_cancelled() {
    for method in ["session/request_permission", "elicitation/create"] {
        let mut rig = client(&acp::V1);
        let key = prompt(&mut rig, "a");
        rig.say();
        let [ours, other] = [("10", "child"), ("11", "b")].map(|(id, session)| serve(&mut rig, id, method, session));
        rig.cancel(key);
        assert_eq!(rig.say(), [CANCEL_A], "a child's own");
        for state in
            ["null", r#"{"state":"running"}"#, r#"{"state":"idle","stopReason":"end_turn"}"#, r#"{"state":"unknown"}"#]
        {
            rig.hear(&[&news("child", state)]);
            assert_eq!((rig.fired(), rig.say()), (vec![], vec![]), "{method}, {state}");
        }
        rig.hear(&[&news("child", r#"{"state":"idle","stopReason":"cancelled"}"#)]);
        assert_eq!(rig.fired(), [(ours, CauseCode::Parent)], "{method}");
        let answers = rig.say();
        assert!(answers.len() == 1 && answers[0].contains(r#""id":10,"result""#) && answers[0].contains("cancel"));
        let later = serve(&mut rig, "12", method, "child");
        assert_eq!(rig.fired(), [], "{later:?} is of its next work");
        rig.end(other, OK);
        assert_eq!(rig.say(), [result("11")]);
    }
}

// D22: a dialog that nobody waits for is not shown for seconds.
#[test]
fn a_question_whose_asker_has_gone_has_the_short_grace() {
    let dialogs = [
        (&acp::V1, "session/request_permission"),
        (&acp::V1, "elicitation/create"),
        (&mcp::LATEST_LEGACY, "elicitation/create"),
        (&mcp::LATEST_LEGACY, "sampling/createMessage"),
    ];
    for (dialect, method) in dialogs {
        let mut rig = client(dialect);
        let (dialog, work) = (rig.serve("10", method), rig.serve("11", "work"));
        rig.hear(&[&cancel_in(dialect, "10"), &cancel_in(dialect, "11")]);
        assert_eq!(rig.fired().len(), 2);
        rig.pass(millis(999));
        assert_eq!(rig.dropped(), [], "{dialect}, {method}: a handler has the time to close its window");
        rig.pass(millis(1));
        assert_eq!(rig.dropped(), [dialog], "{dialect}, {method}");
        rig.pass(secs(4));
        assert_eq!(rig.dropped(), [work], "{dialect}");
    }
    let mut rig = client(&acp::V1);
    let dialog = rig.serve("10", "elicitation/create");
    rig.conn.set_grace(dialog, rescind_proto::connection::Limit::After(secs(2)));
    rig.hear(&[&cancel_in(&acp::V1, "10")]);
    rig.pass(secs(1));
    assert_eq!(rig.dropped(), [], "a route's own grace stands");
    rig.pass(secs(1));
    assert_eq!(rig.dropped(), [dialog]);
}

// D37: it crossed our cancel.
#[test]
fn a_permission_request_of_a_cancelled_turn_is_answered_at_once() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.say();
    rig.cancel(key);
    rig.say();
    rig.hear(&[&request("10", "session/request_permission", "a")]);
    assert_eq!(rig.start(), [], "nobody is asked");
    assert_eq!(rig.say(), [permission_cancelled("10")]);
    let _next = prompt(&mut rig, "a");
    rig.say();
    serve(&mut rig, "11", "session/request_permission", "a");
}

// D37.
#[test]
fn a_session_is_its_value_and_not_its_spelling() {
    for (ours, theirs) in
        [("a/b", r"a\/b"), (r"\u0061", "a"), ("é", r"\u00E9"), (r"\u00e9", r"\u00E9"), (r"\n", r"\u000a")]
    {
        // The permission request of a turn in another spelling is closed with it, and one that crosses its cancel.
        let mut rig = client(&acp::V1);
        let key = prompt(&mut rig, ours);
        rig.say();
        serve(&mut rig, "7", "session/request_permission", theirs);
        rig.cancel(key);
        rig.hear(&[&request("8", "session/request_permission", theirs)]);
        let said = rig.say();
        assert!(said.contains(&permission_cancelled("7")) && said.contains(&permission_cancelled("8")), "{said:?}");
        // A turn is cancelled in another spelling.
        let mut rig = server(&acp::V1);
        let key = serve(&mut rig, "1", "session/prompt", ours);
        rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{}}}"#, params(theirs))]);
        assert_eq!(rig.fired(), [(key, CauseCode::Caller)], "{ours} {theirs}");
    }
}

#[test]
fn a_caller_that_writes_session_cancel_by_hand_writes_the_only_one() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.say();
    let dialog = serve(&mut rig, "10", "session/request_permission", "a");
    rig.conn.notify(rig.now, "session/cancel", params("a").as_bytes()).unwrap();
    assert_eq!(rig.fired(), [(dialog, CauseCode::Parent)]);
    assert_eq!(rig.settled(), [], "its caller waits for the agent's answer");
    rig.conn.notify(rig.now, "session/update", b"{}").unwrap();
    assert_eq!(rig.say()[..2], [CANCEL_A.to_owned(), permission_cancelled("10")]);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
    let how = Settlement::Result(br#"{"stopReason":"cancelled"}"#.as_slice().into());
    assert_eq!(rig.settled(), [(key, how)]);
    assert!(!rig.cancel(key));
    rig.end(dialog, OK);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_prompt_dropped_after_a_session_cancel_by_hand_sends_no_second_one() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.say();
    rig.conn.notify(rig.now, "session/cancel", params("a").as_bytes()).unwrap();
    assert!(rig.cancel(key));
    assert_eq!(rig.say(), [CANCEL_A]);
    assert_eq!(rig.settled().len(), 1);
    rig.leaves_nothing();
}

#[test]
fn session_cancel_without_a_turn_is_a_notification_like_any_other() {
    let mut rig = client(&acp::V1);
    rig.conn.notify(rig.now, "session/cancel", params("a").as_bytes()).unwrap();
    assert_eq!(rig.say(), [CANCEL_A]);
}

// Case 43, ACP-08.
#[test]
fn session_cancel_stops_the_turn_and_what_it_asked_for() {
    let mut rig = server(&acp::V1);
    let turn = serve(&mut rig, "1", "session/prompt", "a");
    let other = serve(&mut rig, "2", "session/prompt", "b");
    let child = CallOptions { parent: Some(turn), ..CallOptions::default() };
    let terminal = rig.ask_with("terminal/wait_for_exit", &params("a"), &child);
    let permission = rig.ask("session/request_permission", &params("a"));
    let elsewhere = rig.ask("session/request_permission", &params("b"));
    rig.say();
    rig.hear(&[CANCEL_A]);
    assert_eq!(rig.fired(), [(turn, CauseCode::Caller)]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted]);
    let settled: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(settled, [terminal, permission]);
    assert_eq!(rig.take(|event| matches!(event, ConnectionEvent::Notification(_)).then_some(())).len(), 1);
    assert_eq!(rig.say().len(), 2, "each is cancelled on the wire");
    rig.end(turn, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
    rig.hear(&[&result("3")]);
    assert_eq!(rig.settled().pop().map(|(key, _)| key), Some(elsewhere));
    rig.end(other, OK);
    rig.leaves_nothing();
}

// ACP-08: abort errors are caught.
#[test]
fn a_cancelled_turn_ends_with_a_stop_reason_and_never_with_an_error() {
    let failed = Reply::Error { code: -32603, message: "aborted", data: None };
    for end in [
        HandlerEnd::Returned(failed),
        HandlerEnd::Cancelled,
        HandlerEnd::GaveUp,
        HandlerEnd::Dropped,
        HandlerEnd::Panicked,
    ] {
        for cancel in [CANCEL_A.to_owned(), acp_cancel("1")] {
            let mut rig = server(&acp::V1);
            let turn = serve(&mut rig, "1", "session/prompt", "a");
            rig.hear(&[&cancel]);
            rig.end(turn, end);
            assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#], "{end:?}");
            rig.leaves_nothing();
        }
    }
}

#[test]
fn a_turn_that_completes_despite_the_cancel_says_so() {
    let mut rig = server(&acp::V1);
    let turn = serve(&mut rig, "1", "session/prompt", "a");
    rig.hear(&[CANCEL_A]);
    rig.end(turn, HandlerEnd::Returned(Reply::Result(br#"{"stopReason":"end_turn"}"#)));
    assert_eq!(rig.endings(), [Ending::RanOn]);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#]);
}

// ACP-04, ACP-08: updates come before the answer, and none after it.
#[test]
fn updates_pass_until_the_answer() {
    let mut rig = server(&acp::V1);
    let turn = serve(&mut rig, "1", "session/prompt", "a");
    rig.hear(&[CANCEL_A]);
    assert!(rig.conn.notify_for(rig.now, turn, "session/update", b"{}"));
    assert!(rig.conn.respond(rig.now, turn, Reply::Result(br#"{"stopReason":"cancelled"}"#)));
    assert!(!rig.conn.notify_for(rig.now, turn, "session/update", b"{}"));
    assert!(!rig.conn.respond(rig.now, turn, Reply::Result(b"{}")));
    assert_eq!(rig.say().len(), 2);
    rig.end(turn, HandlerEnd::Answered);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_session_cancel_without_its_turn_is_reported() {
    let mut rig = server(&acp::V1);
    rig.hear(&[CANCEL_A, r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#]);
    assert_eq!(rig.verdicts(), [Verdict::Unknown, Verdict::Malformed]);
    rig.leaves_nothing();
}

#[test]
fn a_turn_cancelled_in_the_same_read_never_starts() {
    let mut rig = server(&acp::V1);
    rig.hear(&[&request("1", "session/prompt", "a"), CANCEL_A]);
    assert_eq!(rig.start(), []);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
    rig.leaves_nothing();
}

#[test]
fn session_cancel_means_nothing_to_other_protocols() {
    let mut rig = server(&mcp::LATEST);
    let key = serve(&mut rig, "1", "session/prompt", "a");
    rig.hear(&[CANCEL_A]);
    assert_eq!(rig.fired(), []);
    rig.end(key, OK);
}

#[test]
fn the_parents_cause_stays_with_the_permission_request() {
    let mut rig = client(&acp::V1);
    let key = prompt(&mut rig, "a");
    rig.say();
    let dialog = serve(&mut rig, "10", "session/request_permission", "a");
    rig.cancel_for(key, Cause::new(CauseCode::Operator).with_text("enough"));
    let causes =
        rig.take(|event| if let ConnectionEvent::Cancelled { cause, .. } = event { Some(cause.clone()) } else { None });
    assert_eq!(causes, [Cause::parent(CauseCode::Operator)]);
    let _ = dialog;
}

// ACP-10.
#[test]
fn closing_a_session_cancels_its_turn_like_session_cancel() {
    let mut rig = server(&acp::V1);
    let turn = serve(&mut rig, "1", "session/prompt", "a");
    rig.conn.stop_turn(rig.now, br#""a""#);
    assert_eq!(rig.fired(), [(turn, CauseCode::Caller)]);
    rig.end(turn, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#]);
}
