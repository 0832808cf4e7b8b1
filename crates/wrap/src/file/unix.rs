//! Modes, owners, attributes, and the exchange of two files.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{CWD, OFlags, RenameFlags};

pub(super) use crate::attributes::copy as copy_attributes;
use crate::file::FileError;

pub(super) fn check_writable(about: &Metadata) -> Result<(), FileError> {
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(FileError::OfAnother);
    }
    if about.mode() & 0o200 == 0 {
        return Err(FileError::ReadOnly);
    }
    if about.nlink() > 1 {
        return Err(FileError::Linked(about.nlink()));
    }
    Ok(())
}

/// Has a file be closed to others when it is created.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    never_waiting(options).mode(0o600)
}

/// Has an open of a pipe fail or return at once.
pub(crate) fn never_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed())
}

/// Whether this file is still the one of this name.
pub(super) fn is_at(file: &File, name: &Path) -> bool {
    let same = |one: &Metadata, other: &Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    matches!((file.metadata(), std::fs::symlink_metadata(name)), (Ok(one), Ok(other)) if same(&one, &other))
}

/// Removes a lock that is held: those who wait for it look for its name again.
pub(super) fn take_away(lock: &File, name: &Path) {
    if is_at(lock, name) {
        let _ = std::fs::remove_file(name);
    }
}

/// Has two files change places.
pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(io::Error::from)
}

/// Has the names in the folder of a file survive a power cut.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
