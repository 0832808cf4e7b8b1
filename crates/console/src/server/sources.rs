//! What is shown: shims that run, and recordings.

use std::sync::Arc;

use rescind_feed::Details;

use crate::{
    Recording,
    shims::{Directories, Shim, ShimError, Unusable},
};

/// Where sessions come from.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) directories: Option<Directories>,
    pub(super) recordings: Vec<Arc<Recording>>,
}

/// One session's source.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// A shim that runs.
    Shim(Shim),
    /// A recording.
    Recording(&'a Arc<Recording>),
}

impl Sources {
    pub(super) fn new(directories: Option<Directories>, recordings: Vec<Recording>) -> Self {
        Self { directories, recordings: recordings.into_iter().map(Arc::new).collect() }
    }

    /// The source of that session.
    pub(super) fn find(&self, session: &str) -> Result<Option<Source<'_>>, Unusable> {
        if let Some(recording) = self.recordings.iter().find(|recording| recording.name() == session) {
            return Ok(Some(Source::Recording(recording)));
        }
        let shim = self.directories.as_ref().map_or(Ok(None), |directories| directories.shim(session))?;
        Ok(shim.map(Source::Shim))
    }
}

impl Source<'_> {
    /// Everything that is kept of one request.
    pub(super) async fn details(&self, key: &str) -> Result<Option<Details>, ShimError> {
        match self {
            Self::Recording(recording) => {
                // Its messages are read from the disk and may be large: other pages do not wait for that.
                let (recording, key) = (Arc::clone(recording), key.to_owned());
                let read = tokio::task::spawn_blocking(move || recording.details(&key)).await;
                read.map_err(|_| ShimError::unreadable("its messages cannot be shown"))
            }
            Self::Shim(shim) => match shim.details(key).await {
                Ok(details) => Ok(Some(details)),
                Err(ShimError::Refused { status: 404, .. }) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }
}
