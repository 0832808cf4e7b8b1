//! SDKs as clients over HTTP, each in the eras that it speaks, what they are known to do wrong, and what they stand
//! before.

use std::fmt;
use std::path::Path;

use super::http_table::Behaviour;
use super::parts::{Server, not_installed, peers, text};

/// A client, and the era in which it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Client {
    TypeScript1,
    TypeScript2,
    TypeScript2Modern,
    Python1,
    Python2,
    Python2Modern,
    Rmcp,
    RmcpModern,
}

/// What a client is served by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Behind {
    /// `rescind serve` before the server of the client's own SDK.
    Serve,
    /// `rescind serve` before a server that knows only sessions.
    ServeLegacy,
    /// A server of our library, `examples/peer_http_server.rs`.
    Library,
}

impl Client {
    pub(crate) const ALL: [Self; 8] = [
        Self::TypeScript1,
        Self::TypeScript2,
        Self::TypeScript2Modern,
        Self::Python1,
        Self::Python2,
        Self::Python2Modern,
        Self::Rmcp,
        Self::RmcpModern,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypeScript1 => "MCP TypeScript 1.x",
            Self::TypeScript2 => "MCP TypeScript 2.x, in a session",
            Self::TypeScript2Modern => "MCP TypeScript 2.x, 2026-07-28",
            Self::Python1 => "MCP Python 1.x",
            Self::Python2 => "MCP Python 2.x, in a session",
            Self::Python2Modern => "MCP Python 2.x, 2026-07-28",
            Self::Rmcp => "rmcp 3.x, in a session",
            Self::RmcpModern => "rmcp 3.x, 2026-07-28",
        }
    }

    /// It speaks 2026-07-28.
    pub(crate) const fn is_modern(self) -> bool {
        matches!(self, Self::TypeScript2Modern | Self::Python2Modern | Self::RmcpModern)
    }

    /// The command up to the scenarios.
    pub(crate) fn command(self) -> Vec<String> {
        let mut command = match self {
            Self::TypeScript1 => node("mcp1/client.mjs"),
            Self::TypeScript2 | Self::TypeScript2Modern => node("mcp2/client.mjs"),
            Self::Python1 => python("python1", "client.py"),
            Self::Python2 | Self::Python2Modern => python("python", "client.py"),
            Self::Rmcp | Self::RmcpModern => rust("mcp_http_client"),
        };
        if matches!(self, Self::TypeScript2 | Self::Python2 | Self::Rmcp) {
            command.push("--legacy".to_owned());
        }
        command
    }

    /// The server of the same SDK, on stdio.
    pub(crate) fn server(self) -> Vec<String> {
        match self {
            Self::TypeScript1 => Server::McpTypeScript.command(),
            Self::TypeScript2 | Self::TypeScript2Modern => node("mcp2/server.mjs"),
            Self::Python1 => python("python1", "server.py"),
            Self::Python2 | Self::Python2Modern => Server::McpPython.command(),
            Self::Rmcp | Self::RmcpModern => rust("mcp_server"),
        }
    }

    /// What has to be there, below `peers/`.
    pub(crate) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::TypeScript1 => &["node/mcp1/node_modules"],
            Self::TypeScript2 | Self::TypeScript2Modern => &["node/mcp2/node_modules"],
            Self::Python1 => &["python1/.venv"],
            Self::Python2 | Self::Python2Modern => &["python/.venv"],
            Self::Rmcp | Self::RmcpModern => &["rust/target/debug/examples"],
        }
    }

    /// All that it does otherwise than it should; the table shows the same.
    fn faults(self) -> &'static [(Behaviour, &'static str)] {
        match self {
            Self::TypeScript1 => &[(Behaviour::NotResumed, COMES_BACK)],
            Self::TypeScript2 => &[(Behaviour::NotResumed, COMES_BACK)],
            Self::TypeScript2Modern => &[(Behaviour::Subscription, CANCELS_TWICE)],
            Self::Python1 => &[(Behaviour::NotResumed, COMES_BACK)],
            Self::Python2 => &[(Behaviour::NotResumed, COMES_BACK), (Behaviour::LargeEvent, SMALL_EVENTS)],
            Self::Python2Modern => &[(Behaviour::LargeEvent, SMALL_EVENTS)],
            Self::Rmcp | Self::RmcpModern => &[],
        }
    }

    /// Whether it asks for the stream of a call that it has cancelled.
    pub(crate) fn comes_back(self) -> bool {
        self.fault(Behaviour::NotResumed).is_some()
    }

    /// Whether it takes large answers only as a whole.
    pub(crate) fn takes_small_events(self) -> bool {
        self.fault(Behaviour::LargeEvent).is_some()
    }

    /// What it does otherwise in this.
    pub(crate) fn fault(self, behaviour: Behaviour) -> Option<&'static str> {
        self.faults().iter().find(|(known, _)| *known == behaviour).map(|(_, fault)| *fault)
    }
}

pub(crate) const COMES_BACK: &str = "asks for the stream of a call that it has cancelled";

pub(crate) const CANCELS_TWICE: &str = "sends a cancel for a subscription besides closing its stream";

pub(crate) const SMALL_EVENTS: &str = "takes no event of 1 MiB";

impl Behind {
    pub(crate) const ALL: [Self; 2] = [Self::Serve, Self::Library];

    /// The command of what listens.
    pub(crate) fn command(self, client: Client) -> Vec<String> {
        let serve = |server: Vec<String>| {
            let serve = [env!("CARGO_BIN_EXE_rescind"), "serve", "--listen", "127.0.0.1:0", "--"];
            [serve.map(str::to_owned).to_vec(), server].concat()
        };
        match self {
            Self::Serve => serve(client.server()),
            Self::ServeLegacy => serve(Server::McpTypeScript.command()),
            Self::Library => vec![library()],
        }
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serve => "rescind serve",
            Self::ServeLegacy => "rescind serve, a server of sessions",
            Self::Library => "a server of ours",
        })
    }
}

/// What these two cannot do without and is not here, in words.
pub(crate) fn missing(client: Client, behind: Behind) -> Option<String> {
    let legacy: &[&str] = if behind == Behind::ServeLegacy { &["node/mcp1/node_modules"] } else { &[] };
    let folders = [client.needs(), legacy].concat();
    let with_node = folders.iter().any(|folder| folder.starts_with("node"));
    let commands: &[&str] = if with_node { &["node"] } else { &[] };
    not_installed(&folders, commands).or_else(|| {
        (behind == Behind::Library && !Path::new(&library()).exists())
            .then(|| format!("{} is not built (cargo build -p rescind-cli --examples)", library()))
    })
}

fn library() -> String {
    text(&Path::new(env!("CARGO_BIN_EXE_rescind")).with_file_name("examples").join("peer_http_server"))
}

fn node(script: &str) -> Vec<String> {
    vec!["node".to_owned(), text(&peers().join("node").join(script))]
}

fn python(folder: &str, script: &str) -> Vec<String> {
    let folder = peers().join(folder);
    vec![text(&folder.join(".venv/bin/python")), text(&folder.join(script))]
}

fn rust(example: &str) -> Vec<String> {
    vec![text(&peers().join("rust/target/debug/examples").join(example))]
}
