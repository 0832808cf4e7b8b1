//! How long clients wait for a call, and what they tell its server when they give it up.
//!
//! Only what a client documents, its maintainers say in a thread, or its source shows.

use serde::Serialize;

/// How long a client waits for a call, and what it tells the server when it gives it up.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Patience {
    /// The [`Client::id`](crate::client::Client::id).
    pub client: &'static str,
    /// How long it waits.
    pub waits: &'static str,
    /// What it sends the server when its time is up.
    pub on_timeout: Tells,
    /// What it sends the server when its user stops the call.
    pub on_stop: Tells,
    /// What to set.
    pub set: &'static str,
    /// Where that is written.
    pub sources: &'static [&'static str],
}

/// What a server is told of a call that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tells {
    /// A cancel.
    Cancel,
    /// Nothing: the tool works on in vain.
    Nothing,
    /// No source says.
    Unknown,
}

impl Patience {
    /// Whether it is known to give up calls without a cancel.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        [self.on_timeout, self.on_stop].contains(&Tells::Nothing)
    }
}

impl Tells {
    /// The word in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known of this client.
#[must_use]
pub fn of(client: &str) -> Option<&'static Patience> {
    PATIENCE.iter().find(|one| one.client == client)
}

/// What is known of each client, in the order of [`CLIENTS`](crate::client::CLIENTS).
pub const PATIENCE: &[Patience] = &[
    Patience {
        client: "claude-desktop",
        waits: "4 minutes, which cannot be changed",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "`rescind run --timeout 3m`",
        sources: &["https://github.com/anthropics/claude-code/issues/65643"],
    },
    Patience {
        client: "claude-code",
        waits: "for hours, unless MCP_TOOL_TIMEOUT (in milliseconds) is set; a remote server may be silent for \
                CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "MCP_TOOL_TIMEOUT, or `rescind run --timeout`",
        sources: &[
            "https://github.com/anthropics/claude-code/issues/69487",
            "https://github.com/anthropics/claude-code/issues/63379",
            "https://github.com/QwenLM/qwen-code/issues/6047",
        ],
    },
    Patience {
        client: "zed",
        waits: "60 s; `context_server_timeout`, or `timeout` of a server, changes it to at most 10 minutes",
        on_timeout: Tells::Nothing,
        on_stop: Tells::Cancel,
        set: "`rescind run --timeout`, shorter than that: 50s",
        sources: &[
            "https://github.com/zed-industries/zed/blob/063048a64d881cef876c489be6ec67e960964ec4/crates/context_server/src/client.rs",
            "https://github.com/zed-industries/zed/pull/45378",
        ],
    },
    Patience {
        client: "codex",
        waits: "300 s (120 s until June 2026); `tool_timeout_sec` of a server changes it",
        on_timeout: Tells::Cancel,
        on_stop: Tells::Cancel,
        set: "nothing for 0.171.0; older ones sent nothing: `rescind run --timeout`, shorter than that: 4m",
        sources: &[
            "https://github.com/openai/codex/issues/26956",
            "https://github.com/openai/codex/pull/28234",
            "https://www.npmjs.com/package/@openai/codex/v/0.171.0",
        ],
    },
    Patience {
        client: "gemini",
        waits: "10 minutes; `timeout` of a server (in milliseconds) changes it",
        on_timeout: Tells::Cancel,
        on_stop: Tells::Nothing,
        set: "`rescind run --timeout`, as long as a call may take",
        sources: &[
            "https://github.com/googleapis/js-genai/issues/1054",
            "https://github.com/google-gemini/gemini-cli/issues/7324",
            "https://www.npmjs.com/package/@google/gemini-cli/v/0.61.0",
        ],
    },
    Patience {
        client: "antigravity",
        waits: "180 s by a report of August 2026, which cannot be changed",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "`rescind run --timeout 170s`",
        sources: &["https://github.com/google-antigravity/antigravity-cli/issues/780"],
    },
    Patience {
        client: "copilot",
        waits: "60 s; `timeout` of a server (in milliseconds) is meant to change it",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "`rescind run --timeout 50s`",
        sources: &[
            "https://github.com/github/copilot-cli/issues/1535",
            "https://github.com/github/copilot-cli/issues/4759",
        ],
    },
    Patience {
        client: "opencode",
        waits: "60 s; `timeout` of a server (in milliseconds) changes it. Its second version: 12 hours, and `timeout.execution`",
        on_timeout: Tells::Cancel,
        on_stop: Tells::Cancel,
        set: "nothing since June 2026; before, a stop sent nothing",
        sources: &[
            "https://github.com/anomalyco/opencode/pull/31455",
            "https://github.com/anomalyco/opencode/issues/28186",
            "https://github.com/anomalyco/opencode/blob/0259477c47c95a4d5f3120ea0aaeab5717b022e2/packages/core/src/mcp/client.ts",
        ],
    },
    Patience {
        client: "cline",
        waits: "60 s; `timeout` of a server (in seconds, at most 3600) changes it. Its command line waited 5 s until July 2026",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "`rescind run --timeout 50s`",
        sources: &["https://github.com/cline/cline/pull/12546", "https://github.com/cline/cline/issues/12576"],
    },
    Patience {
        client: "kiro",
        waits: "60 s at first; by a later thread without end",
        on_timeout: Tells::Unknown,
        on_stop: Tells::Unknown,
        set: "`rescind run --timeout 50s`",
        sources: &["https://github.com/kirodotdev/Kiro/issues/126", "https://github.com/kirodotdev/Kiro/issues/8111"],
    },
    Patience {
        client: "goose",
        waits: "300 s; `timeout` of an extension (in seconds) changes it",
        on_timeout: Tells::Cancel,
        on_stop: Tells::Cancel,
        set: "nothing; what it sends a server of 2026-07-28 is not known",
        sources: &[
            "https://github.com/aaif-goose/goose/blob/1bb8433908309ad182834b4b7dae8ef4ab1b3aaa/crates/goose/src/agents/mcp_client.rs",
            "https://github.com/aaif-goose/goose/blob/05a3515c7aa1af17038d7308c6edf753285332dd/crates/goose/src/config/extensions.rs",
        ],
    },
    Patience {
        client: "continue",
        waits: "60 s; in an editor `connectionTimeout` of a server (in milliseconds) changes it",
        on_timeout: Tells::Cancel,
        on_stop: Tells::Nothing,
        set: "`rescind run --timeout`, as long as a call may take",
        sources: &[
            "https://github.com/continuedev/continue/blob/d0a3c0b626b5bebc3bef4742eec05a0242be0bab/core/tools/callTool.ts",
            "https://github.com/continuedev/continue/blob/d0a3c0b626b5bebc3bef4742eec05a0242be0bab/extensions/cli/src/services/MCPService.ts",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client;

    #[test]
    fn what_is_known_is_of_clients_that_there_are_and_has_a_source() {
        for one in PATIENCE {
            assert!(client::client(one.client).is_some(), "{}", one.client);
            assert!(!one.sources.is_empty(), "{}", one.client);
        }
        assert!(of("zed").is_some_and(Patience::is_silent));
        // Since 0.171.0.
        assert!(!of("codex").is_some_and(Patience::is_silent));
    }
}
