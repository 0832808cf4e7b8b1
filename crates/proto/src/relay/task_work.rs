//! What an exchange has to do with a task (D38, D56).

use core::time::Duration;

use crate::{
    dialect::TaskForm,
    error_code,
    frame::ResponseBody,
    id::RequestId,
    json,
    link::RequestKey,
    receipt::Answer,
    slab::Key,
    task::{TaskEnd, TaskStatus},
    time::Instant,
    timer_queue::TimerKey,
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
    /// It waited for what a task led to and was cancelled, and the task is over.
    WaitedFor(TaskEnd),
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
    /// How its server wants to be asked for its status.
    pub(super) look_after: Option<Duration>,
    /// How often its status was asked for within the grace of its cancel.
    pub(super) looks: u8,
    /// When it is asked for next within the grace.
    pub(super) next_look: TimerKey,
    /// It was asked for at the end of the grace.
    pub(super) is_last_look: bool,
    /// The MCP session in which it was made has ended, and what is asked about it is asked in another.
    pub(super) is_of_lost_session: bool,
    /// Cancelled requests that waited for what it leads to.
    pub(super) waits: Vec<Key>,
    /// How it ended, once its server has reported that.
    pub(super) ended: Option<TaskEnd>,
}

/// Within the grace of its cancel a task's status is asked for so often at most, and once more at the end of that.
pub(super) const MAX_LOOKS: u8 = 3;

/// Its status is not asked for more often, whatever its server wants.
pub(super) const LEAST_BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Cancelled waits for one task that are kept at most. The others stay as unknown as any cancelled request.
pub(super) const MAX_WAITS: usize = 16;

impl TaskWork {
    /// A task whose handle shows this of it, at work for a requester whose ids are like that.
    pub(super) fn new(task: Box<[u8]>, opened_by: Key, seen: TaskSeen, now: Instant, like: RequestId) -> Self {
        Self {
            task,
            opened_by,
            status: seen.status,
            reported: now,
            like,
            origin: None,
            delivered: None,
            look_after: seen.look_after,
            looks: 0,
            next_look: TimerKey::NOT,
            is_last_look: false,
            is_of_lost_session: false,
            waits: Vec::new(),
            ended: None,
        }
    }

    /// Bytes of memory that it owns.
    pub(super) fn boxed(&self) -> usize {
        size_of::<Self>() + self.task.len() + self.waits.capacity() * size_of::<Key>()
    }
}

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
    Status(TaskSeen),
    /// The wish to cancel it has arrived (TASK-21).
    Acknowledged,
    /// Its server knows no such task, or none that is at work (TASK-02, TASK-07).
    Gone,
    /// It could not be done.
    Denied,
    /// What it led to (TASK-06).
    Delivered(Answer),
}

/// What a task's server shows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskSeen {
    pub(super) status: TaskStatus,
    /// The time that the server wants between two looks, if it says so.
    pub(super) look_after: Option<Duration>,
}

impl TaskSeen {
    /// What a handle shows.
    pub(super) fn in_handle(form: &TaskForm, result: &[u8]) -> Self {
        Self::of(json::lookup(result, form.status), json::lookup(result, form.poll))
    }

    /// What the result of another request, or a notification, shows.
    pub(super) fn in_task(form: &TaskForm, task: &[u8]) -> Self {
        let look_after = form.poll.last().and_then(|name| json::member(task, name));
        Self::of(json::member(task, "status"), look_after)
    }

    fn of(status: Option<&[u8]>, look_after: Option<&[u8]>) -> Self {
        let millis = look_after.and_then(json::integer).and_then(|millis| u64::try_from(millis).ok());
        let status = TaskStatus::of(status.and_then(json::text).as_deref());
        Self { status, look_after: millis.map(Duration::from_millis) }
    }
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
    /// The same, where its server itself reports this status.
    pub(super) fn at_server(self, status: Option<TaskStatus>) -> Self {
        match (self, status) {
            (_, None) => self,
            (Self::Status(seen), Some(status)) => Self::Status(TaskSeen { status, ..seen }),
            (_, Some(status)) => Self::Status(TaskSeen { status, look_after: None }),
        }
    }

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
                Self::Status(TaskSeen::in_task(form, result))
            }
        }
    }
}
