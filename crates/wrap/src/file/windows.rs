//! What Windows has of that: a file that is read-only. Who may use the new file is inherited from its folder.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::Path,
};

use crate::file::FileError;

pub(super) fn check_writable(about: &Metadata) -> Result<(), FileError> {
    if about.permissions().readonly() { Err(FileError::ReadOnly) } else { Ok(()) }
}

/// The folders of a user are closed to others by themselves.
pub(crate) const fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
pub(super) const fn copy_attributes(_: &Path, _: &File) -> Result<(), FileError> {
    Ok(())
}

/// An open never waits here.
pub(crate) const fn never_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// A lock stays where it is, since its name is not free while it is open.
pub(super) const fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Leaves the lock where it is.
pub(super) const fn take_away(_: &File, _: &Path) {}

/// There is no exchange.
pub(super) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A folder cannot be synchronised.
#[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
pub(super) const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
