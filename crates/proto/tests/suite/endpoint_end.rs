//! The end of input, of the link, of the process, and of patience (D13, D22, D27, case 20).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, ConnectionConfig, ConnectionEvent, HandlerEnd, Limit, Misuse, Reply, Settlement},
    dialect::{Dialect, Disconnect, acp, lsp, mcp},
    link::{Rejected, Verdict},
    receipt::{Ending, Outcome},
    side::Side,
};

use crate::endpoint_rig::*;

const HTTP_LIKE: Dialect = Dialect { name: "test-detaching", disconnect: Disconnect::Detaches, ..mcp::LATEST_LEGACY };

// D27.
#[test]
fn the_end_of_input_cancels_what_was_received_and_settles_what_was_asked() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        let key = rig.serve("1", "work");
        let ours = rig.call("ask");
        rig.conn.handle_eof(rig.now);
        assert_eq!(rig.fired(), [(key, CauseCode::Disconnect)], "{dialect}");
        assert_eq!(rig.settled(), [(ours, Settlement::Closed)]);
        assert!(!rig.is_closed(), "the handler unwinds");
        rig.pass(secs(1));
        assert_eq!(rig.dropped(), [key], "the short grace");
        rig.end(key, HandlerEnd::Dropped);
        assert_eq!(rig.endings(), [Ending::Dropped { after: secs(1) }]);
        assert_eq!(rig.say().len(), 1, "not the peer's cancel: it is answered (D25)");
        assert!(rig.is_closed());
        rig.leaves_nothing();
    }
}

#[test]
fn the_end_of_input_starts_nothing_that_waited() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.max_running = 1;
    let mut rig = Rig::new(config);
    let key = rig.serve("1", "work");
    rig.hear(&[&call("2", "work")]);
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.endings(), [Ending::NeverStarted]);
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.start(), []);
}

// D27: `printf … | server`.
#[test]
fn drain_on_eof_lets_requests_finish_first() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.max_running = 1;
    config.drain_on_eof = Some(secs(10));
    let mut rig = Rig::new(config);
    rig.hear(&[&call("1", "work")]);
    rig.conn.handle_input(rig.now, call("2", "work").as_bytes());
    rig.conn.handle_eof(rig.now);
    for id in ["1", "2"] {
        let started = rig.start();
        assert_eq!(started.len(), 1, "the last line needs no line break");
        rig.end(started[0].key, OK);
        assert_eq!(rig.say(), [result(id)]);
    }
    assert!(rig.is_closed());
    rig.leaves_nothing();
}

#[test]
fn drain_on_eof_ends_with_its_time() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.drain_on_eof = Some(secs(10));
    let mut rig = Rig::new(config);
    let key = rig.serve("1", "work");
    rig.conn.handle_eof(rig.now);
    rig.pass(millis(9999));
    assert_eq!(rig.fired(), []);
    rig.pass(millis(1));
    assert_eq!(rig.fired(), [(key, CauseCode::Disconnect)]);
}

// Case 45, MCP-H01.
#[test]
fn where_a_disconnect_detaches_the_work_runs_on() {
    let mut rig = server(&HTTP_LIKE);
    let key = rig.serve("1", "work");
    rig.conn.handle_eof(rig.now);
    rig.pass(secs(100));
    assert_eq!(rig.fired(), []);
    rig.end(key, OK);
    assert_eq!(rig.say(), [result("1")]);
    assert!(rig.is_closed());
}

#[test]
fn a_dead_link_is_written_nothing_and_leaves_nothing() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1] {
        let mut rig = server(dialect);
        let (one, two) = (rig.serve("1", "work"), rig.serve("2", "work"));
        let (asked, queued) = (rig.call("a"), rig.ask("b", ""));
        rig.end(one, OK);
        rig.conn.handle_write_closed(rig.now);
        assert_eq!(rig.conn.pending(), b"");
        let settled: Vec<_> = rig.settled();
        assert_eq!(settled, [(asked, Settlement::Closed), (queued, Settlement::Closed)]);
        assert_eq!(rig.fired(), [(two, CauseCode::Disconnect)]);
        assert!(!rig.conn.respond(rig.now, one, Reply::Result(b"{}")));
        assert!(!rig.conn.notify_for(rig.now, two, "progress", b"{}"));
        rig.end(two, HandlerEnd::Cancelled);
        assert_eq!(rig.conn.pending(), b"");
        assert!(rig.is_closed());
        assert_eq!(rig.conn.notify(rig.now, "x", b""), Err(Misuse::Closed));
        rig.leaves_nothing();
    }
}

// D28.
#[test]
fn a_receipt_that_the_end_cuts_short_is_unknown() {
    for (dialect, written, outcome) in [
        (&mcp::LATEST, false, Outcome::Unknown),
        (&mcp::LATEST, true, Outcome::Sent),
        (&acp::V1, false, Outcome::Unknown),
        (&acp::V1, true, Outcome::Unknown),
    ] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        if written {
            rig.say();
        }
        rig.conn.handle_eof(rig.now);
        assert_eq!(rig.outcome(key), Some(outcome), "{dialect} {written}");
        assert_eq!(rig.say(), [""; 0]);
        rig.leaves_nothing();
    }
}

// Case 20.
#[test]
fn shutdown_settles_everything_within_the_short_grace() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        let (obeys, stubborn) = (rig.serve("1", "work"), rig.serve("2", "work"));
        let ours = rig.call("ask");
        rig.conn.shutdown(rig.now);
        assert_eq!(rig.fired(), [(obeys, CauseCode::Shutdown), (stubborn, CauseCode::Shutdown)]);
        assert_eq!(rig.settled(), [(ours, Settlement::Cancelled(Cause::new(CauseCode::Shutdown)))]);
        assert_eq!(rig.say().len(), 1, "our cancel");
        rig.end(obeys, HandlerEnd::Cancelled);
        rig.pass(secs(1));
        assert_eq!(rig.dropped(), [stubborn]);
        rig.end(stubborn, HandlerEnd::Dropped);
        assert!(!rig.is_closed(), "answers wait to be written");
        assert_eq!(rig.say().len(), 2);
        assert!(rig.is_closed(), "{dialect}");
        rig.leaves_nothing();
    }
}

#[test]
fn after_shutdown_nothing_new_is_taken_in_or_made() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.conn.shutdown(rig.now);
    rig.hear(&[&call("2", "work")]);
    assert_eq!(rig.refusals(), [Rejected::ShuttingDown]);
    assert_eq!(rig.say().len(), 1);
    assert_eq!(rig.conn.request(rig.now, "x", b"", &CallOptions::default()), Err(Misuse::Closed));
    rig.end(key, HandlerEnd::Cancelled);
}

// D22.
#[test]
fn the_ladder_drops_a_handler_at_the_end_of_its_grace() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.hear(&[&mcp_cancel("1")]);
    rig.pass(millis(4999));
    assert_eq!(rig.dropped(), []);
    rig.pass(millis(1));
    assert_eq!(rig.dropped(), [key]);
    rig.pass(secs(60));
    assert_eq!(rig.dropped(), [], "once");
    rig.end(key, HandlerEnd::Dropped);
    assert_eq!(rig.endings(), [Ending::Dropped { after: secs(65) }]);
}

// D22.
#[test]
fn each_route_can_set_its_grace_or_stop_at_the_token() {
    let mut rig = server(&mcp::LATEST);
    let (short, endless) = (rig.serve("1", "work"), rig.serve("2", "work"));
    rig.conn.set_grace(short, Limit::After(millis(10)));
    rig.conn.set_grace(endless, Limit::Never);
    rig.hear(&[&mcp_cancel("1"), &mcp_cancel("2")]);
    assert_eq!(rig.fired().len(), 2);
    rig.pass(millis(10));
    assert_eq!(rig.dropped(), [short]);
    rig.pass(secs(10_000));
    assert_eq!(rig.dropped(), []);
}

#[test]
fn a_shutdown_shortens_a_grace_that_runs() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.hear(&[&mcp_cancel("1")]);
    rig.pass(secs(1));
    rig.conn.shutdown(rig.now);
    rig.pass(secs(1));
    assert_eq!(rig.dropped(), [key]);
    rig.end(key, HandlerEnd::Dropped);
    assert_eq!(rig.say(), [""; 0], "the peer had cancelled it");
}

// D22, MCP-C07.
#[test]
fn a_shielded_handler_runs_to_its_end_and_is_answered() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        let key = rig.serve("1", "work");
        assert!(rig.conn.shield(key));
        rig.hear(&[&cancel_in(dialect, "1"), &cancel_in(dialect, "1")]);
        assert_eq!(rig.verdicts(), [Verdict::Shielded, Verdict::Repeated]);
        assert_eq!(rig.fired(), []);
        rig.pass(secs(100));
        assert_eq!(rig.dropped(), []);
        assert!(rig.conn.notify_for(rig.now, key, "progress", b"{}"));
        rig.end(key, OK);
        assert_eq!(rig.say().last(), Some(&result("1")), "{dialect}");
        assert_eq!(rig.endings(), [Ending::Refused]);
        rig.leaves_nothing();
    }
}

// D22, MCP-H04.
#[test]
fn a_shielded_handler_of_the_newest_revision_is_not_stopped_but_silenced() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.conn.shield(key);
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.fired(), []);
    assert!(!rig.conn.notify_for(rig.now, key, "progress", b"{}"));
    rig.end(key, OK);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.endings(), [Ending::Refused]);
    rig.leaves_nothing();
}

#[test]
fn a_shield_that_comes_too_late_protects_nothing_and_one_that_ends_no_more() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let (late, ended) = (rig.serve("1", "work"), rig.serve("2", "work"));
    rig.hear(&[&mcp_cancel("1")]);
    assert!(!rig.conn.shield(late));
    rig.conn.shield(ended);
    rig.hear(&[&mcp_cancel("2")]);
    rig.conn.unshield(ended);
    assert_eq!(rig.fired(), [(late, CauseCode::Caller)], "what came meanwhile stays refused");
    rig.hear(&[&mcp_cancel("2")]);
    assert_eq!(rig.fired(), [(ended, CauseCode::Caller)]);
    rig.end(ended, OK);
    assert_eq!(rig.say(), [""; 0]);
}

// D62.
#[test]
fn progress_that_still_waits_is_withdrawn_before_its_answer_and_nothing_else_is() {
    let line = |method: &str, n: u32| format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"n":{n}}}}}"#);
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &lsp::LSP] {
        let mut rig = server(dialect);
        let (one, two) = (rig.serve("1", "work"), rig.serve("2", "work"));
        let form = dialect.progress.unwrap();
        assert!(rig.conn.notify_for(rig.now, one, form.method, br#"{"n":1}"#));
        assert!(rig.conn.notify_for(rig.now, one, "note", br#"{"n":2}"#));
        assert!(rig.conn.notify_for(rig.now, one, form.method, br#"{"n":3}"#));
        assert!(rig.conn.notify_for(rig.now, two, form.method, br#"{"n":4}"#));
        rig.end(one, OK);
        let mut expected = vec![line("note", 2), line(form.method, 4), result("1")];
        if !form.active_only {
            expected.insert(0, line(form.method, 1));
            expected.insert(2, line(form.method, 3));
        }
        assert_eq!(rig.say(), expected, "{dialect}");
        rig.end(two, OK);
        assert_eq!(rig.say(), [result("2")]);
        rig.leaves_nothing();
    }
}

// MCP-P03, MCP-H04.
#[test]
fn progress_stops_with_the_cancel_and_what_waits_is_taken_back() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST] {
        let mut rig = server(dialect);
        let key = rig.serve("1", "work");
        let line = r#"{"jsonrpc":"2.0","method":"progress","params":{"n":1}}"#;
        for _ in 0..3 {
            assert!(rig.conn.notify_for(rig.now, key, "progress", br#"{"n":1}"#));
        }
        let begun = rig.write(line.len() + 3);
        rig.hear(&[&mcp_cancel("1")]);
        assert!(!rig.conn.notify_for(rig.now, key, "progress", b"{}"));
        let text = begun + &rig.say().join("\n");
        assert_eq!(text, format!("{line}\n{line}"), "{dialect}: the frame begun is finished, the third withdrawn");
        rig.end(key, HandlerEnd::Cancelled);
        rig.leaves_nothing();
    }
}

fn reluctant() -> Rig {
    let mut config: ConnectionConfig = config(Side::Server, &mcp::LATEST_LEGACY);
    config.max_backlog = 1000;
    config.stall_limit = secs(30);
    config.max_running = 10_000;
    Rig::new(config)
}

// Case 74, D13.
#[test]
fn a_peer_that_floods_and_never_reads_is_paused_and_given_up() {
    let mut rig = reluctant();
    let mut id = 0;
    while rig.conn.wants_input() {
        id += 1;
        let key = rig.serve(&id.to_string(), "work");
        rig.end(key, OK);
    }
    assert!(rig.conn.backlog() > 1000 && rig.conn.backlog() < 1100);
    rig.pass(secs(20));
    rig.write(10);
    rig.pass(secs(29));
    assert_eq!(rig.take(|event| matches!(event, ConnectionEvent::GivenUp { .. }).then_some(())), []);
    rig.pass(secs(1));
    assert_eq!(rig.take(|event| matches!(event, ConnectionEvent::GivenUp { .. }).then_some(())), [()]);
    rig.say();
    assert!(rig.conn.wants_input());
    rig.leaves_nothing();
}

// Case 74, invariant 7: two ends that both ask much would else wait for each other for ever.
#[test]
fn what_we_ask_of_a_peer_never_pauses_its_answers() {
    let mut rig = reluctant();
    for _ in 0..100 {
        rig.ask("work", r#"{"much":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#);
    }
    assert!(rig.conn.unsent() > 1000);
    assert!(rig.conn.wants_input());
}

#[test]
fn busy_handlers_never_pause_the_peer() {
    let mut config = config(Side::Server, &mcp::LATEST);
    config.max_running = 1;
    config.max_queued = 1;
    let mut rig = Rig::new(config);
    rig.serve("1", "work");
    rig.hear(&[&call("2", "work"), &call("3", "work"), &mcp_cancel("1")]);
    assert!(rig.conn.wants_input());
    assert_eq!(rig.fired().len(), 1);
}
