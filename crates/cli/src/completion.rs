//! How a command ended.

use std::process::ExitCode;

/// The exit code of every command but `run`, whose code is that of its server. Of several the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Completion {
    Whole = 0,
    /// Not all that was asked for is done, or known to be.
    Partial = 1,
    Failed = 2,
}

impl Completion {
    /// `Whole` if it holds, otherwise `Partial`.
    pub(crate) const fn whole_if(holds: bool) -> Self {
        if holds { Self::Whole } else { Self::Partial }
    }
}

impl From<Completion> for ExitCode {
    fn from(completion: Completion) -> Self {
        Self::from(completion as u8)
    }
}
