//! A task is cancelled by its id, whoever asks, and never by a notification.

use rescind::peer::{CauseCode, Clock, Context, ErrorObject, Outcome, Peer, dialect::mcp, transport};
use rescind_tasks::client::{TaskCallError, TaskClient, TaskStopHandle};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use super::rig::{Rig, all, created, november, secs, shown, taking};

type Awaiting = JoinHandle<Result<Value, TaskCallError>>;

/// A task that is `working`; its caller is asleep between two looks at it.
async fn working(rig: &mut Rig) -> (Awaiting, TaskStopHandle) {
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
    let stop = call.handle();
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("working")).await;
    assert!(rig.wire.is_quiet().await);
    (call, stop)
}

/// Case 52, 56. D14, MCP-C13.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_cancels_its_task_and_no_other() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send();
    let asked = rig.wire.asked("tools/call").await;
    let other = tokio::spawn(rig.tasks.request::<Value>("tools/call", &json!({ "name": "other" })));
    let other_asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    let mut task = created();
    task["task"]["taskId"] = json!("other");
    rig.wire.result(&other_asked, task).await;
    let (looked, _) = tokio::join!(
        async {
            let first = rig.wire.hear().await;
            let second = rig.wire.hear().await;
            rig.wire.result(&first, shown("working")).await;
            [first, second]
        },
        async {
            tokio::select! {
                _ = call => panic!("it has not ended"),
                () = tokio::time::sleep(secs(6)) => {}
            }
        }
    );
    assert!(looked.iter().all(|message| message["method"] == "tasks/get"), "{looked:?}");
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    rig.wire.result(&asked, shown("cancelled")).await;
    assert!(rig.wire.is_quiet().await, "no notification, and nothing of the other");
    assert!(!other.is_finished());
    other.abort();
}

/// D4, D28: TASK-03 lets the answer confirm it.
#[tokio::test(start_paused = true)]
async fn a_stop_handle_ends_the_call_at_once_and_its_receipt_says_what_the_server_showed() {
    let mut rig = november(all()).await;
    let (call, stop) = working(&mut rig).await;
    let receipt = tokio::spawn(stop.cancel("enough"));
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(&error, TaskCallError::Cancelled(cause) if cause.text() == Some("enough")), "{error}");
    assert_eq!(stop.receipt().unwrap().outcome, Outcome::Asked, "nothing is known yet");
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    tokio::time::advance(secs(2)).await;
    rig.wire.result(&asked, shown("cancelled")).await;
    let receipt = receipt.await.unwrap();
    assert_eq!(receipt.outcome, Outcome::Confirmed { after: secs(2) });
    assert_eq!(receipt.task, stop.task());
    assert!(!receipt.acknowledged);
    // The first to ask is the one who asked.
    assert_eq!(stop.cancel("again").await, receipt);
    assert!(rig.wire.is_quiet().await);
}

/// D14: a call that nobody polls is stopped all the same.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_held_and_not_polled_is_stopped_by_its_handle() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send();
    let stop = call.handle();
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    assert!(rig.wire.is_quiet().await);
    drop(stop.cancel(""));
    rig.wire.asked_of_task("tasks/cancel").await;
    assert!(call.await.unwrap_err().is_cancelled());
}

/// D16.
#[tokio::test(start_paused = true)]
async fn giving_up_on_a_task_cancels_it() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).total_timeout(secs(7));
    let stop = call.handle();
    let (call, after) = {
        let call = tokio::spawn(taking(call));
        let asked = rig.wire.asked("tools/call").await;
        rig.wire.result(&asked, created()).await;
        let asked = rig.wire.asked_of_task("tasks/get").await;
        rig.wire.result(&asked, shown("working")).await;
        rig.wire.asked_of_task("tasks/cancel").await;
        call.await.unwrap()
    };
    assert_eq!(after, secs(7));
    assert!(matches!(call, Err(TaskCallError::TimedOut { clock: Clock::Total, after }) if after == secs(7)));
    assert_eq!(stop.receipt().unwrap().cause.code, CauseCode::Timeout);
}

/// D16: the response clock starts again with everything new that the server shows.
#[tokio::test(start_paused = true)]
async fn a_task_that_shows_nothing_new_for_too_long_is_given_up() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).response_timeout(secs(12));
    let call = tokio::spawn(taking(call));
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    let mut moved = shown("working");
    moved["lastUpdatedAt"] = json!("2025-11-25T10:30:05Z");
    rig.wire.result(&asked, moved.clone()).await;
    for _ in 0..2 {
        let asked = rig.wire.asked_of_task("tasks/get").await;
        rig.wire.result(&asked, moved.clone()).await;
    }
    rig.wire.asked_of_task("tasks/cancel").await;
    let (call, after) = call.await.unwrap();
    assert!(matches!(call, Err(TaskCallError::TimedOut { clock: Clock::Response, .. })));
    assert_eq!(after, secs(5 + 12));
}

/// D16: the dialect's own limit holds until the handle has come, and the task is cancelled when it comes after all.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_make_a_task_is_given_up_and_the_task_cancelled() {
    let mut rig = november(all()).await;
    let call = tokio::spawn(rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })));
    let asked = rig.wire.asked("tools/call").await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, TaskCallError::TimedOut { clock: Clock::Response, after } if after == secs(60)), "{error}");
    assert!(rig.wire.is_quiet().await, "a task is never cancelled by notification");
    rig.wire.result(&asked, created()).await;
    rig.wire.asked_of_task("tasks/cancel").await;
}

/// D14.
#[tokio::test(start_paused = true)]
async fn a_detached_call_leaves_its_task_alone() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).detach();
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    assert!(rig.wire.is_quiet().await);
    drop(call);
    assert!(rig.wire.is_quiet().await);
    // Nor does it hold the connection.
    drop((rig.tasks, rig.client));
    rig.driver.await.unwrap().unwrap();
}

/// D16, and a token of the caller's.
#[tokio::test(start_paused = true)]
async fn a_future_of_the_caller_can_cancel_the_call() {
    let mut rig = november(all()).await;
    let (fire, fired) = oneshot::channel::<()>();
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
    let call = call.cancel_when(async { drop(fired.await) }).reason("the token");
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    assert!(rig.wire.is_quiet().await);
    fire.send(()).unwrap();
    rig.wire.asked_of_task("tasks/cancel").await;
    assert!(matches!(call.await.unwrap(), Err(TaskCallError::Cancelled(cause)) if cause.text() == Some("the token")));
    // Fired before: nothing is sent at all.
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).cancel_when(async {});
    let stop = call.handle();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(stop.receipt().unwrap().outcome, Outcome::NeverSent);
    assert!(rig.wire.is_quiet().await);
}

/// D26: inside a handler a task is the request's child.
#[tokio::test(start_paused = true)]
async fn a_task_made_in_a_handler_is_cancelled_with_the_handlers_request() {
    for detached in [false, true] {
        let mut rig = november(all()).await;
        let tasks: TaskClient = rig.tasks.clone();
        let server = Peer::builder(&mcp::LATEST_LEGACY).on_request("outer", move |cx: Context| {
            let call = tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
            let call = if detached { call.detach() } else { call };
            async move {
                let _held = cx;
                call.await.map_err(ErrorObject::from)
            }
        });
        let (near, far) = transport::memory();
        let (_server, driver) = server.accept(far);
        driver.spawn();
        let (outer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(near);
        driver.spawn();
        let call = outer.request::<Value>("outer", &json!({})).send();
        let asked = rig.wire.asked("tools/call").await;
        rig.wire.result(&asked, created()).await;
        assert!(rig.wire.is_quiet().await);
        drop(call);
        if detached {
            tokio::time::sleep(secs(60)).await;
            let heard = rig.wire.so_far().await;
            assert!(heard.iter().all(|message| message["method"] == "tasks/get"), "{heard:?}");
        } else {
            let (_, after) = taking(rig.wire.asked_of_task("tasks/cancel")).await;
            assert_eq!(after, secs(0), "the handler's grace is not what stops it");
        }
    }
}

/// D38, TASK-11: what is pending beside the task is an ordinary request, and its cancel the ordinary one.
#[tokio::test(start_paused = true)]
async fn a_wait_for_the_result_is_cancelled_by_notification_and_the_task_by_its_id() {
    let mut rig = november(all()).await;
    let (call, stop) = working(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.result(&asked, shown("input_required")).await;
    let waits = rig.wire.asked_of_task("tasks/result").await;
    drop(stop.cancel(""));
    call.await.unwrap().unwrap_err();
    let both = [rig.wire.hear().await, rig.wire.hear().await];
    let cancel = both.iter().find(|message| message["method"] == "notifications/cancelled").unwrap();
    assert_eq!(cancel["params"]["requestId"], waits["id"]);
    assert!(both.iter().any(|message| message["method"] == "tasks/cancel"));
}

/// A server that fails about a task whose end nobody can learn any more is asked to cancel it.
#[tokio::test(start_paused = true)]
async fn a_task_whose_state_cannot_be_read_is_given_up() {
    let mut rig = november(all()).await;
    let (call, _) = working(&mut rig).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.error(&asked, -32603).await;
    rig.wire.asked_of_task("tasks/cancel").await;
    assert!(matches!(call.await.unwrap(), Err(TaskCallError::Call { task: Some(_), .. })));
}

/// The stop comes while the call is being polled, by a callback of its own.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_stopped_during_its_own_poll() {
    let mut rig = november(all()).await;
    let (give, given) = std::sync::mpsc::channel::<TaskStopHandle>();
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).on_status(move |_| {
        if let Ok(stop) = given.try_recv() {
            drop(stop.cancel("seen enough"));
        }
    });
    give.send(call.handle()).unwrap();
    let stop = call.handle();
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    assert!(call.await.unwrap().unwrap_err().is_cancelled());
    rig.wire.result(&asked, shown("cancelled")).await;
    assert!(matches!(stop.cancel("").await.outcome, Outcome::Confirmed { .. }));
}
