//! A relay on the stage of a world: its clock, what has left it, and what has happened.

use core::{
    fmt::Display,
    hash::{Hash, Hasher},
    time::Duration,
};

use rescind_proto::{
    bridge::BridgeConfig,
    framing::Framing,
    id::RequestId,
    link::RequestKey,
    receipt::{Outcome, Receipt},
    relay::{End, Relay, RelayConfig, RelayEvent, RequestView},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    hop::{Cut, Hop},
    world::{Broken, Transcript, check_residue},
};

/// A relay, both links as far as they have been read, and a clock.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The machine.
    pub relay: Relay,
    /// The clock.
    pub now: Instant,
    /// What has happened.
    pub transcript: Transcript,
    /// The server has died.
    pub is_server_lost: bool,
    hops: Sides<Hop>,
}

impl Default for Stage {
    fn default() -> Self {
        Self::with_bridge(false, false)
    }
}

impl Stage {
    /// The relay at this time.
    pub fn new(relay: Relay, now: Instant) -> Self {
        Self { relay, now, transcript: Transcript::default(), is_server_lost: false, hops: Sides::default() }
    }

    /// A relay with a bridge, whose link several clients share, or one has for itself.
    pub fn with_bridge(is_shared: bool, server_departs: bool) -> Self {
        let bridge = BridgeConfig { serves_modern: true, is_shared, may_ask: !is_shared, ..BridgeConfig::default() };
        let (bridge, framing) = (Some(bridge), Some(Framing::Line));
        let config = RelayConfig { bridge, framing, remembered: 8, server_departs, ..RelayConfig::default() };
        Self::new(Relay::new(config), Instant::ORIGIN)
    }

    /// A side says a line.
    pub fn say(&mut self, from: Side, line: &str) {
        self.transcript.note(|| format!("{} -> {line}", from.as_str()));
        self.relay.handle_input(self.now, from, format!("{line}\n").as_bytes());
    }

    /// Some of what waits for a side is written. Returns the frames that are whole now.
    pub fn write(&mut self, to: Side, cut: Cut) -> Vec<String> {
        let len = cut.len(self.relay.pending(to));
        let bytes = self.relay.pending(to)[..len].to_vec();
        self.relay.handle_written(self.now, to, len);
        self.hops[to].take(&bytes)
    }

    /// Notes that a side reads a frame.
    pub fn note_read(&mut self, to: Side, frame: &str) {
        self.transcript.note(|| format!("          {frame} -> {}", to.as_str()));
    }

    /// The frame for a side that is half out.
    pub fn begun(&self, side: Side) -> Option<String> {
        self.hops[side].begun(self.relay.pending(side))
    }

    /// Whether a frame for a side is half out.
    pub fn is_cut(&self, side: Side) -> bool {
        self.hops[side].is_cut()
    }

    /// A side has half a frame, and will never have the rest.
    pub fn clear(&mut self, side: Side) {
        self.hops[side].clear();
    }

    /// The server dies.
    pub fn lose_server(&mut self) {
        self.is_server_lost = true;
        self.relay.handle_eof(self.now, Side::Server, &End::Closed);
        self.clear(Side::Server);
    }

    /// The time of the next timer comes.
    pub fn pass(&mut self) {
        if let Some(due) = self.relay.poll_timeout() {
            self.now = due.max(self.now);
            self.relay.handle_timeout(self.now);
        }
    }

    /// The operator stops a request, if there is such a one.
    pub fn stop(&mut self, what: &dyn Display, key: Option<RequestKey>) {
        self.transcript.note(|| format!("operator stops {what}"));
        if let Some(key) = key {
            self.relay.stop(self.now, key, None);
        }
    }

    /// The client's requests, in flight or remembered.
    pub fn views(&self) -> impl Iterator<Item = RequestView<'_>> {
        self.relay.summaries(Side::Client).filter_map(|summary| self.relay.view(summary.key))
    }

    /// The receipts for the client's requests that are new. Checks the machine's invariants, too.
    pub fn receipts(&mut self) -> Vec<(RequestKey, RequestId, Receipt)> {
        let mut receipts = Vec::new();
        while let Some(event) = self.relay.poll_event() {
            if let RelayEvent::Receipt { request, id, receipt, .. } = event
                && request.from == Side::Client
            {
                receipts.push((request, id, receipt));
            }
        }
        self.relay.check_invariants();
        receipts
    }

    /// After a long time nothing is left: what is remembered goes with the next message.
    ///
    /// # Errors
    ///
    /// How much is left.
    pub fn check_empty(&mut self) -> Result<(), Broken> {
        self.now = self.now + Duration::from_secs(7200);
        self.relay.handle_timeout(self.now);
        check_residue(&self.relay)
    }

    /// Feeds what decides the future into a hasher.
    pub fn hash_state(&self, state: &mut impl Hasher) {
        self.relay.hash_state(self.now, state);
        self.hops.hash(state);
    }
}

/// Whether a receipt says that the server was handed the cancel.
pub fn claims_sent(receipt: &Receipt) -> bool {
    receipt.written.is_some()
        || matches!(receipt.outcome, Outcome::Sent | Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. })
}
