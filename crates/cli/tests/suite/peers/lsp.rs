//! LSP on vscode-jsonrpc: a cancelled request is always answered.

use super::expect::{both_failed_once_and_b_says_why, settled_once_and_the_session_goes_on};
use super::parts::{Client, Server};
use super::play::Scenario;

const CLIENT: Client = Client::VscodeJsonrpc;
const SERVER: Server = Server::VscodeJsonrpc;

/// A grace that no loaded machine outlasts.
const PATIENT: &[&str] = &["--grace", "1m"];

#[test]
fn a_cancelled_request_stops_and_is_answered_once() {
    if let Some(story) = Scenario::new("cancel-in-flight", CLIENT, SERVER).play() {
        assert_eq!(story.events("A"), ["started", "stopped"]);
        assert_eq!(story.recording().outcome(), Some("confirmed"));
        settled_once_and_the_session_goes_on(&story, "error -32800");
    }
}

/// Without the shim the server hands the handler a token that says cancelled and never fires its event.
#[test]
fn a_request_cancelled_in_the_same_write_is_answered_and_does_not_run_on() {
    if let Some(story) = Scenario::new("same-write", CLIENT, SERVER).play() {
        assert_eq!(story.running(), Vec::<&str>::new());
        assert_eq!(story.recording().outcomes(), ["never_sent"]);
        settled_once_and_the_session_goes_on(&story, "error -32800");
    }
}

#[test]
fn work_that_ignores_the_cancel_answers_normally_within_the_grace() {
    if let Some(story) = Scenario::new("ignored", CLIENT, SERVER).with(PATIENT).play() {
        assert_eq!(story.ticks("A"), 30);
        assert_eq!(story.recording().outcome(), Some("answered_after"));
        settled_once_and_the_session_goes_on(&story, "result finished");
    }
}

#[test]
fn an_answer_after_the_grace_is_swallowed() {
    let scenario = Scenario::new("late", CLIENT, SERVER).with(&["--grace", "300ms"]);
    if let Some(story) = scenario.play() {
        assert_eq!(story.events("A"), ["started", "told", "answered"]);
        assert_eq!(story.recording().swallowed(), ["result"]);
        assert_eq!(story.recording().outcome(), Some("answered_after"));
        settled_once_and_the_session_goes_on(&story, "error -32800 cancelled; not confirmed");
    }
}

#[test]
fn a_mute_server_leaves_nobody_hanging() {
    let scenario = Scenario::new("mute", CLIENT, SERVER).with(&["--grace", "300ms"]);
    if let Some(story) = scenario.play() {
        assert_eq!(story.recording().outcome(), Some("unknown"));
        settled_once_and_the_session_goes_on(&story, "error -32800 cancelled; not confirmed");
    }
}

/// Without the shim neither call ever settles: the SDK only says that the connection closed.
#[test]
fn a_killed_server_fails_everything_in_flight_once() {
    if let Some(story) = Scenario::new("killed", CLIENT, SERVER).play() {
        both_failed_once_and_b_says_why(&story);
    }
}
