//! The limits of a store.

use std::time::Duration;

/// The limits of a store. They bound its memory whatever the peer sends (invariant 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Most tasks of one owner; all tasks without an owner count together. By default 1,000.
    pub tasks_per_owner: u32,
    /// Most bytes of a task's request: method, params and metadata together. By default 4 MiB.
    pub request_bytes: usize,
    /// Most bytes of an outcome, and of a task's questions and answers. By default 16 MiB.
    pub outcome_bytes: usize,
    /// How long a task is kept after its creation if the client does not say. By default one hour.
    pub default_ttl: Duration,
    /// How long a task may be kept, whatever the client asks. By default seven days; `None` is unlimited.
    pub max_ttl: Option<Duration>,
    /// Most tasks on a page of a list. By default 100.
    pub page: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            tasks_per_owner: 1000,
            request_bytes: 4 << 20,
            outcome_bytes: 16 << 20,
            default_ttl: Duration::from_secs(60 * 60),
            max_ttl: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            page: 100,
        }
    }
}
