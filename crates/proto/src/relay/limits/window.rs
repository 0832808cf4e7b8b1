//! How many requests passed within the last while.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::VecDeque;

use crate::time::Instant;

/// Into so many parts the time of a window is divided: one more stands for what passed at its very beginning.
const PARTS: u32 = 64;

/// What passed within the last while, in at most 66 parts: memory does not grow with what is allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// The requests of a sixty-fourth of the time: when the first and the last of them passed, and how many.
    parts: VecDeque<(Instant, Instant, u32)>,
    total: u32,
}

impl Window {
    /// The most bytes that one holds.
    pub(super) const MOST_HELD: usize = 128 * size_of::<(Instant, Instant, u32)>();

    /// When one more may pass, if `most` have passed within `per`; `None` if it may now.
    ///
    /// Never too early: the requests of a part leave the window together, when the last of them does. So a place is free
    /// again after `per`, or up to a sixty-fourth of that later.
    pub(super) fn full_until(&mut self, now: Instant, most: u32, per: Duration) -> Option<Instant> {
        while let Some((_, last, count)) = self.parts.front()
            && now.since(*last) >= per
        {
            self.total -= count;
            self.parts.pop_front();
        }
        let (_, last, _) = self.parts.front().filter(|_| self.total >= most)?;
        Some(*last + per)
    }

    /// One more passes.
    pub(super) fn add(&mut self, now: Instant, per: Duration) {
        self.total += 1;
        match self.parts.back_mut() {
            Some((first, last, count)) if now.since(*first) < per / PARTS => {
                (*last, *count) = (now, *count + 1);
            }
            _ => self.parts.push_back((now, now, 1)),
        }
    }

    /// Bytes of memory held.
    pub(super) fn held(&self) -> usize {
        self.parts.capacity() * size_of::<(Instant, Instant, u32)>()
    }

    /// Feeds what decides the future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        for (first, last, count) in &self.parts {
            (now.since(*first), now.since(*last), count).hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_of_the_time_has_more_than_its_most_and_its_memory_is_fixed() {
        const MOST: u32 = 1000;
        let per = Duration::from_secs(60);
        let (mut window, mut now, mut passed) = (Window::default(), Instant::ORIGIN, Vec::new());
        // Steps of all sizes, from a fixed rule: far more is asked than may pass.
        for step in 0_u64..200_000 {
            now = now + Duration::from_micros(step.wrapping_mul(2_654_435_761) % 20_000);
            if window.full_until(now, MOST, per).is_none() {
                window.add(now, per);
                passed.push(now);
            }
            assert!(window.parts.len() <= 66);
        }
        let most = MOST as usize;
        assert!(passed.windows(most + 1).all(|some| some[most].since(some[0]) >= per));
        // What is allowed is used up, but for the sixty-fourth.
        let windows = now.since(Instant::ORIGIN).as_secs_f64() / (per + per / PARTS).as_secs_f64();
        assert!(passed.len() >= windows.floor() as usize * most, "{} in {windows} windows", passed.len());
    }

    #[test]
    fn a_place_is_free_again_when_its_time_is_over() {
        let per = Duration::from_secs(10);
        let (mut window, start) = (Window::default(), Instant::ORIGIN);
        window.add(start, per);
        assert_eq!(window.full_until(start, 1, per), Some(start + per));
        assert_eq!(window.full_until(start + (per - Duration::from_nanos(1)), 1, per), Some(start + per));
        assert_eq!(window.full_until(start + per, 1, per), None);
    }
}
