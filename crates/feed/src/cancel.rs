//! A cancel and its outcome, in the words that people read (D28).

use serde::{Deserialize, Serialize};

use crate::{Late, LaterWord, TaskEnd, UNKNOWN_PROTOCOL};

/// A cancel of a request: its receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancel {
    /// Who asked: `caller`, `timeout`, `parent`, `disconnect`, `shutdown`, `operator` or `policy` (D20).
    pub cause: String,
    /// The reason, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was asked for, in microseconds on the session's clock.
    pub asked: u64,
    /// When it was written to the other side, in microseconds on the session's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Its outcome so far.
    pub outcome: Outcome,
    /// From `asked` to the answer, in microseconds, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The kind of that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Whether the other side's protocol answers cancelled requests at all.
    pub confirms: bool,
    /// It waits for the id of the task that the request becomes: only that can be cancelled (D56).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The request waited for what a task leads to (`tasks/result`), and the task has ended so: nothing of it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<TaskEnd>,
    /// The common name of that protocol: `MCP`.
    pub protocol: String,
    /// The request has ended for its requester, but progress of it arrived within the last grace (5 s).
    pub works_on: bool,
    /// The above in words that claim no more than was seen.
    pub words: String,
}

/// The outcome of a cancel, as far as it is known (D28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It waits to be written.
    Asked,
    /// The request was withdrawn before any of it was written.
    NeverSent,
    /// The protocol does not allow this request to be cancelled, or not now.
    NotSendable,
    /// Written, and nothing is known since.
    Sent,
    /// The other side answered that the request is cancelled.
    Confirmed,
    /// The answer arrived before the cancel was written.
    CompletedFirst,
    /// The other side answered as if there were no cancel.
    AnsweredAfter,
    /// The connection ended before the outcome was known.
    Unknown,
    /// A later shim's word: what it means stands in the `words` of the cancel.
    #[serde(untagged)]
    Later(LaterWord),
}

impl Outcome {
    /// Whether the outcome can no longer change, in a protocol that answers cancelled requests.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Asked | Self::Sent | Self::Later(_))
    }
}

/// The kind of an answer.
///
/// It never grows: JSON-RPC answers with a result or with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A result.
    Result,
    /// An error.
    Error,
}

/// The cause of what a limit refuses (D65).
const POLICY: &str = "policy";

impl Cancel {
    /// Fills in `works_on` and `words`, taking late messages as having just arrived.
    #[must_use]
    pub fn in_words(self, late: Option<&Late>) -> Self {
        self.with_words(late, true)
    }

    /// Fills in `works_on` and `words` from the rest and the late messages, which arrived `just_now` or some time ago.
    #[must_use]
    pub fn with_words(mut self, late: Option<&Late>, just_now: bool) -> Self {
        let work = late.filter(|late| late.notices > 0 && late.answers == 0 && self.after.is_none());
        self.works_on = work.is_some() && just_now;
        self.words = self.describe(work);
        self
    }

    /// Words for a client that has its answer, although the server has not given one (D61).
    #[must_use]
    pub fn released(mut self) -> Self {
        if self.outcome == Outcome::Sent && self.confirms && !self.works_on {
            self.words = "released; not confirmed".into();
        }
        self
    }

    /// Words for work that is followed by itself: no answer ends it, and its server's own word does (D55, D58).
    #[must_use]
    pub fn of_work(mut self) -> Self {
        let after = self.after.map(duration).unwrap_or_default();
        match (self.outcome, self.answer) {
            (Outcome::CompletedFirst, _) => self.words = "it was over before the cancel arrived".into(),
            (Outcome::AnsweredAfter, Some(Answer::Error)) => self.words = format!("failed by itself after {after}"),
            (Outcome::AnsweredAfter, Some(Answer::Result) | None) => {
                self.words = format!("ended by itself after {after}");
            }
            _ => {}
        }
        self
    }

    fn describe(&self, work: Option<&Late>) -> String {
        let after = self.after.map(duration).unwrap_or_default();
        match self.outcome {
            Outcome::Asked => "cancelling…".into(),
            Outcome::NeverSent if self.cause == POLICY => {
                format!("never sent; refused by {}", self.reason.as_deref().unwrap_or("a limit"))
            }
            Outcome::NeverSent => "never sent; the request was withdrawn first".into(),
            Outcome::NotSendable if self.protocol == UNKNOWN_PROTOCOL => {
                "not sent: rescind does not know this protocol; only the end of the server stops the work".into()
            }
            Outcome::NotSendable => format!("not sent: {} does not allow this request to be cancelled", self.protocol),
            Outcome::Sent if self.works_on => "progress still arriving".into(),
            Outcome::Sent if self.confirms => "sent; not confirmed yet".into(),
            Outcome::Sent => match work {
                Some(work) => format!("progress went on for {}", duration(work.at.saturating_sub(self.asked))),
                None => format!("sent; {} does not confirm", self.protocol),
            },
            Outcome::Confirmed => format!("confirmed after {after}"),
            Outcome::CompletedFirst => "answered before the cancel was sent".into(),
            Outcome::AnsweredAfter => match self.answer {
                Some(Answer::Error) => format!("answered with an error after {after}"),
                Some(Answer::Result) | None => format!("answered after {after}"),
            },
            Outcome::Unknown => "connection ended".into(),
            Outcome::Later(word) => word.as_str().replace('_', " "),
        }
    }
}

/// A duration as people read it: `12 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`.
#[must_use]
pub fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
        60_000_000..3_600_000_000 => format!("{} min {} s", micros / 60_000_000, micros % 60_000_000 / 1_000_000),
        _ => format!("{} h {} min", micros / 3_600_000_000, micros % 3_600_000_000 / 60_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(outcome: Outcome, confirms: bool, after: Option<u64>, late: Option<Late>) -> String {
        cancel(outcome, confirms, after).in_words(late.as_ref()).words
    }

    fn long_ago(outcome: Outcome, late: Late) -> String {
        cancel(outcome, false, None).with_words(Some(&late), false).words
    }

    fn cancel(outcome: Outcome, confirms: bool, after: Option<u64>) -> Cancel {
        let (cause, protocol) = ("operator".into(), "MCP".into());
        Cancel {
            cause,
            reason: None,
            asked: 0,
            written: None,
            outcome,
            after,
            answer: None,
            confirms,
            held: false,
            waited_for: None,
            protocol,
            works_on: false,
            words: String::new(),
        }
    }

    #[test]
    fn the_words_claim_no_more_than_was_seen() {
        assert_eq!(words(Outcome::Asked, false, None, None), "cancelling…");
        assert_eq!(words(Outcome::Sent, false, None, None), "sent; MCP does not confirm");
        assert_eq!(words(Outcome::Sent, true, None, None), "sent; not confirmed yet");
        assert_eq!(cancel(Outcome::Sent, true, None).in_words(None).released().words, "released; not confirmed");
        let silent = cancel(Outcome::Sent, false, None).in_words(None).released();
        assert_eq!(silent.words, "sent; MCP does not confirm", "nothing was due");
        assert_eq!(words(Outcome::Confirmed, true, Some(12_400), None), "confirmed after 12 ms");
        assert_eq!(words(Outcome::AnsweredAfter, false, Some(3_200_000), None), "answered after 3.2 s");
        assert_eq!(words(Outcome::Unknown, true, None, None), "connection ended");
        let of_work = |outcome| cancel(outcome, true, Some(12_400)).in_words(None).of_work().words;
        assert_eq!(of_work(Outcome::AnsweredAfter), "ended by itself after 12 ms");
        assert_eq!(of_work(Outcome::CompletedFirst), "it was over before the cancel arrived");
        assert_eq!(of_work(Outcome::Confirmed), "confirmed after 12 ms");
        let forbidden = "not sent: MCP does not allow this request to be cancelled";
        assert_eq!(words(Outcome::NotSendable, false, None, None), forbidden);
        let unknown = Cancel { protocol: UNKNOWN_PROTOCOL.to_owned(), ..cancel(Outcome::NotSendable, false, None) };
        let only_its_end = "not sent: rescind does not know this protocol; only the end of the server stops the work";
        assert_eq!(unknown.in_words(None).words, only_its_end);
        let refused = Cancel {
            cause: POLICY.to_owned(),
            reason: Some("--limit 10/1m".to_owned()),
            ..cancel(Outcome::NeverSent, false, None)
        };
        assert_eq!(refused.in_words(None).words, "never sent; refused by --limit 10/1m");
        let late = Late { at: 1, answers: 0, notices: 1 };
        assert_eq!(words(Outcome::Sent, false, None, Some(late)), "progress still arriving");
        assert_eq!(long_ago(Outcome::Sent, late), "progress went on for 1 µs");
        let late = Late { at: 1, answers: 1, notices: 1 };
        assert_eq!(words(Outcome::Sent, false, None, Some(late)), "sent; MCP does not confirm");
    }

    #[test]
    fn a_duration_is_as_long_as_it_needs() {
        let durations = [999, 1_234, 12_345, 3_250_000, 250_000_000, 7_500_000_000].map(duration);
        assert_eq!(durations, ["999 µs", "1.2 ms", "12 ms", "3.2 s", "4 min 10 s", "2 h 5 min"]);
    }
}
