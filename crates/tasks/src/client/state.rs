//! A task as its server shows it.

use std::{collections::BTreeMap, time::Duration};

use rescind::peer::ErrorObject;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::{Status, TaskId};

/// A task as its server shows it, in either dialect: untrusted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskState {
    /// Its name, by which it can be [followed](super::TaskClient::follow) from any connection.
    pub id: TaskId,
    /// How far it is.
    pub status: Status,
    /// The status in words, for people.
    pub message: Option<String>,
    /// When it was made, in the server's words (TASK-09).
    pub created: Option<String>,
    /// When it last changed, in the server's words (TASK-09).
    pub updated: Option<String>,
    /// How long the server keeps it, from `created`; `None`: for ever, or not said (TASK-09).
    pub ttl: Option<Duration>,
    /// How often to ask, if the server said.
    pub poll_interval: Option<Duration>,
    /// What it came to, where it is shown with it (extension).
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<ErrorObject>,
    /// What it asks for, by key (extension).
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
        let status = Status::named(&wire.status).ok_or_else(|| D::Error::custom("no status of a task"))?;
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

/// Milliseconds as a server may write them; nonsense says nothing.
fn millis(millis: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(millis / 1000.0).ok()
}

impl TaskState {
    /// Whether the other shows anything new to whoever watches.
    pub(super) fn differs(&self, other: &Self) -> bool {
        (self.status, &self.message, &self.updated) != (other.status, &other.message, &other.updated)
    }
}
