//! A storm finds the bugs that need no unlawful peer.

use rescind_proto::bug::{self, SeededBug};

use crate::endpoint_storm::{DIALECTS, RUNS, storm};

#[test]
fn a_storm_finds_the_bugs_that_need_no_unlawful_peer() {
    for bug in [
        SeededBug::CancelBeforeRequest,
        SeededBug::DoubleAnswer,
        SeededBug::LeakedTombstone,
        SeededBug::AnsweredSilentDialect,
    ] {
        let is_found = || DIALECTS.iter().any(|dialect| (0..RUNS).any(|seed| !storm(dialect, seed)));
        assert!(bug::with(bug, is_found), "{bug:?}");
    }
}
