//! The messages that the tests speak in.

use rescind_testkit::puppet::Rig;

/// A request; `id` is JSON.
pub(crate) fn request(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

/// A request with params; `id` and `params` are JSON.
pub(crate) fn request_with(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A notification; `params` is JSON.
pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// A result; `id` and `result` are JSON.
pub(crate) fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error; `id` is JSON.
pub(crate) fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// MCP's cancel.
pub(crate) fn cancelled(id: &str) -> String {
    notification("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#))
}

/// MCP's progress.
pub(crate) fn progress(token: &str, value: u32) -> String {
    notification("notifications/progress", &format!(r#"{{"progressToken":{token},"progress":{value}}}"#))
}

/// The params of a request that wants progress.
pub(crate) fn with_token(token: &str) -> String {
    format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#)
}

/// The handshake of an MCP session of this revision.
pub(crate) fn greet_mcp(rig: &mut Rig, revision: &str) {
    let params = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"test","version":"1"}}}}"#
    );
    let answer = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"test","version":"1"}}}}"#
    );
    pass_to_server(rig, &request_with("\"hello\"", "initialize", &params));
    pass_to_client(rig, &result("\"hello\"", &answer));
    pass_to_server(rig, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
}

/// The handshake of an ACP session, with what each side says of itself beyond the version.
pub(crate) fn greet_acp(rig: &mut Rig, client: &str, agent: &str) {
    let params = format!(r#"{{"protocolVersion":1{client}}}"#);
    let answer = format!(r#"{{"protocolVersion":1{agent}}}"#);
    pass_to_server(rig, &request_with("\"hello\"", "initialize", &params));
    pass_to_client(rig, &result("\"hello\"", &answer));
}

/// The client says something, and the server hears exactly that.
pub(crate) fn pass_to_server(rig: &mut Rig, message: &str) {
    rig.client.send(message);
    rig.server.expect(message);
}

/// The server says something, and the client hears exactly that.
pub(crate) fn pass_to_client(rig: &mut Rig, message: &str) {
    rig.server.send(message);
    rig.client.expect(message);
}

/// The session goes on: a request and its answer pass.
pub(crate) fn expect_alive(rig: &mut Rig) {
    pass_to_server(rig, &request("\"alive?\"", "ping"));
    pass_to_client(rig, &result("\"alive?\"", "{}"));
}
