//! Messages that mean something to the machines, for drivers that make up streams of them.

use crate::sim::chooser::Chooser;

/// `#` stands for an id, `@` for a line's worth of bytes that the driver makes up.
const PHRASES: [&str; 52] = [
    r#"{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"name":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"_meta":{"progressToken":#}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"task":{},"name":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":1}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"cancellation":{"request":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":2}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"processId":1}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"protocolVersion":"2025-03-26"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"protocolVersion":1,"agentCapabilities":{"cancellation":{"request":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"stopReason":"cancelled"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"outcome":{"outcome":"cancelled"}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"error":{"code":-32800,"message":"c"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"error":{"code":-32603,"message":"e"}}"#,
    r#"{"jsonrpc":"2.0","id":5.0,"result":{}}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"e"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"e"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#,"reason":"r"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":#}}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":#}}"#,
    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"requestId":#,"message":"m"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#,"progress":1}}"#,
    r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":#,"value":{}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"session/prompt","params":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"session/prompt","params":{"sessionId":"t","_meta":{}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"session/request_permission","params":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"elicitation/create","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"shutdown"}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"textDocument/hover","params":{"workDoneToken":#}}"#,
    r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":#}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"$/unknown"}"#,
    r#"[{"jsonrpc":"2.0","id":#,"method":"a"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}]"#,
    r#"[{"jsonrpc":"2.0","id":#,"method":"a"},{"jsonrpc":"2.0","id":#,"method":"b"}]"#,
    r#"[{"jsonrpc":"2.0","id":#,"result":{}},{"jsonrpc":"2.0","id":#,"result":{}}]"#,
    "[1,[],{}]",
    r#"{"jsonrpc":"2.0","id":#,"id":#,"method":"a"}"#,
    r#"{"jsonrpc":"2.0","id":[#],"method":"a"}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"#,
    "[]",
    "@",
];

/// Ids that meet, and ids that only look as if they did.
const IDS: [&str; 10] =
    ["1", "2", "3", "\"1\"", "5", "\"5\"", "null", "2147483647", "9007199254740993", "\"rescind-2147483647\""];

/// A phrase with the ids and the noise that are chosen; `None` once there are no more choices.
pub(super) fn phrase(chooser: &mut impl Chooser) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for byte in PHRASES[chooser.choose(PHRASES.len())?].bytes() {
        match byte {
            b'#' => text.extend_from_slice(IDS[chooser.choose(IDS.len())?].as_bytes()),
            b'@' => {
                for _ in 0..chooser.choose(40)? {
                    text.push(u8::try_from(chooser.choose(256)?).unwrap_or_default());
                }
            }
            byte => text.push(byte),
        }
    }
    Some(text)
}

/// A phrase in a line.
pub(super) fn line(chooser: &mut impl Chooser) -> Option<Vec<u8>> {
    let mut bytes = phrase(chooser)?;
    bytes.push(b'\n');
    Some(bytes)
}

/// A phrase that breaks off.
pub(super) fn piece(chooser: &mut impl Chooser) -> Option<Vec<u8>> {
    let mut bytes = phrase(chooser)?;
    bytes.truncate(chooser.choose(bytes.len() + 1)?);
    Some(bytes)
}
