//! The process that started this one.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pid: Pid,
    start: u64,
}

impl Parent {
    /// `None` if it has ended already.
    pub(crate) fn now() -> Option<Self> {
        let own = sysinfo::get_current_pid().ok()?;
        let pid = read(own)?.parent?;
        let (parent, own) = (read(pid)?, read(own)?);
        // A process that is younger has only the number of the parent.
        (parent.start <= own.start).then_some(Self { pid, start: parent.start })
    }

    pub(crate) fn is_alive(self) -> bool {
        read(self.pid).is_some_and(|now| now.start == self.start)
    }
}

struct Found {
    parent: Option<Pid>,
    start: u64,
}

fn read(pid: Pid) -> Option<Found> {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    let process = system.process(pid)?;
    Some(Found { parent: process.parent(), start: process.start_time() })
}
