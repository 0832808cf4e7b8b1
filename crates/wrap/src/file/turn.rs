//! The right to replace a file: one writer has it at a time, whichever folder its journal is in.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
};

use super::platform;

/// The right to replace a file, held until it is dropped. The lock is a file beside it.
#[derive(Debug)]
pub struct Turn {
    path: PathBuf,
    lock: File,
}

impl Turn {
    /// Waits until no other writer has this file, which is given without links.
    ///
    /// # Errors
    ///
    /// If nothing can be created beside the file.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let name = beside(path, "-lock");
        loop {
            let lock = platform::private(OpenOptions::new().write(true).create(true).truncate(false)).open(&name)?;
            lock.lock()?;
            // The one before has taken its lock away.
            if platform::is_at(&lock, &name) {
                return Ok(Self { path: path.to_owned(), lock });
            }
        }
    }

    /// Creates the file that is to take the place of this one. No other writer has its name.
    pub(super) fn create_beside(&self) -> io::Result<(PathBuf, File)> {
        let mut count = 0_u32;
        loop {
            let name = beside(&self.path, &format!("{NEW}-{}-{count}", process::id()));
            match platform::private(OpenOptions::new().write(true).create_new(true)).open(&name) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => count += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Lists what writers that were killed have left.
    pub(super) fn leftovers(&self) -> Vec<PathBuf> {
        leftovers(&self.path)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        platform::take_away(&self.lock, &beside(&self.path, "-lock"));
    }
}

/// What follows the name of a file and `.rescind` in that of its new version.
const NEW: &str = "-new";

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".rescind");
    name.push(end);
    path.with_file_name(name)
}

/// Lists new versions of this file that never took its place, since their writers were killed; or that will in a moment.
pub(super) fn leftovers(path: &Path) -> Vec<PathBuf> {
    let begin = beside(path, NEW).file_name().unwrap_or_default().to_owned();
    let names = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let is_new = |name: &fs::DirEntry| name.file_name().as_encoded_bytes().starts_with(begin.as_encoded_bytes());
    let mut all: Vec<PathBuf> = names.filter(is_new).map(|name| name.path()).collect();
    all.sort();
    all
}
