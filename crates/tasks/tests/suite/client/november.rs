//! TaskClient of 2025-11-25, followed to their end.

use rescind::{
    mcp::{Client, ToolInfo, ToolResult},
    peer::{CallError, RawParams},
};
use rescind_tasks::{
    Status, TaskId,
    client::{TaskCallError, TaskClient},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::rig::{Rig, TASK, all, content, created, november, november_with, secs, shown, taking};

/// A task that is `working`, and whoever awaits it.
async fn begun(rig: &mut Rig) -> tokio::task::JoinHandle<Result<ToolResult, TaskCallError>> {
    let call = tokio::spawn(rig.tasks.call_tool("build", &json!({ "target": "all" })).ttl(secs(60)));
    let asked = rig.wire.asked("tools/call").await;
    assert_eq!(
        asked["params"],
        json!({ "name": "build", "arguments": { "target": "all" }, "task": { "ttl": 60_000 } })
    );
    rig.wire.result(&asked, created()).await;
    call
}

fn text(result: &ToolResult) -> Value {
    serde_json::to_value(result).unwrap()["content"][0]["text"].clone()
}

/// TASK-01, TASK-06, TASK-10.
#[tokio::test(start_paused = true)]
async fn a_task_is_polled_at_its_servers_interval_and_its_result_is_the_calls() {
    let mut rig = november(all()).await;
    let call = begun(&mut rig).await;
    for _ in 0..3 {
        let (asked, after) = taking(rig.wire.asked_of_task("tasks/get")).await;
        assert_eq!(after, secs(5));
        rig.wire.result(&asked, shown("working")).await;
    }
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("completed")).await;
    let (asked, after) = taking(rig.wire.asked_of_task("tasks/result")).await;
    assert_eq!(after, secs(0));
    rig.wire.result(&asked, content("built")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "built");
    assert!(rig.wire.is_quiet().await, "what has ended is not cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_polled_at_once_after_a_notification() {
    let mut rig = november(all()).await;
    let call = begun(&mut rig).await;
    assert!(rig.wire.is_quiet().await);
    rig.wire.notify("notifications/tasks/status", json!({ "taskId": "another", "status": "completed" })).await;
    assert!(rig.wire.is_quiet().await, "it is another's");
    rig.wire.notify("notifications/tasks/status", shown("completed")).await;
    let (asked, after) = taking(rig.wire.asked_of_task("tasks/get")).await;
    assert_eq!(after, secs(0));
    rig.wire.result(&asked, shown("completed")).await;
    let asked = rig.wire.asked_of_task("tasks/result").await;
    rig.wire.result(&asked, content("built")).await;
    call.await.unwrap().unwrap();
}

/// Case 58. TASK-06: the result is waited for as long as it takes, while the server asks what it has to.
#[tokio::test(start_paused = true)]
async fn a_task_that_asks_is_waited_for_while_its_questions_are_answered() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let builder = Client::peer_builder().on_request("elicitation/create", move |RawParams(params): RawParams| {
        let _ = tell.send(serde_json::from_str::<Value>(params.get()).unwrap());
        async { Ok::<_, rescind::peer::ErrorObject>(json!({ "action": "accept" })) }
    });
    let mut rig = november_with(builder, all()).await;
    let call = begun(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("input_required")).await;
    let waits = rig.wire.asked_of_task("tasks/result").await;
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": TASK } });
    let question = json!({ "message": "name?", "_meta": related });
    rig.wire.say(&json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": question })).await;
    assert_eq!(rig.wire.hear().await["result"], json!({ "action": "accept" }));
    assert_eq!(told.recv().await.unwrap()["_meta"], related);
    tokio::time::advance(secs(3600)).await;
    assert!(rig.wire.is_quiet().await, "no clock runs while people are asked (D16)");
    rig.wire.result(&waits, content("hello")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "hello");
}

/// TASK-06, TASK-12: a task that failed gives what the request would have given.
#[tokio::test(start_paused = true)]
async fn a_failed_task_ends_with_its_error_or_with_the_tools_own() {
    let mut rig = november(all()).await;
    let call = begun(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("failed")).await;
    let asked = rig.wire.asked_of_task("tasks/result").await;
    rig.wire.error(&asked, -32050).await;
    assert!(matches!(call.await.unwrap(), Err(TaskCallError::Peer(error)) if error.code == -32050));

    let call = begun(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("failed")).await;
    let asked = rig.wire.asked_of_task("tasks/result").await;
    rig.wire.result(&asked, json!({ "content": [], "isError": true })).await;
    assert_eq!(serde_json::to_value(call.await.unwrap().unwrap()).unwrap()["isError"], true);
    assert!(rig.wire.is_quiet().await);
}

/// TASK-04.
#[tokio::test(start_paused = true)]
async fn a_task_cancelled_elsewhere_is_reported_as_such() {
    let mut rig = november(all()).await;
    let call = begun(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("cancelled")).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, TaskCallError::CancelledElsewhere { task, message }
            if task.as_str() == TASK && message.as_deref() == Some("it is cancelled")),
        "{error}"
    );
    assert!(rig.wire.is_quiet().await);
}

/// D38: the same, told by the error that our servers answer while the result is waited for.
#[tokio::test(start_paused = true)]
async fn a_task_cancelled_during_the_wait_for_its_result_is_reported_as_such() {
    let mut rig = november(all()).await;
    let call = begun(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("input_required")).await;
    let asked = rig.wire.asked_of_task("tasks/result").await;
    rig.wire.error(&asked, -32800).await;
    assert!(matches!(call.await.unwrap(), Err(TaskCallError::CancelledElsewhere { .. })));
}

/// Case 55. TASK-07.
#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_an_error_of_its_own_and_nothing_is_cancelled() {
    let mut rig = november(all()).await;
    let task = TaskId::received(TASK);
    let call = tokio::spawn(rig.tasks.follow::<Value>(&task));
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.error(&asked, -32602).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(&error, TaskCallError::Unknown { task, .. } if task.as_str() == TASK), "{error}");
    assert!(rig.wire.is_quiet().await);
}

/// TASK-11: such a request is no task, and the notification is right for it.
#[tokio::test(start_paused = true)]
async fn a_server_without_task_support_gets_an_ordinary_call() {
    for declared in [json!({}), json!({ "cancel": {}, "requests": { "sampling": { "createMessage": {} } } })] {
        let mut rig = november(declared).await;
        let call = tokio::spawn(rig.tasks.call_tool("build", &()));
        let asked = rig.wire.asked("tools/call").await;
        assert_eq!(asked["params"], json!({ "name": "build" }));
        // TASK-27: under 2025-11-25 this is no handle.
        let result = json!({ "content": [], "resultType": "task", "taskId": TASK, "task": created()["task"] });
        rig.wire.result(&asked, result).await;
        call.await.unwrap().unwrap();

        let call = rig.tasks.call_tool("build", &()).send();
        let asked = rig.wire.asked("tools/call").await;
        drop(call);
        let cancel = rig.wire.asked("notifications/cancelled").await;
        assert_eq!(cancel["params"]["requestId"], asked["id"]);
        assert!(rig.wire.is_quiet().await);
    }
}

/// TASK-11: what a tool says of itself counts beside the server's capability.
#[tokio::test(start_paused = true)]
async fn a_tool_is_called_as_a_task_only_if_it_supports_that() {
    let mut rig = november(all()).await;
    for (support, is_task) in [("optional", true), ("required", true), ("forbidden", false)] {
        let tool = json!({ "name": "build", "execution": { "taskSupport": support } });
        let tool: ToolInfo = serde_json::from_value(tool).unwrap();
        let call = rig.tasks.tool(&tool, &()).detach();
        assert_eq!(rig.wire.asked("tools/call").await["params"].get("task").is_some(), is_task, "{support}");
        drop(call);
    }
    let silent: ToolInfo = serde_json::from_value(json!({ "name": "build" })).unwrap();
    let call = rig.tasks.tool(&silent, &()).detach();
    assert!(rig.wire.asked("tools/call").await["params"].get("task").is_none());
    drop(call);
}

/// A server may answer at once all the same.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_a_handle_is_the_result() {
    let mut rig = november(all()).await;
    let call = tokio::spawn(rig.tasks.call_tool("build", &()));
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, content("built")).await;
    assert_eq!(text(&call.await.unwrap().unwrap()), "built");
    let call = tokio::spawn(rig.tasks.call_tool("build", &()));
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.error(&asked, -32601).await;
    assert!(matches!(call.await.unwrap(), Err(TaskCallError::Peer(error)) if error.code == -32601));
}

/// Case 60, the client's part: the task outlives the connection, and is followed by its id.
#[tokio::test(start_paused = true)]
async fn a_task_is_followed_by_its_id_after_the_connection_has_ended() {
    let mut first = november(all()).await;
    let call = first.tasks.call_tool("build", &());
    let stop = call.handle();
    let call = tokio::spawn(call);
    let asked = first.wire.asked("tools/call").await;
    first.wire.result(&asked, created()).await;
    first.wire.asked_of_task("tasks/get").await;
    drop(first.wire);
    let error = call.await.unwrap().unwrap_err();
    let TaskCallError::Call { task: Some(task), error: CallError::Closed } = error else { panic!("{error}") };
    assert_eq!(stop.task().as_ref(), Some(&task));

    let mut second = november(all()).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let call = second.tasks.follow::<Value>(&task).on_status(move |state| tell.send(state.status).unwrap());
    let call = tokio::spawn(call);
    for status in ["working", "working", "completed"] {
        let asked = second.wire.asked_of_task("tasks/get").await;
        second.wire.result(&asked, shown(status)).await;
    }
    let asked = second.wire.asked_of_task("tasks/result").await;
    second.wire.result(&asked, content("built")).await;
    assert_eq!(call.await.unwrap().unwrap(), content("built"));
    assert_eq!(told.recv().await, Some(Status::Working));
    assert_eq!(told.recv().await, Some(Status::Completed), "each new state once");
    assert_eq!(told.recv().await, None);
}

/// TASK-07, TASK-09.
#[tokio::test(start_paused = true)]
async fn tasks_are_listed_page_by_page() {
    let mut rig = november(all()).await;
    let tasks = rig.tasks.clone();
    let listed =
        tokio::spawn(async move { (tasks.list(None).await, tasks.list(Some("2")).await, tasks.list(Some("?")).await) });
    let asked = rig.wire.asked("tasks/list").await;
    assert!(asked["params"].get("cursor").is_none());
    rig.wire.result(&asked, json!({ "tasks": [shown("working")], "nextCursor": "2" })).await;
    let asked = rig.wire.asked("tasks/list").await;
    assert_eq!(asked["params"]["cursor"], "2");
    rig.wire.result(&asked, json!({ "tasks": [] })).await;
    let asked = rig.wire.asked("tasks/list").await;
    rig.wire.error(&asked, -32602).await;
    let (first, last, bad) = listed.await.unwrap();
    let first = first.unwrap();
    assert_eq!(first.next_cursor.as_deref(), Some("2"));
    assert_eq!((first.tasks[0].id.as_str(), first.tasks[0].ttl), (TASK, Some(secs(60))));
    assert_eq!(first.tasks[0].created.as_deref(), Some("2025-11-25T10:30:00Z"));
    assert!(last.unwrap().next_cursor.is_none());
    assert!(matches!(bad, Err(CallError::Peer(error)) if error.code == -32602));
}

/// Whose params are no object is told before anything is sent.
#[tokio::test(start_paused = true)]
async fn params_that_are_not_an_object_are_rejected_before_sending() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &[1, 2]);
    assert!(matches!(call.await, Err(TaskCallError::Params(_))));
    assert!(rig.wire.is_quiet().await);
    let plain = TaskClient::of_peer(rig.client.peer());
    let call = tokio::spawn(plain.request::<Value>("tools/call", &json!({ "name": "x" })));
    let asked = rig.wire.asked("tools/call").await;
    assert_eq!(asked["params"]["task"], json!({}));
    rig.wire.result(&asked, json!({})).await;
    call.await.unwrap().unwrap();
}
