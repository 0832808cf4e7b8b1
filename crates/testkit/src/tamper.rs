//! Tampering with a machine, to prove that its own checks and its hash would notice.
//!
//! A check that can no longer fail, and a field that has dropped out of a hash, fail no other test: the explorer and
//! the walks only see less. So each has a row here: words, and what to break.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::digest::Digest;

/// What to break or to change, and in which words that is noticed or missed.
pub type Row<M> = (&'static str, fn(&mut M));

/// Asserts that `check` accepts `sound`, that each row's machine is refused in the row's words, and that each check in
/// `source` has a row: its message starts with "invariant" and holds the words of one.
///
/// # Panics
///
/// If any of that is not so.
pub fn every_check_can_fail<M: Clone>(sound: &M, check: impl Fn(&M), source: &str, rows: &[Row<M>]) {
    check(sound);
    let messages: Vec<_> = source.split("\"invariant ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut wrong: Vec<_> = messages
        .iter()
        .filter(|message| !rows.iter().any(|(words, _)| message.contains(words)))
        .map(|message| format!("no row breaks {message:?}"))
        .collect();
    for (words, breaks) in rows {
        if messages.iter().filter(|message| message.contains(words)).count() != 1 {
            wrong.push(format!("{words:?} does not name one check"));
        }
        let mut broken = sound.clone();
        breaks(&mut broken);
        let noticed = catch_unwind(AssertUnwindSafe(|| check(&broken))).err().map(text_of);
        if !noticed.as_deref().is_some_and(|text| text.contains("invariant ") && text.contains(words)) {
            wrong.push(format!("{words:?} was noticed as {noticed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn text_of(panic: Box<dyn core::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast_ref::<&str>().unwrap_or(&"a panic without words")).to_owned(),
    }
}

/// Asserts that each row's change shows in the hash of `start`.
///
/// A row changes one thing: a second that is hashed would hide that the first is not.
///
/// # Panics
///
/// If one does not show.
pub fn every_change_shows<M: Clone>(start: &M, hash: impl Fn(&M, &mut Digest), rows: &[Row<M>]) {
    let digest = |machine: &M| {
        let mut digest = Digest::new();
        hash(machine, &mut digest);
        digest.finish_wide()
    };
    let before = digest(start);
    let is_missed = |change: fn(&mut M)| {
        let mut changed = start.clone();
        change(&mut changed);
        digest(&changed) == before
    };
    let missed: Vec<_> = rows.iter().filter(|(_, change)| is_missed(*change)).map(|(what, _)| what).collect();
    assert!(missed.is_empty(), "not hashed: {missed:?}");
}

#[cfg(test)]
mod tests {
    use core::hash::Hash;

    use super::*;

    #[derive(Clone)]
    struct Pair(u8, u16);

    const ROWS: [Row<Pair>; 2] = [("left", |pair| pair.0 = 9), ("right", |pair| pair.1 = 9)];

    fn is_refused(run: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(run)).is_err()
    }

    #[test]
    fn a_field_that_is_not_hashed_is_found() {
        every_change_shows(&Pair(1, 2), |pair, digest| (pair.0, pair.1).hash(digest), &ROWS);
        assert!(is_refused(|| every_change_shows(&Pair(1, 2), |pair, digest| pair.0.hash(digest), &ROWS)));
    }

    #[test]
    fn a_check_that_cannot_fail_and_one_without_a_row_are_found() {
        let source = r#"assert!(l, "invariant 1: left"); assert!(r, "invariant 2: right");"#;
        let both = |pair: &Pair| {
            assert!(pair.0 == 1, "invariant 1: left");
            assert!(pair.1 == 2, "invariant 2: right");
        };
        let left = |pair: &Pair| assert!(pair.0 == 1, "invariant 1: left");
        every_check_can_fail(&Pair(1, 2), both, source, &ROWS);
        assert!(is_refused(|| every_check_can_fail(&Pair(1, 2), left, source, &ROWS)), "the right is not checked");
        assert!(is_refused(|| every_check_can_fail(&Pair(1, 2), both, source, &ROWS[..1])), "no row breaks the right");
        assert!(is_refused(|| every_check_can_fail(&Pair(1, 3), both, source, &ROWS)), "it is broken already");
    }
}
