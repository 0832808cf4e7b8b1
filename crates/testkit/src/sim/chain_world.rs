//! Two endpoints with a relay between them: what each sees of the other has passed two links and a translation.
//!
//! The relay is judged by its invariants, and by what its two sides come to see.

use std::sync::Arc;

use rescind_proto::{
    relay::{End, Relay},
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    endpoint::Endpoint,
    ends_world::{Between, EndsWorld},
    scene::Scene,
    world::{Broken, check_residue},
};

/// Two endpoints and a relay.
pub type ChainWorld = EndsWorld<RelayBetween>;

/// A relay that does what its two sides make it do.
#[derive(Clone, Debug)]
pub struct RelayBetween {
    relay: Relay,
    wire_only: bool,
}

impl ChainWorld {
    /// The scene before anything has happened; its dialects must not need a handshake.
    pub fn new(scene: Scene) -> Self {
        let ends = Sides::from_fn(|side| {
            // To an endpoint its peer speaks as it does.
            let dialect = scene.dialects[side];
            let dialects = Sides { client: dialect, server: dialect };
            Endpoint::new(&Arc::new(Scene { dialects, ..scene.clone() }), side)
        });
        let relay = Relay::new(Scene { clock: None, ..scene.clone() }.relay_config());
        let between = RelayBetween { relay, wire_only: scene.wire_only };
        Self::of(Arc::new(scene), ends, between, Instant::ORIGIN)
    }
}

impl RelayBetween {
    fn watch(&mut self) {
        while self.relay.poll_event().is_some() {}
        if !self.wire_only {
            self.relay.check_invariants();
        }
    }
}

impl Between for RelayBetween {
    const IS_WIRE: bool = false;

    fn pending(&self, to: Side) -> &[u8] {
        self.relay.pending(to)
    }

    fn take(&mut self, now: Instant, to: Side, len: usize) -> Vec<u8> {
        let bytes = self.relay.pending(to)[..len].to_vec();
        self.relay.handle_written(now, to, len);
        self.watch();
        bytes
    }

    fn input(&mut self, now: Instant, from: Side, bytes: &[u8]) {
        self.relay.handle_input(now, from, bytes);
        self.watch();
    }

    fn due(&self) -> Option<Instant> {
        self.relay.poll_timeout()
    }

    fn pass(&mut self, now: Instant) {
        self.relay.handle_timeout(now);
        self.watch();
    }

    fn end(&mut self, now: Instant, side: Side, endpoint: &mut Endpoint) -> Result<(), Broken> {
        endpoint.link_is_lost(now)?;
        self.relay.handle_eof(now, side, &End::Closed);
        self.relay.handle_write_closed(now, side);
        self.watch();
        Ok(())
    }

    fn check_empty(&self) -> Result<(), Broken> {
        check_residue(&self.relay)
    }

    fn hash_state(&self, now: Instant, digest: &mut Digest) {
        self.relay.hash_state(now, digest);
    }
}
