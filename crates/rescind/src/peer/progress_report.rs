//! A report of progress.

use std::fmt;

use rescind_proto::json;
use serde::de::DeserializeOwned;

/// A report of progress on a call, as the peer sent it.
#[derive(Clone)]
pub struct ProgressReport {
    params: Box<[u8]>,
}

impl ProgressReport {
    pub(crate) const fn new(params: Box<[u8]>) -> Self {
        Self { params }
    }

    /// The progress so far (MCP's `progress`).
    #[must_use]
    pub fn done(&self) -> Option<f64> {
        self.member("progress")
    }

    /// The progress at the end, if that is known (MCP's `total`).
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        self.member("total")
    }

    /// A description of the current step, in the peer's words: untrusted.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        self.member("message")
    }

    /// Reads the params of the whole notification.
    ///
    /// # Errors
    ///
    /// The params are not a `T`.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.params)
    }

    fn member<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(json::member(&self.params, name)?).ok()
    }
}

impl fmt::Debug for ProgressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("done", &self.done()).field("total", &self.total()).finish_non_exhaustive()
    }
}
