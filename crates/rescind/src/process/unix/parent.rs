//! The process that started this one, where the system has no descriptor for it.

use rustix::process::{Pid, getppid};

/// The number of a process that started this one. Once that has ended, another adopts this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent(Pid);

impl Parent {
    /// `None` if it cannot be told.
    pub(crate) fn now() -> Option<Self> {
        getppid().map(Self)
    }

    pub(crate) fn is_alive(self) -> bool {
        getppid() == Some(self.0)
    }
}
