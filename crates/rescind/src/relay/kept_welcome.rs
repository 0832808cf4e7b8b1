//! Where it is kept what a server has answered to its clients, between two starts of it (D70).
//!
//! One small file for each command, in a folder of its own. It is replaced as a whole, so that who reads it finds one of two
//! whole ones, and it is only a help: a session that cannot read or write it goes on without.

use std::{
    fs::{self, File, OpenOptions},
    future::Future as _,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use rescind_proto::welcome::{MAX_DOCUMENT, Welcomes};
use tokio::task::{JoinHandle, spawn_blocking};

/// Files of commands in the folder; then the one that was not used for longest is removed.
const MAX_FILES: usize = 64;

/// How long the end of a session waits for the disk.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a writer that was killed has left is removed after this time.
const ABANDONED: Duration = Duration::from_secs(3600);

const UNFINISHED: &str = "new";

/// The file of one command, and what is to be written there.
#[derive(Debug)]
pub(crate) struct KeptWelcome {
    path: PathBuf,
    /// The last document, if it waits.
    waiting: Option<Vec<u8>>,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl KeptWelcome {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, waiting: None, writing: None }
    }

    /// What the server answered at its last starts; nothing, if the file is not one that this user alone could have written.
    pub(crate) fn read(&self) -> Welcomes {
        read(&self.path).map(|document| Welcomes::read(&document)).unwrap_or_default()
    }

    /// Has a document written, in place of one that waits.
    pub(crate) fn keep(&mut self, document: Vec<u8>) {
        self.waiting = Some(document);
    }

    /// Writes what waits, on another thread. Ready once, if that failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if let Some(writing) = &mut self.writing {
                let Poll::Ready(done) = Pin::new(writing).poll(cx) else { return Poll::Pending };
                self.writing = None;
                if let Ok(Err(error)) = done {
                    self.waiting = None;
                    return Poll::Ready(error);
                }
            }
            let Some(document) = self.waiting.take() else { return Poll::Pending };
            let path = self.path.clone();
            self.writing = Some(spawn_blocking(move || write(&path, &document)));
        }
    }

    /// Waits for the disk, not for long.
    pub(crate) async fn finish(mut self) {
        let written = std::future::poll_fn(|cx| match self.poll(cx) {
            Poll::Pending if self.writing.is_some() => Poll::Pending,
            Poll::Pending | Poll::Ready(_) => Poll::Ready(()),
        });
        let _ = tokio::time::timeout(PATIENCE, written).await;
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let file = options.open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > MAX_DOCUMENT as u64 || !is_ours(&about) {
        return None;
    }
    // That it was used.
    let _ = file.set_modified(SystemTime::now());
    let mut document = Vec::new();
    file.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut document).ok()?;
    Some(document)
}

/// Whether a file is this user's, and nobody else may write to it or read it.
#[cfg(unix)]
fn is_ours(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0
}

/// A folder of the user's profile is the user's.
#[cfg(windows)]
const fn is_ours(_: &fs::Metadata) -> bool {
    true
}

/// Puts a document in the place of the file. Not synced: what a crash of the system leaves is read whole, or as none.
fn write(path: &Path, document: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    // Two sessions of one command write at once; each has a name of its own.
    let beside = path.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
    let _ = fs::remove_file(&beside);
    let written =
        create(&beside).and_then(|mut file| file.write_all(document)).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    prune(folder);
    written
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes what has been used least, beyond the bound, and what killed writers have left.
fn prune(folder: &Path) {
    let now = SystemTime::now();
    let Ok(found) = fs::read_dir(folder) else { return };
    let mut known = Vec::new();
    for one in found.flatten() {
        let path = one.path();
        let Some(at) = one.metadata().ok().filter(fs::Metadata::is_file).and_then(|about| about.modified().ok()) else {
            continue;
        };
        let is = |ending: &str| path.extension().is_some_and(|kind| kind == ending);
        if is("json") {
            known.push((at, path));
        } else if is(UNFINISHED) && now.duration_since(at).is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(&path);
        }
    }
    known.sort();
    let beyond = known.len().saturating_sub(MAX_FILES);
    for (_, path) in known.into_iter().take(beyond) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const DOCUMENT: &str =
        r#"{"format":1,"welcomes":[{"opener":"initialize","client":{"version":"1"},"answer":{},"lists":{}}]}"#;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    fn known(path: &Path) -> bool {
        !KeptWelcome::new(path.into()).read().is_empty()
    }

    #[test]
    fn what_was_written_is_read_by_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("welcome/one.json");
        assert!(!known(&path), "there is none");
        write(&path, DOCUMENT.as_bytes()).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(known(&path));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!known(&path), "others could have read it");
        write(&path, DOCUMENT.as_bytes()).unwrap();
        assert_eq!(mode(&path), 0o600, "it was replaced");
        let link = path.with_file_name("link.json");
        symlink(&path, &link).unwrap();
        assert!(known(&path) && !known(&link), "a link leads anywhere");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_is_corrupt_truncated_or_huge_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.json");
        let half = &DOCUMENT[..DOCUMENT.len() / 2];
        let huge = format!("{DOCUMENT}{}", " ".repeat(MAX_DOCUMENT));
        for (name, document) in [("empty", ""), ("half", half), ("huge", &*huge), ("not JSON", "\u{0}\u{1}")] {
            write(&path, document.as_bytes()).unwrap();
            assert!(!known(&path), "{name}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(!known(&path), "a folder");
        assert!(write(&path, DOCUMENT.as_bytes()).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn the_file_that_was_not_used_for_longest_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number: usize| folder.path().join(format!("{number}.json"));
        let now = SystemTime::now();
        for number in 0..MAX_FILES + 2 {
            fs::write(path(number), DOCUMENT).unwrap();
            fs::set_permissions(path(number), fs::Permissions::from_mode(0o600)).unwrap();
            let age = Duration::from_secs(1000 - number as u64);
            File::options().write(true).open(path(number)).unwrap().set_modified(now - age).unwrap();
        }
        assert!(known(&path(0)), "used now");
        write(&path(1000), DOCUMENT.as_bytes()).unwrap();
        let left = |number| path(number).exists();
        assert!(left(0) && !left(1) && !left(2) && !left(3) && left(4) && left(1000));
    }
}
