//! Messages that are not acted on.

use crate::frame::Reason;

words! {
    /// Why a message is not acted on: a connection hands it to nobody, a relay does not pass it on, a monitor does not
    /// follow it. Logs and recordings call everything that cannot be read `garbage`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Rejected {
        /// Not JSON, or not UTF-8.
        NotJson = "garbage",
        /// JSON, but not a message.
        Invalid(Reason) = "garbage",
        /// A request with a null id, in a dialect without such ids (MCP-I01).
        NullId = "garbage",
        /// A batch in a dialect without batches, a message that must not be in one, or the rest of one that had too many
        /// bad members (MCP-B01, D36).
        Batch = "garbage",
        /// Bytes between messages.
        Broken = "garbage",
        /// Longer than the limit (D36).
        TooLarge = "too_large",
        /// Bytes without an end when the input ended.
        Unfinished = "unfinished",
        /// A response to no known request.
        UnknownResponse = "unknown_response",
        /// An error without an id: the peer could not read something.
        StrayError = "stray_error",
        /// A request with the id of one in flight (D7).
        DuplicateId = "duplicate_id",
        /// A request whose id is too long to be kept.
        LongId = "long_id",
        /// One request more than the limit (D12).
        Overloaded = "overloaded",
        /// A request after [`shutdown`](crate::connection::Connection::shutdown).
        ShuttingDown = "shutting_down",
        /// Held back by a filter.
        Vetoed = "vetoed",
    }
}
