//! Marks: lines in which the work itself reports its start and its end, beside any protocol.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, PipeWriter, Write},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

/// The environment variable that names the file or pipe to write marks to. Without it none are written.
pub(crate) const VARIABLE: &str = "RESCIND_SAMPLE_MARKS";

/// A writer of marks.
#[derive(Debug)]
pub(crate) struct Marks(Option<File>);

impl Marks {
    /// Opens the file or pipe that the environment names.
    pub(crate) fn from_environment() -> io::Result<Self> {
        let opened = env::var_os(VARIABLE).map(|path| File::options().append(true).create(true).open(path));
        opened.transpose().map(Self).map_err(about_variable)
    }

    /// Does the same, and fails if the environment names none.
    pub(crate) fn required() -> io::Result<Self> {
        match Self::from_environment()? {
            Self(None) => Err(about_variable(io::Error::new(io::ErrorKind::NotFound, "not set"))),
            marks => Ok(marks),
        }
    }

    /// Writes to this pipe. This process may hold its other end.
    pub(crate) fn to(pipe: PipeWriter) -> Self {
        Self(Some(File::from(OwnedFd::from(pipe))))
    }

    /// Writes a line at once, so that lines of several threads and processes do not mix.
    pub(crate) fn write(&self, mark: &impl Serialize) -> io::Result<()> {
        let Some(mut file) = self.0.as_ref() else { return Ok(()) };
        let mut line = serde_json::to_vec(mark)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

fn about_variable(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{VARIABLE}: {error}"))
}

/// Lets children inherit a pipe, and returns the path by which they open it.
pub(crate) fn inherited(pipe: &PipeWriter) -> io::Result<OsString> {
    fcntl_setfd(pipe, FdFlags::empty())?;
    Ok(format!("/dev/fd/{}", pipe.as_raw_fd()).into())
}
