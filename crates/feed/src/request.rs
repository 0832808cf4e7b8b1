//! One request: its identity, its state and its outcome.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cancel, Child, LaterWord, Side, TaskAtWork};

/// A request of either side at one moment. A later record with the same key replaces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies it in its session, where it is never reused.
    pub key: String,
    /// The side that sent it.
    pub from: Side,
    /// Its id on its requester's side, as JSON text: `17` or `"17"`.
    pub id: String,
    /// Its id on the other side, as JSON text, if that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Its method.
    pub method: String,
    /// The tool or prompt that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of its parent request, where that is certain: one of the same protocol session, or the only one it can
    /// belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The key of the request that opened it, also once that has ended, or is forgotten: of a child and of other work that goes
    /// on without a request the turn in the course of which it began, of a task the request that it came of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<String>,
    /// When it arrived, in microseconds on the session's clock.
    pub since: u64,
    /// When it went on, if it has waited for the turn before it in its session to end (D60).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<u64>,
    /// Its state.
    pub state: State,
    /// It is `queued` since it waits for the turn before it in its session to end (D60).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_turn: bool,
    /// Its client waits for the agent to end the cancelled turn: one more order of an operator ends that (D61).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_released: bool,
    /// When a timeout of the shim will end it, in microseconds on the session's clock. Progress may move this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Its last progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The task that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Its cancel, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    /// How it ended for its requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// Messages for it that came after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
    /// What makes it a child: a session that the agent opened for a part of the work, which is listed like a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Child>,
    /// What makes it a task at work, which is listed like a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_work: Option<TaskAtWork>,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// It waits to be written to the other side.
    Queued,
    /// It was written to the other side.
    Running,
    /// It was cancelled, and its requester still waits for the answer that its protocol owes.
    Cancelling,
    /// It was cancelled, and after the grace it still reports progress, or the answer that its protocol requires is still
    /// missing.
    Stuck,
    /// Its answer waits to be written.
    Answering,
    /// It was cancelled and has ended for its client, and nothing shows that its server has ended it (D52). For ten minutes
    /// at most, then it is forgotten.
    Released,
    /// It has ended for its requester.
    Ended,
    /// A later shim's word. While such a request has not [settled](Request::settled), it counts as one in flight.
    #[serde(untagged)]
    Later(LaterWord),
}

impl State {
    /// Every state that is known here, in the order of a request's life.
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Running, Self::Cancelling, Self::Stuck, Self::Answering, Self::Released, Self::Ended];

    /// The word used in lists.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Stuck => "stuck",
            Self::Answering => "answering",
            Self::Released => "released",
            Self::Ended => "ended",
            Self::Later(word) => word.as_str(),
        }
    }
}

/// Progress of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// When the last message arrived, in microseconds on the session's clock.
    pub at: u64,
    /// How many messages arrived.
    pub count: u64,
    /// The progress in the server's own units, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The total in the same units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// The fraction done, from 0 to 1, if that is known.
    #[must_use]
    pub fn part(&self) -> Option<f64> {
        let (progress, total) = (self.progress?, self.total?);
        (total > 0.0 && progress.is_finite() && total.is_finite()).then(|| (progress / total).clamp(0.0, 1.0))
    }
}

/// How a request ended for its requester.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// When, in microseconds on the session's clock.
    pub at: u64,
    /// How.
    pub how: SettledHow,
    /// The error code, if it ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
}

/// How a request ended for its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettledHow {
    /// With a result from the other side.
    Result,
    /// With an error from the other side.
    Error,
    /// With an answer from the shim.
    AnsweredHere,
    /// Without an answer, as its protocol demands for a cancelled request.
    Silent,
    /// Its requester disconnected.
    Gone,
    /// A later shim's word.
    #[serde(untagged)]
    Later(LaterWord),
}

impl SettledHow {
    /// The word used in lists.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::AnsweredHere => "answered by rescind",
            Self::Silent => "cancelled",
            Self::Gone => "gone",
            Self::Later(word) => word.as_str(),
        }
    }
}

/// Messages for a request that came after its end, and were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Late {
    /// When the last one came, in microseconds on the session's clock.
    pub at: u64,
    /// Results and errors.
    pub answers: u64,
    /// Progress, updates, and messages of a subscription.
    pub notices: u64,
}

impl Request {
    /// Whether it is a part of the work of its parent, and shown below that: a child, or one from the same side (D58).
    #[must_use]
    pub fn is_part(&self) -> bool {
        let is_of_side = |parent: &str| parent.as_bytes().first() == self.key.as_bytes().first();
        self.child.is_some() || self.parent.as_deref().is_some_and(is_of_side)
    }

    /// Its name for people: its id, with `server:` in front if the server sent it, or `child:` if it is a child, or `task:` if
    /// it is a task at work. A string id that could be mistaken for something else is in quotes.
    #[must_use]
    pub fn label(&self) -> String {
        let plain = self.id.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let id = plain.filter(|text| is_plain(text)).unwrap_or(&self.id);
        match self.from {
            _ if self.child.is_some() => format!("child:{id}"),
            _ if self.at_work.is_some() => format!("task:{id}"),
            Side::Client => id.to_owned(),
            Side::Server => format!("server:{id}"),
        }
    }

    /// Whether it has not ended, or is stuck.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.state {
            State::Queued | State::Running | State::Cancelling | State::Stuck | State::Answering => true,
            State::Released | State::Ended => false,
            State::Later(_) => self.settled.is_none(),
        }
    }

    /// Whether it was cancelled and its client has its end, and nothing shows that its server has ended it (D52).
    #[must_use]
    pub const fn is_released(&self) -> bool {
        matches!(self.state, State::Released)
    }

    /// Since when it is in its state as far as that counts, in microseconds on the session's clock: what is released since
    /// its cancel, all else since it arrived.
    #[must_use]
    pub fn begun(&self) -> u64 {
        match &self.cancel {
            Some(cancel) if self.is_released() => cancel.asked,
            Some(_) | None => self.since,
        }
    }
}

/// Whether `text` cannot be mistaken for a number or a side: letters, digits and a few marks.
fn is_plain(text: &str) -> bool {
    let mark = |c: char| matches!(c, '-' | '_' | '.' | '+' | '@');
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || mark(c))
        && text.chars().any(|c| c.is_ascii_alphabetic())
        && text != "null"
}

/// A list of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The session's clock now, in microseconds.
    pub now: u64,
    /// The oldest first.
    pub requests: Vec<Request>,
    /// How many more match and are not listed.
    pub more: u64,
    /// The arguments of those in flight, by their keys, if they were asked for. They may hold secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Arguments>,
}

/// What a request in flight asks for: its params, as they came.
///
/// It is not a part of [`Request`], so that no event, metric or record of what has ended can have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arguments {
    /// Their JSON text, or its beginning: 16 KiB at most. Empty for a request without params, or if nothing was kept.
    pub text: String,
    /// How long the whole text is, in bytes, as far as anything was kept.
    pub length: u64,
    /// The text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Nothing was kept: its session had no room for more when it came, 1 MiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// One request and its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The request now.
    pub request: Request,
    /// The messages about it, in the order in which they arrived. They may hold secrets.
    pub frames: Vec<FrameView>,
    /// Since when messages are kept, in microseconds on the session's clock. Only the latest few megabytes are, and only
    /// while somebody subscribes. `None` if none are.
    pub kept_since: Option<u64>,
    /// Its arguments, while it is in flight; `None` also of a shim that keeps none. They may hold secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameView {
    /// When it arrived, in microseconds on the session's clock.
    pub at: u64,
    /// Who sent it.
    pub from: Side,
    /// Its text without framing, cut at 64 KiB.
    pub text: String,
    /// Its full length in bytes.
    pub length: u64,
    /// The shim wrote it in the name of that side: a cancel, or an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_shim: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(from: Side, id: &str) -> String {
        let (key, method) = (String::new(), String::new());
        let request = Request {
            key,
            from,
            id: id.into(),
            upstream: None,
            method,
            name: None,
            parent: None,
            opened_by: None,
            since: 0,
            held_until: None,
            state: State::Running,
            waits_for_turn: false,
            may_be_released: false,
            deadline: None,
            progress: None,
            task: None,
            cancel: None,
            settled: None,
            late: None,
            child: None,
            at_work: None,
        };
        request.label()
    }

    #[test]
    fn no_two_ids_of_a_session_have_the_same_label() {
        assert_eq!(labelled(Side::Client, "17"), "17");
        assert_eq!(labelled(Side::Client, "\"17\""), "\"17\"");
        assert_eq!(labelled(Side::Client, "\"req-1\""), "req-1");
        assert_eq!(labelled(Side::Server, "17"), "server:17");
        assert_eq!(labelled(Side::Client, "\"server:17\""), "\"server:17\"");
        assert_eq!(labelled(Side::Client, "\"null\""), "\"null\"");
        assert_eq!(labelled(Side::Client, "\"a b\\u001b\""), "\"a b\\u001b\"");
    }

    #[test]
    fn a_part_is_known_only_with_a_total() {
        let of = |progress, total| Progress { progress, total, ..Progress::default() }.part();
        assert_eq!(of(Some(1.0), Some(4.0)), Some(0.25));
        assert_eq!(of(Some(9.0), Some(4.0)), Some(1.0));
        assert_eq!(of(Some(1.0), None), None);
        assert_eq!(of(Some(1.0), Some(0.0)), None);
    }
}
