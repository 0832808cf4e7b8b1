//! The messages of the simulated clients and programs: written here, and read back without a parser of ours.

/// The newest revision without sessions.
pub(crate) const MODERN: &str = "2026-07-28";

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The header with which a person signs in.
pub(crate) fn credentials(person: u8) -> String {
    format!("Bearer {person}")
}

/// A request that says which one it is (`g`).
pub(crate) fn request(id: &str, token: Option<&str>, generation: usize, is_modern: bool, listens: bool) -> String {
    let (method, name) = if listens { ("subscriptions/listen", "") } else { ("tools/call", r#","name":"slow""#) };
    let mut meta = Vec::new();
    if is_modern {
        meta.push(format!(r#""io.modelcontextprotocol/protocolVersion":"{MODERN}""#));
        meta.push(r#""io.modelcontextprotocol/clientCapabilities":{}"#.to_owned());
    }
    meta.extend(token.map(|token| format!(r#""progressToken":{token}"#)));
    let meta = if meta.is_empty() { String::new() } else { format!(r#","_meta":{{{}}}"#, meta.join(",")) };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"g":{generation}{name}{meta}}}}}"#)
}

/// The answer that belongs to a request.
pub(crate) fn answer(id: &str, generation: usize, listens: bool) -> String {
    let meta = if listens { format!(r#","_meta":{{"{SUBSCRIPTION}":{id}}}"#) } else { String::new() };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"g":{generation}{meta}}}}}"#)
}

/// The answer for a program that is gone.
pub(crate) fn gone(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-31002,"message":"the server is gone"}}}}"#)
}

/// So many bytes `more` make it long, here and below.
pub(crate) fn progress(token: &str, generation: usize, number: u8, more: usize) -> String {
    let more = "x".repeat(more);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{number},"g":{generation},"message":"{more}"}}}}"#
    )
}

/// What a program says on a subscription.
pub(crate) fn changed(id: &str, generation: usize, number: u8, more: usize) -> String {
    let more = "x".repeat(more);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"{SUBSCRIPTION}":{id}}},"g":{generation},"k":{number},"m":"{more}"}}}}"#
    )
}

/// What belongs to no request.
pub(crate) fn plain(number: usize, more: usize) -> String {
    let more = "x".repeat(more);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{number}{more}"}}}}"#
    )
}

pub(crate) fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

pub(crate) fn handshake(revision: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}"}}}}"#)
}

pub(crate) fn handshake_answer(id: &str, revision: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{revision}"}}}}"#)
}

/// Whether this is what a program is told when it shakes hands.
pub(crate) fn is_handshake(message: &str) -> bool {
    [r#""method":"initialize""#, r#""method":"notifications/initialized""#].iter().any(|part| message.contains(part))
}

/// The answer of a modern server to the question for its revisions, or that of a legacy one.
pub(crate) fn discovered(id: &str, is_modern: bool) -> String {
    if is_modern {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#)
    } else {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"method not found"}}}}"#)
    }
}

/// The text between `before` and the first of `ends` behind it.
fn between<'a>(text: &'a str, before: &str, ends: &[char]) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    rest.find(ends).map(|end| &rest[..end])
}

/// Which request a message is of.
pub(crate) fn generation(message: &str) -> Option<usize> {
    between(message, r#""g":"#, &[',', '}'])?.parse().ok()
}

/// The id of a message.
pub(crate) fn id(message: &str) -> Option<&str> {
    between(message, r#""id":"#, &[',', '}'])
}

pub(crate) fn token(message: &str) -> Option<&str> {
    between(message, r#""progressToken":"#, &[',', '}'])
}

/// Whether it says that messages are missing.
pub(crate) fn is_gap(message: &str) -> bool {
    message.contains(r#""logger":"rescind""#)
}

/// The id of the request whose answer is missing, if it says so.
pub(crate) fn not_kept(message: &str) -> Option<&str> {
    message.contains(r#""code":-31006"#).then(|| id(message)).flatten()
}

/// Whether it is the machine's question which era a server speaks.
pub(crate) fn is_question(message: &str) -> bool {
    message.contains(r#""method":"server/discover""#)
}
