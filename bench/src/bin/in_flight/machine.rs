//! The relay machine, fed as its driver feeds it: everything pending written
//! and every event taken after each read.

use std::hint::black_box;
use std::time::Duration;

use rescind_bench::traffic;
use rescind_proto::dialect::mcp;
use rescind_proto::relay::{Emit, Relay, RelayConfig};
use rescind_proto::side::{Side, Sides};
use rescind_proto::time::Instant;

use crate::lines::{Kind, Lines};
use crate::subject::Subject;

/// Time between two reads.
const STEP: Duration = Duration::from_micros(100);

/// A relay in an MCP session.
pub(crate) struct Machine {
    relay: Relay,
    now: Instant,
}

impl Machine {
    /// Both sides of one revision: the client's ids are kept.
    pub(crate) fn one_revision() -> Self {
        let mut machine = Self::with(RelayConfig::default());
        machine.feed(Side::Client, traffic::INITIALIZE);
        machine.feed(Side::Server, traffic::INITIALIZE_RESULT);
        machine.feed(Side::Client, traffic::INITIALIZED);
        machine
    }

    /// Sides of two eras, pinned: every id is replaced (D32).
    pub(crate) fn two_eras() -> Self {
        Self::with(RelayConfig {
            dialects: Sides { client: Some(&mcp::REVISION_2025_06_18), server: Some(&mcp::REVISION_2026_07_28) },
            ..RelayConfig::default()
        })
    }

    fn with(config: RelayConfig) -> Self {
        Self {
            relay: Relay::new(RelayConfig {
                max_in_flight: usize::MAX,
                emit: Emit { notices: false, ..Emit::default() },
                ..config
            }),
            now: Instant::ORIGIN,
        }
    }

    fn feed(&mut self, side: Side, bytes: &[u8]) {
        self.now = self.now + STEP;
        self.relay.handle_input(self.now, side, bytes);
        for side in Side::BOTH {
            loop {
                let written = black_box(self.relay.pending(side)).len();
                if written == 0 {
                    break;
                }
                self.relay.handle_written(self.now, side, written);
            }
        }
        while let Some(event) = self.relay.poll_event() {
            black_box(event);
        }
        if self.relay.poll_timeout().is_some_and(|due| due <= self.now) {
            self.relay.handle_timeout(self.now);
        }
    }
}

impl Subject for Machine {
    fn take(&mut self, lines: &Lines) {
        let from = match lines.kind() {
            Kind::Ask | Kind::Cancel => Side::Client,
            Kind::Answer => Side::Server,
        };
        self.feed(from, lines.bytes());
    }

    fn in_flight(&self) -> usize {
        self.relay.in_flight(Side::Client)
    }
}
