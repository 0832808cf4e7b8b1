//! The state of a task, as its server shows it.

use std::{collections::BTreeMap, time::Duration};

use rescind::peer::ErrorObject;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::{Status, TaskId};

/// The state of a task, as its server shows it in either dialect: untrusted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskState {
    /// Its id, by which any connection can [follow](super::TaskClient::follow) it.
    pub id: TaskId,
    /// Its status.
    pub status: Status,
    /// The status message, for people.
    pub message: Option<String>,
    /// When it was created, as the server wrote it (TASK-09).
    pub created: Option<String>,
    /// When it last changed, as the server wrote it (TASK-09).
    pub updated: Option<String>,
    /// How long the server keeps it after `created`; `None` is unlimited or unknown (TASK-09).
    pub ttl: Option<Duration>,
    /// How often to poll, if the server said.
    pub poll_interval: Option<Duration>,
    /// Its result, or `error` its error (extension).
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<ErrorObject>,
    /// Its questions, by key (extension).
    pub(super) questions: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    task_id: String,
    status: String,
    status_message: Option<String>,
    created_at: Option<String>,
    last_updated_at: Option<String>,
    #[serde(alias = "ttlMs")]
    ttl: Option<f64>,
    #[serde(alias = "pollIntervalMs")]
    poll_interval: Option<f64>,
    result: Option<Box<RawValue>>,
    error: Option<ErrorObject>,
    #[serde(default)]
    input_requests: BTreeMap<String, Box<RawValue>>,
}

impl<'de> Deserialize<'de> for TaskState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let status = Status::named(&wire.status).ok_or_else(|| D::Error::custom("unknown status of a task"))?;
        Ok(Self {
            id: TaskId::received(&wire.task_id),
            status,
            message: wire.status_message,
            created: wire.created_at,
            updated: wire.last_updated_at,
            ttl: wire.ttl.and_then(millis),
            poll_interval: wire.poll_interval.and_then(millis),
            result: wire.result,
            error: wire.error,
            questions: wire.input_requests,
        })
    }
}

/// Converts a server's milliseconds. An impossible value is ignored.
fn millis(millis: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(millis / 1000.0).ok()
}

impl TaskState {
    /// Whether the other state is a new one.
    pub(super) fn differs(&self, other: &Self) -> bool {
        (self.status, &self.message, &self.updated) != (other.status, &other.message, &other.updated)
    }
}
