//! Commands that an administrator, or the user, names exactly in lists of what may be started.

use crate::{
    syntax::Syntax,
    tree::{Node, Object},
};

/// The members that hold such lists.
const LISTS: [&str; 2] = ["allowedMcpServers", "deniedMcpServers"];

/// Where Claude Code has such lists, besides the user's own settings.
#[must_use]
pub const fn managed_file() -> &'static str {
    if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode/managed-settings.json"
    } else if cfg!(windows) {
        "C:\\Program Files\\ClaudeCode\\managed-settings.json"
    } else {
        "/etc/claude-code/managed-settings.json"
    }
}

/// The commands that a file of settings names. One that cannot be read names none.
#[must_use]
pub fn commands(text: &str) -> Vec<Vec<String>> {
    named(text).iter().filter_map(command).collect()
}

/// Whether a file of settings names servers by more than their name: by a URL, or by a command.
#[must_use]
pub fn names_launches(text: &str) -> bool {
    let by_launch = |server: &Object| server.get("serverUrl").is_some() || server.get("serverCommand").is_some();
    named(text).iter().filter_map(Node::as_object).any(by_launch)
}

/// The lists that a file of settings has.
///
/// # Errors
///
/// If the file cannot be read, with the reason.
pub fn lists(text: &str) -> Result<Vec<&'static str>, String> {
    let root = Syntax::Json.read(text).map_err(|error| error.to_string())?;
    let settings = root.as_object();
    Ok(LISTS.into_iter().filter(|list| settings.is_some_and(|settings| settings.get(list).is_some())).collect())
}

/// The members of all lists of a file of settings. One that cannot be read has none.
fn named(text: &str) -> Vec<Node> {
    let Ok(root) = Syntax::Json.read(text) else { return Vec::new() };
    let lists = LISTS.iter().filter_map(|list| root.as_object()?.get(list)?.node.as_array());
    lists.flatten().cloned().collect()
}

fn command(server: &Node) -> Option<Vec<String>> {
    Some(server.as_object()?.get("serverCommand")?.node.as_words()?.into_iter().map(ToOwned::to_owned).collect())
}
