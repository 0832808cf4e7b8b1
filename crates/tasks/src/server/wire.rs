//! Tasks on the wire, in each dialect.
//!
//! 2025-11-25 wraps a new task in `task` and names its life `ttl`. The extension puts the members of the task beside
//! `resultType`, names its life `ttlMs`, and its `tasks/get` carries the questions and the result as well.

use std::collections::BTreeMap;

use rescind::peer::{ErrorObject, error_code};
use serde::Serialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use crate::{
    dialect::{EXTENSION, TaskDialect},
    error::TaskError,
    id::TaskId,
    json::Json,
    outcome::TaskOutcome,
    status::Status,
    store::SummaryPage,
    task::{Task, TaskSummary},
    time::millis,
};

/// The metadata that names the task of a message in 2025-11-25 (TASK-10).
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The answer to a request: a raw result, or an error.
pub(super) type Response = Result<Box<RawValue>, ErrorObject>;

/// A task in answers and notifications (TASK-09).
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
    /// `null` means unlimited.
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

impl<'a> From<&'a TaskSummary> for WireTask<'a> {
    fn from(summary: &'a TaskSummary) -> Self {
        let is_extension = summary.dialect == TaskDialect::Extension;
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
pub(super) fn created(summary: &TaskSummary) -> Response {
    let task = WireTask::from(summary);
    Ok(match summary.dialect {
        TaskDialect::November2025 => to_raw_value(&BTreeMap::from([("task", task)]))?,
        TaskDialect::Extension => to_raw_value(&WireTask { result_type: Some("task"), ..task })?,
    })
}

/// The answer to `tasks/get`.
pub(super) fn got(task: &Task) -> Response {
    let mut shown = WireTask::from(&task.summary);
    if task.summary.dialect == TaskDialect::Extension {
        shown.result_type = Some("complete");
        match task.summary.status {
            Status::InputRequired => shown.input_requests = Some(task.inputs.pending().collect()),
            Status::Completed => shown.result = task.outcome.as_ref().and_then(TaskOutcome::json),
            Status::Failed => {
                shown.error = Some(match &task.outcome {
                    Some(TaskOutcome::Error(error)) => WireError::Kept(error),
                    Some(TaskOutcome::Result(_) | TaskOutcome::ToolError(_) | TaskOutcome::Stopped) | None => {
                        WireError::Made(no_outcome(task))
                    }
                });
            }
            Status::Working | Status::Cancelled => {}
        }
    }
    Ok(to_raw_value(&shown)?)
}

/// The answer to `tasks/cancel`, and the params of status notifications, in 2025-11-25.
pub(super) fn summary(summary: &TaskSummary) -> Response {
    Ok(to_raw_value(&WireTask::from(summary))?)
}

/// The answer to `tasks/result`, of a task that is settled (TASK-06, D38).
pub(super) fn result(found: &Task) -> Response {
    match &found.outcome {
        Some(TaskOutcome::Result(result) | TaskOutcome::ToolError(result)) => {
            related(result.as_str(), &found.summary.id)
                .map_err(|_| ErrorObject::internal("the result of the task cannot be read"))
        }
        Some(TaskOutcome::Error(error)) => Err(serde_json::from_str(error.as_str())
            .unwrap_or_else(|_| ErrorObject::internal("the error of the task cannot be read"))),
        Some(TaskOutcome::Stopped) | None if found.summary.status == Status::Cancelled => {
            Err(ErrorObject::new(error_code::REQUEST_CANCELLED, "Task cancelled"))
        }
        Some(TaskOutcome::Stopped) | None => Err(no_outcome(found)),
    }
}

/// The answer to `tasks/list`.
pub(super) fn listed(page: &SummaryPage) -> Response {
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

/// The answer that only acknowledges a request (TASK-21).
pub(super) fn acknowledged() -> Response {
    Ok(to_raw_value(&json!({ "resultType": "complete" }))?)
}

/// Adds the task to an object's metadata; all else stays byte for byte (TASK-10).
pub(crate) fn related(object: &str, id: &TaskId) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: Members = serde_json::from_str(object)?;
    let mut meta: Members = members.get("_meta").map_or_else(|| Ok(Members::new()), |meta| meta_of(meta))?;
    meta.insert(RELATED_TASK.to_owned(), to_raw_value(&json!({ "taskId": id.as_str() }))?);
    members.insert("_meta".to_owned(), to_raw_value(&meta)?);
    to_raw_value(&members)
}

/// The members of an object, each raw.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// Parses metadata, which may be null.
pub(super) fn meta_of(meta: &RawValue) -> Result<Members, serde_json::Error> {
    serde_json::from_str::<Option<Members>>(meta.get()).map(Option::unwrap_or_default)
}

/// The answer for an error of the store. Internal causes become a fixed phrase (D20).
pub(super) fn store_error(error: &TaskError) -> ErrorObject {
    match error {
        TaskError::NotFound | TaskError::BadCursor | TaskError::Ended { .. } => {
            ErrorObject::invalid_params(error.to_string())
        }
        TaskError::TooMany { .. } => ErrorObject::new(error_code::OVERLOADED, error.to_string()),
        TaskError::TooLarge { .. } => ErrorObject::new(error_code::TOO_LARGE, error.to_string()),
        TaskError::Store(_) => ErrorObject::internal("the task store failed"),
        TaskError::NotPermitted | TaskError::Conflict { .. } | TaskError::NotCancelled | TaskError::Superseded => {
            ErrorObject::internal("the task could not be changed")
        }
    }
}

/// The answer to a client that has to declare the extension first (TASK-24).
pub(super) fn undeclared() -> ErrorObject {
    let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    ErrorObject::new(error_code::MISSING_CLIENT_CAPABILITY, "the client did not declare the tasks extension")
        .with_data(&needed)
}

fn no_outcome(found: &Task) -> ErrorObject {
    ErrorObject::internal(found.summary.message.as_deref().unwrap_or("the work of the task ended without a result"))
}
