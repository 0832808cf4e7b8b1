//! The clocks of our requests, and the deadlines that travel (D16, D17, D19).

use core::time::Duration;

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionConfig, ConnectionEvent, HandlerEnd, Limit, Misuse, Settlement},
    dialect::{Dialect, acp, lsp, mcp},
    link::Clock,
    receipt::Outcome,
    side::Side,
};

use crate::endpoint_rig::*;

fn response(limit: Duration) -> CallOptions {
    CallOptions { response_timeout: Limit::After(limit), ..CallOptions::default() }
}

fn total(limit: Duration) -> CallOptions {
    CallOptions { total_timeout: Limit::After(limit), ..CallOptions::default() }
}

fn timed_out(clock: Clock, after: Duration) -> Settlement {
    Settlement::TimedOut { clock, after }
}

fn progress(token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    )
}

// Case 27.
#[test]
fn a_timeout_sends_one_cancel_and_ends_the_call_with_its_own_error() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP] {
        let mut rig = client(dialect);
        let key = rig.ask_with("work", "", &response(secs(2)));
        rig.say();
        rig.pass(millis(1999));
        assert_eq!(rig.settled(), []);
        rig.pass(millis(1));
        assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(2)))], "{dialect}");
        let said = rig.say();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains(dialect.cancel.method));
        assert_eq!(rig.outcome(key), Some(Outcome::Sent));
        rig.hear(&[&result("1")]);
        assert_eq!(rig.conn.counters().late, 1);
        rig.leaves_nothing();
    }
}

// Cases 16 and 27, MCP-T02 against MCP-C03.
#[test]
fn initialize_times_out_without_a_cancel() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("initialize");
    rig.pass(secs(60));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(60)))]);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

// Case 28, D19.
#[test]
fn a_cancel_that_was_asked_for_first_wins_over_the_clock() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.ask_with("work", "", &response(secs(1)));
    rig.say();
    let cause = Cause::new(CauseCode::Caller);
    rig.conn.cancel_and_wait(rig.now, key, cause.clone(), secs(9));
    rig.pass(secs(1));
    assert_eq!(rig.settled(), [(key, Settlement::Cancelled(cause))]);
    assert_eq!(rig.say().len(), 1);
    rig.leaves_nothing();
}

// Case 29.
#[test]
fn a_request_without_clocks_of_its_own_has_those_of_its_dialect() {
    for (dialect, after) in
        [(&mcp::LATEST_LEGACY, Some(60)), (&mcp::LATEST, Some(60)), (&acp::V1, None), (&lsp::LSP, None)]
    {
        let mut rig = client(dialect);
        rig.call("work");
        rig.pass(secs(10_000));
        let expected = after.map(|after| timed_out(Clock::Response, secs(after)));
        assert_eq!(rig.settled().pop().map(|(_, how)| how), expected, "{dialect}");
    }
}

// Case 29.
#[test]
fn the_connection_may_set_clocks_and_a_request_its_own() {
    let mut config = config(Side::Client, &mcp::LATEST);
    let clocks = rescind_proto::dialect::DefaultClocks {
        response: Some(secs(3)),
        total: None,
        questions: &[],
        unclocked: &["slow"],
    };
    config.clocks = Some(clocks);
    let mut rig = Rig::new(config);
    let plain = rig.call("work");
    let own = rig.ask_with("work", "", &response(secs(2)));
    let none = rig.ask_with("work", "", &CallOptions { response_timeout: Limit::Never, ..CallOptions::default() });
    let slow = rig.call("slow");
    rig.pass(secs(1000));
    let settled: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(settled, [own, plain]);
    let _ = (none, slow);
}

// D16: people take longer.
#[test]
fn requests_that_a_person_answers_have_no_clock() {
    for method in ["elicitation/create", "sampling/createMessage", "tasks/result", "subscriptions/listen"] {
        let mut rig = client(&mcp::LATEST);
        rig.call(method);
        rig.pass(secs(100_000));
        assert_eq!(rig.settled(), [], "{method}");
    }
}

// Case 30, MCP-T04.
#[test]
fn progress_restarts_the_response_clock_only_if_asked() {
    for asked in [true, false] {
        let mut rig = client(&mcp::LATEST_LEGACY);
        let options = CallOptions { reset_on_progress: asked, ..response(secs(2)) };
        let key = rig.ask_with("work", r#"{"_meta":{"progressToken":"mine"}}"#, &options);
        assert!(rig.say()[0].contains(r#""_meta":{"progressToken":"mine"}"#), "the caller's token is kept");
        for _ in 0..5 {
            rig.pass(millis(1500));
            rig.hear(&[&progress(r#""mine""#)]);
        }
        let seen = rig
            .take(|event| if let ConnectionEvent::Progress { request: key, .. } = event { Some(*key) } else { None });
        if asked {
            assert_eq!(rig.settled(), []);
            assert_eq!(seen, [key; 5]);
            rig.pass(secs(2));
        } else {
            assert_eq!(seen, [key], "the first, before the clock ran out");
        }
        assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(2)))]);
        rig.leaves_nothing();
    }
}

// Cases 30 and 31, MCP-T05.
#[test]
fn the_total_clock_is_never_extended() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let options = CallOptions { reset_on_progress: true, ..total(secs(5)) };
    let key = rig.ask_with("work", "", &options);
    rig.say();
    for _ in 0..10 {
        rig.pass(millis(900));
        rig.hear(&[&progress("1")]);
    }
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Total, secs(5)))]);
    assert_eq!(rig.say().len(), 1, "the peer is told");
    assert!(rig.conn.counters().late > 0);
    rig.leaves_nothing();
}

// Case 31.
#[test]
fn the_total_clock_fires_without_any_progress() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let options = CallOptions { response_timeout: Limit::After(secs(9)), ..total(millis(400)) };
    let key = rig.ask_with("work", "", &options);
    rig.say();
    rig.pass(millis(400));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Total, millis(400)))]);
    assert_eq!(rig.say().len(), 1);
}

// MCP-P00.
#[test]
fn asking_for_reset_adds_a_token_that_no_active_request_has() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let options = CallOptions { reset_on_progress: true, ..CallOptions::default() };
    rig.ask("first", r#"{"_meta":{"progressToken":2}}"#);
    rig.ask_with("second", r#"{"a":1}"#, &options);
    rig.ask_with("third", "", &options);
    let said = rig.say();
    assert!(said[1].ends_with(r#""params":{"_meta":{"progressToken":"rescind-2"},"a":1}}"#), "{}", said[1]);
    assert!(said[2].ends_with(r#""params":{"_meta":{"progressToken":3}}}"#));
    let twice = rig.conn.request(rig.now, "fourth", br#"{"_meta":{"progressToken":2}}"#, &options);
    assert_eq!(twice, Err(Misuse::TokenInUse));
    rig.hear(&[&result("1")]);
    rig.ask("fifth", r#"{"_meta":{"progressToken":2}}"#);
}

// Case 32.
#[test]
fn late_progress_is_quiet_and_counted_and_anybody_elses_is_passed_on() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let options = CallOptions { reset_on_progress: true, ..CallOptions::default() };
    let key = rig.ask_with("work", "", &options);
    rig.say();
    rig.cancel(key);
    rig.hear(&[&progress("1"), &progress("99")]);
    assert_eq!(rig.conn.counters().late, 1);
    let passed =
        rig.take(|event| if let ConnectionEvent::Notification(payload) = event { Some(payload.clone()) } else { None });
    assert_eq!(passed.len(), 1);
    assert!(passed[0].params().unwrap().starts_with(br#"{"progressToken":99"#));
}

// D17.
#[test]
fn the_time_that_is_left_travels_where_the_dialect_has_a_place_for_it() {
    let travels = |dialect: &'static Dialect, options: &CallOptions| {
        let mut config = ConnectionConfig::new(Side::Client);
        config.dialect = Some(dialect);
        let mut rig = Rig::new(config);
        rig.ask_with("work", "{}", options);
        rig.say().remove(0)
    };
    let sent = |left: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"work","params":{{"_meta":{{"dev.rescind/deadlineMs":{left}}}}}}}"#
        )
    };
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{}}"#;
    assert_eq!(travels(&mcp::LATEST, &response(millis(1500))), sent(1500));
    assert_eq!(travels(&acp::V1, &total(secs(4))), sent(4000));
    assert_eq!(travels(&acp::V1, &CallOptions::default()), bare, "no clock");
    assert_eq!(travels(&lsp::LSP, &response(secs(1))), bare, "no _meta");
    let reset = CallOptions { reset_on_progress: true, ..response(secs(1)) };
    let text = travels(&mcp::LATEST, &CallOptions { total_timeout: Limit::After(secs(7)), ..reset });
    assert!(text.contains(r#""dev.rescind/deadlineMs":7000"#), "what progress may extend is no deadline: {text}");
}

// D17.
#[test]
fn the_time_that_travels_is_rounded_up() {
    let mut config = ConnectionConfig::new(Side::Client);
    config.dialect = Some(&mcp::LATEST);
    let mut rig = Rig::new(config);
    for (limit, left) in [(Duration::from_nanos(1), 1), (Duration::from_micros(2001), 3), (millis(2), 2)] {
        rig.ask_with("work", "", &response(limit));
        assert!(rig.say()[0].ends_with(&format!(r#""dev.rescind/deadlineMs":{left}}}}}}}"#)), "{limit:?}");
    }
}

/// Two endpoints without any distance between them, the receiver's timers always first: however the caller's limit
/// lies between two milliseconds, its own clock is the one that it is told of.
// D17.
#[test]
fn a_callers_own_timeout_is_always_what_the_caller_is_told() {
    for micros in (1..100_000).step_by(997) {
        let limit = Duration::from_micros(micros);
        let mut caller = ConnectionConfig::new(Side::Client);
        caller.dialect = Some(&mcp::LATEST);
        let (mut caller, mut receiver) = (Rig::new(caller), server(&mcp::LATEST));
        let key = caller.ask_with("work", "", &response(limit));
        pass_on(&mut caller, &mut receiver);
        let serving = receiver.start().remove(0).key;
        // Even if the caller looks at its clock late.
        receiver.pass(limit + millis(900));
        for (stopped, _) in receiver.fired() {
            receiver.end(stopped, HandlerEnd::Cancelled);
        }
        pass_on(&mut receiver, &mut caller);
        caller.pass(limit);
        assert_eq!(caller.settled(), [(key, timed_out(Clock::Response, limit))]);
        pass_on(&mut caller, &mut receiver);
        assert_eq!(receiver.fired(), [(serving, CauseCode::Caller)], "by the cancel, and not by a clock");
    }
}

fn pass_on(from: &mut Rig, to: &mut Rig) {
    let said = from.say();
    if !said.is_empty() {
        to.hear(&said.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

// D17, case 42.
#[test]
fn a_receivers_clock_fires_a_second_after_the_deadline_and_passes_none_of_that_second_on() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1] {
        let mut config = ConnectionConfig::new(Side::Server);
        config.dialect = Some(dialect);
        let mut rig = Rig::new(config);
        rig.hear(&[r#"{"jsonrpc":"2.0","id":7,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":1000}}}"#]);
        let parent = rig.start().remove(0);
        assert_eq!(parent.deadline, Some(rig.now + secs(1)));
        rig.pass(millis(200));
        let child = |limit| CallOptions { parent: Some(parent.key), ..response(limit) };
        let short = rig.ask_with("a", "", &child(millis(500)));
        let long = rig.ask_with("b", "", &child(secs(9)));
        assert!(rig.say()[1].contains(r#""dev.rescind/deadlineMs":800"#), "what is left of the deadline itself");
        assert_eq!(rig.conn.remaining(rig.now, parent.key), Some(millis(800)));
        rig.pass(millis(500));
        assert_eq!(rig.settled(), [(short, timed_out(Clock::Response, millis(500)))]);
        rig.pass(millis(1299));
        assert_eq!((rig.fired(), rig.settled()), (vec![], vec![]));
        assert_eq!(rig.conn.remaining(rig.now, parent.key), Some(Duration::ZERO), "and yet it goes on");
        rig.pass(millis(1));
        assert_eq!(rig.fired(), [(parent.key, CauseCode::Timeout)], "{dialect}");
        assert_eq!(rig.settled(), [(long, Settlement::Cancelled(Cause::parent(CauseCode::Timeout)))]);
        rig.say();
        rig.end(parent.key, HandlerEnd::Cancelled);
        assert_eq!(rig.say().len(), 1, "only the peer's own cancel silences an answer (D25)");
    }
}

// Case 42.
#[test]
fn a_childs_deadline_is_the_lesser_of_its_own_and_its_parents() {
    let mut config = ConnectionConfig::new(Side::Server);
    config.dialect = Some(&acp::V1);
    let mut rig = Rig::new(config);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":7,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":1000}}}"#]);
    let parent = rig.start().remove(0).key;
    rig.pass(millis(400));
    let with = |limit| CallOptions { parent: Some(parent), ..response(limit) };
    rig.ask_with("a", "", &with(millis(100)));
    rig.ask_with("b", "", &with(secs(5)));
    let elsewhere = CallOptions { deadline: Some(rig.now + millis(50)), ..CallOptions::default() };
    rig.ask_with("c", "", &elsewhere);
    let left: Vec<_> = rig.say().iter().map(|text| text.split(':').next_back().unwrap().to_owned()).collect();
    assert_eq!(left, ["100}}}", "600}}}", "50}}}"]);
}

#[test]
fn nonsense_for_a_deadline_is_no_deadline() {
    for left in ["-1", "1.5", r#""5""#, "null", "99999999999999999999", "1e3"] {
        let mut rig = server(&mcp::LATEST);
        rig.hear(&[&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"work","params":{{"_meta":{{"dev.rescind/deadlineMs":{left}}}}}}}"#
        )]);
        assert_eq!(rig.start().remove(0).deadline, None, "{left}");
    }
}

// D25: the requester's clock and its cancel, in either order.
#[test]
fn a_cancel_that_follows_the_deadline_silences_the_answer() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":10}}}"#]);
    let key = rig.start().remove(0).key;
    rig.pass(millis(1010));
    assert_eq!(rig.fired(), [(key, CauseCode::Timeout)]);
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.fired(), [], "it fires once");
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

// Case 27, D16.
#[test]
fn the_clocks_of_a_call_run_since_it_was_made() {
    let mut rig = client(&mcp::LATEST);
    let made = rig.now;
    rig.pass(secs(2));
    let late = CallOptions { since: Some(made), ..response(secs(3)) };
    let key = rig.ask_with("work", "", &late);
    rig.say();
    rig.pass(secs(1));
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Response, secs(3)))]);
    let too_late = CallOptions { since: Some(made), ..total(secs(3)) };
    rig.say();
    let key = rig.ask_with("work", "", &too_late);
    assert_eq!(rig.settled(), [(key, timed_out(Clock::Total, secs(3)))]);
    assert_eq!(rig.outcome(key), Some(Outcome::NeverSent));
    assert_eq!(rig.say(), Vec::<String>::new());
    rig.leaves_nothing();
}

// MCP-C14.
#[test]
fn a_limit_of_our_own_stops_a_handler_and_shortens_only() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.conn.limit(rig.now, key, secs(2));
    rig.conn.limit(rig.now, key, secs(3));
    rig.check();
    rig.pass(millis(1999));
    assert_eq!(rig.fired(), []);
    rig.pass(millis(1));
    assert_eq!(rig.fired(), [(key, CauseCode::Timeout)]);
    rig.conn.limit(rig.now, key, secs(1));
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say().len(), 1, "nobody asked for silence");
    rig.leaves_nothing();
}

// MCP-C14, D17.
#[test]
fn a_limit_of_our_own_is_a_judge_and_fires_to_the_moment_beside_a_deadline() {
    let mut rig = server(&mcp::LATEST);
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":1500}}}"#]);
    let key = rig.start().remove(0).key;
    rig.conn.limit(rig.now, key, secs(2));
    assert_eq!(rig.conn.remaining(rig.now, key), Some(millis(1500)));
    rig.pass(millis(1999));
    assert_eq!(rig.fired(), []);
    rig.pass(millis(1));
    assert_eq!(rig.fired(), [(key, CauseCode::Timeout)]);
}
