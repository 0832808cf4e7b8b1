//! A task at work: what a request left to be done after its answer, listed like a request (D56).

use serde::{Deserialize, Serialize};

use crate::{Answer, Cancel, LaterWord, Outcome, duration};

/// What makes a request a task at work. Its id is that of the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAtWork {
    /// The status that was reported last.
    pub status: TaskStatus,
    /// When it was reported, in microseconds on the session's clock. Nothing is known of it since.
    pub reported: u64,
}

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// Its work goes on.
    Working,
    /// It waits for what its requester was asked.
    InputRequired,
    /// It has a result.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its server has reported no status, or a word that is not known here.
    Unknown,
    /// A later shim's word.
    #[serde(untagged)]
    Later(LaterWord),
}

impl TaskStatus {
    /// The word used in lists.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
            Self::Later(word) => word.as_str(),
        }
    }
}

/// How the task ended that a cancelled request waited for: with it nothing of the request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskEnd {
    /// Its server reports it as cancelled.
    Cancelled,
    /// In another way.
    #[serde(other)]
    Over,
}

impl Cancel {
    /// Fills in `words` for a request that waited for a task, which has ended so. Of the request itself no more is known.
    #[must_use]
    pub fn of_wait(mut self, end: TaskEnd) -> Self {
        self.waited_for = Some(end);
        if matches!(self.outcome, Outcome::Asked | Outcome::Sent) {
            self.words = match end {
                TaskEnd::Cancelled => "the task that it waited for is cancelled".into(),
                TaskEnd::Over => "the task that it waited for is over".into(),
            };
        }
        self
    }

    /// Fills in `words` for a cancel of a task, which its server answers.
    #[must_use]
    pub fn of_task(mut self) -> Self {
        let after = self.after.map(duration).unwrap_or_default();
        self.words = match (self.outcome, self.answer) {
            (Outcome::Asked, _) if self.held => "held until its server has given its task an id".into(),
            (Outcome::NotSendable, _) => "not sent: its server does not let tasks be cancelled".into(),
            (Outcome::CompletedFirst, _) => "its task was over before the cancel arrived".into(),
            (Outcome::AnsweredAfter, Some(Answer::Error)) => format!("its task failed or was gone after {after}"),
            (Outcome::AnsweredAfter, Some(Answer::Result) | None) => format!("its task ended by itself after {after}"),
            (Outcome::Asked | Outcome::NeverSent | Outcome::Sent, _)
            | (Outcome::Confirmed | Outcome::Unknown | Outcome::Later(_), _) => return self,
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(outcome: Outcome, held: bool) -> String {
        cancel(outcome, held).in_words(None).of_task().words
    }

    fn cancel(outcome: Outcome, held: bool) -> Cancel {
        Cancel {
            cause: "operator".into(),
            reason: None,
            asked: 0,
            written: None,
            outcome,
            after: Some(800_000),
            answer: None,
            confirms: true,
            held,
            waited_for: None,
            protocol: "MCP".into(),
            works_on: false,
            words: String::new(),
        }
    }

    #[test]
    fn the_words_for_a_task_tell_who_waits_for_what() {
        assert_eq!(words(Outcome::Asked, true), "held until its server has given its task an id");
        assert_eq!(words(Outcome::Asked, false), "cancelling…");
        assert_eq!(words(Outcome::Sent, false), "sent; not confirmed yet");
        assert_eq!(words(Outcome::Confirmed, false), "confirmed after 800 ms");
        assert_eq!(words(Outcome::AnsweredAfter, false), "its task ended by itself after 800 ms");
        assert_eq!(words(Outcome::NotSendable, false), "not sent: its server does not let tasks be cancelled");
    }

    #[test]
    fn a_cancelled_wait_tells_of_its_task_and_claims_nothing_of_itself() {
        let wait = |outcome, end| {
            let cancel = Cancel { confirms: false, after: None, ..cancel(outcome, false) };
            cancel.in_words(None).of_wait(end).words
        };
        assert_eq!(wait(Outcome::Sent, TaskEnd::Cancelled), "the task that it waited for is cancelled");
        assert_eq!(wait(Outcome::Sent, TaskEnd::Over), "the task that it waited for is over");
        assert_eq!(wait(Outcome::NeverSent, TaskEnd::Over), "never sent; the request was withdrawn first");
        let later: TaskEnd = serde_json::from_str("\"parked\"").unwrap();
        assert_eq!(later, TaskEnd::Over);
    }

    #[test]
    fn a_later_word_of_a_status_is_shown_as_it_is() {
        let later: TaskStatus = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(later.as_str(), "paused");
    }
}
