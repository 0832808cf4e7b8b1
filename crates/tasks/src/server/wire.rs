//! How tasks look on the wire, in each dialect.
//!
//! 2025-11-25 wraps a new task in `task` and counts its life in `ttl`; the extension puts its members beside
//! `resultType` and counts in `ttlMs`, and its `tasks/get` carries the questions and the end as well.

use std::collections::BTreeMap;

use rescind::peer::{ErrorObject, error_code};
use serde::Serialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use crate::{
    error::TaskError,
    id::TaskId,
    json::Json,
    outcome::Outcome,
    status::Status,
    store::Page,
    task::{Dialect, Summary, Task},
    time::millis,
};

/// The extension's name, in capabilities of both sides.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Which task a message of 2025-11-25 belongs to (TASK-10).
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// An answer as it leaves.
pub(super) type Answer = Result<Box<RawValue>, ErrorObject>;

/// A task, as answers and notifications say it (TASK-09).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireTask<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    task_id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    created_at: String,
    last_updated_at: String,
    /// `null` is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<BTreeMap<&'a str, &'a Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<WireError<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireError<'a> {
    Kept(&'a Json),
    Made(ErrorObject),
}

impl<'a> From<&'a Summary> for WireTask<'a> {
    fn from(summary: &'a Summary) -> Self {
        let is_extension = summary.dialect == Dialect::Extension;
        let (ttl, poll) = (summary.ttl.map(millis), summary.poll_interval.map(millis));
        Self {
            result_type: None,
            task_id: summary.id.as_str(),
            status: summary.status.as_str(),
            status_message: summary.message.as_deref(),
            created_at: summary.created.to_string(),
            last_updated_at: summary.updated.to_string(),
            ttl: (!is_extension).then_some(ttl),
            ttl_ms: is_extension.then_some(ttl),
            poll_interval: poll.filter(|_| !is_extension),
            poll_interval_ms: poll.filter(|_| is_extension),
            input_requests: None,
            result: None,
            error: None,
        }
    }
}

/// The answer to a request that became a task.
pub(super) fn created(summary: &Summary) -> Answer {
    let task = WireTask::from(summary);
    Ok(match summary.dialect {
        Dialect::November2025 => to_raw_value(&BTreeMap::from([("task", task)]))?,
        Dialect::Extension => to_raw_value(&WireTask { result_type: Some("task"), ..task })?,
    })
}

/// The answer to `tasks/get`.
pub(super) fn got(task: &Task) -> Answer {
    let mut told = WireTask::from(&task.summary);
    if task.summary.dialect == Dialect::Extension {
        told.result_type = Some("complete");
        match task.summary.status {
            Status::InputRequired => told.input_requests = Some(task.inputs.pending().collect()),
            Status::Completed => told.result = task.outcome.as_ref().and_then(Outcome::json),
            Status::Failed => {
                told.error = Some(match &task.outcome {
                    Some(Outcome::Error(error)) => WireError::Kept(error),
                    Some(Outcome::Result(_) | Outcome::ToolError(_) | Outcome::Stopped) | None => {
                        WireError::Made(given_up(task))
                    }
                });
            }
            Status::Working | Status::Cancelled => {}
        }
    }
    Ok(to_raw_value(&told)?)
}

/// The answer to `tasks/cancel` of 2025-11-25, and what its status notifications say.
pub(super) fn summary(summary: &Summary) -> Answer {
    Ok(to_raw_value(&WireTask::from(summary))?)
}

/// The answer to `tasks/result`, of a task that is settled (TASK-06, D38).
pub(super) fn result(found: &Task) -> Answer {
    match &found.outcome {
        Some(Outcome::Result(result) | Outcome::ToolError(result)) => related(result.as_str(), &found.summary.id)
            .map_err(|_| ErrorObject::internal("the result of the task cannot be read")),
        Some(Outcome::Error(error)) => Err(serde_json::from_str(error.as_str())
            .unwrap_or_else(|_| ErrorObject::internal("the error of the task cannot be read"))),
        Some(Outcome::Stopped) | None if found.summary.status == Status::Cancelled => {
            Err(ErrorObject::new(error_code::REQUEST_CANCELLED, "Task cancelled"))
        }
        Some(Outcome::Stopped) | None => Err(given_up(found)),
    }
}

/// The answer to `tasks/list`.
pub(super) fn listed(page: &Page) -> Answer {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        tasks: Vec<WireTask<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<&'a str>,
    }
    let tasks = page.tasks.iter().map(WireTask::from).collect();
    Ok(to_raw_value(&List { tasks, next_cursor: page.next.as_deref() })?)
}

/// The answer that only says that a request was taken in (TASK-21).
pub(super) fn acknowledged() -> Answer {
    Ok(to_raw_value(&json!({ "resultType": "complete" }))?)
}

/// An object with the task that it belongs to in its metadata; all else stays byte for byte (TASK-10).
pub(crate) fn related(object: &str, id: &TaskId) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: Members = serde_json::from_str(object)?;
    let mut meta: Members = members.get("_meta").map_or_else(|| Ok(Members::new()), |meta| meta_of(meta))?;
    meta.insert(RELATED_TASK.to_owned(), to_raw_value(&json!({ "taskId": id.as_str() }))?);
    members.insert("_meta".to_owned(), to_raw_value(&meta)?);
    to_raw_value(&members)
}

/// The members of an object, each as it came.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// Absent metadata may be written as null.
pub(super) fn meta_of(meta: &RawValue) -> Result<Members, serde_json::Error> {
    serde_json::from_str::<Option<Members>>(meta.get()).map(Option::unwrap_or_default)
}

/// What its requester is told when a store refuses; what is wrong inside is said in a fixed phrase (D20).
pub(super) fn refusal(error: &TaskError) -> ErrorObject {
    match error {
        TaskError::NotFound | TaskError::BadCursor | TaskError::Ended { .. } => {
            ErrorObject::invalid_params(error.to_string())
        }
        TaskError::TooMany { .. } => ErrorObject::new(error_code::OVERLOADED, error.to_string()),
        TaskError::TooLarge { .. } => ErrorObject::new(error_code::TOO_LARGE, error.to_string()),
        TaskError::Store(_) => ErrorObject::internal("the task store failed"),
        TaskError::NotTheirs | TaskError::Conflict { .. } | TaskError::NotCancelled | TaskError::Lost => {
            ErrorObject::internal("the task could not be changed")
        }
    }
}

/// A client that has to declare the extension first (TASK-24).
pub(super) fn undeclared() -> ErrorObject {
    let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    ErrorObject::new(error_code::MISSING_CLIENT_CAPABILITY, "the client did not declare the tasks extension")
        .with_data(&needed)
}

fn given_up(found: &Task) -> ErrorObject {
    ErrorObject::internal(found.summary.message.as_deref().unwrap_or("the work of the task was given up"))
}
