//! What a monitor makes of cancels, answers and what comes late.

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    dialect::mcp,
    link::{LateKind, Verdict},
    monitor::{MonitorConfig, MonitorEvent, ObservedAnswer, ObservedEnd},
    receipt::{Answer, Outcome},
    rule::Rule,
    side::Side::{Client, Server},
};
use rescind_testkit::monitor_rig::MonitorRig;

const CALL_1: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
const CANCEL_1: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"Stop"}}"#;
const RESULT_1: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
const ERROR_1: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"e"}}"#;
const CANCELLED_1: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"c"}}"#;
const LSP_CANCEL_1: &str = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;

const ANSWERED: ObservedAnswer =
    ObservedAnswer { answer: Answer::Result, code: None, cancelled: false, loose: false, doubtful: false };

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn speaking(dialect: &str) -> MonitorRig {
    let dialect = rescind_proto::dialect::Dialect::by_name(dialect);
    assert!(dialect.is_some());
    MonitorRig::new(MonitorConfig { dialect, ..MonitorConfig::default() })
}

/// A call is in flight.
fn in_flight(dialect: &str) -> MonitorRig {
    let mut rig = speaking(dialect);
    rig.client(CALL_1);
    rig
}

#[test]
fn a_request_is_in_flight_until_its_answer() {
    let mut rig = in_flight("mcp");
    let view = rig.request(Client, "1");
    assert_eq!((view.method, view.name.as_deref(), view.over), ("tools/call", Some("slow"), None));
    assert_eq!(rig.monitor.in_flight(Client), 1);
    rig.pass(40);
    rig.server(RESULT_1);
    assert_eq!(rig.monitor.in_flight(Client), 0);
    assert_eq!(rig.request(Client, "1").over, Some((rig.now, ObservedEnd::Answered(ANSWERED))));
}

/// Cases 1, 32, 62: in MCP a cancel ends the wait at once, and nothing more can be known; a late answer is.
#[test]
fn a_silent_cancel_is_sent_and_a_late_answer_says_so() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(CANCEL_1);
    assert_eq!((rig.monitor.in_flight(Client), rig.settled(Client, "1")), (0, Some(ObservedEnd::Silent)));
    let receipt = rig.request(Client, "1").cancel.unwrap().clone();
    assert_eq!((receipt.outcome, receipt.written), (Outcome::Sent, Some(rig.now)));
    assert_eq!((receipt.cause.code, receipt.cause.text()), (CauseCode::Caller, Some("Stop")));
    rig.pass(1500);
    rig.server(RESULT_1);
    let after = ms(1500);
    assert_eq!(rig.outcome(Client, "1"), Some(Outcome::AnsweredAfter { after, answer: Answer::Result }));
    let view = rig.request(Client, "1");
    assert_eq!(
        (view.late.answers, view.late.at, view.over.map(|over| over.1)),
        (1, rig.now, Some(ObservedEnd::Silent))
    );
    rig.server(ERROR_1);
    assert_eq!(
        rig.outcome(Client, "1"),
        Some(Outcome::AnsweredAfter { after, answer: Answer::Result }),
        "the first counts"
    );
    let again = |event: &MonitorEvent| matches!(event, MonitorEvent::Late { again: true, what: LateKind::Error, .. });
    assert_eq!((rig.count(again), rig.request(Client, "1").late.answers), (1, 2));
}

/// Cases 1, 63: where an answer is owed, the request stays in flight until it comes.
#[test]
fn an_answered_cancel_is_confirmed_only_by_the_word_for_it() {
    for (answer, outcome) in [
        (CANCELLED_1, Outcome::Confirmed { after: ms(20) }),
        (RESULT_1, Outcome::AnsweredAfter { after: ms(20), answer: Answer::Result }),
        (ERROR_1, Outcome::AnsweredAfter { after: ms(20), answer: Answer::Error }),
    ] {
        let mut rig = in_flight("lsp");
        rig.client(LSP_CANCEL_1);
        assert_eq!((rig.monitor.in_flight(Client), rig.outcome(Client, "1")), (1, Some(Outcome::Sent)));
        rig.pass(20);
        rig.server(answer);
        assert_eq!((rig.monitor.in_flight(Client), rig.outcome(Client, "1")), (0, Some(outcome)));
        assert_eq!(rig.request(Client, "1").late.answers, 0, "it was owed");
    }
}

#[test]
fn minus_32800_confirms_nothing_in_mcp_which_has_no_such_code() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(CANCEL_1);
    rig.pass(5);
    rig.server(CANCELLED_1);
    assert_eq!(rig.outcome(Client, "1"), Some(Outcome::AnsweredAfter { after: ms(5), answer: Answer::Error }));
}

/// Cases 26, 6: the answer was first, so nothing is learnt of the cancel but that.
#[test]
fn a_cancel_after_the_answer_came_second() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.server(RESULT_1);
    rig.client(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
    assert_eq!(
        (rig.outcome(Client, "1"), rig.settled(Client, "1")),
        (Some(Outcome::CompletedFirst), Some(ObservedEnd::Answered(ANSWERED)))
    );
}

/// Case 25.
#[test]
fn a_second_cancel_is_a_repetition() {
    for (dialect, cancel) in [("mcp-2025-11-25", CANCEL_1), ("lsp", LSP_CANCEL_1)] {
        let mut rig = in_flight(dialect);
        rig.client(cancel);
        rig.pass(5);
        rig.client(cancel);
        assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated]);
        assert_eq!(rig.count(|event| matches!(event, MonitorEvent::Receipt { .. })), 1);
    }
}

/// Cases 5, 22: a cancel for nothing is held for a moment, as a receiver may hold it.
#[test]
fn an_unknown_id_is_unknown_once_no_request_can_follow() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.client(CANCEL_1);
    rig.pass(250);
    rig.idle();
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Unknown]);
    let mut rig = speaking("acp-rfd-2025-11-13");
    rig.client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.server(r#"{"jsonrpc":"2.0","id":0,"result":{"agentCapabilities":{"cancellation":{"request":true}}}}"#);
    rig.client(LSP_CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Unknown], "its receivers ignore unknown ids (ACP-03)");
}

#[test]
fn a_cancel_ahead_of_its_request_names_it_after_all() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.client(CANCEL_1);
    rig.pass(249);
    rig.client(CALL_1);
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Accepted]);
    assert_eq!((rig.monitor.in_flight(Client), rig.settled(Client, "1")), (0, Some(ObservedEnd::Silent)));
    assert_eq!(rig.outcome(Client, "1"), Some(Outcome::Sent));
}

/// Case 7.
#[test]
fn malformed_cancels_name_nothing() {
    let mut rig = in_flight("mcp-2025-11-25");
    for id in ["null", "true", "1.0", "[1]", r#"{"id":1}"#, r#"1,"requestId":1"#] {
        rig.client(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
    }
    rig.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    rig.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#);
    assert_eq!(rig.verdicts(), [Verdict::Malformed; 8]);
    assert_eq!((rig.monitor.in_flight(Client), rig.outcome(Client, "1")), (1, None));
}

/// Cases 9, 50 and invariant 5: 1 is not "1", and one side's 1 is not the other's.
#[test]
fn a_cancel_names_its_senders_own_request_and_by_its_own_type() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(&CALL_1.replace("\"id\":1", "\"id\":\"1\""));
    rig.server(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#);
    rig.server(CANCEL_1);
    assert_eq!(rig.settled(Server, "1"), Some(ObservedEnd::Silent));
    assert_eq!(rig.monitor.in_flight(Client), 2);
    rig.client(&CANCEL_1.replace("\"requestId\":1", "\"requestId\":\"1\""));
    assert_eq!(rig.settled(Client, "\"1\""), Some(ObservedEnd::Silent));
    assert_eq!(rig.request(Client, "1").over, None);
}

/// Cases 16, 56 and D30: what a receiver must not heed changes nothing.
#[test]
fn a_cancel_that_may_not_be_sent_is_refused_by_its_rule() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    rig.client(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpC03)]);
    assert_eq!((rig.monitor.in_flight(Client), rig.outcome(Client, "1")), (1, None));

    let mut rig = in_flight("mcp-2026-07-28");
    rig.server(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpM01)]);

    let mut rig = speaking("lsp");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    rig.client(r#"{"jsonrpc":"2.0","id":2,"method":"textDocument/hover"}"#);
    rig.client(r#"{"jsonrpc":"2.0","id":3,"method":"shutdown"}"#);
    rig.client(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::Lsp06)]);
}

/// Case 71: the proposal's three scenarios.
#[test]
fn in_the_proposal_only_a_side_that_declared_it_can_be_sent_a_cancel() {
    let yes = r#"{"cancellation":{"request":true}}"#;
    for (client, agent, to_agent, to_client) in
        [(yes, yes, true, true), (yes, "{}", false, true), ("{}", yes, true, false)]
    {
        let mut rig = MonitorRig::new(MonitorConfig::default());
        rig.client(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{client}}}}}"#
        ));
        rig.server(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{agent}}}}}"#
        ));
        rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"session/load","params":{}}"#);
        rig.server(r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}"#);
        rig.client(LSP_CANCEL_1);
        rig.server(LSP_CANCEL_1);
        let verdict = |may| if may { Verdict::Accepted } else { Verdict::Forbidden(Rule::Acp20) };
        assert_eq!(rig.verdicts(), [verdict(to_agent), verdict(to_client)], "{client} {agent}");
    }
}

#[test]
fn progress_after_the_answer_is_late() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":7}}}"#);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#);
    assert_eq!(rig.request(Client, "1").late.notices, 1);
}

/// Case 32: progress for a request that nobody waits for is late; for one that still owes its answer it is not.
#[test]
fn progress_is_late_when_the_request_is_over_for_its_requester() {
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"workDoneToken":7,"_meta":{"progressToken":7}}}"#;
    let mcp = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    let lsp = r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":7,"value":{"kind":"report"}}}"#;
    for (dialect, cancel, progress, late) in [("mcp-2025-11-25", CANCEL_1, mcp, 1), ("lsp", LSP_CANCEL_1, lsp, 0)] {
        let mut rig = speaking(dialect);
        rig.client(ask);
        rig.server(progress);
        rig.client(cancel);
        rig.server(progress);
        let view = rig.request(Client, "1");
        assert_eq!((view.late.notices, view.progress.unwrap().count), (late, 2), "{dialect}");
        assert_eq!(rig.outcome(Client, "1"), Some(Outcome::Sent), "progress is no answer");
    }
}

#[test]
fn the_end_of_whoever_answers_leaves_what_it_can_no_longer_say_unknown() {
    for (dialect, cancel, outcome) in
        [("lsp", LSP_CANCEL_1, Outcome::Unknown), ("mcp-2025-11-25", CANCEL_1, Outcome::Sent)]
    {
        let mut rig = in_flight(dialect);
        rig.client(&CALL_1.replace("\"id\":1", "\"id\":2"));
        rig.server(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        rig.client(cancel);
        rig.end(Server);
        assert_eq!(rig.outcome(Client, "1"), Some(outcome));
        assert_eq!(rig.settled(Client, "2"), Some(ObservedEnd::Lost));
        assert_eq!(rig.settled(Server, "1"), Some(ObservedEnd::Gone), "nobody waits for its answer");
        assert_eq!(rig.monitor.in_flight(Client) + rig.monitor.in_flight(Server), 0);
    }
}

#[test]
fn of_a_cancel_to_a_side_that_has_ended_nothing_is_known() {
    let mut rig = in_flight("lsp");
    rig.end(Server);
    rig.client(LSP_CANCEL_1);
    assert_eq!((rig.verdicts(), rig.outcome(Client, "1")), (vec![Verdict::Completed], Some(Outcome::Unknown)));
}

#[test]
fn what_is_asked_of_a_side_that_has_ended_is_lost() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.end(Server);
    rig.client(CALL_1);
    assert_eq!(rig.settled(Client, "1"), Some(ObservedEnd::Lost));
    let before = rig.events.len();
    rig.server(RESULT_1);
    assert_eq!(rig.events.len(), before, "it can say nothing any more");
}

/// D27: `printf … | server`.
#[test]
fn a_client_that_has_said_all_may_still_be_answered() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.server(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    rig.end(Client);
    assert_eq!(rig.settled(Server, "1"), Some(ObservedEnd::Lost));
    assert_eq!(rig.request(Client, "1").over, None);
    rig.server(RESULT_1);
    assert_eq!(rig.settled(Client, "1"), Some(ObservedEnd::Answered(ANSWERED)));
}

#[test]
fn an_answer_to_a_request_from_before_the_monitor_began_is_nobodys() {
    let mut rig = speaking("mcp-2025-11-25");
    rig.server(&RESULT_1.replace("\"id\":1", "\"id\":41"));
    rig.client(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}"#);
    rig.server(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"stray"}}"#);
    let unasked = |event: &MonitorEvent| {
        let MonitorEvent::Unasked { from, id, .. } = event else { return None };
        Some((*from, id.as_ref().map(ToString::to_string)))
    };
    let found: Vec<_> = rig.events.iter().filter_map(unasked).collect();
    assert_eq!(found, [(Server, Some("41".into())), (Client, Some("\"x\"".into())), (Server, None)]);
}

/// Case 10, D7.
#[test]
fn a_duplicate_in_flight_leaves_the_first_as_it_was() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(&CALL_1.replace("slow", "fast"));
    assert_eq!(rig.monitor.in_flight(Client), 1);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"duplicate"}}"#);
    assert_eq!(rig.request(Client, "1").over, None, "that refuses the second");
    rig.server(RESULT_1);
    assert_eq!(rig.settled(Client, "1"), Some(ObservedEnd::Answered(ANSWERED)));
    assert_eq!(rig.count(|event| matches!(event, MonitorEvent::Duplicate { .. })), 1);
}

/// Case 11: whose answer it is cannot be told, and that is said.
#[test]
fn an_answer_under_a_reused_id_is_doubtful_while_the_first_is_owed_one() {
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(CANCEL_1);
    rig.client(&CALL_1.replace("slow", "second"));
    assert_eq!(rig.count(|event| matches!(event, MonitorEvent::Reused { .. })), 1);
    rig.server(RESULT_1);
    assert_eq!(rig.settled(Client, "1"), Some(ObservedEnd::Answered(ObservedAnswer { doubtful: true, ..ANSWERED })));
    rig.pass(10);
    rig.server(ERROR_1);
    let first = rig.monitor.remembered(Client).find(|view| view.name.as_deref() == Some("slow")).unwrap();
    assert_eq!(
        (first.late.answers, first.cancel.unwrap().outcome),
        (1, Outcome::AnsweredAfter { after: ms(10), answer: Answer::Error })
    );
}

#[test]
fn an_answered_id_that_is_used_again_is_in_no_doubt() {
    let mut rig = in_flight("lsp");
    rig.server(RESULT_1);
    rig.client(CALL_1);
    rig.server(RESULT_1);
    assert_eq!(rig.settled(Client, "1"), Some(ObservedEnd::Answered(ANSWERED)));
}

/// Case 66, D10.
#[test]
fn an_answer_with_its_id_in_another_type_is_matched_where_that_is_certain() {
    let loose = ObservedEnd::Answered(ObservedAnswer { loose: true, ..ANSWERED });
    for id in ["\"1\"", "1.0"] {
        let mut rig = in_flight("mcp-2025-11-25");
        rig.server(&RESULT_1.replace("\"id\":1", &format!("\"id\":{id}")));
        assert_eq!(rig.settled(Client, "1"), Some(loose), "{id}");
    }
    let mut rig = in_flight("mcp-2025-11-25");
    rig.client(&CALL_1.replace("\"id\":1", "\"id\":\"1\""));
    rig.server(&RESULT_1.replace("\"id\":1", "\"id\":1.0"));
    let unasked = rig.count(|event| matches!(event, MonitorEvent::Unasked { from: Server, .. }));
    assert_eq!((rig.monitor.in_flight(Client), unasked), (2, 1), "either could be meant");
}

/// MCP-M02: either side may end a subscription, in three ways.
#[test]
fn a_server_may_end_a_subscription_with_a_cancel() {
    let listen = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#;
    let update = r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
    let mut rig = speaking(mcp::LATEST.name);
    rig.client(listen);
    rig.server(update);
    rig.server(CANCEL_1);
    assert_eq!((rig.verdicts(), rig.settled(Client, "1")), (vec![Verdict::Accepted], Some(ObservedEnd::Closed)));
    assert_eq!(rig.outcome(Client, "1"), None, "nobody cancelled it but the one who worked on it");

    let mut rig = speaking(mcp::LATEST.name);
    rig.client(listen);
    rig.client(CANCEL_1);
    rig.server(update);
    rig.server(CANCEL_1);
    assert_eq!((rig.settled(Client, "1"), rig.request(Client, "1").late.notices), (Some(ObservedEnd::Silent), 2));

    let mut rig = speaking(mcp::LATEST.name);
    rig.client(listen);
    rig.server(RESULT_1);
    rig.server(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
    assert_eq!(rig.outcome(Client, "1"), None);
}

/// Case 51: of a batch only the named member is cancelled, and it may stand before its request.
#[test]
fn the_members_of_a_batch_are_seen_one_by_one() {
    let mut rig = speaking("mcp-2025-03-26");
    let second = CALL_1.replace("\"id\":1", "\"id\":2");
    rig.client(&format!("[{CANCEL_1},{CALL_1},{second},[],7]"));
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Accepted]);
    assert_eq!((rig.settled(Client, "1"), rig.settled(Client, "2")), (Some(ObservedEnd::Silent), None));
    assert_eq!(rig.count(|event| matches!(event, MonitorEvent::Batch { from: Client, members: 5 })), 1);
    assert_eq!(rig.count(|event| matches!(event, MonitorEvent::Rejected { from: Client, .. })), 2);
    rig.server(&format!("[{},{RESULT_1}]", RESULT_1.replace("\"id\":1", "\"id\":2")));
    assert_eq!(
        (rig.settled(Client, "2"), rig.request(Client, "1").late.answers),
        (Some(ObservedEnd::Answered(ANSWERED)), 1)
    );
}
