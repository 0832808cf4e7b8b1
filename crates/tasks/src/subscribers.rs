//! Delivers the changes of tasks within this process: to the subscriptions that wait for them, and the cancel of a task
//! to the run of its work.

use std::{collections::HashMap, sync::Mutex};

use rescind_proto::cause::{Cause, CauseCode};
use tokio::sync::watch;

use crate::{
    error::TaskError,
    followed::{Followed, lock},
    id::TaskId,
    revision::TaskRevision,
    store::StoreFuture,
    task::{CancelRecord, Task},
    time::Timestamp,
};

/// Subscriptions and runs by their task.
///
/// A run is removed when an update shows that it has ended, or by [`remove_run`](Self::remove_run).
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    subscriptions: Followed<TaskRevision>,
    runs: Mutex<HashMap<TaskId, LocalRun>>,
}

/// A run in this process.
#[derive(Debug)]
struct LocalRun {
    attempt: u32,
    signal: watch::Sender<Option<CancelRecord>>,
}

/// What subscribers need to know of a changed task.
#[derive(Clone, Debug)]
pub(crate) struct TaskUpdate {
    pub(crate) id: TaskId,
    pub(crate) revision: TaskRevision,
    pub(crate) attempt: u32,
    pub(crate) has_runner: bool,
    pub(crate) cancel: Option<CancelRecord>,
}

impl From<&Task> for TaskUpdate {
    fn from(task: &Task) -> Self {
        Self {
            id: task.summary.id.clone(),
            revision: task.revision,
            attempt: task.attempt,
            has_runner: task.runner.is_some(),
            cancel: task.cancel.clone(),
        }
    }
}

impl Subscribers {
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_empty(&self) -> bool {
        self.subscriptions.len() == 0 && lock(&self.runs).is_empty()
    }

    /// Subscribes to the changes of a task from now on, and returns the task that `load` gives once it is later than `seen`
    /// or settled. `subscribed` is called before the first load. A task loaded after subscribing misses no change.
    pub(crate) async fn change<'a>(
        &self,
        id: &TaskId,
        seen: TaskRevision,
        subscribed: impl FnOnce(),
        load: impl Fn() -> StoreFuture<'a, Task>,
    ) -> Result<Task, TaskError> {
        let mut subscription = self.subscriptions.follow(id);
        subscribed();
        loop {
            let task = load().await?;
            if task.revision > seen || task.is_settled() {
                return Ok(task);
            }
            subscription.next().await;
        }
    }

    /// Registers a run of this process. Call it before the run can be found elsewhere, so that no cancel is missed.
    pub(crate) fn add_run(&self, id: &TaskId, attempt: u32) -> watch::Receiver<Option<CancelRecord>> {
        let (signal, receiver) = watch::channel(None);
        lock(&self.runs).insert(id.clone(), LocalRun { attempt, signal });
        receiver
    }

    /// Removes a run that has ended, or never began.
    pub(crate) fn remove_run(&self, id: &TaskId, attempt: u32) {
        let mut runs = lock(&self.runs);
        if runs.get(id).is_some_and(|run| run.attempt == attempt) {
            runs.remove(id);
        }
    }

    /// Delivers an update. It may be repeated or late, never ahead of the change.
    pub(crate) fn publish(&self, update: &TaskUpdate) {
        self.subscriptions.change(&update.id, |latest| {
            let is_new = *latest < update.revision;
            *latest = (*latest).max(update.revision);
            is_new
        });
        let mut runs = lock(&self.runs);
        let Some(run) = runs.get(&update.id) else { return };
        if update.attempt < run.attempt {
            return;
        }
        // Another process took this one for dead and runs the task now.
        let is_superseded = update.attempt > run.attempt;
        let cancel = if is_superseded {
            Some(CancelRecord { cause: Cause::new(CauseCode::Disconnect), at: Timestamp::default() })
        } else {
            update.cancel.clone()
        };
        if cancel.is_some() {
            run.signal.send_if_modified(|sent| {
                let is_first = sent.is_none();
                if is_first {
                    *sent = cancel;
                }
                is_first
            });
        }
        if is_superseded || !update.has_runner {
            runs.remove(&update.id);
        }
    }
}
