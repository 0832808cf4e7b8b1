//! The clients, and where each keeps its servers.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{
    config::{Config, LIST, Servers},
    entry::{Kind, Launch},
    syntax::Syntax,
};

/// A program that starts servers, agents or language servers.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its own name.
    pub name: &'static str,
    /// Its files that belong to this user alone.
    pub files: &'static [File],
    /// Its file in a folder of a project, which others may share.
    pub project: &'static [ProjectFile],
    /// Whether it writes its file while it runs, and so may undo a change.
    pub rewrites: bool,
}

/// A file of a user's.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// The folder that it is in, on each system.
    pub base: Base,
    /// Its path from there. `*` is any one name, `*.x` any that ends with `.x`.
    pub path: &'static str,
    /// How it is written.
    pub shape: Shape,
}

/// A file of a project's.
#[derive(Debug, PartialEq, Eq)]
pub struct ProjectFile {
    /// Its path from the project's folder; `*` as in [`File::path`].
    pub path: &'static str,
    /// How it is written.
    pub shape: Shape,
}

/// What a file is written in, and where in it the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What it is written in.
    pub syntax: Syntax,
    /// Where the servers are.
    pub servers: &'static [Servers],
}

/// A folder that paths begin in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Base {
    /// The user's home.
    Home,
    /// A folder in the user's home, which a variable may name instead.
    Variable(&'static str, &'static str),
    /// Where programs with a window keep their settings: `~/.config`, `~/Library/Application Support` or `%APPDATA%`.
    Application,
    /// Where programs of a terminal do: `~/.config` everywhere but on Windows.
    Config,
}

/// The folders of a user on one system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The user's home.
    pub home: PathBuf,
    /// [`Base::Application`].
    pub application: PathBuf,
    /// [`Base::Config`].
    pub config: PathBuf,
}

impl Folders {
    /// The folders of the user that an environment is of; `None` if that has no home.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let set = |name| variable(name).filter(|path| path.is_absolute());
        if cfg!(windows) {
            let home = set("USERPROFILE")?;
            let application = set("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"));
            return Some(Self { config: application.clone(), application, home });
        }
        let home = set("HOME")?;
        let config = set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let application =
            if cfg!(target_os = "macos") { home.join("Library/Application Support") } else { config.clone() };
        Some(Self { home, application, config })
    }
}

impl File {
    /// Where the file is or would be, before its `*` is looked up.
    #[must_use]
    pub fn pattern(&self, folders: &Folders, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let base = match self.base {
            Base::Home => folders.home.clone(),
            Base::Variable(name, usual) => {
                variable(name).filter(|path| path.is_absolute()).unwrap_or_else(|| folders.home.join(usual))
            }
            Base::Application => folders.application.clone(),
            Base::Config => folders.config.clone(),
        };
        base.join(Path::new(self.path))
    }
}

/// Whether a path ends with this pattern.
#[must_use]
pub fn fits(path: &Path, pattern: &str) -> bool {
    let mut parts = path.components().rev();
    Path::new(pattern).components().rev().all(|wanted| {
        let (wanted, part) = (wanted.as_os_str(), parts.next().map(std::path::Component::as_os_str));
        part.is_some_and(|part| part == wanted || fits_name(part, wanted))
    })
}

/// Whether a name is one of those that a part of a pattern means.
#[must_use]
pub fn fits_name(name: &OsStr, wanted: &OsStr) -> bool {
    let end = wanted.to_str().and_then(|wanted| wanted.strip_prefix('*'));
    end.is_some_and(|end| name.to_str().is_some_and(|name| name.len() > end.len() && name.ends_with(end)))
}

/// The client of this name.
#[must_use]
pub fn client(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id == id)
}

/// The shape of a file by its name, for files in places that [`CLIENTS`] does not list.
#[must_use]
pub fn shape_of(path: &Path) -> Option<Shape> {
    shape_by_path(path).or_else(|| shape_by_name(path))
}

/// The shape of a file by its place and its content: that of its place, if the content has servers there; otherwise the one
/// by which the most servers are found.
#[must_use]
pub fn shape_of_content(path: &Path, content: &[u8]) -> Option<Shape> {
    let usual = shape_of(path)?;
    let servers = |shape: &Shape| {
        let config = Config::read(content, shape.syntax, shape.servers).ok();
        let entries = config.iter().flat_map(Config::entries);
        entries.filter(|entry| matches!(entry.launch, Launch::Command(_) | Launch::Url(_))).count()
    };
    if shape_by_path(path).is_some() && servers(&usual) > 0 {
        return Some(usual);
    }
    let others = [ANY_JSON, OPENCODE, CODEX, HELIX, ANY_YAML].into_iter().filter(|other| other.syntax == usual.syntax);
    // Of several with the same number the last counts.
    others.rev().chain([usual]).max_by_key(servers)
}

/// The shape of a file that has the place of a client's in some folder.
fn shape_by_path(path: &Path) -> Option<Shape> {
    shape_where(|pattern| fits(path, pattern))
}

/// The shape of a file by the last part of its name.
fn shape_by_name(path: &Path) -> Option<Shape> {
    let ends = |pattern: &str| {
        pattern.rsplit('/').next().is_some_and(|name| path.file_name().is_some_and(|file| file == name))
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    shape_where(ends).or(match extension {
        Some("json" | "jsonc" | "json5") => Some(ANY_JSON),
        Some("toml") => Some(CODEX),
        Some("yaml" | "yml") => Some(ANY_YAML),
        _ => None,
    })
}

fn shape_where(fits: impl Fn(&str) -> bool) -> Option<Shape> {
    let file = CLIENTS.iter().flat_map(|client| client.files).find(|file| fits(file.path)).map(|file| file.shape);
    let project = CLIENTS.iter().flat_map(|client| client.project).find(|file| fits(file.path));
    project.map(|file| file.shape).or(file)
}

const fn mcp(at: &'static [&'static str]) -> Servers {
    Servers { at, kind: Kind::Tools }
}

const fn json(servers: &'static [Servers]) -> Shape {
    Shape { syntax: Syntax::Json, servers }
}

const fn yaml(servers: &'static [Servers]) -> Shape {
    Shape { syntax: Syntax::Yaml, servers }
}

/// What most clients have taken over from the first of them.
const MCP_SERVERS: Shape = json(&[mcp(&["mcpServers"])]);
const CODEX: Shape = Shape { syntax: Syntax::Toml, servers: &[mcp(&["mcp_servers"])] };
const VS_CODE: Shape = json(&[mcp(&["servers"])]);
const CLAUDE_CODE: Shape = json(&[mcp(&["mcpServers"]), mcp(&["projects", "*", "mcpServers"])]);
const ZED: Shape = json(&[mcp(&["context_servers"]), Servers { at: &["agent_servers"], kind: Kind::Agent }]);
/// Its second version has its servers one level deeper, and reads both.
const OPENCODE: Shape =
    json(&[mcp(&["mcp"]), mcp(&["mcp", "servers"]), Servers { at: &["lsp"], kind: Kind::Language }]);
const CRUSH: Shape = json(&[mcp(&["mcp"]), Servers { at: &["lsp"], kind: Kind::Language }]);
const GOOSE: Shape = yaml(&[mcp(&["extensions"])]);
const CONTINUE: Shape = yaml(&[mcp(&["mcpServers", LIST])]);
const AMP: Shape = json(&[mcp(&["amp.mcpServers"])]);
const ACP_AGENTS: Shape = json(&[Servers { at: &["agent_servers"], kind: Kind::Agent }]);
const HELIX: Shape =
    Shape { syntax: Syntax::Toml, servers: &[Servers { at: &["language-server"], kind: Kind::Language }] };

/// Every way of writing them in JSON that is known.
const ANY_JSON: Shape = json(&[
    mcp(&["mcpServers"]),
    mcp(&["projects", "*", "mcpServers"]),
    mcp(&["servers"]),
    mcp(&["mcp", "servers"]),
    mcp(&["context_servers"]),
    mcp(&["amp.mcpServers"]),
    Servers { at: &["agent_servers"], kind: Kind::Agent },
]);

/// Every way of writing them in YAML that is known.
const ANY_YAML: Shape = yaml(&[mcp(&["extensions"]), mcp(&["mcpServers"]), mcp(&["mcpServers", LIST])]);

/// Where Goose has its file, from [`Base::Config`].
const GOOSE_FILE: &str = if cfg!(windows) { "Block/goose/config/config.yaml" } else { "goose/config.yaml" };

const fn home(path: &'static str, shape: Shape) -> File {
    File { base: Base::Home, path, shape }
}

const fn application(path: &'static str, shape: Shape) -> File {
    File { base: Base::Application, path, shape }
}

const fn config(path: &'static str, shape: Shape) -> File {
    File { base: Base::Config, path, shape }
}

const fn of_continue(path: &'static str, shape: Shape) -> File {
    File { base: Base::Variable("CONTINUE_GLOBAL_DIR", ".continue"), path, shape }
}

const fn project(path: &'static str, shape: Shape) -> ProjectFile {
    ProjectFile { path, shape }
}

/// Every client that keeps its servers in a file that it documents, in the order of lists.
pub const CLIENTS: &[Client] = &[
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        files: &[application("Claude/claude_desktop_config.json", MCP_SERVERS)],
        project: &[],
        rewrites: true,
    },
    Client {
        id: "claude-code",
        name: "Claude Code",
        files: &[File { base: Base::Variable("CLAUDE_CONFIG_DIR", ""), path: ".claude.json", shape: CLAUDE_CODE }],
        project: &[project(".mcp.json", MCP_SERVERS)],
        rewrites: true,
    },
    Client {
        id: "vscode",
        name: "VS Code",
        files: &[
            application("Code/User/mcp.json", VS_CODE),
            application("Code/User/profiles/*/mcp.json", VS_CODE),
            application("Code - Insiders/User/mcp.json", VS_CODE),
            application("VSCodium/User/mcp.json", VS_CODE),
        ],
        project: &[project(".vscode/mcp.json", VS_CODE)],
        rewrites: false,
    },
    Client {
        id: "cursor",
        name: "Cursor",
        files: &[home(".cursor/mcp.json", MCP_SERVERS)],
        project: &[project(".cursor/mcp.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        files: &[home(".codeium/windsurf/mcp_config.json", MCP_SERVERS)],
        project: &[],
        rewrites: false,
    },
    Client {
        id: "zed",
        name: "Zed",
        files: &[config("zed/settings.json", ZED)],
        project: &[project(".zed/settings.json", ZED)],
        rewrites: false,
    },
    Client {
        id: "codex",
        name: "Codex",
        files: &[File { base: Base::Variable("CODEX_HOME", ".codex"), path: "config.toml", shape: CODEX }],
        project: &[project(".codex/config.toml", CODEX)],
        rewrites: false,
    },
    Client {
        id: "gemini",
        name: "Gemini CLI",
        files: &[home(".gemini/settings.json", MCP_SERVERS)],
        project: &[project(".gemini/settings.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "antigravity",
        name: "Antigravity",
        // The second is that of versions before 2.
        files: &[
            home(".gemini/config/mcp_config.json", MCP_SERVERS),
            home(".gemini/antigravity/mcp_config.json", MCP_SERVERS),
        ],
        project: &[project(".agents/mcp_config.json", MCP_SERVERS)],
        rewrites: true,
    },
    Client {
        id: "copilot",
        name: "Copilot CLI",
        files: &[File {
            base: Base::Variable("COPILOT_HOME", ".copilot"),
            path: "mcp-config.json",
            shape: MCP_SERVERS,
        }],
        project: &[],
        rewrites: false,
    },
    Client {
        id: "opencode",
        name: "opencode",
        files: &[config("opencode/opencode.json", OPENCODE), config("opencode/opencode.jsonc", OPENCODE)],
        project: &[project("opencode.json", OPENCODE), project("opencode.jsonc", OPENCODE)],
        rewrites: false,
    },
    Client {
        id: "cline",
        name: "Cline",
        files: &[application(
            "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            MCP_SERVERS,
        )],
        project: &[],
        rewrites: true,
    },
    Client {
        id: "roo",
        name: "Roo Code",
        files: &[application(
            "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            MCP_SERVERS,
        )],
        project: &[project(".roo/mcp.json", MCP_SERVERS)],
        rewrites: true,
    },
    Client {
        id: "kiro",
        name: "Kiro",
        files: &[home(".kiro/settings/mcp.json", MCP_SERVERS)],
        project: &[project(".kiro/settings/mcp.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "amazon-q",
        name: "Amazon Q",
        files: &[home(".aws/amazonq/mcp.json", MCP_SERVERS)],
        project: &[project(".amazonq/mcp.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "lm-studio",
        name: "LM Studio",
        files: &[home(".lmstudio/mcp.json", MCP_SERVERS)],
        project: &[],
        rewrites: false,
    },
    Client {
        id: "junie",
        name: "Junie",
        files: &[home(".junie/mcp/mcp.json", MCP_SERVERS)],
        project: &[project(".junie/mcp/mcp.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "jetbrains",
        name: "JetBrains agents",
        files: &[home(".jetbrains/acp.json", ACP_AGENTS)],
        project: &[],
        rewrites: false,
    },
    Client {
        id: "ai-assistant",
        name: "JetBrains AI Assistant",
        files: &[home(".ai/mcp/mcp.json", MCP_SERVERS)],
        project: &[project(".ai/mcp/mcp.json", MCP_SERVERS)],
        rewrites: true,
    },
    Client {
        id: "qwen",
        name: "Qwen Code",
        files: &[home(".qwen/settings.json", MCP_SERVERS)],
        project: &[project(".qwen/settings.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client {
        id: "amp",
        name: "Amp",
        files: &[config("amp/settings.json", AMP)],
        project: &[project(".amp/settings.json", AMP)],
        rewrites: false,
    },
    Client {
        id: "crush",
        name: "Crush",
        files: &[config("crush/crush.json", CRUSH)],
        project: &[project("crush.json", CRUSH), project(".crush.json", CRUSH)],
        rewrites: false,
    },
    Client {
        id: "droid",
        name: "Factory Droid",
        files: &[home(".factory/mcp.json", MCP_SERVERS)],
        project: &[project(".factory/mcp.json", MCP_SERVERS)],
        rewrites: false,
    },
    Client { id: "goose", name: "Goose", files: &[config(GOOSE_FILE, GOOSE)], project: &[], rewrites: true },
    Client {
        id: "continue",
        name: "Continue",
        files: &[
            of_continue("config.yaml", CONTINUE),
            of_continue("mcpServers/*.yaml", CONTINUE),
            of_continue("mcpServers/*.json", MCP_SERVERS),
        ],
        project: &[
            project(".continue/mcpServers/*.yaml", CONTINUE),
            project(".continue/mcpServers/*.json", MCP_SERVERS),
        ],
        rewrites: true,
    },
    Client {
        id: "helix",
        name: "Helix",
        files: &[config("helix/languages.toml", HELIX)],
        project: &[project(".helix/languages.toml", HELIX)],
        rewrites: false,
    },
    Client {
        id: "mcporter",
        name: "mcporter",
        files: &[
            home(".mcporter/mcporter.json", MCP_SERVERS),
            home(".mcporter/mcporter.jsonc", MCP_SERVERS),
            config("mcporter/mcporter.json", MCP_SERVERS),
        ],
        project: &[project("config/mcporter.json", MCP_SERVERS)],
        rewrites: false,
    },
];
