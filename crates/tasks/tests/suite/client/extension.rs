//! TaskClient of the extension, followed to their end.

use rescind::{
    mcp::ToolResult,
    peer::{ErrorObject, Peer, dialect::mcp},
};
use rescind_tasks::client::{TaskCallError, TaskClient};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::{mpsc, oneshot},
};

use super::rig::{Rig, TASK, content, handle, modern, secs, shown_modern, taking};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn declares(request: &Value) -> bool {
    let meta = &request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        && meta["io.modelcontextprotocol/clientCapabilities"]["extensions"][EXTENSION].is_object()
}

fn question(key: &str) -> Value {
    json!({ key: { "method": "elicitation/create", "params": { "message": key } } })
}

async fn answer_look(rig: &mut Rig, status: &str, besides: Value) {
    let asked = rig.wire.asked_of_task("tasks/get").await;
    assert!(declares(&asked), "{asked}");
    rig.wire.result(&asked, shown_modern(status, besides)).await;
}

/// TASK-20, TASK-24, TASK-27: the extension is declared with each request, and nothing of 2025-11-25 is.
#[tokio::test(start_paused = true)]
async fn a_server_decides_between_a_result_and_a_task() {
    let mut rig = modern().await;
    let call = tokio::spawn(rig.tasks.call_tool("build", &json!({ "target": "all" })));
    let asked = rig.wire.asked("tools/call").await;
    assert!(declares(&asked) && asked["params"].get("task").is_none(), "{asked}");
    assert_eq!(asked["params"]["arguments"], json!({ "target": "all" }));
    assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "tester");
    rig.wire.result(&asked, content("built")).await;
    call.await.unwrap().unwrap();

    let call = tokio::spawn(rig.tasks.call_tool("build", &()));
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, handle()).await;
    let ((), after) = taking(answer_look(&mut rig, "working", json!({}))).await;
    assert_eq!(after, secs(5));
    // TASK-25: an error of the tool is a result.
    let result = json!({ "content": [], "isError": true });
    answer_look(&mut rig, "completed", json!({ "result": result })).await;
    let result: ToolResult = call.await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(result).unwrap()["isError"], true);
    assert!(rig.wire.is_quiet().await, "there is no `tasks/result` (TASK-20)");
}

/// TASK-25: failed is an error of the protocol.
#[tokio::test(start_paused = true)]
async fn a_task_that_ends_without_a_result_ends_the_call_with_its_error() {
    let cases = [
        ("failed", json!({ "error": { "code": -32050, "message": "no" } })),
        ("cancelled", json!({})),
        ("completed", json!({})),
    ];
    for (status, besides) in cases {
        let mut rig = modern().await;
        let call = tokio::spawn(rig.tasks.call_tool("build", &()));
        let asked = rig.wire.asked("tools/call").await;
        rig.wire.result(&asked, handle()).await;
        answer_look(&mut rig, status, besides).await;
        let error = call.await.unwrap().unwrap_err();
        match status {
            "failed" => assert!(matches!(error, TaskCallError::Peer(error) if error.code == -32050)),
            "cancelled" => assert!(matches!(error, TaskCallError::CancelledElsewhere { .. }), "{error}"),
            _ => assert!(matches!(error, TaskCallError::Unreadable(_)), "{error}"),
        }
        assert!(rig.wire.is_quiet().await);
    }
}

/// Case 58. TASK-20: each question is asked once, however often it is shown, and answered as soon as it can be.
#[tokio::test(start_paused = true)]
async fn questions_of_a_task_are_answered_once_each() {
    let mut rig = modern().await;
    let (ask, mut asked_of) = mpsc::unbounded_channel();
    let call = rig.tasks.call_tool("build", &()).on_input(move |question| {
        let (answer, answered) = oneshot::channel::<Value>();
        ask.send((question, answer)).unwrap();
        async { answered.await.map_err(|_| ErrorObject::internal("nobody")) }
    });
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, handle()).await;
    answer_look(&mut rig, "input_required", json!({ "inputRequests": question("name") })).await;
    let (asks, name) = asked_of.recv().await.unwrap();
    assert_eq!(
        (&*asks.key, &*asks.method, &asks.params),
        ("name", "elicitation/create", &json!({ "message": "name" }))
    );
    let mut both = question("name");
    both.as_object_mut().unwrap().extend(question("age").as_object().unwrap().clone());
    answer_look(&mut rig, "input_required", json!({ "inputRequests": both })).await;
    let (asks, age) = asked_of.recv().await.unwrap();
    assert_eq!(asks.key, "age", "the other is not asked again");

    name.send(json!({ "action": "accept", "content": { "name": "Ada" } })).unwrap();
    let (asked, after) = taking(rig.wire.asked_of_task("tasks/update")).await;
    assert_eq!(after, secs(0));
    assert!(declares(&asked));
    let responses = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(asked["params"]["inputResponses"], responses);
    rig.wire.result(&asked, json!({ "resultType": "complete" })).await;
    // Shown once more: the acknowledgement is eventually consistent.
    answer_look(&mut rig, "input_required", json!({ "inputRequests": question("age") })).await;
    // What the task does not ask any more needs no answer.
    answer_look(&mut rig, "working", json!({})).await;
    while !age.is_closed() {
        tokio::task::yield_now().await;
    }
    answer_look(&mut rig, "completed", json!({ "result": content("hello") })).await;
    call.await.unwrap().unwrap();
    assert!(asked_of.recv().await.is_none());
}

/// Case 58: who is being asked is not asked any longer, and the task is cancelled.
#[tokio::test(start_paused = true)]
async fn a_cancel_while_a_question_is_open_withdraws_the_question() {
    let mut rig = modern().await;
    let (mut open, opened) = {
        let (sender, receiver) = oneshot::channel::<Value>();
        (sender, receiver)
    };
    let mut opened = Some(opened);
    let (tell, told) = oneshot::channel();
    let mut tell = Some(tell);
    let call = rig.tasks.call_tool("build", &()).on_input(move |_| {
        tell.take().unwrap().send(()).unwrap();
        let answered = opened.take().unwrap();
        async { answered.await.map_err(|_| ErrorObject::internal("nobody")) }
    });
    let stop = call.handle();
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, handle()).await;
    answer_look(&mut rig, "input_required", json!({ "inputRequests": question("name") })).await;
    told.await.unwrap();
    drop(stop.cancel(""));
    assert!(call.await.unwrap().unwrap_err().is_cancelled());
    open.closed().await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    assert!(declares(&asked));
}

/// A question that nobody answers is not waited for for ever.
#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_cancels_the_task() {
    for is_asked in [false, true] {
        let mut rig = modern().await;
        let call = rig.tasks.call_tool("build", &());
        let call = if is_asked { call.on_input(|_| async { Err(ErrorObject::new(7, "no")) }) } else { call };
        let call = tokio::spawn(call);
        let asked = rig.wire.asked("tools/call").await;
        rig.wire.result(&asked, handle()).await;
        answer_look(&mut rig, "input_required", json!({ "inputRequests": question("name") })).await;
        rig.wire.asked_of_task("tasks/cancel").await;
        let code = if is_asked { 7 } else { -32601 };
        assert!(matches!(call.await.unwrap(), Err(TaskCallError::Unanswered(error)) if error.code == code));
    }
}

/// What the caller says of itself goes along, and who has no client declares the extension all the same.
#[tokio::test(start_paused = true)]
async fn a_bare_peer_declares_the_extension_too() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    let tasks = TaskClient::of_peer(&peer);
    let params = json!({ "name": "build", "arguments": { "exact": 1 }, "_meta": { "progressToken": "mine" } });
    let call = tasks.request::<Value>("tools/call", &params).send();
    let mut line = String::new();
    BufReader::new(far).read_line(&mut line).await.unwrap();
    let asked: Value = serde_json::from_str(&line).unwrap();
    assert!(declares(&asked), "{asked}");
    assert_eq!(asked["params"]["_meta"]["progressToken"], "mine");
    assert_eq!(asked["params"]["name"], "build");
    assert_eq!(TASK.len(), 8);
    drop(call);
}
