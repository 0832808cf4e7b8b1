//! Deliberate bugs, one of which a thread can seed in all machines that run on it.

use std::cell::Cell;

/// A deliberate bug: one deviation at the place where the real rule lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Of what stands on one line only the first is read, and the requester of the next waits for ever (D43).
    GluedAnswerLost,
    /// Progress that still waits is written together with the answer of its request (D62).
    ProgressWithAnswer,
    /// A turn that a clock ended is heard of until its agent ends it, too (D34).
    TurnHeardAfterTimeout,
    /// A card waits on after the client has stopped its turn, and a late "Allow" reaches the agent (D37).
    CardOutlivesStop,
    /// A limit lets one more pass than it allows (D65).
    OneBeyondTheLimit,
    /// A request that was cancelled and never answered is shown no more once its id is used again (D52).
    ReleasedForgotten,
    /// A child is cancelled that does not allow it (ACP-33, D54).
    ChildCancelledWithoutGrant,
    /// A child counts as stopped once its cancel has left, and works on (ACP-36, D54).
    ChildStoppedUnheard,
    /// Work that its session reports counts as stopped once its cancel has left, and goes on (ACP-52, D55).
    WorkStoppedUnheard,
    /// An item of background work is cancelled that does not grant it (ACP-55, D55).
    ItemCancelledWithoutGrant,
    /// A prompt leaves while the cancelled turn before it is not answered (D60).
    NextTurnTooSoon,
    /// A prompt that waits for the turn before it is forgotten when that is answered (D60).
    NextTurnForgotten,
    /// A turn counts as stopped once its interrupt is answered, and works on (CDX-07, D58).
    InterruptTakenForEnd,
    /// The cancel of a request is lost when its answer is the handle of a task (D38, D56).
    TaskCancelLost,
    /// A server that is started again gets what waited for its predecessor.
    LinesToSuccessor,
}

thread_local! {
    static SEEDED: Cell<Option<SeededBug>> = const { Cell::new(None) };
}

/// Runs `test` with this bug in every machine of this thread.
pub fn with<R>(bug: SeededBug, test: impl FnOnce() -> R) -> R {
    struct Weed;
    impl Drop for Weed {
        fn drop(&mut self) {
            SEEDED.set(None);
        }
    }
    SEEDED.set(Some(bug));
    let _weed = Weed;
    test()
}

/// Whether this bug is in force.
pub fn has(bug: SeededBug) -> bool {
    SEEDED.get() == Some(bug)
}
