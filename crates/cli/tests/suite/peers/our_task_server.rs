//! MCP tasks (2025-11-25): the TypeScript SDK's client with a server of ours, on each store. What holds, holds without
//! the shim and through it.

use super::parts::{Client, Server};
use super::play::Scenario;
use super::story::Story;
use super::tasks::{code, nothing_crosses_but_polls, results};

/// Plays the scenario on every store, checks each run, and gives those through the shim.
fn play(name: &'static str, check: impl Fn(&Story)) -> Vec<Story> {
    let mut through_shim = Vec::new();
    for store in ["memory", "sqlite"] {
        let scenario = Scenario::new(name, Client::McpTypeScriptTasks, Server::OurTasks(store));
        let Some([direct, shim]) = scenario.both() else { continue };
        for story in [&direct, &shim] {
            check(story);
            results(story, &[("B", "echo")]);
        }
        nothing_crosses_but_polls(&shim);
        through_shim.push(shim);
    }
    through_shim
}

// TASK-06, TASK-10.
#[test]
fn a_task_is_made_looked_at_and_waited_for() {
    let stories = play("task-completes", |story| {
        results(story, &[("A", "working"), ("A now", "working")]);
        results(story, &[("A in the end", "finished related"), ("A then", "completed")]);
        assert_eq!(story.events("A"), ["started", "finished"]);
    });
    for recording in stories.iter().map(Story::recording) {
        assert_eq!(recording.frames("to_server"), recording.frames("from_client"));
        assert_eq!(recording.frames("to_client"), recording.frames("from_server"));
    }
}

// Case 52, 54. TASK-02, TASK-03, TASK-05.
#[test]
fn a_cancel_stops_the_work_of_its_task_and_of_no_other() {
    play("task-cancelled", |story| {
        assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "stopped"], Some("caller")));
        results(story, &[("cancel A", "cancelled"), ("A then", "cancelled"), ("C then", "working")]);
        assert_eq!(code(story, "A in the end"), Some(-32800));
        assert_eq!(code(story, "cancel A again"), Some(-32602));
        results(story, &[("C in the end", "finished related")]);
        assert_eq!(story.events("C"), ["started", "finished"]);
    });
}

// D22: where the SDK's own server lets it run to its end.
#[test]
fn work_that_never_looks_is_dropped_when_its_grace_is_over() {
    play("task-plods", |story| {
        results(story, &[("cancel A", "cancelled"), ("A then", "cancelled")]);
        assert_eq!(story.running(), Vec::<&str>::new());
        assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "stopped"], Some("dropped")));
    });
}

// Case 56. MCP-C13.
#[test]
fn a_notification_for_a_task_does_not_stop_its_work() {
    let stories = play("task-notified", |story| {
        assert_eq!(story.running(), ["A"]);
        assert_eq!(story.events("A"), ["started", "finished"]);
        results(story, &[("A now", "working"), ("A in the end", "finished related")]);
    });
    for story in &stories {
        assert_eq!(story.recording().violations(), ["MCP-C13"]);
    }
}

// TASK-06.
#[test]
fn a_wait_for_a_result_is_cancelled_alone() {
    play("task-wait-cancelled", |story| {
        results(story, &[("A now", "working"), ("A in the end", "finished related")]);
        assert_eq!(story.events("A"), ["started", "finished"]);
    });
}

// TASK-01, TASK-10.
#[test]
fn a_task_asks_its_client_and_goes_on_with_the_answer() {
    play("task-asks", |story| {
        results(story, &[("A", "working"), ("question", "related")]);
        results(story, &[("A in the end", "finished related"), ("A then", "completed")]);
        assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "answered", "finished"], Some("accept")));
    });
}

// Case 58. D26: where the SDK's own server leaves the question open, and the work that asked it.
#[test]
fn a_cancel_while_the_task_asks_takes_the_question_back() {
    play("task-asks-withdrawn", |story| {
        results(story, &[("A now", "input_required"), ("cancel A", "cancelled"), ("A then", "cancelled")]);
        assert_eq!(story.events("A"), ["started", "stopped"]);
        assert_eq!(story.events("question"), ["started", "stopped"]);
    });
}
