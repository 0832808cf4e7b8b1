//! A server of a file.

use rescind_wrap::{
    advice::Advice,
    entry::{Entry, Launch},
    remote::Refusal,
    verdict::Verdict,
    words,
};

use crate::run::own_words;

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
    /// The timeout to propose for it.
    pub(super) advice: Option<&'static Advice>,
}

impl Server {
    /// Where the names of its shim belong, if those that it has are not these.
    pub(super) fn misnamed(&self) -> Option<std::ops::Range<usize>> {
        let Launch::Command(command) = &self.entry.launch else { return None };
        self.is_misnamed.then(|| words::named(&command.words))
    }

    /// The flags of the shim that `wrap` has put before it, and where they stand in its command.
    pub(super) fn flags(&self) -> Option<(std::ops::Range<usize>, &[String])> {
        let Launch::Command(command) = &self.entry.launch else { return None };
        let places = words::flags(&command.words, own_words)?;
        let flags = command.words.get(places.clone())?;
        Some((places, flags))
    }
}
