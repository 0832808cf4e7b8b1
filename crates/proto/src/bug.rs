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
    /// Bytes that were written are kept as long as writes end inside a frame (invariant 8).
    KeptWritten,
    /// Frames that were withdrawn are kept until those before them have left (invariant 8).
    KeptWithdrawn,
    /// Each member of a batch that is no message is answered by itself, however many there are (D36, invariant 8).
    AnswerToEachMember,
    /// An answer with a byte that is not UTF-8 is dropped, and its requester waits for ever (D43).
    UnreadableAnswerLost,
}

impl SeededBug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::CancelBeforeRequest,
        Self::DoubleAnswer,
        Self::LeakedTombstone,
        Self::CrossDirectionLookup,
        Self::AnsweredSilentDialect,
        Self::ReuseGetsOldAnswer,
        Self::KeptWritten,
        Self::KeptWithdrawn,
        Self::AnswerToEachMember,
        Self::UnreadableAnswerLost,
    ];
}

/// The deliberate bug of a machine, if it has one; without the feature, no room and no question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seeded {
    #[cfg(feature = "seeded-bugs")]
    bug: Option<SeededBug>,
}

impl Seeded {
    #[cfg(feature = "seeded-bugs")]
    pub(crate) const fn new(bug: Option<SeededBug>) -> Self {
        Self { bug }
    }

    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn has(self, bug: SeededBug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "seeded-bugs"))]
    #[expect(clippy::unused_self, reason = "the same question as with the feature")]
    pub(crate) const fn has(self, _bug: SeededBug) -> bool {
        false
    }
}
