//! What a store holds at most.

use std::time::Duration;

/// The bounds of a store (invariant 8: memory is bounded whatever the peer sends).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tasks of one owner; those without an owner count together. By default 1,000.
    pub tasks_per_owner: u32,
    /// Bytes of a task's request: method, params and metadata together. By default 4 MiB.
    pub request_bytes: usize,
    /// Bytes of an outcome, and of what a task asks for with its answers. By default 16 MiB.
    pub outcome_bytes: usize,
    /// How long a task is kept, from its creation, if the client does not say. By default one hour.
    pub default_ttl: Duration,
    /// How long a task is kept at most, whatever the client asks. By default seven days; with `None` a client may ask
    /// for ever.
    pub max_ttl: Option<Duration>,
    /// Tasks on a page of a list at most. By default 100.
    pub page: usize,
}

impl Default for Limits {
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
