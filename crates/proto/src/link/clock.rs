//! The clocks of a request.

/// A clock of a request (D16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// Until the answer; progress resets it where the caller asked for that (MCP-T04).
    Response,
    /// Until the answer, whatever happens (MCP-T05).
    Total,
}

impl Clock {
    /// Its name in errors, logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Total => "total",
        }
    }
}
