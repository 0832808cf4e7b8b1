//! What work asks its client.

use std::sync::Arc;

use rescind::{
    mcp::{Preparation, Tool},
    peer::{CauseCode, Context, ErrorObject},
};
use rescind_tasks::{AsTask, Owner, Status, TaskDialect, TaskSupport, TaskTool, Tasks};
use serde_json::{Value, json};

use super::rig::{Client, Piece, Rig, Style, Witness, ends_as, modern, notification, on_every_store, task_id, watch};

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

/// Greets whom it has asked for before there is a task.
fn greeting(witness: &Witness, support: TaskSupport) -> TaskTool {
    let (asking, working) = (witness.clone(), witness.clone());
    let greet = move |piece: Piece| {
        let guard = working.guard(&piece);
        async move {
            drop(guard);
            Ok::<_, ErrorObject>(format!("Hello, {}!", piece.name))
        }
    };
    let ask = move |piece: Piece, cx: Context| {
        let guard = asking.guard(&piece);
        async move {
            let question = json!({ "message": "Who are you?", "requestedSchema": { "type": "object" } });
            let answer = cx.ask::<Value>("elicitation/create", &question).await;
            if cx.is_cancelled() {
                guard.fired(&cx);
            }
            answer.map(|answer| json!({ "name": answer["content"]["name"] }))
        }
    };
    Tool::new("greeting", "Greets", greet).task(support).prepared_by(Preparation::new(ask))
}

fn greeting_tasks(rig: &Rig, witness: &Witness, support: TaskSupport) -> Tasks {
    Tasks::builder(Arc::clone(&rig.store)).tool(greeting(witness, support)).start()
}

/// Calls `greeting` with the extension, as a client that can be asked.
async fn call_greeting(client: &mut Client, more: Value) -> Value {
    let mut params = modern(json!({ "name": "greeting", "arguments": { "name": "question" } }), true);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] = json!({});
    params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    client.ask_raw("tools/call", params).await
}

/// Calls it, and gives what the next round is to add to its params.
async fn until_asked(client: &mut Client) -> Value {
    let asked = call_greeting(client, json!({})).await["result"].clone();
    assert_eq!((&asked["resultType"], &asked["taskId"]), (&json!("input_required"), &Value::Null));
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    json!({ "requestState": asked["requestState"], "inputResponses": { key: ada() } })
}

// TASK-23, D48.
#[test]
fn with_the_extension_what_is_asked_before_a_task_exists_is_an_argument_of_its_work() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = greeting_tasks(&rig, &witness, TaskSupport::Required);
        let mut client = Client::of(&tasks, Style::Extension).await;
        let answer = until_asked(&mut client).await;
        watch.started("question").await;
        let created = call_greeting(&mut client, answer).await;
        watch.gone("question").await;
        let said = &created["result"];
        assert_eq!((&said["requestState"], &said["inputRequests"]), (&Value::Null, &Value::Null));
        let id = task_id(&created);
        watch.started("Ada").await;
        watch.gone("Ada").await;
        ends_as(&*rig.store, &id, Status::Completed).await;
        let task = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!(task["result"]["content"][0]["text"], "Hello, Ada!");
    });
}

// MCP-C13: a call that asks for a task could not be cancelled before there is one.
#[test]
fn in_2025_11_25_there_is_a_task_before_anything_is_asked() {
    on_every_store(async |rig| {
        for is_cancelled in [false, true] {
            let (mut watch, witness) = watch();
            let tasks = greeting_tasks(&rig, &witness, TaskSupport::Required);
            let mut client = Client::of(&tasks, Style::November).await;
            let id = client.begin("greeting", "question").await;
            watch.started("question").await;
            let asked = question(&mut client).await;
            assert_eq!(client.status(&id).await, "input_required");
            if is_cancelled {
                client.cancel(&id).await;
                watch.stopped("question", CauseCode::Caller).await;
                ends_as(&*rig.store, &id, Status::Cancelled).await;
                assert!(watch.is_quiet(), "the tool was called");
                continue;
            }
            client.wire.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": ada() })).await;
            watch.gone("question").await;
            watch.started("Ada").await;
            let result = client.about("tasks/result", &id).await;
            assert_eq!(result["result"]["content"][0]["text"], "Hello, Ada!");
        }
    });
}

// Case 58.
#[test]
fn a_client_that_does_not_answer_what_is_asked_before_its_task_gets_none() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = greeting_tasks(&rig, &witness, TaskSupport::Required);
        let mut client = Client::of(&tasks, Style::Extension).await;
        let answer = until_asked(&mut client).await;
        watch.started("question").await;
        let abandoned = json!({ "requestState": answer["requestState"] });
        client.wire.say(&notification("notifications/dev.rescind/abandoned", abandoned)).await;
        watch.stopped("question", CauseCode::Caller).await;
        client.barrier().await;
        assert!(watch.is_quiet(), "the tool was called");
        let page = rig.store.list(&Owner::NONE, TaskDialect::Extension, None, usize::MAX).await.unwrap();
        assert!(page.tasks.is_empty());
    });
}

#[test]
fn a_call_that_becomes_no_task_is_prepared_as_well() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = greeting_tasks(&rig, &witness, TaskSupport::Optional);
        let mut client = Client::of(&tasks, Style::November).await;
        let params = json!({ "name": "greeting", "arguments": { "name": "question" } });
        let sent = client.send_raw("tools/call", params).await;
        watch.started("question").await;
        let asked = question(&mut client).await;
        client.wire.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": ada() })).await;
        assert_eq!(client.answer(sent).await["result"]["content"][0]["text"], "Hello, Ada!");
    });
}

#[test]
fn a_client_that_cannot_have_a_task_is_not_asked_first() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = greeting_tasks(&rig, &witness, TaskSupport::Required);
        let mut client = Client::of(&tasks, Style::November).await;
        let params = json!({ "name": "greeting", "arguments": { "name": "question" } });
        assert_eq!(client.ask_raw("tools/call", params).await["error"]["code"], -32601);
        assert!(watch.is_quiet());
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
