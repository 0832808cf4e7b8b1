//! What the library's functions take and return can be named without another dependency.

use rescind::{
    CancellationToken, mcp,
    peer::{ErrorObject, Params, Peer},
    schemars::{self, JsonSchema},
    serde_json::{self, Value},
};

#[derive(serde::Deserialize, JsonSchema)]
#[schemars(crate = "rescind::schemars")]
struct Arguments {
    /// What to say
    text: String,
}

async fn say(Arguments { text }: Arguments, stop: CancellationToken) -> Result<String, ErrorObject> {
    if stop.is_cancelled() { Err(ErrorObject::cancelled()) } else { Ok(text) }
}

#[test]
fn a_tool_needs_no_dependency_but_this_crate_and_serde() {
    let _server = mcp::Server::new("speaker", "1").tool("say", "Says it", say);
    let schema = schemars::schema_for!(Arguments).to_value();
    assert_eq!(schema["properties"]["text"]["description"], "What to say");
    let echo = |Params(value): Params<Value>| async move { Ok::<_, serde_json::Error>(value) };
    let _builder = Peer::builder(None).on_request("echo", echo);
}

/// Each is part of a public signature.
#[expect(dead_code, reason = "it is enough that they can be named")]
type Named = (
    rescind::bytes::Bytes,
    rescind::peer::IncomingKey,
    rescind::peer::IncomingState,
    rescind::peer::OutgoingState,
    rescind::peer::Misuse,
    rescind::proto::time::Instant,
    rescind::proto::side::Side,
    rescind::proto::relay::RelayEvent,
);
