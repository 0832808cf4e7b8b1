//! What stands between a client's pipes and an HTTP server, and how each is started.

use std::io;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::contender::{PYPI_PROXY, Programs, SUPERGATEWAY};
use crate::gateway::Gateway;
use crate::message::Era;

/// One of the arrangements compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Nothing: the client speaks HTTP itself.
    Direct,
    /// The floor.
    Forwarder,
    /// `rescind run --url`.
    Rescind,
    McpRemote,
    Supergateway,
    PypiProxy,
}

impl Program {
    /// All, in the order in which each round takes them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Direct, Self::Forwarder, Self::Rescind, Self::McpRemote, Self::Supergateway, Self::PypiProxy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Forwarder => "forwarder",
            Self::Rescind => "rescind run",
            Self::McpRemote => "mcp-remote",
            Self::Supergateway => "supergateway",
            Self::PypiProxy => "PyPI mcp-proxy",
        }
    }

    /// Whether it passes on what clients of this era say.
    pub(crate) const fn speaks(self, era: Era) -> bool {
        match (self, era) {
            (Self::Direct | Self::Forwarder | Self::Rescind, _) | (_, Era::Legacy) => true,
            (Self::McpRemote | Self::Supergateway | Self::PypiProxy, Era::Modern) => false,
        }
    }

    /// Why it cannot take part, if so.
    pub(crate) fn absence(self, programs: &Programs) -> Option<String> {
        let missing = |path: PathBuf| (!path.exists()).then(|| format!("{}: not installed", path.display()));
        match self {
            Self::Direct | Self::Forwarder => None,
            Self::Rescind => programs.rescind.is_none().then(|| "left out".to_owned()),
            Self::McpRemote => missing(programs.node_program(MCP_REMOTE)),
            Self::Supergateway => missing(programs.node_program(SUPERGATEWAY)),
            Self::PypiProxy => missing(programs.peers.join(PYPI_PROXY)),
        }
    }

    /// Starts it before the server that is behind `gateway`; `None` if there is nothing to start.
    pub(crate) fn start(self, programs: &Programs, gateway: &Gateway) -> io::Result<Option<Running>> {
        let url = &*format!("http://{}/mcp", gateway.address);
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&programs.own);
        command.arg("peer");
        match self {
            Self::Direct => return Ok(None),
            Self::Forwarder => command.args(["forwarder", url]),
            Self::Rescind => {
                let rescind = programs.rescind.as_ref().ok_or_else(|| io::Error::other("no program to start"))?;
                let runtime = folder.path().join("runtime");
                std::fs::create_dir(&runtime)?;
                command.arg("gateway").arg(rescind).args(["run", "--url", url]).env("RESCIND_RUNTIME_DIR", runtime)
            }
            Self::McpRemote => {
                command.args(["gateway", "node"]).arg(programs.node_program(MCP_REMOTE));
                command.args([url, "--transport", "http-only"]).env("MCP_REMOTE_CONFIG_DIR", folder.path())
            }
            Self::Supergateway => {
                command.args(["gateway", "node"]).arg(programs.node_program(SUPERGATEWAY));
                command.args(["--streamableHttp", url, "--logLevel", "none"])
            }
            Self::PypiProxy => {
                command.arg("gateway").arg(programs.peers.join(PYPI_PROXY));
                command.args(["--transport", "streamablehttp", url])
            }
        };
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let (input, output) = ends.ok_or_else(|| io::Error::other("a program without pipes"))?;
        Ok(Some(Running { input, output, process, _folder: folder }))
    }
}

/// A program under way, and its client's ends.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) process: Child,
    _folder: TempDir,
}

const MCP_REMOTE: &str = "mcp-remote/dist/proxy.js";
