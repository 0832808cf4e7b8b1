//! Cancels that overtook their request, held for a moment (D9).
//!
//! A declared deviation from MCP-C12: on an ordered link a cancel for an id
//! that was never seen can only be ahead of its request.

use core::time::Duration;
use std::collections::VecDeque;

use crate::{
    id::{IncomingId, RequestId},
    time::Instant,
};

/// A held cancel.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) id: IncomingId,
    /// The sender's words: untrusted.
    pub(crate) reason: Option<Box<str>>,
    pub(crate) until: Instant,
}

/// Held cancels, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Sticky {
    held: VecDeque<Held>,
    most: usize,
    hold: Duration,
}

/// What became of a cancel that was to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Held,
    /// One for this id is held already.
    Repeated,
    /// Too many are held; nobody can fill our memory with them.
    Full,
}

impl Sticky {
    pub(crate) const fn new(most: usize, hold: Duration) -> Self {
        Self { held: VecDeque::new(), most, hold }
    }

    pub(crate) fn hold(&mut self, now: Instant, id: RequestId, reason: Option<Box<str>>) -> Hold {
        if self.held.iter().any(|held| held.id.0 == id) {
            return Hold::Repeated;
        }
        if self.held.len() >= self.most || self.hold.is_zero() {
            return Hold::Full;
        }
        self.held.push_back(Held { id: IncomingId(id), reason, until: now + self.hold });
        Hold::Held
    }

    /// Takes the cancel held for a request that has arrived.
    pub(crate) fn take(&mut self, id: &RequestId) -> Option<Held> {
        let place = self.held.iter().position(|held| held.id.0 == *id)?;
        self.held.remove(place)
    }

    /// Takes the next cancel that was held in vain.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Held> {
        self.held.pop_front_if(|held| held.until <= now)
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        let text = |held: &Held| held.id.0.heap_bytes() + held.reason.as_ref().map_or(0, |reason| reason.len());
        self.held.capacity() * size_of::<Held>() + self.held.iter().map(text).sum::<usize>()
    }

    /// When the first is to be given up.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Feeds ids and remaining times into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for held in &self.held {
            (&held.id, held.until.since(now)).hash(state);
        }
    }
}
