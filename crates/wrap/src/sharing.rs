//! Entries whose server is one process for all clients: the flags by which a shim shares it, and which entries start the
//! same server.
//!
//! A shim is not told which variables its entry sets, and it must not share a server that was started with other tokens. So
//! the flags name them.

use crate::{
    entry::{Entry, Kind, Launch},
    tree::{Node, Object, Value},
    words::{self, Before, OwnWords},
};

/// The flag that names the server, and the one that names a variable which it gets.
const SHARED: &str = "--shared";
const VARIABLE: &str = "--shared-env";

/// The flag that keeps it in the folder of its entry.
const FOLDER: &str = "--shared-folder";

/// The members in which entries set variables, and those that name some of the client's own.
const VARIABLES: [&str; 3] = ["env", "environment", "envs"];
const PASSED_ON: [&str; 2] = ["env_vars", "env_keys"];

/// The members that name a file of variables, and a folder.
const FILES: [&str; 2] = ["envFile", "env_file"];
const FOLDERS: [&str; 3] = ["cwd", "workingDirectory", "working_directory"];

/// Why the server of an entry cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotShared {
    /// It is no MCP server.
    #[error("is an agent or a language server, which is of one client")]
    NotTools,
    /// Its client connects to a URL.
    #[error("is at a URL, where it is one server already")]
    AtUrl,
    /// It has no command.
    #[error("has no command that a shim could share")]
    NoCommand,
    /// Its variables are in a file.
    #[error(
        "has its variables in a file; write them into `env` to share it, or give its shim --shared-env for each by hand"
    )]
    VariablesInFile,
    /// They cannot be read here.
    #[error("sets variables in a form that is not understood")]
    UnclearVariables,
    /// No command can carry the name.
    #[error("has a name that cannot be written into a command")]
    Unnameable,
}

/// What an entry starts, apart from its shim. Entries with the same start the same server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Started {
    /// The server's own command.
    pub words: Vec<String>,
    /// The variables that the entry sets; without a value, those that it passes on.
    variables: Vec<(String, Option<String>)>,
    /// Where it is started, if the entry says that.
    folder: Option<String>,
}

impl Started {
    /// What this entry starts; `None` if it is not an MCP server with a command, or not all of it is known.
    #[must_use]
    pub fn of(entry: &Entry, own: OwnWords) -> Option<Self> {
        let Launch::Command(command) = &entry.launch else { return None };
        let words = match words::before(&command.words, own) {
            Before::Nothing => &command.words[..],
            Before::Shim(count) => &command.words[count..],
            Before::Url | Before::ShimByHand | Before::Rescind => return None,
        };
        let mut variables = variables(entry).ok()?;
        variables.sort();
        let folder = members(entry).find_map(|object| FOLDERS.iter().find_map(|name| object.get(name)?.node.as_str()));
        let is_tools = entry.kind == Kind::Tools;
        is_tools.then(|| Self { words: words.to_vec(), variables, folder: folder.map(ToOwned::to_owned) })
    }
}

/// The flags by which the shim of this entry shares its server under this name.
///
/// # Errors
///
/// It cannot be shared.
pub fn flags(entry: &Entry, name: &str) -> Result<Vec<String>, NotShared> {
    match &entry.launch {
        _ if entry.kind != Kind::Tools => return Err(NotShared::NotTools),
        Launch::Command(_) => {}
        Launch::Url(_) => return Err(NotShared::AtUrl),
        Launch::Elsewhere | Launch::Unclear(_) => return Err(NotShared::NoCommand),
    }
    if !words::is_plain(name) {
        return Err(NotShared::Unnameable);
    }
    let mut flags = vec![format!("{SHARED}={name}")];
    for (variable, _) in variables(entry)? {
        if !words::is_plain(&variable) || variable.contains('=') {
            return Err(NotShared::UnclearVariables);
        }
        flags.push(format!("{VARIABLE}={variable}"));
    }
    if members(entry).any(|object| FOLDERS.iter().any(|name| object.get(name).is_some())) {
        flags.push(FOLDER.to_owned());
    }
    Ok(flags)
}

/// The name under which a shim with these flags shares its server.
#[must_use]
pub fn name(flags: &[String]) -> Option<&str> {
    value_of(flags, SHARED).next()
}

/// The flags of a shim with those of `wanted` that it lacks, behind the names that it begins with. A name that it shares its
/// server under stays.
#[must_use]
pub fn merged(flags: &[String], wanted: &[String]) -> Vec<String> {
    let has = |word: &&String| match word.split_once('=') {
        Some((SHARED, _)) => name(flags).is_some(),
        Some((flag, value)) => value_of(flags, flag).any(|known| known == value),
        None => flags.contains(word),
    };
    let others = words::unnamed(flags);
    let names = &flags[..flags.len() - others.len()];
    let lacking: Vec<String> = wanted.iter().filter(|word| !has(word)).cloned().collect();
    [names, &lacking, others].concat()
}

/// The values of a flag, behind `=` or as the next word.
fn value_of<'a>(flags: &'a [String], flag: &str) -> impl Iterator<Item = &'a str> {
    flags.iter().enumerate().filter_map(move |(place, word)| match word.strip_prefix(flag) {
        Some("") => flags.get(place + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    })
}

/// What an entry says of variables: in itself, or in the object that is its command.
fn members(entry: &Entry) -> impl Iterator<Item = &Object> {
    let inner = entry.object.get("command").and_then(|command| command.node.as_object());
    std::iter::once(&entry.object).chain(inner)
}

/// The variables that an entry sets, or passes on.
fn variables(entry: &Entry) -> Result<Vec<(String, Option<String>)>, NotShared> {
    let mut all = Vec::new();
    for object in members(entry) {
        if FILES.iter().any(|name| object.get(name).is_some()) {
            return Err(NotShared::VariablesInFile);
        }
        for set in VARIABLES.iter().filter_map(|name| object.get(name)).filter(|set| !is_nothing(&set.node)) {
            let set = set.node.as_object().ok_or(NotShared::UnclearVariables)?;
            all.extend(set.members.iter().map(|one| (one.key.clone(), one.node.as_str().map(ToOwned::to_owned))));
        }
        for passed in PASSED_ON.iter().filter_map(|name| object.get(name)).filter(|set| !is_nothing(&set.node)) {
            let passed = passed.node.as_words().ok_or(NotShared::UnclearVariables)?;
            all.extend(passed.into_iter().map(|name| (name.to_owned(), None)));
        }
    }
    Ok(all)
}

/// Whether it is `null`, or the like.
const fn is_nothing(node: &Node) -> bool {
    matches!(node.value, Value::Other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Config, Servers},
        syntax::Syntax,
    };

    const SERVERS: [Servers; 1] = [Servers { at: &["s"], kind: Kind::Tools }];

    /// No flag with a value is known here but those behind `=`.
    fn own(words: &[String]) -> Option<usize> {
        words.iter().position(|word| word != "run" && !word.starts_with("--"))
    }

    fn entry(members: &str) -> Entry {
        let text = format!(r#"{{"s": {{"a": {{{members}}}}}}}"#);
        let config = Config::read(text.as_bytes(), Syntax::Json, &SERVERS).unwrap();
        config.entries()[0].clone()
    }

    fn said(members: &str) -> String {
        match flags(&entry(members), "a") {
            Ok(flags) => flags.join(" "),
            Err(why) => format!("{why:?}"),
        }
    }

    #[test]
    fn every_variable_of_an_entry_is_named_and_no_value() {
        let plain = r#""command": "npx", "args": ["-y", "s"]"#;
        assert_eq!(said(plain), "--shared=a");
        let set = format!(r#"{plain}, "env": {{"TOKEN": "secret", "URL": "x"}}"#);
        assert_eq!(said(&set), "--shared=a --shared-env=TOKEN --shared-env=URL");
        assert_eq!(
            said(&format!(r#"{plain}, "environment": {{"A": "1"}}, "cwd": "/x""#)),
            "--shared=a --shared-env=A --shared-folder"
        );
        assert_eq!(said(&format!(r#"{plain}, "env_vars": ["A"]"#)), "--shared=a --shared-env=A");
        assert_eq!(said(r#""command": {"path": "npx", "env": {"A": "1"}}"#), "--shared=a --shared-env=A");
        assert_eq!(said(&format!(r#"{plain}, "env": null"#)), "--shared=a");
    }

    #[test]
    fn an_entry_of_which_not_every_variable_is_known_is_not_shared() {
        let plain = r#""command": "npx""#;
        assert_eq!(said(&format!(r#"{plain}, "envFile": "x""#)), "VariablesInFile");
        for odd in
            [r#""env": "A=1""#, r#""env_vars": [{"name": "A"}]"#, r#""env": {"A=B": "1"}"#, r#""env": {"": "1"}"#]
        {
            assert_eq!(said(&format!("{plain}, {odd}")), "UnclearVariables", "{odd}");
        }
        assert_eq!(said(r#""url": "https://a/mcp""#), "AtUrl");
        assert_eq!(flags(&entry(plain), "$HOME"), Err(NotShared::Unnameable));
    }

    #[test]
    fn flags_get_what_they_lack_and_keep_what_they_have() {
        let of = |flags: &str, wanted: &str| {
            let words = |line: &str| line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
            merged(&words(flags), &words(wanted)).join(" ")
        };
        assert_eq!(
            of("--name=a --timeout 5m", "--shared=a --shared-env=T"),
            "--name=a --shared=a --shared-env=T --timeout 5m"
        );
        assert_eq!(
            of("--name=a --shared A --shared-env T", "--shared=a --shared-env=T"),
            "--name=a --shared A --shared-env T"
        );
        assert_eq!(
            of("--shared=a --shared-env=S", "--shared=a --shared-env=T"),
            "--shared-env=T --shared=a --shared-env=S"
        );
        assert_eq!(of("--shared=a --shared-folder", "--shared=a --shared-folder"), "--shared=a --shared-folder");
    }

    #[test]
    fn entries_start_the_same_server_if_command_variables_and_folder_are_the_same() {
        let of = |members: &str| Started::of(&entry(members), own);
        let one = of(r#""command": "npx", "args": ["s"], "env": {"A": "1", "B": "2"}"#).unwrap();
        let wrapped =
            r#""command": "/bin/rescind", "args": ["run", "--name=a", "npx", "s"], "env": {"B": "2", "A": "1"}"#;
        assert_eq!(of(wrapped).as_ref(), Some(&one));
        for other in [
            r#""command": "npx", "args": ["s"], "env": {"A": "1", "B": "3"}"#,
            r#""command": "npx", "args": ["s"], "env": {"A": "1"}"#,
            r#""command": "npx", "args": ["s", "t"], "env": {"A": "1", "B": "2"}"#,
            r#""command": "npx", "args": ["s"], "env": {"A": "1", "B": "2"}, "cwd": "/x""#,
            r#""url": "https://a/mcp""#,
        ] {
            assert_ne!(of(other).as_ref(), Some(&one), "{other}");
        }
    }
}
