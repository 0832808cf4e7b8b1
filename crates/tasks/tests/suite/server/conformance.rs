//! What the official conformance suite checks of a server of the extension, here over a pipe.
//!
//! Its scenarios (`src/scenarios/server/tasks` of `modelcontextprotocol/conformance`) speak HTTP only. Each comment
//! names the scenario and its checks. Not here: `tasks-request-headers`, which is about HTTP itself (TASK-26);
//! `tasks-status-notifications`, which the suite skips; `tasks-mrtr-composition`, a tool that asks before its call
//! becomes a task, which no tool of ours can.

use rescind::{
    mcp::Tool,
    peer::{CauseCode, Context, ErrorObject},
};
use rescind_tasks::{AsTask, Owner, Status, TaskId, TaskStore, TaskSupport, Tasks};
use serde_json::{Value, json};

use super::rig::{
    Client, Piece, Rig, Style, Watch, Witness, ends_as, failing, modern, on_every_store, patient, stubborn, task_id,
    watch, with_tools,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client that declares the extension, of a server with every kind of tool.
async fn client(rig: &Rig) -> (Client, Watch) {
    let (watch, witness) = watch();
    (Client::of(&tasks(rig, &witness), Style::Extension).await, watch)
}

fn tasks(rig: &Rig, witness: &Witness) -> Tasks {
    let tools = [
        patient(witness).task(TaskSupport::Optional),
        stubborn(witness).task(TaskSupport::Required),
        failing().task(TaskSupport::Optional),
        instant().task(TaskSupport::Optional),
        asking().task(TaskSupport::Optional),
    ];
    with_tools(Tasks::builder(std::sync::Arc::clone(&rig.store)), tools).start()
}

/// Has its answer at hand.
fn instant() -> Tool {
    Tool::new("instant", "Answers at once", |_: Piece| async { Ok::<_, ErrorObject>("at once") })
}

/// Asks as many questions at once as its name has letters, and repeats the answers.
fn asking() -> Tool {
    Tool::new("asking", "Asks its client", |Piece { name }: Piece, cx: Context| async move {
        let questions = name.chars().map(|letter| {
            let peer = cx.peer();
            let params =
                json!({ "mode": "form", "message": letter, "requestedSchema": { "type": "object", "properties": {} } });
            tokio::spawn(async move { peer.request::<Value>("elicitation/create", &params).await })
        });
        let mut said = Vec::new();
        for question in questions.collect::<Vec<_>>() {
            let answer = question.await.unwrap()?;
            said.push(answer["content"]["name"].as_str().unwrap_or_default().to_owned());
        }
        Ok::<_, ErrorObject>(said.join(", "))
    })
}

/// What `tasks/get` shows once it shows this.
async fn shown(client: &mut Client, store: &dyn TaskStore, id: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let (owner, task) = (Owner::NONE, TaskId::received(id));
        let revision = store.task(&owner, &task).await.unwrap().revision;
        let found = client.about("tasks/get", id).await["result"].clone();
        if is_it(&found) {
            return found;
        }
        store.changed(&owner, &task, revision).await.unwrap();
    }
}

async fn ended(client: &mut Client, store: &dyn TaskStore, id: &str) -> Value {
    shown(client, store, id, |task| ["completed", "failed", "cancelled"].contains(&status(task))).await
}

fn status(task: &Value) -> &str {
    task["status"].as_str().unwrap_or_default()
}

/// The keys of the questions that a task shows.
fn keys(task: &Value) -> Vec<String> {
    task["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn call(tool: &str, name: &str) -> Value {
    json!({ "name": tool, "arguments": { "name": name } })
}

/// An answer to a question, as people give it.
fn accepted(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// Nothing of a task is in the acknowledgement of an update or cancel.
fn only_acknowledged(answer: &Value) {
    assert_eq!(answer["result"], json!({ "resultType": "complete" }), "{answer}");
}

// tasks-lifecycle: tasks-sync-tool-call. tasks-dispatch-and-envelope: sep-2663-legacy-task-param-ignored.
#[test]
fn a_tool_without_tasks_answers_at_once_whatever_the_call_asks_for() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        for wish in [Value::Null, json!({ "ttl": 60_000, "pollInterval": 100 })] {
            let mut params = call("plain", "World");
            if !wish.is_null() {
                params["task"] = wish;
            }
            let result = client.ask("tools/call", params).await["result"].clone();
            assert_eq!(result["resultType"], "complete", "{result}");
            assert_eq!(result["content"][0]["text"], "plain");
            assert!(result.get("taskId").is_none() && result.get("task").is_none(), "{result}");
        }
    });
}

// tasks-lifecycle: sep-2663-result-type-task-on-create. tasks-dispatch-and-envelope:
// tasks-server-directed-creation-no-hint. tasks-wire-fields: tasks-wire-field-renames. tasks-request-state-removal:
// tasks-create-result-no-request-state.
#[test]
fn a_call_of_a_tool_with_tasks_is_answered_with_a_flat_handle_unasked() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let handle = client.ask("tools/call", call("patient", "work")).await["result"].clone();
        assert_eq!((handle["resultType"].as_str(), status(&handle)), (Some("task"), "working"), "{handle}");
        assert!(handle["taskId"].is_string());
        for time in ["createdAt", "lastUpdatedAt"] {
            assert!(is_iso_8601(&handle[time]), "{time}: {handle}");
        }
        let ttl = handle.get("ttlMs").unwrap();
        assert!(ttl.is_null() || ttl.as_u64() > Some(0), "{handle}");
        assert!(handle["pollIntervalMs"].as_u64() > Some(0), "{handle}");
        for absent in ["task", "result", "error", "inputRequests", "requestState", "ttl", "pollInterval"] {
            assert!(handle.get(absent).is_none(), "{absent}: {handle}");
        }
        watch.started("work").await;
    });
}

fn is_iso_8601(value: &Value) -> bool {
    let shape = value.as_str().unwrap_or_default().bytes().take(19);
    shape.map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).eq(*b"0000-00-00T00:00:00")
}

// tasks-lifecycle: sep-2663-tasks-get-status-working, sep-2663-tasks-get-status-completed. tasks-wire-fields:
// tasks-no-early-ttl-expiry, tasks-no-related-task-meta-on-inlined-result. tasks-request-state-removal:
// tasks-get-detailed-no-request-state.
#[test]
fn a_task_shows_its_status_and_in_the_end_its_result() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        let working = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!((working["taskId"].as_str(), status(&working)), (Some(&*id), "working"));
        for absent in ["result", "error", "inputRequests", "requestState"] {
            assert!(working.get(absent).is_none(), "{absent}: {working}");
        }
        watch.release();
        let done = ended(&mut client, &*rig.store, &id).await;
        assert_eq!(status(&done), "completed");
        assert_eq!(done["result"]["content"][0]["text"], "done");
        assert!(done["result"]["_meta"].get("io.modelcontextprotocol/related-task").is_none(), "{done}");
        assert!(done.get("requestState").is_none(), "{done}");
        assert_eq!(client.about("tasks/get", &id).await["result"], done, "it is kept");
    });
}

// tasks-lifecycle: sep-2663-tool-error-uses-completed-status.
#[test]
fn a_result_that_says_error_completes_its_task() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("failing", "tool").await;
        let task = ended(&mut client, &*rig.store, &id).await;
        assert_eq!((status(&task), &task["result"]["isError"]), ("completed", &json!(true)), "{task}");
        assert!(task.get("error").is_none(), "{task}");
    });
}

// tasks-lifecycle: sep-2663-tasks-get-status-failed.
#[test]
fn an_error_of_the_protocol_fails_its_task() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("failing", "protocol").await;
        let task = ended(&mut client, &*rig.store, &id).await;
        assert_eq!(status(&task), "failed");
        assert_eq!((task["error"]["code"].as_i64(), &task["error"]["message"]), (Some(-1234), &json!("it broke")));
        assert!(task.get("result").is_none(), "{task}");
    });
}

// tasks-lifecycle: sep-2663-cancel-ack-empty-result. The suite only records how the task ends; here the work tells.
#[test]
fn a_cancel_is_acknowledged_without_the_task() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        only_acknowledged(&client.about("tasks/cancel", &id).await);
        watch.stopped("work", CauseCode::Caller).await;
        assert_eq!(status(&ended(&mut client, &*rig.store, &id).await), "cancelled");
    });
}

// tasks-lifecycle: tasks-cancel-terminal-idempotent-ack.
#[test]
fn a_cancel_of_a_task_that_has_ended_gets_the_same_acknowledgement() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("instant", "work").await;
        let done = ended(&mut client, &*rig.store, &id).await;
        only_acknowledged(&client.about("tasks/cancel", &id).await);
        assert_eq!(client.about("tasks/get", &id).await["result"], done, "nothing changed");
    });
}

// tasks-capability-negotiation: tasks-extension-advertised.
#[test]
fn the_extension_is_advertised_and_the_older_capability_is_not() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let found = client.ask("server/discover", json!({})).await["result"]["capabilities"].clone();
        assert!(found["extensions"][EXTENSION].is_object(), "{found}");
        assert!(found.get("tasks").is_none(), "{found}");
    });
}

// tasks-capability-negotiation: sep-2663-tasks-methods-non-declaring.
#[test]
fn a_client_that_did_not_declare_the_extension_has_no_task_methods() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({ "taskId": id, "inputResponses": {} });
            let answer = client.ask_raw(method, modern(params, false)).await;
            assert_eq!(answer["error"]["code"], -32021, "{method}: {answer}");
        }
        assert_eq!(client.status(&id).await, "working");
        assert!(watch.is_quiet(), "the work goes on");
    });
}

// tasks-capability-negotiation: sep-2663-server-rejects-undeclared-client, tasks-per-request-meta-opt-in.
#[test]
fn each_call_becomes_a_task_by_its_own_declaration() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        // The wish of the older dialect is none in this one (TASK-27).
        let mut wish = call("instant", "work");
        wish["task"] = json!({ "ttl": 60_000 });
        let plain = client.ask_raw("tools/call", modern(wish, false)).await["result"].clone();
        assert_eq!(
            (plain["resultType"].as_str(), plain["content"][0]["text"].as_str()),
            (Some("complete"), Some("at once"))
        );
        for absent in ["taskId", "task"] {
            assert!(plain.get(absent).is_none(), "{absent}: {plain}");
        }
        let declared = client.ask_raw("tools/call", modern(call("instant", "work"), true)).await["result"].clone();
        assert_eq!(declared["resultType"], "task", "{declared}");
        assert!(declared["taskId"].is_string() && declared.get("task").is_none(), "{declared}");
    });
}

// tasks-required-task-error: sep-2663-server-returns-missing-capability-when-required,
// sep-2663-server-returns-missing-capability-data-shape.
#[test]
fn a_tool_that_needs_a_task_says_what_its_caller_has_to_declare() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let error = client.ask_raw("tools/call", modern(call("stubborn", "work"), false)).await["error"].clone();
        assert_eq!(error["code"], -32021);
        assert!(error["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object(), "{error}");
        assert!(watch.is_quiet(), "it never began");
    });
}

// tasks-dispatch-and-envelope: sep-2663-tasks-result-removed-method-not-found, tasks-removed-tasks-list.
#[test]
fn methods_of_the_older_dialect_are_not_there() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("instant", "work").await;
        for (method, params) in [("tasks/result", json!({ "taskId": id })), ("tasks/list", json!({}))] {
            assert_eq!(client.ask(method, params).await["error"]["code"], -32601, "{method}");
        }
    });
}

// tasks-dispatch-and-envelope: tasks-immediate-result-shortcut. Either is right; ours is always a task.
#[test]
fn a_call_that_is_done_at_once_is_a_task_that_has_ended() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let answer = client.ask("tools/call", call("instant", "work")).await;
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
        let task = ended(&mut client, &*rig.store, &task_id(&answer)).await;
        assert_eq!(task["result"]["content"][0]["text"], "at once", "{task}");
    });
}

// tasks-dispatch-and-envelope: tasks-result-type-complete-on-non-task-responses. An answer to a question that nobody
// asked is acknowledged, and changes nothing.
#[test]
fn every_answer_but_a_handle_is_complete() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let plain = client.ask("tools/call", call("plain", "work")).await;
        let done = client.begin("instant", "work").await;
        let done = ended(&mut client, &*rig.store, &done).await;
        let long = client.begin("patient", "long").await;
        watch.started("long").await;
        let cancelled = client.about("tasks/cancel", &long).await;
        let asking = client.begin("asking", "a").await;
        let asked = shown(&mut client, &*rig.store, &asking, |task| status(task) == "input_required").await;
        let stray = json!({ "taskId": asking, "inputResponses": { "unknown-key": { "ignored": true } } });
        let updated = client.ask("tasks/update", stray).await;
        only_acknowledged(&updated);
        assert_eq!(client.about("tasks/get", &asking).await["result"]["inputRequests"], asked["inputRequests"]);
        for result in [&plain["result"], &done, &cancelled["result"], &asked] {
            assert_eq!(result["resultType"], "complete", "{result}");
        }
    });
}

// tasks-dispatch-and-envelope: sep-2663-durable-create-strong-consistency. Here for another process, too.
#[test]
fn a_task_can_be_read_elsewhere_before_its_handle_is_written() {
    on_every_store(async |rig| {
        let (mut client, mut watch) = client(&rig).await;
        let elsewhere = rig.elsewhere();
        let handle = client.ask("tools/call", call("patient", "work")).await;
        let id = task_id(&handle);
        assert_eq!(elsewhere.task(&Owner::NONE, &TaskId::received(&id)).await.unwrap().summary.status, Status::Working);
        assert_eq!(client.about("tasks/get", &id).await["result"]["taskId"], id);
        watch.started("work").await;
    });
}

// tasks-dispatch-and-envelope: sep-2663-tasks-get-invalid-task-id-32602.
#[test]
fn an_unknown_task_is_an_invalid_param() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({ "taskId": "not-a-task-of-anybody", "inputResponses": {} });
            assert_eq!(client.ask(method, params).await["error"]["code"], -32602, "{method}");
        }
    });
}

// tasks-mrtr-input: sep-2663-tasks-get-status-input-required, tasks-mrtr-tasks-update-resumes.
#[test]
fn a_task_that_asks_shows_its_question_and_goes_on_with_the_answer() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("asking", "a").await;
        let asked = shown(&mut client, &*rig.store, &id, |task| status(task) == "input_required").await;
        let keys = keys(&asked);
        assert_eq!(keys.len(), 1, "{asked}");
        assert_eq!(asked["inputRequests"][&keys[0]]["method"], "elicitation/create");
        assert_eq!(asked["inputRequests"][&keys[0]]["params"]["message"], "a");
        let answers = json!({ "taskId": id, "inputResponses": { &keys[0]: accepted("Alice") } });
        only_acknowledged(&client.ask("tasks/update", answers).await);
        let done = ended(&mut client, &*rig.store, &id).await;
        assert_eq!((status(&done), &done["result"]["content"][0]["text"]), ("completed", &json!("Alice")), "{done}");
    });
}

// tasks-mrtr-input: tasks-mrtr-partial-fulfillment.
#[test]
fn a_task_that_asks_twice_waits_for_what_is_still_unanswered() {
    on_every_store(async |rig| {
        let (mut client, _watch) = client(&rig).await;
        let id = client.begin("asking", "ab").await;
        let asked = shown(&mut client, &*rig.store, &id, |task| keys(task).len() == 2).await;
        let key = |message: &str| {
            let is_it = |key: &&String| asked["inputRequests"][*key]["params"]["message"] == message;
            keys(&asked).iter().find(is_it).unwrap().clone()
        };
        let (first, second) = (key("a"), key("b"));
        let answer = json!({ "taskId": id, "inputResponses": { &first: accepted("one") } });
        only_acknowledged(&client.ask("tasks/update", answer).await);
        let partly = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!((status(&partly), keys(&partly)), ("input_required", vec![second.clone()]), "{partly}");
        let answer = json!({ "taskId": id, "inputResponses": { &second: accepted("two") } });
        only_acknowledged(&client.ask("tasks/update", answer).await);
        let done = ended(&mut client, &*rig.store, &id).await;
        assert_eq!(done["result"]["content"][0]["text"], "one, two", "{done}");
        ends_as(&*rig.store, &id, Status::Completed).await;
    });
}
