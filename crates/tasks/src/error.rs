//! Errors of stores and of steps.

use std::{error::Error, fmt};

use crate::{revision::TaskRevision, status::Status};

/// Why a store rejected an operation. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The caller's fault: the task does not exist, has another owner, or its ttl has expired; the error is the same
    /// for all three (TASK-07, TASK-08). -32602 in both dialects.
    #[error("no such task")]
    NotFound,
    /// The caller's fault: no list returned this cursor (TASK-07). -32602.
    #[error("invalid cursor")]
    BadCursor,
    /// The caller's fault: the owner has as many tasks as allowed.
    #[error("the owner already has {limit} tasks, the most allowed")]
    TooMany {
        /// [`StoreLimits::tasks_per_owner`](crate::StoreLimits::tasks_per_owner).
        limit: u32,
    },
    /// The fault of its producer: a request, an outcome or a question exceeds the store's limit.
    #[error("{bytes} bytes exceed the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The calling code's fault: [`Access::permits`](crate::Access::permits) rejects the step, such as a client that
    /// finishes the work.
    #[error("this caller may not perform this step")]
    NotPermitted,
    /// The task was changed meanwhile. Load it again.
    #[error("the task has changed: it is at revision {}", found.0)]
    Conflict {
        /// Its present revision.
        found: TaskRevision,
    },
    /// The task has ended, and a terminal status is never left (TASK-01).
    #[error("the task has ended: it is {}", status.as_str())]
    Ended {
        /// Its terminal status.
        status: Status,
    },
    /// The work's fault: it reports an end by a cancel, and no cancel is recorded (D25).
    #[error("the task has not been cancelled")]
    NotCancelled,
    /// This run is void: another run has taken the task over, or the work has ended.
    #[error("this run was superseded or has ended")]
    Superseded,
    /// The store's fault: it could not read or write.
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// A store could not read or write. It has lost nothing.
#[derive(Debug)]
pub struct StoreFault {
    kind: StoreFaultKind,
    source: Box<dyn Error + Send + Sync>,
}

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFaultKind {
    /// Another program held the database for too long. A retry may succeed.
    Busy,
    /// The disk is full, or the file has reached its limit.
    Full,
    /// The file or its file system is read-only, or permissions forbid writing.
    ReadOnly,
    /// The file is damaged, or is not a database.
    Corrupt,
    /// The file is the database of another program.
    Foreign,
    /// A later version of this library wrote the file.
    Newer,
    /// The file or its folder cannot be opened, read or written.
    Io,
    /// The store is closed.
    Closed,
    /// A bug of this library.
    Internal,
}

impl StoreFault {
    pub(crate) fn new(kind: StoreFaultKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into() }
    }

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> StoreFaultKind {
        self.kind
    }
}

impl StoreFaultKind {
    const fn phrase(self) -> &'static str {
        match self {
            Self::Busy => "another program holds the task store",
            Self::Full => "the task store is full",
            Self::ReadOnly => "the task store is read-only",
            Self::Corrupt => "the task store is damaged or is not a database",
            Self::Foreign => "the file is the database of another program",
            Self::Newer => "the task store was written by a later version",
            Self::Io => "the task store cannot be opened, read or written",
            Self::Closed => "the task store is closed",
            Self::Internal => "the task store failed",
        }
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.phrase(), self.source)
    }
}

impl Error for StoreFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
