//! What is told of a task on its way: status, progress, results, lists.

use std::{sync::Arc, time::Duration};

use rescind::{
    mcp::Tool,
    peer::{CauseCode, Context, ErrorObject},
};
use rescind_tasks::{
    AsTask, MemoryStore, Owner, Status, StoreLimits, TaskError, TaskId, TaskStore, TaskSupport, Tasks, Timestamp,
    WallClock,
};
use serde_json::{Value, json};

use super::rig::{
    Client, Piece, Rig, STYLES, Style, Watch, Witness, ends_as, on_every_store, task_id, tools, watch, with_tools,
};

/// Reports how far it is before it waits for the test.
fn reporting(witness: &Witness) -> Tool {
    let witness = witness.clone();
    Tool::new("reporting", "Says how far it is", move |piece: Piece, cx: Context| {
        let (witness, guard) = (witness.clone(), witness.guard(&piece));
        async move {
            cx.progress(1.0, Some(2.0), Some("halfway")).await;
            if let Err(cancelled) = cx.unless_cancelled(witness.released()).await {
                guard.fired(&cx);
                cx.progress(1.5, Some(2.0), Some("stopping")).await;
                return Err(cancelled);
            }
            Ok("done")
        }
    })
}

async fn reported(style: Style) -> (Client, Watch, Tasks, Rig, String) {
    let (mut watch, witness) = watch();
    let rig = Rig::memory();
    let tasks = Tasks::builder(Arc::clone(&rig.store)).tool(reporting(&witness).task(TaskSupport::Optional)).start();
    let mut client = Client::of(&tasks, style).await;
    let call = json!({
        "name": "reporting", "arguments": { "name": "work" }, "task": {}, "_meta": { "progressToken": "p" },
    });
    let id = task_id(&client.ask("tools/call", call).await);
    watch.started("work").await;
    (client, watch, tasks, rig, id)
}

// MCP-P01, MCP-P03, TASK-10.
#[tokio::test]
async fn progress_of_a_task_names_it_and_stops_with_its_cancel() {
    let (mut client, mut watch, _tasks, _rig, id) = reported(Style::November).await;
    let progress = client.next_heard().await;
    assert_eq!(progress["method"], "notifications/progress");
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
    let told = json!({ "progressToken": "p", "progress": 1, "total": 2, "message": "halfway", "_meta": related });
    assert_eq!(progress["params"], told);
    client.cancel(&id).await;
    watch.stopped("work", CauseCode::Caller).await;
    client.about("tasks/result", &id).await;
    client.barrier().await;
    let late: Vec<_> = client.heard.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert_eq!(late, Vec::<&Value>::new());
}

// MCP-P01: no token, no progress.
#[tokio::test]
async fn a_client_that_did_not_ask_for_progress_gets_none() {
    let (mut watch, witness) = watch();
    let tasks = Tasks::builder(Rig::memory().store).tool(reporting(&witness).task(TaskSupport::Optional)).start();
    let mut client = Client::of(&tasks, Style::November).await;
    client.begin("reporting", "work").await;
    watch.started("work").await;
    watch.release();
    let told = client.next_heard().await;
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("completed"))
    );
}

#[tokio::test]
async fn work_that_panics_has_failed() {
    let rig = Rig::memory();
    let broken = Tool::new("broken", "Panics", async |_: Piece| -> Result<&str, ErrorObject> { panic!("as expected") });
    let tasks = Tasks::builder(Arc::clone(&rig.store)).tool(broken.task(TaskSupport::Required)).start();
    for style in STYLES {
        let mut client = Client::of(&tasks, style).await;
        let id = client.begin("broken", "work").await;
        ends_as(&*rig.store, &id, Status::Failed).await;
    }
}

#[tokio::test]
async fn a_progress_message_becomes_the_status_message_and_the_extension_has_no_progress() {
    let (mut client, watch, _tasks, rig, id) = reported(Style::Extension).await;
    let (owner, name) = (Owner::NONE, TaskId::received(&id));
    let mut task = rig.store.task(&owner, &name).await.unwrap();
    while task.summary.message.is_none() {
        task = rig.store.changed(&owner, &name, task.revision).await.unwrap();
    }
    assert_eq!(client.about("tasks/get", &id).await["result"]["statusMessage"], "halfway");
    watch.release();
    ends_as(&*rig.store, &id, Status::Completed).await;
    client.barrier().await;
    assert_eq!(client.heard, Vec::<Value>::new());
}

#[test]
fn a_client_of_2025_11_25_is_notified_of_the_end_of_its_task() {
    on_every_store(async |rig| {
        for is_cancelled in [false, true] {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, Style::November).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            if is_cancelled {
                client.cancel(&id).await;
            } else {
                watch.release();
            }
            let told = client.next_heard().await;
            assert_eq!(told["method"], "notifications/tasks/status");
            assert_eq!(told["params"]["taskId"], id.as_str());
            assert_eq!(told["params"]["status"], if is_cancelled { "cancelled" } else { "completed" });
            assert!(told["params"].get("_meta").is_none(), "TASK-10");
        }
    });
}

// TASK-06, TASK-10.
#[test]
fn a_result_is_waited_for_and_names_its_task() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        let waiting = client.send("tasks/result", json!({ "taskId": id })).await;
        client.barrier().await;
        assert_eq!(client.status(&id).await, "working");
        watch.release();
        let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
        let result = json!({ "content": [{ "type": "text", "text": "done" }], "_meta": related });
        assert_eq!(client.answer(waiting).await["result"], result);
    });
}

// TASK-12, TASK-25, TASK-06.
#[test]
fn a_failure_is_answered_as_its_dialect_defines() {
    on_every_store(async |rig| {
        let (_watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut november = Client::of(&tasks, Style::November).await;
        let mut newest = Client::of(&tasks, Style::Extension).await;
        let (tool, broken) = (november.begin("failing", "tool").await, november.begin("failing", "hard").await);
        ends_as(&*rig.store, &tool, Status::Failed).await;
        ends_as(&*rig.store, &broken, Status::Failed).await;
        assert_eq!(november.about("tasks/result", &tool).await["result"]["isError"], true);
        let error = json!({ "code": -1234, "message": "it broke", "data": { "big": 9_007_199_254_740_993_u64 } });
        assert_eq!(november.about("tasks/result", &broken).await["error"], error);

        let (tool, broken) = (newest.begin("failing", "tool").await, newest.begin("failing", "hard").await);
        let quitter = newest.begin("failing", "itself").await;
        ends_as(&*rig.store, &tool, Status::Completed).await;
        ends_as(&*rig.store, &broken, Status::Failed).await;
        ends_as(&*rig.store, &quitter, Status::Failed).await;
        let task = newest.about("tasks/get", &tool).await["result"].clone();
        assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)));
        let task = newest.about("tasks/get", &broken).await["result"].clone();
        assert_eq!((&task["error"], &task["statusMessage"]), (&error, &json!("it broke")));
        let task = newest.about("tasks/get", &quitter).await["result"].clone();
        assert_eq!(task["error"]["code"], -32603, "nobody cancelled it (D24): {task}");
        assert_eq!(task["error"]["message"], "the server cancelled this request");
    });
}

// TASK-07, TASK-08.
#[test]
fn owners_list_their_own_tasks_by_pages_and_find_no_others() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let ada = tasks.owned_by(|_| Owner::named("ada"));
        let bob = tasks.owned_by(|_| Owner::named("bob"));
        let mut ada = Client::of(&ada, Style::November).await;
        let mut bob = Client::of(&bob, Style::November).await;
        let id = ada.begin("patient", "ada's").await;
        watch.started("ada's").await;
        let listed = ada.ask("tasks/list", json!({})).await["result"].clone();
        assert_eq!(listed["tasks"][0]["taskId"], id.as_str());
        assert!(listed.get("nextCursor").is_none());
        assert_eq!(bob.ask("tasks/list", json!({})).await["result"], json!({ "tasks": [] }));
        assert_eq!(ada.ask("tasks/list", json!({ "cursor": "no" })).await["error"]["code"], -32602);
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(bob.about(method, &id).await["error"]["code"], -32602, "{method}");
        }
        assert!(watch.is_quiet(), "bob cannot cancel it");
        assert_eq!(ada.status(&id).await, "working");
    });
}

#[tokio::test]
async fn a_long_list_has_pages() {
    let (watch, witness) = watch();
    let store = Arc::new(MemoryStore::new(StoreLimits { page: 2, ..StoreLimits::default() }));
    let tasks = with_tools(Tasks::builder(store), tools(&witness)).owned_by(|_| Owner::named("ada")).start();
    let mut client = Client::of(&tasks, Style::November).await;
    (0..5).for_each(|_| watch.release());
    let mut made = Vec::new();
    for n in 0..5 {
        made.push(client.begin("patient", &n.to_string()).await);
    }
    let (mut found, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.ask("tasks/list", params).await["result"].clone();
        found.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        let Some(next) = page.get("nextCursor") else { break };
        params = json!({ "cursor": next });
    }
    assert_eq!(found, made);
}

// TASK-23: whoever has the handle finds the task, in whatever process.
#[test]
fn a_task_is_stored_before_its_handle_is_written() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (_watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, style).await;
            let id = client.begin("patient", "work").await;
            let found = rig.elsewhere().task(&Owner::NONE, &TaskId::received(&id)).await.unwrap();
            assert_eq!(found.summary.status, Status::Working);
        }
    });
}

struct Tokio(tokio::time::Instant);

impl WallClock for Tokio {
    fn now(&self) -> Timestamp {
        Timestamp(1_764_000_000_000).after(self.0.elapsed())
    }
}

// TASK-09.
#[tokio::test(start_paused = true)]
async fn a_task_whose_ttl_has_expired_is_stopped_and_forgotten() {
    for style in STYLES {
        let (mut watch, witness) = watch();
        let store =
            Arc::new(MemoryStore::with_clock(StoreLimits::default(), Arc::new(Tokio(tokio::time::Instant::now()))));
        let short = super::rig::patient(&witness).task(TaskSupport::Optional).ttl(Duration::from_secs(60));
        let tasks = Tasks::builder(Arc::clone(&store) as _).tool(short).start();
        let mut client = Client::of(&tasks, style).await;
        let call = client.send_call("patient", "work").await;
        let id = task_id(&client.answer(call).await);
        watch.started("work").await;
        assert_eq!(client.status(&id).await, "working");
        watch.stopped("work", CauseCode::Timeout).await;
        assert_eq!(client.about("tasks/get", &id).await["error"]["code"], -32602);
        tasks.idle().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let access = rescind_tasks::Access::Operator;
        let gone = store.cancel(access, &TaskId::received(&id), rescind_tasks::Cause::new(CauseCode::Operator)).await;
        assert!(matches!(gone, Err(TaskError::NotFound)), "{style:?}");
    }
}

// TASK-09.
#[tokio::test(start_paused = true)]
async fn a_change_moves_the_last_update_and_not_the_creation() {
    const MADE: &str = "2025-11-24T16:00:00.000Z";
    for style in STYLES {
        let (mut watch, witness) = watch();
        let store =
            Arc::new(MemoryStore::with_clock(StoreLimits::default(), Arc::new(Tokio(tokio::time::Instant::now()))));
        let tasks = with_tools(Tasks::builder(store), tools(&witness)).start();
        let mut client = Client::of(&tasks, style).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        let made = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!([&made["createdAt"], &made["lastUpdatedAt"]], [MADE, MADE], "{style:?}");
        tokio::time::sleep(Duration::from_secs(90)).await;
        client.about("tasks/cancel", &id).await;
        watch.stopped("work", CauseCode::Caller).await;
        tasks.idle().await;
        let ended = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!(ended["status"], "cancelled", "{style:?}");
        assert_eq!([&ended["createdAt"], &ended["lastUpdatedAt"]], [MADE, "2025-11-24T16:01:30.000Z"], "{style:?}");
    }
}

// TASK-09: though nobody asks for it any more.
#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_is_deleted_when_its_ttl_expires() {
    let (mut watch, witness) = watch();
    let clock = Arc::new(Tokio(tokio::time::Instant::now()));
    let store: Arc<dyn TaskStore> = Arc::new(MemoryStore::with_clock(StoreLimits::default(), clock));
    let short = super::rig::patient(&witness).task(TaskSupport::Optional).ttl(Duration::from_secs(60));
    let tasks = Tasks::builder(Arc::clone(&store)).tool(short).start();
    let mut client = Client::of(&tasks, Style::November).await;
    let id = client.begin("patient", "work").await;
    watch.started("work").await;
    watch.release();
    ends_as(&*store, &id, Status::Completed).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let cause = rescind_tasks::Cause::new(CauseCode::Operator);
    let gone = store.cancel(rescind_tasks::Access::Operator, &TaskId::received(&id), cause).await;
    assert!(matches!(gone, Err(TaskError::NotFound)));
}

// D17: the time that its request had is not the task's.
#[tokio::test(start_paused = true)]
async fn a_task_outlives_the_deadline_of_its_request() {
    let (mut watch, witness) = watch();
    let rig = Rig::memory();
    let tasks = rig.tasks(&witness);
    let mut client = Client::of(&tasks, Style::Extension).await;
    let call = json!({
        "name": "patient", "arguments": { "name": "work" }, "_meta": { "dev.rescind/deadlineMs": 1000 },
    });
    let id = task_id(&client.ask("tools/call", call).await);
    watch.started("work").await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert!(watch.is_quiet());
    watch.release();
    ends_as(&*rig.store, &id, Status::Completed).await;
    assert_eq!(client.status(&id).await, "completed");
}
