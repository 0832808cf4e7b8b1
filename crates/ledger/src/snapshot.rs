//! The processes of this system at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{identity::ProcessId, mark::Mark, system};

/// All processes that run, by number.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) processes: BTreeMap<u32, Process>,
}

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

impl Snapshot {
    /// Reads what the system tells. A process that begins or ends meanwhile may be missing.
    #[must_use]
    pub fn take() -> Self {
        Self { processes: system::processes().map(|process| (process.id.pid, process)).collect() }
    }

    /// The process with this identity.
    #[must_use]
    pub fn get(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(&id.pid).filter(|process| process.id == id)
    }

    /// Those of `ids` that run, and their descendants.
    #[must_use]
    pub fn with_descendants(&self, ids: &BTreeSet<ProcessId>) -> Vec<ProcessId> {
        let below = |process: &&Process| self.ancestors(process).any(|ancestor| ids.contains(&ancestor.id));
        let chosen = self.processes.values().filter(|process| ids.contains(&process.id) || below(process));
        chosen.map(|process| process.id).collect()
    }

    /// The ancestors of a process, its parent first.
    pub(crate) fn ancestors<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Process> {
        let parent = |process: &&Process| {
            let parent = self.processes.get(&process.parent)?;
            // A number that is used again between two reads cannot make a circle.
            (parent.id.start <= process.id.start && parent.id != process.id).then_some(parent)
        };
        std::iter::successors(Some(process), parent).skip(1).take(self.processes.len())
    }
}

impl Process {
    /// Its arguments, the first being the name it was called by; empty if it has ended or hides them.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        system::arguments(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_ancestors() {
        let snapshot = Snapshot::take();
        let own = snapshot.get(ProcessId::own().unwrap()).unwrap();
        assert!(own.memory > 0 && own.age < Duration::from_secs(3600));
        assert!(own.arguments()[0].contains("rescind_ledger"));
        let parent = snapshot.ancestors(own).next().unwrap();
        assert_eq!(parent.id.pid, std::os::unix::process::parent_id());
    }
}
