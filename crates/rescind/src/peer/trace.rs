//! Spans and log lines of a connection (D31), with the feature `tracing`; nothing without it.
//!
//! A request of the peer is a span, in which its handler and what is linked to it run. Its `outcome` is `result`,
//! `error` or `panicked`; if it was stopped `cancelled`, `dropped` or `ran_on`, which is neither an error nor a
//! success: `otel.status_code` is left unset. A request of ours is a span too, from its making to its end: `result`,
//! `error`, `timed_out`, `closed` or `cancelled`. What cancels a request is a span that follows from it. Params are
//! never logged but for the trace context in them, and words of the peer only sanitised (D20).
//!
//! A span holds a subscriber's code, which may do anything: it is made, told and dropped without any lock.

use std::sync::Arc;

use rescind_proto::{
    connection::{Event, Request, Settlement},
    id::OutgoingId,
};

use super::shared::Shared;
#[cfg(feature = "tracing")]
use {
    rescind_proto::{
        cause::{Cause, sanitised},
        connection::{CancelNotice, ReceiptNotice, Verdict},
        id::RequestId,
        json,
        receipt::Outcome,
    },
    std::sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    tracing::{Level, Span, field::Empty},
};

/// What the traces of one connection share.
#[derive(Debug)]
pub(crate) struct LinkTrace {
    /// Tells the connections of this process apart.
    #[cfg(feature = "tracing")]
    conn: u64,
    /// A malformed cancel was logged already (D29).
    #[cfg(feature = "tracing")]
    malformed: AtomicBool,
}

impl LinkTrace {
    #[cfg(feature = "tracing")]
    pub(crate) fn new() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self { conn: CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1, malformed: AtomicBool::new(false) }
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) const fn new() -> Self {
        Self {}
    }
}

/// The span of a request of ours; one whose end nobody told was cancelled by its caller.
#[derive(Debug)]
pub(crate) struct CallSpan {
    #[cfg(feature = "tracing")]
    span: Span,
    /// How it ended, and why if it was cancelled.
    #[cfg(feature = "tracing")]
    end: OnceLock<(&'static str, Option<&'static str>)>,
}

#[cfg_attr(
    not(feature = "tracing"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "nothing is traced without the feature")
)]
impl CallSpan {
    /// `None` if nobody wants to hear of it.
    pub(crate) fn new(link: &LinkTrace, method: &str, params: &[u8]) -> Option<Arc<Self>> {
        #[cfg(feature = "tracing")]
        {
            let span = tracing::info_span!(
                "request",
                otel.kind = "client",
                otel.status_code = Empty,
                conn = link.conn,
                side = "outgoing",
                id = Empty,
                method = %sanitised(method),
                traceparent = trace_context(Some(params)),
                cause = Empty,
                outcome = Empty,
            );
            (!span.is_disabled()).then(|| Arc::new(Self { span, end: OnceLock::new() }))
        }
        #[cfg(not(feature = "tracing"))]
        None
    }

    /// The engine has it, under this id.
    pub(crate) fn sent(span: Option<Arc<Self>>, id: Option<OutgoingId>) {
        #[cfg(feature = "tracing")]
        if let Some((span, id)) = span.zip(id) {
            span.span.record("id", text(&id.0));
        }
    }

    /// It could not be made.
    pub(crate) fn refused(span: Option<Arc<Self>>) {
        #[cfg(feature = "tracing")]
        if let Some(span) = span {
            let _ = span.end.set(("error", None));
        }
    }

    /// It has ended. Nothing is told of it before the drop: a lock may be held.
    pub(crate) fn settled(&self, how: &Settlement) {
        #[cfg(feature = "tracing")]
        let _ = self.end.set(match how {
            Settlement::Result(_) | Settlement::Ended { .. } => ("result", None),
            Settlement::PeerError(_) | Settlement::Unreadable(_) => ("error", None),
            Settlement::Cancelled(cause) => ("cancelled", Some(cause.code.word())),
            Settlement::TimedOut { .. } => ("timed_out", Some("timeout")),
            Settlement::Closed => ("closed", None),
        });
    }
}

#[cfg(feature = "tracing")]
impl Drop for CallSpan {
    fn drop(&mut self) {
        let (outcome, cause) = *self.end.get_or_init(|| ("cancelled", Some("caller")));
        self.span.record("outcome", outcome);
        if !matches!(outcome, "result" | "cancelled") {
            self.span.record("otel.status_code", "ERROR");
        }
        if let Some(cause) = cause {
            self.span.record("cause", cause);
            let cancel = tracing::info_span!("cancel", cause);
            cancel.follows_from(&self.span);
        }
    }
}

/// The span of a request.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    #[cfg(feature = "tracing")]
    span: Span,
}

/// Keeps the span of a request entered.
#[must_use]
pub(crate) struct EnteredRequest {
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

#[cfg_attr(not(feature = "tracing"), expect(clippy::unused_self, reason = "nothing is traced without the feature"))]
impl RequestSpan {
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is traced without the feature"))]
    pub(crate) fn new(link: &LinkTrace, request: &Request) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(
                "request",
                otel.kind = "server",
                otel.status_code = Empty,
                conn = link.conn,
                side = "incoming",
                id = %text(&request.id.0),
                method = %sanitised(request.payload.method()),
                traceparent = trace_context(request.payload.params()),
                cause = Empty,
                outcome = Empty,
            ),
        }
    }

    pub(crate) fn enter(&self) -> EnteredRequest {
        EnteredRequest {
            #[cfg(feature = "tracing")]
            _entered: self.span.clone().entered(),
        }
    }

    /// The handler has ended; `outcome` is a word.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is traced without the feature"))]
    pub(crate) fn ended(&self, outcome: &'static str) {
        #[cfg(feature = "tracing")]
        {
            self.span.record("outcome", outcome);
            if matches!(outcome, "error" | "panicked") {
                self.span.record("otel.status_code", "ERROR");
            }
        }
    }

    /// Its token fires.
    #[cfg(feature = "tracing")]
    pub(crate) fn cancelled(&self, cause: &Cause) {
        self.span.record("cause", cause.code.word());
        let span = tracing::info_span!("cancel", cause = cause.code.word());
        span.follows_from(&self.span);
        span.in_scope(|| tracing::debug!(reason = %sanitised(cause.wire_reason()), "the token of a request fires"));
    }
}

/// Whether there may be something to log about an event.
#[cfg(feature = "tracing")]
pub(crate) fn tells(event: &Event) -> bool {
    let is_ordinary = matches!(event, Event::Request(_) | Event::Notification(_) | Event::Settled { .. });
    !is_ordinary && tracing::enabled!(Level::ERROR)
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn tells(_event: &Event) -> bool {
    false
}

/// Logs what an event says.
#[cfg(feature = "tracing")]
pub(crate) fn event(shared: &Shared, event: &Event) {
    let conn = shared.link.conn;
    match event {
        Event::Cancel(notice) => cancel(&shared.link, notice),
        Event::Receipt(notice) => receipt(shared, notice),
        Event::Stopped(stopped) => tracing::debug!(
            conn,
            id = %text(&stopped.id.0),
            method = %sanitised(&stopped.method),
            cause = stopped.cause.code.word(),
            ending = stopped.ending.word(),
            "a cancelled request has ended"
        ),
        Event::Violation { rule, id } => {
            tracing::warn!(conn, rule = ?rule, id = id.as_ref().map(text), "the peer broke a rule of its protocol");
        }
        Event::Refused { why, id, .. } => {
            tracing::warn!(conn, why = ?why, id = id.as_ref().map(text), "a message went nowhere");
        }
        Event::Late { id, what } => tracing::debug!(conn, id = %text(id), what = ?what, "something arrived late"),
        Event::GivenUp { debt } => tracing::warn!(conn, debt, "the peer does not read what it is owed"),
        Event::Request(_)
        | Event::Notification(_)
        | Event::Settled { .. }
        | Event::Progress { .. }
        | Event::Cancelled { .. }
        | Event::Delivered { .. }
        | Event::Drop { .. }
        | Event::Closed => {}
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn event(_shared: &Shared, _event: &Event) {}

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
        Verdict::Unknown | Verdict::Forbidden(_) => say!(Level::WARN, "a cancel names nothing that it may cancel"),
        Verdict::Completed | Verdict::Repeated | Verdict::Held => {
            say!(Level::DEBUG, "a cancel changes nothing now");
        }
        Verdict::Malformed if !link.malformed.swap(true, Ordering::Relaxed) => {
            say!(Level::ERROR, "a cancel cannot be read")
        }
        Verdict::Malformed => {}
    }
}

#[cfg(feature = "tracing")]
fn receipt(shared: &Shared, notice: &ReceiptNotice) {
    let conn = shared.link.conn;
    let outcome = notice.receipt.outcome;
    if outcome == Outcome::Sent {
        let in_flight = shared.lock().conn.waiting();
        tracing::info!(
            conn,
            id = %text(&notice.id.0),
            method = %sanitised(&notice.method),
            reason = %sanitised(notice.receipt.cause.wire_reason()),
            initiator = notice.receipt.cause.code.word(),
            in_flight,
            "a cancel was sent"
        );
    } else {
        tracing::debug!(conn, id = %text(&notice.id.0), outcome = outcome.word(), "more is known of a cancel");
    }
}

#[cfg(feature = "tracing")]
fn text(id: &RequestId) -> String {
    let mut json = Vec::new();
    id.write(&mut json);
    sanitised(&String::from_utf8_lossy(&json))
}

/// The trace context that travels with a request (W3C `traceparent`), if it looks like one.
#[cfg(feature = "tracing")]
fn trace_context(params: Option<&[u8]>) -> Option<&str> {
    let quoted = json::lookup(params?, &["_meta", "traceparent"])?;
    let context = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_plain = context.len() <= 64 && context.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    std::str::from_utf8(context).ok().filter(|_| is_plain)
}
