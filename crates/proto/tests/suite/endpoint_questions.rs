//! Clocks that stand still while a person is asked (D49).

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    connection::{CallOptions, ConnectionConfig, HandlerEnd, IncomingKey, Limit, Misuse, Reply, Settlement},
    dialect::{Dialect, acp, mcp},
    link::Clock,
    side::Side,
};

use crate::endpoint_rig::*;

/// The dialects in which a server asks in a request, and what it asks.
const ASKING: [(&Dialect, &str); 3] = [
    (&mcp::LATEST_LEGACY, "elicitation/create"),
    (&mcp::LATEST_LEGACY, "sampling/createMessage"),
    (&acp::V1, "session/request_permission"),
];

fn minute() -> CallOptions {
    CallOptions { response_timeout: Limit::After(secs(60)), ..CallOptions::default() }
}

fn timed_out(clock: Clock, after: Duration) -> Settlement {
    Settlement::TimedOut { clock, after }
}

/// A request of the peer with a minute left.
fn hurried(rig: &mut Rig, id: &str) -> IncomingKey {
    let params = r#""params":{"_meta":{"dev.rescind/deadlineMs":60000}}"#;
    rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work",{params}}}"#)]);
    rig.start().remove(0).key
}

fn asking(parent: IncomingKey) -> CallOptions {
    CallOptions { parent: Some(parent), ..CallOptions::default() }
}

#[test]
fn a_calls_response_clock_stands_still_while_its_peer_has_a_question_open() {
    for (dialect, question) in ASKING {
        let mut rig = client(dialect);
        let key = rig.ask_with("work", "", &minute());
        rig.say();
        rig.pass(secs(20));
        let asked = rig.serve("7", question);
        rig.pass(secs(1700));
        assert_eq!(rig.settled(), [], "{question}");
        rig.end(asked, OK);
        rig.say();
        rig.pass(millis(39_999));
        assert_eq!(rig.settled(), []);
        rig.pass(millis(1));
        assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(60)))], "what was left before the question");
        assert_eq!(rig.say().len(), 1);
        rig.leaves_nothing();
    }
}

#[test]
fn the_total_clock_runs_while_a_person_is_asked() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.ask_with("work", "", &CallOptions { total_timeout: Limit::After(secs(90)), ..minute() });
    rig.say();
    let asked = rig.serve("7", "elicitation/create");
    rig.pass(secs(90));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Total, secs(90)))]);
    rig.end(asked, OK);
    rig.leaves_nothing();
}

#[test]
fn the_clocks_go_on_with_the_last_question_however_it_ends() {
    let ends: [fn(&mut Rig, IncomingKey, &str); 5] = [
        |rig, key, _| rig.end(key, OK),
        |rig, key, _| rig.end(key, HandlerEnd::Panicked),
        |rig, key, _| {
            rig.conn.respond(rig.now, key, Reply::Result(b"{}"));
        },
        |rig, _, id| rig.hear(&[&mcp_cancel(id)]),
        |rig, key, id| {
            rig.conn.stop(rig.now, key, rescind_proto::cause::Cause::new(CauseCode::Operator));
            rig.hear(&[&mcp_cancel(id)]);
        },
    ];
    for end in ends {
        let mut rig = client(&mcp::LATEST_LEGACY);
        let key = rig.ask_with("work", "", &minute());
        rig.say();
        let first = rig.serve("7", "elicitation/create");
        rig.pass(secs(100));
        let second = rig.serve("8", "sampling/createMessage");
        end(&mut rig, first, "7");
        rig.pass(secs(100));
        assert_eq!(rig.settled(), [], "one is still open");
        end(&mut rig, second, "8");
        rig.pass(secs(60));
        assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(60)))]);
    }
}

#[test]
fn a_question_that_waits_for_a_handler_is_open_and_one_that_never_got_in_is_not() {
    let mut config = config(Side::Client, &mcp::LATEST_LEGACY);
    (config.max_running, config.max_queued) = (1, 1);
    let mut rig = Rig::new(config);
    let key = rig.ask_with("work", "", &minute());
    rig.say();
    let busy = rig.serve("1", "ping");
    rig.hear(&[&call("2", "elicitation/create"), &call("3", "elicitation/create")]);
    assert_eq!(rig.say().len(), 1, "the third is refused");
    rig.pass(secs(100));
    assert_eq!(rig.settled(), []);
    rig.hear(&[&mcp_cancel("2")]);
    rig.pass(secs(60));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(60)))]);
    rig.end(busy, OK);
    rig.leaves_nothing();
}

#[test]
fn what_is_called_while_a_question_is_open_has_its_whole_time_after_it() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let asked = rig.serve("7", "elicitation/create");
    rig.pass(secs(50));
    let key = rig.ask_with("work", "", &minute());
    let progressing = rig.ask_with("slow", "", &CallOptions { reset_on_progress: true, ..minute() });
    rig.say();
    rig.pass(secs(50));
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#]);
    rig.pass(secs(50));
    rig.end(asked, OK);
    rig.pass(secs(30));
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":2}}"#]);
    rig.pass(secs(30));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(60)))]);
    rig.pass(secs(30));
    assert_eq!(rig.settled(), [(progressing, timed_out(Clock::Response, secs(60)))]);
}

#[test]
fn the_received_deadline_of_one_who_asks_a_person_stands_still() {
    for (dialect, question) in ASKING {
        let mut rig = server(dialect);
        let parent = hurried(&mut rig, "1");
        rig.pass(secs(20));
        rig.ask_with(question, "", &asking(parent));
        rig.say();
        assert_eq!(rig.conn.remaining(rig.now, parent), Some(secs(40)));
        rig.pass(secs(3600));
        assert_eq!(rig.conn.remaining(rig.now, parent), Some(secs(40)), "{question}");
        assert_eq!(rig.fired(), []);
        rig.hear(&[&result("1")]);
        assert_eq!(rig.settled().len(), 1);
        rig.pass(millis(40_999));
        assert_eq!(rig.fired(), []);
        rig.pass(millis(1));
        assert_eq!(rig.fired(), [(parent, CauseCode::Timeout)], "the second of the net after it (D17)");
    }
}

/// The caller cannot know for which of its calls the peer asks, so it stops the clocks of all: the peer grants as much.
#[test]
fn everything_received_on_the_connection_waits_for_the_person_who_is_asked() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let asker = hurried(&mut rig, "1");
    let other = hurried(&mut rig, "2");
    let question = rig.ask_with("elicitation/create", "", &asking(asker));
    rig.say();
    rig.pass(secs(100));
    let late = hurried(&mut rig, "3");
    rig.pass(secs(100));
    assert_eq!(rig.fired(), []);
    rig.cancel(question);
    rig.pass(secs(61));
    let fired: Vec<_> = rig.fired().into_iter().map(|(key, _)| key).collect();
    assert_eq!(fired, [asker, other, late]);
}

/// It ends with what it serves, whose caller's total clock runs; no deadline of its own ends it before (D26).
#[test]
fn what_is_asked_inherits_no_time_that_stands_still() {
    let mut config = ConnectionConfig::new(Side::Server);
    config.dialect = Some(&acp::V1);
    let mut rig = Rig::new(config);
    let parent = hurried(&mut rig, "1");
    rig.ask_with("session/request_permission", "{}", &asking(parent));
    rig.ask_with("fs/read_text_file", "{}", &asking(parent));
    let said = rig.say();
    assert!(!said[0].contains("deadlineMs"), "{}", said[0]);
    assert!(said[1].contains(r#""dev.rescind/deadlineMs":60000"#), "{}", said[1]);
    rig.hear(&[&acp_cancel("1")]);
    assert_eq!(rig.settled().len(), 2, "both end with it");
}

/// Z calls A, which calls B on another connection, whose people are asked all the way back.
#[test]
fn a_chain_of_endpoints_waits_for_the_person_at_its_beginning() {
    let mut toward_z = server(&mcp::LATEST_LEGACY);
    let mut toward_b = client(&mcp::LATEST_LEGACY);
    let parent = hurried(&mut toward_z, "1");
    let left = toward_z.conn.remaining(toward_z.now, parent).unwrap();
    let upstream_dialect = CallOptions { deadline: Some(toward_b.now + left), ..CallOptions::default() };
    toward_b.ask_with("work", "", &upstream_dialect);
    toward_b.say();
    toward_b.serve("9", "elicitation/create");
    toward_z.ask_with("elicitation/create", "", &asking(parent));
    toward_z.say();
    toward_z.pass(secs(3000));
    // Its total clock would end it after half an hour.
    toward_b.pass(secs(1799));
    assert_eq!((toward_z.fired(), toward_b.settled()), (vec![], vec![]));
}

/// D48, MCP-M03: misuse that says what to do instead, and nothing on the wire.
#[test]
fn in_a_revision_without_server_requests_none_is_sent() {
    let mut rig = server(&mcp::LATEST);
    let parent = hurried(&mut rig, "1");
    for method in ["elicitation/create", "sampling/createMessage", "roots/list", "ping"] {
        let refused = rig.conn.request(rig.now, method, b"", &asking(parent));
        assert_eq!(refused, Err(Misuse::NoServerRequests), "{method}");
    }
    assert!(Misuse::NoServerRequests.to_string().contains("a result that asks for input"));
    assert_eq!(rig.say(), [""; 0]);
    assert!(client(&mcp::LATEST).conn.request(rig.now, "ping", b"", &CallOptions::default()).is_ok());
}
