//! The file of a log.

use std::{
    fs::{File, OpenOptions},
    io,
    path::PathBuf,
};

use super::path;
use crate::failure::Failure;

/// Opens the log at this path, or on stderr.
pub(super) fn open(path: Option<PathBuf>) -> Result<File, Failure> {
    let Some(path) = path else {
        return stderr().map_err(|error| Failure::new("stderr", error, "check the limit on open files (ulimit -n)"));
    };
    match open_file(&path) {
        Ok((file, true)) => Ok(file),
        Ok((_, false)) => {
            Err(Failure::new(path.display(), "belongs to another user, who could read it", "name a new file"))
        }
        #[cfg(unix)]
        Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::NXIO) => {
            let hint = "start its reader first, or name a file";
            Err(Failure::new(path.display(), "is a pipe without a reader", hint))
        }
        Err(error) => Err(Failure::new(path.display(), &error, path::remedy(&path, &error))),
    }
}

#[cfg(unix)]
fn stderr() -> io::Result<File> {
    use std::os::fd::AsFd;
    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn stderr() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    io::stderr().as_handle().try_clone_to_owned().map(File::from)
}

/// Opens a file to append to, and makes it private, since it may hold secrets; `false` if it belongs to another user.
#[cfg(unix)]
fn open_file(path: &std::path::Path) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;
    // Opening a pipe would otherwise wait for a reader.
    let without_waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(without_waiting.bits().cast_signed());
    let file = options.open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    let is_ours = make_private(&file)?;
    Ok((file, is_ours))
}

/// Opens a file to append to. It is as private as its folder.
#[cfg(windows)]
fn open_file(path: &std::path::Path) -> io::Result<(File, bool)> {
    Ok((OpenOptions::new().append(true).create(true).open(path)?, true))
}

/// Makes an existing log private; `false` if it belongs to another user. Pipes and devices are used as they are.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(true);
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    rustix::fs::fchmod(file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    Ok(true)
}
