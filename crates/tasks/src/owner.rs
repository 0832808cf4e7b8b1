//! Whose a task is.

use std::sync::Arc;

/// The authorization context that a task is bound to, if there is one (TASK-08).
///
/// Tasks without an owner are one context of their own: among those who have none, an id is the only protection, so
/// whoever cannot tell its clients apart should not list tasks. Compared byte for byte; a store keeps it as it is, so
/// it should be a name (a subject, a tenant), never a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(Option<Arc<str>>);

impl Owner {
    /// No authorization context: a local process, an anonymous connection.
    pub const NONE: Self = Self(None);

    /// The context of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(Some(name.into()))
    }

    /// Its name, if it is a context.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
