//! The events of a subscription.
//!
//! They keep a copy of the state up to date: first a snapshot, then records that replace earlier ones of the same key. A
//! slow subscriber gets the same final state with fewer steps in between. A subscriber that reconnects with the last
//! number it saw resumes there, or gets a snapshot.

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use crate::{End, Request, Session};

/// One event of the stream. On the wire its kind is the `event` of a server-sent event, its number the `id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The whole state, which replaces everything known before.
    Snapshot(Snapshot),
    /// Changes since the previous event.
    Changes(Changes),
    /// The session is over; nothing follows.
    Ended(Ended),
}

impl Event {
    /// Its kind on the wire.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::Changes(_) => "changes",
            Self::Ended(_) => "ended",
        }
    }
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The number of the last change included.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// The session.
    pub session: Session,
    /// The oldest requests in flight, then those that were released last and those that ended last; at most a thousand of
    /// each.
    pub requests: Vec<Request>,
    /// Requests in flight, of both sides, listed or not.
    pub in_flight: u64,
}

/// Changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// One more than that of the previous event.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// The requests that changed, as they are now.
    pub requests: Vec<Request>,
    /// How many further requests came and ended uneventfully since the previous event. A busy link has more of them than
    /// a person can read, so they are only counted.
    pub brief: u64,
    /// Requests in flight, of both sides.
    pub in_flight: u64,
    /// The session, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// The session is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// One more than that of the previous event.
    pub seq: u64,
    /// The session's clock, in microseconds.
    pub now: u64,
    /// How it ended; [`End::Unknown`] if a later shim has a word for it that is not known here.
    #[serde(deserialize_with = "end")]
    pub how: End,
}

fn end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<End, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum How {
        Known(End),
        Later(IgnoredAny),
    }
    Ok(match How::deserialize(deserializer)? {
        How::Known(end) => end,
        How::Later(_) => End::Unknown,
    })
}
