//! What tasks look like on the wire, member by member.

use serde_json::{Value, json};

use super::rig::{Client, Rig, Style, watch};

/// Puts aside what differs from run to run, having looked at it.
fn plain(mut task: Value) -> Value {
    let id = task["taskId"].take();
    assert_eq!(id.as_str().unwrap().len(), 32, "TASK-08");
    for member in ["createdAt", "lastUpdatedAt"] {
        let time = task[member].take();
        assert!(time.as_str().unwrap().ends_with('Z') && time.as_str().unwrap().len() == 24, "TASK-09: {time}");
    }
    task
}

// TASK-09.
#[tokio::test]
async fn a_task_of_2025_11_25() {
    let (mut watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let mut client = Client::of(&tasks, Style::November).await;
    let call = json!({ "name": "patient", "arguments": { "name": "work" }, "task": { "ttl": 60_000 } });
    let created = client.ask("tools/call", call).await["result"].clone();
    watch.started("work").await;
    assert_eq!(created.as_object().unwrap().len(), 1);
    let task = json!({
        "taskId": null, "status": "working", "createdAt": null, "lastUpdatedAt": null, "ttl": 60_000,
        "pollInterval": 1000,
    });
    assert_eq!(plain(created["task"].clone()), task);
    let id = created["task"]["taskId"].as_str().unwrap();
    assert_eq!(plain(client.about("tasks/get", id).await["result"].clone()), task);
    let mut cancelled = task;
    cancelled["status"] = json!("cancelled");
    assert_eq!(plain(client.about("tasks/cancel", id).await["result"].clone()), cancelled);
}

// TASK-20, TASK-21.
#[tokio::test]
async fn a_task_of_the_extension() {
    let (mut watch, witness) = watch();
    let rig = Rig::memory();
    let tasks = rig.tasks(&witness);
    let mut client = Client::of(&tasks, Style::Extension).await;
    let call = json!({ "name": "patient", "arguments": { "name": "work" } });
    let created = client.ask("tools/call", call).await["result"].clone();
    watch.started("work").await;
    let mut task = json!({
        "resultType": "task", "taskId": null, "status": "working", "createdAt": null, "lastUpdatedAt": null,
        "ttlMs": 3_600_000, "pollIntervalMs": 1000,
    });
    assert_eq!(plain(created.clone()), task);
    let id = created["taskId"].as_str().unwrap();
    task["resultType"] = json!("complete");
    assert_eq!(plain(client.about("tasks/get", id).await["result"].clone()), task);
    watch.release();
    super::rig::settled(&*rig.store, id).await;
    task["status"] = json!("completed");
    task["result"] = json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" });
    assert_eq!(plain(client.about("tasks/get", id).await["result"].clone()), task);
}
