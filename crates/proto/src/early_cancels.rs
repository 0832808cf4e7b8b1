//! Cancels that overtook their request, held for a moment (D9).
//!
//! A declared deviation from MCP-C12: on an ordered link a cancel for an id
//! that was never seen can only be ahead of its request.

use core::time::Duration;

use crate::{
    cause::MAX_REASON,
    hash::Seed,
    id::{IncomingId, RequestId},
    slab::Key,
    table::{Bounds, Entry, Ring, Table},
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

    /// The bounds for one's own client on a pipe: 4,096, for 250 ms. A client with many callers at once may write hundreds
    /// of cancels ahead of their requests.
    pub const OWN_CLIENT: Self = Self { most: 4096, ..Self::STRANGER };
}

/// An early cancel.
#[derive(Clone, Debug)]
pub(crate) struct EarlyCancel {
    pub(crate) id: IncomingId,
    /// The sender's words: untrusted.
    pub(crate) reason: Option<Box<str>>,
    pub(crate) until: Instant,
}

impl Entry for EarlyCancel {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.id.0
    }
}

/// Early cancels, found by id and given up oldest first.
#[derive(Clone, Debug)]
pub(crate) struct EarlyCancels {
    /// There while any are held, which lie in the ring [`RING`] from the start.
    table: Option<Box<Table<EarlyCancel>>>,
    /// A timer is armed, perhaps for one that was claimed since.
    is_armed: bool,
    limits: EarlyCancelLimits,
    seed: Seed,
}

const RING: Ring = Ring::Over;

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
    pub(crate) const fn new(limits: EarlyCancelLimits, seed: Seed) -> Self {
        Self { table: None, is_armed: false, limits, seed }
    }

    pub(crate) fn hold(&mut self, now: Instant, id: RequestId, reason: Option<Box<str>>) -> Hold {
        if self.table.as_deref().is_some_and(|table| table.by_id(&id).is_some()) {
            return Hold::Repeated;
        }
        if self.len() >= self.limits.most || self.limits.hold.is_zero() || id.heap_bytes() > MAX_REASON {
            return Hold::Full;
        }
        let until = now + self.limits.hold;
        let table = self.table.get_or_insert_with(|| Box::new(Table::new(self.seed)));
        let key = table.insert(table.hash(&id), EarlyCancel { id: IncomingId(id), reason, until });
        table.retire(key, now, RING);
        Hold::Held
    }

    /// Removes the cancel held for a request that has arrived.
    pub(crate) fn claim(&mut self, id: &RequestId) -> Option<EarlyCancel> {
        // Nearly every request finds none.
        let key = self.table.as_deref()?.by_id(id)?;
        self.take(key, Some(RING))
    }

    /// Removes the next cancel that was held in vain.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<EarlyCancel> {
        let bounds = self.bounds();
        let key = self.table.as_deref_mut()?.expired(RING, now, &bounds)?;
        self.take(key, None)
    }

    /// Removes one; a burst gives its room back.
    fn take(&mut self, key: Key, ring: Option<Ring>) -> Option<EarlyCancel> {
        let taken = self.table.as_deref_mut()?.remove(key, ring);
        if self.is_empty() {
            self.table = None;
        }
        taken
    }

    /// Bytes of memory held, capacities included.
    pub(crate) fn held(&self) -> usize {
        let text = |held: &EarlyCancel| held.id.0.heap_bytes() + held.reason.as_ref().map_or(0, |reason| reason.len());
        self.table.as_deref().map_or(0, |table| {
            size_of_val(table) + table.held() + table.iter().map(|(_, held)| text(held)).sum::<usize>()
        })
    }

    /// When the first is to be given up.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.table.as_deref()?.due(RING, &self.bounds())
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
        self.table.as_deref().map_or(0, Table::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Feeds ids and remaining times into a hasher.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        let all = self.table.iter().flat_map(|table| table.tombstones().filter_map(|(key, _)| table.get(key)));
        all.for_each(|held| (&held.id, held.until.since(now)).hash(state));
    }

    const fn bounds(&self) -> Bounds {
        Bounds { most: usize::MAX, hard: usize::MAX, least: Duration::MAX, longest: self.limits.hold }
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
        let mut early = EarlyCancels::new(EarlyCancelLimits { most: 3, hold: Duration::from_millis(10) }, Seed::new(1));
        for value in 0..3 {
            assert_eq!(early.hold(at(value as u64), id(value), None), Hold::Held);
        }
        let table = early.table.as_deref().unwrap();
        assert_eq!(early.held(), size_of_val(table) + table.held());
        assert_eq!(early.hold(at(3), id(1), None), Hold::Repeated);
        assert_eq!(early.hold(at(3), id(9), None), Hold::Full);
        assert_eq!(early.claim(&id(0)).map(|held| held.id.0), Some(id(0)));
        assert_eq!((early.len(), early.due()), (2, Some(at(11))), "the oldest that is left");
        assert_eq!(early.claim(&id(0)).map(|held| held.id.0), None);
        assert_eq!(early.expire(at(11)).map(|held| held.id.0), Some(id(1)));
        assert_eq!((early.expire(at(11)).map(|held| held.id.0), early.due()), (None, Some(at(12))));
        assert_eq!(early.expire(at(12)).map(|held| held.id.0), Some(id(2)));
        assert_eq!((early.len(), early.due(), early.table.is_none()), (0, None, true));
    }

    #[test]
    fn requests_that_follow_their_cancels_leave_no_room_behind() {
        let mut early =
            EarlyCancels::new(EarlyCancelLimits { most: 1000, hold: Duration::from_secs(10) }, Seed::new(1));
        early.hold(at(0), id(0), None);
        for value in 1..10_000 {
            early.hold(at(0), id(value), None);
            assert!(early.claim(&id(value)).is_some());
        }
        assert!(early.held() <= 16 << 10, "{}", early.held());
        early.claim(&id(0));
        assert_eq!(early.held(), 0);
    }

    #[test]
    fn an_id_that_would_fill_the_memory_is_not_held() {
        let mut early = EarlyCancels::new(EarlyCancelLimits::STRANGER, Seed::new(1));
        assert_eq!(early.hold(at(0), RequestId::string(&"x".repeat(2000)), None), Hold::Full);
    }
}
