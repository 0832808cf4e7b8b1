//! The process ends, in order or not, and another takes its tasks.

use std::sync::Arc;

use rescind::peer::{CauseCode, Context};
use rescind_tasks::{AsTask, Status, TaskSupport, Tasks};

use super::rig::{Client, Piece, STYLES, Style, Witness, ends_as, on_every_store, patient, settled, watch};

fn resumable(witness: &Witness) -> rescind_tasks::TaskTool {
    let resumed = witness.clone();
    patient(witness).task(TaskSupport::Optional).resumed_by(move |Piece { name }: Piece, cx: Context| {
        let guard = resumed.guard(&Piece { name: format!("{name} again") });
        let witness = resumed.clone();
        async move {
            let done = cx.unless_cancelled(witness.released()).await;
            if done.is_err() {
                guard.fired(&cx);
            }
            done.map(|()| "done at last")
        }
    })
}

// Case 60. D22: told to stop, it has its grace.
#[test]
fn work_that_was_shut_down_is_resumed_by_the_next_process() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let first = Tasks::builder(Arc::clone(&rig.store)).tool(resumable(&witness)).start();
            let mut client = Client::of(&first, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            first.shutdown().await;
            watch.stopped("work", CauseCode::Shutdown).await;
            assert_eq!(client.status(&id).await, "working", "nobody cancelled it");

            let second = Tasks::builder(rig.elsewhere()).tool(resumable(&witness)).start();
            watch.started("work again").await;
            let mut next = Client::of(&second, style).await;
            assert_eq!(next.status(&id).await, "working");
            watch.release();
            watch.gone("work again").await;
            ends_as(&*rig.store, &id, Status::Completed).await;
        }
    });
}

// Case 60.
#[test]
fn interrupted_work_without_a_handler_to_resume_it_fails_with_a_reason() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let first = rig.tasks(&witness);
            let mut client = Client::of(&first, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            first.shutdown().await;
            watch.stopped("work", CauseCode::Shutdown).await;

            let second = rig.tasks(&witness);
            assert_eq!(settled(&*rig.store, &id).await.summary.status, Status::Failed);
            let mut next = Client::of(&second, style).await;
            let task = next.about("tasks/get", &id).await["result"].clone();
            assert_eq!(task["statusMessage"], "the work was interrupted and cannot be resumed");
            match style {
                Style::November => {
                    assert_eq!(next.about("tasks/result", &id).await["error"]["code"], -32603);
                }
                Style::Extension => assert_eq!(task["error"]["code"], -32603),
            }
            assert!(watch.is_quiet());
        }
    });
}

// Case 60.
#[test]
fn work_that_was_resumed_is_cancelled_like_any_other() {
    on_every_store(async |rig| {
        for style in STYLES {
            let (mut watch, witness) = watch();
            let first = Tasks::builder(Arc::clone(&rig.store)).tool(resumable(&witness)).start();
            let mut client = Client::of(&first, style).await;
            let id = client.begin("patient", "work").await;
            watch.started("work").await;
            first.shutdown().await;
            watch.stopped("work", CauseCode::Shutdown).await;
            let second = Tasks::builder(rig.elsewhere()).tool(resumable(&witness)).start();
            watch.started("work again").await;
            // From the connection of the first, whose own work is over.
            client.cancel(&id).await;
            watch.stopped("work again", CauseCode::Caller).await;
            ends_as(&*rig.store, &id, Status::Cancelled).await;
            second.idle().await;
        }
    });
}

// Case 60: nobody stops looking.
#[tokio::test(start_paused = true)]
async fn work_released_while_another_server_runs_is_found_in_time() {
    let rig = super::rig::Rig::memory();
    let (mut watch, witness) = watch();
    let first = Tasks::builder(Arc::clone(&rig.store)).tool(resumable(&witness)).start();
    let second = Tasks::builder(Arc::clone(&rig.store)).tool(resumable(&witness)).start();
    let mut client = Client::of(&first, Style::November).await;
    let id = client.begin("patient", "work").await;
    watch.started("work").await;
    let mut other = Client::of(&second, Style::November).await;
    assert_eq!(other.status(&id).await, "working");
    first.shutdown().await;
    watch.stopped("work", CauseCode::Shutdown).await;
    watch.started("work again").await;
    watch.release();
    ends_as(&*rig.store, &id, Status::Completed).await;
}
