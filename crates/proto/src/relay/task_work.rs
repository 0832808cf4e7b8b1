//! What an exchange has to do with a task (D38, D56).

use crate::{
    dialect::TaskForm, error_code, frame::ResponseBody, id::RequestId, json, link::RequestKey, receipt::Answer,
    slab::Key, task::TaskStatus, time::Instant,
};

/// What an exchange has to do with a task. Ids are JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskPart {
    /// Its answer was the handle of this task, which has not been cancelled here for its requester.
    Became(Box<[u8]>),
    /// It is a task at work, and no request.
    Work(Box<TaskWork>),
    /// It is a request of its requester about the task in the table under this key.
    About(Key, TaskAsk),
    /// It is a request of ours: to cancel this task, which that request became, or which stands under that key.
    Cancels(RequestKey, Box<[u8]>),
    /// It is a request of ours: for the status of the task that stands under that key.
    Gets(RequestKey),
}

/// A task at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskWork {
    pub(super) task: Box<[u8]>,
    /// The request that became it, which may be forgotten.
    pub(super) opened_by: Key,
    /// The status that was reported last, and when.
    pub(super) status: TaskStatus,
    pub(super) reported: Instant,
    /// Of the JSON type of its requester's ids.
    pub(super) like: RequestId,
    /// The request that became it and was cancelled before its handle came: its receipt is that of the task's cancel.
    pub(super) origin: Option<Key>,
    /// Its requester was given what it led to, before its cancel was answered: it is over, however that ends.
    pub(super) delivered: Option<Answer>,
    /// How often we have asked for its status since it was cancelled.
    pub(super) checks: u8,
}

/// After its cancel a task's status is asked for so often at most: when the cancel was acknowledged, and once more at the
/// end of the grace.
pub(super) const MAX_CHECKS: u8 = 2;

/// What a request asks about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TaskAsk {
    Cancel,
    Status,
    Result,
}

/// What a message shows of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskReport {
    Status(TaskStatus),
    /// The wish to cancel it has arrived (TASK-21).
    Acknowledged,
    /// Its server knows no such task, or none that is at work (TASK-02, TASK-07).
    Gone,
    /// It could not be done.
    Denied,
    /// What it led to (TASK-06).
    Delivered(Answer),
}

impl TaskAsk {
    /// What a request of this method asks about the task that it names.
    pub(super) fn of(form: &TaskForm, method: &str) -> Option<Self> {
        match method {
            _ if method == form.cancel => Some(Self::Cancel),
            _ if method == form.get => Some(Self::Status),
            _ if form.result == Some(method) => Some(Self::Result),
            _ => None,
        }
    }
}

impl TaskReport {
    /// What the answer to a request about a task shows of it.
    pub(super) fn of_answer(form: &TaskForm, ask: TaskAsk, body: &ResponseBody<'_>) -> Self {
        match (ask, body) {
            (_, ResponseBody::Error(_)) if body.error_code() == Some(i64::from(error_code::INVALID_PARAMS)) => {
                Self::Gone
            }
            (TaskAsk::Result, ResponseBody::Error(_))
                if body.error_code() != Some(i64::from(error_code::METHOD_NOT_FOUND)) =>
            {
                Self::Delivered(Answer::Error)
            }
            (_, ResponseBody::Error(_)) => Self::Denied,
            (TaskAsk::Result, ResponseBody::Result(_)) => Self::Delivered(Answer::Result),
            // Only one of the dialects shows the task (TASK-03, TASK-21).
            (TaskAsk::Cancel, ResponseBody::Result(_)) if !form.asked => Self::Acknowledged,
            (TaskAsk::Cancel | TaskAsk::Status, ResponseBody::Result(result)) => {
                Self::Status(TaskStatus::of(json::member(result, "status").and_then(json::text).as_deref()))
            }
        }
    }
}
