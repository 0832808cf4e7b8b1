//! Why something was not done.

use std::{error::Error, fmt};

use crate::{status::Status, task::Revision};

/// Why a store did not do what it was asked; nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The caller's: no such task, or one of another owner, or one whose ttl is over; they cannot be told apart
    /// (TASK-07, TASK-08). -32602 in both dialects.
    #[error("no such task")]
    NotFound,
    /// The caller's: a cursor that no list gave (TASK-07). -32602.
    #[error("not a cursor of this list")]
    BadCursor,
    /// The caller's: its owner has as many tasks as it may.
    #[error("the owner has {limit} tasks, which is the most it may have")]
    TooMany {
        /// [`Limits::tasks_per_owner`](crate::Limits::tasks_per_owner).
        limit: u32,
    },
    /// Whoever made it: a request, an outcome or a question that is larger than a store keeps.
    #[error("{bytes} bytes are more than the {limit} that are kept")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        limit: usize,
    },
    /// The calling code's: a step that is [not theirs](crate::Access::may), a client's end of somebody's work say.
    #[error("such a step is not theirs to take")]
    NotTheirs,
    /// Somebody else changed the task first: look at it again.
    #[error("the task has changed: it is at revision {}", found.0)]
    Conflict {
        /// Where it is.
        found: Revision,
    },
    /// The task has ended, and a terminal status is never left (TASK-01).
    #[error("the task has ended: it is {}", status.as_str())]
    Ended {
        /// How it ended.
        status: Status,
    },
    /// The work's: it says that it ended by a cancel, and no cancel is on record (D25).
    #[error("nobody has cancelled the task")]
    NotCancelled,
    /// The work's: the task was handed to somebody else meanwhile, or has ended already; this run of it is void.
    #[error("the task is run by somebody else, or by nobody any more")]
    Lost,
    /// The store's: it could not read or write.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// A store could not read or write. What it held before, it still holds.
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
    source: Box<dyn Error + Send + Sync>,
}

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Another program held the database for too long; trying again may help.
    Busy,
    /// The disk, or the space allowed, is full.
    Full,
    /// The database cannot be written to: a file or file system that is read-only, or permissions.
    ReadOnly,
    /// The file is damaged, or no database at all.
    Corrupt,
    /// A database of something else.
    Foreign,
    /// Written by a later version of this library, which this one cannot read.
    Newer,
    /// The file or its folder cannot be opened, read or written.
    Io,
    /// The store is closed.
    Closed,
    /// None of these: a fault of this library.
    Internal,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into() }
    }

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        self.kind
    }
}

impl FaultKind {
    const fn words(self) -> &'static str {
        match self {
            Self::Busy => "the task store is held by another program",
            Self::Full => "the task store has no room left",
            Self::ReadOnly => "the task store cannot be written to",
            Self::Corrupt => "the task store is damaged, or is no database",
            Self::Foreign => "the file is the database of something else",
            Self::Newer => "the task store was written by a later version",
            Self::Io => "the task store cannot be reached",
            Self::Closed => "the task store is closed",
            Self::Internal => "the task store failed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.words(), self.source)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
