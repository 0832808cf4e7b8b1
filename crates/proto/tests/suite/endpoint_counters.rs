//! What an endpoint counts, each number beside the messages that it counts.

use rescind_proto::{
    connection::Connection,
    dialect::{acp, lsp, mcp},
    link::Verdict,
    rule::Rule,
    side::Side,
};

use crate::endpoint_rig::*;

fn sent_and_received(conn: &Connection) -> (u64, u64) {
    (conn.counters().sent, conn.counters().received)
}

fn broken(conn: &Connection) -> Vec<(Rule, u64)> {
    conn.counters().violations.iter().map(|(rule, count)| (*rule, *count)).collect()
}

#[test]
fn a_message_counts_as_sent_once_its_last_byte_has_left() {
    let mut rig = client(&mcp::LATEST);
    rig.ask("first", "");
    rig.ask("second", "");
    let (len, both) =
        (rig.conn.pending().iter().position(|byte| *byte == b'\n').unwrap() + 1, rig.conn.pending().len());
    rig.write(len - 1);
    assert_eq!(rig.conn.counters().sent, 0);
    rig.write(1);
    assert_eq!(rig.conn.counters().sent, 1);
    rig.write(both - len);
    assert_eq!(rig.conn.counters().sent, 2);
}

#[test]
fn what_was_withdrawn_or_vetoed_does_not_count_as_sent() {
    let mut rig = client(&mcp::LATEST);
    let withdrawn = rig.ask("withdrawn", "");
    rig.cancel(withdrawn);
    rig.say();
    assert_eq!((rig.conn.counters().sent, rig.conn.counters().cancels_sent), (0, 0));
    for passes in [false, true] {
        rig.ask("filtered", "");
        let (_, detached) = rig.conn.detach_frame().expect("a request waits");
        rig.conn.handle_detached(rig.now, detached, passes);
        assert_eq!(rig.conn.counters().sent, u64::from(passes));
    }
}

#[test]
fn a_cancel_counts_as_a_message_and_as_a_cancel_only_once_it_has_left() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        assert_eq!((rig.conn.counters().sent, rig.conn.counters().cancels_sent), (1, 0), "{dialect}");
        rig.say();
        assert_eq!((rig.conn.counters().sent, rig.conn.counters().cancels_sent), (2, 1), "{dialect}");
        rig.cancel(key);
        rig.say();
        assert_eq!(rig.conn.counters().cancels_sent, 1, "{dialect}: never twice");
    }
}

#[test]
fn everything_that_arrived_counts_whatever_it_was() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "work");
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "garbage", &result("99"), &call("1", "work")]);
    assert_eq!(rig.conn.counters().received, 5);
    assert_eq!(rig.conn.counters().refused, 3);
    rig.conn.handle_vetoed(rig.now, &call("2", "work").into_bytes());
    rig.conn.handle_garbage(rig.now, b"Content-Length: x\r\n");
    assert_eq!(rig.conn.counters().received, 7);
    rig.end(key, OK);
    rig.say();
}

#[test]
fn a_message_too_long_is_received_once() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.max_message = 100;
    let mut rig = Rig::new(config);
    rig.hear(&[&call("1", &"x".repeat(200))]);
    assert_eq!((rig.conn.counters().received, rig.conn.counters().refused), (1, 1));
}

#[test]
fn a_batch_is_one_message_in_and_one_out() {
    let mut rig = server(&mcp::REVISION_2025_03_26);
    rig.hear(&[&format!("[{},{}]", call("1", "work"), call("2", "work"))]);
    for request in rig.start() {
        rig.end(request.key, OK);
    }
    assert_eq!(rig.say().len(), 1);
    assert_eq!(sent_and_received(&rig.conn), (1, 1));
}

// Case 7, D29.
#[test]
fn cancels_are_counted_by_what_they_named() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "work");
    rig.hear(&[&mcp_cancel("1"), &mcp_cancel("1"), &mcp_cancel("true"), &mcp_cancel("7")]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated, Verdict::Malformed, Verdict::Held]);
    let counters = rig.conn.counters();
    assert_eq!((counters.cancels_received, counters.malformed_cancels, counters.unknown_cancels), (4, 1, 0));
    rig.pass(secs(1));
    assert_eq!(rig.conn.counters().unknown_cancels, 1, "its request never came");
    assert_eq!(rig.conn.counters().cancels_received, 4, "and it was one cancel all the same");
    rig.end(key, OK);
    rig.leaves_nothing();
}

#[test]
fn cancels_are_counted_where_nobody_hears_of_them_one_by_one() {
    let mut config = config(Side::Server, &acp::V2_DRAFT);
    config.reports_cancels = false;
    let mut rig = Rig::new(config);
    rig.hear(&[&acp_cancel("7"), &acp_cancel("true")]);
    assert_eq!(rig.verdicts(), []);
    let counters = rig.conn.counters();
    assert_eq!((counters.cancels_received, counters.malformed_cancels, counters.unknown_cancels), (2, 1, 1));
}

// ACP-10: `session/close` is a request, and no cancel of nothing.
#[test]
fn a_turns_cancel_counts_and_the_end_of_an_idle_session_does_not() {
    let mut rig = server(&acp::V1);
    let stop = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"a"}}"#;
    rig.hear(&[stop]);
    assert_eq!(rig.verdicts(), [Verdict::Unknown]);
    rig.conn.stop_turn(rig.now, br#""a""#);
    assert_eq!(rig.verdicts(), []);
    let counters = rig.conn.counters();
    assert_eq!((counters.cancels_received, counters.unknown_cancels), (1, 1));
}

// D30.
#[test]
fn violations_are_counted_by_the_number_of_their_rule() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let initialize = rig.serve("0", "initialize");
    rig.hear(&[&mcp_cancel("0"), &mcp_cancel("0")]);
    for _ in 0..3 {
        let key = rig.serve("1", "work");
        rig.end(key, OK);
        rig.say();
    }
    assert_eq!(broken(&rig.conn), [(Rule::McpC03, 2), (Rule::McpI02, 2)]);
    assert_eq!(rig.violations(), [Rule::McpC03, Rule::McpC03, Rule::McpI02, Rule::McpI02], "each was an event, too");
    assert_eq!(rig.conn.counters().violations.get(&Rule::McpM01), None, "nothing is kept of rules that were kept");
    rig.end(initialize, OK);
    rig.say();
}

#[test]
fn a_held_cancel_breaks_the_rule_when_its_request_comes() {
    let mut rig = server(&lsp::LSP);
    rig.hear(&[&lsp_cancel("0")]);
    assert_eq!(broken(&rig.conn), []);
    rig.serve("0", "initialize");
    assert_eq!(broken(&rig.conn), [(Rule::Lsp06, 1)]);
}

#[test]
fn a_server_that_asks_or_cancels_where_it_may_not_is_counted() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("work");
    rig.hear(&[&call("1", "sampling/createMessage"), &mcp_cancel("1")]);
    assert_eq!(broken(&rig.conn), [(Rule::McpM01, 1), (Rule::McpM03, 1)]);
    rig.hear(&[&result("1")]);
    assert_eq!(rig.settled().len(), 1, "and its answers count all the same: {key:?}");
}
