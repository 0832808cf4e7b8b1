//! The sources of sessions: running shims, and recordings.

use std::{path::PathBuf, sync::Arc};

use rescind_feed::Details;
use rescind_operator::{Directories, Shim, ShimError, UnusableDirectory};

use super::processes::Processes;
use crate::Recording;

/// All sources of sessions.
#[derive(Debug)]
pub(super) struct SessionSources {
    pub(super) directories: Option<Directories>,
    pub(super) recordings: Vec<Arc<Recording>>,
    /// Where what has ended is kept.
    pub(super) history: Option<PathBuf>,
    pub(super) processes: Processes,
}

/// The source of one session.
#[derive(Debug)]
pub(super) enum SessionSource<'a> {
    /// A running shim.
    Shim(Shim),
    /// A recording.
    Recording(&'a Arc<Recording>),
}

impl SessionSources {
    pub(super) fn new(directories: Option<Directories>, recordings: Vec<Recording>, history: Option<PathBuf>) -> Self {
        let recordings = recordings.into_iter().map(Arc::new).collect();
        Self { directories, recordings, history, processes: Processes::default() }
    }

    /// Finds the source of `session`.
    pub(super) fn find(&self, session: &str) -> Result<Option<SessionSource<'_>>, UnusableDirectory> {
        if let Some(recording) = self.recordings.iter().find(|recording| recording.name() == session) {
            return Ok(Some(SessionSource::Recording(recording)));
        }
        let shim = self.directories.as_ref().map_or(Ok(None), |directories| directories.shim(session))?;
        Ok(shim.map(SessionSource::Shim))
    }
}

impl SessionSource<'_> {
    /// One request and its messages.
    pub(super) async fn details(&self, key: &str) -> Result<Option<Details>, ShimError> {
        match self {
            Self::Recording(recording) => {
                // Its messages are read from disk and may be large, so another thread reads them.
                let (recording, key) = (Arc::clone(recording), key.to_owned());
                let read = tokio::task::spawn_blocking(move || recording.details(&key)).await;
                read.map_err(|_| ShimError::Unreadable("its messages cannot be shown".to_owned()))
            }
            Self::Shim(shim) => match shim.details(key).await {
                Ok(details) => Ok(Some(details)),
                Err(ShimError::Refused { status: 404, .. }) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }
}
