//! Orders to cancel, and their outcome.

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
}

/// The outcome of an order, in its order of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// One for each request.
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
