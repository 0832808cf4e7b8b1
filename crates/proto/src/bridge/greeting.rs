//! The two handshakes: `initialize` and `server/discover`, each made from what the other one said.

use super::{
    LEGACY, date,
    envelope::{self, Envelope},
    kind, rewrite,
    task::{EXTENSION, OFFER},
    tasks_to_legacy, tasks_to_modern,
};
use crate::{
    dialect::{Dialect, mcp},
    frame::Params,
    json,
};

const EXTENSIONS: &str = "extensions";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Whether the params of an `initialize` are of MCP: ACP has the same method, and a number for its version.
pub(super) fn is_of_mcp(params: &Params<'_>) -> bool {
    params.raw.and_then(|params| json::member(params, "protocolVersion")).is_some_and(json::is_string)
}

/// The members of the params of our `initialize`, in the name of the client whose request this is, or in our own. If that
/// client cannot be asked, no capability is declared (D42).
pub(super) fn hello(request: Option<&[u8]>, may_ask: bool, out: &mut Vec<u8>) {
    let envelope = request.and_then(Envelope::of_request);
    let named = envelope.and_then(|envelope| envelope.info);
    rewrite::member("protocolVersion", out);
    json::write_string(out, date(LEGACY));
    out.extend_from_slice(br#","capabilities":"#);
    kind::declare(envelope.and_then(|envelope| envelope.capabilities).filter(|_| may_ask), b"", out);
    out.extend_from_slice(br#","clientInfo":"#);
    out.extend_from_slice(named.unwrap_or(envelope::OWN_INFO.as_bytes()));
}

/// Writes the answer to `server/discover` from the one to `initialize`.
pub(super) fn to_discovered(greeting: &[u8], out: &mut Vec<u8>) {
    let mut first = rewrite::CACHEABLE.to_vec();
    first.push(b',');
    rewrite::member("supportedVersions", &mut first);
    first.push(b'[');
    for (place, revision) in mcp::stateless().enumerate() {
        if place > 0 {
            first.push(b',');
        }
        json::write_string(&mut first, date(revision));
    }
    first.extend_from_slice(br#"],"capabilities":"#);
    let capabilities = json::member(greeting, "capabilities");
    let tasks = if tasks_to_modern::are_offered(greeting) { OFFER } else { b"" };
    let others = capabilities.and_then(|capabilities| json::member(capabilities, EXTENSIONS));
    let mut extensions = Vec::new();
    if !tasks.is_empty() || others.is_some() {
        rewrite::member(EXTENSIONS, &mut extensions);
        rewrite::object(tasks, others, &[EXTENSION], &mut extensions);
    }
    rewrite::object(&extensions, capabilities, &["tasks", EXTENSIONS], &mut first);
    let mut info = Vec::new();
    if let Some(named) = json::member(greeting, "serverInfo") {
        rewrite::member(SERVER_INFO, &mut info);
        info.extend_from_slice(named);
    }
    first.push(b',');
    rewrite::meta(&info, json::member(greeting, "_meta"), &[SERVER_INFO], &mut first);
    rewrite::object(&first, Some(greeting), &["protocolVersion", "capabilities", "serverInfo", "_meta"], out);
}

/// Writes the answer to an `initialize` with these params from the one to `server/discover`.
pub(super) fn from_discovered(discovered: &[u8], params: &[u8], out: &mut Vec<u8>) {
    let asked = json::member(params, "protocolVersion").and_then(json::text);
    let has_sessions = |dialect: &&Dialect| !dialect.stateless;
    let agreed = asked.as_deref().and_then(mcp::by_version).filter(has_sessions).unwrap_or(LEGACY);
    let mut first = Vec::new();
    rewrite::member("protocolVersion", &mut first);
    json::write_string(&mut first, date(agreed));
    first.extend_from_slice(br#","capabilities":"#);
    let has_tasks = agreed.asks_for_tasks() && tasks_to_legacy::are_offered(discovered);
    let tasks: &[u8] = if has_tasks { tasks_to_legacy::CAPABILITY } else { b"" };
    rewrite::object(tasks, json::member(discovered, "capabilities"), &[EXTENSIONS, "tasks"], &mut first);
    first.extend_from_slice(br#","serverInfo":"#);
    let named = json::lookup(discovered, &["_meta", SERVER_INFO]);
    first.extend_from_slice(named.unwrap_or(br#"{"name":"","version":""}"#));
    const OTHERS: [&str; 7] =
        ["resultType", "ttlMs", "cacheScope", "supportedVersions", "capabilities", "serverInfo", "_meta"];
    rewrite::object(&first, Some(discovered), &OTHERS, out);
}
