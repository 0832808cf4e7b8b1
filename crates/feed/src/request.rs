//! One request: what it is, how far it is, what came of it.

use serde::{Deserialize, Serialize};

use crate::{Cancel, Side};

/// A request of either side, as it is at one moment. A later record of the same key replaces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names it in its session; never used again there.
    pub key: String,
    /// Who sent it.
    pub from: Side,
    /// Its id as its requester knows it: the JSON text, `17` or `"17"`.
    pub id: String,
    /// Its id on the other side as JSON text, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Its method.
    pub method: String,
    /// The tool or prompt that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key of the request during which it was made, where that is certain: of the same session, or the only one
    /// that it can belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it arrived, in microseconds on the session's clock.
    pub since: u64,
    /// How far it is.
    pub state: State,
    /// When a clock of the shim will end it, in microseconds on the session's clock; progress may move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// The last progress that was told of it.
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
    /// What came for it after it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits to be written: the other side does not know of it.
    Queued,
    /// The other side has it.
    Running,
    /// A cancel was asked for; its requester still waits for the answer that its protocol owes it.
    Cancelling,
    /// It was cancelled, and past the grace it showed that it is still being worked on, or still has no answer that
    /// is owed.
    Stuck,
    /// Its answer waits to be written.
    Answering,
    /// Its requester has all it will ever get.
    Ended,
}

impl State {
    /// Every state, in the order of a request's life.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Cancelling, Self::Stuck, Self::Answering, Self::Ended];

    /// The word for lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Stuck => "stuck",
            Self::Answering => "answering",
            Self::Ended => "ended",
        }
    }
}

/// Progress of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// When the last of it arrived, in microseconds on the session's clock.
    pub at: u64,
    /// How many messages of it arrived.
    pub count: u64,
    /// How far, in the server's own units; none where the protocol's progress is no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Of how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Progress {
    /// The part that is done, from 0 to 1, where that can be said.
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
    /// The code, where it was an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
}

/// How a request ended for its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledHow {
    /// With a result of the other side.
    Result,
    /// With an error of the other side.
    Error,
    /// With an answer of the shim's own.
    AnsweredHere,
    /// With silence, as its protocol asks of a cancelled request.
    Silent,
    /// The requester went away.
    Gone,
}

impl SettledHow {
    /// The word for lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::AnsweredHere => "answered here",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

/// What came for a request after it was over, and was swallowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Late {
    /// When the last of it came, in microseconds on the session's clock.
    pub at: u64,
    /// Results and errors.
    pub answers: u64,
    /// Progress, updates, and messages of a subscription.
    pub notices: u64,
}

impl Request {
    /// What a person calls it: its id, `server:` before one of the server's, and a string that could be taken for
    /// something else in quotes.
    #[must_use]
    pub fn label(&self) -> String {
        let plain = self.id.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let id = plain.filter(|text| is_plain(text)).unwrap_or(&self.id);
        match self.from {
            Side::Client => id.to_owned(),
            Side::Server => format!("server:{id}"),
        }
    }

    /// Whether somebody waits for it, or it was cancelled and shows that it is still being worked on.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended)
    }
}

/// Letters, digits and a few marks, and not to be taken for a number or a side.
fn is_plain(text: &str) -> bool {
    let mark = |c: char| matches!(c, '-' | '_' | '.' | '+' | '@');
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || mark(c))
        && text.chars().any(|c| c.is_ascii_alphabetic())
        && text != "null"
}

/// Requests in flight and recent ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The session's clock now, in microseconds.
    pub now: u64,
    /// The oldest first.
    pub requests: Vec<Request>,
    /// How many more there are that match and are not listed.
    pub more: u64,
}

/// Everything that is kept of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The request as it is now.
    pub request: Request,
    /// The messages about it, in the order in which they arrived. They may hold secrets.
    pub frames: Vec<FrameView>,
    /// Since when messages have been kept, in microseconds on the session's clock: only while somebody watches, and
    /// the latest few megabytes. `None` where none are.
    pub kept_since: Option<u64>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameView {
    /// When it arrived, in microseconds on the session's clock.
    pub at: u64,
    /// Who sent it.
    pub from: Side,
    /// Its text without its framing; cut at 64 KiB.
    pub text: String,
    /// Its whole length in bytes.
    pub length: u64,
    /// The shim wrote it in that side's name: a cancel, or an answer of its own.
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
            since: 0,
            state: State::Running,
            deadline: None,
            progress: None,
            task: None,
            cancel: None,
            settled: None,
            late: None,
        };
        request.label()
    }

    #[test]
    fn no_two_ids_of_a_session_are_called_the_same() {
        assert_eq!(labelled(Side::Client, "17"), "17");
        assert_eq!(labelled(Side::Client, "\"17\""), "\"17\"");
        assert_eq!(labelled(Side::Client, "\"req-1\""), "req-1");
        assert_eq!(labelled(Side::Server, "17"), "server:17");
        assert_eq!(labelled(Side::Client, "\"server:17\""), "\"server:17\"");
        assert_eq!(labelled(Side::Client, "\"null\""), "\"null\"");
        assert_eq!(labelled(Side::Client, "\"a b\\u001b\""), "\"a b\\u001b\"");
    }

    #[test]
    fn a_part_is_said_only_where_it_can_be() {
        let of = |progress, total| Progress { progress, total, ..Progress::default() }.part();
        assert_eq!(of(Some(1.0), Some(4.0)), Some(0.25));
        assert_eq!(of(Some(9.0), Some(4.0)), Some(1.0));
        assert_eq!(of(Some(1.0), None), None);
        assert_eq!(of(Some(1.0), Some(0.0)), None);
    }
}
