//! Ids of requests, told apart by who sent the request.
//!
//! `IncomingId` and `OutgoingId` cannot be compared with each other: a cancel
//! from the peer can only ever be looked up among the peer's own requests (D5).

pub use rescind_wire::id::RequestId;

/// The id of a request that the peer sent to us.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncomingId(pub RequestId);

/// The id of a request that we sent to the peer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutgoingId(pub RequestId);
