//! Shims whose program has moved away, or will.

use std::path::Path;

use rescind_wrap::{entry::Launch, verdict::Verdict};

use super::{program::is_executable, server::Server};
use crate::{origin::Origin, screen::clean};

/// Why the program of this shim has to give way to the one at `new`; `None` if it has not, or there is no shim.
///
/// A bare name is left to the `PATH` of its client. A program that can be started is replaced only if it will not stay,
/// and `new` will.
pub(super) fn reason(server: &Server, new: &str) -> Option<String> {
    if !matches!(server.verdict, Verdict::Wrapped(_) | Verdict::WrappedUrl) {
        return None;
    }
    let Launch::Command(command) = &server.entry.launch else { return None };
    let word = command.words.first().filter(|word| *word != new)?;
    let path = Path::new(word);
    if !path.is_absolute() {
        return None;
    }
    if !path.is_file() {
        return Some(format!("{} is not there", clean(word)));
    }
    if !is_executable(path) {
        return Some(format!("{} cannot be run", clean(word)));
    }
    let origin = Origin::of(path);
    let stays = Origin::of(Path::new(new)).passing_place().is_none();
    let place = origin.passing_place().filter(|_| stays && origin.needs_copy())?;
    Some(format!("{} is in {place}, and will not stay", clean(word)))
}
