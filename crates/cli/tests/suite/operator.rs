//! `rescind ps`, `rescind cancel` and `rescind console`, with scripted shims and with real ones.

mod cancel;
mod connections;
mod console;
mod dumb;
mod names;
mod ps;
mod real;
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rescind_feed::Session;
use rescind_testkit::fake_shim::{self, FakeShim};

use crate::shim::PROGRAM;

/// A directory of sockets, removed when the test ends.
struct Sockets {
    path: PathBuf,
    _around: tempfile::TempDir,
}

/// What a command said to its end.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Sockets {
    fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        let path = around.path().join("sockets");
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self { path, _around: around }
    }

    fn shim(&self, name: &str) -> FakeShim {
        self.shim_of(fake_shim::session(name, &["/opt/server", "--flag"]))
    }

    fn shim_of(&self, session: Session) -> FakeShim {
        FakeShim::open(&self.path, session)
    }

    fn say(&self, arguments: &[&str]) -> Said {
        say(&self.path, arguments)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        command(&self.path, arguments)
    }
}

/// The command, with nobody at its terminal.
pub(crate) fn command(sockets: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("RESCIND_RUNTIME_DIR", sockets).env_remove("NO_COLOR").env("TERM", "xterm");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn say(sockets: &Path, arguments: &[&str]) -> Said {
    end(command(sockets, arguments))
}

pub(crate) fn end(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Said { stdout: text(output.stdout), stderr: text(output.stderr), code }
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}
