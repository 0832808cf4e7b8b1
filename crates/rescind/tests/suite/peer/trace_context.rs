//! A request made while another is handled belongs to the same trace, whoever knows of traces.

use rescind::peer::{Context, ErrorObject, Peer, dialect::mcp, transport};
use serde_json::{Value, json};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What the last peer of a chain of two connections is sent, when the first sends `params`.
async fn at_the_end_of_a_chain(params: Value) -> Value {
    let (near, middle) = transport::memory();
    let (onward, far) = transport::memory();
    let last = Peer::builder(&mcp::LATEST)
        .on_request("work", |rescind::peer::Params(params): rescind::peer::Params<Value>| async move {
            Ok::<_, ErrorObject>(params)
        });
    last.accept(far).1.spawn();
    let (next, driver) = Peer::builder(&mcp::LATEST).connect(onward);
    driver.spawn();
    let server = Peer::builder(&mcp::LATEST).on_request("ask", move |_: Context| {
        let next = next.clone();
        async move { next.request::<Value>("work", &json!({ "a": 1 })).await.map_err(|_| ErrorObject::internal("no")) }
    });
    server.accept(middle).1.spawn();
    let (peer, driver) = Peer::builder(&mcp::LATEST).connect(near);
    driver.spawn();
    peer.request::<Value>("ask", &params).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_trace_of_a_request_is_carried_on_to_what_is_asked_for_it() {
    let trace = json!({ "traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v", "secret": "s" });
    let meta = at_the_end_of_a_chain(json!({ "_meta": trace })).await["_meta"].clone();
    assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(PARENT), &json!("a=b")));
    assert_eq!((&meta["baggage"], &meta["secret"]), (&json!("k=v"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn without_a_trace_nothing_is_carried() {
    let params = at_the_end_of_a_chain(json!({ "_meta": { "tracestate": "a=b" } })).await;
    assert_eq!(params["_meta"]["tracestate"], Value::Null);
    assert_eq!(params["a"], 1);
}
