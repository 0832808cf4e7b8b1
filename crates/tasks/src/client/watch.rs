//! Hearing of a task before it is time to ask.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rescind::peer::{Builder, Params};
use serde::Deserialize;
use tokio::sync::watch;

use crate::TaskId;

/// Hears what a server tells of its tasks unasked, so that whoever follows one asks at once instead of at the end of
/// the poll interval. Clones hear the same.
///
/// A server need tell nothing, and a notification is only a hint: what counts is what `tasks/get` shows.
#[derive(Clone, Default)]
pub struct TaskWatch {
    followed: Arc<Mutex<HashMap<TaskId, watch::Sender<()>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    task_id: String,
}

impl TaskWatch {
    /// Hears nothing until a connection [tells it](Self::listen).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the routes of `notifications/tasks/status` (2025-11-25) and `notifications/tasks` (extension, for tasks
    /// that somebody subscribed to) to a connection.
    pub fn listen(&self, builder: Builder) -> Builder {
        let (november, extension) = (self.clone(), self.clone());
        builder
            .notification("notifications/tasks/status", move |Params(told): Params<Told>| november.ring(&told))
            .notification("notifications/tasks", move |Params(told): Params<Told>| extension.ring(&told))
    }

    /// Rings whenever something is told of that task, from now on.
    pub(super) fn follow(&self, task: &TaskId) -> Ringing {
        let mut followed = self.lock();
        let bell = followed.entry(task.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        drop(followed);
        Ringing { watch: self.clone(), task: task.clone(), bell: Some(bell) }
    }

    fn ring(&self, told: &Told) {
        if let Some(bell) = self.lock().get(&TaskId::received(&told.task_id)) {
            bell.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, watch::Sender<()>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TaskWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskWatch").field("followed", &self.lock().len()).finish()
    }
}

/// One who follows a task; the last to be dropped takes the bell away.
pub(super) struct Ringing {
    watch: TaskWatch,
    task: TaskId,
    bell: Option<watch::Receiver<()>>,
}

impl Ringing {
    /// Waits until something was told since this was last asked; what was told meanwhile counts.
    pub(super) async fn rung(&mut self) {
        if let Some(bell) = &mut self.bell {
            // The sender lives as long as this.
            let _ = bell.changed().await;
        }
    }
}

impl Drop for Ringing {
    fn drop(&mut self) {
        self.bell = None;
        let mut followed = self.watch.lock();
        if followed.get(&self.task).is_some_and(|bell| bell.receiver_count() == 0) {
            followed.remove(&self.task);
        }
    }
}
