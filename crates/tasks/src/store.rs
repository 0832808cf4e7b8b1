//! The interface of task stores.

mod run;

use std::{future::Future, pin::Pin};

use rescind_proto::cause::Cause;

pub use self::run::Run;
use crate::{
    dialect::TaskDialect,
    error::TaskError,
    id::TaskId,
    json::Json,
    owner::Owner,
    revision::TaskRevision,
    status::Status,
    step::{Access, Effect, Step},
    task::{NewTask, Task, TaskSummary},
    time::Timestamp,
};

/// The future of a store's answer. Boxed, so that a server can hold any store as `Arc<dyn TaskStore>`; the allocation is
/// cheap beside the work of a durable store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskError>> + Send + 'a>>;

/// A store of tasks. Its futures can be awaited in any runtime, or without one.
///
/// Dropping a future does not undo its step, which may have happened. A dropped [`create`](Self::create) leaves no
/// orphan: it drops the [`Run`] too, and so fails the task.
///
/// An implementation stores and notifies. [`Task::apply`] decides what a step does.
pub trait TaskStore: Send + Sync {
    /// Creates a task, `working`, and gives the caller the right to run it. The task is durable **before** the future is
    /// ready (TASK-23).
    ///
    /// # Errors
    ///
    /// [`TooMany`](TaskError::TooMany), [`TooLarge`](TaskError::TooLarge), [`Store`](TaskError::Store).
    fn create(&self, new: NewTask) -> StoreFuture<'_, Run>;

    /// Returns a task of that owner (TASK-07, TASK-08).
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Store`](TaskError::Store).
    fn task<'a>(&'a self, owner: &'a Owner, id: &'a TaskId) -> StoreFuture<'a, Task>;

    /// Returns a page of that owner's tasks in that dialect, oldest first: at most `at_most`, and at most
    /// [`StoreLimits::page`](crate::StoreLimits::page). `cursor` is the [`next`](SummaryPage::next) of an earlier page.
    ///
    /// # Errors
    ///
    /// [`BadCursor`](TaskError::BadCursor), [`Store`](TaskError::Store).
    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        dialect: TaskDialect,
        cursor: Option<&'a str>,
        at_most: usize,
    ) -> StoreFuture<'a, SummaryPage>;

    /// Performs one step of a task, as one transaction; with `expected`, only from that revision. The change is durable
    /// before the future is ready, and reaches every process that waits for the task or runs it.
    ///
    /// # Errors
    ///
    /// Those of [`Task::apply`], and [`Store`](TaskError::Store).
    fn apply<'a>(
        &'a self,
        access: Access,
        id: &'a TaskId,
        expected: Option<TaskRevision>,
        step: Step,
    ) -> StoreFuture<'a, (Task, Effect)>;

    /// Waits until the task has a later revision than `seen`, or [is settled](Task::is_settled), and returns it. Changes
    /// of other processes count. Dropping the future only ends the wait (TASK-06).
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), also when its ttl expires during the wait;
    /// [`Store`](TaskError::Store).
    fn changed<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, seen: TaskRevision) -> StoreFuture<'a, Task>;

    /// Acquires the unfinished tasks without a runner: those of dead processes, and those that were
    /// [released](Run::release). Each is handed out once. One that was cancelled meanwhile becomes `cancelled` instead.
    ///
    /// Call it after opening, and from time to time: nothing else detects that another process has died, and callers
    /// that [wait](Self::changed) for its tasks would wait on. It costs little.
    ///
    /// # Errors
    ///
    /// [`Store`](TaskError::Store).
    fn recover(&self) -> StoreFuture<'_, Vec<Run>>;

    /// Cancels the unfinished tasks whose ttl has expired, and deletes the others (TASK-09). No client can find them
    /// already; this stops their work and frees their space.
    ///
    /// # Errors
    ///
    /// [`Store`](TaskError::Store).
    fn sweep(&self) -> StoreFuture<'_, Swept>;

    /// Performs [`Step::Fail`] for that run in the background, when the [`Run`] is dropped.
    fn fail(&self, id: &TaskId, attempt: u32);

    /// Records a cancel, with its cause, and delivers it to the process that runs the work.
    ///
    /// In 2025-11-25 the task is `cancelled` in the same transaction (TASK-03). In the extension the work decides the
    /// status (TASK-21), unless it has no runner.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Store`](TaskError::Store). A task that has ended is
    /// [`CancelEffect::TooLate`], since only one dialect calls that an error.
    fn cancel<'a>(&'a self, access: Access, id: &'a TaskId, cause: Cause) -> StoreFuture<'a, CancelEffect> {
        Box::pin(async move {
            let (task, effect) = self.apply(access, id, None, Step::Cancel { cause }).await?;
            Ok(match effect {
                Effect::Changed => CancelEffect::Recorded(task),
                Effect::Unchanged => CancelEffect::Already(task),
                Effect::TooLate | Effect::Kept => CancelEffect::TooLate(task),
            })
        })
    }

    /// Answers questions of a task (`tasks/update`). Unknown and answered keys are ignored.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Ended`](TaskError::Ended), [`TooLarge`](TaskError::TooLarge),
    /// [`Store`](TaskError::Store).
    fn answer<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, responses: Vec<(String, Json)>) -> StoreFuture<'a, Task> {
        Box::pin(async move {
            let access = Access::Owner(owner.clone());
            self.apply(access, id, None, Step::Answer { responses }).await.map(|(task, _)| task)
        })
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryPage {
    /// The tasks, oldest first.
    pub tasks: Vec<TaskSummary>,
    /// The cursor of the next page; `None` if this was the last. Opaque, and valid as long as the store.
    pub next: Option<String>,
}

/// The effect of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelEffect {
    /// It is recorded, and on its way to the work.
    Recorded(Task),
    /// An earlier cancel is recorded, whose cause stands. The task has not ended yet (extension).
    Already(Task),
    /// The task had ended: -32602 in 2025-11-25 (TASK-02), the usual acknowledgement in the extension (TASK-22).
    TooLate(Task),
}

/// The effect of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishEffect {
    /// It decided the status of the task.
    Won(Status),
    /// A cancel had won. The status stays `cancelled`, and the outcome is kept beside it (TASK-04, D38).
    Kept,
}

/// The effect of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks that were cancelled. They are deleted once their work has ended.
    pub cancelled: usize,
    /// Tasks that were deleted.
    pub deleted: usize,
    /// When the next ttl expires.
    pub next: Option<Timestamp>,
}
