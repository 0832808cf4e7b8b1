//! Servers that stand in no file of the user's: others bring them, or decide about them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    client::{self, Folders, Shape},
    config::Config,
    file, managed,
};

/// Where they are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The folders of the user.
    pub folders: &'a Folders,
    /// The folder of Claude Code's settings.
    pub claude_code: &'a Path,
    /// The root of the file system, under which the system's own settings are.
    pub system: &'a Path,
}

/// Something that brings servers, or decides about them, and that `wrap` does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// What it is.
    pub kind: OutsideKind,
    /// The [`Client::id`](crate::client::Client::id).
    pub client: &'static str,
    /// Its name.
    pub name: String,
    /// Its folder or file.
    pub path: PathBuf,
    /// The names of its servers, where it names them.
    pub servers: Vec<String>,
    /// Why it cannot be read, if it cannot.
    pub problem: Option<String>,
}

/// What brings servers, or decides about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutsideKind {
    /// An extension of a desktop program.
    Extension,
    /// A plugin of a client.
    Plugin,
    /// Servers that an administrator gives to everyone.
    Managed,
    /// A list of servers that are allowed or denied.
    List,
    /// Servers that a client keeps among its own settings, where only its window can change them.
    Settings,
}

impl OutsideKind {
    /// The word in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Extension => "extension",
            Self::Plugin => "plugin",
            Self::Managed => "managed",
            Self::List => "list",
            Self::Settings => "settings",
        }
    }
}

/// The files that administrators write, from the root of the file system.
const MANAGED: [(&str, &str); 7] = [
    ("claude-code", "etc/claude-code/managed-mcp.json"),
    ("claude-code", "Library/Application Support/ClaudeCode/managed-mcp.json"),
    ("gemini", "etc/gemini-cli/settings.json"),
    ("qwen", "etc/qwen-code/settings.json"),
    ("codex", "etc/codex/managed_config.toml"),
    ("opencode", "etc/opencode/opencode.json"),
    ("goose", "etc/goose/config.yaml"),
];

/// All that is found, in the order of [`OutsideKind`].
#[must_use]
pub fn find(places: Places<'_>) -> Vec<Outside> {
    let extensions = children(&places.folders.application.join("Claude/Claude Extensions"));
    let extensions = extensions.into_iter().filter_map(|folder| extension(&folder));
    let plugins = plugin_folders(&places.claude_code.join("plugins"));
    let plugins = plugins.iter().filter_map(|folder| plugin(folder));
    let managed = MANAGED.iter().filter_map(|(client, path)| managed_servers(client, places.system.join(path)));
    let system_lists = Path::new(managed::managed_file());
    let lists = [
        places.system.join(system_lists.strip_prefix("/").unwrap_or(system_lists)),
        places.claude_code.join("settings.json"),
    ];
    let lists = lists.into_iter().filter_map(lists_of);
    let settings = children(&places.folders.application.join("JetBrains"));
    let settings = settings.iter().filter_map(|folder| jetbrains_settings(folder));
    extensions.chain(plugins).chain(managed).chain(lists).chain(settings).collect()
}

/// The servers that AI Assistant keeps in the settings of one IDE, as older versions do; the settings of later ones name them only.
fn jetbrains_settings(folder: &Path) -> Option<Outside> {
    let path = folder.join("options/llm.mcpServers.xml");
    let text = read(&path)?;
    let (kind, client, name) = (OutsideKind::Settings, "ai-assistant", folder_name(folder));
    let (servers, problem) = match text {
        Ok(text) if !text.contains("\"programPath\"") => return None,
        Ok(text) => (option_values(&text, "name"), None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    Some(Outside { kind, client, name, path, servers, problem })
}

/// The values of all options of this name in the settings of a JetBrains IDE.
fn option_values(text: &str, name: &str) -> Vec<String> {
    let option = format!("<option name=\"{name}\" value=\"");
    text.split(&option).skip(1).filter_map(|rest| rest.split('"').next()).map(ToOwned::to_owned).collect()
}

/// An extension of Claude Desktop.
fn extension(folder: &Path) -> Option<Outside> {
    let text = read(&folder.join("manifest.json"))?;
    let (kind, client, path) = (OutsideKind::Extension, "claude-desktop", folder.to_owned());
    let (name, problem) = match text.and_then(|text| parse(&text)) {
        Ok(manifest) => {
            let name = ["display_name", "name"].iter().find_map(|key| manifest.get(key)?.as_str());
            (name.map_or_else(|| folder_name(folder), ToOwned::to_owned), None)
        }
        Err(problem) => (folder_name(folder), Some(problem)),
    };
    Some(Outside { kind, client, name, path, servers: Vec::new(), problem })
}

/// The folders of the plugins of Claude Code that are installed.
fn plugin_folders(plugins: &Path) -> Vec<PathBuf> {
    let listed = read(&plugins.join("installed_plugins.json")).and_then(|text| parse(&text.ok()?).ok());
    let listed = listed.and_then(|list| {
        // Each is one installation, or in later versions of the file a list of them.
        let of_each = list.get("plugins")?.as_object()?.values().flat_map(|plugin| match plugin.as_array() {
            Some(installations) => installations.iter().collect(),
            None => vec![plugin],
        });
        Some(of_each.filter_map(|one| one.get("installPath")?.as_str()).map(PathBuf::from).collect::<Vec<_>>())
    });
    let cached = || {
        let marketplaces = children(&plugins.join("cache"));
        marketplaces.iter().flat_map(|one| children(one)).flat_map(|one| children(&one)).collect()
    };
    let mut folders: Vec<PathBuf> = listed.filter(|folders| !folders.is_empty()).unwrap_or_else(cached);
    folders.sort();
    folders.dedup();
    folders
}

/// A plugin, if it brings MCP servers.
fn plugin(folder: &Path) -> Option<Outside> {
    let (mut name, mut servers, mut problem) = (None, Vec::new(), None);
    for file in [".claude-plugin/plugin.json", ".mcp.json"] {
        let Some(text) = read(&folder.join(file)) else { continue };
        match text.and_then(|text| parse(&text)) {
            Ok(value) => {
                name = name.or_else(|| Some(value.get("name")?.as_str()?.to_owned()));
                // A plugin's `.mcp.json` may also be the list of servers itself.
                let list = value.get("mcpServers").or_else(|| (file == ".mcp.json").then_some(&value));
                servers.extend(
                    list.and_then(serde_json::Value::as_object).into_iter().flat_map(|list| list.keys()).cloned(),
                );
            }
            Err(why) => problem = Some(format!("{file}: {why}")),
        }
    }
    servers.sort();
    servers.dedup();
    let name = name.unwrap_or_else(|| folder_name(folder));
    let found =
        Outside { kind: OutsideKind::Plugin, client: "claude-code", name, path: folder.to_owned(), servers, problem };
    (!found.servers.is_empty() || found.problem.is_some()).then_some(found)
}

/// Servers that an administrator gives to everyone, if this file has any.
fn managed_servers(client: &'static str, path: PathBuf) -> Option<Outside> {
    let text = read(&path)?;
    let Shape { syntax, servers } = client::shape_of(&path)?;
    let config =
        text.and_then(|text| Config::read(text.as_bytes(), syntax, servers).map_err(|error| error.to_string()));
    let (servers, problem) = match config {
        Ok(config) => (config.entries().iter().map(|entry| entry.name().to_owned()).collect(), None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    // Claude Code starts no others where this file is, so an empty one counts, too.
    let counts = client == "claude-code" || !servers.is_empty() || problem.is_some();
    let name = "settings of the system".to_owned();
    counts.then_some(Outside { kind: OutsideKind::Managed, client, name, path, servers, problem })
}

/// Lists of servers that are allowed or denied, if these settings have any.
fn lists_of(path: PathBuf) -> Option<Outside> {
    let text = read(&path)?;
    let (name, problem) = match text.and_then(|text| managed::lists(&text)) {
        Ok(lists) if lists.is_empty() => return None,
        Ok(lists) => (lists.join(", "), None),
        Err(problem) => ("settings".to_owned(), Some(problem)),
    };
    Some(Outside { kind: OutsideKind::List, client: "claude-code", name, path, servers: Vec::new(), problem })
}

/// The text of a file; `None` if there is none.
fn read(path: &Path) -> Option<Result<String, String>> {
    match file::text(path) {
        Ok(text) => Some(Ok(text)),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

fn parse(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| error.to_string())
}

fn folder_name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut children: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path()).collect();
    children.sort();
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_administrators_have_written_is_found() {
        let root = std::env::temp_dir().join(format!("rescind-outside-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("etc/claude-code/managed-mcp.json", "{\"mcpServers\": {\"house\": {\"command\": \"x\"}}}");
        put("etc/gemini-cli/settings.json", "{\"ui\": {}}");
        put("etc/codex/managed_config.toml", "[mcp_servers.desk]\ncommand = \"x\"\n");
        put("etc/opencode/opencode.json", "{ oops");
        put("etc/goose/config.yaml", "extensions:\n  office:\n    cmd: x\n    args: []\n");
        let ide = "home/.config/JetBrains/Idea2025.1/options/llm.mcpServers.xml";
        let server = r#"<option name="name" value="nx" /><option name="programPath" value="npx" />"#;
        put(ide, &format!("<application><McpServerCommand>{server}</McpServerCommand></application>"));
        put("home/.config/JetBrains/Idea2026.1/options/llm.mcpServers.xml", r#"<option name="name" value="new" />"#);
        let home = root.join("home");
        let folders = Folders::of(|name| (name == "HOME").then(|| home.clone())).unwrap();
        let places = Places { folders: &folders, claude_code: &home.join(".claude"), system: &root };
        let found = find(places);
        fs::remove_dir_all(&root).unwrap();
        let told: Vec<_> = found.iter().map(|one| (one.client, &*one.servers, one.problem.is_some())).collect();
        let names = ["house", "desk", "office", "nx"].map(|name| [name.to_owned()]);
        let expected = [
            ("claude-code", &names[0][..], false),
            ("codex", &names[1][..], false),
            ("opencode", &[][..], true),
            ("goose", &names[2][..], false),
            ("ai-assistant", &names[3][..], false),
        ];
        assert_eq!(told, expected);
    }
}
