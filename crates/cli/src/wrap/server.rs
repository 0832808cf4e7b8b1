//! A server of a file.

use rescind_wrap::{entry::Entry, remote::Refusal, verdict::Verdict};

/// A server of a file, and what can be done with it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) entry: Entry,
    pub(super) verdict: Verdict,
    /// Why a command cannot stand in for its URL, if it is at one.
    pub(super) refusal: Option<Refusal>,
}
