//! A pipe whose writing end the processes inherit. They open it again by its number.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeWriter},
    os::fd::{AsRawFd, OwnedFd},
    thread,
};

use rustix::io::{FdFlags, fcntl_setfd};

use super::Report;

/// The writing end. As long as it is kept the pipe does not end, and processes that start inherit it.
#[derive(Debug)]
pub(crate) struct Entrance(PipeWriter);

/// Opens a pipe and calls `each` on another thread with every report. At the end of the pipe it drops `each`.
pub(crate) fn open(each: impl FnMut(Report) + Clone + Send + 'static) -> io::Result<Entrance> {
    let (reader, writer) = io::pipe()?;
    fcntl_setfd(&writer, FdFlags::empty())?;
    thread::spawn(move || super::lines(reader).map(Report::Line).for_each(each));
    Ok(Entrance(writer))
}

impl Entrance {
    /// The path by which a process that has inherited it opens it.
    pub(crate) fn path(&self) -> OsString {
        format!("/dev/fd/{}", self.0.as_raw_fd()).into()
    }

    /// The same end for this process, which others do not inherit.
    pub(crate) fn writer(&self) -> io::Result<File> {
        Ok(File::from(OwnedFd::from(self.0.try_clone()?)))
    }
}
