//! The paths of `--record` and `--log-file`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Whether two paths name one file, which may not exist yet. Devices such as `/dev/null` can be shared.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let is_device = fs::metadata(one).is_ok_and(|found| !found.is_file());
    !is_device && matches!((canonical(one), canonical(other)), (Ok(one), Ok(other)) if one == other)
}

/// What to do if the file cannot be opened for writing.
pub(super) fn remedy(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound && !folder(path).exists() {
        return format!("first create its directory: mkdir -p {}", folder(path).display());
    }
    if path.is_dir() {
        return "this is a directory: name a file in it".into();
    }
    "name a file in a directory that you may write to".into()
}

/// What to do if a folder cannot be made, or no file in it.
pub(super) fn folder_remedy(wanted: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound && !folder(wanted).exists() {
        return format!("first create its directory: mkdir -p {}", folder(wanted).display());
    }
    "name a folder that you may write to".into()
}

fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).or_else(|_| Ok(fs::canonicalize(folder(path))?.join(path.file_name().unwrap_or_default())))
}

/// The directory that holds `path`.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_many_paths() {
        let around = tempfile::tempdir().unwrap();
        let at = |name: &str| around.path().join(name);
        std::os::unix::fs::symlink(around.path(), at("link")).unwrap();
        assert!(is_same_file(&at("new"), &at("link/new")), "neither exists");
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("file"), at("alias")).unwrap();
        assert!(is_same_file(&at("file"), &at("alias")) && is_same_file(&at("alias"), &at("link/file")));
        assert!(!is_same_file(&at("file"), &at("new")) && !is_same_file(&at("no/file"), &at("no/file")));
        assert!(!is_same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
