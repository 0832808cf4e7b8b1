//! The handshake in which sides declare that they understand cancels (ACP-20), before a scene begins.

use core::time::Duration;
use std::sync::Arc;

use rescind_proto::{
    connection::{CallOptions, ConnectionEvent, HandlerEnd, Reply},
    relay::{self, Relay},
    side::{Side, Sides},
    time::Instant,
};

use super::{endpoint::Endpoint, scene::Scene};

/// Longer than anything of the handshake is remembered.
const LONG: Duration = Duration::from_secs(1200);

/// `initialize` through a relay; when the scene can begin, and what the relay has told.
///
/// Nothing of it is left behind but what was declared.
pub fn through_relay(relay: &mut Relay, declared: Sides<bool>) -> (Instant, Vec<relay::RelayEvent>) {
    let now = Instant::ORIGIN;
    let ask = format!(r#"{{"jsonrpc":"2.0","id":"shake","method":"initialize","params":{}}}"#, params(declared));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":"shake","result":{}}}"#, result(declared));
    for (from, frame) in [(Side::Client, ask), (Side::Server, answer)] {
        relay.handle_input(now, from, frame.as_bytes());
        relay.handle_input(now, from, b"\n");
        let len = relay.pending(from.other()).len();
        relay.handle_written(now, from.other(), len);
    }
    let later = now + LONG;
    relay.handle_timeout(later);
    (later, core::iter::from_fn(|| relay.poll_event()).collect())
}

/// Both endpoints of a scene and when it can begin, its handshake done if it has one.
pub fn endpoints(scene: &Arc<Scene>) -> (Sides<Endpoint>, Instant) {
    let mut ends = Sides::from_fn(|side| Endpoint::new(scene, side));
    let has_gate = scene.dialects.client.gate.is_some();
    let begins = if has_gate { between_endpoints(&mut ends, scene.declared) } else { Instant::ORIGIN };
    (ends, begins)
}

/// `initialize` between two endpoints; when the scene can begin.
fn between_endpoints(ends: &mut Sides<Endpoint>, declared: Sides<bool>) -> Instant {
    let now = Instant::ORIGIN;
    let Sides { client, server } = ends;
    let asked = client.conn.request(now, "initialize", params(declared).as_bytes(), &CallOptions::default());
    debug_assert!(asked.is_ok(), "a fresh endpoint takes requests");
    let bytes = client.conn.pending().to_vec();
    client.conn.handle_written(now, bytes.len());
    server.conn.handle_input(now, &bytes);
    let result = result(declared);
    while let Some(event) = server.conn.poll_event() {
        if let ConnectionEvent::Request(request) = event {
            server.conn.ended(now, request.key, HandlerEnd::Returned(Reply::Result(result.as_bytes())));
        }
    }
    let bytes = server.conn.pending().to_vec();
    server.conn.handle_written(now, bytes.len());
    client.conn.handle_input(now, &bytes);
    let later = now + LONG;
    for end in [client, server] {
        end.conn.handle_timeout(later);
        while end.conn.poll_event().is_some() {}
    }
    later
}

fn params(declared: Sides<bool>) -> String {
    let request = declared.client;
    format!(r#"{{"protocolVersion":1,"clientCapabilities":{{"cancellation":{{"request":{request}}}}}}}"#)
}

fn result(declared: Sides<bool>) -> String {
    let request = declared.server;
    format!(r#"{{"protocolVersion":1,"agentCapabilities":{{"cancellation":{{"request":{request}}}}}}}"#)
}
