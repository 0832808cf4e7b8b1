//! A relay on a test bench: both ends in the test's hands, time in its fingers.
//!
//! Lines go in with [`from_client`](RelayRig::from_client) and
//! [`from_server`](RelayRig::from_server). What goes out is read with
//! [`at_client`](RelayRig::at_client) and [`at_server`](RelayRig::at_server),
//! which is when it is written: until then it waits, and can be withdrawn.

use core::time::Duration;
use std::collections::VecDeque;

use crate::valid::ValidMessages;

use rescind_proto::{
    framing::Framing,
    link::{CancelNotice, RequestKey, Verdict},
    receipt::{Outcome, Receipt},
    relay::{Emit, End, Relay, RelayConfig, RelayEvent},
    rule::Rule,
    side::{Side, Sides},
    time::Instant,
};

/// A relay, its two ends and a clock.
#[derive(Clone, Debug)]
pub struct RelayRig {
    /// The machine.
    pub relay: Relay,
    /// The clock.
    pub now: Instant,
    /// Everything it has told so far.
    pub events: Vec<RelayEvent>,
    /// Bytes written and not yet read as whole frames.
    wires: Sides<VecDeque<u8>>,
    framing: Framing,
    /// What the client may receive.
    valid: ValidMessages,
}

impl RelayRig {
    /// A relay with these settings, every event switched on.
    pub fn new(config: RelayConfig) -> Self {
        let framing = config.framing.unwrap_or(Framing::Line);
        Self {
            relay: Relay::new(RelayConfig {
                emit: Emit { requests: true, ..config.emit },
                // Its invariants compare them with what is in flight, whatever a test is about.
                keeps_arguments: true,
                ..config
            }),
            now: Instant::ORIGIN,
            events: Vec::new(),
            wires: Sides::from_fn(|_| VecDeque::new()),
            framing,
            valid: ValidMessages::default(),
        }
    }

    /// One message from the client, framed here.
    pub fn from_client(&mut self, body: &str) {
        self.send(Side::Client, body);
    }

    /// One message from the server, framed here.
    pub fn from_server(&mut self, body: &str) {
        self.send(Side::Server, body);
    }

    /// One message from `side`, framed here.
    pub fn send(&mut self, side: Side, body: &str) {
        if side == Side::Client {
            self.valid.sent(body);
        }
        let mut bytes = Vec::new();
        self.framing.write(&mut bytes, body.as_bytes());
        self.bytes(side, &bytes);
    }

    /// Raw bytes from `side`.
    pub fn bytes(&mut self, side: Side, bytes: &[u8]) {
        self.relay.handle_input(self.now, side, bytes);
        self.collect();
    }

    /// `side` takes at most `most` of the bytes that wait for it.
    pub fn write(&mut self, side: Side, mut most: usize) {
        loop {
            let pending = self.relay.pending(side);
            let n = pending.len().min(most);
            if n == 0 {
                break;
            }
            self.wires[side].extend(&pending[..n]);
            most -= n;
            self.relay.handle_written(self.now, side, n);
        }
        self.collect();
    }

    /// The client reads all there is: whole messages, without their framing.
    pub fn at_client(&mut self) -> Vec<String> {
        self.read(Side::Client)
    }

    /// The server reads all there is: whole messages, without their framing.
    pub fn at_server(&mut self) -> Vec<String> {
        self.read(Side::Server)
    }

    /// `side` reads all there is: whole messages, without their framing.
    pub fn read(&mut self, side: Side) -> Vec<String> {
        self.write(side, usize::MAX);
        let wire = self.wires[side].make_contiguous().to_vec();
        let mut decoder = rescind_proto::framing::Decoder::new(Some(self.framing), usize::MAX >> 1);
        let mut rest = &wire[..];
        let mut found = Vec::new();
        while let Some(chunk) = decoder.decode(&mut rest) {
            if let rescind_proto::framing::Chunk::Frame(framed) = chunk {
                found.push(String::from_utf8_lossy(framed.body()).into_owned());
            }
        }
        let half = decoder.buffered();
        let keep = wire.len() - half;
        self.wires[side].drain(..keep);
        if side == Side::Client {
            for message in &found {
                self.valid.check(message).unwrap_or_else(|why| panic!("{why}: {message}"));
            }
        }
        found
    }

    /// Time passes; every timer that falls due on the way fires at its own time.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.relay.poll_timeout()
            && due <= until
        {
            self.now = due.max(self.now);
            self.relay.handle_timeout(self.now);
        }
        self.now = until;
        self.collect();
    }

    /// Another process takes the place of `side`: what the former one had not read whole is gone with it.
    pub fn replace(&mut self, side: Side) {
        self.wires[side].clear();
    }

    /// `side` ends.
    pub fn end(&mut self, side: Side, how: &End) {
        self.relay.handle_eof(self.now, side, how);
        self.collect();
    }

    /// The newest receipt for the request that `from` calls `id`.
    #[must_use]
    pub fn receipt(&self, from: Side, id: &str) -> Option<Receipt> {
        self.events.iter().rev().find_map(|event| {
            let RelayEvent::Receipt { request, id: known, receipt, .. } = event else { return None };
            (request.from == from && known.to_string() == id).then(|| receipt.clone())
        })
    }

    /// The newest outcome for a request of the client.
    #[must_use]
    pub fn outcome(&self, id: &str) -> Option<Outcome> {
        self.receipt(Side::Client, id).map(|receipt| receipt.outcome)
    }

    /// What was done with each cancel so far.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.notices().map(|notice| notice.verdict).collect()
    }

    /// The cancels so far.
    pub fn notices(&self) -> impl Iterator<Item = &CancelNotice> {
        self.events.iter().filter_map(|event| if let RelayEvent::Cancel(notice) = event { Some(notice) } else { None })
    }

    /// The rules broken so far.
    #[must_use]
    pub fn violations(&self) -> Vec<(Side, Rule)> {
        let broken = |event: &RelayEvent| {
            if let RelayEvent::Violation { by, rule, .. } = event { Some((*by, *rule)) } else { None }
        };
        self.events.iter().filter_map(broken).collect()
    }

    /// How many messages were swallowed because they came late.
    #[must_use]
    pub fn late(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, RelayEvent::Late { .. })).count()
    }

    /// The key of the newest request that `from` calls `id`.
    #[must_use]
    pub fn key(&self, from: Side, id: &str) -> Option<RequestKey> {
        self.events.iter().rev().find_map(|event| {
            let RelayEvent::Opened { request, id: known, .. } = event else { return None };
            (request.from == from && known.to_string() == id).then_some(*request)
        })
    }

    fn collect(&mut self) {
        self.events.extend(core::iter::from_fn(|| self.relay.poll_event()));
        if self.relay.remembered(Side::Client) < 64 {
            self.relay.check_invariants();
        }
    }
}
