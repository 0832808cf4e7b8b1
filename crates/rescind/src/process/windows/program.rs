//! Which file a command names.

use std::{ffi::OsStr, path::PathBuf};

/// Finds the file that a shell would start: with the extensions of `PATHEXT`, so that `npx` is `npx.cmd`. The standard
/// library adds `.exe` only; it quotes the arguments of a batch file once that is named with its extension. What is not
/// found is left to the system, which looks into more folders.
pub(crate) fn find(program: &OsStr) -> PathBuf {
    which::which(program).unwrap_or_else(|_| program.into())
}
