//! Notifications of a server about its tasks, as a hint to poll early.

use rescind::peer::{Builder, Params};
use serde::Deserialize;

use crate::{TaskId, followed::Followed};

/// Receives a server's notifications about its tasks, so that a followed task is polled at once instead of after its poll
/// interval. Clones share the same notifications.
///
/// A server need not send any, and a notification is only a hint: only the answer to `tasks/get` counts.
#[derive(Clone, Debug, Default)]
pub struct TaskNotifications {
    /// Changed by each notification.
    pub(super) followed: Followed<()>,
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

    fn received(&self, status: &StatusParams) {
        self.followed.change(&TaskId::received(&status.task_id), |()| true);
    }
}
