//! What a store of tasks does.

use std::{future::Future, pin::Pin};

use rescind_proto::cause::Cause;

use crate::{
    error::TaskError,
    id::TaskId,
    json::Json,
    owner::Owner,
    run::Run,
    status::Status,
    step::{Access, Effect, Step},
    task::{Dialect, NewTask, Revision, Summary, Task},
    time::Timestamp,
};

/// What a store will answer. Boxed, so that a server holds any store as `Arc<dyn TaskStore>` and is compiled once; the
/// allocation is nothing beside what a lasting store does.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskError>> + Send + 'a>>;

/// Keeps tasks. Cheap to share; every answer may be awaited in any runtime, and none needs one.
///
/// A reply that is dropped is not a step undone: what was asked may have happened. A dropped
/// [`create`](Self::create) leaves no orphan: the [`Run`] in it is dropped too, and so its task has failed.
///
/// An implementation stores and notifies; what a step does is decided by [`Task::apply`].
pub trait TaskStore: Send + Sync {
    /// Makes a task, `working`, and gives its work to the caller. The task lasts as long as the store does **before**
    /// the reply (TASK-23).
    ///
    /// # Errors
    ///
    /// [`TooMany`](TaskError::TooMany), [`TooLarge`](TaskError::TooLarge), [`Store`](TaskError::Store).
    fn create(&self, new: NewTask) -> Reply<'_, Run>;

    /// The task of that id, if it is that owner's (TASK-07, TASK-08).
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Store`](TaskError::Store).
    fn task<'a>(&'a self, owner: &'a Owner, id: &'a TaskId) -> Reply<'a, Task>;

    /// A page of that owner's tasks, oldest first, made in that dialect: at most `at_most`, and at most
    /// [`Limits::page`](crate::Limits::page); after `cursor`, which an earlier page gave.
    ///
    /// # Errors
    ///
    /// [`BadCursor`](TaskError::BadCursor), [`Store`](TaskError::Store).
    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        dialect: Dialect,
        cursor: Option<&'a str>,
        at_most: usize,
    ) -> Reply<'a, Page>;

    /// Takes one step with a task, as one transaction; with `expected`, only from that revision. Lasting before the
    /// reply, and told to whoever waits for it or runs it, in whatever process.
    ///
    /// # Errors
    ///
    /// Those of [`Task::apply`], and [`Store`](TaskError::Store).
    fn apply<'a>(
        &'a self,
        access: Access,
        id: &'a TaskId,
        expected: Option<Revision>,
        step: Step,
    ) -> Reply<'a, (Task, Effect)>;

    /// The task, once it has a later revision than `seen`, or at once if it [is settled](Task::is_settled). Waits
    /// without polling, wherever the change is made; dropping the reply ends the wait and nothing else (TASK-06).
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), also when its ttl ends while it is waited for;
    /// [`Store`](TaskError::Store).
    fn changed<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, seen: Revision) -> Reply<'a, Task>;

    /// Takes over the tasks that nobody runs although they have not ended: those of processes that have died, and
    /// those that were [left](Run::leave). Each is handed out once; what was cancelled meanwhile is settled as
    /// `cancelled` instead. To be called after opening, and from time to time, since nothing else tells that another
    /// process has died, and whoever [waits](Self::changed) for its tasks waits on; it costs little.
    ///
    /// # Errors
    ///
    /// [`Store`](TaskError::Store).
    fn recover(&self) -> Reply<'_, Vec<Run>>;

    /// Cancels what has not ended and deletes what has, of the tasks whose ttl is over (TASK-09). Nobody finds those
    /// anyway; this stops their work, and makes room.
    ///
    /// # Errors
    ///
    /// [`Store`](TaskError::Store).
    fn sweep(&self) -> Reply<'_, Swept>;

    /// Has [`Step::Abandon`] taken by that run, without waiting for it: for [`Run`], when it is dropped.
    fn abandon(&self, id: &TaskId, attempt: u32);

    /// Records a cancel, with its cause, and brings it to the process that runs the work.
    ///
    /// In 2025-11-25 the task is `cancelled` in the same transaction (TASK-03); in the extension the work has the last
    /// word (TASK-21), unless nobody runs it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Store`](TaskError::Store). A task that has ended is no error here, since
    /// it is one in only one dialect: [`Cancelled::TooLate`].
    fn cancel<'a>(&'a self, access: Access, id: &'a TaskId, cause: Cause) -> Reply<'a, Cancelled> {
        Box::pin(async move {
            let (task, effect) = self.apply(access, id, None, Step::Cancel { cause }).await?;
            Ok(match effect {
                Effect::Changed => Cancelled::Recorded(task),
                Effect::Unchanged => Cancelled::Already(task),
                Effect::TooLate | Effect::Kept => Cancelled::TooLate(task),
            })
        })
    }

    /// Answers questions of a task (`tasks/update`); unknown and answered keys are ignored.
    ///
    /// # Errors
    ///
    /// [`NotFound`](TaskError::NotFound), [`Ended`](TaskError::Ended), [`TooLarge`](TaskError::TooLarge),
    /// [`Store`](TaskError::Store).
    fn answer<'a>(&'a self, owner: &'a Owner, id: &'a TaskId, responses: Vec<(String, Json)>) -> Reply<'a, Task> {
        Box::pin(async move {
            let access = Access::Owner(owner.clone());
            self.apply(access, id, None, Step::Answer { responses }).await.map(|(task, _)| task)
        })
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The tasks, oldest first.
    pub tasks: Vec<Summary>,
    /// Where the next page begins; `None` if this was the last. Opaque, and good as long as the store.
    pub next: Option<String>,
}

/// What came of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is on record, and on its way to the work.
    Recorded(Task),
    /// An earlier one is, whose cause stands; the task has not ended yet (extension).
    Already(Task),
    /// The task had ended: -32602 in 2025-11-25 (TASK-02), the usual acknowledgement in the extension (TASK-22).
    TooLate(Task),
}

/// What came of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is how the task ended.
    Won(Status),
    /// A cancel had won: the status stays `cancelled`, the outcome is kept beside it (TASK-04, D38).
    Kept,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks that had not ended and are cancelled now; they are deleted once their work has ended.
    pub cancelled: usize,
    /// Tasks that are gone.
    pub deleted: usize,
    /// When the next ttl is over.
    pub next: Option<Timestamp>,
}
