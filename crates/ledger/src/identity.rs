//! A process, and not only its number.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the system did.
    pub start: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` if none has, or it has ended and waits to be reaped.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()?;
        is_running(stat.state).then_some(Self { pid, start: stat.starttime })
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs. One that has ended and waits to be reaped does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// A descriptor of it, for signals that reach no later process with its number. `None` if it has ended.
    #[must_use]
    pub(crate) fn hold(self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // The number may have been reused before it was opened.
        self.is_alive().then_some(held)
    }
}

/// Whether a process in this state of `/proc/PID/stat` still runs.
pub(crate) const fn is_running(state: char) -> bool {
    !matches!(state, 'Z' | 'X' | 'x')
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive() && own.hold().is_some());
        let earlier = ProcessId { start: own.start - 1, ..own };
        assert!(!earlier.is_alive() && earlier.hold().is_none());
    }

    #[test]
    fn a_process_that_waits_to_be_reaped_has_ended() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        drop(child.stdin.take());
        let held = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let mut ends = [rustix::event::PollFd::new(&held, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ends, None).unwrap();
        assert!(!id.is_alive());
        child.wait().unwrap();
        assert!(!id.is_alive());
    }
}
