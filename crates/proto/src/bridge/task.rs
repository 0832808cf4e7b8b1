//! Tasks as the two eras write them: as a part of 2025-11-25, and as an extension of 2026-07-28 (D38).

use super::{
    kind::Kinds,
    rewrite::{self, Style},
};
use crate::json;

/// Which part of a request about a task the server has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// The call that is to become one.
    Make,
    /// `tasks/get`, of a client that answers questions of these kinds.
    Get(Kinds),
    /// `tasks/result`, after the `tasks/get` that described the task by these members, without the status.
    Fetch(Box<[u8]>),
    /// `tasks/cancel` of this task.
    Cancel(TaskId),
    /// `tasks/get`, after a `tasks/cancel` of this task was accepted.
    AfterCancel(TaskId),
    /// `tasks/get`, after a `tasks/cancel` was refused with this error.
    AfterRefusal(Box<[u8]>),
    /// `tasks/get`, again and again, for a `tasks/result`.
    Wait,
}

/// The id of a task, as JSON.
pub(super) type TaskId = Box<[u8]>;

words! {
    /// What has become of a task.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Status {
        /// Or something that we do not know.
        Working = "working",
        InputRequired = "input_required",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

pub(super) const CALL: &str = "tools/call";
pub(super) const GET: &str = "tasks/get";
pub(super) const RESULT: &str = "tasks/result";
pub(super) const CANCEL: &str = "tasks/cancel";
pub(super) const UPDATE: &str = "tasks/update";

/// A report of a server of 2025-11-25, of its own accord.
pub(super) const REPORTED: &str = "notifications/tasks/status";

/// The extension, in the capabilities of both sides.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The same as a member of `extensions`.
pub(super) const OFFER: &[u8] = br#""io.modelcontextprotocol/tasks":{}"#;

/// That member of a client's capabilities.
pub(super) const DECLARED: &[u8] = br#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;

/// The param that asks for a task, and the member of a result that has it (2025-11-25).
pub(super) const TASK: &str = "task";

/// In `_meta`, whose task a message is about (TASK-10).
pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";

pub(super) const NOT_NAMED: &str = "`taskId` is missing, or no task's";

const ID: &str = "taskId";
const STATUS: &str = "status";

/// A task's id is not longer, as JSON.
const LONGEST_ID: usize = 1024;

/// What a member is called in 2025-11-25, and in the extension.
const RENAMED: [(&str, &str); 2] = [("ttl", "ttlMs"), ("pollInterval", "pollIntervalMs")];

/// Members that are the result's, or that only the extension puts beside those of a task.
const OTHERS: [&str; 6] = [STATUS, "_meta", "resultType", "inputRequests", "result", "error"];

impl Step {
    /// Bytes of memory that it holds beside itself.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Fetch(bytes) | Self::Cancel(bytes) | Self::AfterCancel(bytes) | Self::AfterRefusal(bytes) => {
                bytes.len()
            }
            Self::Make | Self::Get(_) | Self::Wait => 0,
        }
    }
}

impl Status {
    /// The status of a task.
    pub(super) fn of(task: &[u8]) -> Self {
        match json::member(task, STATUS).and_then(json::text).as_deref() {
            Some("input_required") => Self::InputRequired,
            Some("completed") => Self::Completed,
            Some("failed") => Self::Failed,
            Some("cancelled") => Self::Cancelled,
            Some(_) | None => Self::Working,
        }
    }
}

/// The task that these params name, however they write it.
pub(super) fn named(params: Option<&[u8]>) -> Option<TaskId> {
    let written = json::member(params?, ID)?;
    let id = json::text(written).filter(|_| written.len() <= LONGEST_ID)?;
    let mut out = Vec::with_capacity(written.len());
    json::write_string(&mut out, &id);
    Some(out.into())
}

/// The task that a message of 2025-11-25 is about, by its `_meta`.
pub(super) fn related(meta: Option<&[u8]>) -> Option<TaskId> {
    named(json::member(meta?, RELATED))
}

/// Whether a server with sessions that greets so runs calls of tools as tasks.
pub(super) fn are_offered_in_session(greeting: &[u8]) -> bool {
    json::lookup(greeting, &["capabilities", "tasks", "requests", "tools", "call"]).is_some()
}

/// Whether a server without, by this description of itself, makes tasks.
pub(super) fn are_offered(discovered: &[u8]) -> bool {
    json::lookup(discovered, &["capabilities", "extensions", EXTENSION]).is_some()
}

/// The capability of 2025-11-25 for such a server.
pub(super) const CAPABILITY: &[u8] = br#""tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}"#;

/// Writes the params of a request about a task, with these members of `_meta`, and more of their own.
pub(super) fn write_params(task: &[u8], meta: Option<&[u8]>, more: &[u8], out: &mut Vec<u8>) {
    let mut members = Vec::new();
    if let Some(meta) = meta {
        rewrite::meta(meta, None, &[], &mut members);
    }
    rewrite::raw_member(ID, task, &mut members);
    members.extend_from_slice(more);
    rewrite::object(&members, None, &[], out);
}

/// The members of a task, but for its status, as this style has them.
pub(super) fn members(task: &[u8], style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    let mut has_life = false;
    for member in json::members(task).into_iter().flatten().map_while(Result::ok) {
        if OTHERS.iter().any(|name| member.key_is(name)) {
            continue;
        }
        if !out.is_empty() {
            out.push(b',');
        }
        let renamed = RENAMED.iter().find_map(|(old, new)| match style {
            Style::InSession => member.key_is(new).then_some(*old),
            Style::Enveloped => member.key_is(old).then_some(*new),
        });
        match renamed {
            Some(name) => rewrite::member(name, &mut out),
            None => {
                out.extend_from_slice(member.key);
                out.push(b':');
            }
        }
        has_life |= renamed == Some(life(style));
        out.extend_from_slice(member.value);
    }
    if !has_life {
        // It must be there; `null` means without an end.
        rewrite::raw_member(life(style), b"null", &mut out);
    }
    out
}

/// The name of the time that a task is kept.
const fn life(style: Style) -> &'static str {
    match style {
        Style::InSession => RENAMED[0].0,
        Style::Enveloped => RENAMED[0].1,
    }
}

/// Appends the status to the members of a task.
pub(super) fn write_status(status: Status, out: &mut Vec<u8>) {
    rewrite::text_member(STATUS, status.as_str(), out);
}

/// Writes a result of a task as the result of `tasks/result` (TASK-10).
pub(super) fn write_related(result: &[u8], task: &[u8], out: &mut Vec<u8>) {
    let mut named = Vec::new();
    rewrite::member(RELATED, &mut named);
    write_params(task, None, b"", &mut named);
    let meta = json::member(result, "_meta");
    rewrite::params(Some(result), |out| rewrite::object(&named, meta, &[RELATED], out), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_the_names_of_each_era() {
        let old = br#"{"taskId":"a","status":"working","createdAt":"then","ttl":5,"pollInterval":1}"#;
        let new =
            br#"{"resultType":"complete","taskId":"a","createdAt":"then","ttlMs":5,"pollIntervalMs":1,"result":{}}"#;
        let text = |bytes| String::from_utf8(bytes).expect("text");
        assert_eq!(
            text(members(old, Style::Enveloped)),
            r#""taskId":"a","createdAt":"then","ttlMs":5,"pollIntervalMs":1"#
        );
        assert_eq!(text(members(new, Style::InSession)), r#""taskId":"a","createdAt":"then","ttl":5,"pollInterval":1"#);
        assert_eq!(text(members(b"{}", Style::Enveloped)), r#""ttlMs":null"#);
    }

    #[test]
    fn what_is_no_id_names_no_task() {
        assert_eq!(named(Some(br#"{"taskId":"a/b"}"#)).as_deref(), Some(&br#""a/b""#[..]));
        assert_eq!(named(Some(br#"{"taskId":"\u0061\/b"}"#)).as_deref(), Some(&br#""a/b""#[..]));
        assert_eq!(named(Some(br#"{"taskId":1}"#)), None);
        let long = format!(r#"{{"taskId":"{}"}}"#, "a".repeat(LONGEST_ID));
        assert_eq!(named(Some(long.as_bytes())), None);
        assert_eq!(named(None), None);
    }
}
