//! Cancels that overtook their request, held for a moment (D9).
//!
//! A declared deviation from MCP-C12: on an ordered link a cancel for an id
//! that was never seen can only be ahead of its request.

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::{
    cause::MAX_REASON,
    hash::Seed,
    id::{IncomingId, RequestId},
    slab::{Key, Slab},
    time::Instant,
};

/// How many cancels of one side are held for a request never seen, and how long (D9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyCancelLimits {
    /// How many are held at once; one more is ignored.
    pub most: usize,
    /// How long each is held; zero holds none.
    pub hold: Duration,
}

impl EarlyCancelLimits {
    /// The bounds for a sender that may be anybody: 64, for 250 ms.
    pub const STRANGER: Self = Self { most: 64, hold: Duration::from_millis(250) };
}

/// A held cancel.
#[derive(Clone, Debug)]
pub(crate) struct EarlyCancel {
    pub(crate) id: IncomingId,
    /// The sender's words: untrusted.
    pub(crate) reason: Option<Box<str>>,
    pub(crate) until: Instant,
}

/// Held cancels, found by id and given up oldest first.
#[derive(Clone, Debug)]
pub(crate) struct EarlyCancels {
    held: Slab<EarlyCancel>,
    ids: HashTable<u32>,
    /// Oldest first, with some that were taken.
    order: VecDeque<Key>,
    /// A timer is armed, perhaps for one that was taken since.
    is_armed: bool,
    bounds: EarlyCancelLimits,
    seed: Seed,
}

/// What became of a cancel that was to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Held,
    /// One for this id is held already.
    Repeated,
    /// Too many are held, or the id is too long: no sender may fill our memory with them.
    Full,
}

impl EarlyCancels {
    pub(crate) const fn new(bounds: EarlyCancelLimits, seed: Seed) -> Self {
        Self { held: Slab::new(), ids: HashTable::new(), order: VecDeque::new(), is_armed: false, bounds, seed }
    }

    pub(crate) fn hold(&mut self, now: Instant, id: RequestId, reason: Option<Box<str>>) -> Hold {
        if self.find(&id).is_some() {
            return Hold::Repeated;
        }
        if self.len() >= self.bounds.most || self.bounds.hold.is_zero() || id.heap_bytes() > MAX_REASON {
            return Hold::Full;
        }
        let Self { held, ids, order, bounds, seed, .. } = self;
        let hash = seed.id(&id);
        let key = held.insert(EarlyCancel { id: IncomingId(id), reason, until: now + bounds.hold });
        ids.insert_unique(hash, key.index(), |&at| held.at(at).map_or(0, |other| seed.id(&other.id.0)));
        order.push_back(key);
        Hold::Held
    }

    /// Takes the cancel held for a request that has arrived.
    pub(crate) fn take(&mut self, id: &RequestId) -> Option<EarlyCancel> {
        let key = self.find(id)?;
        let taken = self.remove(key);
        self.tidy();
        taken
    }

    /// Takes the next cancel that was held in vain.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<EarlyCancel> {
        let oldest = *self.order.front()?;
        self.held.get(oldest).filter(|held| held.until <= now)?;
        let expired = self.remove(oldest);
        self.tidy();
        expired
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        let text = |held: &EarlyCancel| held.id.0.heap_bytes() + held.reason.as_ref().map_or(0, |reason| reason.len());
        let texts = self.held.iter().map(|(_, held)| text(held)).sum::<usize>();
        self.held.held() + self.ids.allocation_size() + self.order.capacity() * size_of::<Key>() + texts
    }

    /// When the first is to be given up.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.get(*self.order.front()?).map(|held| held.until)
    }

    /// When a timer is to be armed, unless one is: it calls [`expire`](Self::expire), and then this again.
    pub(crate) fn arm(&mut self) -> Option<Instant> {
        let due = self.due().filter(|_| !self.is_armed)?;
        self.is_armed = true;
        Some(due)
    }

    /// The timer has come.
    pub(crate) const fn disarm(&mut self) {
        self.is_armed = false;
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Feeds ids and remaining times into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for held in self.order.iter().filter_map(|key| self.held.get(*key)) {
            (&held.id, held.until.since(now)).hash(state);
        }
    }

    fn find(&self, id: &RequestId) -> Option<Key> {
        // Nearly every request finds the table empty.
        if self.len() == 0 {
            return None;
        }
        let is = |&at: &u32| self.held.at(at).is_some_and(|held| held.id.0 == *id);
        self.held.key_at(*self.ids.find(self.seed.id(id), is)?)
    }

    fn remove(&mut self, key: Key) -> Option<EarlyCancel> {
        let taken = self.held.remove(key)?;
        if let Ok(entry) = self.ids.find_entry(self.seed.id(&taken.id.0), |&at| at == key.index()) {
            entry.remove();
        }
        Some(taken)
    }

    /// Keeps the oldest in front, so that [`due`](Self::due) sees it, and the order no longer than twice what is held.
    fn tidy(&mut self) {
        if self.len() == 0 {
            // A burst gives its room back.
            *self = Self { is_armed: self.is_armed, ..Self::new(self.bounds, self.seed) };
            return;
        }
        let Self { held, order, .. } = self;
        while order.pop_front_if(|key| held.get(*key).is_none()).is_some() {}
        if order.len() > 2 * held.len() + 32 {
            order.retain(|key| held.get(*key).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    fn id(value: i64) -> RequestId {
        RequestId::integer(value)
    }

    #[test]
    fn each_is_found_by_its_id_and_the_rest_expire_in_their_order() {
        let mut sticky =
            EarlyCancels::new(EarlyCancelLimits { most: 3, hold: Duration::from_millis(10) }, Seed::new(1));
        for value in 0..3 {
            assert_eq!(sticky.hold(at(value as u64), id(value), None), Hold::Held);
        }
        assert_eq!(sticky.hold(at(3), id(1), None), Hold::Repeated);
        assert_eq!(sticky.hold(at(3), id(9), None), Hold::Full);
        assert_eq!(sticky.take(&id(0)).map(|held| held.id.0), Some(id(0)));
        assert_eq!((sticky.len(), sticky.due()), (2, Some(at(11))), "the oldest that is left");
        assert_eq!(sticky.take(&id(0)).map(|held| held.id.0), None);
        assert_eq!(sticky.expire(at(11)).map(|held| held.id.0), Some(id(1)));
        assert_eq!((sticky.expire(at(11)).map(|held| held.id.0), sticky.due()), (None, Some(at(12))));
        assert_eq!(sticky.expire(at(12)).map(|held| held.id.0), Some(id(2)));
        assert_eq!((sticky.len(), sticky.due(), sticky.ids.len()), (0, None, 0));
    }

    #[test]
    fn requests_that_follow_their_cancels_leave_no_room_behind() {
        let mut sticky =
            EarlyCancels::new(EarlyCancelLimits { most: 1000, hold: Duration::from_secs(10) }, Seed::new(1));
        sticky.hold(at(0), id(0), None);
        for value in 1..10_000 {
            sticky.hold(at(0), id(value), None);
            assert!(sticky.take(&id(value)).is_some());
        }
        assert!(sticky.order.capacity() <= 256, "{}", sticky.order.capacity());
        sticky.take(&id(0));
        assert_eq!((sticky.order.capacity(), sticky.ids.capacity()), (0, 0));
    }

    #[test]
    fn an_id_that_would_fill_the_memory_is_not_held() {
        let mut sticky = EarlyCancels::new(EarlyCancelLimits::STRANGER, Seed::new(1));
        assert_eq!(sticky.hold(at(0), RequestId::string(&"x".repeat(2000)), None), Hold::Full);
    }
}
