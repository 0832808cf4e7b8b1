//! Every sequence of a few steps, judged by a model that knows nothing of how they are decided.

use std::time::Duration;

use rescind_tasks::{
    Access, Cause, CauseCode, Effect, Json, MemoryStore, NewTask, Owner, Status, Step, StoreLimits, Task, TaskDialect,
    TaskError, TaskOutcome, TaskRequest, TaskStore, Timestamp,
};

const DEPTH: usize = 8;

/// When the ttl is not over, and when it is.
const TIMES: [Timestamp; 2] = [Timestamp(u64::MAX / 4), Timestamp(u64::MAX)];

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn begun(dialect: TaskDialect) -> Task {
    let new = NewTask {
        owner: Owner::NONE,
        dialect,
        request: TaskRequest { method: "tools/call".into(), params: None, meta: None },
        ttl: Some(Duration::MAX),
        poll_interval: None,
        message: None,
    };
    let store = MemoryStore::new(StoreLimits { max_ttl: None, ..StoreLimits::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.create(new)).unwrap().task().clone()
}

fn every_step() -> Vec<(Access, Step)> {
    let (client, work, stranger) = (Access::Owner(Owner::NONE), Access::Run(1), Access::Owner(Owner::named("b")));
    let finish = |outcome| (work.clone(), Step::Finish { outcome, message: None });
    let cancel = || Step::Cancel { cause: Cause::new(CauseCode::Caller) };
    vec![
        (work.clone(), Step::SetWorking { message: None }),
        (work.clone(), Step::AskInput { message: None, inputs: vec![("a".to_owned(), json("1"))] }),
        (client.clone(), Step::Answer { responses: vec![("a".to_owned(), json("2"))] }),
        (client.clone(), cancel()),
        (stranger, cancel()),
        (client, Step::Finish { outcome: TaskOutcome::Stopped, message: None }),
        finish(TaskOutcome::Result(json("3"))),
        finish(TaskOutcome::ToolError(json("4"))),
        finish(TaskOutcome::Error(json("5"))),
        finish(TaskOutcome::Stopped),
        (work.clone(), Step::Fail),
        (work, Step::Release),
        (Access::Operator, Step::Expire),
    ]
}

/// TASK-01, TASK-03, TASK-04, TASK-08, TASK-12, TASK-21, TASK-25, D25, D38.
#[test]
fn no_sequence_of_steps_breaks_a_rule() {
    let steps = every_step();
    let mut judged = 0;
    for dialect in [TaskDialect::November2025, TaskDialect::Extension] {
        walk(&begun(dialect), &steps, DEPTH, &mut judged);
    }
    assert!(judged > 100_000, "{judged} steps");
}

fn walk(task: &Task, steps: &[(Access, Step)], depth: usize, judged: &mut usize) {
    if depth == 0 {
        return;
    }
    for (access, step) in steps {
        for now in if *step == Step::Expire { &TIMES[..] } else { &TIMES[..1] } {
            let mut after = task.clone();
            let effect = after.apply(access, None, step, *now, &StoreLimits::default());
            judge(task, access, step, &effect, &after);
            *judged += 1;
            // What changed nothing leads nowhere new.
            if after != *task {
                walk(&after, steps, depth - 1, judged);
            }
        }
    }
}

fn judge(before: &Task, access: &Access, step: &Step, effect: &Result<Effect, TaskError>, after: &Task) {
    let (was, is) = (before.summary.status, after.summary.status);
    let said = format!("{access:?} {step:?} of {was:?}: {effect:?}, {is:?}");
    match effect {
        Ok(Effect::Changed | Effect::Kept) => assert_eq!(after.revision.0, before.revision.0 + 1, "{said}"),
        Ok(Effect::Unchanged | Effect::TooLate) | Err(_) => assert_eq!(before, after, "{said}"),
    }
    let ended = |status| matches!(status, Status::Completed | Status::Failed | Status::Cancelled);
    if ended(was) {
        assert_eq!(was, is, "TASK-01: {said}");
        assert!(before.outcome.is_none() || before.outcome == after.outcome, "{said}");
        assert!(before.cancel == after.cancel, "{said}");
    }
    if *access == Access::Owner(Owner::named("b")) {
        assert!(matches!(effect, Err(TaskError::NotFound)), "TASK-08: {said}");
    }
    if let (Access::Owner(_), Step::Finish { .. }) = (access, step) {
        assert!(effect.is_err(), "{said}");
    }
    if is == Status::Cancelled {
        assert!(after.cancel.is_some(), "D25: {said}");
    }
    if before.cancel.is_some() {
        assert_eq!(before.cancel, after.cancel, "the first cause stands: {said}");
    }
    if let (Step::Cancel { .. }, Ok(Effect::Changed)) = (step, effect) {
        let at_once = before.summary.dialect == TaskDialect::November2025 || before.runner.is_none();
        assert_eq!(is == Status::Cancelled, at_once, "TASK-03, TASK-21: {said}");
        assert_eq!(after.runner, before.runner, "the work has the last word on its outcome: {said}");
    }
    if let (Step::Finish { outcome, .. }, Ok(effect)) = (step, effect) {
        assert_eq!(after.outcome.as_ref(), Some(outcome), "D38: {said}");
        assert!(after.is_settled(), "{said}");
        let expected = match (outcome, before.summary.dialect) {
            (TaskOutcome::Result(_), _) | (TaskOutcome::ToolError(_), TaskDialect::Extension) => Status::Completed,
            (TaskOutcome::Error(_), _) | (TaskOutcome::ToolError(_), TaskDialect::November2025) => Status::Failed,
            (TaskOutcome::Stopped, _) => Status::Cancelled,
            (TaskOutcome::ToolError(_), other) => panic!("{other:?}"),
        };
        match effect {
            Effect::Changed => assert_eq!(is, expected, "TASK-12, TASK-25: {said}"),
            Effect::Kept => assert_eq!((was, is), (Status::Cancelled, Status::Cancelled), "TASK-04: {said}"),
            Effect::Unchanged | Effect::TooLate => panic!("{said}"),
        }
    }
    assert!(!ended(is) || after.inputs.is_empty(), "nobody is asked any more: {said}");
    // Nobody runs what has not ended only because it was left.
    assert!(after.runner.is_some() || ended(is) || *step == Step::Release || before.runner.is_none(), "{said}");
}
