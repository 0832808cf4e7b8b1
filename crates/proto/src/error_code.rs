//! Error codes: the protocols' own, and ours (one table).
//!
//! Ours lie outside -32768…-32000, which JSON-RPC and MCP reserve, and outside
//! LSP's -32899…-32800.

/// Text that is not JSON (JSON-RPC).
pub const PARSE_ERROR: i32 = -32700;
/// JSON that is no message, or a message that is not allowed (JSON-RPC).
pub const INVALID_REQUEST: i32 = -32600;
/// No such method (JSON-RPC).
pub const METHOD_NOT_FOUND: i32 = -32601;
/// Params that the method cannot use (JSON-RPC).
pub const INVALID_PARAMS: i32 = -32602;
/// Something failed inside (JSON-RPC).
pub const INTERNAL_ERROR: i32 = -32603;
/// A request before `initialize` was answered (LSP).
pub const SERVER_NOT_INITIALIZED: i32 = -32002;
/// The headers of a request are not those of its message (MCP 2026-07-28, HTTP).
pub const HEADER_MISMATCH: i32 = -32020;
/// A request needs a capability that its client did not declare (MCP 2026-07-28, TASK-24); `data` names it.
pub const MISSING_CLIENT_CAPABILITY: i32 = -32021;
/// A request names a revision that the server does not speak (MCP 2026-07-28); `data` lists those it does.
pub const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
/// The client cancelled the request (ACP-01, LSP-01). Does not exist in MCP.
pub const REQUEST_CANCELLED: i32 = -32800;
/// The content changed while the request was computed, so the result would be of no use (LSP).
pub const CONTENT_MODIFIED: i32 = -32801;
/// The server stopped a request that supports it by itself (LSP-03, LSP-07).
pub const SERVER_CANCELLED: i32 = -32802;
/// The server stopped a request by itself (LSP-07).
pub const REQUEST_FAILED: i32 = -32803;

/// Ours: a clock ran out before the answer; `data` says which clock, how long, and the receipt.
pub const TIMED_OUT: i32 = -31001;
/// Ours: the server ended before it answered; `data` says how.
pub const UPSTREAM_GONE: i32 = -31002;
/// Ours: a person stopped the request; `data` has the reason and the receipt.
pub const STOPPED_BY_OPERATOR: i32 = -31003;
/// Ours: too many requests in flight; this one was not started.
pub const OVERLOADED: i32 = -31004;
/// Ours: the message was longer than the limit; it was not passed on.
pub const TOO_LARGE: i32 = -31005;
/// Ours: the client was away for too long, or too much was said meanwhile; the answer was not kept.
pub const NOT_KEPT: i32 = -31006;
/// Ours: a limit that a person set refuses the request, which was not sent; `data` has the receipt (D65).
pub const LIMITED: i32 = -31007;

/// Whether an error with this code only lets its requester go: another relay on the way has given the request up, and the work
/// may go on behind that.
pub(crate) fn lets_go(code: Option<i64>) -> bool {
    [TIMED_OUT, STOPPED_BY_OPERATOR].map(|code| Some(code.into())).contains(&code)
}
