//! What a cancel does, seen from the work.

use std::{future::Future, pin::pin, task::Poll};

use rescind_tasks::{
    Access, CancelEffect, Cause, CauseCode, FinishEffect, Owner, Status, TaskDialect, TaskError, TaskOutcome,
};

use super::rig::{ANYBODY, DIALECTS, Work, json, new, on_every_store, result, stop};

/// Case 52, TASK-05: of two, by the word of their work.
#[test]
fn a_cancel_stops_the_work_of_its_task_and_of_no_other() {
    on_every_store(async |rig| {
        let elsewhere = rig.elsewhere();
        for dialect in DIALECTS {
            let one = Work::begin(rig.begin(dialect).await, TaskOutcome::Stopped);
            let mut other = Work::begin(rig.begin(dialect).await, TaskOutcome::Stopped);
            let id = one.id.clone();
            assert!(matches!(elsewhere.cancel(ANYBODY, &id, stop()).await.unwrap(), CancelEffect::Recorded(_)));
            assert_eq!(one.stopped().await.cause, stop());
            assert_eq!(rig.status(&id).await, Status::Cancelled);
            assert!(other.goes_on());
            assert_eq!(rig.status(&other.id).await, Status::Working);
            rig.store.cancel(ANYBODY, &other.id.clone(), stop()).await.unwrap();
            other.stopped().await;
        }
    });
}

/// TASK-03: in the reply itself. TASK-21: the status waits for the work.
#[test]
fn a_cancel_moves_the_status_at_once_in_one_dialect_and_asks_in_the_other() {
    on_every_store(async |rig| {
        for (dialect, status) in
            [(TaskDialect::November2025, Status::Cancelled), (TaskDialect::Extension, Status::Working)]
        {
            let mut run = rig.begin(dialect).await;
            let id = run.task().summary.id.clone();
            let CancelEffect::Recorded(task) = rig.store.cancel(ANYBODY, &id, stop()).await.unwrap() else { panic!() };
            assert_eq!(task.summary.status, status);
            assert_eq!(task.cancel.as_ref().unwrap().cause, stop());
            assert_eq!(run.cancelled().await, task.cancel.unwrap());
            run.finish(TaskOutcome::Stopped, None).await.unwrap();
            assert_eq!(rig.status(&id).await, Status::Cancelled);
        }
    });
}

/// Case 53, TASK-04, D38: the outcome is kept for `tasks/result`.
#[test]
fn a_late_completion_does_not_overwrite_cancelled_and_is_kept() {
    on_every_store(async |rig| {
        for outcome in [result(), TaskOutcome::ToolError(json("{}")), TaskOutcome::Error(json("{}"))] {
            let mut run = rig.begin(TaskDialect::November2025).await;
            let id = run.task().summary.id.clone();
            rig.elsewhere().cancel(ANYBODY, &id, stop()).await.unwrap();
            let cancelled = rig.task(&id).await;
            assert!(!cancelled.is_settled(), "its work is still winding up");
            assert_eq!(run.finish(outcome.clone(), None).await.unwrap(), FinishEffect::Kept);
            let task = rig.store.changed(&Owner::NONE, &id, cancelled.revision).await.unwrap();
            assert_eq!((task.summary.status, &task.outcome), (Status::Cancelled, &Some(outcome)));
            assert!(task.is_settled());
        }
    });
}

/// TASK-21: the extension's cancel is a wish.
#[test]
fn in_the_extension_cancelled_work_may_end_otherwise() {
    on_every_store(async |rig| {
        for (outcome, status) in [
            (result(), Status::Completed),
            (TaskOutcome::Error(json("{}")), Status::Failed),
            (TaskOutcome::Stopped, Status::Cancelled),
        ] {
            let work = Work::begin(rig.begin(TaskDialect::Extension).await, outcome);
            let id = work.id.clone();
            rig.elsewhere().cancel(ANYBODY, &id, stop()).await.unwrap();
            work.stopped().await;
            assert_eq!(rig.status(&id).await, status);
        }
    });
}

/// Case 54, TASK-02, TASK-22: told apart, so that each dialect can answer as it must.
#[test]
fn a_cancel_of_a_task_that_has_ended_changes_nothing_and_is_reported() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            for outcome in [result(), TaskOutcome::Error(json("{}"))] {
                let mut run = rig.begin(dialect).await;
                let id = run.task().summary.id.clone();
                run.finish(outcome, None).await.unwrap();
                let before = rig.task(&id).await;
                let CancelEffect::TooLate(task) = rig.store.cancel(ANYBODY, &id, stop()).await.unwrap() else {
                    panic!()
                };
                assert_eq!(task, before);
                assert_eq!(rig.task(&id).await, before);
                assert!(!run.is_cancelled());
            }
        }
    });
}

/// Case 54: a second cancel. In 2025-11-25 the first was the end; in the extension the first cause stands.
#[test]
fn the_cause_of_the_first_cancel_stands() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let mut run = rig.begin(dialect).await;
            let id = run.task().summary.id.clone();
            rig.store.cancel(ANYBODY, &id, stop()).await.unwrap();
            let again = Cause::new(CauseCode::Operator);
            match (dialect, rig.elsewhere().cancel(Access::Operator, &id, again).await.unwrap()) {
                (TaskDialect::November2025, CancelEffect::TooLate(_))
                | (TaskDialect::Extension, CancelEffect::Already(_)) => {}
                (_, other) => panic!("{other:?}"),
            }
            assert_eq!(rig.task(&id).await.cancel.unwrap().cause, stop());
            assert_eq!(run.cancelled().await.cause, stop());
            run.finish(TaskOutcome::Stopped, None).await.unwrap();
        }
    });
}

/// D25: work that ends as cancelled although nobody cancelled it has to say what happened.
#[test]
fn work_cannot_end_by_a_cancel_that_was_not_recorded() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let mut run = rig.begin(dialect).await;
            assert!(matches!(run.finish(TaskOutcome::Stopped, None).await, Err(TaskError::NotCancelled)));
            let error = TaskOutcome::Error(json(r#"{"code":-32603,"message":"gave up by itself"}"#));
            assert_eq!(run.finish(error, None).await.unwrap(), FinishEffect::Won(Status::Failed));
        }
    });
}

/// Case 58.
#[test]
fn a_task_that_waits_for_input_can_be_cancelled() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let mut run = rig.begin(dialect).await;
            let id = run.task().summary.id.clone();
            run.ask_input(None, vec![("which".to_owned(), json(r#"{"method":"elicitation/create"}"#))]).await.unwrap();
            let work = Work::begin(run, TaskOutcome::Stopped);
            rig.elsewhere().cancel(ANYBODY, &id, stop()).await.unwrap();
            assert_eq!(work.stopped().await.cause, stop());
            let task = rig.task(&id).await;
            assert_eq!(task.summary.status, Status::Cancelled);
            assert!(task.inputs.is_empty(), "nothing is asked any more");
        }
    });
}

/// Case 57: both orders, chosen.
#[test]
fn whichever_of_cancel_and_completion_comes_first_wins() {
    on_every_store(async |rig| {
        for cancel_first in [true, false] {
            let mut run = rig.begin(TaskDialect::November2025).await;
            let id = run.task().summary.id.clone();
            let elsewhere = rig.elsewhere();
            if cancel_first {
                assert!(matches!(elsewhere.cancel(ANYBODY, &id, stop()).await.unwrap(), CancelEffect::Recorded(_)));
                assert_eq!(run.finish(result(), None).await.unwrap(), FinishEffect::Kept);
                assert_eq!(rig.status(&id).await, Status::Cancelled);
            } else {
                assert_eq!(run.finish(result(), None).await.unwrap(), FinishEffect::Won(Status::Completed));
                assert!(matches!(elsewhere.cancel(ANYBODY, &id, stop()).await.unwrap(), CancelEffect::TooLate(_)));
                assert_eq!(rig.status(&id).await, Status::Completed);
            }
        }
    });
}

/// Case 59, the store's side: whoever asked for the task has gone away before its id came.
#[test]
fn a_task_whose_creator_has_gone_is_not_an_orphan() {
    on_every_store(async |rig| {
        for polls in 0..2 {
            let mut making = pin!(rig.store.create(new(TaskDialect::November2025)));
            for _ in 0..polls {
                let polled = std::future::poll_fn(|cx| Poll::Ready(making.as_mut().poll(cx))).await;
                drop(polled);
            }
        }
        // The stores take one thing after the other, so what was dropped is over when this is made.
        let mut barrier = rig.begin(TaskDialect::November2025).await;
        barrier.set_working(None).await.unwrap();
        let listed = rig.store.list(&Owner::NONE, TaskDialect::November2025, None, 10).await.unwrap().tasks;
        let working: Vec<_> =
            listed.into_iter().filter(|task| !task.status.is_terminal()).map(|task| task.id).collect();
        assert_eq!(working, [barrier.task().summary.id.clone()]);
    });
}

/// A run that is dropped, by a panic say, leaves nothing `working`.
#[test]
fn work_that_is_dropped_has_failed() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            for (cancels, status) in [(false, Status::Failed), (true, Status::Cancelled)] {
                let run = rig.begin(dialect).await;
                let (id, seen) = (run.task().summary.id.clone(), run.task().revision);
                if cancels {
                    rig.store.cancel(ANYBODY, &id, stop()).await.unwrap();
                }
                drop(run);
                let mut task = rig.store.changed(&Owner::NONE, &id, seen).await.unwrap();
                while !task.is_settled() {
                    task = rig.store.changed(&Owner::NONE, &id, task.revision).await.unwrap();
                }
                assert_eq!(task.summary.status, status);
            }
        }
    });
}
