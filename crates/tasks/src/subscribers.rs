//! Delivers the changes of tasks within this process: to the subscriptions that wait for them, and the cancel of a task
//! to the run of its work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rescind_proto::cause::{Cause, CauseCode};
use tokio::sync::watch;

use crate::{
    error::TaskError,
    id::TaskId,
    store::StoreFuture,
    task::{CancelRecord, Task, TaskRevision},
    time::Timestamp,
};

/// Locks a table that every change leaves valid, even one that panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscriptions and runs by their task.
///
/// The last subscription of a task removes the task's entry. A run is removed when an update shows that it has ended,
/// or by [`remove_run`](Self::remove_run).
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    subscriptions: HashMap<TaskId, watch::Sender<TaskRevision>>,
    runs: HashMap<TaskId, LocalRun>,
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
        let tables = lock(&self.0);
        tables.subscriptions.is_empty() && tables.runs.is_empty()
    }

    /// Subscribes to the changes of a task from now on. A task loaded afterwards misses none of them.
    pub(crate) fn subscribe(self: &Arc<Self>, id: &TaskId) -> Subscription {
        let mut tables = lock(&self.0);
        let sender = tables.subscriptions.entry(id.clone()).or_insert_with(|| watch::Sender::new(TaskRevision(0)));
        Subscription { receiver: Some(sender.subscribe()), id: id.clone(), subscribers: Arc::clone(self) }
    }

    /// Registers a run of this process. Call it before the run can be found elsewhere, so that no cancel is missed.
    pub(crate) fn add_run(&self, id: &TaskId, attempt: u32) -> watch::Receiver<Option<CancelRecord>> {
        let (signal, receiver) = watch::channel(None);
        lock(&self.0).runs.insert(id.clone(), LocalRun { attempt, signal });
        receiver
    }

    /// Removes a run that has ended, or never began.
    pub(crate) fn remove_run(&self, id: &TaskId, attempt: u32) {
        let mut tables = lock(&self.0);
        if tables.runs.get(id).is_some_and(|run| run.attempt == attempt) {
            tables.runs.remove(id);
        }
    }

    /// Delivers an update. It may be repeated or late, never ahead of the change.
    pub(crate) fn publish(&self, update: &TaskUpdate) {
        let mut tables = lock(&self.0);
        if let Some(subscriptions) = tables.subscriptions.get(&update.id) {
            subscriptions.send_if_modified(|latest| {
                let is_new = *latest < update.revision;
                *latest = (*latest).max(update.revision);
                is_new
            });
        }
        let Some(run) = tables.runs.get(&update.id) else { return };
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
            tables.runs.remove(&update.id);
        }
    }
}

/// Receives the changes of one task.
#[derive(Debug)]
pub(crate) struct Subscription {
    receiver: Option<watch::Receiver<TaskRevision>>,
    id: TaskId,
    subscribers: Arc<Subscribers>,
}

impl Subscription {
    /// Returns the task that `load` gives once it is later than `seen` or settled. Loading after subscribing misses no
    /// change.
    pub(crate) async fn change<'a>(
        mut self,
        load: impl Fn() -> StoreFuture<'a, Task>,
        seen: TaskRevision,
    ) -> Result<Task, TaskError> {
        loop {
            let task = load().await?;
            if task.revision > seen || task.is_settled() {
                return Ok(task);
            }
            self.received().await;
        }
    }

    /// Waits for the next change.
    async fn received(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // The sender lives as long as its subscriptions.
            let _ = receiver.changed().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut tables = lock(&self.subscribers.0);
        self.receiver = None;
        if tables.subscriptions.get(&self.id).is_some_and(|sender| sender.receiver_count() == 0) {
            tables.subscriptions.remove(&self.id);
        }
    }
}
