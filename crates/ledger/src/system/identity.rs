//! A process, and not only its number.

use serde::{Deserialize, Serialize};

use super as system;

/// A process, told from a later one with the same number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it started: on Linux in clock ticks since the system did, elsewhere in seconds since 1970.
    pub start: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` if none has, or it has ended and waits to be reaped.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        system::running(pid)
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it belongs to this user.
    #[must_use]
    pub fn is_own(self) -> bool {
        system::is_own(self)
    }

    /// Whether it still runs. One that has ended and waits to be reaped does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Whether two processes read from the same pipe or socket. Only Linux reports that; elsewhere it is `false`.
#[must_use]
pub fn shares_input(one: ProcessId, other: ProcessId) -> bool {
    system::shares_input(one, other)
}

/// The numbers of the ancestors of this process, its parent first, as far as the system tells.
pub fn ancestors() -> impl Iterator<Item = u32> {
    system::ancestors()
}

/// The number of this user. Windows has none: there it is 0, and [`ProcessId::is_own`] tells.
#[must_use]
pub fn user() -> u32 {
    #[cfg(unix)]
    return rustix::process::geteuid().as_raw();
    #[cfg(windows)]
    return 0;
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive() && system::Held::of(own).is_some());
        let earlier = ProcessId { start: own.start - 1, ..own };
        assert!(!earlier.is_alive() && system::Held::of(earlier).is_none());
    }

    #[test]
    fn a_process_that_waits_to_be_reaped_has_ended() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        let held = system::Held::of(id).unwrap();
        drop(child.stdin.take());
        while system::wait(&[&held], std::time::Duration::MAX) != [true] {}
        assert!(!id.is_alive());
        child.wait().unwrap();
        assert!(!id.is_alive());
    }
}
