//! Spans and log lines of a connection (D31), with the feature `tracing`; nothing without it.
//!
//! A request of the peer is a span, in which its handler and what is linked to it run. Its `outcome` is `result`,
//! `error` or `panicked`; if it was stopped `cancelled`, `dropped` or `ran_on`, which is neither an error nor a
//! success. What cancels it is a span that follows from it. Params are never logged, and words of the
//! peer only sanitised (D20).

use rescind_proto::connection::{Event, Request};
#[cfg(feature = "tracing")]
use {
    rescind_proto::{
        cause::{Cause, sanitised},
        connection::{CancelNotice, ReceiptNotice, Verdict},
        id::RequestId,
        receipt::Outcome,
    },
    tracing::{Level, Span, field::Empty},
};

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
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(
                "request",
                side = "incoming",
                id = %text(&request.id.0),
                method = %sanitised(request.payload.method()),
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
        self.span.record("outcome", outcome);
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

/// Logs what an event says; `malformed` is whether a malformed cancel was logged already (D29).
#[cfg(feature = "tracing")]
pub(crate) fn event(event: &Event, malformed: &mut bool) {
    match event {
        Event::Cancel(notice) => cancel(notice, malformed),
        Event::Receipt(notice) => receipt(notice),
        Event::Stopped(stopped) => tracing::debug!(
            id = %text(&stopped.id.0),
            method = %sanitised(&stopped.method),
            cause = stopped.cause.code.word(),
            ending = stopped.ending.word(),
            "a cancelled request has ended"
        ),
        Event::Violation { rule, id } => {
            tracing::warn!(rule = ?rule, id = id.as_ref().map(text), "the peer broke a rule of its protocol");
        }
        Event::Refused { why, id, .. } => {
            tracing::warn!(why = ?why, id = id.as_ref().map(text), "a message went nowhere");
        }
        Event::Late { id, what } => tracing::debug!(id = %text(id), what = ?what, "something arrived late"),
        Event::GivenUp { debt } => tracing::warn!(debt, "the peer does not read what it is owed"),
        Event::Request(_)
        | Event::Notification(_)
        | Event::Settled { .. }
        | Event::Progress { .. }
        | Event::Cancelled { .. }
        | Event::Drop { .. }
        | Event::Closed => {}
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) const fn event(_event: &Event, _malformed: &mut bool) {}

#[cfg(feature = "tracing")]
fn cancel(notice: &CancelNotice, malformed: &mut bool) {
    macro_rules! say {
        ($level:expr, $text:literal) => {
            tracing::event!(
                $level,
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
        Verdict::Accepted | Verdict::Shielded => say!(Level::INFO, "a cancel was received"),
        Verdict::Unknown | Verdict::Forbidden(_) => say!(Level::WARN, "a cancel names nothing that it may cancel"),
        Verdict::Completed | Verdict::Repeated | Verdict::Held => {
            say!(Level::DEBUG, "a cancel changes nothing now");
        }
        Verdict::Malformed if !std::mem::replace(malformed, true) => say!(Level::ERROR, "a cancel cannot be read"),
        Verdict::Malformed => {}
    }
}

#[cfg(feature = "tracing")]
fn receipt(notice: &ReceiptNotice) {
    let outcome = notice.receipt.outcome;
    if outcome == Outcome::Sent {
        tracing::info!(
            id = %text(&notice.id.0),
            method = %sanitised(&notice.method),
            reason = %sanitised(notice.receipt.cause.wire_reason()),
            initiator = notice.receipt.cause.code.word(),
            "a cancel was sent"
        );
    } else {
        tracing::debug!(id = %text(&notice.id.0), outcome = outcome.word(), "more is known of a cancel");
    }
}

#[cfg(feature = "tracing")]
fn text(id: &RequestId) -> String {
    let mut json = Vec::new();
    id.write(&mut json);
    sanitised(&String::from_utf8_lossy(&json))
}
