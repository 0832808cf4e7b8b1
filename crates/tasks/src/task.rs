//! One task, as a store keeps it.

use std::{sync::Arc, time::Duration};

use rescind_proto::cause::Cause;

use crate::{
    error::TaskError, id::TaskId, input::Inputs, json::Json, limits::Limits, outcome::Outcome, owner::Owner,
    status::Status, time::Timestamp,
};

/// Under which text a task was made; for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// MCP 2025-11-25: TASK-01 to TASK-12.
    November2025,
    /// The extension `io.modelcontextprotocol/tasks` of 2026: TASK-20 to TASK-27.
    Extension,
}

/// Counts the changes of one task, for compare-and-set and for waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// The request that became a task, kept so that interrupted work can be taken up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its method.
    pub method: Arc<str>,
    /// Its params, raw.
    pub params: Option<Json>,
    /// What its messages carry besides: progress token, related metadata; raw, and nothing to a store.
    pub meta: Option<Json>,
}

impl Request {
    fn size(&self) -> usize {
        self.method.len() + [&self.params, &self.meta].into_iter().flatten().map(Json::size).sum::<usize>()
    }
}

/// A task to be made.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Whose it will be.
    pub owner: Owner,
    /// Under which text it is asked for.
    pub dialect: Dialect,
    /// What it is to do.
    pub request: Request,
    /// How long it is to be kept, if the client says; the actual ttl is the task's (TASK-09).
    pub ttl: Option<Duration>,
    /// How often its client should ask.
    pub poll_interval: Option<Duration>,
    /// What its status says in words, to begin with.
    pub message: Option<Arc<str>>,
}

/// What the wire shows of a task: `tasks/get`, `tasks/list`, status notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its name.
    pub id: TaskId,
    /// Under which text it was made.
    pub dialect: Dialect,
    /// How far it is.
    pub status: Status,
    /// The status in words, for people.
    pub message: Option<Arc<str>>,
    /// When it was made.
    pub created: Timestamp,
    /// When it last changed; it never goes back.
    pub updated: Timestamp,
    /// How long it is kept, from `created`; `None`: for ever (TASK-09).
    pub ttl: Option<Duration>,
    /// How often its client should ask.
    pub poll_interval: Option<Duration>,
}

impl Summary {
    /// When its ttl is over, if ever.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.ttl.map(|ttl| self.created.after(ttl))
    }

    /// Whether its ttl is over: from then on nobody finds it (TASK-09).
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires().is_some_and(|expires| expires <= now)
    }
}

/// A cancel that is on record: who asked, why, when. There is at most one, the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Who and why (D20).
    pub cause: Cause,
    /// When it was asked for.
    pub at: Timestamp,
}

/// A task. Its steps are in [`apply`](Self::apply).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What the wire shows.
    pub summary: Summary,
    /// Whose it is.
    pub owner: Owner,
    /// What it is to do.
    pub request: Request,
    /// What it asks its client for; nothing once it has ended.
    pub inputs: Inputs,
    /// What the work came to. A cancelled task may have one too: what it still produced (D38). One that failed without
    /// was given up: [`Run`](crate::Run) was dropped.
    pub outcome: Option<Outcome>,
    /// Who cancelled it, if anybody did; in the extension the work may have ended otherwise all the same (TASK-21).
    pub cancel: Option<Cancel>,
    /// Which store, of which process, runs its work; nobody, once it has ended or was left.
    pub runner: Option<Arc<str>>,
    /// How often its work was begun: 1 at first, one more for each time it was interrupted and handed out again.
    pub attempt: u32,
    /// How often it has changed.
    pub revision: Revision,
}

impl Task {
    /// A task that `runner` begins now, `working` (TASK-01), with its ttl within the limits.
    pub(crate) fn begun(new: NewTask, id: TaskId, runner: Arc<str>, now: Timestamp, limits: &Limits) -> Self {
        let ttl = match (new.ttl, limits.max_ttl) {
            (asked, Some(most)) => Some(asked.unwrap_or(limits.default_ttl).min(most)),
            (asked, None) => asked,
        };
        Self {
            summary: Summary {
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
            revision: Revision(1),
        }
    }

    /// Whether nothing of it will change any more: it has ended, and so has its work. Of a cancelled task the work may
    /// still be winding up.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.summary.status.is_terminal() && self.runner.is_none()
    }

    /// Whether that owner finds it (TASK-08, TASK-09).
    #[must_use]
    pub fn is_found_by(&self, owner: &Owner, now: Timestamp) -> bool {
        self.owner == *owner && !self.summary.is_expired(now)
    }
}

impl NewTask {
    /// Refuses a request that is larger than a store keeps.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), TaskError> {
        let (bytes, limit) = (self.request.size(), limits.request_bytes);
        if bytes > limit { Err(TaskError::TooLarge { bytes, limit }) } else { Ok(()) }
    }
}
