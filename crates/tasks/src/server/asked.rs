//! What a request says of tasks: its dialect, its owner, its params.

use rescind::{
    mcp::Revision,
    peer::{Context, ErrorObject},
};
use rescind_proto::json;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::wire;
use crate::task::Dialect;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Which tasks a request can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// A revision without any.
    None,
    November2025,
    /// 2026-07-28, of a client that declared the extension with this request.
    Extension,
    /// 2026-07-28, of one that did not.
    Undeclared,
}

impl Era {
    pub(super) fn of(cx: &Context, params: Option<&[u8]>) -> Self {
        let revision = Revision::of(cx.dialect());
        match (revision.is_modern(), revision == Revision::V2025_11_25) {
            (true, _) if declares(params) => Self::Extension,
            (true, _) => Self::Undeclared,
            (false, true) => Self::November2025,
            (false, false) => Self::None,
        }
    }

    /// The dialect of a `tasks/*` method that both know.
    pub(super) fn dialect(self, method: &str) -> Result<Dialect, ErrorObject> {
        match self {
            Self::None => Err(ErrorObject::method_not_found(method)),
            Self::November2025 => Ok(Dialect::November2025),
            Self::Extension => Ok(Dialect::Extension),
            Self::Undeclared => Err(wire::undeclared()),
        }
    }

    /// Refuses a method that only 2025-11-25 has (TASK-20).
    pub(super) fn only_november(self, method: &str) -> Result<(), ErrorObject> {
        match self {
            Self::November2025 => Ok(()),
            Self::None | Self::Extension | Self::Undeclared => Err(ErrorObject::method_not_found(method)),
        }
    }

    /// Refuses a method that only the extension has.
    pub(super) fn only_extension(self, method: &str) -> Result<(), ErrorObject> {
        match self {
            Self::Extension => Ok(()),
            Self::Undeclared => Err(wire::undeclared()),
            Self::None | Self::November2025 => Err(ErrorObject::method_not_found(method)),
        }
    }
}

fn declares(params: Option<&[u8]>) -> bool {
    let path = ["_meta", CAPABILITIES, "extensions", wire::EXTENSION];
    params.and_then(|params| json::lookup(params, &path)).is_some_and(|declared| declared.first() == Some(&b'{'))
}

pub(super) fn params<T: DeserializeOwned>(raw: &RawValue) -> Result<T, ErrorObject> {
    serde_json::from_str(raw.get()).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// The params of a call as its work is to have them: without the request for a task, and without the time that the
/// request had, which the task outlives.
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
