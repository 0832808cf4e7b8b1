//! Work that goes on behind a shim, and commands that run while the test plays its server.

use std::{
    fs::File,
    io::{BufRead, BufReader, Lines, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rescind_testkit::puppet::Rig;
use serde_json::Value;
use tempfile::TempDir;

use super::PROGRAM;
use crate::operator::{Said, command, say};

/// Work: a process that goes on until its server ends it.
pub(crate) struct Work(Child);

impl Work {
    pub(crate) fn begin() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn goes_on(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.goes_on() {
            self.end();
        }
    }
}

/// A command that runs while the test plays the server.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(sockets: &Path, arguments: &[&str]) -> Self {
        Self(command(sockets, arguments).spawn().unwrap())
    }

    pub(crate) fn end(self) -> Said {
        let output = self.0.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Said { stdout: text(output.stdout), stderr: text(output.stderr), code }
    }
}

/// Runs a command beside the session, whose server the test is meanwhile.
pub(crate) fn beside(rig: &mut Rig, arguments: &[&str], serve: impl FnOnce(&mut Rig)) -> Said {
    let running = Running::start(&rig.sockets, arguments);
    serve(rig);
    running.end()
}

/// Whether a command said such a line.
pub(crate) fn has(said: &Said, beginning: &str) -> bool {
    said.stdout.lines().any(|line| line.starts_with(beginning))
}

/// The next message of the shim's own to the server: its method, its id and its params.
pub(crate) fn own_message(rig: &mut Rig) -> (String, Value, Value) {
    let message: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    (message["method"].as_str().unwrap().to_owned(), message["id"].clone(), message["params"].clone())
}

/// A program whose work writes into pipes for as long as it goes on.
pub(crate) struct Beating {
    program: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    pipes: Vec<PathBuf>,
    beats: Vec<BufReader<File>>,
    folder: TempDir,
}

impl Beating {
    /// Starts it with the paths of its pipes and then these arguments, its shim's socket in a folder of its own.
    pub(crate) fn start(mut command: Command, pipes: &[&str], arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pipes: Vec<_> = pipes.iter().map(|name| folder.path().join(name)).collect();
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        command.args(&pipes).args(arguments).env("RESCIND_RUNTIME_DIR", folder.path().join("sockets"));
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, lines) = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()).lines());
        Self { program, stdin, lines, pipes, beats: Vec::new(), folder }
    }

    /// A shim with a server in a shell, which finds its pipes as `$0`, `$1` and so on.
    pub(crate) fn shell(script: &str, pipes: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["run", "sh", "-c", script]);
        Self::start(command, pipes, &[])
    }

    /// Its client sends a line.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// The next such line that its client receives.
    pub(crate) fn until(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        self.lines.by_ref().map(Result::unwrap).find(|line| is_wanted(line)).expect("it comes")
    }

    /// All of its work beats.
    pub(crate) fn expect_work(&mut self) {
        self.beats = self.pipes.iter().map(|pipe| BufReader::new(File::open(pipe).unwrap())).collect();
        for beats in &mut self.beats {
            let mut beat = String::new();
            beats.read_line(&mut beat).unwrap();
            assert_eq!(beat, "beat\n", "it works");
        }
    }

    /// Returns when nothing has this pipe open any more.
    pub(crate) fn expect_work_is_over(&mut self, which: usize) {
        self.beats[which].read_to_end(&mut Vec::new()).unwrap();
    }

    /// Runs a command beside it.
    pub(crate) fn say(&self, arguments: &[&str]) -> Said {
        say(&self.folder.path().join("sockets"), arguments)
    }

    /// Its client ends, and so does it; nothing has ended its server. Returns what else its client has received.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.stdin);
        assert!(self.program.wait().unwrap().success(), "its server was not ended");
        self.lines.map(Result::unwrap).collect()
    }
}
