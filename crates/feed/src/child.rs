//! A child: a session that an agent opened for a part of the work, listed like a request (D54).

use serde::{Deserialize, Serialize};

use crate::{Cancel, LaterWord, Outcome, duration};

/// What makes a request a child. Its id is that of the child's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// The id of its immediate parent's session, as JSON text.
    pub parent_session: String,
    /// What is known of its work.
    pub state: ChildState,
    /// Whether its agent allows it to be cancelled now.
    pub can_cancel: bool,
    /// When its state was last reported, in microseconds on the session's clock.
    pub reported: u64,
}

/// What is known of the work of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildState {
    /// It goes on.
    Running,
    /// It is over. The child may be given other work.
    Finished,
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed,
    /// Its agent cannot see it any more, reports a word that is not known here, or has ended.
    Unknown,
    /// Its agent has reported nothing, or its session was loaded since.
    Unconfirmed,
    /// Only known from the history of a session that was loaded.
    History,
    /// Its parent was closed, and it with it.
    Closed,
    /// A later shim's word.
    #[serde(untagged)]
    Later(LaterWord),
}

impl ChildState {
    /// The word used in lists.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Unconfirmed => "unconfirmed",
            Self::History => "history",
            Self::Closed => "closed",
            Self::Later(word) => word.as_str(),
        }
    }

    /// Whether it is known neither to work nor not to.
    #[must_use]
    pub const fn is_unseen(self) -> bool {
        matches!(self, Self::Unknown | Self::Unconfirmed | Self::Later(_))
    }
}

impl Cancel {
    /// Fills in `words` for a cancel of a child's work, which only its agent's word confirms.
    #[must_use]
    pub fn of_child(mut self, child: &Child) -> Self {
        let after = self.after.map(duration).unwrap_or_default();
        let known = match self.outcome {
            Outcome::Asked => "cancelling…".into(),
            Outcome::NotSendable => "not sent: its agent does not allow this subagent to be cancelled".into(),
            Outcome::Sent => "sent; not confirmed yet".into(),
            Outcome::Confirmed => format!("confirmed after {after}"),
            Outcome::AnsweredAfter if child.state == ChildState::Failed => format!("failed by itself after {after}"),
            Outcome::AnsweredAfter => format!("ended by itself after {after}"),
            Outcome::CompletedFirst | Outcome::NeverSent => "ended before the cancel was sent".into(),
            Outcome::Unknown => "connection ended".into(),
            Outcome::Later(word) => word.as_str().replace('_', " "),
        };
        let unseen = match child.state {
            ChildState::Unknown => "; its agent cannot see whether it works",
            ChildState::Unconfirmed => "; its agent has not said whether it works",
            ChildState::Running
            | ChildState::Finished
            | ChildState::Cancelled
            | ChildState::Failed
            | ChildState::History
            | ChildState::Closed
            | ChildState::Later(_) => "",
        };
        self.words = format!("{known}{unseen}");
        self
    }

    /// Adds to the words of a turn's cancel how many children that were at work in the course of it may still be, and how
    /// many of those cannot be seen; once the turn is over.
    #[must_use]
    pub fn with_children(mut self, open: usize, unseen: usize) -> Self {
        let is_over = matches!(self.outcome, Outcome::Confirmed | Outcome::AnsweredAfter | Outcome::CompletedFirst);
        let working = open.saturating_sub(unseen);
        if is_over && working > 0 {
            let work = if working == 1 { "subagent still works" } else { "subagents still work" };
            self.words.push_str(&format!("; {working} {work}"));
        }
        if is_over && unseen > 0 {
            let what = if unseen == 1 { "subagent" } else { "subagents" };
            self.words.push_str(&format!("; {unseen} {what} cannot be seen"));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cancel(outcome: Outcome) -> Cancel {
        Cancel {
            cause: "operator".into(),
            reason: None,
            asked: 0,
            written: None,
            outcome,
            after: Some(12_000),
            answer: None,
            confirms: true,
            protocol: "ACP".into(),
            held: false,
            waited_for: None,
            works_on: false,
            words: "confirmed after 12 ms".into(),
        }
    }

    #[test]
    fn the_receipt_of_a_turn_says_what_still_works_once_it_is_over() {
        let words = |outcome, open, unseen| cancel(outcome).with_children(open, unseen).words;
        assert_eq!(words(Outcome::Confirmed, 0, 0), "confirmed after 12 ms");
        assert_eq!(words(Outcome::Confirmed, 2, 0), "confirmed after 12 ms; 2 subagents still work");
        assert_eq!(
            words(Outcome::AnsweredAfter, 3, 2),
            "confirmed after 12 ms; 1 subagent still works; 2 subagents cannot be seen"
        );
        assert_eq!(words(Outcome::Sent, 2, 0), "confirmed after 12 ms", "they have lines of their own");
    }

    #[test]
    fn the_words_of_a_childs_cancel_claim_no_more_than_its_agent_said() {
        let words = |outcome, state| {
            let child = Child { parent_session: "\"s\"".into(), state, can_cancel: true, reported: 0 };
            cancel(outcome).of_child(&child).words
        };
        assert_eq!(words(Outcome::Sent, ChildState::Running), "sent; not confirmed yet");
        assert_eq!(
            words(Outcome::Sent, ChildState::Unknown),
            "sent; not confirmed yet; its agent cannot see whether it works"
        );
        assert_eq!(
            words(Outcome::NotSendable, ChildState::Unconfirmed),
            "not sent: its agent does not allow this subagent to be cancelled; its agent has not said whether it works"
        );
        assert_eq!(words(Outcome::Confirmed, ChildState::Cancelled), "confirmed after 12 ms");
        assert_eq!(words(Outcome::AnsweredAfter, ChildState::Finished), "ended by itself after 12 ms");
        assert_eq!(words(Outcome::AnsweredAfter, ChildState::Failed), "failed by itself after 12 ms");
    }

    #[test]
    fn a_later_word_is_shown_as_it_is_and_is_not_known_to_mean_work_or_its_end() {
        let later: ChildState = serde_json::from_str("\"dreaming\"").unwrap();
        assert_eq!((later.as_str(), later.is_unseen()), ("dreaming", true));
    }
}
