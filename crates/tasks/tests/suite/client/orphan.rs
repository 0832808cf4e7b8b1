//! A cancel that falls before the task's id is known leaves no task behind (D38).

use rescind::peer::Outcome;
use rescind_tasks::client::TaskStopHandle;
use serde_json::{Value, json};

use super::rig::{Rig, all, content, created, handle, modern, november, secs, shown, taking};

/// A request that is written and not answered, and is dropped; what it was asked under.
async fn dropped(rig: &mut Rig) -> (Value, TaskStopHandle) {
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send();
    let stop = call.handle();
    let asked = rig.wire.asked("tools/call").await;
    drop(call);
    (asked, stop)
}

/// Case 59. MCP-C13.
#[tokio::test(start_paused = true)]
async fn the_handle_is_waited_for_and_the_task_cancelled_then() {
    let mut rig = november(all()).await;
    let (asked, stop) = dropped(&mut rig).await;
    assert!(rig.wire.is_quiet().await, "nothing can be said yet");
    tokio::time::advance(secs(40)).await;
    assert!(rig.wire.is_quiet().await);
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    rig.wire.result(&asked, shown("cancelled")).await;
    assert!(matches!(stop.cancel("").await.outcome, Outcome::Confirmed { .. }));
    assert!(rig.wire.is_quiet().await);
}

/// Case 59: the connection lives until the task is cancelled, though nobody holds it any more.
#[tokio::test(start_paused = true)]
async fn the_last_handle_of_the_connection_may_be_dropped_meanwhile() {
    let mut rig = november(all()).await;
    let (asked, _) = dropped(&mut rig).await;
    drop((rig.tasks, rig.client));
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    rig.wire.result(&asked, shown("cancelled")).await;
    rig.driver.await.unwrap().unwrap();
    assert_eq!(rig.wire.rest().await, "");
}

/// The wait is bounded: a server that never answers holds nothing for ever.
#[tokio::test(start_paused = true)]
async fn the_wait_for_a_handle_that_never_comes_is_limited() {
    let mut rig = november(all()).await;
    let (_, stop) = dropped(&mut rig).await;
    drop((rig.tasks, rig.client));
    let (ended, after) = taking(rig.driver).await;
    ended.unwrap().unwrap();
    assert_eq!(after, secs(60));
    assert_eq!(stop.receipt().unwrap().outcome, Outcome::NotSendable);
    assert_eq!(rig.wire.rest().await, "");
}

/// D14: of a request that was not written neither it nor a cancel is sent.
#[tokio::test(start_paused = true)]
async fn an_unwritten_request_is_withdrawn() {
    for rig in [november(all()).await, modern().await] {
        let mut rig = rig;
        let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send();
        let stop = call.handle();
        drop(call);
        assert_eq!(stop.cancel("").await.outcome, Outcome::NeverSent);
        assert!(rig.wire.is_quiet().await);
        // Nor of one that was never asked for.
        let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
        let stop = call.handle();
        drop(call);
        assert_eq!(stop.cancel("").await.outcome, Outcome::NeverSent);
        assert!(rig.wire.is_quiet().await);
    }
}

/// An answer that is no handle leaves nothing to cancel.
#[tokio::test(start_paused = true)]
async fn an_ordinary_answer_to_a_dropped_request_is_the_end_of_it() {
    let mut rig = november(all()).await;
    let (asked, _) = dropped(&mut rig).await;
    rig.wire.result(&asked, content("built")).await;
    assert!(rig.wire.is_quiet().await);
    drop((rig.tasks, rig.client));
    rig.driver.await.unwrap().unwrap();
}

/// Case 59. D38: the request is cancelled as its transport has it, and the task if it was made all the same.
#[tokio::test(start_paused = true)]
async fn in_the_extension_a_handle_that_crosses_the_cancel_is_cancelled_too() {
    let mut rig = modern().await;
    let (asked, stop) = dropped(&mut rig).await;
    let cancel = rig.wire.asked("notifications/cancelled").await;
    assert_eq!(cancel["params"]["requestId"], asked["id"]);
    rig.wire.result(&asked, handle()).await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    rig.wire.result(&asked, json!({ "resultType": "complete" })).await;
    let receipt = stop.cancel("").await;
    assert_eq!((receipt.outcome, receipt.acknowledged), (Outcome::Sent, true));
    assert!(rig.wire.is_quiet().await);
}

/// A server that heard the cancel in time answers nothing (MCP-C06), and holds the connection no longer than that takes.
#[tokio::test(start_paused = true)]
async fn in_the_extension_silence_is_taken_for_an_end_after_a_while() {
    let mut rig = modern().await;
    let (_, stop) = dropped(&mut rig).await;
    drop((rig.tasks, rig.client));
    rig.wire.asked("notifications/cancelled").await;
    let (ended, after) = taking(rig.driver).await;
    ended.unwrap().unwrap();
    assert_eq!(after, secs(5));
    assert_eq!(stop.receipt().unwrap().outcome, Outcome::Sent);
}

/// The end of the connection ends the wait, and says no more than that.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_ends_the_wait() {
    let mut rig = november(all()).await;
    let (_, stop) = dropped(&mut rig).await;
    drop(rig.wire);
    let receipt = stop.cancel("").await;
    assert!(matches!(receipt.outcome, Outcome::Unknown | Outcome::NotSendable), "{receipt:?}");
    rig.driver.await.unwrap().unwrap();
}

/// D14: the driver of the connection does the rest, so the thread of the drop needs no runtime.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_on_a_thread_without_a_runtime_leaves_no_orphan() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send();
    let asked = rig.wire.asked("tools/call").await;
    std::thread::spawn(move || drop(call)).join().unwrap();
    rig.wire.result(&asked, created()).await;
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    rig.wire.result(&asked, shown("cancelled")).await;
    assert!(rig.wire.is_quiet().await);
}

/// D14.
#[tokio::test(start_paused = true)]
async fn a_drop_queues_the_cancel_before_it_returns_and_starts_no_task() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
    let stop = call.handle();
    let mut call = Box::pin(call);
    tokio::select! {
        biased;
        _ = &mut call => panic!("it has not ended"),
        () = async {
            let asked = rig.wire.asked("tools/call").await;
            rig.wire.result(&asked, created()).await;
            rig.wire.asked_of_task("tasks/get").await;
        } => {}
    }
    assert!(stop.task().is_some());
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    drop(call);
    assert!(rig.client.peer().in_flight().ours.iter().any(|ours| *ours.method == *"tasks/cancel"));
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks);
}

/// The calls of one connection share its driver.
#[tokio::test(start_paused = true)]
async fn many_dropped_calls_leave_no_orphan() {
    let mut rig = november(all()).await;
    let calls: Vec<_> =
        (0..100).map(|_| rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" })).send()).collect();
    let stops: Vec<_> = calls.iter().map(|call| call.handle()).collect();
    let mut asked = Vec::new();
    for _ in 0..100 {
        asked.push(rig.wire.asked("tools/call").await);
    }
    drop(calls);
    assert!(rig.wire.is_quiet().await);
    for asked in asked.iter().rev() {
        rig.wire.result(asked, created()).await;
        let asked = rig.wire.asked_of_task("tasks/cancel").await;
        rig.wire.result(&asked, shown("cancelled")).await;
    }
    for stop in stops {
        assert!(matches!(stop.cancel("").await.outcome, Outcome::Confirmed { .. }));
    }
    drop((rig.tasks, rig.client));
    rig.driver.await.unwrap().unwrap();
}

/// A driver that is dropped takes what it polls with it.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_driver_ends_the_wait() {
    let mut rig = november(all()).await;
    let (_, stop) = dropped(&mut rig).await;
    rig.driver.abort();
    rig.driver.await.unwrap_err();
    let outcome = stop.receipt().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Unknown | Outcome::NotSendable), "{outcome:?}");
    assert_eq!(stop.cancel("").await.outcome, outcome);
}
