//! What work asks its client.

use std::sync::Arc;

use rescind::{
    mcp::Tool,
    peer::{CauseCode, Context},
};
use rescind_tasks::{AsTask, Status, TaskSupport, TaskTool, Tasks};
use serde_json::{Value, json};

use super::rig::{Client, Piece, Rig, Style, Witness, ends_as, on_every_store, watch};

/// Asks for a name, and greets.
fn asking(witness: &Witness) -> TaskTool {
    let witness = witness.clone();
    Tool::new("asking", "Asks", move |piece: Piece, cx: Context| {
        let guard = witness.guard(&piece);
        async move {
            let question = json!({ "message": "Who are you?", "requestedSchema": { "type": "object" } });
            let answer = cx.peer().request::<Value>("elicitation/create", &question).await;
            if cx.is_cancelled() {
                guard.fired(&cx);
            }
            answer.map(|answer| format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("nobody")))
        }
    })
    .task(TaskSupport::Optional)
}

fn tasks(rig: &Rig, witness: &Witness) -> Tasks {
    Tasks::builder(Arc::clone(&rig.store)).tool(asking(witness)).start()
}

fn ada() -> Value {
    json!({ "action": "accept", "content": { "name": "Ada" } })
}

/// The next of what the server asks.
async fn question(client: &mut Client) -> Value {
    loop {
        let message = client.next_heard().await;
        if message["method"] == "elicitation/create" {
            return message;
        }
    }
}

// TASK-01, TASK-10.
#[test]
fn in_2025_11_25_a_question_is_a_request_that_names_its_task() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = tasks(&rig, &witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("asking", "work").await;
        watch.started("work").await;
        assert_eq!(client.next_heard().await["params"]["status"], "input_required");
        let asked = client.next_heard().await;
        assert_eq!(
            (&asked["method"], &asked["params"]["message"]),
            (&json!("elicitation/create"), &json!("Who are you?"))
        );
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": id }));
        assert_eq!(client.status(&id).await, "input_required");
        client.wire.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": ada() })).await;
        let result = client.about("tasks/result", &id).await;
        assert_eq!(result["result"]["content"][0]["text"], "Hello, Ada!");
        for status in ["working", "completed"] {
            assert_eq!(client.next_heard().await["params"]["status"], status);
        }
    });
}

// TASK-01, TASK-20.
#[test]
fn with_the_extension_a_question_waits_in_the_task_for_its_answer() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = tasks(&rig, &witness);
        let mut client = Client::of(&tasks, Style::Extension).await;
        let id = client.begin("asking", "work").await;
        watch.started("work").await;
        asks(&rig, &id).await;
        let task = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!(task["status"], "input_required");
        let (key, asked) = task["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(
            (&asked["method"], &asked["params"]["message"]),
            (&json!("elicitation/create"), &json!("Who are you?"))
        );
        let unknown = json!({ "taskId": id, "inputResponses": { "unknown": ada() } });
        assert_eq!(client.ask("tasks/update", unknown).await["result"], json!({ "resultType": "complete" }));
        assert_eq!(client.status(&id).await, "input_required");
        let update = json!({ "taskId": id, "inputResponses": { key: ada() } });
        assert_eq!(client.ask("tasks/update", update.clone()).await["result"], json!({ "resultType": "complete" }));
        ends_as(&*rig.store, &id, Status::Completed).await;
        let task = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!(task["result"]["content"][0]["text"], "Hello, Ada!");
        assert_eq!(client.ask("tasks/update", update).await["result"], json!({ "resultType": "complete" }), "too late");
        assert!(client.heard.is_empty(), "MCP-M03: the server asks nothing by itself");
    });
}

// Case 58.
#[test]
fn a_cancel_stops_work_that_waits_for_its_client() {
    on_every_store(async |rig| {
        for style in [Style::November, Style::Extension] {
            let (mut watch, witness) = watch();
            let tasks = tasks(&rig, &witness);
            let mut client = Client::of(&tasks, style).await;
            let id = client.begin("asking", "work").await;
            watch.started("work").await;
            asks(&rig, &id).await;
            let asked = if style == Style::November { question(&mut client).await } else { Value::Null };
            client.cancel(&id).await;
            watch.stopped("work", CauseCode::Caller).await;
            ends_as(&*rig.store, &id, Status::Cancelled).await;
            if style == Style::November {
                // D26: the question is taken back.
                while client.next_heard().await["params"]["requestId"] != asked["id"] {}
            }
        }
    });
}

// The question of a client that is gone waits for whoever asks for the result.
#[test]
fn a_question_goes_to_whoever_follows_the_task_now() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = tasks(&rig, &witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("asking", "work").await;
        watch.started("work").await;
        question(&mut client).await;
        let server = client.server.clone();
        drop(client);
        server.closed().await;
        let mut next = Client::of(&tasks, Style::November).await;
        assert_eq!(next.status(&id).await, "input_required");
        let waiting = next.send("tasks/result", json!({ "taskId": id })).await;
        let asked = question(&mut next).await;
        next.wire.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": ada() })).await;
        assert_eq!(next.answer(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
    });
}

/// Until the task waits for its client.
async fn asks(rig: &Rig, id: &str) {
    let (owner, id) = (rescind_tasks::Owner::NONE, rescind_tasks::TaskId::received(id));
    let mut task = rig.store.task(&owner, &id).await.unwrap();
    while task.summary.status != Status::InputRequired {
        task = rig.store.changed(&owner, &id, task.revision).await.unwrap();
    }
}
