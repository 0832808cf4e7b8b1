//! Traces that cross the connection, with the feature `opentelemetry`.
//!
//! The propagator that the program has set for the process names a trace in `_meta`
//! (`opentelemetry::global::set_text_map_propagator`); until it has, spans of the two sides are not connected.

use std::{borrow::Cow, collections::HashMap};

use opentelemetry::{global, propagation::Extractor};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::TraceContext;

/// Makes a span part of the trace that its request belongs to. One whose subscriber knows nothing of traces stays
/// as it is.
pub(super) fn adopt(span: &Span, trace: &TraceContext) {
    let remote = global::get_text_map_propagator(|propagator| propagator.extract(&TraceMembers(trace)));
    let _ = span.set_parent(remote);
}

/// The trace of a span, for the peer; `None` if there is none.
pub(super) fn context(span: &Span) -> Option<TraceContext> {
    let mut members = HashMap::new();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&span.context(), &mut members));
    TraceContext::new(|name| members.get(name).map(|value| Cow::Borrowed(&**value)))
}

struct TraceMembers<'a>(&'a TraceContext);

impl Extractor for TraceMembers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.members().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.members().map(|(name, _)| name).collect()
    }
}
