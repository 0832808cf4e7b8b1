//! A task as a store keeps it.

use std::{sync::Arc, time::Duration};

use rescind_proto::cause::Cause;

use crate::{
    dialect::TaskDialect, error::TaskError, id::TaskId, input::Inputs, json::Json, limits::StoreLimits,
    outcome::TaskOutcome, owner::Owner, revision::TaskRevision, status::Status, time::Timestamp,
};

/// The request that became a task, kept so that interrupted work can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRequest {
    /// Its method.
    pub method: Arc<str>,
    /// Its params, raw.
    pub params: Option<Json>,
    /// Other data of its messages, raw; opaque to a store.
    pub meta: Option<Json>,
}

impl TaskRequest {
    /// Returns the bytes of its method, params and metadata.
    pub(crate) fn size(&self) -> usize {
        self.method.len() + [&self.params, &self.meta].into_iter().flatten().map(Json::size).sum::<usize>()
    }
}

/// A task to create.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its owner.
    pub owner: Owner,
    /// The dialect of the request for it.
    pub dialect: TaskDialect,
    /// The request that becomes the task.
    pub request: TaskRequest,
    /// How long the client wants it kept, if it says. The actual ttl is the task's (TASK-09).
    pub ttl: Option<Duration>,
    /// How often its client should poll.
    pub poll_interval: Option<Duration>,
    /// The first status message.
    pub message: Option<Arc<str>>,
}

/// The part of a task that clients see: in `tasks/get`, `tasks/list` and status notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its name.
    pub id: TaskId,
    /// Its dialect.
    pub dialect: TaskDialect,
    /// Its status.
    pub status: Status,
    /// The status message, for people.
    pub message: Option<Arc<str>>,
    /// When it was created.
    pub created: Timestamp,
    /// When it last changed. Never decreases.
    pub updated: Timestamp,
    /// How long it is kept after `created`; `None` is unlimited (TASK-09).
    pub ttl: Option<Duration>,
    /// How often its client should poll.
    pub poll_interval: Option<Duration>,
}

impl TaskSummary {
    /// Returns when its ttl expires, if ever.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.ttl.map(|ttl| self.created.after(ttl))
    }

    /// Whether its ttl has expired. No client finds it then (TASK-09).
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires().is_some_and(|expires| expires <= now)
    }
}

/// The recorded cancel of a task. There is at most one, the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRecord {
    /// Who asked, and why (D20).
    pub cause: Cause,
    /// When.
    pub at: Timestamp,
}

/// A task. [`apply`](Self::apply) changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The part that clients see.
    pub summary: TaskSummary,
    /// Its owner.
    pub owner: Owner,
    /// The request that becomes the task.
    pub request: TaskRequest,
    /// Its questions to the client. Empty once it has ended.
    pub inputs: Inputs,
    /// The outcome of the work. A cancelled task may have one too (D38). A failed task without one lost its work: the
    /// [`Run`](crate::Run) was dropped.
    pub outcome: Option<TaskOutcome>,
    /// The cancel, if there was one. In the extension the work may still have ended otherwise (TASK-21).
    pub cancel: Option<CancelRecord>,
    /// The process that runs its work, by the name that its store gave it. `None` once the work has ended or was
    /// released.
    pub runner: Option<Arc<str>>,
    /// The number of runs so far: 1, and one more for each time the task was acquired anew.
    pub attempt: u32,
    /// Its revision.
    pub revision: TaskRevision,
}

impl Task {
    /// Creates a task that `runner` begins now, `working` (TASK-01), with its ttl within the limits.
    pub(crate) fn begun(new: NewTask, id: TaskId, runner: Arc<str>, now: Timestamp, limits: &StoreLimits) -> Self {
        let ttl = match (new.ttl, limits.max_ttl) {
            (asked, Some(most)) => Some(asked.unwrap_or(limits.default_ttl).min(most)),
            (asked, None) => asked,
        };
        Self {
            summary: TaskSummary {
                id,
                dialect: new.dialect,
                status: Status::Working,
                message: new.message,
                created: now,
                updated: now,
                ttl,
                poll_interval: new.poll_interval,
            },
            owner: new.owner,
            request: new.request,
            inputs: Inputs::default(),
            outcome: None,
            cancel: None,
            runner: Some(runner),
            attempt: 1,
            revision: TaskRevision(1),
        }
    }

    /// Whether neither the task nor its outcome can change any more. The work of a cancelled task may still be running.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.summary.status.is_terminal() && self.runner.is_none()
    }

    /// Whether that owner can find it (TASK-08, TASK-09).
    #[must_use]
    pub fn is_found_by(&self, owner: &Owner, now: Timestamp) -> bool {
        self.owner == *owner && !self.summary.is_expired(now)
    }
}

impl NewTask {
    /// Rejects a request that exceeds the limit.
    pub(crate) fn check(&self, limits: &StoreLimits) -> Result<(), TaskError> {
        let (bytes, limit) = (self.request.size(), limits.request_bytes);
        if bytes > limit { Err(TaskError::TooLarge { bytes, limit }) } else { Ok(()) }
    }
}
