//! The user's folders.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rescind_wrap::client::Folders;

pub(crate) use crate::environment::variable;
use crate::{environment, failure::Failure};

/// The user's home, and where clients keep their files below it.
pub(crate) fn of_this_user() -> Result<Folders, Failure> {
    environment::user_folders().ok_or_else(no_home)
}

fn no_home() -> Failure {
    Failure::new("HOME", "is not set, or is no absolute path", "set it to your home directory")
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

/// Where the copy of this program is, or would be.
pub(crate) fn copy() -> Result<PathBuf, Failure> {
    environment::copy().ok_or_else(no_home)
}

/// Removes a folder if it is empty, and so each folder above it, up to one of ours; and then up to the user's home, if it is
/// below that.
pub(crate) fn remove_empty(folder: &Path, ours: &Path) {
    let home = environment::user_folders().map(|folders| folders.home);
    let is_below_home = |one: &Path| home.as_ref().is_some_and(|home| one.starts_with(home) && one != home);
    for one in folder.ancestors().take_while(|one| one.starts_with(ours) || is_below_home(one)) {
        if fs::remove_dir(one).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            return;
        }
    }
}
