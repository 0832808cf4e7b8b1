//! Where it is kept what a command's server answered at its last start (D70).
//!
//! The name of the file is made of what decides which server that is: the words of its command, its client, the folder it runs
//! in as far as a word depends on it, and the environment. Values of the environment can be secrets, so all of it is hashed
//! with a key that only this user can read. What a start changes by itself, such as the id of a terminal, does not count. What
//! is found under a name is checked by the relay, so a wrong one costs no more than a notification.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use ring::{
    hmac::{HMAC_SHA256, Key, sign},
    rand::{SecureRandom as _, SystemRandom},
};

use crate::folders;

/// The folder of these files, in that of what rescind keeps.
pub(crate) const FOLDER: &str = "last-starts";

const KEY_LENGTH: usize = 32;

/// How much of the hash is the name, in bytes.
const NAME_LENGTH: usize = 16;

/// Variables of the place that a program is started from, not of what it does.
const OF_THE_PLACE: &[&str] = &[
    "_",
    "COLORTERM",
    "COLUMNS",
    "DISPLAY",
    "INIT_CWD",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINES",
    "LS_COLORS",
    "MANAGERPID",
    "MallocNanoZone",
    "OLDPWD",
    "PATH",
    "PWD",
    "SECURITYSESSIONID",
    "SESSIONNAME",
    "SHLVL",
    "STY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "WINDOWID",
];

/// The beginnings of more of them.
const BEGINNINGS: &[&str] = &[
    "ALACRITTY_",
    "CHROME_",
    "CLAUDE_CODE_",
    "CLAUDECODE",
    "CURSOR_",
    "DBUS_",
    "DESKTOP_STARTUP",
    "ELECTRON_",
    "FNM_",
    "GHOSTTY_",
    "GIO_LAUNCHED",
    "GNOME_",
    "ITERM_",
    "KDE_",
    "KITTY_",
    "KONSOLE_",
    "LC_TERMINAL",
    "NODE_CHANNEL",
    "RESCIND_",
    "SSH_",
    "TERM_",
    "TILIX_",
    "VSCODE_",
    "VTE_",
    "WEZTERM_",
    "WT_",
    "XDG_ACTIVATION",
    "XDG_SEAT",
    "XDG_SESSION",
    "XDG_VTNR",
    "ZELLIJ",
    "__CF",
    "npm_",
];

/// The file for this command, of this client, with these other flags that matter; `None` if the user has no home to keep it in.
pub(super) fn file(command: &[OsString], client: Option<&str>, flags: &str) -> Option<PathBuf> {
    let has_home = folders::of_this_user().is_ok_and(|folders| folders.home.is_dir());
    let folder = folders::state().ok().filter(|_| has_home)?.join(FOLDER);
    let key = key(&folder).ok()?;
    let here = env::current_dir().ok();
    let words = command.iter().map(OsString::as_os_str);
    let depends = here.as_ref().filter(|here| words.clone().any(|word| depends_on_folder(here, word)));
    let mut variables: Vec<_> = env::vars_os().filter(|(name, _)| counts(name)).collect();
    variables.sort();
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&part.len().to_le_bytes());
        text.extend_from_slice(part);
    };
    add(client.unwrap_or_default().as_bytes());
    add(flags.as_bytes());
    add(depends.map(|here| here.as_os_str().as_encoded_bytes()).unwrap_or_default());
    add(&words.len().to_le_bytes());
    words.for_each(|word| add(word.as_encoded_bytes()));
    for (name, value) in &variables {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    let hash = sign(&Key::new(HMAC_SHA256, &key), &text);
    let name: String = hash.as_ref().iter().take(NAME_LENGTH).map(|byte| format!("{byte:02x}")).collect();
    Some(folder.join(name).with_extension("json"))
}

/// Whether a variable of the environment can change what a server answers.
fn counts(name: &OsStr) -> bool {
    name.to_str().is_none_or(|name| {
        !OF_THE_PLACE.contains(&name) && !BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    })
}

/// Whether what a word of a command means depends on the folder: it, or what follows its `=`, is a path from there.
fn depends_on_folder(here: &Path, word: &OsStr) -> bool {
    let is_from_here = |text: &OsStr| {
        let path = Path::new(text);
        let begins = text.as_encoded_bytes().first() == Some(&b'.');
        !text.is_empty() && path.is_relative() && (begins || here.join(path).exists())
    };
    let value = word.to_str().and_then(|word| word.split_once('=')).map(|(_, value)| OsStr::new(value));
    is_from_here(word) || value.is_some_and(is_from_here)
}

/// The key of the names, made where there is none.
fn key(folder: &Path) -> io::Result<[u8; KEY_LENGTH]> {
    let path = folder.join("key");
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut key = [0; KEY_LENGTH];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("no random bytes"))?;
    let beside = folder.join(format!("key.{}.new", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = fs::remove_file(&beside);
    io::Write::write_all(&mut options.open(&beside)?, &key)?;
    fs::rename(&beside, &path)?;
    // Another session may have been last.
    Ok(read_key(&path)?.unwrap_or(key))
}

/// The key, if there is one of the right length.
fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_LENGTH]>> {
    if fs::symlink_metadata(path).is_ok_and(|about| !about.is_file() || about.len() != KEY_LENGTH as u64) {
        fs::remove_file(path)?;
    }
    match fs::read(path) {
        Ok(key) => Ok(key.try_into().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_sets_does_not_count() {
        for name in ["TERM", "TERM_SESSION_ID", "SSH_AUTH_SOCK", "PWD", "VSCODE_PID", "RESCIND_RUNTIME_DIR"] {
            assert!(!counts(OsStr::new(name)), "{name}");
        }
        for name in ["GITHUB_TOKEN", "HOME", "LANG", "API_KEY", "GEMINI_API_KEY", "PYTHONPATH", "TERMS"] {
            assert!(counts(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_folder_counts_where_a_word_is_a_path_from_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("server.js"), "").unwrap();
        let depends = |word: &str| depends_on_folder(folder.path(), OsStr::new(word));
        for word in [".", "./a", "../b", "server.js", "--root=.", "--file=server.js"] {
            assert!(depends(word), "{word}");
        }
        for word in ["npx", "-y", "", "@scope/server", "/usr/bin/env", "--root=/tmp", "--port=80", "--empty="] {
            assert!(!depends(word), "{word}");
        }
    }

    #[test]
    fn a_key_is_made_once_and_a_spoilt_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = key(&folder.path().join("inside")).unwrap();
        assert_eq!(key(&folder.path().join("inside")).unwrap(), first);
        fs::write(folder.path().join("inside/key"), "short").unwrap();
        let second = key(&folder.path().join("inside")).unwrap();
        assert_ne!(second, first);
        assert_eq!(key(&folder.path().join("inside")).unwrap(), second);
    }
}
