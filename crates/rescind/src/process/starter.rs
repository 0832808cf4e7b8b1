//! How the process of a server is started, once more if need be.

use std::{ffi::OsString, io, path::PathBuf};

use super::{Pipes, group::Group};

/// A command, and what its processes get.
#[derive(Debug)]
pub(crate) struct Starter {
    launcher: PathBuf,
    command: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
    pipes_stderr: bool,
}

impl Starter {
    pub(crate) const fn new(
        launcher: PathBuf,
        command: Vec<OsString>,
        environment: Vec<(&'static str, String)>,
        pipes_stderr: bool,
    ) -> Self {
        Self { launcher, command, environment, pipes_stderr }
    }

    /// Starts it, as [`Group::start`].
    pub(crate) fn start(&self) -> io::Result<(Group, Pipes)> {
        Group::start(&self.launcher, &self.command, &self.environment, self.pipes_stderr)
    }
}
