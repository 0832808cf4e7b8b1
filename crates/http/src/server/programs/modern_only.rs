//! A server that knows no sessions, and the answer to clients that want one.

use bytes::Bytes;
use rescind_proto::{
    dialect::mcp,
    error_code,
    frame::{Request, ResponseBody},
    json, message,
};

/// The revisions that a server has named when it refused a handshake, as a JSON array: none of them has sessions.
///
/// What `server/discover` names does not show it: the SDKs for TypeScript and Python (2.x) name only revisions without
/// sessions there, and open sessions all the same. So a server is taken at its word only if it has refused a handshake.
#[derive(Clone, Debug)]
pub(crate) struct ModernOnly(Box<[u8]>);

/// The longest list that is kept, in bytes.
pub(crate) const MAX_LIST: usize = 1024;

impl ModernOnly {
    /// What the answer to a handshake shows; `None` if a handshake may succeed another time.
    pub(crate) fn of(answer: &ResponseBody<'_>) -> Option<Self> {
        let ResponseBody::Error(error) = answer else { return None };
        if answer.error_code() != Some(i64::from(error_code::UNSUPPORTED_PROTOCOL_VERSION)) {
            return None;
        }
        let supported = json::lookup(error, &["data", "supported"]).filter(|list| list.len() <= MAX_LIST)?;
        let mut revisions = json::elements(supported)?.peekable();
        revisions.peek()?;
        let has_none = revisions.all(|revision| revision.is_ok_and(|revision| !may_have_sessions(revision)));
        has_none.then(|| Self(supported.into()))
    }

    /// The answer to one more handshake, which no process is started for.
    pub(crate) fn answer(&self, request: &Request<'_>) -> Bytes {
        let Self(supported) = self;
        let mut data = [br#"{"supported":"#, &**supported].concat();
        let requested = request.params.raw.and_then(|params| json::member(params, "protocolVersion"));
        if let Some(requested) = requested.filter(|requested| json::is_string(requested)) {
            data.extend_from_slice(br#","requested":"#);
            data.extend_from_slice(requested);
        }
        data.push(b'}');
        let text = "this server knows no sessions; clients need a revision of MCP that it supports";
        let mut answer = Vec::new();
        message::error(Some(&request.id), error_code::UNSUPPORTED_PROTOCOL_VERSION, text, Some(&data), &mut answer);
        answer.into()
    }

    pub(crate) fn list(&self) -> &[u8] {
        &self.0
    }
}

/// Whether a revision, or what else stands in its place, may be one with sessions.
fn may_have_sessions(revision: &[u8]) -> bool {
    let dialect = json::text(revision).and_then(|revision| mcp::by_version(&revision));
    dialect.is_none_or(|dialect| !dialect.stateless)
}
