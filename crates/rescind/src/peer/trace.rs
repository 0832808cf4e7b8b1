//! Spans and log lines of a connection (D31), with the feature `tracing`; nothing without it.
//!
//! A request of the peer is a span, in which its handler and the tasks linked to it run. Its `outcome` is `result`,
//! `error` or `panicked`. If it was stopped, the outcome is `cancelled`, `dropped` or `ran_on`, which is neither an error
//! nor a success: `otel.status_code` stays unset, and `cause` names who asked. A request of ours is a span too, from when
//! it is made to its end: `result`, `error`, `timed_out`, `closed` or `cancelled`. A cancel is a span that follows from the
//! request. Params are never logged, except the name of a tool or prompt, and text of the peer only sanitised (D20).
//!
//! Names are those of OpenTelemetry's conventions for MCP, still in development: `mcp.method.name`,
//! `mcp.protocol.version`, `jsonrpc.request.id`, `gen_ai.tool.name`, `gen_ai.prompt.name`, `error.type`,
//! `rpc.response.status_code`, `network.protocol.name`; for other protocols `rpc.method`. With the feature `opentelemetry` a span belongs to the
//! trace that its request's `_meta` names, and requests of ours name theirs in the same way. Without it, a call made while
//! a request is handled carries that request's trace on unchanged.
//!
//! A span calls a subscriber's code, which may do anything: it is made, changed and dropped without any lock.

mod context;
#[cfg(feature = "opentelemetry")]
mod remote;

use std::{borrow::Cow, sync::Arc};

use rescind_proto::{
    connection::{ConnectionEvent, IncomingRequest, Settlement},
    dialect::Dialect,
    id::OutgoingId,
};

pub(crate) use context::TraceContext;

#[cfg(feature = "tracing")]
use {
    rescind_proto::{
        cause::{Cause, sanitised},
        connection::ReceiptNotice,
        dialect::Family,
        id::RequestId,
        json,
        link::{CancelNotice, Verdict},
        receipt::Outcome,
    },
    std::sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    tracing::{Level, Span, field::Empty},
};

/// The state that the traces of one connection share.
#[derive(Debug)]
pub(crate) struct LinkTrace {
    /// Tells the connections of this process apart.
    #[cfg(feature = "tracing")]
    conn: u64,
    /// The protocol that carries it.
    #[cfg(feature = "tracing")]
    protocol: Option<&'static str>,
    /// A malformed cancel was logged already (D29).
    #[cfg(feature = "tracing")]
    malformed: AtomicBool,
}

impl LinkTrace {
    #[cfg(feature = "tracing")]
    pub(crate) fn new(protocol: Option<&'static str>) -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let conn = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Self { conn, protocol, malformed: AtomicBool::new(false) }
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) const fn new(_protocol: Option<&'static str>) -> Self {
        Self {}
    }
}

/// The end of a request of ours: its outcome, its cause if it was cancelled, its error.
#[cfg(feature = "tracing")]
#[derive(Debug)]
struct CallEnd {
    outcome: &'static str,
    cause: Option<&'static str>,
    error_type: Option<Cow<'static, str>>,
}

#[cfg(feature = "tracing")]
impl CallEnd {
    const fn new(outcome: &'static str) -> Self {
        Self { outcome, cause: None, error_type: None }
    }

    const fn cancelled(cause: &'static str) -> Self {
        Self { outcome: "cancelled", cause: Some(cause), error_type: None }
    }

    fn failed(outcome: &'static str, error_type: impl Into<Cow<'static, str>>) -> Self {
        Self { error_type: Some(error_type.into()), ..Self::new(outcome) }
    }
}

/// The attributes of a request, as the conventions name them.
#[cfg(feature = "tracing")]
struct SpanNames {
    method: String,
    /// The tool or prompt, for methods that have one.
    target: Option<String>,
    dialect: &'static Dialect,
}

#[cfg(feature = "tracing")]
impl SpanNames {
    fn new(dialect: &'static Dialect, method: &str, params: Option<&[u8]>) -> Self {
        let has_target = dialect.family == Family::Mcp && matches!(method, "tools/call" | "prompts/get");
        let target = params.filter(|_| has_target).and_then(|params| json::text(json::member(params, "name")?));
        Self { method: sanitised(method), target: target.map(|target| sanitised(&target)), dialect }
    }

    fn span(&self) -> String {
        let Self { method, target, .. } = self;
        target.as_ref().map_or_else(|| method.clone(), |target| format!("{method} {target}"))
    }

    fn of_mcp(&self) -> Option<&str> {
        (self.dialect.family == Family::Mcp).then_some(&*self.method)
    }

    fn of_others(&self) -> Option<&str> {
        (self.dialect.family != Family::Mcp).then_some(&*self.method)
    }

    fn revision(&self) -> Option<&'static str> {
        self.dialect.date
    }

    fn target_of(&self, method: &str) -> Option<&str> {
        self.target.as_deref().filter(|_| self.method == method)
    }
}

/// Makes the span of a request, with the attributes known at its start.
#[cfg(feature = "tracing")]
macro_rules! request_span {
    ($kind:literal, $side:literal, $link:expr, $id:expr, $names:expr) => {{
        let names: Option<SpanNames> = tracing::enabled!(Level::INFO).then(|| $names);
        let names = names.as_ref();
        tracing::info_span!(
            "request",
            otel.name = names.map(SpanNames::span),
            otel.kind = $kind,
            otel.status_code = Empty,
            conn = $link.conn,
            side = $side,
            network.protocol.name = $link.protocol,
            jsonrpc.request.id = $id,
            mcp.method.name = names.and_then(SpanNames::of_mcp),
            mcp.protocol.version = names.and_then(SpanNames::revision),
            gen_ai.tool.name = names.and_then(|names| names.target_of("tools/call")),
            gen_ai.prompt.name = names.and_then(|names| names.target_of("prompts/get")),
            rpc.method = names.and_then(SpanNames::of_others),
            rpc.response.status_code = Empty,
            error.type = Empty,
            cause = Empty,
            outcome = Empty,
        )
    }};
}

/// The span of a request of ours; one whose end was not reported was cancelled by its caller.
#[derive(Debug)]
pub(crate) struct CallSpan {
    #[cfg(feature = "tracing")]
    span: Span,
    #[cfg(feature = "tracing")]
    end: OnceLock<CallEnd>,
}

#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "nothing is traced without the feature")
)]
impl CallSpan {
    /// Makes the span; `None` if no subscriber wants it.
    pub(crate) fn new(
        link: &LinkTrace,
        dialect: impl FnOnce() -> &'static Dialect,
        method: &str,
        params: &[u8],
    ) -> Option<Arc<Self>> {
        #[cfg(feature = "tracing")]
        {
            let names = || SpanNames::new(dialect(), method, Some(params));
            let span = request_span!("client", "outgoing", link, Empty, names());
            (!span.is_disabled()).then(|| Arc::new(Self { span, end: OnceLock::new() }))
        }
        #[cfg(not(feature = "tracing"))]
        None
    }

    /// The trace that it belongs to, for the peer.
    #[cfg_attr(not(feature = "opentelemetry"), expect(clippy::unused_self, reason = "nobody knows of traces"))]
    pub(crate) fn context(&self) -> Option<TraceContext> {
        #[cfg(feature = "opentelemetry")]
        return remote::context(&self.span);
        #[cfg(not(feature = "opentelemetry"))]
        None
    }

    /// Records the id under which the engine has the request.
    pub(crate) fn sent(span: Option<Arc<Self>>, id: Option<OutgoingId>) {
        #[cfg(feature = "tracing")]
        if let Some((span, id)) = span.zip(id) {
            span.span.record("jsonrpc.request.id", text(&id.0));
        }
    }

    /// Records that the request could not be made.
    pub(crate) fn refused(span: Option<Arc<Self>>) {
        #[cfg(feature = "tracing")]
        if let Some(span) = span {
            let _ = span.end.set(CallEnd::failed("error", "refused"));
        }
    }

    /// Notes the end of the request. The span is changed only at its drop, since a lock may be held here.
    pub(crate) fn settled(&self, how: &Settlement) {
        #[cfg(feature = "tracing")]
        let _ = self.end.set(match how {
            Settlement::Result(result) if json::member(result, "isError") == Some(b"true") => {
                CallEnd::failed("result", "tool_error")
            }
            Settlement::Result(_) | Settlement::Ended { .. } => CallEnd::new("result"),
            Settlement::PeerError(error) => match json::member(error, "code").and_then(json::integer) {
                Some(code) => CallEnd::failed("error", code.to_string()),
                None => CallEnd::failed("error", "_OTHER"),
            },
            Settlement::Unreadable(_) => CallEnd::failed("error", "unreadable"),
            Settlement::Cancelled(cause) => CallEnd::cancelled(cause.code.as_str()),
            Settlement::TimedOut { .. } => {
                CallEnd { cause: Some("timeout"), ..CallEnd::failed("timed_out", "timeout") }
            }
            Settlement::Transport(error) => match error.status {
                Some(status) => CallEnd::failed("error", status.to_string()),
                None => CallEnd::failed("error", error.fault.as_str()),
            },
            Settlement::Closed => CallEnd::failed("closed", "connection_closed"),
        });
    }
}

#[cfg(feature = "tracing")]
impl Drop for CallSpan {
    fn drop(&mut self) {
        let CallEnd { outcome, cause, error_type } = self.end.get_or_init(|| CallEnd::cancelled("caller"));
        self.span.record("outcome", *outcome);
        if let Some(error_type) = error_type {
            record_error(&self.span, error_type);
        }
        if let Some(cause) = *cause {
            self.span.record("cause", cause);
            let cancel = tracing::info_span!("cancel", cause);
            cancel.follows_from(&self.span);
        }
    }
}

/// The span of a request of the peer.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    #[cfg(feature = "tracing")]
    span: Span,
}

/// A guard that keeps the span of a request entered.
#[must_use]
pub(crate) struct EnteredRequest {
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

#[cfg_attr(not(feature = "tracing"), expect(clippy::unused_self, reason = "nothing is traced without the feature"))]
impl RequestSpan {
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is traced without the feature"))]
    pub(crate) fn new(link: &LinkTrace, request: &IncomingRequest) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: Self::begin(link, request),
        }
    }

    #[cfg(feature = "tracing")]
    fn begin(link: &LinkTrace, request: &IncomingRequest) -> Span {
        let names = || SpanNames::new(request.dialect, request.payload.method(), request.payload.params());
        let span = request_span!("server", "incoming", link, text(&request.id.0), names());
        #[cfg(feature = "opentelemetry")]
        if let Some(trace) = TraceContext::of_request(request).filter(|_| !span.is_disabled()) {
            remote::adopt(&span, &trace);
        }
        span
    }

    pub(crate) fn enter(&self) -> EnteredRequest {
        EnteredRequest {
            #[cfg(feature = "tracing")]
            _entered: self.span.clone().entered(),
        }
    }

    /// Records the end of the handler; the error type counts unless the request was stopped.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is traced without the feature"))]
    pub(crate) fn ended(&self, outcome: &'static str, error_type: impl FnOnce() -> Option<Cow<'static, str>>) {
        #[cfg(feature = "tracing")]
        if !self.span.is_disabled() {
            self.span.record("outcome", outcome);
            let is_fault = matches!(outcome, "result" | "error" | "panicked");
            if let Some(error_type) = is_fault.then(error_type).flatten() {
                record_error(&self.span, &error_type);
            }
        }
    }

    /// Records that its token fires.
    #[cfg(feature = "tracing")]
    pub(crate) fn cancelled(&self, cause: &Cause) {
        self.span.record("cause", cause.code.as_str());
        let span = tracing::info_span!("cancel", cause = cause.code.as_str());
        span.follows_from(&self.span);
        span.in_scope(|| tracing::debug!(reason = %sanitised(cause.wire_reason()), "the token of a request fires"));
    }
}

/// Records an error on a span: its type, and the code if there is one.
#[cfg(feature = "tracing")]
fn record_error(span: &Span, error_type: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error_type);
    if error_type.parse::<i64>().is_ok() {
        span.record("rpc.response.status_code", error_type);
    }
}

/// Whether there may be something to log about an event.
#[cfg(feature = "tracing")]
pub(crate) fn tells(event: &ConnectionEvent) -> bool {
    let is_ordinary = matches!(
        event,
        ConnectionEvent::Request(_) | ConnectionEvent::Notification(_) | ConnectionEvent::Settled { .. }
    );
    !is_ordinary && tracing::enabled!(Level::ERROR)
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn tells(_event: &ConnectionEvent) -> bool {
    false
}

/// Logs an event; `in_flight` counts the requests of ours that wait.
#[cfg(feature = "tracing")]
pub(crate) fn event(link: &LinkTrace, in_flight: impl FnOnce() -> usize, event: &ConnectionEvent) {
    let conn = link.conn;
    match event {
        ConnectionEvent::Cancel(notice) => cancel(link, notice),
        ConnectionEvent::Receipt(notice) => receipt(link, in_flight, notice),
        ConnectionEvent::Stopped(stopped) => tracing::debug!(
            conn,
            id = %text(&stopped.id.0),
            method = %sanitised(&stopped.method),
            cause = stopped.cause.code.as_str(),
            ending = stopped.ending.as_str(),
            "a cancelled request has ended"
        ),
        ConnectionEvent::Violation { rule, id } => {
            tracing::warn!(conn, rule = ?rule, id = id.as_ref().map(text), "the peer broke a rule of its protocol");
        }
        ConnectionEvent::Rejected { why, id, .. } => {
            tracing::warn!(conn, why = ?why, id = id.as_ref().map(text), "a message went nowhere");
        }
        ConnectionEvent::Late { id, what } => {
            tracing::debug!(conn, id = %text(id), what = ?what, "something arrived late")
        }
        ConnectionEvent::GivenUp { unsent } => {
            tracing::warn!(conn, unsent, "the peer does not read: the connection is given up")
        }
        ConnectionEvent::Request(_)
        | ConnectionEvent::Notification(_)
        | ConnectionEvent::Settled { .. }
        | ConnectionEvent::Progress { .. }
        | ConnectionEvent::Cancelled { .. }
        | ConnectionEvent::Silenced { .. }
        | ConnectionEvent::Delivered { .. }
        | ConnectionEvent::DropHandler { .. }
        | ConnectionEvent::Closed => {}
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn event(_link: &LinkTrace, _in_flight: impl FnOnce() -> usize, _event: &ConnectionEvent) {}

#[cfg(feature = "tracing")]
fn cancel(link: &LinkTrace, notice: &CancelNotice) {
    macro_rules! say {
        ($level:expr, $text:literal) => {
            tracing::event!(
                $level,
                conn = link.conn,
                id = notice.id.as_ref().map(text),
                method = notice.method.as_deref().map(sanitised),
                reason = notice.reason.as_deref().map(sanitised),
                initiator = "peer",
                in_flight = notice.in_flight,
                $text
            )
        };
    }
    match notice.verdict {
        Verdict::Accepted => say!(Level::INFO, "a cancel was received"),
        Verdict::Shielded => say!(Level::WARN, "a cancel is refused: the request runs to its end"),
        Verdict::Unknown | Verdict::Forbidden(_) => say!(Level::WARN, "a cancel names no request that it may cancel"),
        Verdict::Completed | Verdict::Repeated | Verdict::Held => {
            say!(Level::DEBUG, "a cancel has no effect now");
        }
        Verdict::Malformed if !link.malformed.swap(true, Ordering::Relaxed) => {
            say!(Level::ERROR, "a cancel cannot be read")
        }
        Verdict::Malformed | _ => {}
    }
}

#[cfg(feature = "tracing")]
fn receipt(link: &LinkTrace, in_flight: impl FnOnce() -> usize, notice: &ReceiptNotice) {
    let conn = link.conn;
    let outcome = notice.receipt.outcome;
    if outcome == Outcome::Sent {
        let in_flight = in_flight();
        tracing::info!(
            conn,
            id = %text(&notice.id.0),
            method = %sanitised(&notice.method),
            reason = %sanitised(notice.receipt.cause.wire_reason()),
            initiator = notice.receipt.cause.code.as_str(),
            in_flight,
            "a cancel was sent"
        );
    } else {
        tracing::debug!(conn, id = %text(&notice.id.0), outcome = outcome.as_str(), "the receipt of a cancel has changed");
    }
}

#[cfg(feature = "tracing")]
fn text(id: &RequestId) -> String {
    let mut json = Vec::new();
    id.write(&mut json);
    sanitised(&String::from_utf8_lossy(&json))
}
