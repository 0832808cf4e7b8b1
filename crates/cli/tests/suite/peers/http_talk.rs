//! What has nothing to do with cancels over HTTP, and has to work.

use super::http_cancel::every_client;
use super::http_client::Client;
use super::http_run::fall_back;
use super::http_table::Behaviour;

#[test]
fn progress_arrives_before_the_answer_and_in_order() {
    every_client(Behaviour::Progress);
}

#[test]
fn a_large_answer_arrives() {
    every_client(Behaviour::Large);
}

#[test]
fn a_large_answer_arrives_as_an_event() {
    every_client(Behaviour::LargeEvent);
}

#[test]
fn a_question_of_the_server_is_answered() {
    every_client(Behaviour::Question);
}

#[test]
fn a_subscription_hears_of_a_change_and_ends() {
    every_client(Behaviour::Subscription);
}

#[test]
fn no_client_complains_or_waits_in_vain() {
    every_client(Behaviour::Quiet);
}

#[test]
fn a_client_of_both_eras_opens_a_session_where_the_server_knows_only_those() {
    for client in Client::ALL.into_iter().filter(|client| client.is_modern()) {
        let Some(seen) = fall_back(client) else { continue };
        assert_eq!(seen.story.revision(), Some("2025-11-25"), "{}: {seen:?}", client.name());
        assert_eq!(seen.story.events("silent"), ["started", "stopped"], "{seen:?}");
        assert_eq!(seen.story.outcomes("after silent"), ["result echo"], "{seen:?}");
    }
}
