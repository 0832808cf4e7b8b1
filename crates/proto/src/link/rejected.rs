//! Messages that are not acted on.

use crate::frame::Reason;

/// Why a message is not acted on: a connection hands it to nobody, a relay does not pass it on, a monitor does not
/// follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// Not JSON, or not UTF-8.
    NotJson,
    /// JSON, but not a message.
    Invalid(Reason),
    /// A request with a null id, in a dialect without such ids (MCP-I01).
    NullId,
    /// A batch in a dialect without batches, a message that must not be in one, or the rest of one that had too many
    /// bad members (MCP-B01, D36).
    Batch,
    /// Bytes between messages.
    Broken,
    /// Longer than the limit (D36).
    TooLarge,
    /// Bytes without an end when the input ended.
    Unfinished,
    /// A response to no known request.
    UnknownResponse,
    /// An error without an id: the peer could not read something.
    StrayError,
    /// A request with the id of one in flight (D7).
    DuplicateId,
    /// A request whose id is too long to be kept.
    LongId,
    /// One request more than the limit (D12).
    Overloaded,
    /// A request after [`shutdown`](crate::connection::Connection::shutdown).
    ShuttingDown,
    /// Held back by a filter.
    Vetoed,
}

impl Rejected {
    /// Its name in logs and recordings, which call everything that cannot be read `garbage`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotJson | Self::Invalid(_) | Self::NullId | Self::Batch | Self::Broken => "garbage",
            Self::TooLarge => "too_large",
            Self::Unfinished => "unfinished",
            Self::UnknownResponse => "unknown_response",
            Self::StrayError => "stray_error",
            Self::DuplicateId => "duplicate_id",
            Self::LongId => "long_id",
            Self::Overloaded => "overloaded",
            Self::ShuttingDown => "shutting_down",
            Self::Vetoed => "vetoed",
        }
    }
}
