//! Which file a command names.

use std::{ffi::OsStr, io, path::PathBuf};

/// Finds the file that a shell would start: with the extensions of `PATHEXT`, so that `npx` is `npx.cmd`. The standard
/// library knows `.exe` only, and quotes the arguments of a batch file once it is named.
///
/// # Errors
///
/// There is none.
pub(crate) fn find(program: &OsStr) -> io::Result<PathBuf> {
    which::which(program).map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
}
