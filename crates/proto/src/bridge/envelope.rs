//! The description of a request without a session in its `_meta`: its revision, its client, and how much it wants to be logged.

use super::{
    kind,
    level::Level,
    rewrite,
    task::{self, EXTENSION},
};
use crate::{
    dialect::{Dialect, mcp::VERSION_IN_META},
    frame::{self, Frame, Params},
    json,
};

const INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Names in `_meta` that only this era has.
pub(super) const RESERVED: &[&str] = &[VERSION_IN_META, INFO, CAPABILITIES, LEVEL];

/// The same, and that its progress is reported.
pub(super) const RESERVED_OR_TOKEN: &[&str] = &[VERSION_IN_META, INFO, CAPABILITIES, LEVEL, "progressToken"];

/// A request's description of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    /// The client's name and version.
    pub(super) info: Option<&'a [u8]>,
    /// What the client can do.
    pub(super) capabilities: Option<&'a [u8]>,
    /// The least level of log messages that it wants; without, none.
    pub(super) level: Option<Level>,
}

impl<'a> Envelope<'a> {
    /// Reads it; `None` for a request that names no revision.
    pub(super) fn of(params: &Params<'a>) -> Option<Self> {
        let meta = params.meta?;
        json::member(meta, VERSION_IN_META)?;
        Some(Self {
            info: json::member(meta, INFO),
            capabilities: json::member(meta, CAPABILITIES),
            level: json::member(meta, LEVEL).and_then(Level::of),
        })
    }

    /// Reads that of a whole request.
    pub(super) fn of_request(body: &'a [u8]) -> Option<Self> {
        match frame::parse(body) {
            Ok(Frame::Request(request)) => Self::of(&request.params),
            Ok(Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) | Err(_) => None,
        }
    }

    /// Whether its client takes tasks (TASK-24).
    pub(super) fn takes_tasks(&self) -> bool {
        self.capabilities.is_some_and(|capabilities| json::lookup(capabilities, &["extensions", EXTENSION]).is_some())
    }
}

/// The members of `_meta` for a request of this revision in the name of the client whose request `theirs` is, or in our own.
pub(super) fn in_name_of(theirs: Option<&[u8]>, revision: &Dialect) -> Vec<u8> {
    members(revision, theirs.and_then(Envelope::of_request).and_then(|envelope| envelope.info), None, false)
}

/// The members of `_meta` for requests of a client that greeted with these params, and that can be asked what these
/// capabilities declare, and that take tasks or do not.
pub(super) fn of_hello(revision: &Dialect, params: &[u8], capabilities: Option<&[u8]>, takes_tasks: bool) -> Vec<u8> {
    members(revision, json::member(params, "clientInfo"), capabilities, takes_tasks)
}

/// How we call ourselves where no client is named.
pub(super) const OWN_INFO: &str = concat!(r#"{"name":"rescind","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Without capabilities, none is declared: a question could reach the wrong person, or could not be passed on (D42).
fn members(revision: &Dialect, info: Option<&[u8]>, capabilities: Option<&[u8]>, takes_tasks: bool) -> Vec<u8> {
    let mut out = Vec::new();
    revision.write_date_in_meta(&mut out);
    rewrite::raw_member(INFO, info.unwrap_or(OWN_INFO.as_bytes()), &mut out);
    rewrite::member(CAPABILITIES, &mut out);
    kind::declare(capabilities, if takes_tasks { task::DECLARED } else { b"" }, &mut out);
    out
}

/// Appends the level to such members.
pub(super) fn write_level(level: Level, out: &mut Vec<u8>) {
    rewrite::text_member(LEVEL, level.as_str(), out);
}
