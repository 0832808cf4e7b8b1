//! A client's requests, as bytes ready to be sent.

use std::net::SocketAddr;

use clap::ValueEnum;
use serde::Serialize;

use crate::contender::Contender;

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Era {
    /// 2025-11-25: sessions; a cancel is posted.
    Legacy,
    /// 2026-07-28: no sessions; a hang-up cancels.
    Modern,
}

impl Era {
    pub(crate) const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// The requests of one session, or of a client that needs none.
#[derive(Debug)]
pub(crate) struct Requests {
    era: Era,
    /// What the gateway puts before the names of tools.
    prefix: &'static str,
    head: String,
}

impl Requests {
    pub(crate) fn new(era: Era, address: SocketAddr, contender: Contender, session: Option<&str>) -> Self {
        let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
        let (path, prefix) = contender.names();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {}\r\n{session}",
            era.version()
        );
        Self { era, prefix, head }
    }

    pub(crate) fn call(&self, id: i64, tool: &str, work: &str) -> String {
        let prefix = self.prefix;
        let headers = match self.era {
            Era::Legacy => String::new(),
            Era::Modern => format!("Mcp-Method: tools/call\r\nMcp-Name: {prefix}{tool}\r\n"),
        };
        self.post(&headers, &call(self.era, prefix, id, tool, work))
    }

    pub(crate) fn cancel(&self, id: i64) -> String {
        self.post(
            "",
            &format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#),
        )
    }

    /// The two that open a session of the legacy era.
    pub(crate) fn initialize(&self) -> String {
        self.post("", INITIALIZE)
    }

    pub(crate) fn initialized(&self) -> String {
        self.post("", INITIALIZED)
    }

    fn post(&self, headers: &str, body: &str) -> String {
        format!("{}{headers}Content-Length: {}\r\n\r\n{body}", self.head, body.len())
    }
}

/// A call as a message.
pub(crate) fn call(era: Era, prefix: &str, id: i64, tool: &str, work: &str) -> String {
    let meta = match era {
        Era::Legacy => "",
        Era::Modern => META,
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{prefix}{tool}","arguments":{{"work":"{work}"}}{meta}}}}}"#
    )
}

const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
/// The two that open a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1.0.0"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
