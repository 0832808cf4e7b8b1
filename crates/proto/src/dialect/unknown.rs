//! What is none of the protocols known here (D57): nothing of it is understood, so nothing of it is changed.

use super::{
    CancelForm, CancelReply, Cancellers, DefaultClocks, Dialect, Disconnect, ErrorText, Family, IdReuse, StrayError,
};
use crate::error_code;

/// A protocol that is not known here, such as the one of Codex's app server or of a debug adapter.
///
/// Every message passes as it is. Requests are followed as far as JSON-RPC names them; none is refused, renamed, timed or
/// cancelled.
pub const UNKNOWN: Dialect = Dialect {
    name: "unknown",
    family: Family::Custom,
    date: None,
    stateless: false,
    opaque: true,
    // Never written and never read.
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
    progress: None,
    turn: None,
    // An answer to it that names a revision after all settles that one.
    handshake: Some("initialize"),
    ping: None,
    last_request: None,
    handshake_first: None,
    subscription: None,
    meta: false,
    http: None,
};
