//! Language Server Protocol 3.17 and 3.18.

use super::{
    CancelForm, CancelReply, DefaultClocks, Dialect, Disconnect, ErrorText, Family, JSON_RPC, ProgressForm, ReportForm,
};
use crate::{error_code, rule::Rule};

/// LSP 3.17 and 3.18.
pub const LSP: Dialect = Dialect {
    name: "lsp",
    family: Family::Lsp,
    cancel: CancelForm { method: "$/cancelRequest", id: "id", reason: None },
    // A relay answers an operator's stop with this, too: a declared deviation from LSP-07, which keeps it for the
    // client's own cancel. Clients end a request quietly on this code only; any other is shown to the user as a fault
    // of the server. The error's data says who stopped it.
    settlement: CancelReply::Answered(ErrorText {
        code: error_code::REQUEST_CANCELLED, // LSP-01
        message: "Request cancelled",
    }),
    gave_up: ErrorText {
        code: error_code::REQUEST_FAILED, // LSP-07; -32802 where the request supports it
        message: "the server cancelled this request",
    },
    uncancellable: &[("initialize", Rule::Lsp06)],
    disconnect: Disconnect::Cancels,
    batches: false,
    null_ids: false,
    sticky: true, // D9
    clocks: DefaultClocks { response: None, total: None, questions: &["window/showMessageRequest"], unclocked: &[] },
    upkeep: &["initialize", "shutdown"],
    progress: Some(ProgressForm {
        method: "$/progress", // LSP-05
        token: "token",
        asked_at: &["workDoneToken"],
        partial_at: Some(&["partialResultToken"]),
        report: ReportForm::WorkDone,
        active_only: false, // A server begins progress of its own, and its end must arrive.
    }),
    handshake: Some("initialize"),
    last_request: Some("shutdown"), // LSP-06
    handshake_first: Some(Rule::Lsp06),
    ..JSON_RPC
};
