//! The directories of the user's sockets.

use std::{path::PathBuf, time::Duration};

use rescind_ledger::{
    choice::Choice,
    container::{
        contained::{Contained, ContainerScan, Scope, What},
        ending::EndingError,
        seen::{SeenContainer, SeenError},
    },
    family::Family,
    mark::{Mark, Place},
    reap::{Reaped, reap},
    record::{RECORD_SUFFIX, Record},
    snapshot::Snapshot,
};

use super::{Directory, DirectoryError, Shim};

/// The directories that may hold the sockets of a user's shims.
#[derive(Clone, Debug)]
pub struct Directories(Vec<Directory>);

/// What was found in [`Directories`].
#[derive(Debug, Default)]
pub struct ShimScan {
    /// The shims, sorted by name, each name once. Whether they answer is unknown.
    pub shims: Vec<Shim>,
    /// Sockets that are not used, and why.
    pub refused: Vec<(PathBuf, &'static str)>,
    /// Directories that are not used. Shims refuse them too, but one may have used it earlier.
    pub unusable: Vec<UnusableDirectory>,
}

/// A directory that is not used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub struct UnusableDirectory {
    /// The directory.
    pub path: PathBuf,
    /// Why it is not used.
    #[source]
    pub error: DirectoryError,
}

impl Directories {
    /// The directories of the user who runs this program, independent of the environment of the shims.
    #[must_use]
    pub fn of_this_user() -> Self {
        let user = rescind_ledger::identity::user();
        let paths = rescind_feed::directories(|name| std::env::var_os(name), user);
        Self(paths.into_iter().map(Directory::at).collect())
    }

    /// Only the directory at `path`, for the user who runs this program.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(vec![Directory::at(path)])
    }

    /// Finds the shims. A missing directory is not an error.
    ///
    /// # Errors
    ///
    /// [`UnusableDirectory`], if directories exist and none of them can be used: the first of them.
    pub fn scan(&self) -> Result<ShimScan, UnusableDirectory> {
        let (mut all, mut is_usable) = (ShimScan::default(), false);
        for directory in &self.0 {
            match directory.scan() {
                Ok(None) => {}
                Ok(Some(found)) => {
                    is_usable = true;
                    all.add(found);
                }
                Err(error) => all.unusable.push(UnusableDirectory { path: directory.path().into(), error }),
            }
        }
        if !is_usable && !all.unusable.is_empty() {
            return Err(all.unusable.remove(0));
        }
        // Process ids in numeric order.
        all.shims.sort_by(|a, b| (a.name().len(), a.name()).cmp(&(b.name().len(), b.name())));
        all.refused.sort();
        Ok(all)
    }

    /// The processes of all sessions of this place, and of those that have ended and left some. Removes records that are of
    /// no use any more.
    #[must_use]
    pub fn families(&self, snapshot: &Snapshot) -> Vec<Family> {
        let families = Family::find(snapshot, self.records(), Place::here());
        let left = families.iter().map(|family| family.mark).collect();
        self.usable().for_each(|directory| Record::forget(directory.path(), &left));
        families
    }

    /// What sessions have in containers. It asks engines, and blocks for ten seconds at most. Removes records that are of no
    /// use any more.
    #[must_use]
    pub fn in_containers(&self, scope: Scope<'_>) -> ContainerScan {
        let scan = ContainerScan::of(&self.records(), Place::here(), scope);
        scan.clean.iter().for_each(|mark| self.forget(*mark));
        scan
    }

    /// What is still left in containers of what a person saw there. It asks engines, and blocks.
    ///
    /// # Errors
    ///
    /// [`SeenError`], if something of it must not be ended.
    pub fn seen_in_containers(&self, seen: &[SeenContainer]) -> Result<Vec<Contained>, SeenError> {
        SeenContainer::find(seen, &self.records(), Place::here())
    }

    /// Ends what was left in a container. It blocks, for some fifteen seconds at most.
    ///
    /// # Errors
    ///
    /// As [`Contained::end`].
    pub fn end_in_container(&self, left: &Contained) -> Result<(), EndingError> {
        left.end()?;
        match left.what {
            // Engines are asked as long as there is a record, and this one may have another container of the session.
            What::Container(_) => {}
            // Only the record says that there may be something.
            What::Processes { .. } => self.forget(left.mark),
        }
        Ok(())
    }

    /// Removes the record of a session that has left nothing.
    fn forget(&self, mark: Mark) {
        for directory in self.usable() {
            let _ = std::fs::remove_file(directory.path().join(format!("{mark}{RECORD_SUFFIX}")));
        }
    }

    fn records(&self) -> Vec<Record> {
        self.usable().flat_map(|directory| Record::read_all(directory.path()).unwrap_or_default()).collect()
    }

    fn usable(&self) -> impl Iterator<Item = &Directory> {
        self.0.iter().filter(|directory| matches!(directory.scan(), Ok(Some(_))))
    }

    /// Ends what was chosen of [`families`](Self::families), as [`reap`] does. It blocks.
    #[must_use]
    pub fn reap(&self, grace: Duration, mut choice: Choice) -> Vec<Reaped> {
        reap(grace, |snapshot| choice.follow(&self.families(snapshot)))
    }

    /// Finds the shim called `name`.
    ///
    /// # Errors
    ///
    /// As [`scan`](Self::scan).
    pub fn shim(&self, name: &str) -> Result<Option<Shim>, UnusableDirectory> {
        Ok(self.scan()?.shims.into_iter().find(|shim| shim.name() == name))
    }
}

impl ShimScan {
    /// Adds what another directory holds. Of two sessions with one name, the first keeps it.
    fn add(&mut self, found: super::directory::FoundSockets) {
        self.refused.extend(found.refused);
        for shim in found.shims {
            match self.shims.iter().any(|known| known.name() == shim.name()) {
                false => self.shims.push(shim),
                true => self.refused.push((shim.socket().into(), "another session has this name")),
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

    fn names(scan: &ShimScan) -> Vec<&str> {
        scan.shims.iter().map(Shim::name).collect()
    }

    #[test]
    fn every_directory_is_scanned_and_a_name_means_one_session() {
        let around = tempfile::tempdir().unwrap();
        let at = |name| around.path().join(name);
        let (one, two) = (directory(&at("one"), 0o700, &["7", "20"]), directory(&at("two"), 0o700, &["10", "7"]));
        let scan = Directories(vec![one, Directory::at(at("nowhere")), two]).scan().unwrap();
        assert_eq!(names(&scan), ["7", "10", "20"]);
        assert_eq!(scan.shims[0].socket(), at("one").join("7.sock"));
        assert_eq!(scan.refused, [(at("two").join("7.sock"), "another session has this name")]);
    }

    /// Another user may have created the directory in `/tmp` first.
    #[test]
    fn an_unusable_directory_hides_no_other() {
        let around = tempfile::tempdir().unwrap();
        let at = |name| around.path().join(name);
        let (loose, good) = (directory(&at("loose"), 0o755, &["1"]), directory(&at("good"), 0o700, &["2"]));
        let scan = Directories(vec![loose.clone(), good]).scan().unwrap();
        assert_eq!((names(&scan), scan.unusable.len()), (vec!["2"], 1));
        assert!(matches!(scan.unusable[0].error, DirectoryError::OpenToOthers(0o755)));
        let error = Directories(vec![Directory::at(at("nowhere")), loose]).scan().unwrap_err();
        assert_eq!(error.path, at("loose"));
    }
}
