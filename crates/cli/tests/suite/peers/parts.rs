//! The clients and servers under `peers/`, and whether they are installed here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A client script, which takes a scenario and a server command.
#[derive(Clone, Copy)]
pub(crate) enum Client {
    McpTypeScript,
    /// The same SDK with tasks, which are experimental there.
    McpTypeScriptTasks,
    /// The SDK 2.x with the package for tasks, which knows both forms of them.
    McpTypeScript2Tasks,
    /// A client of tasks of ours, `examples/peer_task_client.rs`.
    OurTasks,
    McpPython,
    /// The Python client made to open with `initialize` instead of probing for the newest revision.
    McpPythonLegacy,
    AcpTypeScript,
    VscodeJsonrpc,
    /// The client of raw frames, speaking the named protocol.
    Raw(&'static str),
}

/// A server command.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    McpTypeScript,
    /// The same SDK with its task store in memory.
    McpTypeScriptTasks,
    /// A server of tasks of ours, `examples/peer_task_server.rs`, on the named store.
    OurTasks(&'static str),
    /// The same, which speaks 2026-07-28 alone.
    OurModernTasks,
    McpPython,
    /// The official sample server, which ignores cancels.
    Everything,
    /// A server on the TypeScript FastMCP.
    FastMcp,
    AcpTypeScript,
    /// The example agent of the older SDK, which ignores cancels.
    AcpExample,
    VscodeJsonrpc,
}

impl Client {
    pub(crate) fn name(self) -> String {
        match self {
            Self::McpTypeScript => "MCP TypeScript 1.x client".to_owned(),
            Self::McpTypeScriptTasks => "MCP TypeScript 1.x client of tasks".to_owned(),
            Self::McpTypeScript2Tasks => "MCP TypeScript 2.x client of tasks".to_owned(),
            Self::OurTasks => "our client of tasks".to_owned(),
            Self::McpPython => "MCP Python 2.x client".to_owned(),
            Self::McpPythonLegacy => "MCP Python 2.x client, legacy era".to_owned(),
            Self::AcpTypeScript => "ACP TypeScript 2.x client".to_owned(),
            Self::VscodeJsonrpc => "vscode-jsonrpc client".to_owned(),
            Self::Raw(protocol) => format!("raw {protocol} frames"),
        }
    }

    /// The command up to the scenario's name.
    pub(crate) fn command(self) -> Vec<String> {
        match self {
            Self::McpTypeScript => node("mcp1/client.mjs"),
            Self::McpTypeScriptTasks => node("mcp1/tasks-client.mjs"),
            Self::McpTypeScript2Tasks => node("mcp2/tasks-client.mjs"),
            Self::OurTasks => vec![example("peer_task_client")],
            Self::McpPython => python("client.py"),
            Self::McpPythonLegacy => [python("client.py"), vec!["--legacy".to_owned()]].concat(),
            Self::AcpTypeScript => node("acp2/client.mjs"),
            Self::VscodeJsonrpc => node("lsp/client.mjs"),
            Self::Raw(protocol) => [node("raw/client.mjs"), vec![protocol.to_owned()]].concat(),
        }
    }

    fn folder(self) -> Option<&'static str> {
        match self {
            Self::McpTypeScript | Self::McpTypeScriptTasks => Some("node/mcp1/node_modules"),
            Self::McpTypeScript2Tasks => Some("node/mcp2/node_modules"),
            Self::McpPython | Self::McpPythonLegacy => Some("python/.venv"),
            Self::AcpTypeScript => Some("node/acp2/node_modules"),
            Self::VscodeJsonrpc => Some("node/lsp/node_modules"),
            Self::OurTasks | Self::Raw(_) => None,
        }
    }
}

impl Server {
    pub(crate) fn name(self) -> String {
        match self {
            Self::McpTypeScript => "MCP TypeScript 1.x server".to_owned(),
            Self::McpTypeScriptTasks => "MCP TypeScript 1.x server of tasks".to_owned(),
            Self::OurTasks(store) => format!("our server of tasks, {store}"),
            Self::OurModernTasks => "our server of tasks, 2026-07-28".to_owned(),
            Self::McpPython => "MCP Python 2.x server".to_owned(),
            Self::Everything => "server-everything".to_owned(),
            Self::FastMcp => "TypeScript FastMCP server".to_owned(),
            Self::AcpTypeScript => "ACP TypeScript 2.x agent".to_owned(),
            Self::AcpExample => "ACP 1.2.1 example agent".to_owned(),
            Self::VscodeJsonrpc => "vscode-jsonrpc server".to_owned(),
        }
    }

    pub(crate) fn command(self) -> Vec<String> {
        match self {
            Self::McpTypeScript => node("mcp1/server.mjs"),
            Self::McpTypeScriptTasks => node("mcp1/tasks-server.mjs"),
            Self::OurTasks(store) => vec![example("peer_task_server"), store.to_owned()],
            Self::OurModernTasks => vec![example("peer_task_server"), "memory".to_owned(), "--modern".to_owned()],
            Self::McpPython => python("server.py"),
            Self::Everything => node("mcp1/node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
            Self::FastMcp => programs("server.mjs"),
            Self::AcpTypeScript => node("acp2/agent.mjs"),
            Self::AcpExample => node("acp1/agent.mjs"),
            Self::VscodeJsonrpc => node("lsp/server.mjs"),
        }
    }

    fn folder(self) -> Option<&'static str> {
        match self {
            Self::McpTypeScript | Self::McpTypeScriptTasks | Self::Everything => Some("node/mcp1/node_modules"),
            Self::FastMcp => Some(PROGRAMS),
            Self::OurTasks(_) | Self::OurModernTasks => None,
            Self::McpPython => Some("python/.venv"),
            Self::AcpTypeScript => Some("node/acp2/node_modules"),
            Self::AcpExample => Some("node/acp1/node_modules"),
            Self::VscodeJsonrpc => Some("node/lsp/node_modules"),
        }
    }
}

/// The programs of `node/programs`, and the Node that they ask for.
pub(crate) const PROGRAMS: &str = "node/programs/node_modules";

/// The clients of `node/clients`.
pub(crate) const CLIENTS: &str = "node/clients/node_modules";

/// The agents of `node/agents`.
pub(crate) const AGENTS: &str = "node/agents/node_modules";

/// What a scenario with these two cannot do without and is not here, in words.
pub(crate) fn missing(client: Client, server: Server) -> Option<String> {
    let commands = [client.command(), server.command()];
    if commands.iter().any(|command| command[0] == "node") && !runs("node") {
        return Some("node is not installed".to_owned());
    }
    let programs = commands.iter().filter_map(|command| command.first());
    if let Some(program) =
        programs.into_iter().find(|program| program.contains("/examples/") && !Path::new(program).exists())
    {
        return Some(format!("{program} is not built (cargo build -p rescind-cli --examples)"));
    }
    [client.folder(), server.folder()].into_iter().flatten().find(|folder| !folder_is_there(folder)).map(not_there)
}

/// The first of `folders` and `commands` that is not installed, in words.
pub(crate) fn not_installed(folders: &[&str], commands: &[&str]) -> Option<String> {
    let folder = folders.iter().find(|folder| !folder_is_there(folder));
    let command = commands.iter().find(|command| !runs(command));
    folder.copied().map(not_there).or_else(|| command.map(|command| format!("{command} is not installed")))
}

fn not_there(folder: &str) -> String {
    let flag = if folder == AGENTS { " --agents" } else { "" };
    format!("peers/{folder} is not installed (peers/install{flag} does it)")
}

/// Panics for a folder that a fresh clone has: that it is there would not tell whether the part is.
fn folder_is_there(folder: &str) -> bool {
    let is_made = folder.split('/').any(|name| ["node_modules", ".venv", "target"].contains(&name));
    assert!(is_made, "peers/{folder} is not made by peers/install");
    peers().join(folder).is_dir()
}

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers")
}

fn node(script: &str) -> Vec<String> {
    vec!["node".to_owned(), text(&peers().join("node").join(script))]
}

/// A script of `node/programs`, run by the Node that lies beside it.
pub(crate) fn programs(script: &str) -> Vec<String> {
    let folder = peers().join("node/programs");
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let node = folder.join(format!("node_modules/node-linux-{machine}/bin/node"));
    vec![text(&node), text(&folder.join(script))]
}

/// A script of a package of `node/clients`, run by the Node of `node/programs`.
pub(crate) fn clients(script: &str) -> Vec<String> {
    let node = programs("").swap_remove(0);
    vec![node, text(&peers().join(CLIENTS).join(script))]
}

/// A program of ours, which `cargo test` builds beside the shim.
fn example(name: &str) -> String {
    text(&Path::new(env!("CARGO_BIN_EXE_rescind")).with_file_name("examples").join(name))
}

fn python(script: &str) -> Vec<String> {
    let folder = peers().join("python");
    vec![text(&folder.join(".venv/bin/python")), text(&folder.join(script))]
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
