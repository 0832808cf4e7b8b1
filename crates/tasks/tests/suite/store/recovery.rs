//! Tasks whose work was interrupted; how processes end is in the tests of processes.

use std::time::Duration;

use rescind_tasks::{Access, CancelEffect, FinishEffect, NewTask, Owner, Status, TaskDialect, TaskError, TaskOutcome};

use super::rig::{ANYBODY, DIALECTS, Work, json, new, on_every_store, result, stop};

/// Case 60: handed out once, with what is needed to take the work up again.
#[test]
fn work_that_was_released_is_handed_out_once() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let run = rig.begin(dialect).await;
            let (id, request) = (run.task().summary.id.clone(), run.task().request.clone());
            run.release().await.unwrap();
            assert_eq!(rig.status(&id).await, Status::Working);
            let elsewhere = rig.elsewhere();
            let mut found = elsewhere.recover().await.unwrap();
            assert!(rig.store.recover().await.unwrap().is_empty());
            assert_eq!(found.len(), 1);
            let run = found.remove(0);
            assert_eq!((&run.task().summary.id, &run.task().request, run.task().attempt), (&id, &request, 2));
            let work = Work::begin(run, TaskOutcome::Stopped);
            rig.store.cancel(ANYBODY, &id, stop()).await.unwrap();
            assert_eq!(work.stopped().await.cause, stop());
            assert_eq!(rig.status(&id).await, Status::Cancelled);
        }
    });
}

/// Case 60: there is no work left that could end otherwise.
#[test]
fn interrupted_work_that_was_cancelled_is_settled_and_not_handed_out() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            for cancelled_first in [true, false] {
                let run = rig.begin(dialect).await;
                let id = run.task().summary.id.clone();
                if cancelled_first {
                    rig.store.cancel(ANYBODY, &id, stop()).await.unwrap();
                    run.release().await.unwrap();
                } else {
                    run.release().await.unwrap();
                    let CancelEffect::Recorded(task) = rig.store.cancel(ANYBODY, &id, stop()).await.unwrap() else {
                        panic!()
                    };
                    assert_eq!(task.summary.status, Status::Cancelled);
                }
                assert!(rig.elsewhere().recover().await.unwrap().is_empty());
                let task = rig.task(&id).await;
                assert_eq!((task.summary.status, task.is_settled()), (Status::Cancelled, true));
            }
        }
    });
}

/// Case 60: whoever is taken for dead and is not cannot spoil the work of the next.
#[test]
fn a_step_of_an_earlier_attempt_is_rejected() {
    on_every_store(async |rig| {
        let run = rig.begin(TaskDialect::Extension).await;
        let id = run.task().summary.id.clone();
        run.release().await.unwrap();
        let mut next = rig.elsewhere().recover().await.unwrap().remove(0);
        let late = rescind_tasks::Step::Finish { outcome: TaskOutcome::Error(super::rig::json("{}")), message: None };
        assert!(matches!(rig.store.apply(Access::Run(1), &id, None, late).await, Err(TaskError::Superseded)));
        assert_eq!(next.finish(result(), None).await.unwrap(), FinishEffect::Won(Status::Completed));
    });
}

#[test]
fn interrupted_work_whose_ttl_has_expired_is_not_resumed() {
    on_every_store(async |rig| {
        let asked = NewTask { ttl: Some(Duration::from_secs(1)), ..new(TaskDialect::Extension) };
        rig.store.create(asked).await.unwrap().release().await.unwrap();
        rig.pass(Duration::from_secs(1));
        assert!(rig.store.recover().await.unwrap().is_empty());
        assert_eq!(rig.store.sweep().await.unwrap().deleted, 1);
        assert!(rig.store.list(&Owner::NONE, TaskDialect::Extension, None, 1).await.unwrap().tasks.is_empty());
    });
}

/// The number of changes never falls, although the task that had the last one is gone.
#[test]
fn a_cancel_after_the_deletion_of_the_last_changed_task_reaches_the_work_elsewhere() {
    on_every_store(async |rig| {
        let ttl = Duration::from_secs(60);
        let elsewhere = rig.elsewhere();
        let run = elsewhere.create(new(TaskDialect::November2025)).await.unwrap();
        let work = Work::begin(run, TaskOutcome::Stopped);
        let brief = NewTask { ttl: Some(ttl), ..new(TaskDialect::November2025) };
        let mut last = rig.store.create(brief).await.unwrap();
        // The other process has received the last change there is, that of the task which is deleted.
        let id = last.task().summary.id.clone();
        let seen = elsewhere.task(&Owner::NONE, &id).await.unwrap().revision;
        let received = elsewhere.changed(&Owner::NONE, &id, seen);
        let (received, finished) = tokio::join!(received, last.finish(result(), None));
        finished.unwrap();
        assert!(received.unwrap().is_settled());
        rig.pass(ttl);
        assert_eq!(rig.store.sweep().await.unwrap().deleted, 1);
        rig.store.cancel(ANYBODY, &work.id, stop()).await.unwrap();
        work.stopped().await;
    });
}

#[test]
fn a_large_request_is_there_again_for_the_next_run() {
    on_every_store(async |rig| {
        let large = json(&format!("{:?}", "x".repeat(100_000)));
        for (params, meta) in [(Some(large.clone()), None), (Some(json("{}")), Some(large.clone())), (None, None)] {
            let mut new = new(TaskDialect::Extension);
            (new.request.params, new.request.meta) = (params, meta);
            let request = new.request.clone();
            let run = rig.store.create(new).await.unwrap();
            let id = run.task().summary.id.clone();
            assert_eq!(rig.task(&id).await.request, request);
            run.release().await.unwrap();
            let mut runs = rig.elsewhere().recover().await.unwrap();
            assert_eq!(runs[0].task().request, request);
            runs[0].finish(result(), None).await.unwrap();
            assert_eq!(rig.task(&id).await.request, request);
        }
    });
}
