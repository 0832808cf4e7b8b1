//! A process, as the system describes it.

use std::time::Duration;

use super::{identity::ProcessId, mark::Mark};

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number and start.
    pub id: ProcessId,
    /// The number of its parent.
    pub parent: u32,
    /// The number of its process group.
    pub group: u32,
    /// The number of its session, as the system means the word.
    pub session: u32,
    /// Its terminal, as the kernel numbers them.
    pub terminal: Option<u32>,
    /// It was stopped (SIGSTOP, or job control).
    pub is_stopped: bool,
    /// The memory that it holds, in bytes, with what it shares with others.
    pub memory: u64,
    /// The processor time that it has used.
    pub cpu: Duration,
    /// Its age.
    pub age: Duration,
    /// The name of its program, cut by the kernel after 15 bytes.
    pub name: String,
    /// The mark that it carries. None may be read from a process of another user.
    pub mark: Option<Mark>,
}

impl Process {
    /// Its arguments, the first being the name it was called by; empty if it has ended or hides them.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        super::arguments(self.id)
    }
}
