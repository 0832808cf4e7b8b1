//! How the process of a server is started, once more if need be.

use std::{ffi::OsString, io, path::PathBuf};

use super::{Pipes, group::Group};

/// A command, and what its processes get.
#[derive(Debug)]
pub(crate) struct Starter {
    launcher: PathBuf,
    command: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
}

impl Starter {
    pub(crate) const fn new(
        launcher: PathBuf,
        command: Vec<OsString>,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        Self { launcher, command, environment }
    }

    /// Starts it, as [`Group::start`].
    pub(crate) fn start(&self) -> io::Result<(Group, Pipes)> {
        Group::start(&self.launcher, &self.command, &self.environment)
    }
}
