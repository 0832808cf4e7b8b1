//! How tasks begin, go on and end; who finds them.

use std::{collections::BTreeSet, time::Duration};

use rescind_tasks::{
    Access, CancelEffect, Effect, FinishEffect, NewTask, Owner, Status, Step, TaskDialect, TaskError, TaskId,
    TaskOutcome, TaskRevision,
};

use super::rig::{ANYBODY, DIALECTS, START, is_missing, json, new, on_every_store, result, stop};

/// TASK-01.
#[test]
fn a_task_begins_as_working_and_alternates_until_it_ends() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            let mut run = rig.begin(dialect).await;
            let id = run.task().summary.id.clone();
            assert_eq!(rig.status(&id).await, Status::Working);
            for _ in 0..2 {
                run.ask_input(Some("which?"), vec![]).await.unwrap();
                assert_eq!(rig.status(&id).await, Status::InputRequired);
                run.set_working(None).await.unwrap();
                assert_eq!(rig.status(&id).await, Status::Working);
            }
            assert_eq!(run.finish(result(), Some("done")).await.unwrap(), FinishEffect::Won(Status::Completed));
            let task = rig.task(&id).await;
            assert_eq!((task.summary.status, task.outcome), (Status::Completed, Some(result())));
            assert_eq!(task.summary.message.as_deref(), Some("done"));
        }
    });
}

/// TASK-01: from each terminal status, by each step.
#[test]
fn a_terminal_status_is_never_left() {
    on_every_store(async |rig| {
        for dialect in DIALECTS {
            for ended in [result(), TaskOutcome::Error(json("{}")), TaskOutcome::Stopped] {
                let mut run = rig.begin(dialect).await;
                let id = run.task().summary.id.clone();
                if ended == TaskOutcome::Stopped {
                    rig.store.cancel(ANYBODY, &id, stop()).await.unwrap();
                }
                run.finish(ended, None).await.unwrap();
                let before = rig.task(&id).await;
                assert!(before.is_settled());
                for step in every_step() {
                    for access in [ANYBODY, Access::Run(1), Access::Operator] {
                        let _ = rig.store.apply(access, &id, None, step.clone()).await;
                        assert_eq!(rig.task(&id).await.summary.status, before.summary.status, "{step:?}");
                    }
                }
                assert_eq!(rig.task(&id).await.outcome, before.outcome);
            }
        }
    });
}

fn every_step() -> [Step; 8] {
    [
        Step::SetWorking { message: None },
        Step::AskInput { message: None, inputs: vec![("a".to_owned(), json("{}"))] },
        Step::Answer { responses: vec![("a".to_owned(), json("{}"))] },
        Step::Cancel { cause: stop() },
        Step::Finish { outcome: TaskOutcome::Error(json("{}")), message: None },
        Step::Fail,
        Step::Release,
        Step::Expire,
    ]
}

/// TASK-12, TASK-25: the dialects say the opposite.
#[test]
fn a_tool_that_reports_an_error_fails_in_one_dialect_and_completes_in_the_other() {
    on_every_store(async |rig| {
        for (dialect, status) in
            [(TaskDialect::November2025, Status::Failed), (TaskDialect::Extension, Status::Completed)]
        {
            let mut run = rig.begin(dialect).await;
            let outcome = TaskOutcome::ToolError(json(r#"{"isError":true}"#));
            assert_eq!(run.finish(outcome.clone(), None).await.unwrap(), FinishEffect::Won(status));
            assert_eq!(rig.task(&run.task().summary.id).await.outcome, Some(outcome));
        }
    });
}

/// Case 55, TASK-07, TASK-08: not to be told apart.
#[test]
fn unknown_tasks_and_those_of_others_are_not_found() {
    on_every_store(async |rig| {
        let (ours, theirs) = (Owner::named("a"), Owner::named("b"));
        let run = rig.store.create(NewTask { owner: ours.clone(), ..new(TaskDialect::November2025) }).await.unwrap();
        let id = run.task().summary.id.clone();
        for (owner, id) in [(&theirs, &id), (&Owner::NONE, &id), (&ours, &TaskId::received("no such"))] {
            let access = || Access::Owner(owner.clone());
            assert!(is_missing(rig.store.task(owner, id).await));
            assert!(is_missing(rig.store.changed(owner, id, TaskRevision(0)).await));
            assert!(is_missing(rig.store.cancel(access(), id, stop()).await));
            assert!(is_missing(rig.store.answer(owner, id, vec![]).await));
        }
        for owner in [&theirs, &Owner::NONE, &Owner::named("")] {
            assert!(rig.store.list(owner, TaskDialect::November2025, None, 10).await.unwrap().tasks.is_empty());
        }
        let task = rig.store.task(&ours, &id).await.unwrap();
        assert_eq!((task.summary.status, task.revision, run.is_cancelled()), (Status::Working, TaskRevision(1), false));
    });
}

/// TASK-08.
#[test]
fn ids_are_long_and_never_alike() {
    on_every_store(async |rig| {
        let mut seen = BTreeSet::new();
        for _ in 0..100 {
            let run = rig.begin(TaskDialect::Extension).await;
            assert_eq!(run.task().summary.id.as_str().len() * 4, 128);
            assert!(seen.insert(run.task().summary.id.clone()));
        }
    });
}

/// TASK-09.
#[test]
fn times_and_the_actual_ttl_are_shown() {
    on_every_store(async |rig| {
        let asked = NewTask { ttl: Some(Duration::from_secs(600)), ..new(TaskDialect::November2025) };
        let mut run = rig.store.create(asked).await.unwrap();
        rig.pass(Duration::from_millis(1500));
        run.set_working(Some("half")).await.unwrap();
        let told = rig.task(&run.task().summary.id).await.summary;
        assert_eq!((told.created, told.updated), (START, START.after(Duration::from_millis(1500))));
        assert_eq!(told.ttl, Some(Duration::from_secs(600)));
        assert_eq!(told.poll_interval, Some(Duration::from_secs(2)));
        assert_eq!(told.message.as_deref(), Some("half"));

        // Nobody asked: the store's own.
        let run = rig.begin(TaskDialect::November2025).await;
        assert_eq!(run.task().summary.ttl, Some(Duration::from_secs(3600)));
        // More than is given.
        let asked = NewTask { ttl: Some(Duration::MAX), ..new(TaskDialect::November2025) };
        let run = rig.store.create(asked).await.unwrap();
        assert_eq!(run.task().summary.ttl, Some(Duration::from_secs(7 * 24 * 3600)));
    });
}

#[test]
fn everything_of_a_task_is_kept_as_it_was_given() {
    on_every_store(async |rig| {
        let mut asked = new(TaskDialect::Extension);
        asked.owner = Owner::named("tenant/ünïcode");
        asked.request.params = Some(json("{ \"n\": 12345678901234567890123, \"s\":\"\\u00e9\" }"));
        asked.request.meta = Some(json(r#"{"progressToken":7}"#));
        let mut run = rig.store.create(asked.clone()).await.unwrap();
        let id = run.task().summary.id.clone();
        run.ask_input(Some("?"), vec![("k".to_owned(), json(" {\"q\" : 1}"))]).await.unwrap();
        let cause = stop();
        let access = Access::Owner(asked.owner.clone());
        rig.store.cancel(access, &id, cause.clone()).await.unwrap();
        for store in [&rig.store, &rig.elsewhere()] {
            let task = store.task(&asked.owner, &id).await.unwrap();
            assert_eq!((&task.request, &task.owner), (&asked.request, &asked.owner));
            assert_eq!(task.cancel.as_ref().unwrap().cause, cause);
            assert_eq!(task.inputs.pending().next(), Some(("k", &json("{\"q\" : 1}"))));
            assert_eq!((task.attempt, task.revision), (1, TaskRevision(3)));
        }
    });
}

/// TASK-07: bad cursors. Each task is listed once, oldest first.
#[test]
fn a_list_continues_after_its_cursor() {
    on_every_store(async |rig| {
        let owner = Owner::named("a");
        let (mut runs, mut made) = (Vec::new(), Vec::new());
        for n in 0..10 {
            let dialect = if n % 5 == 4 { TaskDialect::Extension } else { TaskDialect::November2025 };
            let run = rig.store.create(NewTask { owner: owner.clone(), ..new(dialect) }).await.unwrap();
            if dialect == TaskDialect::November2025 {
                made.push(run.task().summary.id.clone());
            }
            runs.push(run);
            runs.push(rig.begin(TaskDialect::November2025).await);
        }
        for at_most in [1, 3, 8, 100, 0] {
            let (mut found, mut cursor) = (Vec::new(), None);
            loop {
                let page = rig.store.list(&owner, TaskDialect::November2025, cursor.as_deref(), at_most).await.unwrap();
                assert!(page.tasks.len() <= at_most.max(1));
                found.extend(page.tasks.into_iter().map(|task| task.id));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, made, "{at_most} a page");
        }
        for bad in ["", "1", "t1", "{}", "tffffffffffffffff"] {
            let page = rig.store.list(&owner, TaskDialect::November2025, Some(bad), 3).await;
            assert!(matches!(page, Err(TaskError::BadCursor)), "{bad}");
        }
    });
}

#[test]
fn of_two_changes_from_the_same_revision_one_succeeds() {
    on_every_store(async |rig| {
        let run = rig.begin(TaskDialect::November2025).await;
        let (id, seen) = (run.task().summary.id.clone(), run.task().revision);
        let say = |words: &str| Step::SetWorking { message: Some(words.into()) };
        let (task, effect) = rig.store.apply(Access::Run(1), &id, Some(seen), say("first")).await.unwrap();
        assert_eq!(effect, Effect::Changed);
        let second = rig.store.apply(Access::Run(1), &id, Some(seen), say("second")).await;
        assert!(matches!(second, Err(TaskError::Conflict { found }) if found == task.revision));
        assert_eq!(rig.task(&id).await.summary.message.as_deref(), Some("first"));
    });
}

/// TASK-06: the wait ends with the status, `cancelled` included, wherever it changes.
#[test]
fn a_wait_ends_when_the_task_does() {
    on_every_store(async |rig| {
        let elsewhere = rig.elsewhere();
        for cancels in [false, true] {
            let mut run = rig.begin(TaskDialect::November2025).await;
            let id = run.task().summary.id.clone();
            let (waiter, waited) = (rig.elsewhere(), id.clone());
            let wait = tokio::spawn(async move {
                let mut task = waiter.task(&Owner::NONE, &waited).await.unwrap();
                while !task.summary.status.is_terminal() {
                    task = waiter.changed(&Owner::NONE, &waited, task.revision).await.unwrap();
                }
                task.summary.status
            });
            run.set_working(Some("half")).await.unwrap();
            if cancels {
                assert!(matches!(elsewhere.cancel(ANYBODY, &id, stop()).await.unwrap(), CancelEffect::Recorded(_)));
            } else {
                run.finish(result(), None).await.unwrap();
            }
            let expected = if cancels { Status::Cancelled } else { Status::Completed };
            assert_eq!(wait.await.unwrap(), expected);
        }
    });
}

/// Case 56, as far as a store knows of connections: a request about a task that is given up cancels no task (TASK-06).
#[test]
fn giving_up_a_wait_cancels_no_task() {
    on_every_store(async |rig| {
        let mut run = rig.begin(TaskDialect::November2025).await;
        let id = run.task().summary.id.clone();
        let store = rig.elsewhere();
        let (waited, seen) = (id.clone(), run.task().revision);
        let wait = tokio::spawn(async move { store.changed(&Owner::NONE, &waited, seen).await });
        tokio::task::yield_now().await;
        wait.abort();
        assert!(wait.await.unwrap_err().is_cancelled());
        assert!(!run.is_cancelled());
        assert_eq!(run.finish(result(), None).await.unwrap(), FinishEffect::Won(Status::Completed));
        assert_eq!(rig.task(&id).await.cancel, None);
    });
}
