//! One directory of the user's sockets, and whether it is safe to use.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use rescind_feed::SOCKET_SUFFIX;

use super::Shim;

/// The most sockets of a directory that are examined.
const LIMIT: usize = 1024;

/// A directory of a user's sockets.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    user: u32,
}

/// What was found in a [`Directory`], in no particular order.
#[derive(Debug, Default)]
pub(super) struct FoundSockets {
    /// The shims. Whether they answer is unknown.
    pub(super) shims: Vec<Shim>,
    /// Sockets that are not used, and why.
    pub(super) refused: Vec<(PathBuf, &'static str)>,
}

/// Why a directory of sockets is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It is a link, which another user may have made.
    #[error("is a symbolic link")]
    Link,
    /// It is not a directory.
    #[error("is not a directory")]
    NotADirectory,
    /// It belongs to another user.
    #[error("belongs to user {owner}, not to user {user}")]
    Foreign {
        /// The owner.
        owner: u32,
        /// The user who runs this program.
        user: u32,
    },
    /// Other users may enter it.
    #[error("is open to other users (mode {0:03o})")]
    OpenToOthers(u32),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

impl DirectoryError {
    /// The remedy, for the user.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Link | Self::NotADirectory | Self::Foreign { .. } => {
                "set RESCIND_RUNTIME_DIR to a directory of your own with mode 700, the same for every rescind command"
            }
            // It may be `/tmp`, which must stay open.
            Self::OpenToOthers(_) => {
                "if only rescind uses it, close it to others (chmod 700); if not, set RESCIND_RUNTIME_DIR to a directory of \
                 your own with mode 700, the same for every rescind command"
            }
            Self::Unreadable(_) => "check that you may read it",
        }
    }
}

impl Directory {
    /// The directory at `path`, for the user who runs this program.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, user: rescind_ledger::identity::user() }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the sockets; `None` if the directory does not exist.
    ///
    /// # Errors
    ///
    /// [`DirectoryError`], if other users could have put sockets there.
    pub(super) fn scan(&self) -> Result<Option<FoundSockets>, DirectoryError> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) => self.check(&found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let mut all = FoundSockets::default();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().and_then(session_name).map(str::to_owned) else { continue };
            let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
            match self.objection(&found) {
                None => all.shims.push(Shim::new(name, entry.path(), self.user)),
                Some(objection) => all.refused.push((entry.path(), objection)),
            }
            if all.shims.len() + all.refused.len() == LIMIT {
                break;
            }
        }
        Ok(Some(all))
    }

    fn check(&self, found: &Metadata) -> Result<(), DirectoryError> {
        if found.is_symlink() {
            return Err(DirectoryError::Link);
        }
        if !found.is_dir() {
            return Err(DirectoryError::NotADirectory);
        }
        self.check_access(found)
    }

    #[cfg(unix)]
    fn check_access(&self, found: &Metadata) -> Result<(), DirectoryError> {
        use std::os::unix::fs::MetadataExt;
        if found.uid() != self.user {
            return Err(DirectoryError::Foreign { owner: found.uid(), user: self.user });
        }
        match found.mode() & 0o777 {
            mode if mode & 0o077 != 0 => Err(DirectoryError::OpenToOthers(mode)),
            _ => Ok(()),
        }
    }

    /// The folders of a user are closed to others by themselves, and the user of a pipe's server is asked.
    #[cfg(windows)]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same on each platform")]
    const fn check_access(&self, _: &Metadata) -> Result<(), DirectoryError> {
        Ok(())
    }

    #[cfg(unix)]
    fn objection(&self, found: &Metadata) -> Option<&'static str> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        if !found.file_type().is_socket() {
            return Some("is not a socket");
        }
        if found.uid() != self.user {
            return Some("belongs to another user");
        }
        (found.mode() & 0o077 != 0).then_some("is open to other users")
    }

    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same on each platform")]
    fn objection(&self, found: &Metadata) -> Option<&'static str> {
        (!found.is_file()).then_some("is not a file")
    }
}

/// The session whose socket has this file name.
fn session_name(file: &str) -> Option<&str> {
    let name = file.strip_suffix(SOCKET_SUFFIX)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{
        fs::{DirBuilderExt, PermissionsExt, symlink},
        net::UnixListener,
    };

    use super::*;

    /// A directory as a shim creates it, inside one that is removed when the test ends.
    fn directory() -> (tempfile::TempDir, Directory) {
        let around = tempfile::tempdir().unwrap();
        let path = around.path().join("sockets");
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        (around, Directory::at(path))
    }

    fn socket(directory: &Directory, file: &str, mode: u32) {
        let path = directory.path().join(file);
        drop(UnixListener::bind(&path).unwrap());
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_sockets_that_are_closed_to_others_are_used() {
        let (_around, directory) = directory();
        socket(&directory, "4711.sock", 0o600);
        socket(&directory, "99.sock", 0o600);
        socket(&directory, "4712.sock", 0o606);
        socket(&directory, "a b.sock", 0o600);
        socket(&directory, ".sock", 0o600);
        fs::write(directory.path().join("4713.sock"), "").unwrap();
        symlink(directory.path().join("4711.sock"), directory.path().join("4714.sock")).unwrap();
        let mut scan = directory.scan().unwrap().unwrap();
        scan.shims.sort_by_key(|shim| shim.name().to_owned());
        scan.refused.sort();
        assert_eq!(scan.shims.iter().map(Shim::name).collect::<Vec<_>>(), ["4711", "99"]);
        let refused = scan.refused.iter().map(|(path, why)| (path.file_name().unwrap().to_str().unwrap(), *why));
        let expected = [
            ("4712.sock", "is open to other users"),
            ("4713.sock", "is not a socket"),
            ("4714.sock", "is not a socket"),
        ];
        assert_eq!(refused.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_directory_that_others_could_have_written_to_is_not_used() {
        let (around, directory) = directory();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(directory.scan().unwrap_err().to_string(), "is open to other users (mode 750)");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let link = around.path().join("link");
        symlink(directory.path(), &link).unwrap();
        assert!(matches!(Directory::at(link).scan(), Err(DirectoryError::Link)));
        let file = around.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(Directory::at(file).scan(), Err(DirectoryError::NotADirectory)));
        let user = directory.user + 1;
        let foreign = Directory { user, ..directory };
        assert!(matches!(foreign.scan(), Err(DirectoryError::Foreign { owner, .. }) if owner + 1 == user));
    }

    #[test]
    fn a_missing_directory_holds_no_shims() {
        let around = tempfile::tempdir().unwrap();
        assert!(Directory::at(around.path().join("nothing")).scan().unwrap().is_none());
    }
}
