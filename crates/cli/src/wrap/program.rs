//! The path of this program that is written into files.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// An absolute path by which clients, which have no shell's PATH, will find this program.
///
/// The one by which it was called, links included, since a package manager changes the link and not the path.
pub(super) fn path() -> Result<String, Failure> {
    let hint = "call it by its absolute path";
    let current = env::current_exe().map_err(|error| Failure::new("rescind", error, hint))?;
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_this = |path: &PathBuf| same(path, &current);
    let by_path = || {
        let folders = env::var_os("PATH")?;
        env::split_paths(&folders)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(&called))
            .find(is_this)
    };
    let found = match called.components().count() {
        1 => by_path(),
        _ => std::path::absolute(&called).ok().filter(is_this),
    };
    let path = found.unwrap_or(current);
    let text = path.to_str().ok_or_else(|| Failure::new(path.display(), "is no UTF-8", "install it elsewhere"))?;
    Ok(text.to_owned())
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}
