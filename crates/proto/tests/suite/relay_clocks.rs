//! Clocks that a relay enforces (D16, D18, D19, D36).

use core::time::Duration;

use rescind_proto::{
    dialect::mcp,
    link::Clock,
    relay::{ClockRule, RelayConfig},
    side::Sides,
};
use rescind_testkit::relay_rig::RelayRig;

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}"#;
const CANCEL: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"request timed out"}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;

fn rule(clock: Clock, method: Option<&str>, name: Option<&str>, ms: u64) -> ClockRule {
    ClockRule { clock, method: method.map(Into::into), name: name.map(Into::into), limit: Duration::from_millis(ms) }
}

fn rig(clocks: Vec<ClockRule>) -> RelayRig {
    let dialects = Sides { client: Some(&mcp::LATEST_LEGACY), server: Some(&mcp::LATEST_LEGACY) };
    RelayRig::new(RelayConfig { dialects, clocks, ..RelayConfig::default() })
}

#[test]
fn a_timeout_cancels_the_work_and_answers_the_client() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 300)]);
    rig.from_client(CALL);
    rig.at_server();
    rig.pass(Duration::from_millis(300));
    assert_eq!(rig.at_server(), [CANCEL]);
    assert_eq!(
        rig.at_client(),
        [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-31001,"message":"no answer or progress for 300ms (the relay's response timeout)","data":{"clock":"response","afterMs":300,"receipt":{"cause":"timeout","outcome":"asked"}}}}"#
        ]
    );
    rig.from_server(RESULT);
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "both come too late");
}

#[test]
fn progress_resets_the_response_clock_and_never_the_total() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 300), rule(Clock::Total, None, None, 1000)]);
    rig.from_client(CALL);
    rig.at_server();
    for _ in 0..4 {
        rig.pass(Duration::from_millis(200));
        rig.from_server(PROGRESS);
    }
    assert_eq!(rig.at_client().len(), 4);
    rig.pass(Duration::from_millis(200));
    let answer = rig.at_client();
    assert!(answer[0].contains(r#""clock":"total""#), "{answer:?}");
}

#[test]
fn the_most_specific_rule_wins() {
    let mut rig = rig(vec![
        rule(Clock::Response, None, None, 100),
        rule(Clock::Response, Some("tools/call"), None, 200),
        rule(Clock::Response, Some("tools/call"), Some("slow"), 300),
    ]);
    rig.from_client(CALL);
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":2").replace("slow", "fast"));
    rig.from_client(&CALL.replace("\"id\":1", "\"id\":3").replace("tools/call", "resources/read"));
    rig.at_server();
    let mut ended = Vec::new();
    for _ in 0..3 {
        rig.pass(Duration::from_millis(100));
        ended.push(rig.at_client().len());
    }
    assert_eq!(ended, [1, 1, 1]);
}

#[test]
fn people_are_not_timed_unless_a_rule_names_their_method() {
    let ask = r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}"#;
    let mut rig1 = rig(vec![rule(Clock::Response, None, None, 100)]);
    rig1.from_server(ask);
    rig1.from_client(&CALL.replace("tools/call", "subscriptions/listen"));
    rig1.pass(Duration::from_secs(3600));
    assert_eq!((rig1.at_client(), rig1.at_server().len()), (vec![ask.to_owned()], 1));
    let mut rig2 = rig(vec![rule(Clock::Response, Some("elicitation/create"), None, 100)]);
    rig2.from_server(ask);
    rig2.at_client();
    rig2.pass(Duration::from_millis(100));
    assert!(rig2.at_server()[0].contains("-31001"));
}

#[test]
fn initialize_times_out_locally_and_is_not_cancelled() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 100)]);
    rig.from_client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    rig.at_server();
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.at_server(), [""; 0], "MCP-C03");
    assert!(rig.at_client()[0].contains("not_sendable"));
}

#[test]
fn a_request_that_was_never_written_times_out_and_is_withdrawn() {
    let mut rig = rig(vec![rule(Clock::Total, None, None, 100)]);
    rig.from_client(CALL);
    rig.pass(Duration::from_millis(100));
    assert!(rig.at_client()[0].contains("never_sent"));
    assert_eq!(rig.at_server(), [""; 0]);
}

#[test]
fn a_cancel_beats_the_timeout() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 100)]);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    rig.pass(Duration::from_millis(100));
    assert_eq!(rig.at_client(), [""; 0], "silence was asked for first");
}

#[test]
fn without_a_flag_there_is_no_clock() {
    let mut rig = rig(Vec::new());
    rig.from_client(CALL);
    rig.at_server();
    assert_eq!(rig.relay.poll_timeout(), None);
}

const QUESTION: &str = r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Really?"}}"#;
const REPLY: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}"#;

/// D49: a tool that asks a person has all the time the person takes.
#[test]
fn the_response_clock_stands_still_while_a_person_is_asked_and_the_total_does_not() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 300), rule(Clock::Total, None, None, 3_600_000)]);
    rig.from_client(CALL);
    rig.at_server();
    rig.pass(Duration::from_millis(100));
    rig.from_server(QUESTION);
    rig.from_server(&QUESTION.replace(":7,", ":8,"));
    assert_eq!(rig.at_client().len(), 2);
    rig.pass(Duration::from_secs(600));
    rig.from_client(REPLY);
    rig.at_server();
    rig.pass(Duration::from_secs(600));
    rig.from_client(&REPLY.replace(":7,", ":8,"));
    rig.at_server();
    rig.pass(Duration::from_millis(199));
    assert_eq!(rig.at_client(), [""; 0], "of its 300 ms it has had 299");
    rig.pass(Duration::from_millis(1));
    assert!(rig.at_client()[0].contains(r#""clock":"response""#));

    rig.from_client(&CALL.replace("\"id\":1", "\"id\":2"));
    rig.at_server();
    rig.from_server(&QUESTION.replace(":7,", ":9,"));
    rig.at_client();
    rig.pass(Duration::from_secs(3_599));
    assert_eq!(rig.at_client(), [""; 0]);
    rig.pass(Duration::from_secs(1));
    assert!(rig.at_client()[0].contains(r#""clock":"total""#));
}

#[test]
fn a_call_made_while_a_person_is_asked_has_its_whole_time_afterwards() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 300)]);
    rig.from_server(QUESTION);
    rig.at_client();
    rig.pass(Duration::from_secs(5));
    rig.from_client(CALL);
    rig.at_server();
    rig.pass(Duration::from_secs(5));
    rig.from_client(REPLY);
    rig.at_server();
    rig.pass(Duration::from_millis(299));
    assert_eq!(rig.at_client(), [""; 0]);
    rig.pass(Duration::from_millis(1));
    assert!(rig.at_client()[0].contains("-31001"));
}

#[test]
fn a_question_that_is_cancelled_lets_the_clock_go_on() {
    let mut rig = rig(vec![rule(Clock::Response, None, None, 300)]);
    rig.from_client(CALL);
    rig.at_server();
    rig.from_server(QUESTION);
    rig.at_client();
    rig.pass(Duration::from_secs(60));
    rig.from_server(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    rig.at_client();
    rig.pass(Duration::from_millis(300));
    assert!(rig.at_client()[0].contains("-31001"));
}
