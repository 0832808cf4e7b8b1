//! The byte order mark that some programs write before each message, or before their first.

/// A byte order mark in UTF-8.
pub(super) const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The body without a byte order mark before it.
#[must_use]
pub fn without_mark(body: &[u8]) -> &[u8] {
    body.trim_ascii_start().strip_prefix(MARK).unwrap_or(body)
}

/// Whether there is nothing but white space, and a byte order mark at most.
pub(super) fn is_blank(text: &[u8]) -> bool {
    without_mark(text).trim_ascii_start().is_empty()
}
