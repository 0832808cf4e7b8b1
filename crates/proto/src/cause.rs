//! Who asked for a cancel, and why (D19, D20, D25).

use core::fmt;
use std::sync::Arc;

/// Why a request is being cancelled: a code from a closed list, and optionally a person's words.
///
/// Only words that a person or caller passed on purpose ever reach the wire.
/// Text derived from errors, tokens or panics has no way in: the wire then
/// carries the fixed phrase of the code (D20).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// Who asked.
    pub code: CauseCode,
    /// For [`CauseCode::Parent`]: what cancelled the parent.
    pub root: Option<CauseCode>,
    /// Shared: a cause is told to many.
    text: Option<Arc<str>>,
}

words! {
    /// The closed list of causes (D20).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum CauseCode {
        /// The caller of the request, or the peer that sent it.
        Caller = "caller",
        /// One of the three clocks (D16).
        Timeout = "timeout",
        /// The request during whose handling this one was made (D26).
        Parent = "parent",
        /// The connection ended (D27).
        Disconnect = "disconnect",
        /// The process is shutting down.
        Shutdown = "shutdown",
        /// A person at the console or the command line.
        Operator = "operator",
        /// A configured rule.
        Policy = "policy",
    }
}

impl CauseCode {
    /// The phrase the wire carries when nobody gave a reason in words.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Caller => "cancelled by the caller",
            Self::Timeout => "request timed out",
            Self::Parent => "the request it served was cancelled",
            Self::Disconnect => "connection ended",
            Self::Shutdown => "shutting down",
            Self::Operator => "stopped by operator",
            Self::Policy => "stopped by policy",
        }
    }
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The longest reason that is kept, in bytes (D20).
pub const MAX_REASON: usize = 1024;

impl Cause {
    /// A cause without words.
    #[must_use]
    pub const fn new(code: CauseCode) -> Self {
        Self { code, root: None, text: None }
    }

    /// A cause with the words, if any, that a person or caller chose ([`with_text`](Self::with_text)).
    #[must_use]
    pub fn by(code: CauseCode, reason: Option<&str>) -> Self {
        match reason {
            Some(reason) => Self::new(code).with_text(reason),
            None => Self::new(code),
        }
    }

    /// The cause of a child whose parent was cancelled because of `root`, or has ended by itself.
    #[must_use]
    pub fn parent(root: impl Into<Option<CauseCode>>) -> Self {
        Self { code: CauseCode::Parent, root: root.into(), text: None }
    }

    /// Adds words that a person or caller chose; they go on the wire, cut at [`MAX_REASON`]. The phrase of the code
    /// itself, as it comes from the wire of a peer of ours, adds nothing.
    #[must_use]
    pub fn with_text(mut self, text: &str) -> Self {
        self.text = (text != self.code.phrase()).then(|| cut(text, MAX_REASON).into());
        self
    }

    /// The words a person or caller chose, if any. They may hold control characters: see [`sanitised`].
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// What goes into the reason field on the wire.
    #[must_use]
    pub fn wire_reason(&self) -> &str {
        self.text.as_deref().unwrap_or_else(|| self.code.phrase())
    }
}

/// `text` cut to at most `limit` bytes, at a character boundary.
#[must_use]
pub fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Untrusted text made fit for a log line or a terminal: cut, and without control characters (D20).
#[must_use]
pub fn sanitised(text: &str) -> String {
    cut(text, MAX_REASON).chars().map(|c| if is_shown(c) { c } else { '\u{fffd}' }).collect()
}

/// Whether a character stands for itself in a log line or on a terminal, and changes nothing around it.
pub(crate) fn is_shown(c: char) -> bool {
    !c.is_control() && !is_bidi_control(c)
}

/// Characters that reorder what a terminal or page shows around them.
const fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_at_a_character_boundary() {
        let long = "é".repeat(MAX_REASON);
        let cause = Cause::new(CauseCode::Caller).with_text(&long);
        assert_eq!(cause.text().map(str::len), Some(MAX_REASON));
    }

    #[test]
    fn the_phrase_of_a_code_is_nobodys_words() {
        let cause = Cause::new(CauseCode::Caller).with_text(CauseCode::Caller.phrase());
        assert_eq!(cause, Cause::new(CauseCode::Caller));
        assert_eq!(cause.wire_reason(), CauseCode::Caller.phrase());
    }

    #[test]
    fn control_characters_never_reach_a_log() {
        assert_eq!(sanitised("a\x1b[31m\nb\u{202e}\u{61c}"), "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}");
    }

    #[test]
    fn without_words_the_wire_carries_the_fixed_phrase() {
        assert_eq!(Cause::new(CauseCode::Timeout).wire_reason(), "request timed out");
    }
}
