//! Values by task. An entry is removed with its last follower.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::id::TaskId;

/// Locks a table that every change leaves valid, even one that panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Senders<T> = Mutex<HashMap<TaskId, watch::Sender<T>>>;

/// The latest value of each task that is followed. Clones share the same table.
#[derive(Clone, Default)]
pub(crate) struct Followed<T>(Arc<Senders<T>>);

impl<T: Default> Followed<T> {
    /// Follows a task from now on.
    pub(crate) fn follow(&self, task: &TaskId) -> Follower<T> {
        let mut senders = lock(&self.0);
        let receiver = senders.entry(task.clone()).or_default().subscribe();
        Follower { table: Arc::clone(&self.0), task: task.clone(), receiver: Some(receiver) }
    }

    /// Changes the value of a task, if it is followed. `change` returns whether its followers are to be woken.
    pub(crate) fn change(&self, task: &TaskId, change: impl FnOnce(&mut T) -> bool) {
        if let Some(sender) = lock(&self.0).get(task) {
            sender.send_if_modified(change);
        }
    }

    /// Returns the number of tasks that are followed.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<T> fmt::Debug for Followed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Followed").field(&lock(&self.0).len()).finish()
    }
}

/// Follows one task. The last to be dropped removes the task's entry.
pub(crate) struct Follower<T> {
    table: Arc<Senders<T>>,
    task: TaskId,
    receiver: Option<watch::Receiver<T>>,
}

impl<T> Follower<T> {
    /// Waits for a change since the last call.
    pub(crate) async fn next(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // The sender lives as long as its receivers.
            let _ = receiver.changed().await;
        }
    }
}

impl<T> Drop for Follower<T> {
    fn drop(&mut self) {
        let mut senders = lock(&self.table);
        self.receiver = None;
        if senders.get(&self.task).is_some_and(|sender| sender.receiver_count() == 0) {
            senders.remove(&self.task);
        }
    }
}
