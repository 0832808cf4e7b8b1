//! Errors of calls that may be tasks.

use std::time::Duration;

use rescind::peer::{CallError, Cause, Clock, ErrorObject, Outcome};

use crate::TaskId;

/// Why a call that may be a task has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskCallError {
    /// Our side cancelled the call. The cause says who asked and why; the receipt says what came of it at the server.
    #[error("cancelled: {}", .0.code.phrase())]
    Cancelled(Cause),
    /// A clock of the call ran out on our side (D16). The server was asked to cancel the task.
    #[error("the {} clock ran out after {after:?}", .clock.as_str())]
    TimedOut {
        /// Which clock.
        clock: Clock,
        /// The limit.
        after: Duration,
    },
    /// The request failed, as a task or at once.
    #[error("the peer answered: {0}")]
    Peer(#[source] ErrorObject),
    /// The task was cancelled, and not by this call.
    #[error("the task was cancelled by another caller or by the server")]
    CancelledElsewhere {
        /// The task.
        task: TaskId,
        /// Its last status message, from the server: untrusted.
        message: Option<String>,
    },
    /// The server does not know the task: it never existed, its ttl has expired, or it has another owner (TASK-07,
    /// TASK-08).
    #[error("the server does not know the task: {error}")]
    Unknown {
        /// The task.
        task: TaskId,
        /// The server's answer.
        error: ErrorObject,
    },
    /// The task asked a question without an answer: [`on_input`](super::TaskCall::on_input) is missing or failed. The
    /// task was cancelled.
    #[error("a question of the task was not answered: {0}")]
    Unanswered(#[source] ErrorObject),
    /// A call about the task failed, or the request itself. After [`CallError::Closed`] the task goes on. It can be
    /// [followed](super::TaskClient::follow) by its id on another connection.
    #[error("a call about the task failed: {error}")]
    Call {
        /// The task, if it is known.
        task: Option<TaskId>,
        /// What failed.
        #[source]
        error: CallError,
    },
    /// The server's answer could not be parsed.
    #[error("the peer's answer could not be parsed: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// The params are not a JSON object. Nothing was sent.
    #[error("the params are not a JSON object: {0}")]
    Params(#[source] serde_json::Error),
    /// The call was polled after it had ended.
    #[error("the call has already ended")]
    AlreadyEnded,
}

impl TaskCallError {
    /// Whether our side cancelled the call.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }

    /// Returns the outcome of a stop that comes after this error.
    pub(super) const fn outcome_of_stop(&self) -> Outcome {
        match self {
            Self::Peer(_) | Self::Unreadable(_) | Self::CancelledElsewhere { .. } => Outcome::CompletedFirst,
            Self::Params(_) | Self::AlreadyEnded => Outcome::NeverSent,
            Self::Call { error: CallError::Misuse(_) | CallError::Overloaded, task: None } => Outcome::NeverSent,
            Self::Call { .. }
            | Self::Unknown { .. }
            | Self::Cancelled(_)
            | Self::TimedOut { .. }
            | Self::Unanswered(_) => Outcome::Unknown,
        }
    }
}

impl From<TaskCallError> for ErrorObject {
    /// The answer of a handler whose task failed.
    fn from(error: TaskCallError) -> Self {
        match error {
            TaskCallError::Cancelled(_) => Self::cancelled(),
            TaskCallError::Peer(error) => error,
            TaskCallError::Call { error, .. } => error.into(),
            TaskCallError::TimedOut { clock, after } => CallError::TimedOut { clock, after }.into(),
            error @ (TaskCallError::CancelledElsewhere { .. }
            | TaskCallError::Unknown { .. }
            | TaskCallError::Unanswered(_)
            | TaskCallError::Unreadable(_)
            | TaskCallError::Params(_)
            | TaskCallError::AlreadyEnded) => Self::internal(error.to_string()),
        }
    }
}
