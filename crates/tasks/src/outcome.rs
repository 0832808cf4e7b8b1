//! What the work came to.

use crate::{json::Json, status::Status, task::Dialect};

/// How the work of a task ended: what `tasks/result`, or the extension's `tasks/get`, gives of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The result of the underlying request.
    Result(Json),
    /// The result of a tool that says `isError: true`: failed in 2025-11-25 (TASK-12), completed in the extension
    /// (TASK-25).
    ToolError(Json),
    /// The error object of the underlying request.
    Error(Json),
    /// It ended by the cancel and produced nothing. Only for a task whose cancel is on record: who cancelled is never
    /// inferred (D25).
    Stopped,
}

impl Outcome {
    /// The status that it means, where no cancel has won.
    #[must_use]
    pub const fn status(&self, dialect: Dialect) -> Status {
        match (self, dialect) {
            (Self::Result(_), _) | (Self::ToolError(_), Dialect::Extension) => Status::Completed,
            (Self::Error(_), _) | (Self::ToolError(_), Dialect::November2025) => Status::Failed,
            (Self::Stopped, _) => Status::Cancelled,
        }
    }

    /// The result or error object, if there is one.
    #[must_use]
    pub const fn json(&self) -> Option<&Json> {
        match self {
            Self::Result(json) | Self::ToolError(json) | Self::Error(json) => Some(json),
            Self::Stopped => None,
        }
    }
}
