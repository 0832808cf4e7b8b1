//! What a receipt of a task's cancel says: what was observed, and never more (D28).

use rescind::peer::{Answer, Outcome};
use rescind_tasks::client::{TaskReceipt, TaskStopHandle};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::rig::{Rig, all, created, handle, modern, november, secs, shown, shown_modern};

/// A task that is being cancelled; the receipt to come, and the `tasks/cancel`.
async fn cancelling(rig: &mut Rig, handle: Value) -> (JoinHandle<TaskReceipt>, Value) {
    let stop = known(rig, handle).await;
    let receipt = tokio::spawn(stop.cancel(""));
    let asked = rig.wire.asked_of_task("tasks/cancel").await;
    (receipt, asked)
}

/// A task that is known; its caller has gone to sleep.
async fn known(rig: &mut Rig, handle: Value) -> TaskStopHandle {
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
    let stop = call.handle();
    tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, handle).await;
    assert!(rig.wire.is_quiet().await);
    stop
}

/// Case 54. TASK-02: the task itself tells how it ended.
#[tokio::test(start_paused = true)]
async fn a_task_that_had_ended_completed_first() {
    let ends = [
        ("completed", Outcome::CompletedFirst),
        ("failed", Outcome::CompletedFirst),
        ("cancelled", Outcome::Confirmed { after: secs(0) }),
        ("working", Outcome::AnsweredAfter { after: secs(0), answer: Answer::Error }),
    ];
    for (status, outcome) in ends {
        let mut rig = november(all()).await;
        let (receipt, asked) = cancelling(&mut rig, created()).await;
        rig.wire.error(&asked, -32602).await;
        let asked = rig.wire.asked_of_task("tasks/get").await;
        rig.wire.result(&asked, shown(status)).await;
        assert_eq!(receipt.await.unwrap().outcome, outcome, "{status}");
    }
}

/// Case 55. TASK-07.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_is_not_reported_as_ended() {
    let mut rig = november(all()).await;
    let (receipt, asked) = cancelling(&mut rig, created()).await;
    rig.wire.error(&asked, -32602).await;
    let asked = rig.wire.asked_of_task("tasks/get").await;
    rig.wire.error(&asked, -32602).await;
    let outcome = Outcome::AnsweredAfter { after: secs(0), answer: Answer::Error };
    assert_eq!(receipt.await.unwrap().outcome, outcome);
}

/// TASK-03, broken by the server.
#[tokio::test(start_paused = true)]
async fn an_answer_that_shows_no_cancelled_task_confirms_nothing() {
    for answer in [shown("working"), json!({}), json!({ "resultType": "complete" })] {
        let mut rig = november(all()).await;
        let (receipt, asked) = cancelling(&mut rig, created()).await;
        rig.wire.result(&asked, answer).await;
        let outcome = Outcome::AnsweredAfter { after: secs(0), answer: Answer::Result };
        assert_eq!(receipt.await.unwrap().outcome, outcome);
    }
    let mut rig = november(all()).await;
    let (receipt, asked) = cancelling(&mut rig, created()).await;
    rig.wire.error(&asked, -32603).await;
    let outcome = Outcome::AnsweredAfter { after: secs(0), answer: Answer::Error };
    assert_eq!(receipt.await.unwrap().outcome, outcome);
}

/// TASK-11, D38.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_cancel_tasks_is_not_asked() {
    let mut rig = november(json!({ "requests": { "tools": { "call": {} } } })).await;
    let stop = known(&mut rig, created()).await;
    assert_eq!(stop.cancel("").await.outcome, Outcome::NotSendable);
    assert!(rig.wire.is_quiet().await);
}

/// TASK-21: an acknowledgement says that the wish has arrived, and nothing of the task, whatever it shows besides.
#[tokio::test(start_paused = true)]
async fn in_the_extension_an_acknowledgement_confirms_only_the_request() {
    for answer in [json!({ "resultType": "complete" }), shown_modern("cancelled", json!({}))] {
        let mut rig = modern().await;
        let (receipt, asked) = cancelling(&mut rig, handle()).await;
        rig.wire.result(&asked, answer).await;
        let receipt = receipt.await.unwrap();
        assert_eq!((receipt.outcome, receipt.acknowledged), (Outcome::Sent, true));
        assert!(rig.wire.is_quiet().await, "the client may forget the task (TASK-27)");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_leaves_it_at_sent() {
    let mut rig = november(all()).await;
    let (receipt, _) = cancelling(&mut rig, created()).await;
    let receipt = receipt.await.unwrap();
    assert_eq!((receipt.outcome, receipt.acknowledged), (Outcome::Sent, false));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_leaves_it_unknown() {
    let mut rig = november(all()).await;
    let (receipt, _) = cancelling(&mut rig, created()).await;
    drop(rig.wire);
    assert_eq!(receipt.await.unwrap().outcome, Outcome::Unknown);
}

/// A stop that comes after the end says so.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_ended_is_not_cancelled() {
    let mut rig = november(all()).await;
    let call = rig.tasks.request::<Value>("tools/call", &json!({ "name": "build" }));
    let stop = call.handle();
    let call = tokio::spawn(call);
    let asked = rig.wire.asked("tools/call").await;
    rig.wire.result(&asked, json!({})).await;
    call.await.unwrap().unwrap();
    assert_eq!(stop.cancel("").await.outcome, Outcome::CompletedFirst);
    assert!(rig.wire.is_quiet().await);
}
