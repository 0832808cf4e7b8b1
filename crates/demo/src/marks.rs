//! Marks: what the work of a sample process itself says of its beginning and its end, beside any protocol.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, PipeWriter, Write},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::io::{FdFlags, fcntl_setfd};
use serde::Serialize;

/// The environment variable that names the file or pipe that takes the marks. Without it there are none.
pub(crate) const VARIABLE: &str = "RESCIND_SAMPLE_MARKS";

/// Where marks go.
#[derive(Debug)]
pub(crate) struct Marks(Option<File>);

impl Marks {
    /// Those that the environment asks for.
    pub(crate) fn from_environment() -> io::Result<Self> {
        let opened = env::var_os(VARIABLE).map(|path| File::options().append(true).create(true).open(path));
        opened.transpose().map(Self).map_err(at_fault)
    }

    /// The same, for work that must not go on unobserved.
    pub(crate) fn required() -> io::Result<Self> {
        match Self::from_environment()? {
            Self(None) => Err(at_fault(io::Error::new(io::ErrorKind::NotFound, "not set"))),
            marks => Ok(marks),
        }
    }

    /// Into this pipe, of which this process may hold the other end.
    pub(crate) fn to(pipe: PipeWriter) -> Self {
        Self(Some(File::from(OwnedFd::from(pipe))))
    }

    /// One write a line, so that lines of several threads and processes do not mix.
    pub(crate) fn write(&self, mark: &impl Serialize) -> io::Result<()> {
        let Some(mut file) = self.0.as_ref() else { return Ok(()) };
        let mut line = serde_json::to_vec(mark)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

fn at_fault(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{VARIABLE}: {error}"))
}

/// Lets children inherit a pipe; the path by which they open it.
pub(crate) fn inherited(pipe: &PipeWriter) -> io::Result<OsString> {
    fcntl_setfd(pipe, FdFlags::empty())?;
    Ok(format!("/dev/fd/{}", pipe.as_raw_fd()).into())
}
