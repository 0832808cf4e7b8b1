//! What makes a shared server the same one.
//!
//! A client's program is not told which variables its entry sets and which it has inherited, and a token may be in any of
//! them. So a shared server gets few: those that are named, and those that every program needs. Of all that may hold a secret,
//! or decide what the server works on, it gets nothing that it is not told apart by. Sessions that differ in that have servers
//! of their own; they never share by mistake.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rescind_wrap::name;
use ring::digest::{Context, SHA256};

use crate::{failure::Failure, folders, screen::clean, wrap::program::on_path};

/// Variables that every program needs and that hold no secrets. A session that joins finds those of the first one.
const SURROUNDINGS: [&str; 5] = ["PATH", "SHELL", "TERM", "LANG", "LANGUAGE"];

/// Variables that a server gets, and that it is told apart by: whose it is, where it keeps things, what it reaches.
const TOLD_APART_BY: [&str; 31] = [
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    // Ours: where its session is listed, and whether what ends is kept.
    "RESCIND_RUNTIME_DIR",
    "RESCIND_NO_HISTORY",
];

/// A server that sessions share.
#[derive(Clone, Debug)]
pub(super) struct SharedServer {
    pub(super) name: String,
    pub(super) command: Vec<OsString>,
    /// Where it is started.
    pub(super) folder: PathBuf,
    /// All variables that it gets.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// What of them it is told apart by, in their order.
    told_apart_by: Vec<(OsString, OsString)>,
}

impl SharedServer {
    /// The server of this command as it would be started here. `named` are the variables that it gets besides.
    pub(super) fn new(
        name: &str,
        command: &[OsString],
        named: &[OsString],
        has_own_folder: bool,
    ) -> Result<Self, Failure> {
        for variable in named {
            let is_name = !variable.is_empty() && !variable.as_bytes().iter().any(|byte| matches!(byte, b'=' | 0));
            if !is_name {
                let shown = clean(&variable.to_string_lossy());
                let hint =
                    "name the variable only, as in --shared-env GITHUB_TOKEN; its value is that of the environment";
                return Err(Failure::new(format_args!("--shared-env {shown}"), "is not the name of a variable", hint));
            }
        }
        let here = env::current_dir().map_err(|error| {
            Failure::new("--shared", format_args!("the current folder cannot be read: {error}"), "go to another folder")
        })?;
        let is_of_folder = has_own_folder || command.iter().any(|word| names_something_in(&here, word));
        let folder = if is_of_folder { here } else { folders::of_this_user().map_or(here, |folders| folders.home) };
        let value = |name: &OsStr| Some((name.to_owned(), env::var_os(name)?));
        let known = TOLD_APART_BY.iter().map(OsStr::new).chain(named.iter().map(OsString::as_os_str));
        let mut told_apart_by: Vec<_> = known.filter_map(value).collect();
        told_apart_by.sort();
        told_apart_by.dedup();
        let is_locale = |name: &OsString| name.as_bytes().starts_with(b"LC_");
        let locale = env::vars_os().filter(|(name, _)| is_locale(name));
        let surroundings = SURROUNDINGS.iter().map(OsStr::new).filter_map(value).chain(locale);
        // Of a name that is in both, the last counts: they are the same.
        let environment = surroundings.chain(told_apart_by.iter().cloned()).collect();
        Ok(Self { name: name.to_owned(), command: command.to_owned(), folder, environment, told_apart_by })
    }

    /// What all servers of this name have in common, however it is spelt, and what this one alone has: both as text that can
    /// be in the name of a file. The program counts as the file that it is.
    pub(super) fn digests(&self) -> [String; 2] {
        let name = name::plain_text(&self.name);
        let mut known_as = Context::new(&SHA256);
        add(&mut known_as, name.as_bytes());
        let mut own = known_as.clone();
        let program = self.command.first().map(PathBuf::from).unwrap_or_default();
        let is_bare = program.components().count() == 1;
        let found = if is_bare { on_path(&program) } else { std::path::absolute(&program).ok() };
        add(&mut own, found.unwrap_or(program).as_os_str().as_bytes());
        add(&mut own, self.folder.as_os_str().as_bytes());
        for list in [self.command.len(), self.told_apart_by.len()] {
            add(&mut own, &list.to_le_bytes());
        }
        let variables = self.told_apart_by.iter().flat_map(|(name, value)| [name, value]);
        self.command.iter().chain(variables).for_each(|text| add(&mut own, text.as_bytes()));
        [text(known_as, 4), text(own, 12)]
    }
}

/// Adds a field, which cannot be taken for a part of its neighbours.
fn add(context: &mut Context, field: &[u8]) {
    context.update(&field.len().to_le_bytes());
    context.update(field);
}

/// So many bytes of a digest, in hexadecimal digits.
fn text(context: Context, bytes: usize) -> String {
    context.finish().as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a word of a command means something in this folder: by a relative path, also behind `=`.
fn names_something_in(folder: &Path, word: &OsStr) -> bool {
    let is_there = |path: &Path| {
        let begins = path.components().next();
        let is_dotted = matches!(begins, Some(std::path::Component::CurDir | std::path::Component::ParentDir));
        path.is_relative() && begins.is_some() && (is_dotted || folder.join(path).exists())
    };
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').map(|at| OsStr::from_bytes(&bytes[at + 1..]));
    is_there(Path::new(word)) || value.is_some_and(|value| is_there(Path::new(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, command: &[&str], variables: &[(&str, &str)], folder: &str) -> SharedServer {
        let pair = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
        SharedServer {
            name: name.into(),
            command: command.iter().map(OsString::from).collect(),
            folder: folder.into(),
            environment: Vec::new(),
            told_apart_by: variables.iter().map(pair).collect(),
        }
    }

    #[test]
    fn a_server_is_the_same_only_with_the_same_command_variables_and_folder() {
        let one = server("github", &["/bin/s", "a b"], &[("TOKEN", "1")], "/home").digests();
        assert_eq!(one, server("GitHub", &["/bin/s", "a b"], &[("TOKEN", "1")], "/home").digests());
        for other in [
            server("github", &["/bin/s", "a", "b"], &[("TOKEN", "1")], "/home"),
            server("github", &["/bin/s", "a b"], &[("TOKEN", "2")], "/home"),
            server("github", &["/bin/s", "a b"], &[("TOKEN1", "")], "/home"),
            server("github", &["/bin/s", "a b"], &[], "/home"),
            server("github", &["/bin/s", "a b", "TOKEN", "1"], &[], "/home"),
            server("github", &["/bin/s", "a b"], &[("TOKEN", "1")], "/home/x"),
        ] {
            let [known_as, own] = other.digests();
            assert_eq!(known_as, one[0], "{other:?}");
            assert_ne!(own, one[1], "{other:?}");
        }
        let [known_as, own] = server("gitlab", &["/bin/s", "a b"], &[("TOKEN", "1")], "/home").digests();
        assert!(known_as != one[0] && own != one[1]);
    }

    #[test]
    fn a_command_is_of_its_folder_if_it_names_something_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.js"), "").unwrap();
        let is = |word: &str| names_something_in(folder.path(), OsStr::new(word));
        for word in ["server.js", "./server.js", "./nothing", "..", ".", "--main=server.js", "--root=."] {
            assert!(is(word), "{word}");
        }
        let absolute = folder.path().join("server.js");
        for word in ["", "-y", "npx", "some-mcp-server", "--main=", "=", absolute.to_str().unwrap()] {
            assert!(!is(word), "{word}");
        }
    }
}
