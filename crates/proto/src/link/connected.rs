//! Who is at the other end of a link whose messages come on several connections.

/// Who is connected, and what is kept for those who are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected {
    /// Sessions.
    pub sessions: usize,
    /// Responses under way: those that wait for an answer, and open streams.
    pub responses: usize,
    /// Streams that no response carries now, and to which their client can come back.
    pub kept: usize,
    /// Bytes of messages that are kept for clients that come back.
    pub kept_bytes: usize,
    /// How often the program behind was started anew after it had ended by itself.
    pub restarts: usize,
}
