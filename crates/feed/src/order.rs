//! A wish to cancel, and what was done about it.

use serde::{Deserialize, Serialize};

use crate::Request;

/// Cancel these requests, at whoever works on them and for whoever waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelOrder {
    /// Keys of requests in flight; at most a thousand.
    pub requests: Vec<String>,
    /// Why, in the operator's words: goes on the wire. Cut at 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was done, in the order of the wish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// One for each request.
    pub requests: Vec<Stopped>,
}

/// What was done about one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// Its key.
    pub key: String,
    /// Whether it was in flight and is cancelled by this wish. If not, `request` says why.
    pub accepted: bool,
    /// It, right afterwards; none where nothing of it is remembered.
    pub request: Option<Request>,
}

/// Why something could not be done, as the body of an HTTP error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
