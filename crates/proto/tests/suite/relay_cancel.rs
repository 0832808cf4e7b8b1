//! A cancel on its way through a relay: where it goes, what it says, and what comes of it.

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    link::Verdict,
    receipt::{Answer, Outcome},
    relay::{EarlyCancelLimits, Emit, RelayConfig, RelayEvent, StuckSign},
    rule::Rule,
    side::{Side, Sides},
};
use rescind_testkit::relay_rig::RelayRig;

const CALL_1: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
const CANCEL_1: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"Stop"}}"#;
const RESULT_1: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

fn mcp() -> RelayRig {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    );
    rig.at_server();
    rig.from_server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#);
    rig.at_client();
    rig
}

/// The request is at the server.
fn in_flight() -> RelayRig {
    let mut rig = mcp();
    rig.from_client(CALL_1);
    assert_eq!(rig.at_server(), [CALL_1]);
    rig
}

#[test]
fn a_cancel_reaches_the_server_and_the_client_hears_no_more() {
    let mut rig = in_flight();
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1]);
    assert_eq!(rig.outcome("1"), Some(Outcome::Sent));
    rig.pass(Duration::from_millis(1500));
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_client(), [""; 0]);
    let after = Duration::from_millis(1500);
    assert_eq!(rig.outcome("1"), Some(Outcome::AnsweredAfter { after, answer: Answer::Result }));
    assert_eq!(rig.late(), 1);
}

/// A relay on the way has let us go: that says nothing of the work behind it.
#[test]
fn the_error_of_another_relay_is_no_end_of_the_work() {
    for code in [-31001, -31003] {
        let mut rig = in_flight();
        rig.from_client(CANCEL_1);
        assert_eq!(rig.at_server(), [CANCEL_1]);
        rig.from_server(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"stopped by operator"}}}}"#
        ));
        assert_eq!((rig.at_client().len(), rig.outcome("1"), rig.late()), (0, Some(Outcome::Sent), 1), "{code}");
    }
}

#[test]
fn a_cancel_before_its_request_was_written_withdraws_both() {
    let mut rig = mcp();
    rig.from_client(CALL_1);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
}

#[test]
fn a_cancel_of_a_half_written_request_follows_it_whole() {
    for cut in 1..CALL_1.len() {
        let mut rig = mcp();
        rig.from_client(CALL_1);
        rig.write(Side::Server, cut);
        rig.from_client(CANCEL_1);
        assert_eq!(rig.at_server(), [CALL_1, CANCEL_1], "cut at {cut}");
    }
}

#[test]
fn a_cancel_passes_whole_frames_that_wait_and_never_its_own_request() {
    let mut rig = in_flight();
    let big = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"x":"{}"}}}}"#, "y".repeat(100_000));
    let other = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}"#;
    rig.from_client(&big);
    rig.from_client(other);
    rig.write(Side::Server, 10);
    rig.from_client(CANCEL_1);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    let cancel_2 = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
    assert_eq!(rig.at_server(), [&big, CANCEL_1, cancel_2, other]);
}

#[test]
fn only_the_first_cancel_is_written() {
    let mut rig = in_flight();
    rig.from_client(CANCEL_1);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1]);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated, Verdict::Repeated]);
}

#[test]
fn an_answer_that_was_not_written_yet_is_taken_back() {
    let mut rig = in_flight();
    rig.from_server(RESULT_1);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_client(), [""; 0], "silence is what a cancelled MCP request gets");
    assert_eq!(rig.at_server(), [""; 0], "the server has nothing left to cancel");
    assert_eq!(rig.outcome("1"), Some(Outcome::CompletedFirst));
}

#[test]
fn an_answer_of_which_a_byte_is_out_is_finished() {
    let mut rig = in_flight();
    rig.from_server(RESULT_1);
    rig.write(Side::Client, 1);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_client(), [RESULT_1]);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
}

#[test]
fn an_answer_before_the_cancel_was_written_disarms_it() {
    let mut rig = in_flight();
    rig.from_client(CANCEL_1);
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.outcome("1"), Some(Outcome::CompletedFirst));
}

#[test]
fn a_late_cancel_of_a_completed_request_is_not_sticky() {
    let mut rig = in_flight();
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_client(), [RESULT_1]);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
    rig.from_client(CALL_1);
    assert_eq!(rig.at_server(), [CALL_1], "the id is used again and nothing holds it back");
}

#[test]
fn a_cancel_that_overtook_its_request_stops_it_before_it_starts() {
    let mut rig = mcp();
    rig.from_client(CANCEL_1);
    assert_eq!(rig.verdicts(), [Verdict::Held]);
    rig.pass(Duration::from_millis(249));
    rig.from_client(CALL_1);
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    assert_eq!(rig.outcome("1"), Some(Outcome::NeverSent));
}

#[test]
fn a_held_cancel_is_forgotten_after_its_time() {
    let mut rig = mcp();
    rig.from_client(CANCEL_1);
    rig.pass(Duration::from_millis(250));
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Unknown]);
    rig.from_client(CALL_1);
    assert_eq!(rig.at_server(), [CALL_1]);
}

#[test]
fn held_cancels_are_bounded() {
    let mut rig = mcp();
    for id in 100..1000 {
        rig.from_client(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    let held = rig.verdicts().into_iter().filter(|verdict| *verdict == Verdict::Held).count();
    assert_eq!(held, EarlyCancelLimits::STRANGER.most);
}

/// D9: of a client on its own pipe as many are held as real clients write in one burst.
#[test]
fn hundreds_of_cancels_ahead_of_their_requests_are_all_held_for_ones_own_client() {
    let bounds = [(EarlyCancelLimits::OWN_CLIENT, 4096), (EarlyCancelLimits::STRANGER, 64)];
    for (limits, most) in bounds {
        for burst in [1, 64, 65, 180, 195, 1396, 4096, 4097] {
            let early_cancels = Sides { client: limits, server: EarlyCancelLimits::STRANGER };
            let mut rig = RelayRig::new(RelayConfig { early_cancels, ..RelayConfig::default() });
            let id = |n: usize| n + 100;
            for n in 0..burst {
                rig.from_client(&format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#,
                    id(n)
                ));
            }
            for n in 0..burst {
                rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call"}}"#, id(n)));
            }
            assert_eq!(rig.at_server().len(), burst.saturating_sub(most), "{burst} of at most {most}");
            assert_eq!(rig.relay.in_flight(Side::Client), burst.saturating_sub(most));
        }
    }
}

#[test]
fn malformed_cancels_are_ignored_and_answered_by_nobody() {
    let mut rig = in_flight();
    for params in [
        "{}",
        r#"{"requestId":null}"#,
        r#"{"requestId":true}"#,
        r#"{"requestId":1.0}"#,
        r#"{"requestId":[1]}"#,
        r#"{"requestId":{"id":1}}"#,
        "[1]",
        r#"{"requestId":1,"requestId":1}"#,
        r#"{"requestId":9,"request\u0049d":1}"#,
    ] {
        rig.from_client(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
    }
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#);
    assert_eq!((rig.at_server(), rig.at_client()), (vec![], vec![]));
    assert_eq!(rig.verdicts(), [Verdict::Malformed; 10]);
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_client(), [RESULT_1], "the request was not touched");
}

#[test]
fn a_reason_that_is_no_string_is_dropped_and_the_cancel_stands() {
    let mut rig = in_flight();
    rig.from_client(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":{"a":1}}}"#,
    );
    assert_eq!(rig.at_server(), [r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#]);
}

#[test]
fn initialize_is_never_cancelled() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    rig.from_client(initialize);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#);
    assert_eq!(rig.at_server(), [initialize]);
    assert_eq!(rig.violations(), [(Side::Client, Rule::McpC03)]);
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#;
    rig.from_server(answer);
    assert_eq!(rig.at_client(), [answer]);
}

#[test]
fn a_held_cancel_never_holds_back_initialize() {
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    rig.from_client(initialize);
    assert_eq!(rig.at_server(), [initialize]);
}

#[test]
fn late_progress_is_swallowed_and_past_the_grace_it_means_stuck() {
    let mut rig = mcp();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}"#);
    rig.at_server();
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    rig.from_server(progress);
    assert_eq!(rig.at_client(), [progress]);
    rig.from_client(CANCEL_1);
    rig.at_server();
    rig.from_server(progress);
    assert_eq!((rig.at_client(), rig.late()), (vec![], 1));
    let stuck = |rig: &RelayRig| {
        rig.events.iter().filter(|e| matches!(e, RelayEvent::Stuck { sign: StuckSign::Progress, .. })).count()
    };
    assert_eq!(stuck(&rig), 0);
    rig.pass(Duration::from_secs(5));
    rig.from_server(progress);
    rig.from_server(progress);
    assert_eq!((rig.at_client(), stuck(&rig)), (vec![], 1));
}

#[test]
fn progress_after_the_answer_is_swallowed() {
    let mut rig = mcp();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}"#);
    rig.at_server();
    rig.from_server(RESULT_1);
    rig.from_server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#);
    assert_eq!(rig.at_client(), [RESULT_1]);
}

#[test]
fn a_servers_request_is_cancelled_at_the_client() {
    let mut rig = mcp();
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#;
    rig.from_server(ask);
    assert_eq!(rig.at_client(), [ask]);
    rig.from_server(CANCEL_1);
    assert_eq!(rig.at_client(), [CANCEL_1]);
    rig.from_client(RESULT_1);
    assert_eq!(rig.at_server(), [""; 0]);
}

#[test]
fn a_cancel_is_looked_up_among_its_senders_requests_only() {
    let mut rig = in_flight();
    rig.from_server(CANCEL_1);
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_client(), [RESULT_1]);
}

#[test]
fn one_of_two_is_cancelled_and_the_other_answers() {
    let mut rig = in_flight();
    let call_2 = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}"#;
    let result_2 = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    rig.from_client(call_2);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1, call_2]);
    rig.from_server(result_2);
    assert_eq!(rig.at_client(), [result_2]);
}

#[test]
fn the_servers_own_cancel_is_a_violation_in_the_modern_revision() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{meta}}}}}"#));
    rig.at_server();
    rig.from_server(CANCEL_1);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.violations(), [(Side::Server, Rule::McpM01)]);
}

// D30.
#[test]
fn violations_are_counted_by_side_and_number_even_if_nobody_hears_of_them() {
    let mut rig =
        RelayRig::new(RelayConfig { emit: Emit { notices: false, ..Emit::default() }, ..RelayConfig::default() });
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    rig.from_client(initialize);
    for _ in 0..2 {
        rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#);
    }
    for _ in 0..2 {
        rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#);
        let passed = rig.at_server();
        let answer = passed.last().unwrap().replace(r#""method":"tools/call","params":{}"#, r#""result":{}"#);
        rig.from_server(&answer);
        rig.at_client();
    }
    let asked = r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#;
    for _ in 0..2 {
        rig.from_server(asked);
        let passed = rig.at_client();
        rig.from_client(&passed[0].replace(r#""method":"roots/list""#, r#""result":{}"#));
        rig.at_server();
    }
    assert_eq!(rig.violations(), []);
    let broken = &rig.relay.tally().violations;
    assert_eq!(broken.client, [(Rule::McpC03, 2), (Rule::McpI02, 1)].into());
    assert_eq!(broken.server, [(Rule::McpI02, 1)].into());
}

#[test]
fn a_server_ends_a_subscription_by_naming_the_clients_request() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{{meta}}}}}"#));
    rig.at_server();
    let update = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
    rig.from_server(update);
    rig.from_server(CANCEL_1);
    assert_eq!(rig.at_client(), [update, CANCEL_1]);
    assert_eq!(rig.violations(), []);
    assert_eq!(rig.relay.in_flight(Side::Client), 0);
    rig.from_server(update);
    assert_eq!(rig.at_client(), [""; 0], "the subscription is over");
}

#[test]
fn a_cancelled_subscription_that_goes_on_past_the_grace_is_stuck() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{{meta}}}}}"#));
    rig.at_server();
    let key = rig.key(Side::Client, "1").unwrap();
    rig.from_client(CANCEL_1);
    rig.at_server();
    let update = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
    rig.from_server(update);
    assert!(!rig.relay.view(key).unwrap().is_stuck, "it may have crossed");
    rig.pass(Duration::from_secs(5));
    rig.from_server(update);
    assert!(rig.relay.view(key).unwrap().is_stuck);
    assert_eq!((rig.relay.tally().stuck, rig.at_client()), (1, vec![]));
}

#[test]
fn a_task_is_not_cancelled_by_the_notification() {
    let mut rig = RelayRig::new(RelayConfig::default());
    let version = r#""protocolVersion":"2025-11-25""#;
    rig.from_client(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{{version}}}}}"#));
    rig.at_server();
    let tasks = r#""capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}"#;
    rig.from_server(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{{version},{tasks}}}}}"#));
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}"#);
    rig.at_server();
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0]);
    assert_eq!(rig.violations(), [(Side::Client, Rule::McpC13)]);
}

#[test]
fn without_the_capability_a_task_member_means_nothing() {
    let mut rig = mcp();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}"#);
    rig.at_server();
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [CANCEL_1], "TASK-11: it is then no task");
}

#[test]
fn an_operator_stops_a_request_and_its_client_is_told() {
    let mut rig = in_flight();
    let key = rig.key(Side::Client, "1").unwrap();
    assert!(rig.relay.stop(rig.now, key, Some("enough")));
    assert!(!rig.relay.stop(rig.now, key, None), "once");
    assert_eq!(
        rig.at_client(),
        [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-31003,"message":"stopped by operator: enough","data":{"receipt":{"cause":"operator","reason":"enough","outcome":"asked"}}}}"#
        ]
    );
    let told = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#;
    assert_eq!(rig.at_server(), [told]);
    rig.from_client(CANCEL_1);
    assert_eq!(rig.at_server(), [""; 0], "the client's own cancel is consumed");
    rig.from_server(RESULT_1);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.notices().next().map(|notice| notice.cause), Some(CauseCode::Operator));
}
