//! Asking a person for permission.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::peer::ResultOf;

/// The params of `session/request_permission`.
///
/// A client's handler of it needs no code for cancellation: when the turn is cancelled the handler's token fires, and the
/// agent is answered `cancelled` regardless of what the handler returns (ACP-08).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Asked")]
pub struct PermissionRequest {
    /// The session.
    pub session_id: String,
    /// The tool call that needs permission, as the agent describes it: untrusted. In version 2, where the question is about
    /// something else, the subject of the question.
    pub tool_call: Value,
    /// The choices.
    pub options: Vec<PermissionOption>,
}

/// The params as either version writes them: version 2 has a title and a subject of its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    session_id: String,
    #[serde(default)]
    tool_call: Value,
    title: Option<String>,
    #[serde(default)]
    subject: Value,
    options: Vec<PermissionOption>,
}

impl From<Asked> for PermissionRequest {
    fn from(asked: Asked) -> Self {
        let Asked { session_id, mut tool_call, title, mut subject, options } = asked;
        if tool_call.is_null() {
            tool_call = subject.get_mut("toolCall").map(Value::take).unwrap_or(subject);
        }
        if let (Some(title), Some(members)) = (title, tool_call.as_object_mut()) {
            members.entry("title").or_insert_with(|| title.into());
        }
        Self { session_id, tool_call, options }
    }
}

/// One of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// Its id.
    pub option_id: String,
    /// Its text for the person.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

impl PermissionOption {
    /// Makes a choice.
    #[must_use]
    pub fn new(option_id: &str, name: &str, kind: &str) -> Self {
        Self { option_id: option_id.to_owned(), name: name.to_owned(), kind: kind.to_owned() }
    }
}

/// The result of `session/request_permission`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// The person's choice, or that the turn was cancelled first.
    pub outcome: PermissionOutcome,
}

/// The outcome of a request for permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PermissionOutcome {
    /// A choice.
    #[serde(rename_all = "camelCase")]
    Selected {
        /// Its id.
        option_id: String,
    },
    /// The turn was cancelled.
    Cancelled,
}

impl ResultOf<PermissionRequest> for Permission {}

impl Permission {
    /// The person chose this option.
    #[must_use]
    pub fn selected(option_id: &str) -> Self {
        Self { outcome: PermissionOutcome::Selected { option_id: option_id.to_owned() } }
    }

    /// The turn was cancelled.
    #[must_use]
    pub const fn cancelled() -> Self {
        Self { outcome: PermissionOutcome::Cancelled }
    }

    /// Whether the person chose the option of this id.
    #[must_use]
    pub fn is_selected(&self, option_id: &str) -> bool {
        matches!(&self.outcome, PermissionOutcome::Selected { option_id: chosen } if chosen == option_id)
    }
}
