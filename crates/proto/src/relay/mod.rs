//! Two sides of one link, joined (D32–D36).

mod config;
mod event;

pub use config::{Clock, ClockRule, Config};
pub use event::{CancelNotice, Drop, Event, Hop, LateKind, Settled, StuckSign, Verdict};

use std::collections::VecDeque;

use crate::{
    outbox::Outbox,
    side::{Side, Sides},
    slab::Key,
    time::Instant,
};

/// Names one request in a relay; never reused while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestKey {
    /// Who sent the request.
    pub from: Side,
    pub(crate) key: Key,
}

/// A relay between a client and a server.
#[derive(Clone, Debug)]
pub struct Relay {
    outboxes: Sides<Outbox<()>>,
    events: VecDeque<Event>,
}

impl Relay {
    /// A relay that has seen nothing.
    #[must_use]
    pub fn new(_config: Config) -> Self {
        Self { outboxes: Sides::from_fn(|_| Outbox::new()), events: VecDeque::new() }
    }

    /// Bytes arrived from `side`.
    pub fn handle_input(&mut self, _now: Instant, side: Side, bytes: &[u8]) {
        self.outboxes[side.other()].push((), |out| out.extend_from_slice(bytes));
    }

    /// The first `bytes` of [`pending`](Self::pending) were written to `side`.
    pub fn handle_written(&mut self, _now: Instant, side: Side, bytes: usize) {
        self.outboxes[side].written(bytes, |(), _| ());
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come; calling earlier is harmless.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// `side` will send nothing more. For the server, `how` is what its requests are told (D35).
    pub fn handle_end(&mut self, _now: Instant, _side: Side, _how: &End) {}

    /// The next bytes for `side`; empty if there are none. Report what was written before anything else.
    #[must_use]
    pub fn pending(&self, side: Side) -> &[u8] {
        self.outboxes[side].pending()
    }

    /// Whether `side` should be read: false while what it sent cannot be passed on (D13).
    #[must_use]
    pub fn wants_input(&self, _side: Side) -> bool {
        true
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// How a side's input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It closed its end.
    Closed,
    /// The process exited with this code.
    Exited(i32),
    /// The process was ended by this signal.
    Signalled(i32),
}
