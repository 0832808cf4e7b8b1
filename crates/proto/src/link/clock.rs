//! The clocks of a request.

words! {
    /// A clock of a request (D16).
    ///
    /// It never grows: one clock is moved by progress and one is not (D16); the deadline ends as the second.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Clock {
        /// Until the answer; progress resets it where the caller asked for that (MCP-T04).
        Response = "response",
        /// Until the answer, whatever happens (MCP-T05).
        Total = "total",
    }
}
