//! Notifications of a server about its tasks, as a hint to poll early.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use rescind::peer::{Builder, Params};
use serde::Deserialize;
use tokio::sync::watch;

use crate::{TaskId, subscribers::lock};

/// Receives a server's notifications about its tasks, so that a followed task is polled at once instead of after its poll
/// interval. Clones share the same notifications.
///
/// A server need not send any, and a notification is only a hint: only the answer to `tasks/get` counts.
#[derive(Clone, Default)]
pub struct TaskNotifications {
    followed: Arc<Mutex<HashMap<TaskId, watch::Sender<()>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusParams {
    task_id: String,
}

impl TaskNotifications {
    /// Receives nothing until it is [registered](Self::register) on a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the routes of `notifications/tasks/status` (2025-11-25) and `notifications/tasks` (the extension, for
    /// subscribed tasks) to a connection.
    pub fn register(&self, builder: Builder) -> Builder {
        let (november, extension) = (self.clone(), self.clone());
        builder
            .on_notification("notifications/tasks/status", move |Params(status): Params<StatusParams>| {
                november.received(&status);
            })
            .on_notification("notifications/tasks", move |Params(status): Params<StatusParams>| {
                extension.received(&status);
            })
    }

    /// Returns the hints of that task from now on.
    pub(super) fn hints(&self, task: &TaskId) -> Hints {
        let mut followed = lock(&self.followed);
        let receiver = followed.entry(task.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        drop(followed);
        Hints { notifications: self.clone(), task: task.clone(), receiver: Some(receiver) }
    }

    fn received(&self, status: &StatusParams) {
        if let Some(sender) = lock(&self.followed).get(&TaskId::received(&status.task_id)) {
            sender.send_replace(());
        }
    }
}

impl fmt::Debug for TaskNotifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskNotifications").field("followed", &lock(&self.followed).len()).finish()
    }
}

/// The notifications about one task. The last to be dropped removes the task's entry.
pub(super) struct Hints {
    notifications: TaskNotifications,
    task: TaskId,
    receiver: Option<watch::Receiver<()>>,
}

impl Hints {
    /// Waits for a notification since the last call.
    pub(super) async fn next(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // The sender lives as long as its receivers.
            let _ = receiver.changed().await;
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.receiver = None;
        let mut followed = lock(&self.notifications.followed);
        if followed.get(&self.task).is_some_and(|sender| sender.receiver_count() == 0) {
            followed.remove(&self.task);
        }
    }
}
