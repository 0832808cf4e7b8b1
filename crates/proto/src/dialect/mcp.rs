//! Model Context Protocol: four revisions with a handshake, one without.

use core::time::Duration;

use super::{
    CancelForm, CancelReply, CancelResult, Cancellers, DefaultClocks, Dialect, Disconnect, ErrorText, FailureForm,
    Family, HttpForm, IdReuse, JSON_RPC, ListForm, ProgressForm, ReportForm, StrayError, SubscriptionForm, TaskForm,
};
use crate::{error_code, rule::Rule};

/// The newest revision.
pub const LATEST: Dialect = REVISION_2026_07_28;

/// The newest revision with an `initialize` handshake.
pub const LATEST_LEGACY: Dialect = REVISION_2025_11_25;

/// The newest revision without sessions.
pub const LATEST_STATELESS: Dialect = REVISION_2026_07_28;

/// In the `_meta` of a result that asks for input: a client that will not call again can say so with a notification
/// [`ABANDONED`] that names the `requestState`. The server waits for other clients until their time is up.
pub const ABANDONABLE: &str = "dev.rescind/abandonable";
/// See [`ABANDONABLE`].
pub const ABANDONED: &str = "notifications/dev.rescind/abandoned";

/// Where a request names its revision, if that has no sessions; it beats the handshake (D2).
pub const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

const MINUTE: Duration = Duration::from_secs(60);

const CANCEL: CancelForm = CancelForm { method: "notifications/cancelled", id: "requestId", reason: Some("reason") };

/// Revision 2024-11-05.
pub const REVISION_2024_11_05: Dialect = Dialect {
    name: "mcp-2024-11-05",
    family: Family::Mcp,
    date: Some("2024-11-05"),
    cancel: CANCEL,
    settlement: CancelReply::Silent, // MCP-C06
    gave_up: ErrorText { code: error_code::INTERNAL_ERROR, message: "the server cancelled this request" }, // D24
    cancellers: Cancellers::Both,    // MCP-C01
    uncancellable: &[("initialize", Rule::McpC03)],
    disconnect: Disconnect::Cancels,
    batches: false,
    reuse: IdReuse::Never, // MCP-I02
    null_ids: false,       // MCP-I01
    sticky: true,          // MCP-C12 is a SHOULD (D9)
    stray_error: StrayError::Invalid,
    clocks: DefaultClocks {
        response: Some(MINUTE),                    // MCP-T01
        total: Some(Duration::from_secs(30 * 60)), // MCP-T05
        questions: &["elicitation/create", "sampling/createMessage"],
        unclocked: &["tasks/result", "subscriptions/listen"],
    },
    cancel_results: &[ELICITATION],
    upkeep: &["initialize", "ping"],
    failure: Some(TOOL),
    progress: Some(ProgressForm {
        method: "notifications/progress",
        token: "progressToken",
        asked_at: &["_meta", "progressToken"], // MCP-P00
        partial_at: None,
        report: ReportForm::Counted,
        active_only: true,
    }),
    handshake: Some("initialize"),
    ping: Some("ping"),
    lists: LISTS,
    meta: true,
    // Its own transport is not spoken; a client may all the same agree on it over the one of 2025-03-26.
    http: Some(WITH_SESSIONS),
    ..JSON_RPC
};

/// HTTP in sessions: a closed stream can be resumed.
const WITH_SESSIONS: HttpForm = HttpForm { stream_closed: Disconnect::Detaches, primer: false }; // MCP-H01, MCP-H02

/// Revision 2025-03-26: the only one with batches.
pub const REVISION_2025_03_26: Dialect = Dialect {
    name: "mcp-2025-03-26",
    date: Some("2025-03-26"),
    batches: true, // MCP-B01
    ..REVISION_2024_11_05
};

/// Revision 2025-06-18.
pub const REVISION_2025_06_18: Dialect =
    Dialect { name: "mcp-2025-06-18", date: Some("2025-06-18"), ..REVISION_2024_11_05 };

/// Revision 2025-11-25: tasks, and errors without an id.
pub const REVISION_2025_11_25: Dialect = Dialect {
    name: "mcp-2025-11-25",
    date: Some("2025-11-25"),
    tasks: Some(TASKS), // MCP-C13, TASK-11
    upkeep: &["initialize", "ping", "tasks/cancel", "tasks/get", "tasks/list", "tasks/result"],
    stray_error: StrayError::NoId,
    http: Some(HttpForm { primer: true, ..WITH_SESSIONS }), // MCP-H07
    ..REVISION_2024_11_05
};

/// Revision 2026-07-28: no sessions, no requests from the server, subscriptions.
pub const REVISION_2026_07_28: Dialect = Dialect {
    name: "mcp-2026-07-28",
    date: Some("2026-07-28"),
    stateless: true,
    cancellers: Cancellers::Client, // MCP-M01
    no_server_requests: Some(Rule::McpM03),
    uncancellable: &[],
    tasks: Some(TASKS_EXTENSION), // TASK-20
    upkeep: &["server/discover", "tasks/cancel", "tasks/get", "tasks/update"],
    failure: Some(FailureForm {
        whole: Some(("resultType", "\"complete\"")),
        after: r#"}],"isError":true,"resultType":"complete""#,
        ..TOOL
    }),
    reuse: IdReuse::AfterAnswer, // MCP-I03
    stray_error: StrayError::NoId,
    subscription: Some(SubscriptionForm {
        method: "subscriptions/listen", // MCP-M02
        path: &["_meta", "io.modelcontextprotocol/subscriptionId"],
    }),
    handshake: None,
    ping: None,
    http: Some(HttpForm { stream_closed: Disconnect::Cancels, primer: false }), // MCP-H03, MCP-H05
    ..REVISION_2024_11_05
};

/// Lists that share a notification stand side by side.
const LISTS: &[ListForm] = &[
    ListForm { method: "tools/list", items: "tools", capability: "tools", changed: "notifications/tools/list_changed" },
    ListForm {
        method: "resources/list",
        items: "resources",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    ListForm {
        method: "resources/templates/list",
        items: "resourceTemplates",
        capability: "resources",
        changed: "notifications/resources/list_changed",
    },
    ListForm {
        method: "prompts/list",
        items: "prompts",
        capability: "prompts",
        changed: "notifications/prompts/list_changed",
    },
];

/// A tool that failed: its client shows the model the text.
const TOOL: FailureForm = FailureForm {
    method: "tools/call",
    mark: ("isError", "true"),
    whole: None,
    before: r#"{"content":[{"type":"text","text":"#,
    after: r#"}],"isError":true"#,
};

/// Tasks of 2025-11-25.
const TASKS: TaskForm = TaskForm {
    asked: true,
    mark: None,
    id: &["task", "taskId"],
    status: &["task", "status"],
    poll: &["task", "pollInterval"],
    cancel: "tasks/cancel",
    get: "tasks/get",
    result: Some("tasks/result"),
    pushed: "notifications/tasks/status",
    extension: None,
};

/// Tasks of the extension `io.modelcontextprotocol/tasks`: a request that does not declare it gets -32021 (TASK-24).
const TASKS_EXTENSION: TaskForm = TaskForm {
    asked: false,
    mark: Some(("resultType", "task")),
    id: &["taskId"],
    status: &["status"],
    poll: &["pollIntervalMs"],
    cancel: "tasks/cancel",
    get: "tasks/get",
    result: None,
    pushed: "notifications/tasks",
    extension: Some("io.modelcontextprotocol/tasks"),
};

/// A person dismissed the dialog.
pub(super) const ELICITATION: CancelResult =
    CancelResult { method: "elicitation/create", path: &["action"], value: "cancel", json: r#"{"action":"cancel"}"# };

/// The revision of exactly this date.
#[must_use]
pub fn by_date(date: &str) -> Option<&'static Dialect> {
    Dialect::ALL.into_iter().find(|dialect| dialect.date == Some(date))
}

/// The dialect of a `protocolVersion`; an unknown date is read as the nearest older revision we know.
#[must_use]
pub fn by_version(version: &str) -> Option<&'static Dialect> {
    let is_date = version.len() >= 10 && version.as_bytes()[4] == b'-' && version.as_bytes()[7] == b'-';
    let is_older = |dialect: &&Dialect| dialect.date.is_some_and(|date| date <= version);
    is_date.then(|| Dialect::ALL.into_iter().rfind(is_older).unwrap_or(&REVISION_2024_11_05))
}

/// The dialect of this `protocolVersion`, as [`by_version`] reads it, if it has no sessions.
#[must_use]
pub fn stateless_by_version(version: &str) -> Option<&'static Dialect> {
    by_version(version).filter(|dialect| dialect.stateless)
}

/// The dialect of a request that names this `protocolVersion` in `_meta`. No earlier revision has names there, so one that
/// is not a date is read as the newest that has.
#[must_use]
pub fn named_in_meta(version: &str) -> &'static Dialect {
    by_version(version).unwrap_or(&LATEST_STATELESS)
}

/// The revisions without sessions, the newest first.
pub fn stateless() -> impl Iterator<Item = &'static Dialect> {
    Dialect::ALL.into_iter().rev().filter(|dialect| dialect.stateless)
}

/// The newest revision without sessions that is among these dates.
#[must_use]
pub fn newest_stateless<D: AsRef<str>>(dates: impl IntoIterator<Item = D>) -> Option<&'static Dialect> {
    let known = dates.into_iter().filter_map(|date| by_date(date.as_ref())).filter(|dialect| dialect.stateless);
    known.max_by_key(|dialect| dialect.date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_era_are_the_last_in_the_list_and_each_is_named_after_its_date() {
        let all = || Dialect::ALL.into_iter().filter(|dialect| dialect.family == Family::Mcp);
        assert_eq!(all().next_back(), Some(&LATEST));
        assert_eq!(all().rfind(|dialect| dialect.stateless), Some(&LATEST_STATELESS));
        assert_eq!(all().rfind(|dialect| !dialect.stateless), Some(&LATEST_LEGACY));
        assert!(all().map(|dialect| dialect.date).is_sorted());
        for dialect in all() {
            assert_eq!(dialect.name, format!("mcp-{}", dialect.date.unwrap()));
            assert_eq!(dialect.stateless, dialect.handshake.is_none(), "{dialect}");
        }
    }

    #[test]
    fn an_unknown_date_is_read_as_the_nearest_older_revision() {
        assert_eq!(by_version("2025-11-25"), Some(&REVISION_2025_11_25));
        assert_eq!(by_version("2025-12-01"), Some(&REVISION_2025_11_25));
        assert_eq!(by_version("DRAFT-2027"), None);
        assert_eq!(by_version("2024-10-07"), Some(&REVISION_2024_11_05));
    }
}
