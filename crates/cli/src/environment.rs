//! What the environment says of the user's folders.

use std::{env, path::PathBuf};

use rescind_wrap::client::Folders;

/// The folder that an environment variable names.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The user's folders; `None` if the environment has no home.
pub(crate) fn user_folders() -> Option<Folders> {
    Folders::of(variable)
}

/// The folder of the copy of this program that stays where it is, and of nothing else.
///
/// On Unix that of a program's own data, also on macOS: a path without spaces, as uv and Claude Code have it there, for
/// clients that give a command to a shell. It is not `~/.local/bin`, where pip, pipx and uv put programs of this name.
/// Windows has a folder for a user's programs.
pub(crate) fn programs() -> Option<PathBuf> {
    let home = user_folders()?.home;
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let folder = if cfg!(windows) {
        absolute("LOCALAPPDATA").unwrap_or_else(|| home.join("AppData/Local")).join("Programs")
    } else {
        absolute("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"))
    };
    Some(folder.join("rescind"))
}

/// Where the copy of this program is, or would be.
pub(crate) fn copy() -> Option<PathBuf> {
    Some(programs()?.join("bin").join("rescind").with_extension(env::consts::EXE_EXTENSION))
}
