//! What a request shows of tasks: which its client supports, and its params.

use rescind::{
    mcp::Revision,
    peer::{Context, ErrorObject},
};
use rescind_proto::json;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::wire;
use crate::dialect::{CLIENT_CAPABILITIES, EXTENSION, TaskDialect};

/// The tasks that the sender of a request supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientSupport {
    /// None: its revision has no tasks.
    None,
    November2025,
    /// Those of the extension, which this request declares.
    Extension,
    /// None: a request without a session that does not declare the extension.
    Undeclared,
}

impl ClientSupport {
    pub(super) fn of(cx: &Context, params: Option<&[u8]>) -> Self {
        match TaskDialect::spoken_in(Revision::of(cx.dialect()).dialect()) {
            Some(TaskDialect::Extension) if declares(params) => Self::Extension,
            Some(TaskDialect::Extension) => Self::Undeclared,
            Some(TaskDialect::November2025) => Self::November2025,
            None => Self::None,
        }
    }

    /// Returns the dialect of a `tasks/*` method that both dialects have.
    pub(super) fn dialect(self, method: &str) -> Result<TaskDialect, ErrorObject> {
        match self {
            Self::None => Err(ErrorObject::method_not_found(method)),
            Self::November2025 => Ok(TaskDialect::November2025),
            Self::Extension => Ok(TaskDialect::Extension),
            Self::Undeclared => Err(wire::undeclared()),
        }
    }

    /// Rejects a method that only 2025-11-25 has (TASK-20).
    pub(super) fn require_november(self, method: &str) -> Result<(), ErrorObject> {
        match self {
            Self::November2025 => Ok(()),
            Self::None | Self::Extension | Self::Undeclared => Err(ErrorObject::method_not_found(method)),
        }
    }

    /// Rejects a method that only the extension has.
    pub(super) fn require_extension(self, method: &str) -> Result<(), ErrorObject> {
        match self {
            Self::Extension => Ok(()),
            Self::Undeclared => Err(wire::undeclared()),
            Self::None | Self::November2025 => Err(ErrorObject::method_not_found(method)),
        }
    }
}

fn declares(params: Option<&[u8]>) -> bool {
    let path = ["_meta", CLIENT_CAPABILITIES, "extensions", EXTENSION];
    params.and_then(|params| json::lookup(params, &path)).is_some_and(|declared| declared.first() == Some(&b'{'))
}

pub(super) fn params<T: DeserializeOwned>(raw: &RawValue) -> Result<T, ErrorObject> {
    serde_json::from_str(raw.get()).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// Returns the params of a call as its work receives them: without the request for a task, and without the deadline of
/// the request, which the task outlives.
pub(super) fn for_work(params: &[u8]) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: wire::Members = serde_json::from_slice(params)?;
    members.remove("task");
    if let Some(meta) = members.get("_meta") {
        let mut meta = wire::meta_of(meta)?;
        meta.remove("dev.rescind/deadlineMs");
        members.insert("_meta".to_owned(), serde_json::value::to_raw_value(&meta)?);
    }
    serde_json::value::to_raw_value(&members)
}
