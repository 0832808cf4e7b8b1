//! A server of a file.

use rescind_wrap::{entry::Entry, remote::Refusal, verdict::Verdict};

/// A server of a file, and what can be done with it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) entry: Entry,
    pub(super) verdict: Verdict,
    /// Why a command cannot stand in for its URL, if it is at one.
    pub(super) refusal: Option<Refusal>,
    /// The words that tell a shim its name and that of its client.
    pub(super) names: Vec<String>,
    /// Whether a shim is before it that has other names, or none: it was put there by an older release, or the entry was
    /// renamed since.
    pub(super) is_misnamed: bool,
}
