//! Marks: lines in which the work itself reports its start and its end, beside any protocol.

use std::{
    env,
    fs::File,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

/// The environment variable that names the file or pipe to write marks to. Without it none are written.
pub(crate) const VARIABLE: &str = "RESCIND_SAMPLE_MARKS";

/// A writer of marks.
#[derive(Debug)]
pub(crate) struct Marks(Option<File>);

impl Marks {
    /// Opens the file or pipe that the environment names.
    pub(crate) fn from_environment() -> io::Result<Self> {
        let opened = env::var_os(VARIABLE).map(|path| open(path.as_ref()));
        opened.transpose().map(Self).map_err(about_variable)
    }

    /// Does the same, and fails if the environment names none.
    pub(crate) fn required() -> io::Result<Self> {
        match Self::from_environment()? {
            Self(None) => Err(about_variable(io::Error::new(io::ErrorKind::NotFound, "not set"))),
            marks => Ok(marks),
        }
    }

    /// Writes to this pipe.
    pub(crate) const fn to(pipe: File) -> Self {
        Self(Some(pipe))
    }

    /// Writes a line at once, so that lines of several threads and processes do not mix.
    pub(crate) fn write(&self, mark: &impl Serialize) -> io::Result<()> {
        let Some(mut file) = self.0.as_ref() else { return Ok(()) };
        let mut line = serde_json::to_vec(mark)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// On Windows the right to append to a pipe is another than that to write to it.
fn open(path: &Path) -> io::Result<File> {
    if cfg!(windows) && path.starts_with(r"\\.\pipe") {
        File::options().write(true).open(path)
    } else {
        File::options().append(true).create(true).open(path)
    }
}

fn about_variable(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{VARIABLE}: {error}"))
}
