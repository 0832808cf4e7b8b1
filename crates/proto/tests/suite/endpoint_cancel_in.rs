//! The peer cancels one of its requests: what stops, what is said, what is remembered.

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{Connection, ConnectionConfig, ConnectionEvent, HandlerEnd, Reply},
    dialect::{Dialect, acp, lsp, mcp},
    link::{Rejected, Verdict},
    receipt::Ending,
    rule::Rule,
    side::Side,
    time::Instant,
};

use crate::endpoint_rig::*;

const SILENT: [&Dialect; 5] = [
    &mcp::REVISION_2024_11_05,
    &mcp::REVISION_2025_03_26,
    &mcp::REVISION_2025_06_18,
    &mcp::REVISION_2025_11_25,
    &mcp::REVISION_2026_07_28,
];

const ANSWERED: [&Dialect; 3] = [&acp::V1, &acp::V2_DRAFT, &lsp::LSP];

const CANCELLED: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;

// Case 1.
#[test]
fn a_cancelled_handler_is_stopped_and_a_silent_dialect_hears_nothing() {
    for dialect in SILENT {
        for end in [HandlerEnd::Cancelled, HandlerEnd::GaveUp, HandlerEnd::Dropped, HandlerEnd::Panicked] {
            let mut rig = server(dialect);
            let key = rig.serve("1", "tools/call");
            rig.hear(&[&mcp_cancel("1")]);
            assert_eq!(rig.fired(), [(key, CauseCode::Caller)], "{dialect}");
            assert_eq!(rig.verdicts(), [Verdict::Accepted]);
            rig.pass(millis(20));
            rig.end(key, end);
            let after = millis(20);
            let ending = if end == HandlerEnd::Dropped { Ending::Dropped { after } } else { Ending::Stopped { after } };
            assert_eq!(rig.endings(), [ending]);
            assert_eq!(rig.say(), [""; 0]);
            rig.leaves_nothing();
        }
    }
}

// Case 1.
#[test]
fn a_cancelled_request_is_answered_once_where_the_dialect_says_so() {
    for dialect in ANSWERED {
        for end in [HandlerEnd::Cancelled, HandlerEnd::GaveUp, HandlerEnd::Dropped] {
            let mut rig = server(dialect);
            let key = rig.serve("1", "work");
            rig.hear(&[&cancel_in(dialect, "1")]);
            assert_eq!(rig.fired(), [(key, CauseCode::Caller)], "{dialect}");
            assert_eq!(rig.say(), [""; 0], "the handler answers, not the cancel");
            rig.end(key, end);
            assert_eq!(rig.say(), [CANCELLED]);
            rig.leaves_nothing();
        }
    }
}

// Cases 2 and 3.
#[test]
fn what_a_handler_returns_after_the_cancel_is_withheld_by_a_silent_dialect() {
    let error = Reply::Error { code: -1, message: "failed", data: None };
    for dialect in SILENT {
        for reply in [Reply::Result(b"{}"), error] {
            let mut rig = server(dialect);
            let key = rig.serve("1", "tools/call");
            rig.hear(&[&mcp_cancel("1")]);
            rig.end(key, HandlerEnd::Returned(reply));
            assert_eq!(rig.say(), [""; 0], "{dialect}");
            assert_eq!(rig.endings(), [Ending::RanOn]);
            rig.leaves_nothing();
        }
    }
}

#[test]
fn what_a_handler_returns_after_the_cancel_is_the_answer_elsewhere() {
    for dialect in ANSWERED {
        let mut rig = server(dialect);
        let key = rig.serve("1", "work");
        rig.hear(&[&cancel_in(dialect, "1")]);
        rig.end(key, HandlerEnd::Returned(Reply::Result(br#"{"partial":true}"#)));
        assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"result":{"partial":true}}"#]);
        rig.leaves_nothing();
    }
}

// Case 4, D24.
#[test]
fn a_handler_that_cancels_itself_is_answered_in_every_dialect() {
    for (dialect, code) in [
        (&mcp::REVISION_2025_11_25, -32603),
        (&mcp::REVISION_2026_07_28, -32603),
        (&acp::V1, -32800),
        (&acp::RFD_2025_11_13, -32800),
        (&lsp::LSP, -32803),
    ] {
        for end in [HandlerEnd::Cancelled, HandlerEnd::GaveUp, HandlerEnd::Dropped, HandlerEnd::Answered] {
            let mut rig = server(dialect);
            let key = rig.serve("1", "work");
            rig.end(key, end);
            let said = rig.say();
            assert_eq!(said.len(), 1, "{dialect} {end:?}");
            assert!(said[0].contains(&format!(r#""id":1,"error":{{"code":{code},"#)), "{}", said[0]);
            assert_eq!(rig.endings(), []);
            rig.leaves_nothing();
        }
    }
}

// Case 21.
#[test]
fn a_panicking_handler_is_answered() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.end(key, HandlerEnd::Panicked);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the handler failed"}}"#]);
    rig.leaves_nothing();
}

// Case 5.
#[test]
fn a_cancel_of_an_unknown_id_is_reported_and_nothing_else() {
    let mut rig = server(&acp::V2_DRAFT);
    let running = rig.serve("1", "work");
    rig.hear(&[&acp_cancel("9")]);
    assert_eq!(rig.verdicts(), [Verdict::Unknown]);
    assert_eq!((rig.say(), rig.fired()), (vec![], vec![]));
    rig.end(running, OK);
    assert_eq!(rig.say(), [result("1")]);
    rig.leaves_nothing();
}

// Cases 6 and 8.
#[test]
fn a_cancel_of_a_completed_request_is_seen_and_changes_nothing() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        let [key, running] = ["1", "2"].map(|id| rig.serve(id, "work"));
        rig.end(key, OK);
        assert_eq!(rig.say(), [result("1")]);
        rig.hear(&[&cancel_in(dialect, "1")]);
        assert_eq!(rig.verdicts(), [Verdict::Completed]);
        assert_eq!((rig.say(), rig.fired()), (vec![], vec![]));
        rig.end(running, OK);
        assert_eq!(rig.say(), [result("2")]);
        rig.leaves_nothing();
    }
}

// Case 7, D29.
#[test]
fn malformed_cancels_are_counted_and_never_answered() {
    let bad = [
        r#"{}"#,
        r#"{"requestId":null}"#,
        r#"{"requestId":true}"#,
        r#"{"requestId":1.5}"#,
        r#"{"requestId":1.0}"#,
        r#"{"requestId":[1]}"#,
        r#"{"requestId":{"id":1}}"#,
        r#"{"requestId":1,"requestId":2}"#,
        r#"[1]"#,
        r#"null"#,
    ];
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "work");
    for params in bad {
        rig.hear(&[&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#)]);
        assert_eq!(rig.verdicts(), [Verdict::Malformed], "{params}");
    }
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#]);
    assert_eq!(rig.conn.counters().malformed_cancels, bad.len() as u64 + 1);
    assert_eq!(rig.fired(), []);
    rig.end(key, OK);
    assert_eq!(rig.say(), [result("1")]);
    rig.leaves_nothing();
}

// Case 7, D6: only ACP v1 has requests whose id is null.
#[test]
fn null_is_an_id_in_acp_v1_only() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &acp::V2_DRAFT, &lsp::LSP] {
        let takes_null = dialect.name == acp::V1.name;
        let mut rig = server(dialect);
        let running = rig.serve("1", "work");
        rig.hear(&[&cancel_in(dialect, "null")]);
        assert_eq!(rig.verdicts() == [Verdict::Malformed], !takes_null, "{dialect}");
        rig.hear(&[&call("null", "work")]);
        assert_eq!(rig.say().iter().any(|line| line.contains("-32600")), !takes_null, "{dialect}");
        assert_eq!(rig.fired(), [], "{dialect}");
        rig.end(running, OK);
        assert_eq!(rig.say().last(), Some(&result("1")), "{dialect}");
    }
}

// Case 7.
#[test]
fn a_reason_that_is_no_string_is_dropped_and_the_cancel_stands() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "work");
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":5}}"#]);
    assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
    assert_eq!(rig.conn.counters().dropped_reasons, 1);
}

// Cases 8 and 36, D20.
#[test]
fn the_reason_reaches_the_observer_and_the_handler() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "tools/call");
    rig.hear(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#]);
    let notices = rig.notices();
    assert_eq!(notices[0].reason.as_deref(), Some("enough"));
    assert_eq!(notices[0].method.as_deref(), Some("tools/call"));
    assert_eq!(notices[0].in_flight, 1);
    let causes = rig.take(|event| {
        if let ConnectionEvent::Cancelled { request: key, cause } = event { Some((*key, cause.clone())) } else { None }
    });
    assert_eq!(causes, [(key, Cause::new(CauseCode::Caller).with_text("enough"))]);
}

// Case 9.
#[test]
fn ids_that_look_alike_are_different_requests() {
    let ids = ["0", r#""""#, "5", r#""5""#, "9007199254740992", "9007199254740993", "18446744073709551616", r#""é""#];
    for cancelled in ids {
        let mut rig = server(&mcp::LATEST_LEGACY);
        let keys: Vec<_> = ids.iter().map(|id| rig.serve(id, "work")).collect();
        rig.hear(&[&mcp_cancel(cancelled)]);
        let place = ids.iter().position(|id| *id == cancelled).unwrap();
        assert_eq!(rig.fired(), [(keys[place], CauseCode::Caller)], "{cancelled}");
        for key in keys {
            rig.end(key, OK);
        }
        let expected: Vec<_> = ids.iter().filter(|id| **id != cancelled).map(|id| result(id)).collect();
        assert_eq!(rig.say(), expected);
    }
}

// Case 76.
#[test]
fn an_escaped_id_is_the_same_id_and_is_echoed_as_it_came() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve(r#""\u00e9""#, "work");
    rig.hear(&[&mcp_cancel(r#""é""#)]);
    assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
    let key = rig.serve(r#""\u0041""#, "work");
    rig.end(key, OK);
    assert_eq!(rig.say(), [result(r#""\u0041""#)]);
}

// Case 10, D7.
#[test]
fn a_duplicate_id_is_refused_and_the_first_request_stays_cancellable() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        let first = rig.serve("1", "work");
        rig.hear(&[&call("1", "work")]);
        assert_eq!(rig.start(), []);
        assert_eq!(rig.refusals(), [Rejected::DuplicateId]);
        assert!(rig.say()[0].contains(r#""id":1,"error":{"code":-32600,"#));
        rig.hear(&[&cancel_in(dialect, "1")]);
        assert_eq!(rig.fired(), [(first, CauseCode::Caller)], "{dialect}");
    }
}

// Case 59.
#[test]
fn who_watches_an_answer_is_told_once_whether_it_left() {
    let told = |rig: &mut Rig| {
        rig.take(|event| {
            if let ConnectionEvent::Delivered { request: key, answered } = event {
                Some((*key, *answered))
            } else {
                None
            }
        })
    };
    let mut rig = server(&mcp::LATEST);
    let unwatched = rig.serve("0", "work");
    rig.end(unwatched, OK);
    rig.say();
    assert_eq!(told(&mut rig), []);

    let written = rig.serve("1", "work");
    assert!(rig.conn.watch_answer(written));
    rig.end(written, OK);
    assert_eq!(told(&mut rig), [], "not a byte of it has left");
    rig.say();
    assert_eq!(told(&mut rig), [(written, true)]);
    assert!(!rig.conn.watch_answer(written), "it is over");

    let withheld = rig.serve("2", "work");
    assert!(rig.conn.watch_answer(withheld));
    rig.hear(&[&mcp_cancel("2")]);
    rig.end(withheld, OK);
    assert_eq!(told(&mut rig), [(withheld, false)]);

    let taken_back = rig.serve("3", "work");
    assert!(rig.conn.watch_answer(taken_back));
    rig.end(taken_back, OK);
    rig.hear(&[&mcp_cancel("3")]);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(told(&mut rig), [(taken_back, false)]);

    let (queued, running) = (rig.serve("4", "work"), rig.serve("5", "work"));
    assert!(rig.conn.watch_answer(queued) && rig.conn.watch_answer(running));
    rig.end(queued, OK);
    rig.conn.handle_write_closed(rig.now);
    assert_eq!(told(&mut rig), [(queued, false)], "the link is dead");
    rig.end(running, OK);
    assert_eq!(told(&mut rig), [(running, false)]);
}

#[test]
fn an_answer_is_not_watched_once_it_has_left_or_its_handler_has_ended() {
    let mut rig = server(&mcp::LATEST);
    let answered = rig.serve("1", "work");
    assert!(rig.conn.respond(rig.now, answered, Reply::Result(b"{}")));
    rig.say();
    assert!(!rig.conn.watch_answer(answered), "it has left");
    let ended = rig.serve("2", "work");
    rig.end(ended, OK);
    assert!(!rig.conn.watch_answer(ended), "its handler has ended");
}

// D13, D48: the answer was to say how to go on with the handler.
#[test]
fn a_suspended_handler_whose_answer_is_taken_back_is_stopped() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    assert!(rig.conn.suspend(rig.now, key, Reply::Result(b"{}")));
    rig.hear(&[&mcp_cancel("1"), &mcp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated]);
    assert_eq!(rig.fired(), [(key, CauseCode::Caller)]);
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [""; 0]);
    assert_eq!(rig.endings(), [Ending::Stopped { after: secs(0) }]);

    let shielded = rig.serve("2", "work");
    assert!(rig.conn.shield(shielded));
    assert!(rig.conn.suspend(rig.now, shielded, Reply::Result(b"{}")));
    rig.hear(&[&mcp_cancel("2")]);
    assert_eq!((rig.verdicts(), rig.fired()), (vec![Verdict::Shielded], vec![]));
    rig.end(shielded, OK);
    assert_eq!(rig.say(), [""; 0]);

    let begun = rig.serve("3", "work");
    assert!(rig.conn.suspend(rig.now, begun, Reply::Result(b"{}")));
    rig.write(1);
    rig.hear(&[&mcp_cancel("3")]);
    assert_eq!((rig.verdicts(), rig.fired()), (vec![Verdict::Completed], vec![]), "the peer will read it");
    rig.end(begun, OK);
    rig.say();
    rig.log.clear();
    rig.leaves_nothing();
}

// D22, D48.
#[test]
fn a_handler_that_is_to_stop_or_whose_peer_cannot_come_back_is_not_suspended() {
    let mut rig = server(&mcp::LATEST);
    let (stopped, shielded) = (rig.serve("1", "work"), rig.serve("2", "work"));
    rig.conn.stop(rig.now, stopped, Cause::new(CauseCode::Operator));
    assert!(!rig.conn.suspend(rig.now, stopped, Reply::Result(b"{}")));
    assert!(rig.conn.shield(shielded));
    rig.conn.handle_eof(rig.now);
    assert!(!rig.conn.suspend(rig.now, shielded, Reply::Result(b"{}")));
    assert_eq!(rig.say(), [""; 0]);
    rig.end(stopped, HandlerEnd::Cancelled);
    rig.end(shielded, OK);
    assert_eq!(rig.say().len(), 2, "both are answered, as what was not asked is");
    assert!(rig.is_closed());
}

// Case 59.
#[test]
fn an_answer_that_a_filter_kept_back_has_not_left() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    assert!(rig.conn.watch_answer(key));
    rig.end(key, OK);
    let (_, detached) = rig.conn.detach_frame().unwrap();
    rig.conn.handle_detached(rig.now, detached, false);
    let told =
        rig.take(|event| if let ConnectionEvent::Delivered { answered, .. } = event { Some(*answered) } else { None });
    assert_eq!(told, [false]);
}

// Case 11.
#[test]
fn an_id_is_served_again_after_its_answer() {
    for (dialect, broken) in [(&mcp::LATEST_LEGACY, Some(Rule::McpI02)), (&mcp::LATEST, None), (&lsp::LSP, None)] {
        let mut rig = server(dialect);
        let first = rig.serve("1", "work");
        rig.end(first, OK);
        rig.say();
        let second = rig.serve("1", "work");
        assert_ne!(first, second);
        assert_eq!(rig.violations(), broken.into_iter().collect::<Vec<_>>(), "{dialect}");
        rig.end(second, OK);
        assert_eq!(rig.say(), [result("1")]);
        rig.leaves_nothing();
    }
}

// Case 11, D8.
#[test]
fn the_answer_of_a_cancelled_request_never_reaches_the_next_of_its_id() {
    for (dialect, rule) in [(&mcp::LATEST_LEGACY, Rule::McpI02), (&mcp::LATEST, Rule::McpI03)] {
        let mut rig = server(dialect);
        let old = rig.serve("1", "work");
        rig.hear(&[&mcp_cancel("1")]);
        assert_eq!(rig.fired(), [(old, CauseCode::Caller)]);
        let new = rig.serve("1", "work");
        assert_eq!(rig.violations(), [rule]);
        rig.end(old, HandlerEnd::Returned(Reply::Result(br#"{"old":true}"#)));
        assert_eq!(rig.say(), [""; 0], "{dialect}");
        rig.hear(&[&mcp_cancel("1")]);
        assert_eq!(rig.fired(), [(new, CauseCode::Caller)], "a cancel finds the new one");
        rig.end(new, OK);
        assert_eq!(rig.say(), [""; 0]);
        rig.leaves_nothing();
    }
}

#[test]
fn the_new_request_of_a_reused_id_is_answered_whoever_ends_first() {
    for old_first in [true, false] {
        let mut rig = server(&mcp::LATEST);
        let old = rig.serve("1", "work");
        rig.hear(&[&mcp_cancel("1")]);
        let new = rig.serve("1", "work");
        let ends = if old_first { [old, new] } else { [new, old] };
        for key in ends {
            rig.end(key, OK);
        }
        assert_eq!(rig.say(), [result("1")]);
        rig.hear(&[&mcp_cancel("1")]);
        assert_eq!(rig.verdicts().last(), Some(&Verdict::Completed));
        rig.leaves_nothing();
    }
}

// Case 11: an answered dialect keeps the id until the answer.
#[test]
fn reuse_before_the_answer_is_a_duplicate_where_there_will_be_one() {
    let mut rig = server(&lsp::LSP);
    let old = rig.serve("1", "work");
    rig.hear(&[&lsp_cancel("1"), &call("1", "work")]);
    assert_eq!(rig.refusals(), [Rejected::DuplicateId]);
    rig.say();
    rig.end(old, HandlerEnd::Cancelled);
    rig.say();
    rig.serve("1", "work");
}

// Case 12.
#[test]
fn a_cancel_in_the_same_read_as_its_request_is_not_lost() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &acp::V2_DRAFT, &lsp::LSP] {
        let mut rig = server(dialect);
        rig.hear(&[&call("1", "work"), &cancel_in(dialect, "1")]);
        assert_eq!(rig.start(), [], "{dialect}: it never starts");
        assert_eq!(rig.endings(), [Ending::NeverStarted]);
        let expected = if dialect.is_silent() { vec![] } else { vec![CANCELLED.to_owned()] };
        assert_eq!(rig.say(), expected);
        rig.leaves_nothing();
    }
}

// Case 16.
#[test]
fn initialize_is_answered_whatever_cancels_it() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &acp::RFD_2025_11_13, &lsp::LSP] {
        let mut rig = server(dialect);
        let key = rig.serve("0", "initialize");
        rig.hear(&[&cancel_in(dialect, "0")]);
        assert_eq!(rig.fired(), []);
        let rule = dialect.uncancellable("initialize").unwrap();
        assert_eq!(rig.verdicts(), [Verdict::Forbidden(rule)], "{dialect}");
        assert_eq!(rig.violations(), [rule]);
        rig.end(key, OK);
        assert_eq!(rig.say(), [result("0")]);
        rig.leaves_nothing();
    }
}

// Case 16: a cancel that overtook it neither.
#[test]
fn a_held_cancel_never_stops_initialize() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    rig.hear(&[&mcp_cancel("0"), &call("0", "initialize")]);
    assert_eq!(rig.start().len(), 1);
    assert_eq!(rig.violations(), [Rule::McpC03]);
}

// Cases 17 and 18.
#[test]
fn one_of_two_is_cancelled_and_the_server_goes_on() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let (one, two) = (rig.serve("1", "work"), rig.serve("2", "work"));
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.fired(), [(one, CauseCode::Caller)]);
    rig.end(two, OK);
    rig.end(one, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [result("2")]);
    let three = rig.serve("3", "work");
    rig.end(three, OK);
    assert_eq!(rig.say(), [result("3")]);
    rig.leaves_nothing();
}

// Case 19.
#[test]
fn a_cancel_that_lands_on_the_answer_tears_and_doubles_nothing() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP] {
        let whole = result("1").len() + 1;
        for begun in 0..=whole {
            let mut rig = server(dialect);
            let key = rig.serve("1", "work");
            rig.end(key, OK);
            let mut text = rig.write(begun);
            rig.hear(&[&cancel_in(dialect, "1")]);
            text.push_str(&rig.say().join("\n"));
            let expected = if begun == 0 && dialect.is_silent() { String::new() } else { result("1") };
            assert_eq!(text.trim_end(), expected, "{dialect} after {begun} bytes");
            assert_eq!(rig.verdicts(), [Verdict::Completed]);
            assert_eq!(rig.fired(), []);
            rig.leaves_nothing();
        }
    }
}

#[test]
fn a_second_cancel_changes_nothing() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1] {
        let mut rig = server(dialect);
        let key = rig.serve("1", "work");
        rig.hear(&[&cancel_in(dialect, "1"), &cancel_in(dialect, "1")]);
        assert_eq!(rig.fired().len(), 1);
        assert_eq!(rig.verdicts(), [Verdict::Accepted, Verdict::Repeated]);
        rig.end(key, HandlerEnd::Cancelled);
        assert_eq!(rig.say().len(), usize::from(!dialect.is_silent()));
        rig.leaves_nothing();
    }
}

// Case 22, D9.
#[test]
fn a_cancel_that_overtook_its_request_stops_it_before_it_starts() {
    for dialect in [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        rig.hear(&[&cancel_in(dialect, "1")]);
        assert_eq!(rig.verdicts(), [Verdict::Held]);
        rig.pass(millis(249));
        rig.hear(&[&call("1", "work")]);
        assert_eq!(rig.start(), [], "{dialect}");
        assert_eq!(rig.endings(), [Ending::NeverStarted]);
        assert_eq!(rig.say().len(), usize::from(!dialect.is_silent()));
        rig.leaves_nothing();
    }
}

// Case 22.
#[test]
fn a_held_cancel_is_given_up_and_the_request_then_runs() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    rig.hear(&[&mcp_cancel("1")]);
    rig.pass(millis(250));
    assert_eq!(rig.verdicts(), [Verdict::Held, Verdict::Unknown]);
    rig.serve("1", "work");
}

// Case 22.
#[test]
fn a_late_cancel_does_not_stick_to_the_next_request_of_its_id() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "work");
    rig.end(key, OK);
    rig.say();
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Completed]);
    rig.serve("1", "work");
}

// D9: where receivers MUST ignore unknown ids nothing is held.
#[test]
fn nothing_is_held_where_unknown_ids_must_be_ignored() {
    let mut rig = server(&acp::V2_DRAFT);
    rig.hear(&[&acp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Unknown]);
    rig.serve("1", "work");
}

#[test]
fn held_cancels_are_bounded() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    for id in 0..1000 {
        rig.hear(&[&mcp_cancel(&id.to_string())]);
    }
    let verdicts = rig.verdicts();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Held).count(), 64);
    assert_eq!(rig.conn.remembered(), 64);
    rig.leaves_nothing();
}

// D30, MCP-M01.
#[test]
fn a_server_of_the_newest_revision_may_not_cancel() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("tools/call");
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpM01)]);
    assert_eq!(rig.settled(), []);
    rig.hear(&[&result("1")]);
    assert_eq!(rig.settled().len(), 1);
    let _ = key;
}

// D5, MCP-C01.
#[test]
fn a_cancel_from_the_peer_never_finds_a_request_of_ours() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        for role in Side::BOTH {
            let mut rig = Rig::new(config(role, dialect));
            rig.call("work");
            rig.hear(&[&cancel_in(dialect, "1")]);
            assert_eq!(rig.settled(), [], "{dialect}");
            assert_eq!(rig.verdicts(), [Verdict::Held]);
            rig.hear(&[&result("1")]);
            assert_eq!(rig.settled().len(), 1);
        }
    }
}

// Case 16: a widely used server never answers this.
#[test]
fn initialize_and_its_cancel_in_one_read() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let mut rig = server(dialect);
        rig.hear(&[&call("0", "initialize"), &cancel_in(dialect, "0")]);
        let key = rig.start().remove(0).key;
        rig.end(key, OK);
        assert_eq!(rig.say(), [result("0")], "{dialect}");
    }
}

// MCP-M02.
#[test]
fn a_subscription_that_the_server_ends_is_answered_and_cancelled() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.serve("1", "subscriptions/listen");
    rig.end(key, OK);
    assert_eq!(rig.say(), [result("1"), mcp_cancel("1")]);
    let key = rig.serve("2", "subscriptions/listen");
    rig.hear(&[&mcp_cancel("2")]);
    rig.end(key, OK);
    assert_eq!(rig.say(), [""; 0], "unless the client ended it");
    let key = rig.serve("3", "subscriptions/listen");
    rig.end(key, OK);
    rig.hear(&[&mcp_cancel("3")]);
    assert_eq!(rig.say(), [""; 0], "what was not begun is taken back");
    rig.leaves_nothing();
}

#[test]
fn a_cancel_that_nobody_hears_of_stops_its_handler_all_the_same() {
    let mut conn = Connection::new(ConnectionConfig {
        dialect: Some(&acp::V1),
        reports_cancels: false,
        ..ConnectionConfig::new(Side::Server)
    });
    let now = Instant::ORIGIN;
    conn.handle_input(now, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n");
    let Some(ConnectionEvent::Request(request)) = conn.poll_event() else { panic!("no request") };
    conn.handle_input(now, b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":1}}\n");
    let told: Vec<_> = core::iter::from_fn(|| conn.poll_event()).collect();
    assert_eq!(told, [ConnectionEvent::Cancelled { request: request.key, cause: Cause::new(CauseCode::Caller) }]);
    conn.ended(now, request.key, HandlerEnd::Cancelled);
    assert_eq!(conn.poll_event(), None);
    assert_eq!(conn.pending(), format!("{CANCELLED}\n").as_bytes());
}

// D23: it belongs to no session, as a turn or a permission request does.
#[test]
fn a_cancelled_question_is_answered_with_the_result_that_its_method_has_for_that() {
    let mut rig = client(&acp::V1);
    let key = rig.serve("7", "elicitation/create");
    rig.hear(&[&acp_cancel("7")]);
    rig.end(key, HandlerEnd::Cancelled);
    assert_eq!(rig.say(), [r#"{"jsonrpc":"2.0","id":7,"result":{"action":"cancel"}}"#]);
    rig.leaves_nothing();
}
