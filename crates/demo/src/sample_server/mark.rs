//! Marks: what the work itself says of its beginning and its end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool::Tool;
use crate::moment::Moment;

/// One line: something happened to the work of one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at: Moment,
    /// The id of the call, as the server knows it.
    pub(crate) call: Value,
    pub(crate) tool: Tool,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The work begins.
    Started,
    /// A progress report is about to be written.
    Progress { step: u32 },
    /// The server has read a cancel for it, whatever the work makes of that.
    Told,
    /// The work ended before it was done.
    Stopped { by: By },
    /// The work was done to its end.
    Finished,
    /// The first half of the answer is written.
    Answering,
    /// The server is about to exit.
    Exits { code: i32 },
}

/// What stopped the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    Cancel,
}
