//! Spans of both sides in one trace of the OpenTelemetry SDK.

use opentelemetry::{
    Value,
    trace::{SpanKind, Status, TracerProvider as _},
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use rescind::peer::{Context, ErrorObject, Peer, dialect::mcp, transport};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt;

fn attribute<'a>(span: &'a SpanData, name: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == name).map(|attribute| &attribute.value)
}

#[tokio::test(start_paused = true)]
async fn a_call_and_its_handling_are_one_trace_and_a_cancel_is_neither_error_nor_success() {
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("rescind"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let (near, far) = transport::memory();
    let server = Peer::builder(&mcp::LATEST)
        .on_request("tools/call", |cx: Context| async move {
            cx.cancelled().await;
            Err::<(), _>(ErrorObject::cancelled())
        })
        .on_request("fail", || async { Err::<(), _>(ErrorObject::internal("it broke")) });
    let (_server, driver) = server.accept(far);
    driver.spawn();
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    let call = peer.request::<serde_json::Value>("tools/call", &json!({ "name": "search" })).send();
    peer.request::<serde_json::Value>("fail", &()).await.unwrap_err();
    drop(call.cancel("the user pressed Stop"));
    peer.request::<serde_json::Value>("fail", &()).await.unwrap_err();
    provider.force_flush().unwrap();

    let spans = exporter.get_finished_spans().unwrap();
    let find = |name: &str, kind: SpanKind| {
        spans.iter().find(|span| span.name == name && span.span_kind == kind).unwrap_or_else(|| panic!("{spans:#?}"))
    };
    for name in ["tools/call search", "fail"] {
        let (ours, theirs) = (find(name, SpanKind::Client), find(name, SpanKind::Server));
        assert_eq!(ours.span_context.trace_id(), theirs.span_context.trace_id());
        assert_eq!(ours.span_context.span_id(), theirs.parent_span_id);
        let method = name.split(' ').next().unwrap().to_owned();
        for span in [ours, theirs] {
            assert_eq!(attribute(span, "mcp.method.name"), Some(&Value::from(method.clone())));
            assert_eq!(attribute(span, "mcp.protocol.version"), Some(&Value::from("2026-07-28")));
            if name == "fail" {
                assert!(matches!(span.status, Status::Error { .. }));
                assert_eq!(attribute(span, "error.type"), Some(&Value::from("-32603")));
                assert_eq!(attribute(span, "rpc.response.status_code"), Some(&Value::from("-32603")));
            } else {
                assert_eq!(span.status, Status::Unset);
                assert_eq!(attribute(span, "gen_ai.tool.name"), Some(&Value::from("search")));
                assert_eq!(attribute(span, "cause"), Some(&Value::from("caller")));
                assert_eq!(attribute(span, "outcome"), Some(&Value::from("cancelled")));
                assert_eq!(attribute(span, "error.type"), None);
            }
        }
    }
}
