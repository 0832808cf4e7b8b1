//! The directories for the admin socket.

use std::{
    fs::DirBuilder,
    io,
    path::{Path, PathBuf},
};

use rescind_feed::DIRECTORY_VARIABLE;
use rescind_operator::Directories;

use super::path::folder;
use crate::{fleet::report, screen::clean};

/// Returns the directories, the best one first. Warns if one was chosen that cannot be used: no other takes its place, and
/// `rescind ps` would say only that there are no sessions.
pub(super) fn directories() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let all = rescind_feed::directories(variable, rescind_ledger::identity::user());
    if let (Some(_), [chosen]) = (variable(DIRECTORY_VARIABLE), &*all)
        && let Err((error, hint)) = check(chosen)
    {
        let path = clean(&chosen.display().to_string());
        let hint = clean(&hint);
        report(&format!("warning: {path} ({DIRECTORY_VARIABLE}): {error}; this session is not listed\nhint: {hint}"));
    }
    all
}

/// A folder of this name that only this user can use, in the first of those directories that can be used.
#[cfg(unix)]
pub(crate) fn private_folder(name: &str) -> Result<PathBuf, String> {
    let all = rescind_feed::directories(|name| std::env::var_os(name), rescind_ledger::identity::user());
    let mut why = String::new();
    for directory in all {
        let folder = directory.join(name);
        match check(&directory).and_then(|()| check(&folder)) {
            Ok(()) => return Ok(folder),
            Err((error, _)) => why = format!("{}: {error}", clean(&directory.display().to_string())),
        }
    }
    Err(why)
}

/// Creates the directory if it is missing, and checks that readers would use it.
fn check(path: &Path) -> Result<(), (String, String)> {
    match private().create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder(path).exists() => {
            let hint = format!("first create its parent directory: mkdir -p {}", folder(path).display());
            Err(("its parent directory does not exist".into(), hint))
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let hint = "name a directory that can be created, or one of your own with mode 700";
            Err((format!("cannot be created: {error}"), hint.into()))
        }
        Ok(()) | Err(_) => {
            let scan = Directories::at(path.into()).scan();
            scan.map(drop).map_err(|unusable| (unusable.error.to_string(), unusable.error.hint().into()))
        }
    }
}

/// Creates directories that are closed to other users.
#[cfg(unix)]
fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Creates directories that are as private as those that they are in.
#[cfg(windows)]
fn private() -> DirBuilder {
    DirBuilder::new()
}
