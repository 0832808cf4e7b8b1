//! MCP tasks (2025-11-25): the TypeScript SDK at both ends. Its work learns of a cancel only by asking its store.

use rescind_proto::error_code;
use serde_json::Value;

use super::expect::nothing_is_stray_or_missed;
use super::parts::{Client, Server};
use super::play::Scenario;
use super::story::Story;

fn play(name: &'static str) -> Option<Story> {
    Scenario::new(name, Client::McpTypeScriptTasks, Server::McpTypeScriptTasks).play()
}

// TASK-10.
#[test]
fn a_task_and_the_metadata_of_its_result_pass_byte_for_byte() {
    let Some(story) = play("task-completes") else { return };
    results(&story, &[("A", "working"), ("A now", "working")]);
    results(&story, &[("A in the end", "finished related"), ("A then", "completed")]);
    assert_eq!(story.events("A"), ["started", "finished"]);
    let recording = story.recording();
    assert_eq!(recording.frames("to_server"), recording.frames("from_client"));
    assert_eq!(recording.frames("to_client"), recording.frames("from_server"));
    assert_eq!(recording.violations(), Vec::<&str>::new());
    the_session_goes_on(&story);
}

// TASK-10. The SDK shows the task that asks as `input_required` from the beginning, its handle included.
#[test]
fn a_question_of_a_task_passes_with_its_metadata() {
    let Some(story) = play("task-asks") else { return };
    results(&story, &[("question", "related"), ("A in the end", "finished related"), ("A then", "completed")]);
    assert_eq!(story.events("A"), ["started", "answered", "finished"]);
    assert_eq!(story.reason("A"), Some("accept"));
    the_session_goes_on(&story);
}

// Case 52, 54. TASK-02, TASK-03.
#[test]
fn a_cancel_of_a_task_passes_and_stops_the_work_that_looks() {
    let Some(story) = play("task-cancelled") else { return };
    assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
    results(&story, &[("cancel A", "cancelled"), ("A then", "cancelled"), ("C then", "working")]);
    assert_eq!(code(&story, "cancel A again"), Some(-32602));
    // The SDK has no result for a cancelled task, and calls that an error of its own.
    assert_eq!(code(&story, "A in the end"), Some(-32603));
    results(&story, &[("C in the end", "finished related")]);
    assert_eq!(story.events("C"), ["started", "finished"]);
    assert_eq!(story.recording().violations(), Vec::<&str>::new());
    the_session_goes_on(&story);
}

// Case 53. TASK-04. In the SDK a cancel is a status: nobody tells the work, which comes to its end.
#[test]
fn the_sdk_lets_the_work_of_a_cancelled_task_run_to_its_end_and_throws_away_what_it_made() {
    let Some(story) = play("task-plods") else { return };
    results(&story, &[("cancel A", "cancelled"), ("A then", "cancelled")]);
    assert_eq!(story.running(), ["A"]);
    assert_eq!(story.events("A"), ["started", "finished", "refused"]);
    the_session_goes_on(&story);
}

// Case 56. MCP-C13. The signal of the SDK's stream sends notifications for every request that the stream made, the one
// that became the task included, and never `tasks/cancel`.
#[test]
fn a_notification_for_a_task_goes_no_further_and_its_work_goes_on() {
    let Some(story) = play("task-notified") else { return };
    let recording = story.recording();
    let [call] = &calls_of_tasks(&story)[..] else { panic!("one task: {story:?}") };
    let cancelled = recording.cancelled("from_client");
    assert!(cancelled.contains(call) && cancelled.len() > 1, "{story:?}");
    assert!(!recording.cancelled("to_server").contains(call), "{story:?}");
    assert_eq!(recording.violations(), ["MCP-C13"]);
    assert!(recording.messages("from_client").iter().all(|message| message["method"] != "tasks/cancel"));
    assert_eq!(story.running(), ["A"]);
    assert_eq!(story.events("A"), ["started", "finished"]);
    results(&story, &[("A now", "working"), ("A in the end", "finished related")]);
    results(&story, &[("B", "echo")]);
    nothing_crosses_but_polls(&story);
}

// Case 59. MCP-C13, D38. The SDK's client forgets the request and complains of its handle; its server, cancelled
// directly, keeps the handle to itself and works on. Either way the task is one that only a list finds.
#[test]
fn a_notification_before_the_handle_came_goes_no_further_either() {
    let Some(story) = play("task-notified-early") else { return };
    let recording = story.recording();
    assert_eq!(recording.cancelled("from_client"), calls_of_tasks(&story));
    assert_eq!(recording.cancelled("to_server"), [Value::Null; 0]);
    assert_eq!(recording.violations(), ["MCP-C13"]);
    assert_eq!(story.running(), ["A"]);
    results(&story, &[("what is left", "working"), ("B", "echo")]);
    let callbacks = story.callbacks();
    assert!(matches!(callbacks[..], [handle] if handle.contains("unknown message ID")), "{callbacks:?}");
}

// Case 59. D38: the handle comes after the shim has given the call up, and so nobody else can cancel the task.
#[test]
fn a_task_whose_handle_came_too_late_is_cancelled_by_the_shim() {
    let scenario = Scenario::new("task-given-up", Client::McpTypeScriptTasks, Server::McpTypeScriptTasks);
    let Some(story) = scenario.with(&["--timeout", "tools/call:looks=1s"]).play() else { return };
    assert_eq!(code(&story, "A"), Some(error_code::TIMED_OUT.into()));
    assert_eq!(story.events("A"), ["started", "stopped", "refused"]);
    assert_eq!(story.recording().orphans(), ["asked", "confirmed"]);
    the_session_goes_on(&story);
}

// TASK-06: the wait for a result is a request like any other (TASK-11).
#[test]
fn a_wait_for_a_result_is_cancelled_alone() {
    let Some(story) = play("task-wait-cancelled") else { return };
    assert_eq!(story.outcomes("wait for A").len(), 1, "{story:?}");
    assert_eq!(story.recording().cancelled("to_server").len(), 1, "{story:?}");
    assert_eq!(story.recording().outcomes(), ["asked", "sent"]);
    assert_eq!(story.recording().violations(), Vec::<&str>::new());
    results(&story, &[("A now", "working"), ("A in the end", "finished related")]);
    the_session_goes_on(&story);
}

// Case 58. The SDK leaves the question of a cancelled task open, and the work that asked it waiting.
#[test]
fn the_sdk_leaves_the_question_of_a_cancelled_task_open() {
    let Some(story) = play("task-asks-cancelled") else { return };
    results(&story, &[("A now", "input_required"), ("cancel A", "cancelled"), ("A then", "cancelled")]);
    assert_eq!(story.running(), ["question"]);
    assert_eq!(story.events("A"), ["started"]);
    the_session_goes_on(&story);
}

/// What each of these steps came to, once.
pub(crate) fn results(story: &Story, steps: &[(&str, &str)]) {
    for (step, result) in steps {
        assert_eq!(story.outcomes(step), [format!("result {result}")], "{step}: {story:?}");
    }
}

/// The code of the error that a step came to.
pub(crate) fn code(story: &Story, step: &str) -> Option<i64> {
    story.error(step)?["code"].as_i64()
}

/// The ids of the calls that asked for a task. (The SDK's stream asks with each of its polls, too.)
pub(crate) fn calls_of_tasks(story: &Story) -> Vec<Value> {
    let messages = story.recording().messages("from_client");
    let calls =
        messages.iter().filter(|message| message["method"] == "tools/call" && message["params"]["task"].is_object());
    calls.map(|call| call["id"].clone()).collect()
}

/// The SDK complained about nothing but the answer to a poll that had passed the shim when its cancel came, and
/// everything that was waited for came.
pub(crate) fn nothing_crosses_but_polls(story: &Story) {
    let is_poll = |message: &&str| message.contains("unknown message ID") && message.contains("pollInterval");
    assert!(story.callbacks().iter().all(is_poll), "{story:?}");
    assert_eq!(story.missed(), Vec::<&str>::new(), "{story:?}");
}

fn the_session_goes_on(story: &Story) {
    results(story, &[("B", "echo")]);
    nothing_is_stray_or_missed(story);
}
