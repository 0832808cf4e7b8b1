//! Work that tells whether it goes on, as a process and in a container.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use rescind_ledger::identity::ProcessId;

/// What a shell does: it repeats every line.
pub(crate) const ECHO: &str = "echo ready; while read line; do echo $line; done";

/// Something that runs [`ECHO`], until its input ends or it is ended.
pub(crate) struct Worker {
    child: Child,
    said: BufReader<ChildStdout>,
    /// The process that the test has started.
    pub(crate) id: ProcessId,
}

impl Worker {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let id = ProcessId::of(child.id()).unwrap();
        Self { child, said, id }
    }

    /// Asks it whether it works. One that has ended says nothing.
    pub(crate) fn works(&mut self) -> bool {
        let _ = self.child.stdin.as_mut().unwrap().write_all(b"here\n");
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap() > 0
    }

    /// Waits until it has ended.
    pub(crate) fn expect_end(&mut self) {
        let mut line = String::new();
        assert_eq!(self.said.read_line(&mut line).unwrap(), 0, "{line}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
