//! The outcome of a task's work.

use crate::{dialect::TaskDialect, json::Json, status::Status};

/// How the work of a task ended, as `tasks/result` or the extension's `tasks/get` shows it.
///
/// It never grows: each has its own form in each dialect of tasks (TASK-12, TASK-25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The result of the underlying request.
    Result(Json),
    /// A tool's result with `isError: true`. The task has failed in 2025-11-25 (TASK-12), is completed in the extension
    /// (TASK-25).
    ToolError(Json),
    /// The error object of the underlying request.
    Error(Json),
    /// The cancel ended the work, without a result. Only valid if a cancel is recorded: a cancel is never inferred
    /// (D25).
    Stopped,
}

impl TaskOutcome {
    /// Returns the status of a task with this outcome, unless a cancel has won.
    #[must_use]
    pub const fn status(&self, dialect: TaskDialect) -> Status {
        match (self, dialect) {
            (Self::Result(_), _) | (Self::ToolError(_), TaskDialect::Extension) => Status::Completed,
            (Self::Error(_), _) | (Self::ToolError(_), TaskDialect::November2025) => Status::Failed,
            (Self::Stopped, _) => Status::Cancelled,
        }
    }

    /// Returns the result or error object, if there is one.
    #[must_use]
    pub const fn json(&self) -> Option<&Json> {
        match self {
            Self::Result(json) | Self::ToolError(json) | Self::Error(json) => Some(json),
            Self::Stopped => None,
        }
    }
}
