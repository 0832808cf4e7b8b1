//! What a monitor can be told; every bound has a default (invariant 8).

use core::time::Duration;

use crate::{dialect::Dialect, framing::Framing};

/// Settings of a [`Monitor`](super::Monitor).
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// What both sides speak; `None` is detected from what passes (D2).
    pub dialect: Option<&'static Dialect>,
    /// The framing of both sides; `None` is detected from the first bytes.
    pub framing: Option<Framing>,
    /// The longest message that is read, in bytes. Of a longer one only the envelope is learnt.
    pub max_message: usize,
    /// Requests of one side in flight that are followed; further ones are counted.
    pub max_in_flight: usize,
    /// Requests of one side that are over and remembered, so that what comes late for them is recognised (D8). Sixteen
    /// times as many are remembered while they may still be answered, for the shorter of the two times at least.
    pub remembered: usize,
    /// How long a request is remembered at least, and at most (D8).
    pub remember: (Duration, Duration),
    /// How long a cancel for a request never seen is taken to be ahead of it (D9).
    pub early_cancels: Duration,
    /// How many such cancels are held.
    pub max_early_cancels: usize,
    /// The longest text that is kept of a request, in bytes: a session, a task, the words of its progress. Longer ones
    /// are cut, or of no use and left out; a request with a longer id or progress token is not known by that.
    pub max_text: usize,
    /// Seeds the hash of request ids, so that a peer cannot choose ids that collide.
    pub seed: u64,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            dialect: None,
            framing: None,
            max_message: 64 << 20,
            max_in_flight: 65_536,
            remembered: 4096,
            remember: (Duration::from_secs(5), Duration::from_secs(600)),
            early_cancels: Duration::from_millis(250),
            max_early_cancels: 64,
            max_text: 1024,
            seed: 0,
        }
    }
}
