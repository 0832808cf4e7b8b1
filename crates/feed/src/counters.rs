//! The counters of a session since its start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counters of a session. The keys of the maps are words of this crate; a key with a count of zero may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Requests received, by sender.
    pub requests: BTreeMap<String, u64>,
    /// Requests in flight, by sender.
    pub in_flight: BTreeMap<String, u64>,
    /// Requests that have ended, by how: `answered`, `answered_here`, `silent`, `gone`.
    pub settled: BTreeMap<String, u64>,
    /// Cancels accepted or decided here, by cause.
    pub cancels: BTreeMap<String, u64>,
    /// Cancels by current outcome; `asked` and `sent` may still change.
    pub outcomes: BTreeMap<String, u64>,
    /// Cancels received that named no open request or were not obeyed, by verdict: `unknown`, `completed`, `repeated`,
    /// `malformed`, `refused`.
    pub unheeded: BTreeMap<String, u64>,
    /// Messages for requests that had ended: `result`, `error`, `progress`, `subscription`.
    pub late: BTreeMap<String, u64>,
    /// Requests ended by a timeout of the shim, by clock: `response`, `total`.
    pub timeouts: BTreeMap<String, u64>,
    /// Requests refused by a limit, by the limit as it was given: `--limit tools/call=10/1m` (D65). Each limit has a count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited: BTreeMap<String, u64>,
    /// Cancelled requests that were still worked on past the grace.
    pub stuck: u64,
    /// Requests that were cancelled, are over for their client, and are not known to have ended (D52).
    #[serde(default)]
    pub released: u64,
    /// Children that are kept, by state (D54).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, u64>,
    /// MCP tasks at work, by the status that was reported last (D56).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, u64>,
    /// How many tasks there were beyond those that are followed.
    #[serde(default)]
    pub unkept_tasks: u64,
    /// Messages that were not passed on.
    pub dropped: u64,
    /// Broken rules, by side and number: `server MCP-I02`.
    pub violations: BTreeMap<String, u64>,
    /// From the cancel to the end of the request for its requester.
    pub cancel_to_settled: Histogram,
    /// From the cancel to the other side's answer, if it came.
    pub cancel_to_answer: Histogram,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    /// Upper bounds of the buckets in microseconds. The last bucket has none.
    pub bounds: Vec<u64>,
    /// The count of each bucket: one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum in microseconds.
    pub sum: u64,
}
