//! Each bug in an endpoint is found by the invariant that it breaks.
//!
//! Debug builds check the invariants after every input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rescind_proto::{
    bug::{self, SeededBug},
    connection::HandlerEnd,
    dialect::{acp, mcp},
    side::Side,
};

use crate::endpoint_rig::*;

/// A short life in which each bug has its chance.
fn live(cancelled_early: bool) {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1] {
        for role in Side::BOTH {
            let mut rig = Rig::new(config(role, dialect));
            let ours = rig.ask("ask", "");
            if cancelled_early {
                rig.cancel(ours);
            }
            rig.say();
            let key = rig.serve("7", "work");
            rig.hear(&[&cancel_in(dialect, "7"), &cancel_in(dialect, "1")]);
            let again = dialect.is_silent().then(|| rig.serve("7", "work"));
            rig.end(key, HandlerEnd::Cancelled);
            rig.hear(&[&cancel_in(dialect, "7")]);
            if let Some(again) = again {
                rig.end(again, OK);
            }
            rig.conn.handle_eof(rig.now);
            rig.leaves_nothing();
        }
    }
}

#[test]
fn without_a_bug_nothing_is_found() {
    live(true);
    live(false);
}

#[test]
fn every_bug_is_found_by_the_invariant_that_it_breaks() {
    for (bug, invariant) in [
        (SeededBug::CancelBeforeRequest, 1),
        (SeededBug::DoubleAnswer, 4),
        (SeededBug::AnsweredSilentDialect, 4),
        (SeededBug::ReuseGetsOldAnswer, 4),
        (SeededBug::CrossDirectionLookup, 5),
        (SeededBug::LeakedTombstone, 6),
    ] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            bug::with(bug, || {
                live(true);
                live(false);
            });
        }));
        let panic = panic.expect_err("the bug was not found");
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let wanted = format!("invariant {invariant}");
        assert!(text.is_some_and(|text| text.contains(&wanted)), "{bug:?}: {text:?}");
    }
}
