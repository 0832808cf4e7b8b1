//! The SDKs under `peers/`, whether they are installed here, and what they are known to do wrong.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

use super::{
    protocol::Protocol,
    table::{Behaviour, Role},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sdk {
    McpTypeScript1,
    McpTypeScript2,
    McpTypeScript2Modern,
    McpPython1,
    McpPython2,
    McpPython2Modern,
    Rmcp,
    AcpTypeScript,
    AcpRust,
    VscodeJsonrpc,
    JsonServer,
}

/// A test for each SDK, named for it, that plays it with `$play`.
macro_rules! each_sdk {
    ($play:path) => {
        $crate::interop::sdk::each_sdk! { $play:
            mcp_typescript_1 McpTypeScript1, mcp_typescript_2 McpTypeScript2, mcp_typescript_2_modern McpTypeScript2Modern,
            mcp_python_1 McpPython1, mcp_python_2 McpPython2, mcp_python_2_modern McpPython2Modern,
            rmcp Rmcp, acp_typescript AcpTypeScript, acp_rust AcpRust, vscode_jsonrpc VscodeJsonrpc,
        }
    };
    ($play:path: $($name:ident $sdk:ident,)*) => {$(
        #[tokio::test]
        async fn $name() {
            $crate::interop::program::bounded($play($crate::interop::sdk::Sdk::$sdk)).await;
        }
    )*};
}
pub(crate) use each_sdk;

impl Sdk {
    pub(crate) const ALL: [Self; 11] = [
        Self::McpTypeScript1,
        Self::McpTypeScript2,
        Self::McpTypeScript2Modern,
        Self::McpPython1,
        Self::McpPython2,
        Self::McpPython2Modern,
        Self::Rmcp,
        Self::AcpTypeScript,
        Self::AcpRust,
        Self::VscodeJsonrpc,
        Self::JsonServer,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::McpTypeScript1 => "MCP TypeScript 1.x",
            Self::McpTypeScript2 => "MCP TypeScript 2.x",
            Self::McpTypeScript2Modern => "MCP TypeScript 2.x, 2026-07-28",
            Self::McpPython1 => "MCP Python 1.x",
            Self::McpPython2 => "MCP Python 2.x",
            Self::McpPython2Modern => "MCP Python 2.x, 2026-07-28",
            Self::Rmcp => "rmcp 3.x",
            Self::AcpTypeScript => "ACP TypeScript 2.x",
            Self::AcpRust => "ACP Rust 5.0",
            Self::VscodeJsonrpc => "vscode-jsonrpc",
            Self::JsonServer => "VS Code's JSON server",
        }
    }

    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::McpTypeScript1 | Self::McpTypeScript2 | Self::McpPython1 | Self::McpPython2 | Self::Rmcp => {
                Protocol::Mcp
            }
            Self::McpTypeScript2Modern | Self::McpPython2Modern => Protocol::McpModern,
            Self::AcpTypeScript | Self::AcpRust => Protocol::Acp,
            Self::VscodeJsonrpc | Self::JsonServer => Protocol::Lsp,
        }
    }

    /// The command in this role. `None`, after a line that says so, if it is not installed; that is a failure if
    /// `RESCIND_REQUIRE_PEERS` is set.
    pub(crate) fn command(self, role: Role) -> Option<Vec<String>> {
        let (needs, command) = match (self, role) {
            (Self::McpTypeScript1, Role::Server) => node("mcp1", "server.mjs"),
            (Self::McpTypeScript1, Role::Client) => node("mcp1", "led.mjs"),
            (Self::McpTypeScript2 | Self::McpTypeScript2Modern, Role::Server) => node("mcp2", "server.mjs"),
            (Self::McpTypeScript2, Role::Client) => node("mcp2", "led.mjs"),
            (Self::McpTypeScript2Modern, Role::Client) => modern(node("mcp2", "led.mjs")),
            (Self::McpPython1, Role::Server) => python("python1", "server.py"),
            (Self::McpPython1, Role::Client) => python("python1", "client_led.py"),
            (Self::McpPython2 | Self::McpPython2Modern, Role::Server) => python("python", "server.py"),
            (Self::McpPython2, Role::Client) => python("python", "client_led.py"),
            (Self::McpPython2Modern, Role::Client) => modern(python("python", "client_led.py")),
            (Self::Rmcp, Role::Server) => rust("mcp_server"),
            (Self::Rmcp, Role::Client) => rust("mcp_client"),
            (Self::AcpTypeScript, Role::Server) => node("acp2", "agent.mjs"),
            (Self::AcpTypeScript, Role::Client) => node("acp2", "led.mjs"),
            (Self::AcpRust, Role::Server) => rust("acp_agent"),
            (Self::AcpRust, Role::Client) => rust("acp_client"),
            (Self::VscodeJsonrpc, Role::Server) => node("lsp", "server.mjs"),
            (Self::VscodeJsonrpc, Role::Client) => node("lsp", "led.mjs"),
            (Self::JsonServer, Role::Server) => {
                let (needs, mut command) =
                    node("json", "node_modules/vscode-json-languageserver/bin/vscode-json-languageserver");
                command.push("--stdio".to_owned());
                (needs, command)
            }
            (Self::JsonServer, Role::Client) => unreachable!("it is a server"),
        };
        let missing = if !needs.exists() {
            format!("{} is not installed (peers/install does it)", needs.display())
        } else if command[0] == "node" && !has_node() {
            "node is not installed".to_owned()
        } else {
            return Some(command);
        };
        assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{}: {missing}", self.name());
        skip(missing);
        None
    }

    /// What it is known to do wrong, in words that continue its name.
    pub(crate) fn faults(self) -> &'static [(Behaviour, &'static str)] {
        match self {
            Self::McpTypeScript1 => &[
                (Behaviour::TheirQuestionFalls, LEFT_OPEN),
                (Behaviour::Ids, "never hears of a cancel for id 0"),
                (Behaviour::OurLateAnswer, COMPLAINS),
            ],
            Self::McpTypeScript2 => {
                &[(Behaviour::TheirQuestionFalls, LEFT_OPEN), (Behaviour::OurLateAnswer, COMPLAINS)]
            }
            Self::McpTypeScript2Modern => &[],
            Self::McpPython1 => &[
                (Behaviour::OurCancel, "answers a cancelled request with an error"),
                (Behaviour::OurTimeout, "answers a cancelled request with an error"),
                (Behaviour::TheirQuestionFalls, LEFT_OPEN),
                (Behaviour::TheirCancel, "tells nobody that it cancelled"),
                (Behaviour::TheirTimeout, "tells nobody that its time was up"),
                (Behaviour::OurWithdrawal, "reads nothing while it thinks about a question"),
            ],
            Self::McpPython2 | Self::McpPython2Modern => {
                &[(Behaviour::Ids, r#"stops "5" when 5 is cancelled, and then never 5"#)]
            }
            Self::Rmcp => &[(Behaviour::TheirQuestionFalls, LEFT_OPEN)],
            Self::AcpTypeScript => &[(Behaviour::TheirQuestionFalls, LEFT_OPEN)],
            Self::AcpRust => &[(Behaviour::TheirQuestionFalls, LEFT_OPEN)],
            Self::VscodeJsonrpc => &[(Behaviour::TheirQuestionFalls, LEFT_OPEN)],
            Self::JsonServer => &[],
        }
    }
}

pub(crate) const LEFT_OPEN: &str = "leaves the question of a cancelled call open";

const COMPLAINS: &str = "complains of an answer that crossed its cancel";

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers").canonicalize().unwrap()
}

/// A program on the Rust SDK of ACP v2, if it is here.
pub(crate) fn acp_two(program: &str) -> Option<PathBuf> {
    let program = peers().join("rust-acp2/target/debug").join(program);
    if program.exists() {
        return Some(program);
    }
    let missing = format!("{} is not installed (peers/install does it)", program.display());
    assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{missing}");
    skip(missing);
    None
}

/// What must be there, and the command.
fn node(folder: &str, script: &str) -> (PathBuf, Vec<String>) {
    let folder = peers().join("node").join(folder);
    let script = folder.join(script);
    (folder.join("node_modules"), vec!["node".to_owned(), text(&script)])
}

fn python(folder: &str, script: &str) -> (PathBuf, Vec<String>) {
    let folder = peers().join(folder);
    let venv = folder.join(".venv");
    let command = vec![text(&venv.join("bin/python")), text(&folder.join(script))];
    (venv, command)
}

/// A client told to speak 2026-07-28.
fn modern((needs, mut command): (PathBuf, Vec<String>)) -> (PathBuf, Vec<String>) {
    command.push("--modern".to_owned());
    (needs, command)
}

fn rust(example: &str) -> (PathBuf, Vec<String>) {
    let program = peers().join("rust/target/debug/examples").join(example);
    let command = vec![text(&program)];
    (program, command)
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn has_node() -> bool {
    let mut node = Command::new("node");
    let quiet = node.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// One line for each part that is missing, however many tests need it.
fn skip(missing: String) {
    static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("skipped: real peers: {missing}\n");
    if SKIPPED.lock().unwrap().insert(missing) {
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}
