//! The path of this program that is written into files.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// An absolute path by which clients, which have no shell's PATH, will find this program.
///
/// The one by which it was called, links included, since a package manager changes the link and not the path.
pub(crate) fn path() -> Result<String, Failure> {
    let hint = "call it by its absolute path";
    let current = env::current_exe().map_err(|error| Failure::new("rescind", error, hint))?;
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_this = |path: &PathBuf| same(path, &current);
    let found = match called.components().count() {
        1 => candidates(&called).find(is_this),
        _ => std::path::absolute(&called).ok().filter(is_this),
    };
    text(&found.unwrap_or(current))
}

/// A path as a file can have it.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().ok_or_else(|| Failure::new(path.display(), "is no UTF-8", "install it elsewhere"))?;
    Ok(text.to_owned())
}

/// The program that a shell would start by this name.
pub(crate) fn on_path(name: &Path) -> Option<PathBuf> {
    candidates(name).find(|path| path.is_file())
}

fn candidates(name: &Path) -> impl Iterator<Item = PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&folders).filter(|folder| folder.is_absolute()).collect();
    // Files of projects that others share have `rescind`, and Windows adds this.
    let name =
        if name.extension().is_some() { name.to_owned() } else { name.with_extension(env::consts::EXE_EXTENSION) };
    folders.into_iter().map(move |folder| folder.join(&name))
}

pub(crate) fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(unix)]
pub(crate) fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// By its name.
#[cfg(windows)]
pub(crate) fn is_executable(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    ["exe", "cmd", "bat", "com"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}
