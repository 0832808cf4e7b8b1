//! Orders to cancel requests and to end a server, and their outcome.

use serde::{Deserialize, Serialize};

use crate::Request;

/// An order to cancel requests: for the side that works on them and for the side that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelOrder {
    /// Keys of requests in flight; at most a thousand.
    pub requests: Vec<String>,
    /// The operator's reason, which goes on the wire. Cut at 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Leaves the children of cancelled turns alone. Without it those are cancelled, too, as far as their agent allows
    /// that, and the reply has them behind the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turn_only: bool,
}

/// The outcome of an order, in its order of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// One for each request, then one for each child that was cancelled with its turn, or could not be.
    pub requests: Vec<OrderOutcome>,
}

/// The outcome for one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderOutcome {
    /// Its key.
    pub key: String,
    /// Whether it was in flight and this order cancelled it. If not, `request` shows why.
    pub accepted: bool,
    /// The request right afterwards; `None` if it is not remembered.
    pub request: Option<Request>,
}

/// An order to end the server of a session, and with it all its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndOrder {
    /// The session's `started`: a later session may have the same name.
    pub started: u64,
}

/// The outcome of an order to end a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndReply {
    /// Whether this order is the first. The server is being ended either way.
    pub accepted: bool,
}

/// The body of an HTTP error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What is wrong.
    pub error: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
