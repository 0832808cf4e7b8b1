//! A clock that stands still while a person is asked (D49).
//!
//! What is due by it is kept as an instant *on* it, so that standing still for an hour changes one number and not
//! every deadline. An armed timer cannot be changed so cheaply: one that fires while the clock stands is parked, and
//! armed again when the clock goes on.

use core::time::Duration;

use crate::{slab::Key, time::Instant, timer_queue::NEVER};

/// A clock, how often it is being held, and the timers that wait until it goes on.
#[derive(Clone, Debug)]
pub(crate) struct Standstill {
    /// How many hold it.
    holders: usize,
    /// Since when it stands, while it does.
    since: Instant,
    /// How long it has stood before that.
    stood: Duration,
    parked: Vec<Key>,
}

impl Standstill {
    pub(crate) const fn new() -> Self {
        Self { holders: 0, since: Instant::ORIGIN, stood: Duration::ZERO, parked: Vec::new() }
    }

    pub(crate) const fn holders(&self) -> usize {
        self.holders
    }

    pub(crate) const fn is_held(&self) -> bool {
        self.holders > 0
    }

    /// One more reason to stand still.
    pub(crate) const fn hold(&mut self, now: Instant) {
        if self.holders == 0 {
            self.since = now;
        }
        self.holders += 1;
    }

    /// One reason less. With the last, the clock goes on, and what was parked has to be armed again.
    pub(crate) fn release(&mut self, now: Instant) -> Vec<Key> {
        self.holders -= 1;
        if self.is_held() {
            return Vec::new();
        }
        self.stood += now.since(self.since);
        core::mem::take(&mut self.parked)
    }

    /// What this clock shows.
    pub(crate) fn reading(&self, now: Instant) -> Instant {
        Instant::after_origin(now.since_origin().saturating_sub(self.stood_until(now)))
    }

    /// When this clock will show `at`; [`NEVER`] while it stands.
    pub(crate) fn due(&self, at: Instant) -> Instant {
        if self.is_held() { NEVER } else { at + self.stood }
    }

    /// When this clock would show `at` if it went on now: never later than when it will.
    pub(crate) fn earliest(&self, now: Instant, at: Instant) -> Instant {
        at + self.stood_until(now)
    }

    /// Keeps a timer that fired while the clock stands; `most` are alive, and `is_alive` knows which.
    pub(crate) fn park(&mut self, key: Key, most: usize, is_alive: impl Fn(Key) -> bool) {
        self.parked.push(key);
        if self.parked.len() > 2 * most + 32 {
            self.parked.sort_unstable();
            self.parked.dedup();
            self.parked.retain(|key| is_alive(*key));
        }
    }

    /// Whether a timer waits for the clock to go on.
    pub(crate) fn has_parked(&self, key: Key) -> bool {
        self.parked.contains(&key)
    }

    fn stood_until(&self, now: Instant) -> Duration {
        let stands = if self.is_held() { now.since(self.since) } else { Duration::ZERO };
        self.stood + stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_due_moves_by_as_long_as_any_held_it() {
        let mut clock = Standstill::new();
        let due = clock.reading(at(1)) + Duration::from_secs(10);
        clock.hold(at(2));
        clock.hold(at(3));
        assert_eq!((clock.due(due), clock.earliest(at(5), due)), (NEVER, at(14)));
        assert!(clock.release(at(6)).is_empty());
        assert_eq!(clock.reading(at(9)), at(2), "it stands");
        clock.release(at(9));
        assert_eq!((clock.due(due), clock.reading(at(18))), (at(18), due));
    }

    #[test]
    fn what_is_never_due_stays_so() {
        let mut clock = Standstill::new();
        clock.hold(at(2));
        clock.release(at(9));
        assert_eq!((clock.due(NEVER), clock.earliest(at(10), NEVER)), (NEVER, NEVER));
    }

    #[test]
    fn the_parked_are_bounded_by_those_alive() {
        let mut clock = Standstill::new();
        let mut slab = crate::slab::Slab::new();
        clock.hold(at(0));
        for _ in 0..1000 {
            let key = slab.insert(());
            clock.park(key, 1, |key| slab.get(key).is_some());
            slab.remove(key);
        }
        assert!(clock.parked.len() <= 2 + 33, "{}", clock.parked.len());
    }
}
