//! What a subscriber is told.
//!
//! The stream keeps a copy of the state in step: a snapshot, then records that replace earlier ones of the same key.
//! Nothing is lost by having been late, only what lay between two records is not told. Whoever reconnects with the
//! last number it saw goes on from there, or gets a snapshot.

use serde::{Deserialize, Serialize};

use crate::{End, Request, Session};

/// One event of the stream. On the wire its kind is the `event` of a server-sent event, its number the `id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Everything as it is: what was known before is void.
    Snapshot(Snapshot),
    /// What changed since the number before.
    Changes(Changes),
    /// The session is over; nothing follows.
    Ended(Ended),
}

/// Everything as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The number of the last change that it holds.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// The session's facts.
    pub session: Session,
    /// Requests in flight, the oldest first, and those that ended last; at most a thousand of each.
    pub requests: Vec<Request>,
    /// Requests in flight, of both sides, listed or not.
    pub in_flight: u64,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// One more than that of the event before.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// The requests that changed, as they are now.
    pub requests: Vec<Request>,
    /// Requests that came and ended since the event before with nothing to tell of them, and are only counted: a
    /// busy link has more of them than anybody can read.
    pub brief: u64,
    /// Requests in flight, of both sides.
    pub in_flight: u64,
    /// The session's facts, where those changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// The session is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// One more than that of the event before.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// How.
    pub how: End,
}
