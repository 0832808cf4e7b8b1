//! What JSON-RPC itself says, and the table of what is none of the protocols known here.

use super::{
    CancelForm, CancelReply, Cancellers, DefaultClocks, Dialect, Disconnect, ErrorText, Family, IdReuse, StrayError,
};
use crate::error_code;

/// JSON-RPC 2.0 alone, which cannot cancel: the ground of every other table, which states what its protocol adds.
pub const JSON_RPC: Dialect = Dialect {
    name: "json-rpc",
    family: Family::Custom,
    date: None,
    stateless: false,
    opaque: false,
    cancel: CancelForm { method: "", id: "", reason: None },
    aliases: &[],
    settlement: CancelReply::Silent,
    gave_up: ErrorText { code: error_code::INTERNAL_ERROR, message: "the server gave this request up" },
    cancellers: Cancellers::Both,
    no_server_requests: None,
    uncancellable: &[],
    tasks: None,
    disconnect: Disconnect::Detaches,
    gate: None,
    batches: true,
    reuse: IdReuse::AfterAnswer,
    null_ids: true,
    sticky: false,
    stray_error: StrayError::NullId,
    clocks: DefaultClocks { response: None, total: None, questions: &[], unclocked: &[] },
    cancel_results: &[],
    upkeep: &[],
    failure: None,
    progress: None,
    turn: None,
    threads: None,
    handshake: None,
    ping: None,
    last_request: None,
    handshake_first: None,
    subscription: None,
    lists: &[],
    meta: false,
    http: None,
};

/// A protocol that is not known here (D57), such as the one of a debug adapter: nothing of it is
/// understood, so nothing of it is changed.
///
/// Every message passes as it is. Requests are followed as far as JSON-RPC names them; none is refused, renamed, timed or
/// cancelled.
pub const UNKNOWN: Dialect = Dialect {
    name: "unknown",
    opaque: true,
    // An answer to it that names a revision after all settles that one.
    handshake: Some("initialize"),
    ..JSON_RPC
};
