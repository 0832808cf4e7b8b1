//! What a session has counted since its start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts of a session, by the words of this crate. What has not happened may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Requests taken in, by who sent them.
    pub requests: BTreeMap<String, u64>,
    /// Requests in flight, by who sent them.
    pub in_flight: BTreeMap<String, u64>,
    /// Requests that are over, by how: `answered`, `answered_here`, `silent`, `gone`.
    pub settled: BTreeMap<String, u64>,
    /// Cancels that were accepted or decided here, by cause.
    pub cancels: BTreeMap<String, u64>,
    /// Cancels by what is known of them now; `asked` and `sent` ones may still move.
    pub outcomes: BTreeMap<String, u64>,
    /// Cancels from the wire that named nothing or were not obeyed, by verdict: `unknown`, `completed`, `repeated`,
    /// `malformed`, `refused`.
    pub unheeded: BTreeMap<String, u64>,
    /// What came for requests that were over: `result`, `error`, `progress`, `subscription`.
    pub late: BTreeMap<String, u64>,
    /// Requests that a clock of the shim ended, by clock: `response`, `total`.
    pub timeouts: BTreeMap<String, u64>,
    /// Cancelled requests that showed, past the grace, that they were still worked on.
    pub stuck: u64,
    /// Messages that were not passed on.
    pub dropped: u64,
    /// Rules broken, by side and number: `server MCP-I02`.
    pub violations: BTreeMap<String, u64>,
    /// From asking for a cancel to the end of the request for its requester.
    pub cancel_to_settled: Histogram,
    /// From asking for a cancel to the other side's answer, where one came.
    pub cancel_to_answer: Histogram,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    /// Upper bounds of the buckets in microseconds, the last bucket without one.
    pub bounds: Vec<u64>,
    /// How many fell into each bucket: one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum in microseconds.
    pub sum: u64,
}
