//! What a store holds at most, and for how long.

use std::time::Duration;

use rescind_tasks::{
    CauseCode, FinishEffect, NewTask, Owner, Status, StoreLimits, TaskDialect, TaskError, TaskOutcome, TaskRevision,
};

use super::rig::{DIALECTS, START, Work, is_missing, json, new, on_every_store, result, with_limits};

const MINUTE: Duration = Duration::from_secs(60);

fn brief(dialect: TaskDialect) -> NewTask {
    NewTask { ttl: Some(MINUTE), ..new(dialect) }
}

/// TASK-09.
#[test]
fn a_task_whose_ttl_has_expired_is_not_found_even_before_it_is_swept() {
    on_every_store(async |rig| {
        let mut run = rig.store.create(brief(TaskDialect::November2025)).await.unwrap();
        let id = run.task().summary.id.clone();
        run.finish(result(), None).await.unwrap();
        rig.pass(MINUTE - Duration::from_millis(1));
        assert_eq!(rig.status(&id).await, Status::Completed);
        rig.pass(Duration::from_millis(1));
        assert!(is_missing(rig.store.task(&Owner::NONE, &id).await));
        assert!(is_missing(rig.store.changed(&Owner::NONE, &id, TaskRevision(0)).await));
        let page = rig.store.list(&Owner::NONE, TaskDialect::November2025, None, 10).await.unwrap();
        assert!(page.tasks.is_empty());
        let swept = rig.store.sweep().await.unwrap();
        assert_eq!((swept.deleted, swept.cancelled, swept.next), (1, 0, None));
    });
}

/// TASK-09: the work is stopped before the task is forgotten.
#[test]
fn work_whose_ttl_has_expired_is_stopped_and_then_deleted() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let work = Work::begin(rig.store.create(brief(dialect)).await.unwrap(), TaskOutcome::Stopped);
            let soon = rig.store.sweep().await.unwrap().next.unwrap();
            assert!(soon > START);
            rig.pass(MINUTE);
            let swept = rig.elsewhere().sweep().await.unwrap();
            assert_eq!((swept.deleted, swept.cancelled), (0, 1));
            assert_eq!(work.stopped().await.cause.code, CauseCode::Timeout);
            assert_eq!(rig.store.sweep().await.unwrap().deleted, 1);
        }
    });
}

#[test]
fn an_owner_has_a_limit_of_tasks_and_expired_ones_make_room() {
    with_limits(StoreLimits { tasks_per_owner: 3, ..StoreLimits::default() }, async |rig| {
        let of = |name: &str| NewTask { owner: Owner::named(name), ..brief(TaskDialect::Extension) };
        for _ in 0..3 {
            let mut run = rig.store.create(of("a")).await.unwrap();
            run.finish(result(), None).await.unwrap();
        }
        assert!(matches!(rig.store.create(of("a")).await, Err(TaskError::TooMany { limit: 3 })));
        assert!(matches!(rig.elsewhere().create(of("a")).await, Err(TaskError::TooMany { limit: 3 })));
        drop(rig.store.create(of("b")).await.unwrap());
        rig.pass(MINUTE);
        let mut run = rig.store.create(of("a")).await.unwrap();
        assert_eq!(run.finish(result(), None).await.unwrap(), FinishEffect::Won(Status::Completed));
    });
}

#[test]
fn data_over_the_limit_is_rejected_and_nothing_is_lost() {
    with_limits(StoreLimits { request_bytes: 100, outcome_bytes: 50, ..StoreLimits::default() }, async |rig| {
        let large = json(&format!("\"{}\"", "x".repeat(100)));
        let mut asked = new(TaskDialect::Extension);
        asked.request.params = Some(large.clone());
        assert!(matches!(rig.store.create(asked).await, Err(TaskError::TooLarge { limit: 100, .. })));
        let mut run = rig.begin(TaskDialect::Extension).await;
        let id = run.task().summary.id.clone();
        let refused = run.finish(TaskOutcome::Result(large.clone()), None).await;
        assert!(matches!(refused, Err(TaskError::TooLarge { bytes: 102, limit: 50 })));
        let refused = run.ask_input(None, vec![("a".to_owned(), large.clone())]).await;
        assert!(matches!(refused, Err(TaskError::TooLarge { .. })));
        run.ask_input(None, vec![("a".to_owned(), json("1"))]).await.unwrap();
        let refused = rig.store.answer(&Owner::NONE, &id, vec![("a".to_owned(), large)]).await;
        assert!(matches!(refused, Err(TaskError::TooLarge { .. })));
        assert_eq!(rig.status(&id).await, Status::InputRequired);
        let told = TaskOutcome::Error(json(r#"{"code":-32603}"#));
        assert_eq!(run.finish(told, None).await.unwrap(), FinishEffect::Won(Status::Failed));
    });
}
