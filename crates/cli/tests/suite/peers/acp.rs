//! ACP v1: a cancelled request is always answered.

use super::expect::{
    both_failed_once_and_b_says_why, nothing_is_stray_or_missed, settled_once_and_the_session_goes_on,
};
use super::parts::{Client, Server};
use super::play::Scenario;

const CLIENT: Client = Client::AcpTypeScript;
const AGENT: Server = Server::AcpTypeScript;

/// A grace that no loaded machine outlasts.
const PATIENT: &[&str] = &["--grace", "1m"];

#[test]
fn a_cancelled_request_stops_and_is_answered_once() {
    if let Some(story) = Scenario::new("cancel-in-flight", CLIENT, AGENT).play() {
        assert_eq!(story.events("A"), ["started", "stopped"]);
        assert_eq!(story.recording().outcome(), Some("confirmed"));
        settled_once_and_the_session_goes_on(&story, "error -32800 Request cancelled");
    }
}

/// Without the shim the agent starts the handler after the cancel, and its signal never fires.
#[test]
fn a_request_cancelled_in_the_same_write_is_answered_and_does_not_run_on() {
    if let Some(story) = Scenario::new("same-write", CLIENT, AGENT).play() {
        assert_eq!(story.running(), Vec::<&str>::new());
        assert_eq!(story.recording().outcomes(), ["never_sent"]);
        settled_once_and_the_session_goes_on(&story, "error -32800");
    }
}

#[test]
fn work_that_ignores_the_cancel_answers_normally_within_the_grace() {
    if let Some(story) = Scenario::new("ignored", CLIENT, AGENT).with(PATIENT).play() {
        assert_eq!(story.ticks("A"), 30);
        assert_eq!(story.recording().outcome(), Some("answered_after"));
        settled_once_and_the_session_goes_on(&story, "result finished");
    }
}

#[test]
fn an_answer_after_the_grace_is_swallowed() {
    let scenario = Scenario::new("late", CLIENT, AGENT).with(&["--grace", "300ms"]);
    if let Some(story) = scenario.play() {
        assert_eq!(story.events("A"), ["started", "told", "answered"]);
        assert_eq!(story.recording().swallowed(), ["result"]);
        assert_eq!(story.recording().outcome(), Some("answered_after"));
        settled_once_and_the_session_goes_on(&story, "error -32800 cancelled; not confirmed");
    }
}

#[test]
fn a_mute_agent_leaves_nobody_hanging() {
    let scenario = Scenario::new("mute", CLIENT, AGENT).with(&["--grace", "300ms"]);
    if let Some(story) = scenario.play() {
        assert_eq!(story.recording().outcome(), Some("unknown"));
        settled_once_and_the_session_goes_on(&story, "error -32800 cancelled; not confirmed");
    }
}

#[test]
fn a_killed_agent_fails_everything_in_flight_once() {
    if let Some(story) = Scenario::new("killed", CLIENT, AGENT).play() {
        both_failed_once_and_b_says_why(&story);
    }
}

#[test]
fn a_turn_cancelled_either_way_ends_with_its_own_stop_reason() {
    for name in ["prompt-request-cancel", "prompt-session-cancel"] {
        if let Some(story) = Scenario::new(name, CLIENT, AGENT).play() {
            assert_eq!(story.events("A"), ["started", "stopped"]);
            settled_once_and_the_session_goes_on(&story, "result cancelled");
        }
    }
}

/// Without the shim the turn waits for ever, and so does the question.
#[test]
fn a_turn_cancelled_while_it_waits_for_a_permission_ends_and_the_question_is_withdrawn() {
    if let Some(story) = Scenario::new("prompt-permission", CLIENT, AGENT).play() {
        assert_eq!(story.events("A"), ["started", "stopped"]);
        assert_eq!(story.permissions(), ["asked", "withdrawn"]);
        settled_once_and_the_session_goes_on(&story, "result cancelled");
    }
}

#[test]
fn the_example_agent_that_ignores_the_cancel_is_answered_once_and_the_session_goes_on() {
    if let Some(story) = Scenario::new("example", CLIENT, Server::AcpExample).play() {
        assert_eq!(story.outcomes("A").len(), 1, "{story:?}");
        assert!(story.outcomes("A")[0].starts_with("result "), "{story:?}");
        assert_eq!(story.outcomes("B").len(), 1, "{story:?}");
        nothing_is_stray_or_missed(&story);
    }
}
