//! Every revision of MCP without sessions, also before a server of another one: what the bridge, the HTTP machine and the
//! library make of it.
//!
//! There is one such revision yet. `scripts/new-revision` adds one to a copy of the sources, as CONTRIBUTING.md says, and
//! runs these tests there: nothing may know the one by its date. They are a binary of their own so that little is compiled
//! for that.

#![expect(clippy::unwrap_used, reason = "what a helper does not find is a failure of the test")]

mod bridging;
mod library;
mod placing;
#[path = "../suite/rig.rs"]
#[expect(dead_code, reason = "the suite needs more of it")]
mod rig;

use std::fmt;

use rescind::mcp::Revision;
use rescind_proto::{
    dialect::{Dialect, Family, mcp},
    rule::Rule,
};
use serde_json::{Value, json};

/// The revisions of MCP, oldest first.
fn revisions() -> impl DoubleEndedIterator<Item = &'static Dialect> {
    Dialect::ALL.into_iter().filter(|dialect| dialect.family == Family::Mcp)
}

/// Those without sessions.
fn stateless() -> Vec<&'static Dialect> {
    revisions().filter(|dialect| dialect.no_server_requests.is_some()).collect()
}

fn date(dialect: &Dialect) -> &'static str {
    dialect.name.strip_prefix("mcp-").unwrap()
}

/// A request that names its revision.
fn request(revision: &Dialect, id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": date(revision),
        "io.modelcontextprotocol/clientInfo": { "name": "client", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The revision that a request names.
fn named(request: &Value) -> &str {
    request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str().unwrap_or("none")
}

/// A server that speaks one revision without sessions.
#[derive(Clone, Copy)]
struct Server {
    revision: &'static Dialect,
    /// It says what it speaks whatever it is asked in.
    is_lenient: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a server of {}{}", self.revision, if self.is_lenient { ", lenient" } else { "" })
    }
}

impl Server {
    fn all() -> impl Iterator<Item = Self> {
        stateless().into_iter().flat_map(|revision| [true, false].map(|is_lenient| Self { revision, is_lenient }))
    }

    fn answers(self, request: &Value) -> Value {
        let (id, speaks) = (&request["id"], date(self.revision));
        let is_discover = request["method"] == "server/discover";
        if named(request) != speaks && !(is_discover && self.is_lenient) {
            let data = json!({ "supported": [speaks], "requested": named(request) });
            let error = json!({ "code": -32022, "message": "unsupported protocol version", "data": data });
            return json!({ "jsonrpc": "2.0", "id": id, "error": error });
        }
        let result = match is_discover {
            true => json!({ "resultType": "complete", "supportedVersions": [speaks], "capabilities": { "tools": {} } }),
            false => json!({ "resultType": "complete", "tools": [] }),
        };
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    }
}

#[test]
fn every_table_has_its_name_wherever_revisions_are_listed() {
    for dialect in revisions() {
        assert!(Rule::ALL.iter().any(|rule| rule.revisions().any(|name| name == dialect.name)), "{dialect}");
        assert_eq!(Revision::by_date(date(dialect)).map(Revision::dialect), Some(dialect));
        assert_eq!(mcp::by_version(date(dialect)), Some(dialect));
    }
    assert_eq!(revisions().next_back(), Some(&mcp::LATEST));
    assert_eq!(Revision::ALL.len(), revisions().count());
}

#[test]
#[ignore = "scripts/new-revision runs it in its copy"]
fn there_are_several_without_sessions() {
    assert!(stateless().len() > 1);
}
