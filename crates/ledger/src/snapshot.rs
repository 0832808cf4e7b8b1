//! The processes of this system at one moment.

use std::collections::{BTreeMap, BTreeSet};

pub use crate::system::process::Process;
use crate::system::{self, identity::ProcessId};

/// All processes that run, by number.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) processes: BTreeMap<u32, Process>,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
