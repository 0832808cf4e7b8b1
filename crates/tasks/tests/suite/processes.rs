//! Several real processes on one file: a cancel reaches the one that works; `kill -9` loses nothing.
//!
//! The children are this program itself, told by its environment what to be.

mod cancel;
mod child;
mod kill;

/// No test: what a child does. Without a parent, nothing.
#[test]
fn as_a_child() {
    child::be();
}
