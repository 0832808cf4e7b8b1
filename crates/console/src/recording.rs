//! A recording, shown as a session.

use std::path::Path;

use rescind_feed::{Details, Event};

/// A recording that was read whole: a source of events as a shim is, all of them past.
#[derive(Debug)]
pub struct Recording {
    name: String,
}

/// Why a recording cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It is not in a form that can be shown.
    #[error("recordings cannot be read yet")]
    Unreadable,
}

impl Recording {
    /// Reads `path` and calls it `name`, as in `SESSION/ID`.
    ///
    /// # Errors
    ///
    /// [`RecordingError`].
    pub fn open(_path: &Path, _name: &str) -> Result<Self, RecordingError> {
        Err(RecordingError::Unreadable)
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it tells: a snapshot, then changes, then its end.
    pub fn events(&self) -> impl Iterator<Item = Event> + Send {
        std::iter::empty()
    }

    /// One request and the messages about it.
    #[must_use]
    pub fn details(&self, _key: &str) -> Option<Details> {
        None
    }
}
