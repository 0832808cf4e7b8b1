//! How each protocol says the same few things.

use rescind::peer::{
    Dialect, Framing,
    dialect::{acp, lsp, mcp},
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// In the handshake era: the revisions in which servers ask clients.
    Mcp,
    /// In the era of 2026-07-28.
    McpModern,
    Acp,
    Lsp,
}

/// The last MCP revision of that era, whichever a client proposes.
const REVISION: &str = "2025-11-25";

impl Protocol {
    pub(crate) fn dialect(self) -> &'static Dialect {
        match self {
            Self::Mcp => &mcp::LATEST_LEGACY,
            Self::McpModern => &mcp::LATEST,
            Self::Acp => &acp::V1,
            Self::Lsp => &lsp::LSP,
        }
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Mcp | Self::McpModern | Self::Acp => Framing::Line,
            Self::Lsp => Framing::Headers,
        }
    }

    /// The first request of a client.
    pub(crate) fn opening(self) -> &'static str {
        match self {
            Self::Mcp | Self::Acp | Self::Lsp => "initialize",
            Self::McpModern => "server/discover",
        }
    }

    /// Its params.
    pub(crate) fn hello(self) -> Value {
        let info = info();
        match self {
            Self::McpModern => json!({ "_meta": envelope() }),
            Self::Mcp => json!({
                "protocolVersion": REVISION, "capabilities": { "sampling": {} }, "clientInfo": info,
            }),
            Self::Acp => json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info }),
            Self::Lsp => json!({ "processId": null, "rootUri": null, "capabilities": {}, "clientInfo": info }),
        }
    }

    /// The answer to them.
    pub(crate) fn welcome(self) -> Value {
        let info = info();
        match self {
            Self::McpModern => json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            }),
            Self::Mcp => json!({
                "protocolVersion": REVISION, "capabilities": { "tools": {} }, "serverInfo": info,
            }),
            Self::Acp => json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [] }),
            Self::Lsp => json!({ "capabilities": {}, "serverInfo": info }),
        }
    }

    /// What follows the handshake.
    pub(crate) fn initialized(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Mcp => Some(("notifications/initialized", json!({}))),
            Self::McpModern | Self::Acp => None,
            Self::Lsp => Some(("initialized", json!({}))),
        }
    }

    /// The request for work of a server.
    pub(crate) fn work_method(self) -> &'static str {
        match self {
            Self::Mcp | Self::McpModern => "tools/call",
            Self::Acp => "_rescind/work",
            Self::Lsp => "work/run",
        }
    }

    /// Its params: `call` is what the behaviour is given.
    pub(crate) fn work(self, behaviour: &str, mut call: Value) -> Value {
        match self {
            Self::Mcp => json!({ "name": behaviour, "arguments": call }),
            Self::McpModern => json!({ "name": behaviour, "arguments": call, "_meta": envelope() }),
            Self::Acp | Self::Lsp => {
                call["behaviour"] = behaviour.into();
                call
            }
        }
    }

    /// The behaviour and the name of the work in them.
    pub(crate) fn read_work(self, params: &Value) -> (String, String) {
        let (behaviour, call) = match self {
            Self::Mcp | Self::McpModern => (&params["name"], &params["arguments"]),
            Self::Acp | Self::Lsp => (&params["behaviour"], params),
        };
        (text(behaviour), text(&call["work"]))
    }

    /// What work comes to.
    pub(crate) fn worked(self, words: &str) -> Value {
        match self {
            Self::Mcp => json!({ "content": [{ "type": "text", "text": words }] }),
            Self::McpModern => json!({ "content": [{ "type": "text", "text": words }], "resultType": "complete" }),
            Self::Acp | Self::Lsp => json!({ "text": words }),
        }
    }

    /// The words in it.
    pub(crate) fn read_worked(self, result: &Value) -> String {
        match self {
            Self::Mcp | Self::McpModern => text(&result["content"][0]["text"]),
            Self::Acp | Self::Lsp => text(&result["text"]),
        }
    }

    /// The request by which a server asks its client something; there is none in the modern era.
    pub(crate) fn ask_method(self) -> &'static str {
        match self {
            Self::Mcp | Self::McpModern => "sampling/createMessage",
            Self::Acp => "session/request_permission",
            Self::Lsp => "work/ask",
        }
    }

    pub(crate) fn ask(self, question: &Value) -> Value {
        let text = question.to_string();
        match self {
            Self::Mcp | Self::McpModern => {
                let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
                json!({ "messages": [message], "maxTokens": 1 })
            }
            Self::Acp => json!({
                "sessionId": "session-1",
                "toolCall": { "toolCallId": "call-1", "title": text },
                "options": [{ "kind": "allow_once", "name": "Allow", "optionId": "allow" }],
            }),
            Self::Lsp => json!({ "text": text }),
        }
    }

    /// The question in them: what to work at, or words.
    pub(crate) fn read_ask(self, params: &Value) -> Value {
        let text = match self {
            // One content, or a list of one.
            Self::Mcp | Self::McpModern => {
                let content = &params["messages"][0]["content"];
                &content.get(0).unwrap_or(content)["text"]
            }
            Self::Acp => &params["toolCall"]["title"],
            Self::Lsp => &params["text"],
        };
        let text = text.as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| json!({ "work": text }))
    }

    /// Whether a cancelled request is answered.
    pub(crate) fn confirms(self) -> bool {
        match self {
            Self::Mcp | Self::McpModern => false,
            Self::Acp | Self::Lsp => true,
        }
    }

    /// A cancel of `id`.
    pub(crate) fn cancel(self, id: &Value) -> (&'static str, Value) {
        let cancel = &self.dialect().cancel;
        (cancel.method, json!({ cancel.id: id }))
    }
}

fn info() -> Value {
    json!({ "name": "rescind", "version": "1.0.0" })
}

/// What each request of the modern era carries.
fn envelope() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
