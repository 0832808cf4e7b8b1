//! Deliberate bugs, to prove that whatever checks the engine finds them.
//!
//! Each is one deviation at the place where the real rule lives. Without the
//! feature `seeded-bugs` the question "is it there?" is a constant `false`.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeededBug {
    /// A cancel goes out for a request that was not sent (invariants 1 and 2).
    CancelBeforeRequest,
    /// A request that was answered is answered again when its handler ends (invariant 4).
    DoubleAnswer,
    /// A settled id is never forgotten (invariant 6).
    LeakedTombstone,
    /// A cancel from the peer finds one of our own requests (invariant 5).
    CrossDirectionLookup,
    /// A cancelled request is answered although its dialect demands silence (invariant 4).
    AnsweredSilentDialect,
    /// The answer of a cancelled request reaches the request that took over its id (D8).
    ReuseGetsOldAnswer,
}

impl SeededBug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::CancelBeforeRequest,
        Self::DoubleAnswer,
        Self::LeakedTombstone,
        Self::CrossDirectionLookup,
        Self::AnsweredSilentDialect,
        Self::ReuseGetsOldAnswer,
    ];
}
