//! A cancel of a task stops its work, and nothing else does.

use std::{process::Stdio, sync::Arc};

use rescind::peer::{CauseCode, Context, ErrorObject, Rule};
use rescind_tasks::{AsTask, Status, TaskSupport, Tasks};
use serde_json::json;

use super::rig::{
    Client, Rig, STYLES, Style, ends_as, notification, on_every_store, partial, settled, stubborn, watch,
};

// Case 52. TASK-03, TASK-05, TASK-21.
#[test]
fn a_cancel_stops_the_work_of_its_task_and_of_no_other() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, style).await;
            let (first, second) = (client.begin("patient", "first").await, client.begin("patient", "second").await);
            watch.started("first").await;
            watch.started("second").await;

            client.cancel(&first).await;
            watch.stopped("first", CauseCode::Caller).await;
            ends_as(&*rig.store, &first, Status::Cancelled).await;
            assert_eq!(client.status(&first).await, "cancelled");
            assert_eq!(client.status(&second).await, "working");
            assert!(watch.is_quiet(), "the other goes on");
            watch.release();
            watch.gone("second").await;
            ends_as(&*rig.store, &second, Status::Completed).await;
        }
    });
}

// Case 52: another connection; for the store in a file, another process's view of it.
#[test]
fn a_cancel_through_another_server_reaches_the_work() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let (here, there) = (rig.tasks(&witness), Tasks::builder(rig.elsewhere()).start());
            let mut client = Client::of(&here, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            let mut other = Client::of(&there, style).await;
            other.cancel(&id).await;
            watch.stopped("work", CauseCode::Caller).await;
            ends_as(&*rig.store, &id, Status::Cancelled).await;
        }
    });
}

// Case 53. TASK-04, TASK-06, D38.
#[test]
fn what_a_cancelled_task_still_produced_is_its_result_and_its_status_stays() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("partial", "work").await;
        watch.started("work").await;
        let waiting = client.send("tasks/result", json!({ "taskId": id })).await;
        client.cancel(&id).await;
        watch.stopped("work", CauseCode::Caller).await;
        let result = client.answer(waiting).await["result"].clone();
        assert_eq!(result["content"][0]["text"], "half of it");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": id }), "TASK-10");
        assert_eq!(client.status(&id).await, "cancelled");
    });
}

// TASK-06, D38.
#[test]
fn a_task_that_ended_by_the_cancel_has_an_error_for_a_result() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        client.cancel(&id).await;
        watch.stopped("work", CauseCode::Caller).await;
        let error = client.about("tasks/result", &id).await["error"].clone();
        assert_eq!((error["code"].as_i64(), error["message"].as_str()), (Some(-32800), Some("Task cancelled")));
    });
}

// Case 53. TASK-21: with the extension the work has the last word.
#[test]
fn with_the_extension_work_that_ends_well_after_a_cancel_is_completed() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::Extension).await;
        let id = client.begin("partial", "work").await;
        watch.started("work").await;
        client.cancel(&id).await;
        watch.stopped("work", CauseCode::Caller).await;
        ends_as(&*rig.store, &id, Status::Completed).await;
        let task = client.about("tasks/get", &id).await["result"].clone();
        assert_eq!(task["result"]["content"][0]["text"], "half of it");
    });
}

// Case 54. TASK-02, TASK-22.
#[test]
fn a_cancel_of_a_task_that_has_ended_is_answered_as_its_dialect_defines() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            watch.release();
            watch.gone("work").await;
            ends_as(&*rig.store, &id, Status::Completed).await;
            let answer = client.about("tasks/cancel", &id).await;
            match style {
                Style::November => assert_eq!(answer["error"]["code"], -32602),
                Style::Extension => assert_eq!(answer["result"], json!({ "resultType": "complete" })),
            }
            assert_eq!(client.status(&id).await, "completed");
        }
    });
}

// Case 55. TASK-07, TASK-08.
#[test]
fn an_unknown_task_is_an_error_of_the_client() {
    on_every_store(async |rig| {
        let (_watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        for (style, methods) in [
            (Style::November, &["tasks/get", "tasks/result", "tasks/cancel"][..]),
            (Style::Extension, &["tasks/get", "tasks/cancel"][..]),
        ] {
            let mut client = Client::of(&tasks, style).await;
            for method in methods {
                assert_eq!(client.about(method, "786512e2").await["error"]["code"], -32602, "{method} {style:?}");
                assert_eq!(client.ask(method, json!({})).await["error"]["code"], -32602, "{method} {style:?}");
            }
        }
        let mut client = Client::of(&tasks, Style::Extension).await;
        let update = json!({ "taskId": "786512e2", "inputResponses": {} });
        assert_eq!(client.ask("tasks/update", update).await["error"]["code"], -32602);
    });
}

// Case 56. MCP-C13, TASK-11.
#[test]
fn a_notification_never_cancels_a_task() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, style).await;
            let call = client.send_call("patient", "work").await;
            let answer = client.answer(call).await;
            watch.started("work").await;
            let id = super::rig::task_id(&answer);
            for name in [json!(call), json!(id)] {
                client.wire.say(&notification("notifications/cancelled", json!({ "requestId": name }))).await;
            }
            client.barrier().await;
            assert_eq!(client.status(&id).await, "working");
            assert!(watch.is_quiet(), "the work goes on");
            watch.release();
            watch.gone("work").await;
            ends_as(&*rig.store, &id, Status::Completed).await;
        }
    });
}

// Case 56. MCP-C13: before its handle left, the request asked for a task already.
#[tokio::test]
async fn a_notification_for_a_request_that_asks_for_a_task_is_a_violation_and_its_handle_comes() {
    let (mut watch, witness) = watch();
    let tasks = Rig::memory().tasks(&witness);
    let mut client = Client::of(&tasks, Style::November).await;
    let call = json!({ "name": "patient", "arguments": { "name": "work" }, "task": {} });
    client
        .wire
        .say_all(&[
            super::rig::request(77, "tools/call", call),
            notification("notifications/cancelled", json!({ "requestId": 77 })),
        ])
        .await;
    let id = super::rig::task_id(&client.answer(77).await);
    watch.started("work").await;
    client.barrier().await;
    assert!(watch.is_quiet());
    assert_eq!(client.status(&id).await, "working");
    let broken: Vec<_> = client.server.counters().violations.keys().copied().collect();
    assert_eq!(broken, [Rule::McpC13]);
}

// Case 59. D38.
#[test]
fn a_call_cancelled_before_its_handle_left_leaves_no_work() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::Extension).await;
        let call = super::rig::modern(json!({ "name": "patient", "arguments": { "name": "work" } }), true);
        client
            .wire
            .say_all(&[
                super::rig::request(77, "tools/call", call),
                notification("notifications/cancelled", json!({ "requestId": 77 })),
            ])
            .await;
        client.barrier().await;
        tasks.idle().await;
        assert!(watch.is_quiet(), "it never began");
        assert!(client.heard.is_empty());
    });
}

// Case 59: the handle is written to nobody.
#[test]
fn a_client_that_is_gone_before_its_handle_left_leaves_no_work() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            // A pipe too small for a handle: some of it waits to be written.
            let mut client = Client::connect(tasks.serve_on(super::rig::server()), style, 64).await;
            client.send_call("patient", "work").await;
            while client.server.in_flight().theirs.is_empty() {
                tokio::task::yield_now().await;
            }
            let server = client.server.clone();
            drop(client);
            server.closed().await;
            tasks.idle().await;
            assert!(watch.is_quiet(), "{style:?}: it never began");
        }
    });
}

// D22: token, grace, drop, for work as for a request.
#[tokio::test(start_paused = true)]
async fn stubborn_work_is_dropped_when_its_grace_is_over() {
    for style in STYLES {
        let (mut watch, witness) = watch();
        let rig = Rig::memory();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, style).await;
        let id = client.begin("stubborn", "work").await;
        watch.started("work").await;
        let begun = tokio::time::Instant::now();
        client.cancel(&id).await;
        assert!(watch.is_quiet());
        watch.gone("work").await;
        assert_eq!(begun.elapsed().as_secs(), 5);
        ends_as(&*rig.store, &id, Status::Cancelled).await;
    }
}

// Case 57. TASK-02, TASK-03, TASK-04: what the client was told is what stays.
#[test]
fn of_a_cancel_and_the_end_of_the_work_one_wins_and_the_client_knows_which() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::November).await;
        for round in 0..40 {
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            let cancel = client.send("tasks/cancel", json!({ "taskId": id })).await;
            for _ in 0..round % 8 {
                tokio::task::yield_now().await;
            }
            watch.release();
            let answer = client.answer(cancel).await;
            let stays = if answer["error"]["code"] == -32602 { Status::Completed } else { Status::Cancelled };
            ends_as(&*rig.store, &id, stays).await;
            let is_fired = matches!(watch.next().await, super::rig::Seen::Fired(..));
            if is_fired {
                watch.gone("work").await;
                // The release that it did not take.
                witness.released().await;
            }
        }
    });
}

// D22: what the work started ends with it.
#[tokio::test]
async fn a_cancel_ends_the_processes_and_linked_tasks_of_the_work() {
    let (mut watch, witness) = watch();
    let (reader, writer) = std::io::pipe().unwrap();
    let writer = Arc::new(std::sync::Mutex::new(Some(writer)));
    let linked = witness.clone();
    let tool = rescind::mcp::Tool::new("owner", "Owns a process", move |piece: super::rig::Piece, cx: Context| {
        let (writer, linked) = (writer.lock().unwrap().take().unwrap(), linked.guard(&piece));
        async move {
            let lasting: &[_] = if cfg!(windows) { &["ping", "-n", "1000", "127.0.0.1"] } else { &["sleep", "1000"] };
            let mut sleep = tokio::process::Command::new(lasting[0]);
            sleep.args(&lasting[1..]).stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
            let mut child = cx.command(sleep).map_err(|error| ErrorObject::internal(error.to_string()))?;
            cx.spawn(async move {
                let _linked = linked;
                std::future::pending::<()>().await;
            });
            child.wait().await.map_err(|error| ErrorObject::internal(error.to_string()))?;
            Ok::<_, ErrorObject>("it ended")
        }
    });
    let rig = Rig::memory();
    let tasks = Tasks::builder(Arc::clone(&rig.store)).tool(tool.task(TaskSupport::Required)).start();
    let mut client = Client::of(&tasks, Style::Extension).await;
    let id = client.begin("owner", "work").await;
    watch.started("work").await;
    client.cancel(&id).await;
    // The process held the other end.
    tokio::task::spawn_blocking(move || std::io::read_to_string(reader)).await.unwrap().unwrap();
    watch.gone("work").await;
    ends_as(&*rig.store, &id, Status::Completed).await;
}

// D22: the tool's own route counts for the work; TASK-04: the shield protects the work and never the status.
#[tokio::test(start_paused = true)]
async fn the_settings_of_a_tools_route_apply_to_its_tasks() {
    let (mut watch, witness) = watch();
    let rig = Rig::memory();
    let tasks = Tasks::builder(Arc::clone(&rig.store))
        .tool(stubborn(&witness).route(|route| route.shielded()).task(TaskSupport::Required))
        .tool(
            partial(&witness)
                .route(|route| route.time_limit(std::time::Duration::from_secs(60)))
                .task(TaskSupport::Optional),
        )
        .start();
    let mut client = Client::of(&tasks, Style::November).await;
    let id = client.begin("stubborn", "shielded").await;
    watch.started("shielded").await;
    client.cancel(&id).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(watch.is_quiet(), "it is left alone");
    watch.release();
    watch.gone("shielded").await;
    let task = settled(&*rig.store, &id).await;
    assert_eq!(task.summary.status, Status::Cancelled);
    assert!(task.outcome.unwrap().json().unwrap().as_str().contains("done all the same"));

    let id = client.begin("partial", "limited").await;
    watch.started("limited").await;
    watch.stopped("limited", CauseCode::Timeout).await;
    ends_as(&*rig.store, &id, Status::Completed).await;
}

// TASK-06: the wait is a request like any other.
#[test]
fn giving_up_the_wait_for_a_result_cancels_no_task() {
    on_every_store(async |rig| {
        let (mut watch, witness) = watch();
        let tasks = rig.tasks(&witness);
        let mut client = Client::of(&tasks, Style::November).await;
        let id = client.begin("patient", "work").await;
        watch.started("work").await;
        let waiting = client.send("tasks/result", json!({ "taskId": id })).await;
        client.wire.say(&notification("notifications/cancelled", json!({ "requestId": waiting }))).await;
        client.barrier().await;
        while !client.server.in_flight().theirs.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(watch.is_quiet(), "the work goes on");
        watch.release();
        watch.gone("work").await;
        let result = client.about("tasks/result", &id).await;
        assert_eq!(result["result"]["content"][0]["text"], "done");
    });
}

// D27 does not hold for tasks: the end of the connection that made one changes nothing.
#[test]
fn a_task_outlives_its_connection() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let tasks = rig.tasks(&witness);
            let mut client = Client::of(&tasks, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            let server = client.server.clone();
            client.wire.close().await;
            server.closed().await;
            assert!(watch.is_quiet(), "{style:?}");
            let mut next = Client::of(&tasks, style).await;
            assert_eq!(next.status(&id).await, "working");
            next.cancel(&id).await;
            watch.stopped("work", CauseCode::Caller).await;
        }
    });
}
