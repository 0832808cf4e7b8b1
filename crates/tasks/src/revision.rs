//! How often a task has changed.

/// The number of changes of one task, for compare-and-set and for waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskRevision(pub u64);
