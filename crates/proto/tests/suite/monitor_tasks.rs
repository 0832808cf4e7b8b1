//! Tasks as a monitor sees them: from what passes, and never more (D56).

use rescind_proto::{monitor::MonitorConfig, side::Side::Server, task::TaskStatus};
use rescind_testkit::monitor_rig::MonitorRig;
use serde_json::{Value, json};

/// A link of 2025-11-25 whose call 1 has become task `t`.
fn november() -> MonitorRig {
    let mut rig = MonitorRig::new(MonitorConfig::default());
    let say = |id: u64, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    rig.client(&say(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})));
    let tasks = json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    rig.server(&answer(0, &json!({"protocolVersion": "2025-11-25", "capabilities": tasks})));
    rig.client(&say(1, "tools/call", json!({"name": "slow", "task": {}})));
    rig.server(&answer(1, &json!({"task": {"taskId": "t", "status": "working"}})));
    rig
}

fn answer(id: u64, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn ask(rig: &mut MonitorRig, id: u64, method: &str, result: &Value) {
    rig.client(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": "t"}}).to_string());
    rig.server(&answer(id, result));
}

/// Each task: its id, its tool, its status, and whether it is over.
fn tasks(rig: &MonitorRig) -> Vec<(String, Option<String>, TaskStatus, bool)> {
    let view = |task: rescind_proto::monitor::ObservedTask<'_>| {
        (task.id.into_owned(), task.name.map(|name| name.into_owned()), task.status, task.is_over)
    };
    rig.monitor.tasks().map(view).collect()
}

fn t(status: TaskStatus, is_over: bool) -> Vec<(String, Option<String>, TaskStatus, bool)> {
    vec![("t".to_owned(), Some("slow".to_owned()), status, is_over)]
}

#[test]
fn a_task_is_as_its_server_reported_it_last_and_stays_over() {
    let mut rig = november();
    assert_eq!(tasks(&rig), t(TaskStatus::Working, false));
    rig.server(
        r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"input_required"}}"#,
    );
    assert_eq!(tasks(&rig), t(TaskStatus::InputRequired, false));
    ask(&mut rig, 2, "tasks/get", &json!({"taskId": "t", "status": "working"}));
    assert_eq!(tasks(&rig), t(TaskStatus::Working, false));
    ask(&mut rig, 3, "tasks/cancel", &json!({"taskId": "t", "status": "cancelled"}));
    assert_eq!(tasks(&rig), t(TaskStatus::Cancelled, true));
    ask(&mut rig, 4, "tasks/get", &json!({"taskId": "t", "status": "working"}));
    assert_eq!(tasks(&rig), t(TaskStatus::Cancelled, true), "TASK-01");
}

#[test]
fn what_a_task_led_to_ends_it_and_so_does_the_end_of_its_server() {
    let mut rig = november();
    ask(&mut rig, 2, "tasks/result", &json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}));
    assert_eq!(tasks(&rig), t(TaskStatus::Working, true));
    let mut rig = november();
    rig.monitor.handle_eof(rig.now, Server);
    assert_eq!(tasks(&rig), t(TaskStatus::Working, true));
}

#[test]
fn what_names_no_task_or_no_status_shows_nothing() {
    let mut rig = november();
    for (id, result) in
        [json!({}), json!({"taskId": "u", "status": "failed"}), json!({"taskId": "t"}), json!({"status": "failed"})]
            .iter()
            .enumerate()
    {
        ask(&mut rig, 10 + id as u64, "tasks/get", result);
        assert_eq!(tasks(&rig), t(TaskStatus::Working, false), "{result}");
    }
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}"#);
    assert_eq!(tasks(&rig), t(TaskStatus::Working, false));
}

#[test]
fn tasks_are_bounded_and_those_that_are_over_give_way() {
    let mut rig = november();
    let make = |rig: &mut MonitorRig, id: u64, status: &str| {
        let params = json!({"name": "slow", "task": {}});
        rig.client(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string());
        rig.server(&answer(id, &json!({"task": {"taskId": format!("t{id}"), "status": status}})));
    };
    (2..=3000).for_each(|id| make(&mut rig, id, "completed"));
    assert_eq!((rig.monitor.tasks().count(), rig.monitor.unkept_tasks()), (1024, 0));
    assert!(rig.monitor.tasks().any(|task| task.id == "t"), "what works is kept");
    (3001..=5000).for_each(|id| make(&mut rig, id, "working"));
    assert_eq!((rig.monitor.tasks().count(), rig.monitor.unkept_tasks()), (1024, 2000 - 1023));
}
