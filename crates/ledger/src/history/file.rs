//! One file of the history, which a session has for itself while it writes.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
    time::SystemTime,
};

use super::SLOT_SIZE;

/// A file that this process has created and writes to. Nobody else removes it until this is dropped.
#[derive(Debug)]
pub(super) struct OwnFile {
    file: File,
    /// What was written whole.
    length: u64,
}

impl OwnFile {
    /// Creates the file, with mode 0600; `None` if another process was first.
    pub(super) fn create(path: &Path) -> io::Result<Option<Self>> {
        match platform::create(path) {
            Ok(file) => Ok(file.map(Self::of)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is written to an open file.
    pub(super) const fn of(file: File) -> Self {
        Self { file, length: 0 }
    }

    /// Whether it has not been deleted meanwhile.
    pub(super) fn is_there(&self) -> bool {
        platform::is_there(&self.file)
    }

    /// How many bytes it still takes. A write beyond the limit on the sizes of files would end the process by a signal.
    pub(super) fn room(&self) -> usize {
        let most = platform::size_limit().map_or(SLOT_SIZE, |most| most.min(SLOT_SIZE));
        usize::try_from(most.saturating_sub(self.length)).unwrap_or(0)
    }

    /// Removes all that was written.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        Ok(())
    }

    /// Appends whole lines, with one write unless the disk is full. If that fails, nothing of them stays.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.len() > self.room() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.seek(SeekFrom::Start(self.length))?;
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.length += lines.len() as u64,
            // If that fails, the next lines are written over what came of these.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }
}

/// Removes a file that was last written to at this time and belongs to no session that lives; whether it did.
pub(super) fn remove(path: &Path, modified: SystemTime) -> bool {
    platform::remove(path, modified)
}

/// Whether a session that lives writes to this file.
pub(super) fn is_live(path: &Path) -> bool {
    platform::is_live(path)
}

#[cfg(unix)]
mod platform {
    use std::{
        fs::{OpenOptions, TryLockError, remove_file, symlink_metadata},
        os::unix::fs::{MetadataExt, OpenOptionsExt},
    };

    use rustix::{
        fs::OFlags,
        process::{Resource, getrlimit},
    };

    use super::{File, Path, SystemTime, io};

    pub(super) fn create(path: &Path) -> io::Result<Option<File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        match file.try_lock() {
            // Between the two calls another process may have removed it.
            Ok(()) => Ok(Some(file).filter(is_there)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                let _ = remove_file(path);
                Err(error)
            }
        }
    }

    pub(super) fn is_there(file: &File) -> bool {
        file.metadata().is_ok_and(|about| about.nlink() > 0)
    }

    pub(super) fn remove(path: &Path, modified: SystemTime) -> bool {
        let Ok(file) = open(path, true) else { return false };
        // Who has the lock may remove what has this name, if it still is what was locked.
        let is_same = || {
            let (of_file, of_name) = (file.metadata().ok()?, symlink_metadata(path).ok()?);
            let is_unchanged = of_file.modified().ok()? == modified;
            Some(is_unchanged && (of_file.dev(), of_file.ino()) == (of_name.dev(), of_name.ino()))
        };
        file.try_lock().is_ok() && is_same() == Some(true) && remove_file(path).is_ok()
    }

    pub(super) fn is_live(path: &Path) -> bool {
        open(path, false).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// A lock of its own needs a file that may be written to on some file systems.
    fn open(path: &Path, writes: bool) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
    }

    pub(super) fn size_limit() -> Option<u64> {
        getrlimit(Resource::Fsize).current
    }
}

#[cfg(windows)]
mod platform {
    use std::{
        fs::{OpenOptions, metadata, remove_file},
        os::windows::fs::OpenOptionsExt,
    };

    use super::{File, Path, SystemTime, io};

    /// Others may read it, and neither write to it nor remove it: that is the lock.
    const FILE_SHARE_READ: u32 = 1;

    /// What another process does with a file does not allow it to be opened.
    const SHARING_VIOLATION: i32 = 32;

    pub(super) fn create(path: &Path) -> io::Result<Option<File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).share_mode(FILE_SHARE_READ).open(path);
        match file {
            Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
            file => file.map(Some),
        }
    }

    /// Nobody can delete it.
    pub(super) const fn is_there(_: &File) -> bool {
        true
    }

    pub(super) fn remove(path: &Path, modified: SystemTime) -> bool {
        metadata(path).and_then(|about| about.modified()).is_ok_and(|at| at == modified) && remove_file(path).is_ok()
    }

    pub(super) fn is_live(path: &Path) -> bool {
        let opened = OpenOptions::new().write(true).open(path);
        opened.is_err_and(|error| error.raw_os_error() == Some(SHARING_VIOLATION))
    }

    pub(super) const fn size_limit() -> Option<u64> {
        None
    }
}
