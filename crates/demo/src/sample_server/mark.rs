//! Marks of the second act: what happens to the work of each call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tool::Tool;
use crate::moment::Moment;

/// One line: something happened to the work of one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) at: Moment,
    /// The id of the call, as the server received it.
    pub(crate) call: Value,
    pub(crate) tool: Tool,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub(crate) enum Event {
    /// The work begins.
    Started,
    /// A progress report is about to be written.
    Progress { step: u32 },
    /// The server has read its cancel, whether or not the tool obeys it.
    Told,
    /// The work ended before it was done.
    Stopped { by: By },
    /// The work was done.
    Finished,
    /// The first half of the answer is written.
    Answering,
    /// The server is about to exit.
    Exits { code: i32 },
}

/// The reason why the work stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    Cancel,
}
