//! Two endpoints and the link between them.

use core::hash::Hash;
use std::sync::Arc;

use rescind_proto::{
    side::{Side, Sides},
    time::Instant,
};

use super::{
    digest::Digest,
    endpoint::Endpoint,
    ends_world::{Between, EndsWorld},
    handshake,
    scene::Scene,
    world::Broken,
};

/// Two endpoints joined by a link.
pub type PairWorld = EndsWorld<Wire>;

/// What is on the way to each side.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    flight: Sides<Vec<u8>>,
    /// Which side's input has ended; follows from what its model knows.
    ended: Sides<bool>,
}

impl PairWorld {
    /// The scene before anything has happened, its handshake done.
    pub fn new(scene: Scene) -> Self {
        let scene = Arc::new(scene);
        let (ends, now) = handshake::endpoints(&scene);
        Self::of(scene, ends, Wire::default(), now)
    }
}

impl Between for Wire {
    const IS_WIRE: bool = true;

    fn pending(&self, to: Side) -> &[u8] {
        &self.flight[to]
    }

    fn take(&mut self, _: Instant, to: Side, len: usize) -> Vec<u8> {
        self.flight[to].drain(..len).collect()
    }

    fn input(&mut self, _: Instant, from: Side, bytes: &[u8]) {
        if !self.ended[from.other()] {
            self.flight[from.other()].extend_from_slice(bytes);
        }
    }

    fn end(&mut self, now: Instant, side: Side, endpoint: &mut Endpoint) -> Result<(), Broken> {
        let rest = core::mem::take(&mut self.flight[side]);
        if !rest.is_empty() {
            endpoint.input(now, &rest)?;
        }
        self.ended[side] = true;
        endpoint.input_ends(now)
    }

    fn clear(&mut self) {
        *self = Self { flight: Sides::default(), ended: Sides { client: true, server: true } };
    }

    fn hash_state(&self, _: Instant, digest: &mut Digest) {
        self.flight.hash(digest);
    }
}
