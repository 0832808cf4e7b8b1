//! The user's folders.

use std::{env, path::PathBuf};

use rescind_wrap::client::Folders;

use crate::failure::Failure;

/// The user's home, and where clients keep their files below it.
pub(crate) fn of_this_user() -> Result<Folders, Failure> {
    let hint = "set it to your home directory";
    Folders::of(variable).ok_or_else(|| Failure::new("HOME", "is not set, or is no absolute path", hint))
}

/// Where rescind keeps what must last: the history, the journal of changed files, sign-ins.
pub(crate) fn state() -> Result<PathBuf, Failure> {
    let home = of_this_user()?.home;
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let state = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else if cfg!(windows) {
        absolute("LOCALAPPDATA").unwrap_or_else(|| home.join("AppData/Local"))
    } else {
        absolute("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state"))
    };
    Ok(state.join("rescind"))
}

/// The variable that has sessions keep no history.
const NO_HISTORY: &str = "RESCIND_NO_HISTORY";

/// Where what has ended is kept (docs/history.md).
pub(crate) fn history() -> Result<PathBuf, Failure> {
    Ok(state()?.join("history"))
}

/// The same for a session that is to keep one: `None` if it is switched off, or the user has no home.
pub(crate) fn history_of_session() -> Option<PathBuf> {
    // A home that does not exist is not made for it.
    let has_home = || of_this_user().is_ok_and(|folders| folders.home.is_dir());
    history().ok().filter(|_| variable(NO_HISTORY).is_none() && has_home())
}

/// The folder that an environment variable names.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
