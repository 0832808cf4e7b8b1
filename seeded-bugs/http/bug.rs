//! Deliberate bugs, one of which a thread can seed in all HTTP servers and clients that run on it.

use std::cell::Cell;

/// A deliberate bug: one deviation at the place where the real rule lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// A hang-up cancels in revisions where it detaches (MCP-H01).
    HangUpCancels,
    /// A hang-up does not cancel in the revision where it does (MCP-H03).
    HangUpIgnored,
    /// A cancel reaches the program of another session that has a request of this id.
    CancelForAnotherSession,
    /// A cancel reaches a request of this id of another session on the same link.
    CancelForAnotherSharer,
    /// An answer travels on the newest stream of its link.
    AnswerOnAnothersStream,
    /// Whoever comes back gets the last event once more.
    ResumeRepeats,
    /// Whoever comes back misses one event.
    ResumeSkips,
    /// The stream of a cancelled request never ends (D41).
    CancelledStreamStays,
    /// A message in a session is passed on under the credentials of the message before it.
    AnothersName,
    /// People without a session share one link.
    AnothersLink,
    /// What is said while nobody reads counts for no bound of all streams.
    AwayUncounted,
    /// A client keeps no connections for cancels: while calls have all that they may, a cancel waits behind them.
    CancelBehindCalls,
    /// What a program that several clients share may take for a message about another's work is passed to it (D42).
    LookAlikePasses,
    /// Bodies that are being read count for no bound of all of them.
    BodyUncounted,
    /// A batch has as many members as its client likes.
    BatchUnbounded,
    /// An error that is no answer of JSON-RPC reaches the local client as it is (D43).
    RefusalForAnswer,
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
pub(crate) fn has(bug: SeededBug) -> bool {
    SEEDED.get() == Some(bug)
}
