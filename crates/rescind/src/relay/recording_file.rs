//! The file of a recording: private, and no other file that is overwritten by mistake.

use std::{
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf, is_separator},
};

/// The most files of one name in a folder of recordings.
const MAX_SAME_NAME: u32 = 1000;

/// The beginning of every recording.
const BEGINNING: &[u8] = br#"{"rescind":"recording""#;

/// Why a recording cannot be begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be opened for writing.
    #[error("{0}")]
    Open(#[source] io::Error),
    /// It is a symbolic link, which is not followed.
    #[error("is a symbolic link")]
    Link,
    /// It holds something else, which would be overwritten.
    #[error("exists and is not a recording")]
    NotARecording,
    /// Another process is recording to it.
    #[error("another session is recording to it")]
    InUse,
    /// A folder was meant, and this is something else.
    #[error("is not a folder")]
    NotAFolder,
}

/// Whether recordings go into a folder at `path`, each to a file of its own: it is one, or ends with a slash.
#[must_use]
pub fn is_recording_folder(path: &Path) -> bool {
    let ends_with_slash = path.as_os_str().as_encoded_bytes().last().is_some_and(|end| is_separator(char::from(*end)));
    ends_with_slash || path.is_dir()
}

/// A file opened for a recording.
#[derive(Debug)]
pub struct RecordingFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl RecordingFile {
    /// Creates `path` with mode 0600, or opens an earlier recording, which is overwritten. On Windows it is as private as its
    /// folder.
    ///
    /// A path below `/dev/fd` is a descriptor that this process inherited, such as a pipe; one below `\\.\pipe` on Windows
    /// is a named pipe.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or holds anything but an earlier recording.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let file = platform::open(path)?;
        if platform::is_file(path, &file).map_err(RecordError::Open)? {
            claim(&file)?;
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// Creates a new file in `folder`, with mode 0600: `NAME.jsonl`, or `NAME-2.jsonl` and so on where that is taken, so that
    /// nothing is overwritten and no session is kept from recording by another. The folder is made, with mode 0700, if what
    /// holds it exists. `name` must be fit for a file.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made, or no file in it.
    pub fn create_in(folder: &Path, name: &str) -> Result<Self, RecordError> {
        match platform::make_folder(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(RecordError::Open(error)),
            // Another session may have made it meanwhile.
            Ok(()) | Err(_) if folder.is_dir() => {}
            Ok(()) | Err(_) => return Err(RecordError::NotAFolder),
        }
        let mut number = 1;
        loop {
            let path = match number {
                1 => folder.join(format!("{name}.jsonl")),
                _ => folder.join(format!("{name}-{number}.jsonl")),
            };
            match platform::create(&path) {
                Ok(file) => {
                    platform::lock(&file)?;
                    return Ok(Self { file, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_SAME_NAME => number += 1,
                Err(error) => return Err(RecordError::Open(error)),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a file private and empty, and locks it while it is open.
fn claim(mut file: &File) -> Result<(), RecordError> {
    platform::lock(file)?;
    let mut beginning = [0; BEGINNING.len()];
    if file.metadata().map_err(RecordError::Open)?.len() > 0 {
        let same = file.read_exact(&mut beginning).is_ok() && beginning == BEGINNING;
        if !same {
            return Err(RecordError::NotARecording);
        }
    }
    platform::close_to_others(file).map_err(RecordError::Open)?;
    file.set_len(0).and_then(|()| file.rewind()).map_err(RecordError::Open)
}

#[cfg(unix)]
mod platform {
    use std::fs::TryLockError;

    use rustix::fs::{Mode, OFlags};

    use super::{File, Path, RecordError, io};

    /// The mode of a recording, which holds every message.
    const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

    pub(super) fn open(path: &Path) -> Result<File, RecordError> {
        let fd = if path.starts_with("/dev/fd") {
            rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
        } else {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
            rustix::fs::open(path, flags, PRIVATE)
        };
        fd.map(File::from).map_err(|error| match error {
            rustix::io::Errno::LOOP => RecordError::Link,
            error => RecordError::Open(error.into()),
        })
    }

    pub(super) fn create(path: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, PRIVATE)?);
        // A umask may have taken the owner's own rights.
        close_to_others(&file)?;
        Ok(file)
    }

    pub(super) fn make_folder(path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().mode(0o700).create(path)
    }

    /// Pipes and terminals are used as they are.
    pub(super) fn is_file(_: &Path, file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.is_file())
    }

    pub(super) fn lock(file: &File) -> Result<(), RecordError> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(RecordError::InUse),
            // Some file systems have no locks. Then two recordings to one file are not prevented.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    pub(super) fn close_to_others(file: &File) -> io::Result<()> {
        Ok(rustix::fs::fchmod(file, PRIVATE)?)
    }
}

#[cfg(windows)]
mod platform {
    use std::{fs::OpenOptions, os::windows::fs::OpenOptionsExt};

    use windows::Win32::{
        Foundation::ERROR_SHARING_VIOLATION,
        Storage::FileSystem::{FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, SECURITY_IDENTIFICATION},
    };

    use super::{File, Path, RecordError, io};

    /// Others may read it meanwhile, and none may write: with a lock they could not read either.
    pub(super) fn open(path: &Path) -> Result<File, RecordError> {
        let mut options = OpenOptions::new();
        if is_pipe(path) {
            // The process that serves it may not act as this user.
            return options
                .write(true)
                .security_qos_flags(SECURITY_IDENTIFICATION.0)
                .open(path)
                .map_err(RecordError::Open);
        }
        options.read(true).write(true).create(true).truncate(false);
        options.share_mode(FILE_SHARE_READ.0).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT.0);
        let in_use = i32::try_from(ERROR_SHARING_VIOLATION.0).ok();
        let file = options.open(path).map_err(|error| match error.raw_os_error() {
            code if code == in_use => RecordError::InUse,
            _ => RecordError::Open(error),
        })?;
        let about = file.metadata().map_err(RecordError::Open)?;
        if about.is_symlink() { Err(RecordError::Link) } else { Ok(file) }
    }

    pub(super) fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).share_mode(FILE_SHARE_READ.0).open(path)
    }

    pub(super) fn make_folder(path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn is_pipe(path: &Path) -> bool {
        path.starts_with(r"\\.\pipe")
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(super) fn is_file(path: &Path, _: &File) -> io::Result<bool> {
        Ok(!is_pipe(path))
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(super) const fn lock(_: &File) -> Result<(), RecordError> {
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(super) const fn close_to_others(_: &File) -> io::Result<()> {
        Ok(())
    }
}
