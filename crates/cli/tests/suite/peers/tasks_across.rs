//! MCP tasks between the eras, real SDKs at one end at least: a client of 2026-07-28 before a server of 2025-11-25, and the
//! other way round. The work itself says what became of it.

use rescind_proto::error_code;

use super::expect::nothing_is_stray_or_missed;
use super::parts::{Client, Server};
use super::play::Scenario;
use super::story::Story;
use super::tasks::{code, results};

/// The package for tasks of the TypeScript SDK 2.x before the TypeScript SDK 1.x. Without the shim it finds out what the
/// server speaks; with it, it speaks 2026-07-28.
fn modern(name: &'static str) -> Option<[Story; 2]> {
    let scenario = Scenario::new(name, Client::McpTypeScript2Tasks, Server::McpTypeScriptTasks).with(&["--bridge"]);
    let [direct, shim] = scenario.both()?;
    assert_eq!(direct.events("client"), ["legacy"]);
    assert_eq!(shim.events("client"), ["modern"]);
    results(&shim, &[("B", "echo")]);
    nothing_is_stray_or_missed(&shim);
    Some([direct, shim])
}

/// The TypeScript SDK 1.x before a server of ours that speaks 2026-07-28 alone.
fn legacy(name: &'static str) -> Option<Story> {
    let shim = Scenario::new(name, Client::McpTypeScriptTasks, Server::OurModernTasks).alone()?;
    results(&shim, &[("B", "echo")]);
    nothing_is_stray_or_missed(&shim);
    Some(shim)
}

#[test]
fn a_modern_client_follows_a_task_of_an_older_server_to_its_end() {
    let Some(stories) = modern("task-completes") else { return };
    for story in &stories {
        results(story, &[("A", "task"), ("A now", "working"), ("A in the end", "finished"), ("A then", "completed")]);
        assert_eq!(story.events("A"), ["started", "finished"]);
    }
}

// Case 52. TASK-03, TASK-21.
#[test]
fn a_modern_client_cancels_a_task_of_an_older_server_and_no_other() {
    let Some(stories) = modern("task-cancelled") else { return };
    for story in &stories {
        results(story, &[("cancel A", "acknowledged"), ("A in the end", "cancelled"), ("A then", "cancelled")]);
        assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
        results(story, &[("C then", "working"), ("C in the end", "finished")]);
        assert_eq!(story.events("C"), ["started", "finished"]);
    }
}

// Case 59. D38: nobody but whoever stands between can cancel it.
#[test]
fn a_call_given_up_before_its_task_was_known_leaves_no_work_behind() {
    let Some([direct, shim]) = modern("task-dropped-early") else { return };
    assert_eq!(direct.running(), ["A"]);
    assert_eq!(direct.events("A"), ["started"], "the SDK forgets it");
    assert_eq!(shim.events("A"), ["started", "stopped", "refused"]);
}

#[test]
fn a_question_of_an_older_servers_task_is_answered_by_a_modern_client() {
    let Some([_, shim]) = modern("task-asks") else { return };
    results(&shim, &[("question", "elicitation of a task"), ("A in the end", "finished"), ("A then", "completed")]);
    assert_eq!((shim.events("A"), shim.reason("A")), (vec!["started", "answered", "finished"], Some("accept")));
}

// TASK-06, TASK-10.
#[test]
fn an_older_client_waits_for_a_task_of_a_modern_server() {
    let Some(story) = legacy("task-completes") else { return };
    results(&story, &[("A", "working"), ("A now", "working")]);
    results(&story, &[("A in the end", "finished related"), ("A then", "completed")]);
    assert_eq!(story.events("A"), ["started", "finished"]);
}

// Case 52, 54. TASK-02, TASK-03.
#[test]
fn an_older_client_cancels_a_task_of_a_modern_server_and_no_other() {
    let Some(story) = legacy("task-cancelled") else { return };
    assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "stopped"], Some("caller")));
    results(&story, &[("cancel A", "cancelled"), ("A then", "cancelled"), ("C then", "working")]);
    assert_eq!(code(&story, "A in the end"), Some(error_code::REQUEST_CANCELLED.into()));
    assert_eq!(code(&story, "cancel A again"), Some(error_code::INVALID_PARAMS.into()));
    results(&story, &[("C in the end", "finished related")]);
    assert_eq!(story.events("C"), ["started", "finished"]);
}

// TASK-06.
#[test]
fn a_wait_of_an_older_client_ends_alone() {
    let Some(story) = legacy("task-wait-cancelled") else { return };
    results(&story, &[("A now", "working"), ("A in the end", "finished related")]);
    assert_eq!(story.events("A"), ["started", "finished"]);
}

// TASK-10.
#[test]
fn a_question_of_a_modern_servers_task_is_put_to_an_older_client() {
    let Some(story) = legacy("task-asks") else { return };
    results(&story, &[("question", "related"), ("A in the end", "finished related"), ("A then", "completed")]);
    assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "answered", "finished"], Some("accept")));
}

// Case 58.
#[test]
fn a_question_is_withdrawn_with_the_task_that_asks_it() {
    let Some(story) = legacy("task-asks-withdrawn") else { return };
    results(&story, &[("A now", "input_required"), ("cancel A", "cancelled"), ("A then", "cancelled")]);
    assert_eq!(story.events("question"), ["started", "stopped"]);
    assert_eq!(story.events("A"), ["started", "stopped"]);
}
