//! Codex app-server (D58, CDX-01 to CDX-18), as version 0.171.0 speaks it: no number of a revision is on its wire.
//!
//! Its messages have no `jsonrpc` member. No notification cancels a request (CDX-04): a turn is interrupted by a request,
//! and a notification shows its end. So everything passes as it is, whatever it is, and what can be stopped is stopped by
//! requests of our own.

use core::time::Duration;

use super::{
    CancelReply, CancelResult, CommandForm, DefaultClocks, Dialect, Disconnect, ErrorText, Family, GreetingForm,
    InterruptForm, ItemForm, JSON_RPC, ProcessForm, TerminalForm, ThreadForm,
};
use crate::error_code;

/// The app server, to a client that receives the end of each turn.
pub const APP_SERVER: Dialect = Dialect {
    name: "codex",
    family: Family::Codex,
    opaque: true, // CDX-01 to CDX-04: it serves what others refuse, and leaves unanswered what others answer
    settlement: CancelReply::Answered(ErrorText { code: error_code::REQUEST_CANCELLED, message: "Request cancelled" }),
    disconnect: Disconnect::Cancels, // CDX-17
    clocks: DefaultClocks {
        response: None,
        total: None,
        questions: &[
            "item/commandExecution/requestApproval",
            "item/fileChange/requestApproval",
            "item/permissions/requestApproval",
            "item/tool/requestUserInput",
            "mcpServer/elicitation/request",
            "execCommandApproval",
            "applyPatchApproval",
        ],
        unclocked: &[],
    },
    cancel_results: &[KILLED],
    threads: Some(&THREADS),
    handshake: Some("initialize"),
    ..JSON_RPC
};

/// The same to a client that has turned off every message which shows that a turn has ended (CDX-18), or has left the
/// turn's thread (CDX-16): an interrupt is not confirmed.
pub const UNSEEN: Dialect = Dialect { name: "codex-unseen", settlement: CancelReply::Silent, ..APP_SERVER };

const THREADS: ThreadForm = ThreadForm {
    greeting: GreetingForm {
        marks: &["userAgent", "codexHome"],
        experimental: &["capabilities", "experimentalApi"],
        silenced: &["capabilities", "optOutNotificationMethods"],
    },
    thread: "threadId",
    starts: &["turn/start", "review/start", "thread/compact/start", "thread/shellCommand"],
    other_thread: "reviewThreadId",
    turn: &["turn", "id"],
    turn_of: "turnId",
    status: &["turn", "status"],
    running: "inProgress",
    interrupted: "interrupted",
    failed: "failed",
    started: "turn/started",
    completed: "turn/completed",
    status_changed: "thread/status/changed",
    idle: (&["status", "type"], "idle"),
    interrupt: InterruptForm {
        method: "turn/interrupt",
        turn: "turnId",
        refusals: &["no active turn", "expected active turn id"],
    },
    withdrawn: "serverRequest/resolved",
    withdrawn_id: "requestId",
    leaves: "thread/unsubscribe",
    by_request_id: &[
        "thread/sample/cancel",
        "thread/search/cancel",
        "thread/search/stream/cancel",
        "userVerification/cancel",
    ],
    items: ItemForm {
        started: "item/started",
        completed: "item/completed",
        kind: &["item", "type"],
        id: &["item", "id"],
        command: "commandExecution",
        process: &["item", "processId"],
        children: &[
            ("collabAgentToolCall", &["item", "receiverThreadIds"]),
            ("subAgentActivity", &["item", "agentThreadId"]),
        ],
    },
    terminals: TerminalForm {
        terminate: "thread/backgroundTerminals/terminate",
        process: "processId",
        done: "terminated",
        list: "thread/backgroundTerminals/list",
        pages: ("cursor", "nextCursor"),
        listed: "data",
        item: "itemId",
    },
    commands: CommandForm { run: "command/exec", terminate: "command/exec/terminate", process: "processId" },
    processes: ProcessForm {
        spawn: "process/spawn",
        kill: "process/kill",
        exited: "process/exited",
        handle: "processHandle",
        killed: ("exitCode", "137"),
    },
    limit: Duration::from_secs(30), // D34
};

/// What a call to run a command answers that was ended by its own word (CDX-12).
const KILLED: CancelResult = CancelResult {
    method: "command/exec",
    path: &["exitCode"],
    value: "137",
    json: r#"{"exitCode":137,"stdout":"","stderr":""}"#,
};
