//! MCP tasks (2025-11-25): a client of ours with the TypeScript SDK's server, directly and through the shim.

use super::expect::nothing_is_stray_or_missed;
use super::parts::{Client, Server};
use super::play::Scenario;
use super::story::Story;
use super::tasks::{calls_of_tasks, results};

/// Plays the scenario and checks both runs; the task is cancelled so often, and never by a notification (MCP-C13);
/// a poll may be, being a request like any other (TASK-11).
fn play(name: &'static str, cancels: usize, check: impl Fn(&Story)) {
    let scenario = Scenario::new(name, Client::OurTasks, Server::McpTypeScriptTasks);
    let Some([direct, shim]) = scenario.both() else { return };
    for story in [&direct, &shim] {
        check(story);
        results(story, &[("B", "echo")]);
        nothing_is_stray_or_missed(story);
    }
    let recording = shim.recording();
    let asked = |hop| recording.messages(hop).iter().filter(|message| message["method"] == "tasks/cancel").count();
    assert_eq!((asked("from_client"), asked("to_server")), (cancels, cancels), "{shim:?}");
    let cancelled = recording.cancelled("from_client");
    assert!(calls_of_tasks(&shim).iter().all(|call| !cancelled.contains(call)), "{shim:?}");
    assert_eq!(recording.violations(), Vec::<&str>::new());
}

// TASK-06.
#[test]
fn a_call_is_followed_to_the_end_of_its_task() {
    play("task-completes", 0, |story| {
        results(story, &[("A now", "working"), ("A", "finished"), ("A then", "completed")]);
        assert_eq!(story.events("A"), ["started", "finished"]);
    });
}

// Case 52. TASK-03, D28.
#[test]
fn a_stop_cancels_its_task_and_no_other() {
    play("task-cancelled", 1, |story| {
        assert_eq!(story.outcomes("A"), ["error null cancelled: caller"]);
        results(story, &[("cancel A", "confirmed"), ("A then", "cancelled"), ("C", "finished")]);
        assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
        assert_eq!(story.events("C"), ["started", "finished"]);
    });
}

// TASK-05, D28: `confirmed` is what the server shows of the task. The SDK tells its work nothing.
#[test]
fn a_confirmed_cancel_says_nothing_of_the_sdks_work() {
    play("task-plods", 1, |story| {
        results(story, &[("cancel A", "confirmed"), ("A then", "cancelled")]);
        assert_eq!(story.running(), ["A"]);
        assert_eq!(story.events("A"), ["started", "finished", "refused"]);
    });
}

// Case 37. D14.
#[test]
fn a_dropped_call_cancels_its_task() {
    play("task-dropped", 1, |story| {
        results(story, &[("A then", "cancelled")]);
        assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
    });
}

// Case 59. D38.
#[test]
fn a_call_dropped_before_its_handle_came_cancels_its_task_once_it_has() {
    play("task-dropped-early", 1, |story| {
        assert_eq!(story.running(), ["A"], "nobody can name the task yet");
        assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
    });
}

// TASK-10.
#[test]
fn a_question_of_the_task_reaches_the_clients_routes() {
    play("task-asks", 0, |story| {
        results(story, &[("question", "related"), ("A", "finished"), ("A then", "completed")]);
        assert_eq!((story.events("A"), story.reason("A")), (vec!["started", "answered", "finished"], Some("accept")));
    });
}
