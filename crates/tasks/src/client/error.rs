//! Why a task has no result.

use std::time::Duration;

use rescind::peer::{CallError, Cause, Clock, ErrorObject};

use crate::TaskId;

/// Why a call that may be a task has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskCallError {
    /// Our side cancelled it: the cause says who and why. What came of it at the server is in the receipt.
    #[error("cancelled: {}", .0.code.phrase())]
    Cancelled(Cause),
    /// A clock of the call ran out, here (D16); the server was told to cancel the task.
    #[error("the {} clock ran out after {after:?}", .clock.as_str())]
    TimedOut {
        /// Which clock.
        clock: Clock,
        /// After how long.
        after: Duration,
    },
    /// The request came to an error, as a task or at once.
    #[error("the peer answered: {0}")]
    Peer(#[source] ErrorObject),
    /// Somebody else cancelled the task.
    #[error("the task was cancelled by somebody else")]
    CancelledElsewhere {
        /// The task.
        task: TaskId,
        /// Its last words, in those of the server: untrusted.
        message: Option<String>,
    },
    /// The server has no such task: it never had, its ttl is over, or it is somebody else's (TASK-07, TASK-08).
    #[error("the server knows no such task: {error}")]
    Unknown {
        /// The task.
        task: TaskId,
        /// What the server said.
        error: ErrorObject,
    },
    /// The task asked a question that nobody answers: there is no [`on_input`](super::TaskCall::on_input), or it
    /// failed. The task was cancelled.
    #[error("the task asks what nobody here answers: {0}")]
    Unanswered(#[source] ErrorObject),
    /// A call about the task failed, its making included. After [`CallError::Closed`] the task goes on: it can be
    /// [followed](super::TaskClient::follow) by its id from another connection.
    #[error("a call about the task failed: {error}")]
    Call {
        /// The task, if it is known.
        task: Option<TaskId>,
        /// What failed.
        #[source]
        error: CallError,
    },
    /// The server's answer is no answer to that.
    #[error("the peer's answer cannot be read: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// The params are no object, or cannot be written as JSON; nothing was sent.
    #[error("its params are no JSON object: {0}")]
    Params(#[source] serde_json::Error),
    /// It was awaited after it had ended.
    #[error("it had ended before")]
    Over,
}

impl TaskCallError {
    /// Whether our side cancelled it.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }
}

impl From<TaskCallError> for ErrorObject {
    /// A handler whose task failed fails with it, as with a call of its own.
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
            | TaskCallError::Over) => Self::internal(error.to_string()),
        }
    }
}
