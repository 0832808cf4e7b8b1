//! Files of other programs, which may write them at the same moment.

mod turn;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

pub(crate) use platform::private;
pub use turn::Turn;
#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;

/// The longest file that is read, in bytes.
pub const LONGEST: u64 = 64 << 20;

/// A file as it was when it was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is, without links.
    path: PathBuf,
    bytes: Vec<u8>,
    permissions: fs::Permissions,
}

/// Why a file is not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is not there.
    #[error("there is no such file")]
    Missing,
    /// It is a folder, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is longer than [`LONGEST`].
    #[error("it is longer than 64 MiB")]
    TooLong,
    /// Its mode does not allow its owner to write it.
    #[error("it is read-only")]
    ReadOnly,
    /// It belongs to another user, who would not own the new file.
    #[error("it belongs to another user")]
    OfAnother,
    /// It has hard links, which would keep the old content.
    #[error("it has {0} hard links, and only this one would change")]
    Linked(u64),
    /// The new file cannot have this extended attribute or access control list of the old one.
    #[error("its attribute {0} cannot be kept: {1}")]
    Attribute(String, io::Error),
    /// Another program changed it at the same moment, at each attempt.
    #[error("another program keeps writing it")]
    Busy,
    /// Another program replaced it right after it was written.
    #[error("another program has overwritten it")]
    Overwritten,
    /// The system refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Snapshot {
    /// Reads a file, through links.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let path = fs::canonicalize(path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound { FileError::Missing } else { FileError::Io(error) }
        })?;
        let about = fs::metadata(&path)?;
        if !about.is_file() {
            return Err(FileError::NotAFile);
        }
        if about.len() > LONGEST {
            return Err(FileError::TooLong);
        }
        Ok(Self { bytes: content(&path)?, permissions: about.permissions(), path })
    }

    /// Where the file is, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was in it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Why it may not be replaced, if it may not.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check_writable(&self) -> Result<(), FileError> {
        platform::check_writable(&fs::metadata(&self.path)?)
    }

    /// A new version that a killed writer has left beside the file, or that is about to take its place.
    #[must_use]
    pub fn leftover(&self) -> Option<PathBuf> {
        turn::leftovers(&self.path).into_iter().next()
    }

    /// Puts these bytes in its place, as one step: at every moment the file is there, and is the old one or the new one.
    /// `false` if it was no longer what was read: then it is left as it is. What writers that were killed have left beside
    /// it goes.
    ///
    /// # Errors
    ///
    /// If the system refuses, or if something else has overwritten it right afterwards.
    pub fn replace(&self, turn: &Turn, new: &[u8]) -> Result<bool, FileError> {
        self.check_writable()?;
        for left in turn.leftovers() {
            let _ = fs::remove_file(left);
        }
        let (beside, file) = turn.create_beside()?;
        let done = self.replace_by(&beside, file, new);
        let _ = fs::remove_file(&beside);
        done
    }

    fn replace_by(&self, beside: &Path, mut file: File, new: &[u8]) -> Result<bool, FileError> {
        file.write_all(new)?;
        file.set_permissions(self.permissions.clone())?;
        platform::copy_attributes(&self.path, &file)?;
        file.sync_all()?;
        drop(file);
        if content(&self.path)? != self.bytes {
            return Ok(false);
        }
        if !self.put_in_place(beside, new)? {
            return Ok(false);
        }
        platform::sync_folder(&self.path)?;
        if content(&self.path)? == new { Ok(true) } else { Err(FileError::Overwritten) }
    }

    /// Puts the new file in the place of the old one. If another program writes the file at the same moment, its version
    /// comes out of the exchange and is put back: the latest version stays.
    fn put_in_place(&self, beside: &Path, new: &[u8]) -> Result<bool, FileError> {
        let (mut put, mut expected) = (new.to_vec(), self.bytes.clone());
        loop {
            match platform::exchange(beside, &self.path) {
                Ok(()) => {}
                // Not every file system can exchange. Then another program's write in this moment would be lost.
                Err(_) if put == new => {
                    fs::rename(beside, &self.path)?;
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            }
            let out = content(beside)?;
            if out == expected {
                return Ok(put == new);
            }
            expected = std::mem::replace(&mut put, out);
        }
    }
}

/// Opens a regular file, and nothing else: a pipe would wait for its other end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let check = |about: fs::Metadata| {
        let not_a_file = || io::Error::new(io::ErrorKind::InvalidInput, FileError::NotAFile);
        if about.is_file() { Ok(()) } else { Err(not_a_file()) }
    };
    check(fs::metadata(path)?)?;
    let file = platform::never_waiting(OpenOptions::new().read(true)).open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}

pub(crate) fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of at most [`LONGEST`] bytes as text.
///
/// # Errors
///
/// If it cannot be read, is a pipe, a device or a folder, is longer, or is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = content(path)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, FileError::TooLong));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
