//! Deliberate bugs in an endpoint are found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rescind_proto::{
    bug::SeededBug,
    connection::HandlerEnd,
    dialect::{acp, mcp},
    side::Side,
};

use crate::endpoint_rig::*;

/// A short life in which each bug has its chance.
fn live(bug: Option<SeededBug>, cancelled_early: bool) {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1] {
        for role in Side::BOTH {
            let mut config = config(role, dialect);
            config.bug = bug;
            let mut rig = Rig::new(config);
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
    live(None, true);
    live(None, false);
}

#[test]
fn every_bug_is_found_by_the_invariant_that_it_breaks() {
    for bug in SeededBug::ALL {
        let invariant = match bug {
            SeededBug::CancelBeforeRequest => 1,
            SeededBug::DoubleAnswer | SeededBug::AnsweredSilentDialect | SeededBug::ReuseGetsOldAnswer => 4,
            SeededBug::CrossDirectionLookup => 5,
            SeededBug::LeakedTombstone => 6,
            // They show in floods and in what the peer is told: see floods.rs and explore_seeded.rs.
            SeededBug::KeptWritten
            | SeededBug::KeptWithdrawn
            | SeededBug::AnswerToEachMember
            | SeededBug::UnreadableAnswerLost => continue,
        };
        let panic = catch_unwind(AssertUnwindSafe(|| {
            live(Some(bug), true);
            live(Some(bug), false);
        }));
        let panic = panic.expect_err("the bug was not found");
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let wanted = format!("invariant {invariant}");
        assert!(text.is_some_and(|text| text.contains(&wanted)), "{bug:?}: {text:?}");
    }
}
