//! What has become of a message that whoever stands behind a machine had taken, and could still take back (D51).

use crate::id::RequestId;

/// What has become of a message that was taken, and had not left this process yet (D51). Requests are named as they were
/// spelled for that side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Departure {
    /// The last byte of the request has left: from now on it can be cancelled, and not be taken back.
    Request(RequestId),
    /// The last byte of the request's cancel has left, or what cancels it there was done.
    Cancel(RequestId),
    /// The other side has given the request back, since it wants a token for it, say: it has not left until it is sent again.
    Returned(RequestId),
    /// The request was taken back, and with it its cancel: the other side gets neither.
    Withdrawn(RequestId),
    /// The other side has ended the MCP session in which messages have left. What leaves from now on does so in another one,
    /// which may know nothing of what was begun.
    Session,
}

impl Departure {
    /// The id of the request that it is about, if it is about one.
    #[must_use]
    pub const fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Request(id) | Self::Cancel(id) | Self::Returned(id) | Self::Withdrawn(id) => Some(id),
            Self::Session => None,
        }
    }
}
