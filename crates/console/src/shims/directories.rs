//! All directories of the user's sockets.

use std::path::PathBuf;

use super::{Directory, DirectoryError, Shim};

/// The directories in which the sockets of a user's shims may lie.
#[derive(Clone, Debug)]
pub struct Directories(Vec<Directory>);

/// What lies in [`Directories`].
#[derive(Debug, Default)]
pub struct Look {
    /// The shims, in the order of their names, each name once. Whether they answer is not known.
    pub shims: Vec<Shim>,
    /// Sockets that are not used, and why.
    pub refused: Vec<(PathBuf, &'static str)>,
    /// Directories that are not used. Shims do not use them either; one may have, before it was as it is.
    pub unusable: Vec<Unusable>,
}

/// A directory that is not used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct Unusable {
    /// The directory.
    pub path: PathBuf,
    /// Why it is not used.
    #[source]
    pub error: DirectoryError,
}

impl Directories {
    /// Those of the user who runs this program, whatever environment its shims have.
    #[must_use]
    pub fn of_this_user() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let paths = rescind_feed::directories(|name| std::env::var_os(name), user);
        Self(paths.into_iter().map(Directory::at).collect())
    }

    /// The one at `path` alone, of the user who runs this program.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(vec![Directory::at(path)])
    }

    /// The shims whose sockets lie there now; none where there is no directory yet.
    ///
    /// # Errors
    ///
    /// [`Unusable`], the first of the directories that are there, if none of them can be used.
    pub fn look(&self) -> Result<Look, Unusable> {
        let (mut all, mut is_usable) = (Look::default(), false);
        for directory in &self.0 {
            match directory.look() {
                Ok(None) => {}
                Ok(Some(found)) => {
                    is_usable = true;
                    all.take(found);
                }
                Err(error) => all.unusable.push(Unusable { path: directory.path().into(), error }),
            }
        }
        if !is_usable && !all.unusable.is_empty() {
            return Err(all.unusable.remove(0));
        }
        // Process ids in the order of their numbers, as a person would list them.
        all.shims.sort_by(|a, b| (a.name().len(), a.name()).cmp(&(b.name().len(), b.name())));
        all.refused.sort();
        Ok(all)
    }

    /// The shim of that name, if a socket of it may be used.
    ///
    /// # Errors
    ///
    /// As [`look`](Self::look).
    pub fn shim(&self, name: &str) -> Result<Option<Shim>, Unusable> {
        Ok(self.look()?.shims.into_iter().find(|shim| shim.name() == name))
    }
}

impl Look {
    /// Adds what lies in a further directory. A name must not mean two sessions: the first keeps it.
    fn take(&mut self, found: super::directory::Found) {
        self.refused.extend(found.refused);
        for shim in found.shims {
            match self.shims.iter().any(|known| known.name() == shim.name()) {
                false => self.shims.push(shim),
                true => self.refused.push((shim.socket().into(), "has the name of another session")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{
            fs::{DirBuilderExt, PermissionsExt},
            net::UnixListener,
        },
        path::Path,
    };

    use super::*;

    fn directory(path: &Path, mode: u32, sockets: &[&str]) -> Directory {
        fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        for name in sockets {
            let socket = path.join(format!("{name}.sock"));
            drop(UnixListener::bind(&socket).unwrap());
            fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        Directory::at(path.into())
    }

    fn names(look: &Look) -> Vec<&str> {
        look.shims.iter().map(Shim::name).collect()
    }

    #[test]
    fn every_directory_is_looked_into_and_a_name_means_one_session() {
        let around = tempfile::tempdir().unwrap();
        let at = |name| around.path().join(name);
        let (one, two) = (directory(&at("one"), 0o700, &["7", "20"]), directory(&at("two"), 0o700, &["10", "7"]));
        let look = Directories(vec![one, Directory::at(at("nowhere")), two]).look().unwrap();
        assert_eq!(names(&look), ["7", "10", "20"]);
        assert_eq!(look.shims[0].socket(), at("one").join("7.sock"));
        assert_eq!(look.refused, [(at("two").join("7.sock"), "has the name of another session")]);
    }

    /// Somebody may have made the directory in `/tmp` before its user did.
    #[test]
    fn one_that_cannot_be_used_hides_no_other() {
        let around = tempfile::tempdir().unwrap();
        let at = |name| around.path().join(name);
        let (loose, good) = (directory(&at("loose"), 0o755, &["1"]), directory(&at("good"), 0o700, &["2"]));
        let look = Directories(vec![loose.clone(), good]).look().unwrap();
        assert_eq!((names(&look), look.unusable.len()), (vec!["2"], 1));
        assert!(matches!(look.unusable[0].error, DirectoryError::Loose(0o755)));
        let error = Directories(vec![Directory::at(at("nowhere")), loose]).look().unwrap_err();
        assert_eq!(error.path, at("loose"));
    }
}
