//! MCP: TypeScript 1.x (handshake era) and Python 2.x (2026-07-28, and legacy by flag).

use super::expect::{both_failed_once_and_b_says_why, settled_once_and_the_session_goes_on};
use super::parts::{Client, Server};
use super::play::Scenario;
use super::story::Story;

const PAIRS: [(Client, Server); 2] =
    [(Client::McpTypeScript, Server::McpTypeScript), (Client::McpPython, Server::McpPython)];

#[test]
fn a_cancel_one_second_into_thirty_stops_the_work_and_the_session_goes_on() {
    let legacy = (Client::McpPythonLegacy, Server::McpPython);
    for (client, server) in [&PAIRS[..], &[legacy]].concat() {
        let Some(story) = Scenario::new("cancel-in-flight", client, server).play() else {
            continue;
        };
        assert_eq!(story.events("A"), ["started", "stopped"]);
        if matches!(client, Client::McpTypeScript) {
            assert_eq!(story.reason("A"), Some("user pressed Stop"));
        }
        // All that a wire can show of a silent server; the work's own mark shows the rest.
        assert_eq!(story.recording().outcomes(), ["asked", "sent"]);
        nothing_more_of_a_and_the_session_goes_on(&story);
    }
}

/// Without the shim the TypeScript server starts the handler after the cancel, and its signal never fires.
#[test]
fn a_request_cancelled_in_the_same_write_does_not_run_on() {
    let pair = (Client::McpTypeScript, Server::McpTypeScript);
    if let Some(story) = Scenario::new("same-write", pair.0, pair.1).play() {
        assert_eq!(story.running(), Vec::<&str>::new());
        assert_eq!(story.recording().outcomes(), ["never_sent"]);
        nothing_more_of_a_and_the_session_goes_on(&story);
    }
}

#[test]
fn work_that_ignores_the_cancel_is_not_heard_of_again() {
    for (client, server) in PAIRS {
        let Some(story) = Scenario::new("ignored", client, server).play() else {
            continue;
        };
        assert_eq!(story.ticks("A"), 30);
        assert_eq!(story.events("A").last(), Some(&"finished"));
        assert_eq!(story.recording().swallowed(), ["progress"; 25]);
        assert_eq!(story.recording().outcome(), Some("sent"));
        nothing_more_of_a_and_the_session_goes_on(&story);
    }
}

#[test]
fn an_answer_after_the_cancel_is_swallowed() {
    for (client, server) in PAIRS {
        let Some(story) = Scenario::new("late", client, server).play() else {
            continue;
        };
        assert_eq!(story.events("A"), ["started", "told", "answered"]);
        assert_eq!(story.outcomes("release"), ["result released"]);
        assert_eq!(story.recording().swallowed(), ["result"]);
        assert_eq!(story.recording().outcome(), Some("answered_after"));
        nothing_more_of_a_and_the_session_goes_on(&story);
    }
}

#[test]
fn a_mute_server_leaves_nobody_hanging() {
    for (client, server) in PAIRS {
        let Some(story) = Scenario::new("mute", client, server).play() else {
            continue;
        };
        assert_eq!(story.recording().outcome(), Some("sent"));
        nothing_more_of_a_and_the_session_goes_on(&story);
    }
}

#[test]
fn a_killed_server_fails_what_waits_and_is_silent_about_what_was_cancelled() {
    for (client, server) in PAIRS {
        let Some(story) = Scenario::new("killed", client, server).play() else {
            continue;
        };
        both_failed_once_and_b_says_why(&story);
        assert_eq!(story.recording().outcome(), Some("sent"));
    }
}

fn nothing_more_of_a_and_the_session_goes_on(story: &Story) {
    settled_once_and_the_session_goes_on(story, "");
    assert_eq!(story.late_progress("A"), 0, "{story:?}");
}
