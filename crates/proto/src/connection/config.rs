//! The settings of a connection; every bound has a default (invariant 8).

use core::time::Duration;

use super::sessions_at_work::SessionsAtWork;
use crate::{
    dialect::{DefaultClocks, Dialect},
    early_cancels::EarlyCancelLimits,
    framing::{Framing, MAX_BLOCK},
    outbox,
    side::Side,
};

/// How long something may take.
///
/// It never grows: a setting is left alone, lifted or given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Limit {
    /// As configured; for a clock without a setting, as the dialect has it.
    #[default]
    Default,
    /// As long as it likes.
    Never,
    /// This long.
    After(Duration),
}

/// What a request costs at most: its entry, its indexes, its tombstone.
const REQUEST: usize = 1 << 10;

/// What the events of a read cost at most, for each of its bytes.
const EVENTS: usize = 256;

/// Settings of a [`Connection`](super::Connection).
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Which side of the link this endpoint is.
    pub role: Side,
    /// The dialect to speak; `None` detects it from what passes (D2).
    pub dialect: Option<&'static Dialect>,
    /// How messages are told apart.
    pub framing: Framing,
    /// Bytes of the longest message that is received.
    pub max_message: usize,
    /// Handlers that may be at work at once, those that were cancelled and have not ended included (D12). One that
    /// waits for a request of its own to be answered is not at work; all together they are no more than this and
    /// [`max_queued`](Self::max_queued). Those that are [suspended](super::Connection::suspend) come on top.
    pub max_running: usize,
    /// Requests that may wait for a handler; one more is refused (D12).
    pub max_queued: usize,
    /// Bytes that may be kept of requests that wait for a handler; past that, one more is refused (D12).
    pub max_queued_bytes: usize,
    /// How long a request may wait for a handler that is counted for one of several clients on this connection
    /// ([`Attachment::counted_for`](crate::link::Attachment::counted_for)); then it is refused. Such a client also takes
    /// another handler only while it has fewer than are free, and so another of all these places and of their bytes: none
    /// has more than half of them, and the next no more than half of what is left (D12). Any other request waits as long as
    /// its requester does.
    pub max_wait: Duration,
    /// Requests of ours that may be in flight; one more is [`Misuse::TooMany`](super::Misuse::TooMany).
    pub max_in_flight: usize,
    /// Bytes that the peer may leave unread of what it has caused before its input is paused, and that may wait to be
    /// written before [`has_room`](super::Connection::has_room) holds notifications back (D13).
    pub max_backlog: usize,
    /// How long the peer may read nothing while its backlog is past that bound, before it is given up (D13).
    pub stall_limit: Duration,
    /// How long a handler may take to stop after the peer's cancel, a timeout or an operator (D22).
    pub grace: Duration,
    /// The same, after the end of input or a shutdown; and at most this long for the handler of a question that a person
    /// answers, whatever stops it (D22).
    pub short_grace: Duration,
    /// How many cancels are held for a request never seen, and how long (D9).
    pub early_cancels: EarlyCancelLimits,
    /// Settled ids remembered on each side; four times as many while they are younger than the least age (D8).
    pub remembered: usize,
    /// How long a settled id is remembered at least, and at most (D8).
    pub remember: (Duration, Duration),
    /// Clocks of our requests that name none, in place of the dialect's (D16).
    pub clocks: Option<DefaultClocks>,
    /// Whether our requests say how much time they have left (D17).
    pub deadline_travels: bool,
    /// At the end of input, how long requests may go on before they are cancelled; `None` cancels at once (D27).
    pub drain_on_eof: Option<Duration>,
    /// Whether every cancel is reported, and what came of it: as [`Cancel`], [`Stopped`] and [`Receipt`], the last
    /// otherwise only of requests that are [watched](super::CallOptions::is_watched). What they describe happens all the
    /// same.
    ///
    /// [`Cancel`]: super::ConnectionEvent::Cancel
    /// [`Stopped`]: super::ConnectionEvent::Stopped
    /// [`Receipt`]: super::ConnectionEvent::Receipt
    pub reports_cancels: bool,
    /// Whether requests of the peer that end in silence are reported ([`ConnectionEvent::Silenced`](super::ConnectionEvent::Silenced)):
    /// for a driver that holds something open for each, such as an HTTP response (D41).
    pub reports_silences: bool,
    /// Whether what carries the connection can take back what it has taken, and reports what has become of it
    /// ([`handle_departure`](super::Connection::handle_departure)): a request and its cancel have left when it says so,
    /// and not when they are written (D51).
    pub departs: bool,
    /// Seeds the hash of request ids, so that a peer cannot choose ids that collide.
    pub seed: u64,
}

impl ConnectionConfig {
    /// The defaults for this side of a link.
    #[must_use]
    pub const fn new(role: Side) -> Self {
        Self {
            role,
            dialect: None,
            framing: Framing::Line,
            max_message: 64 << 20,
            max_running: 256,
            max_queued: 4096,
            max_queued_bytes: 16 << 20,
            max_wait: Duration::from_secs(30),
            max_in_flight: 65_536,
            max_backlog: 16 << 20,
            stall_limit: Duration::from_secs(600),
            grace: Duration::from_secs(5),
            short_grace: Duration::from_secs(1),
            early_cancels: EarlyCancelLimits::STRANGER,
            remembered: 4096,
            remember: (Duration::from_secs(5), Duration::from_secs(600)),
            clocks: None,
            deadline_travels: true,
            drain_on_eof: None,
            reports_cancels: true,
            reports_silences: false,
            departs: false,
            seed: 0,
        }
    }

    /// The most bytes of memory that a peer can make a connection with these settings hold
    /// ([`Connection::held`](super::Connection::held)), if its driver hands it at most `read` bytes at a time
    /// (invariant 8). What this side itself asks and answers comes on top, and so do handlers that it suspends.
    #[must_use]
    pub const fn most_held(&self, read: usize) -> usize {
        let requests = self.max_running + self.max_queued + 8 * self.remembered + self.early_cancels.most;
        let queue = outbox::bound_for(self.max_backlog, read, self.max_message);
        // Gathered by the decoder, kept of requests, answered to a batch.
        let messages = 6 * self.max_message + self.max_queued_bytes + MAX_BLOCK;
        queue + messages + requests * REQUEST + EVENTS * read + SessionsAtWork::MOST
    }
}
