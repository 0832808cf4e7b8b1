//! What stands between the clients and the child, and how each is started.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::message::Era;

/// One of the arrangements compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// The floor; its answers are JSON.
    Bridge,
    /// The floor; its answers are streams of one event.
    BridgeSse,
    /// The floor of those that start a child for each session.
    BridgeEach,
    /// Streams with nothing behind them.
    BareSse,
    /// `rescind serve`.
    Rescind,
    /// `rescind serve --shared`.
    RescindShared,
    Supergateway,
    NpmProxy,
    PypiProxy,
    CrateProxy,
}

/// Where the programs are that a run starts.
pub(crate) struct Programs {
    pub(crate) own: PathBuf,
    pub(crate) rescind: Option<PathBuf>,
    /// The folder with the installed programs of others.
    pub(crate) peers: PathBuf,
    /// The command of the crate mcp-proxy.
    pub(crate) crate_proxy: Option<PathBuf>,
}

/// How a contender is started.
pub(crate) struct Start {
    pub(crate) command: Command,
    /// Where it listens, if that could be chosen; else it says so in a file.
    pub(crate) port: Option<u16>,
}

impl Contender {
    /// All, in the order in which each round takes them.
    pub(crate) const ALL: [Self; 10] = [
        Self::Bridge,
        Self::BridgeSse,
        Self::BridgeEach,
        Self::BareSse,
        Self::Rescind,
        Self::RescindShared,
        Self::Supergateway,
        Self::NpmProxy,
        Self::PypiProxy,
        Self::CrateProxy,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bare gateway",
            Self::BridgeSse => "bare gateway, SSE",
            Self::BridgeEach => "bare gateway, each",
            Self::BareSse => "bare SSE",
            Self::Rescind => "rescind",
            Self::RescindShared => "rescind --shared",
            Self::Supergateway => "supergateway",
            Self::NpmProxy => "npm mcp-proxy",
            Self::PypiProxy => "PyPI mcp-proxy",
            Self::CrateProxy => "crate mcp-proxy",
        }
    }

    /// Whether it takes part in an era. Without sessions there is one child for all anyway.
    pub(crate) fn speaks(self, era: Era) -> bool {
        era == Era::Legacy || !matches!(self, Self::BridgeEach | Self::RescindShared)
    }

    /// Whether all clients of an era have one child there.
    pub(crate) fn shares_child(self, era: Era) -> bool {
        match self {
            Self::BareSse | Self::BridgeEach | Self::Supergateway => false,
            Self::Rescind => era == Era::Modern,
            Self::Bridge
            | Self::BridgeSse
            | Self::RescindShared
            | Self::NpmProxy
            | Self::PypiProxy
            | Self::CrateProxy => true,
        }
    }

    /// The floor of its calls: with as many children.
    pub(crate) const fn floor_of_calls(self, era: Era) -> Self {
        match (self, era) {
            (Self::Rescind | Self::Supergateway | Self::BridgeEach, Era::Legacy) => Self::BridgeEach,
            _ => Self::Bridge,
        }
    }

    /// The path of its endpoint, and what it puts before the names of tools.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        if matches!(self, Self::CrateProxy) { ("/", "child/") } else { ("/mcp", "") }
    }

    /// How many streams are opened, of those `wanted` of us and of `others`.
    pub(crate) fn streams(self, era: Era, wanted: usize, others: usize) -> usize {
        match (self, era) {
            (
                Self::Bridge | Self::BridgeSse | Self::BridgeEach | Self::BareSse | Self::Rescind | Self::RescindShared,
                _,
            ) => wanted,
            // A process for each request.
            (Self::Supergateway, Era::Modern) => others.min(20),
            (Self::Supergateway | Self::NpmProxy | Self::PypiProxy | Self::CrateProxy, _) => others,
        }
    }

    /// Why it cannot take part, if so.
    pub(crate) fn absence(self, programs: &Programs) -> Option<String> {
        let missing = |path: PathBuf| (!path.exists()).then(|| format!("{}: not installed", path.display()));
        match self {
            Self::Bridge | Self::BridgeSse | Self::BridgeEach | Self::BareSse => None,
            Self::Rescind | Self::RescindShared => match &programs.rescind {
                None => Some("left out".to_owned()),
                Some(rescind) => {
                    let mut help = Command::new(rescind);
                    help.args(["serve", "--help"]).stdout(Stdio::null()).stderr(Stdio::null());
                    let serves = help.status().is_ok_and(|status| status.success());
                    (!serves).then(|| format!("{}: has no command `serve`", rescind.display()))
                }
            },
            Self::Supergateway => missing(programs.node_program(SUPERGATEWAY)),
            Self::NpmProxy => missing(programs.node_program(NPM_PROXY)),
            Self::PypiProxy => missing(programs.peers.join(PYPI_PROXY)),
            Self::CrateProxy => match &programs.crate_proxy {
                None => Some("not named by --crate-mcp-proxy".to_owned()),
                Some(path) => missing(path.clone()),
            },
        }
    }

    /// What starts it in front of a child that marks in `marks`. It may write in `folder`.
    pub(crate) fn start(self, programs: &Programs, folder: &Path, marks: &Path) -> io::Result<Start> {
        let child = [programs.own.clone().into(), "peer".into(), "child".into(), marks.into()];
        let own = |words: &[&str], child: &[OsString]| {
            let mut command = Command::new(&programs.own);
            command.arg("peer").args(words).args(child);
            command
        };
        let mut port = None;
        let command = match self {
            Self::Bridge => own(&["bridge"], &child),
            Self::BridgeSse => own(&["bridge-sse"], &child),
            Self::BridgeEach => own(&["bridge-each"], &child),
            Self::BareSse => own(&["streams"], &[]),
            Self::Rescind | Self::RescindShared => {
                let rescind = programs.rescind.as_ref().ok_or_else(|| io::Error::other("no gateway to start"))?;
                let runtime = folder.join("runtime");
                std::fs::create_dir(&runtime)?;
                let mut command = own(&["gateway"], &[rescind.into()]);
                command.args(["serve", "--listen", "127.0.0.1:0"]);
                if self == Self::RescindShared {
                    command.arg("--shared");
                }
                command.arg("--").args(child);
                command.env("RESCIND_RUNTIME_DIR", runtime);
                command
            }
            Self::Supergateway | Self::NpmProxy => {
                // Both listen on a port that they are given, which this module replaces by a free one of the loopback.
                let mut command = own(&["gateway", "node", "--import"], &[]);
                command
                    .arg(programs.peers.join("node/programs/loopback.mjs"))
                    .env("RESCIND_ADDRESS", folder.join("said"));
                if self == Self::Supergateway {
                    let child = child.map(|word| word.to_string_lossy().into_owned()).join(" ");
                    command.arg(programs.node_program(SUPERGATEWAY)).args(["--stdio", &child, "--stateful"]);
                    command.args(["--outputTransport", "streamableHttp", "--logLevel", "none"]);
                } else {
                    command.arg(programs.node_program(NPM_PROXY)).args(["--server", "stream", "--"]).args(child);
                }
                command
            }
            Self::PypiProxy => {
                let mut command = own(&["gateway"], &[programs.peers.join(PYPI_PROXY).into()]);
                // It says where it listens only if it also logs every request.
                let free = *port.insert(free_port()?);
                command.args(["--port", &free.to_string(), "--log-level", "WARNING", "--"]).args(child);
                command
            }
            Self::CrateProxy => {
                let proxy = programs.crate_proxy.as_ref().ok_or_else(|| io::Error::other("no proxy to start"))?;
                let free = *port.insert(free_port()?);
                let [program, arguments @ ..] = child.map(|word| word.to_string_lossy().into_owned());
                let config = folder.join("proxy.toml");
                let text = format!(
                    "[proxy]\nname = \"proxy\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {free}\n\
                     [[backends]]\nname = \"child\"\ntransport = \"stdio\"\ncommand = {program:?}\nargs = {arguments:?}\n"
                );
                std::fs::write(&config, text)?;
                let mut command = own(&["gateway"], &[proxy.into()]);
                command.arg("--config").arg(config);
                command
            }
        };
        Ok(Start { command, port })
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub(crate) const SUPERGATEWAY: &str = "supergateway/dist/index.js";
const NPM_PROXY: &str = "mcp-proxy/dist/bin/mcp-proxy.mjs";
pub(crate) const PYPI_PROXY: &str = "python1/.venv/bin/mcp-proxy";

impl Programs {
    /// A program of npm, in the first of the folders that has it.
    pub(crate) fn node_program(&self, path: &str) -> PathBuf {
        let [gateways, programs] =
            ["gateways", "programs"].map(|folder| self.peers.join("node").join(folder).join("node_modules").join(path));
        if gateways.exists() { gateways } else { programs }
    }
}
