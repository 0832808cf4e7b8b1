//! Messages of both eras of MCP, as the parties of worlds with a bridge write them.

use serde_json::{Value, json};

use super::world::Broken;

/// Names its revision in a request of 2026-07-28.
pub(super) const META: &str = "io.modelcontextprotocol/protocolVersion";
/// Names what the client of such a request can do.
pub(super) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The extension of tasks.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(super) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(super) fn result(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

pub(super) fn error(id: impl Into<Value>, code: i32, words: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": words}})
}

/// A client's cancel of its request.
pub(super) fn cancel(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

/// What a client with a session begins with.
pub(super) fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {"elicitation": {}}, "clientInfo": client});
    request(id, "initialize", params)
}

/// … and ends its handshake with.
pub(super) fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// The result by which a server opens a session.
pub(super) fn opened(revision: &str, capabilities: Value) -> Value {
    let server = json!({"name": "s", "version": "1"});
    json!({"protocolVersion": revision, "capabilities": capabilities, "serverInfo": server})
}

/// The result by which a server without sessions says what it can do.
pub(super) fn discovered(capabilities: Value) -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities})
}

/// The result of a call.
pub(super) fn called(is_modern: bool) -> Value {
    if is_modern { json!({"resultType": "complete", "content": []}) } else { json!({"content": []}) }
}

/// A question of a server with sessions for this call.
pub(super) fn question(id: i64, params: Value) -> Value {
    request(id, "elicitation/create", params)
}

/// The result by which a server without them asks the same, under this name.
pub(super) fn input_required(requests: Value) -> Value {
    json!({"resultType": "input_required", "requestState": "s", "inputRequests": requests})
}

/// What a person gives for this call.
pub(super) fn given(call: usize) -> Value {
    json!({"action": "accept", "content": {"for": call}})
}

/// Adds members to an object.
pub(super) fn extend(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name.as_str()] = value.clone();
    }
}

/// A frame as its reader sees it.
pub(super) fn parse(frame: &str) -> Result<Value, Broken> {
    serde_json::from_str(frame).map_err(|error| Broken(format!("{error}: {frame}")))
}

/// What is said of a frame by one who judges it.
pub(super) type Judged = Result<(), &'static str>;

/// It breaks the rule in these words unless it is so.
pub(super) const fn must(is_so: bool, words: &'static str) -> Judged {
    if is_so { Ok(()) } else { Err(words) }
}
