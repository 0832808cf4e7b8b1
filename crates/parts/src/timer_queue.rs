//! Timers that are mostly armed in the order of their deadlines and mostly disarmed before them.
//!
//! Requests of one limit become due in the order in which they are made, so
//! their timers form a queue: arming is a push, disarming a mark. A few such
//! queues, the lanes, hold what arrives in order; whatever fits into none, and
//! whatever outlives its neighbours, lies in an ordered tree.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::time::Instant;

/// The time of a timer that is not armed.
pub const NEVER: Instant = Instant::after_origin(Duration::MAX);

/// Lanes; more limits than these at once, and some timers go to the tree.
const LANES: usize = 4;

/// A timer further than this behind the end of every lane gets a lane of its own while there is one.
const NEAR: Duration = Duration::from_secs(1);

/// Dead entries that a lane may hold beyond as many as are alive.
const SLACK: usize = 64;

/// Where a timer is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerKey {
    /// When it is due; [`NEVER`] if it is not armed.
    pub at: Instant,
    /// Its number in its lane, times the number of lanes, plus the lane; or one beyond all lanes.
    place: u64,
}

impl Default for TimerKey {
    fn default() -> Self {
        Self::NOT
    }
}

impl TimerKey {
    /// Not armed.
    pub const NOT: Self = Self { at: NEVER, place: u64::MAX };

    /// Whether it is armed.
    pub fn is_armed(self) -> bool {
        self.at != NEVER
    }
}

/// Timers in the order of their deadlines; ties in the order of arming, lane by lane.
#[derive(Clone, Debug)]
pub struct TimerQueue<T> {
    timer_queue: [Lane<T>; LANES],
    rest: BTreeMap<(Instant, u64), T>,
    /// Counts down: the places of timers that never were in a lane.
    next_place: u64,
}

/// A queue whose deadlines never decrease; its first and last entry are alive.
#[derive(Clone, Debug)]
struct Lane<T> {
    queue: VecDeque<(Instant, Option<T>)>,
    /// The number of `queue[0]`.
    first: u64,
    dead: usize,
}

impl<T: Copy> TimerQueue<T> {
    /// No timer is armed.
    pub const fn new() -> Self {
        Self { timer_queue: [const { Lane::new() }; LANES], rest: BTreeMap::new(), next_place: u64::MAX - 1 }
    }

    /// Arms a timer.
    pub fn arm(&mut self, at: Instant, timer: T) -> TimerKey {
        let Some(which) = self.lane_for(at) else {
            let place = self.next_place;
            self.next_place -= 1;
            self.rest.insert((at, place), timer);
            return TimerKey { at, place };
        };
        let lane = &mut self.timer_queue[which];
        lane.queue.push_back((at, Some(timer)));
        let number = lane.first + lane.queue.len() as u64 - 1;
        TimerKey { at, place: number * LANES as u64 + which as u64 }
    }

    /// The lane that ends closest before `at`: far ahead of its end a timer would only spoil it for the others.
    fn lane_for(&self, at: Instant) -> Option<usize> {
        let (mut best, mut empty) = (None, None);
        for (which, lane) in self.timer_queue.iter().enumerate() {
            match lane.last() {
                None => empty = Some(which),
                Some(last) if last <= at => best = best.max(Some((last, which))),
                Some(_) => {}
            }
        }
        match best {
            Some((last, which)) if at.since(last) <= NEAR => Some(which),
            best => empty.or_else(|| best.map(|(_, which)| which)),
        }
    }

    /// Removes a timer that is armed; at once afterwards its [`TimerKey`] is worth nothing.
    pub fn disarm(&mut self, armed: TimerKey) {
        if !armed.is_armed() {
            return;
        }
        let which = (armed.place % LANES as u64) as usize;
        let lane = &mut self.timer_queue[which];
        let number = armed.place / LANES as u64;
        let entry = number.checked_sub(lane.first).and_then(|place| lane.queue.get_mut(usize::try_from(place).ok()?));
        let Some(entry) = entry else {
            self.rest.remove(&(armed.at, armed.place));
            return;
        };
        if entry.1.take().is_some() {
            lane.dead += 1;
            lane.trim();
            self.clear_out(which);
        }
    }

    /// Arms a timer anew, unless it is armed for as early a time.
    pub fn arm_by(&mut self, armed: &mut TimerKey, at: Instant, timer: T) {
        if at < armed.at {
            self.stop(armed);
            *armed = self.arm(at, timer);
        }
    }

    /// Disarms a timer, if it is armed.
    #[inline]
    pub fn stop(&mut self, armed: &mut TimerKey) {
        if armed.is_armed() {
            self.disarm(core::mem::replace(armed, TimerKey::NOT));
        }
    }

    /// When the first is due.
    pub fn next(&self) -> Option<Instant> {
        let fronts = self.timer_queue.iter().filter_map(|lane| lane.queue.front().map(|(at, _)| *at));
        fronts.chain(self.rest.first_key_value().map(|((at, _), _)| *at)).min()
    }

    /// Takes the first timer whose deadline has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        let next = self.next().filter(|next| *next <= now)?;
        for lane in &mut self.timer_queue {
            if lane.queue.front().is_some_and(|(at, _)| *at == next) {
                lane.first += 1;
                let (_, timer) = lane.queue.pop_front()?;
                lane.trim();
                return timer;
            }
        }
        self.rest.pop_first().map(|(_, timer)| timer)
    }

    /// Moves what outlives its neighbours out of a lane, so that the dead cannot pile up behind it.
    fn clear_out(&mut self, which: usize) {
        let lane = &mut self.timer_queue[which];
        while lane.dead > lane.queue.len() - lane.dead + SLACK {
            let place = lane.first * LANES as u64 + which as u64;
            lane.first += 1;
            match lane.queue.pop_front() {
                Some((at, Some(timer))) => drop(self.rest.insert((at, place), timer)),
                Some((_, None)) => lane.dead -= 1,
                None => return,
            }
        }
        lane.trim();
    }

    /// How many are armed.
    pub fn len(&self) -> usize {
        self.timer_queue.iter().map(|lane| lane.queue.len() - lane.dead).sum::<usize>() + self.rest.len()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Instant, T)> {
        let timer_queue =
            self.timer_queue.iter().flat_map(|lane| &lane.queue).filter_map(|(at, timer)| Some((*at, (*timer)?)));
        timer_queue.chain(self.rest.iter().map(|((at, _), timer)| (*at, *timer)))
    }
}

impl<T> Lane<T> {
    const fn new() -> Self {
        Self { queue: VecDeque::new(), first: 0, dead: 0 }
    }

    fn last(&self) -> Option<Instant> {
        self.queue.back().map(|(at, _)| *at)
    }

    /// Drops the dead at both ends.
    fn trim(&mut self) {
        while let Some((_, None)) = self.queue.front() {
            self.queue.pop_front();
            self.first += 1;
            self.dead -= 1;
        }
        while let Some((_, None)) = self.queue.back() {
            self.queue.pop_back();
            self.dead -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(core::time::Duration::from_millis(millis))
    }

    #[test]
    fn timers_of_few_limits_lie_in_lanes() {
        let mut timer_queue = TimerQueue::new();
        for now in 0..1000 {
            for limit in [60_000, 1_800_000, 5_000, 300] {
                timer_queue.arm(at(now + limit), limit);
            }
        }
        assert_eq!((timer_queue.len(), timer_queue.rest.len()), (4000, 0));
        assert_eq!(timer_queue.next(), Some(at(300)));
    }

    #[test]
    fn a_timer_far_ahead_does_not_take_the_lane_of_the_others() {
        let mut timer_queue = TimerQueue::new();
        timer_queue.arm(at(1000), 1);
        let far = timer_queue.arm(at(1_000_000), 2);
        timer_queue.arm(at(1001), 3);
        assert_eq!(timer_queue.rest.len(), 0);
        timer_queue.disarm(far);
        assert_eq!((timer_queue.pop_due(at(2000)), timer_queue.pop_due(at(2000))), (Some(1), Some(3)));
        assert_eq!(timer_queue.next(), None);
    }

    #[test]
    fn a_disarmed_timer_leaves_its_neighbours_in_their_lane() {
        let mut timer_queue = TimerQueue::new();
        let [_, second, _] = [1, 2, 3].map(|due| timer_queue.arm(at(due), due));
        timer_queue.disarm(second);
        assert_eq!((timer_queue.len(), timer_queue.rest.len()), (2, 0));
    }

    #[test]
    fn the_dead_do_not_pile_up_behind_the_living() {
        let mut timer_queue = TimerQueue::new();
        let old = timer_queue.arm(at(0), 0);
        for now in 1..100_000 {
            let armed = timer_queue.arm(at(now), now);
            timer_queue.arm(at(now), now);
            timer_queue.disarm(armed);
            if now % 2 == 0 {
                assert!(timer_queue.pop_due(at(now)).is_some());
            }
            assert!(timer_queue.timer_queue.iter().all(|lane| lane.dead <= lane.queue.len() / 2 + SLACK));
        }
        timer_queue.disarm(old);
    }

    /// Against the obvious model: arm, disarm and pop in any mixture.
    #[test]
    fn they_do_what_an_ordered_map_does() {
        let mut dice = 7_u64;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 33) % sides
        };
        for _ in 0..50 {
            let mut timer_queue = TimerQueue::new();
            let mut model = BTreeMap::new();
            let mut armed = Vec::new();
            let mut now = 0;
            for id in 0..3000_u64 {
                match roll(5) {
                    0..=2 => {
                        let due = at(now + [100, 500, 37, roll(1000), 2000, 999][roll(6) as usize]);
                        model.insert(id, due);
                        armed.push((id, timer_queue.arm(due, id)));
                    }
                    3 if !armed.is_empty() => {
                        let (id, handle) = armed.swap_remove(roll(armed.len() as u64) as usize);
                        if model.remove(&id).is_some() {
                            timer_queue.disarm(handle);
                        }
                    }
                    _ => {
                        now += roll(40);
                        while let Some(id) = timer_queue.pop_due(at(now)) {
                            let due = model.remove(&id);
                            assert!(due.is_some_and(|due| due <= at(now)));
                            armed.retain(|(other, _)| *other != id);
                        }
                        assert!(model.values().all(|due| *due > at(now)));
                    }
                }
                assert_eq!(timer_queue.len(), model.len());
                assert_eq!(timer_queue.next(), model.values().min().copied());
            }
        }
    }
}
