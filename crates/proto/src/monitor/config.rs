//! Settings of a monitor; every bound has a default (invariant 8).

use core::time::Duration;

use crate::{dialect::Dialect, early_cancels::EarlyCancelLimits, framing::Framing};

/// Settings of a [`Monitor`](super::Monitor).
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// The dialect of both sides; `None` is detected from what passes (D2).
    pub dialect: Option<&'static Dialect>,
    /// Whether the client's first message may show that the link speaks no protocol that is known here (D57).
    pub unknown: bool,
    /// The framing of both sides; `None` is detected from the first bytes.
    pub framing: Option<Framing>,
    /// The longest message that is read, in bytes. Of a longer one only the envelope is read.
    pub max_message: usize,
    /// Requests of one side in flight that are followed; a further one is reported, and no more than that.
    pub max_in_flight: usize,
    /// Requests of one side that are over and remembered, so that late messages for them are recognised (D8). They are
    /// forgotten a few at a time: up to 32 more may be remembered. Requests that may still be answered are all
    /// remembered for the shorter time, up to sixteen times as many.
    pub remembered: usize,
    /// How long a request is remembered at least, and at most (D8).
    pub remember: (Duration, Duration),
    /// How many cancels for unknown requests are held, as ones that are ahead of them, and how long (D9).
    pub early_cancels: EarlyCancelLimits,
    /// The longest text that is kept of a request, in bytes. The words of its progress and the id of its task are cut
    /// to that; a longer session or token is left out; a request with a longer id is not followed.
    pub max_text: usize,
    /// Seeds the hash of request ids, so that a peer cannot choose ids that collide.
    pub seed: u64,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            dialect: None,
            unknown: true,
            framing: None,
            max_message: 64 << 20,
            max_in_flight: 65_536,
            remembered: 4096,
            remember: (Duration::from_secs(5), Duration::from_secs(600)),
            early_cancels: EarlyCancelLimits::STRANGER,
            max_text: 1024,
            seed: 0,
        }
    }
}
