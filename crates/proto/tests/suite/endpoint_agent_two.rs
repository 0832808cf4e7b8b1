//! An agent of ACP v2 (D55): a prompt is answered when it is inserted, and its handler is the foreground work of its
//! session. Each test names its rows of the specification.

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{BackgroundItem, CallOptions, ConnectionConfig, HandlerEnd, IncomingKey, Limit, Reply, Settlement},
    dialect::acp,
    link::{Rejected, Verdict},
    receipt::Ending,
};

use crate::endpoint_rig::*;

const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const DONE: HandlerEnd<'static> = HandlerEnd::Returned(Reply::Result(br#"{"stopReason":"end_turn"}"#));

fn agent() -> Rig {
    server(&acp::V2_DRAFT)
}

fn request(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"sessionId":"s"}}}}"#)
}

fn prompt(id: &str) -> String {
    request(id, "session/prompt")
}

fn inserted(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"messageId":"m{id}"}}}}"#)
}

fn not_inserted(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32800,"message":"Request cancelled"}}}}"#)
}

fn update(members: &str) -> String {
    let update = format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":{members}}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{update}}}"#)
}

fn running(background: &str) -> String {
    update(&format!(r#""state_update","state":"running","background":[{background}]"#))
}

fn idle(reason: &str) -> String {
    update(&format!(r#""state_update","state":"idle","stopReason":"{reason}","background":[]"#))
}

fn failed(code: i32, message: &str) -> String {
    let error = format!(r#"{{"code":{code},"message":"{message}"}}"#);
    update(&format!(r#""state_update","state":"idle","stopReason":"error","error":{error},"background":[]"#))
}

/// The handlers that start now, each of a prompt that it inserts.
fn begin(rig: &mut Rig) -> Vec<IncomingKey> {
    let started = rig.start();
    for request in &started {
        let message = format!("m{}", request.id.0);
        assert!(rig.conn.insert_prompt(rig.now, request.key, &message));
        rig.check();
    }
    started.into_iter().map(|request| request.key).collect()
}

/// An agent that works on a prompt of session "s".
fn at_work() -> (Rig, IncomingKey) {
    let mut rig = agent();
    rig.hear(&[&prompt("1")]);
    let work = begin(&mut rig).remove(0);
    assert_eq!(rig.say(), [inserted("1"), running("")]);
    (rig, work)
}

// ACP-50.
#[test]
fn a_prompt_is_answered_when_its_handler_begins_and_its_end_is_reported() {
    let (mut rig, work) = at_work();
    assert_eq!(rig.conn.message(work), Some("m1"));
    assert!(rig.conn.notify_for(rig.now, work, "session/update", b"{}"), "its updates go on");
    assert!(!rig.conn.respond(rig.now, work, Reply::Result(b"{}")), "it was answered");
    assert!(!rig.conn.insert_prompt(rig.now, work, "again"));
    rig.end(work, DONE);
    assert_eq!(rig.say()[1..], [idle("end_turn")]);
    assert!(!rig.conn.notify_for(rig.now, work, "session/update", b"{}"), "nothing of it follows");
    rig.leaves_nothing();
}

// ACP-50, ACP-05: what fails after the insertion has been answered already.
#[test]
fn work_that_fails_is_reported_as_an_error_and_one_that_says_nothing_without_a_reason() {
    let error = Reply::Error { code: -32603, message: "no model", data: None };
    for (end, told) in [
        (HandlerEnd::Returned(error), failed(-32603, "no model")),
        (HandlerEnd::Panicked, failed(-32603, "the handler failed")),
        (HandlerEnd::GaveUp, failed(-32800, "Request cancelled")),
        (OK, update(r#""state_update","state":"idle","background":[]"#)),
    ] {
        let (mut rig, work) = at_work();
        rig.end(work, end);
        assert_eq!(rig.say(), [told], "{end:?}");
        rig.leaves_nothing();
    }
}

#[test]
fn a_prompt_that_fails_before_its_insertion_is_answered_with_the_error() {
    let mut rig = agent();
    rig.hear(&[&prompt("1")]);
    let key = rig.start().remove(0).key;
    assert!(rig.conn.awaits_insertion(key));
    rig.end(key, HandlerEnd::Returned(Reply::Error { code: -32602, message: "no", data: None }));
    assert_eq!(rig.say(), [error("1", -32602)]);
    rig.leaves_nothing();
}

// ACP-51, ACP-52, ACP-53.
#[test]
fn session_cancel_stops_the_work_and_what_it_asked_and_the_prompts_before_it() {
    let (mut rig, work) = at_work();
    rig.hear(&[&prompt("2"), &prompt("3")]);
    assert_eq!((rig.start(), rig.queued()), (vec![], 2), "they wait for the work to end");
    let child = CallOptions { parent: Some(work), ..CallOptions::default() };
    let asked = r#"{"sessionId":"s"}"#;
    let permission = rig.ask_with("session/request_permission", asked, &child);
    let elicitation = rig.ask("elicitation/create", asked);
    rig.say();
    rig.hear(&[CANCEL, &prompt("4")]);
    assert_eq!(rig.fired(), [(work, CauseCode::Caller)]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted; 3]);
    let settled = rig.settled();
    assert!(settled.iter().all(|(_, how)| matches!(how, Settlement::Cancelled(_))), "not approved: {settled:?}");
    assert_eq!(settled.len(), 2);
    let said = rig.say();
    let cancels = [acp_cancel("1"), acp_cancel("2")].map(|cancel| cancel.replace("}}", ""));
    for cancel in &cancels {
        assert_eq!(said.iter().filter(|line| line.starts_with(cancel.as_str())).count(), 1, "{cancel} in {said:?}");
    }
    assert_eq!(said[said.len() - 2..], [not_inserted("2"), not_inserted("3")]);
    assert_eq!(said.len(), 4);
    assert_eq!(rig.start(), [], "a later prompt waits for the end of the cancelled work");
    assert!(rig.conn.notify_for(rig.now, work, "session/update", b"{}"), "its last updates go out");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"yes"}}}"#]);
    assert_eq!(rig.settled(), [], "a late answer authorises nothing (ACP-54)");
    rig.end(work, HandlerEnd::Cancelled);
    assert_eq!(rig.endings().pop(), Some(Ending::Stopped { after: millis(0) }));
    let next = begin(&mut rig).remove(0);
    assert_eq!(rig.say()[1..], [idle("cancelled"), inserted("4"), running("")], "before any other work");
    rig.end(next, DONE);
    let _ = (permission, elicitation);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":2,"result":{}}"#]);
    rig.leaves_nothing();
}

// ACP-52: abort errors are never reported as errors.
#[test]
fn cancelled_work_is_reported_as_cancelled_however_its_handler_ends() {
    let failed = Reply::Error { code: -32603, message: "aborted", data: None };
    for end in [
        HandlerEnd::Returned(failed),
        HandlerEnd::Cancelled,
        HandlerEnd::GaveUp,
        HandlerEnd::Dropped,
        HandlerEnd::Panicked,
    ] {
        let (mut rig, work) = at_work();
        rig.hear(&[CANCEL]);
        rig.end(work, end);
        assert_eq!(rig.say(), [idle("cancelled")], "{end:?}");
        rig.leaves_nothing();
    }
}

#[test]
fn work_that_ends_by_itself_in_spite_of_a_cancel_says_so() {
    let (mut rig, work) = at_work();
    rig.hear(&[CANCEL]);
    rig.end(work, DONE);
    assert_eq!((rig.endings(), rig.say()), (vec![Ending::RanOn], vec![idle("end_turn")]));
}

// ACP-52.
#[test]
fn a_cancel_of_a_session_that_does_nothing_reports_nothing() {
    let (mut rig, work) = at_work();
    rig.end(work, DONE);
    rig.say();
    rig.hear(&[CANCEL]);
    assert_eq!((rig.say(), rig.verdicts()), (vec![], vec![Verdict::Unknown]));
    rig.hear(&[&prompt("2")]);
    assert_eq!(begin(&mut rig).len(), 1, "it does not reach what comes later");
}

#[test]
fn a_second_cancel_changes_nothing_and_the_end_is_reported_once() {
    let (mut rig, work) = at_work();
    rig.hear(&[CANCEL, CANCEL]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated]);
    rig.end(work, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [idle("cancelled")]);
    rig.leaves_nothing();
}

// ACP-03, ACP-01.
#[test]
fn the_cancel_of_an_inserted_prompt_by_its_id_is_ignored_and_of_a_waiting_one_answered() {
    let (mut rig, work) = at_work();
    rig.hear(&[&prompt("2"), &prompt("3"), &acp_cancel("1"), &acp_cancel("2"), &acp_cancel("9")]);
    assert_eq!((rig.fired(), rig.verdicts()), (vec![], vec![Verdict::Completed, Verdict::Accepted, Verdict::Unknown]));
    assert_eq!(rig.say(), [not_inserted("2")]);
    rig.end(work, DONE);
    assert_eq!(begin(&mut rig).len(), 1, "the one behind it is next");
    assert_eq!(rig.say(), [idle("end_turn"), inserted("3"), running("")]);
}

// ACP-59: an id may be used again once its request was answered.
#[test]
fn the_id_of_an_inserted_prompt_is_free_while_its_work_goes_on() {
    let (mut rig, work) = at_work();
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"other"}"#, &acp_cancel("1")]);
    assert_eq!((rig.start(), rig.fired()), (vec![], vec![]), "the cancel meant the later request");
    assert_eq!(rig.say(), [not_inserted("1")]);
    rig.hear(&[CANCEL]);
    assert_eq!(rig.fired(), [(work, CauseCode::Caller)]);
    rig.end(work, HandlerEnd::Cancelled);
    rig.leaves_nothing();
}

// D21: no driver can insert what has to stop.
#[test]
fn a_prompt_that_is_cancelled_between_its_start_and_its_insertion_is_not_inserted() {
    let mut rig = agent();
    rig.hear(&[&prompt("1")]);
    let key = rig.start().remove(0).key;
    rig.hear(&[CANCEL]);
    assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
    assert!(!rig.conn.insert_prompt(rig.now, key, "m1"));
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [not_inserted("1")]);
    rig.leaves_nothing();
}

// ACP-05: the client did not stop it.
#[test]
fn work_that_this_side_stops_ends_with_an_error_and_not_as_cancelled() {
    let (mut rig, work) = at_work();
    assert!(rig.conn.stop(rig.now, work, Cause::new(CauseCode::Operator)));
    rig.end(work, HandlerEnd::Cancelled);
    let said = rig.say();
    assert!(said.len() == 1 && said[0].contains(r#""stopReason":"error","error":{"code":-32800,"#), "{said:?}");
    let (mut rig, work) = at_work();
    rig.conn.limit(rig.now, work, secs(1));
    rig.pass(secs(1) + secs(1));
    assert_eq!(rig.fired(), [(work, CauseCode::Timeout)]);
    rig.end(work, HandlerEnd::Dropped);
    assert!(rig.say()[0].contains(r#""stopReason":"error""#));
}

// D17: its requester waits no more.
#[test]
fn the_deadline_of_a_prompt_is_void_once_it_is_inserted() {
    let mut rig = agent();
    let meta = r#""_meta":{"dev.rescind/deadlineMs":1000}"#;
    let late = |id: &str| prompt(id).replace(r#""sessionId":"s""#, &format!(r#""sessionId":"s",{meta}"#));
    rig.hear(&[&late("1"), &late("2")]);
    let work = begin(&mut rig).remove(0);
    rig.pass(secs(60));
    assert_eq!(rig.fired(), [], "its work goes on");
    let said = rig.say();
    assert!(said.last().is_some_and(|line| line.contains(r#""id":2,"error":{"code":-32800"#)), "{said:?}");
    rig.end(work, DONE);
    rig.leaves_nothing();
}

// Invariant 8.
#[test]
fn prompts_that_wait_are_bounded_and_leave_room_for_handlers() {
    let mut config =
        ConnectionConfig { max_running: 2, max_queued: 3, ..config(rescind_proto::side::Side::Server, &acp::V2_DRAFT) };
    config.reports_cancels = true;
    let mut rig = Rig::new(config);
    rig.hear(&[&prompt("1")]);
    let work = begin(&mut rig).remove(0);
    let waiting: Vec<_> = (2..9).map(|id| prompt(&id.to_string())).collect();
    rig.hear(&waiting.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(rig.queued(), 4);
    assert_eq!(rig.refusals(), [Rejected::Overloaded; 3]);
    rig.hear(&[&acp_cancel("2"), r#"{"jsonrpc":"2.0","id":20,"method":"other"}"#]);
    let other = rig.start().remove(0).key;
    rig.end(other, OK);
    rig.hear(&[CANCEL]);
    assert_eq!(rig.queued(), 0);
    rig.end(work, HandlerEnd::Cancelled);
    rig.leaves_nothing();
}

#[test]
fn another_session_neither_waits_nor_is_cancelled() {
    let (mut rig, work) = at_work();
    rig.hear(&[&prompt("2").replace(r#""s""#, r#""t""#)]);
    let other = begin(&mut rig).remove(0);
    rig.hear(&[CANCEL]);
    assert_eq!(rig.fired(), [(work, CauseCode::Caller)]);
    rig.end(work, HandlerEnd::Cancelled);
    rig.end(other, DONE);
    rig.leaves_nothing();
}

// D27.
#[test]
fn the_end_of_input_stops_the_work_and_what_waits() {
    let (mut rig, work) = at_work();
    rig.hear(&[&prompt("2")]);
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.fired(), [(work, CauseCode::Disconnect)]);
    rig.end(work, HandlerEnd::Dropped);
    rig.say();
    assert!(rig.is_closed());
}

const ITEM: BackgroundItem<'static> = BackgroundItem { kind: "terminal", id: "t", details: br#"{"command":"make"}"# };
const LISTED: &str = r#"{"type":"terminal","terminalId":"t"}"#;

fn item_cancel(id: &str, item: &str) -> String {
    let params = format!(r#"{{"sessionId":"s","terminalId":"{item}"}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"terminal/cancel","params":{params}}}"#)
}

/// A terminal of the background, begun by this work.
fn terminal(rig: &mut Rig, work: IncomingKey) -> IncomingKey {
    let item = rig.conn.begin_background(rig.now, work, &ITEM).expect("it begins").key;
    rig.check();
    let grant = r#""capabilities":{"cancel":{}},"command":"make""#;
    assert_eq!(rig.say(), [update(&format!(r#""terminal_update","terminalId":"t",{grant}"#)), running(LISTED)]);
    item
}

fn exited(status: &str) -> String {
    update(&format!(r#""terminal_update","terminalId":"t","exitStatus":{status}"#))
}

// ACP-51, ACP-56.
#[test]
fn background_work_outlives_its_turn_and_a_cancel_of_the_session() {
    let (mut rig, work) = at_work();
    let item = terminal(&mut rig, work);
    let child = CallOptions { parent: Some(item), ..CallOptions::default() };
    let card = rig.ask_with("session/request_permission", r#"{"sessionId":"s"}"#, &child);
    rig.say();
    rig.hear(&[CANCEL]);
    assert_eq!(rig.fired(), [(work, CauseCode::Caller)], "and not what is listed");
    assert_eq!(rig.settled(), [], "nor what that has asked");
    rig.end(work, HandlerEnd::Cancelled);
    let state = format!(r#""state_update","state":"idle","stopReason":"cancelled","background":[{LISTED}]"#);
    assert_eq!(rig.say(), [update(&state)]);
    assert!(rig.conn.notify_for(rig.now, item, "session/update", b"{}"), "it reports after the idle");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
    assert_eq!(rig.settled().pop().map(|(key, _)| key), Some(card));
    rig.say();
    rig.end(item, HandlerEnd::Returned(Reply::Result(br#"{"exitCode":0}"#)));
    let snapshot = update(r#""state_update","state":"idle","background":[]"#);
    assert_eq!(rig.say(), [exited(r#"{"exitCode":0}"#), snapshot], "its end, and then a list without it");
    rig.leaves_nothing();
}

// ACP-55.
#[test]
fn an_item_is_cancelled_by_its_own_word_which_is_accepted_before_it_ends() {
    let (mut rig, work) = at_work();
    let item = terminal(&mut rig, work);
    rig.hear(&[&item_cancel("7", "t"), &item_cancel("8", "t")]);
    assert_eq!(rig.fired(), [(item, CauseCode::Caller)]);
    assert_eq!(rig.say(), [result("7"), result("8")], "accepted, and not stopped");
    assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated]);
    rig.pass(secs(5));
    assert_eq!(rig.dropped(), [item], "the grace of any handler");
    rig.end(item, HandlerEnd::Dropped);
    assert_eq!(rig.say(), [exited("{}"), running("")], "the foreground is as it was");
    rig.hear(&[&item_cancel("9", "t")]);
    let passed: Vec<_> = rig.start().into_iter().map(|request| request.payload.method().to_owned()).collect();
    assert_eq!(passed, ["terminal/cancel"], "it is over: a handler may know one of this name");
}

#[test]
fn a_tool_call_of_the_background_ends_as_cancelled_completed_or_failed() {
    let failed = Reply::Error { code: 1, message: "no", data: None };
    for (is_cancelled, end, word) in [
        (true, HandlerEnd::Cancelled, "cancelled"),
        (true, HandlerEnd::Returned(failed), "cancelled"),
        (true, OK, "completed"),
        (false, OK, "completed"),
        (false, HandlerEnd::Returned(failed), "failed"),
        (false, HandlerEnd::Panicked, "failed"),
    ] {
        let (mut rig, work) = at_work();
        let call = BackgroundItem { kind: "tool_call", id: "c", details: br#"{"status":"pending","title":"x"}"# };
        let item = rig.conn.begin_background(rig.now, work, &call).expect("it begins").key;
        let begun =
            r#""tool_call_update","toolCallId":"c","status":"in_progress","capabilities":{"cancel":{}},"title":"x""#;
        assert_eq!(rig.say()[0], update(begun));
        if is_cancelled {
            let params = r#"{"sessionId":"s","toolCallId":"c"}"#;
            rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tool_call/cancel","params":{params}}}"#)]);
            assert_eq!(rig.say(), [result("7")]);
        }
        rig.end(item, end);
        let ended = format!(r#""tool_call_update","toolCallId":"c","status":"{word}""#);
        assert_eq!(rig.say(), [update(&ended), running("")], "{end:?}");
    }
}

// ACP-55: what is shielded is not cancelled, and nobody is told that it was.
#[test]
fn the_cancel_of_an_item_that_is_shielded_is_refused() {
    let (mut rig, work) = at_work();
    let item = terminal(&mut rig, work);
    assert!(rig.conn.shield(item));
    rig.hear(&[&item_cancel("7", "t")]);
    assert_eq!(rig.fired(), []);
    assert!(rig.say()[0].contains(r#""id":7,"error":{"code":-32602"#));
}

#[test]
fn nothing_is_begun_in_the_background_where_it_cannot_be_reported() {
    let (mut rig, work) = at_work();
    let begin = |rig: &mut Rig, by, item: &BackgroundItem<'_>| rig.conn.begin_background(rig.now, by, item).is_some();
    let item = terminal(&mut rig, work);
    assert!(!begin(&mut rig, work, &ITEM), "the id is taken");
    assert!(!begin(&mut rig, work, &BackgroundItem { kind: "subagent", ..ITEM }), "a kind without a cancel of its own");
    assert!(begin(&mut rig, item, &BackgroundItem { id: "u", ..ITEM }), "it can begin more itself");
    rig.hear(&[CANCEL]);
    assert!(!begin(&mut rig, work, &BackgroundItem { id: "v", ..ITEM }), "its turn was cancelled");
    let mut rig = server(&acp::V1);
    rig.hear(&[&prompt("1")]);
    let turn = rig.start().remove(0).key;
    assert!(!rig.conn.insert_prompt(rig.now, turn, "m"));
    assert!(!begin(&mut rig, turn, &ITEM), "version 1 has none");
}

// ACP-57.
#[test]
fn a_close_stops_everything_of_its_session_and_is_answered_behind_the_last_report() {
    for by_hand in [true, false] {
        let (mut rig, work) = at_work();
        let item = terminal(&mut rig, work);
        rig.hear(&[&prompt("2"), &request("3", "session/close")]);
        let close = rig.start().remove(0).key;
        if by_hand {
            rig.conn.stop_turn(rig.now, br#""s""#);
            assert_eq!(rig.say(), [not_inserted("2")]);
        }
        assert!(rig.conn.session_works(br#""s""#));
        rig.end(close, OK);
        assert_eq!(rig.fired(), [(work, CauseCode::Caller), (item, CauseCode::Caller)], "{by_hand}");
        if by_hand {
            assert_eq!(rig.say(), [""; 0], "it is not closed yet");
        }
        rig.end(work, HandlerEnd::Cancelled);
        let told = rig.say();
        assert!(told.iter().any(|line| line.contains(r#""idle","stopReason":"cancelled""#)), "{told:?}");
        assert!(!told.contains(&result("3")), "its terminal still works");
        rig.end(item, HandlerEnd::Cancelled);
        let told = rig.say();
        let closed = told.iter().position(|line| *line == result("3")).expect("it is answered");
        assert_eq!(
            told[closed - 2..closed],
            [exited("{}"), update(r#""state_update","state":"idle","background":[]"#)]
        );
        assert_eq!(rig.start(), [], "a prompt before it is not worked on");
        rig.leaves_nothing();
    }
}

#[test]
fn a_close_of_a_session_that_does_nothing_is_answered_at_once() {
    let mut rig = agent();
    let close = {
        rig.hear(&[&request("3", "session/close")]);
        rig.start().remove(0).key
    };
    rig.end(close, OK);
    assert_eq!(rig.say(), [result("3")]);
    rig.leaves_nothing();
}

// D22.
#[test]
fn an_item_has_the_grace_that_was_set_for_it() {
    let (mut rig, work) = at_work();
    let item = terminal(&mut rig, work);
    rig.conn.set_grace(item, Limit::After(millis(100)));
    rig.hear(&[&item_cancel("7", "t")]);
    rig.pass(millis(100));
    assert_eq!(rig.dropped(), [item]);
}
