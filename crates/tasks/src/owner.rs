//! The owner of a task.

use std::sync::Arc;

/// The authorization context that a task is bound to, if there is one (TASK-08).
///
/// Tasks without an owner share one context: their ids are their only protection, so a server that cannot tell its
/// clients apart should not list tasks. Owners are compared byte for byte. Stores keep them in the clear, so an owner
/// should be a name (a subject, a tenant), never a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(Option<Arc<str>>);

impl Owner {
    /// No authorization context: a local process, an anonymous connection.
    pub const NONE: Self = Self(None);

    /// Creates the context of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// Returns the name; `None` for [`NONE`](Self::NONE).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
