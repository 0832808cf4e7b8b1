//! Agent Client Protocol: the stable revision, the draft of the next, and the proposal of 2025-11-13.

use core::time::Duration;

use super::{
    CancelForm, CancelReply, CancelResult, ChildForm, DefaultClocks, Dialect, Disconnect, ErrorText, Family, Gate,
    ItemKind, JSON_RPC, SessionWorkForm, TurnForm, mcp,
};
use crate::{child::ChildEnd, error_code, rule::Rule};

const CURRENT: CancelForm = CancelForm { method: "$/cancel_request", id: "requestId", reason: None };
const KOTLIN: CancelForm = CancelForm { method: "$/cancelRequest", id: "requestId", reason: None };
const PROPOSED: CancelForm = CancelForm { method: "$/cancelRequest", id: "id", reason: None };
const MIXED: CancelForm = CancelForm { method: "$/cancel_request", id: "id", reason: None };

/// Version 1, the stable one.
pub const V1: Dialect = Dialect {
    name: "acp-v1",
    family: Family::Acp,
    cancel: CURRENT,
    aliases: &[KOTLIN, PROPOSED, MIXED],          // D3
    settlement: CancelReply::Answered(CANCELLED), // ACP-01
    gave_up: CANCELLED,                           // ACP-05: the same, whatever the source
    uncancellable: &[("initialize", Rule::Acp21)],
    disconnect: Disconnect::Cancels,
    batches: false,
    null_ids: true, // the schema allows it
    sticky: true,   // D9
    clocks: DefaultClocks {
        response: None,
        total: None,
        questions: &["session/request_permission", "elicitation/create"],
        unclocked: &["authenticate"], // a person in a browser (D16)
    },
    upkeep: &["initialize", "authenticate", "session/close"],
    cancel_results: &[PROMPT, PERMISSION, mcp::ELICITATION],
    turn: Some(&TURN),
    handshake: Some("initialize"),
    meta: true,
    ..JSON_RPC
};

/// Version 2, a draft: no promises.
pub const V2_DRAFT: Dialect = Dialect {
    name: "acp-v2-draft",
    null_ids: false,
    sticky: false, // ACP-03: unknown ids are ignored, a MUST
    // ACP-01: a prompt that was not inserted is answered with the error.
    cancel_results: &[PERMISSION, mcp::ELICITATION],
    // Children are part of its base.
    turn: Some(&TurnForm {
        cards: None,
        answered_at_end: false,
        child: ChildForm { declared: &[], ..CHILD },
        work: Some(&WORK),
        ..TURN
    }),
    ..V1
};

/// The proposal of 2025-11-13: nothing is sent to a side that did not declare the capability.
pub const RFD_2025_11_13: Dialect = Dialect {
    name: "acp-rfd-2025-11-13",
    cancel: PROPOSED,
    aliases: &[CURRENT, KOTLIN, MIXED],
    settlement: CancelReply::Answered(ErrorText { code: error_code::REQUEST_CANCELLED, message: "Cancelled" }),
    gave_up: ErrorText { code: error_code::REQUEST_CANCELLED, message: "Cancelled" },
    gate: Some(GATE),
    handshake_first: Some(Rule::Acp21),
    sticky: false, // ACP-03
    ..V1
};

pub(super) const GATE: Gate = Gate {
    client: &["clientCapabilities", "cancellation", "request"],
    server: &["agentCapabilities", "cancellation", "request"],
    rule: Rule::Acp20,
};

/// Where the client asks for news of children (ACP-30).
pub(super) const CHILDREN: &[&str] = &["clientCapabilities", "subagents"];

const CANCELLED: ErrorText = ErrorText { code: error_code::REQUEST_CANCELLED, message: "Request cancelled" };

const TURN: TurnForm = TurnForm {
    prompt: "session/prompt",
    cancel: "session/cancel",
    session: "sessionId",
    update: "session/update",
    kind: &["update", "sessionUpdate"],
    beside: &[
        // A child's (ACP-31), also as adapters told of it before that.
        "subagent_update",
        "subagent_spawned",
        "subagent_state_update",
        "session_message",
        "session_message_chunk",
        // The session's own, whatever its turn does.
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "state_update",
        "usage_update",
    ],
    child: CHILD,
    loads: &["session/load", "session/resume"],
    close: "session/close",
    permission: "session/request_permission",
    answered_at_end: true,
    limit: Duration::from_secs(30),      // D34
    cards: Some(Duration::from_secs(1)), // D37
    work: None,
};

const WORK: SessionWorkForm = SessionWorkForm {
    message: "messageId",
    state: "state_update",
    body: &["update"],
    background: "background",
    item_kind: "type",
    items: &[TERMINAL, TOOL_CALL],
    child: ("subagent", "sessionId"),
    cards: Duration::from_secs(1), // D37
    no_session: -32002,            // ACP-57
};

const TERMINAL: ItemKind = ItemKind {
    word: "terminal",
    id: "terminalId",
    update: "terminal_update",
    at_work: None,
    end: "exitStatus",
    ends: &[],
    cancel: "terminal/cancel",
};

const TOOL_CALL: ItemKind = ItemKind {
    word: "tool_call",
    id: "toolCallId",
    update: "tool_call_update",
    at_work: Some(("status", "in_progress")),
    end: "status",
    ends: &[("cancelled", ChildEnd::Cancelled), ("completed", ChildEnd::Finished), ("failed", ChildEnd::Failed)],
    cancel: "tool_call/cancel",
};

const CHILD: ChildForm = ChildForm {
    declared: CHILDREN,
    kind: "subagent_update",
    session: &["update", "sessionId"],
    title: &["update", "title"],
    grants: &["update", "capabilities"],
    cancel_grant: "cancel",
    state: &["update", "state"],
    state_word: "state",
    at_work: &["running", "requires_action"],
    idle: "idle",
    stop_reason: "stopReason",
    cancelled_reason: "cancelled",
    failed_reason: "error",
    error: "error",
};

const PROMPT: CancelResult = CancelResult {
    method: "session/prompt",
    path: &["stopReason"],
    value: "cancelled",
    json: r#"{"stopReason":"cancelled"}"#,
};

/// The prompt-turn page demands the outcome; the diagram that shows -32800 loses (D37).
const PERMISSION: CancelResult = CancelResult {
    method: "session/request_permission",
    path: &["outcome", "outcome"],
    value: "cancelled",
    json: r#"{"outcome":{"outcome":"cancelled"}}"#,
};
