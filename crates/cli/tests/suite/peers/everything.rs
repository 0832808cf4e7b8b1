//! server-everything, whose long operation ignores cancels: the recording shows what the client no longer hears.

use super::parts::{Client, Server, missing};
use super::play::{Scenario, skip};
use super::story::Story;
use crate::getting_started;

/// Steps of the operation, and those after which the client cancels it.
const STEPS: u64 = 10;
const HEARD: usize = 3;

#[test]
fn server_everything_works_on_and_the_client_sees_nothing_more_of_it() {
    for client in [Client::McpTypeScript, Client::McpPython] {
        let Some(story) = Scenario::new("everything", client, Server::Everything).play() else {
            continue;
        };
        assert_eq!(story.outcomes("A").len(), 1, "{story:?}");
        assert_eq!(story.outcomes("C"), ["result Echo: still here"]);
        assert_eq!(story.missed(), Vec::<&str>::new(), "{story:?}");
        works_on_to_its_end_unheard(&story);
    }
}

/// The sessions of `docs/getting-started.md`, whose server this is.
#[test]
fn getting_started_is_what_happens_with_it() {
    match missing(Client::McpTypeScript, Server::Everything) {
        Some(part) => skip(part),
        None => getting_started::play(&Server::Everything.command().join(" ")),
    }
}

fn works_on_to_its_end_unheard(story: &Story) {
    let recording = story.recording();
    let [token] = &recording.cancelled("from_client")[..] else { panic!("one cancel: {story:?}") };
    assert_eq!(recording.progress("from_server", token), Vec::from_iter(1..=STEPS), "{story:?}");
    // Progress may cross the cancel on the wire: what had come before the cancel is passed on, and no more.
    let before = recording.before_cancel().progress("from_server", token);
    assert_eq!(recording.progress("to_client", token), before, "{story:?}");
    let crossed = before.len() - HEARD;
    assert!(story.callbacks().len() + story.late_progress("A") <= crossed, "{story:?}");
    assert_eq!(recording.outcomes(), ["asked", "sent"], "{story:?}");
}
