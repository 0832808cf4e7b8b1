//! What every run through the shim has to show.

use super::story::Story;

const SIGKILL: i32 = 9;

/// Call A settled once, as `how` begins; nothing of it was heard later; call B, made afterwards, was answered.
pub(crate) fn settled_once_and_the_session_goes_on(story: &Story, how: &str) {
    let outcomes = story.outcomes("A");
    assert_eq!(outcomes.len(), 1, "{story:?}");
    assert!(outcomes[0].starts_with(how), "{how}: {outcomes:?}");
    assert_eq!(story.outcomes("B"), ["result echo"], "{story:?}");
    nothing_is_stray_or_missed(story);
}

/// The SDK complained about nothing, and everything that was waited for came.
pub(crate) fn nothing_is_stray_or_missed(story: &Story) {
    assert_eq!(story.callbacks(), Vec::<&str>::new(), "{story:?}");
    assert_eq!(story.missed(), Vec::<&str>::new(), "{story:?}");
}

/// Each of the calls failed once, and the error of B, which nobody had cancelled, says what killed the server.
pub(crate) fn both_failed_once_and_b_says_why(story: &Story) {
    for call in ["A", "B"] {
        assert_eq!(story.outcomes(call).len(), 1, "{call}: {story:?}");
    }
    let error = story.error("B").unwrap();
    assert_eq!(error["data"]["signal"], SIGKILL, "{error}");
    nothing_is_stray_or_missed(story);
}
