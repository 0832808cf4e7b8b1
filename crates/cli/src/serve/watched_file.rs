//! A file that is to be read again when it has changed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::task::spawn_blocking;

/// Between two looks. Half a file may have been written: it is read when it was the same at two of them.
const LOOKS: Duration = Duration::from_secs(1);

/// A file, and what it looked like when it was read.
#[derive(Debug)]
pub(super) struct WatchedFile {
    path: PathBuf,
    read: Look,
}

/// What shows that a file was changed; `None` of one that is not there, or cannot be looked at.
type Look = Option<(SystemTime, u64)>;

impl WatchedFile {
    /// A file that is about to be read: what is written from now on is a change.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: look(path).ok() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until it has changed, or is gone or back.
    pub(super) async fn changed(&mut self) {
        let mut last = self.read;
        loop {
            tokio::time::sleep(LOOKS).await;
            let path = self.path.clone();
            // A network may be in between.
            let now = spawn_blocking(move || look(&path).ok()).await.unwrap_or_default();
            if now == last && now != self.read {
                self.read = now;
                return;
            }
            last = now;
        }
    }
}

fn look(path: &Path) -> io::Result<(SystemTime, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.modified()?, found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str, at: u64) {
        fs::write(path, text).unwrap();
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at)).unwrap();
    }

    /// Whether it changes within so many looks.
    async fn changes(file: &mut WatchedFile, looks: u32) -> bool {
        tokio::time::timeout(LOOKS * looks + LOOKS / 2, file.changed()).await.is_ok()
    }

    // The clock is paused, and jumps once the look on another thread is over.
    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_once_when_it_was_the_same_for_two_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        write(&path, "one", 1);
        let mut file = WatchedFile::new(&path);
        assert!(!changes(&mut file, 3).await, "nothing has changed");
        write(&path, "two", 2);
        assert!(!changes(&mut file, 1).await, "it may be half of it");
        assert!(changes(&mut file, 2).await);
        assert!(!changes(&mut file, 3).await, "that was told");
        fs::remove_file(&path).unwrap();
        assert!(changes(&mut file, 2).await, "it is gone");
        write(&path, "two", 2);
        assert!(changes(&mut file, 2).await, "it is back");
    }
}
