//! When a program is started again that has ended by itself: at once, and if it does not stay, later and later (D64).

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};

use crate::time::Instant;

/// The wait after the second end in a row; each further one doubles it.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// A program that has run for so long has stayed: its end is the first in a row.
const STEADY: Duration = Duration::from_secs(60);

/// How often a program has ended in a row.
#[derive(Clone, Debug, Default)]
pub struct BackOff {
    ended_in_row: u32,
    started: Option<Instant>,
    not_before: Option<Instant>,
    /// How often it was started after it had ended by itself.
    pub restarts: usize,
}

impl BackOff {
    /// Records that the program is to be started, and returns when that may be.
    pub fn start(&mut self, now: Instant) -> Instant {
        let at = self.not_before.filter(|at| *at > now).unwrap_or(now);
        self.restarts += usize::from(self.not_before.take().is_some());
        self.started = Some(at);
        at
    }

    /// Records that the program has ended by itself, or is of no use.
    pub fn end(&mut self, now: Instant) {
        if self.started.take().is_none_or(|started| now.since(started) >= STEADY) {
            self.ended_in_row = 0;
        }
        let doubled = FIRST.saturating_mul(1 << self.ended_in_row.saturating_sub(1).min(16)).min(LONGEST);
        let wait = if self.ended_in_row == 0 { Duration::ZERO } else { doubled };
        self.ended_in_row = self.ended_in_row.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// Feeds what decides its future into a hasher.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let ran = self.started.map(|started| now.since(started).min(STEADY));
        (self.ended_in_row.min(6), ran, self.not_before.map(|at| at.since(now))).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_stay_is_started_later_and_later_and_one_that_stayed_at_once() {
        let mut back_off = BackOff::default();
        let mut now = Instant::ORIGIN;
        assert_eq!(back_off.start(now), now);
        for wait in [0, 1, 2, 4, 8, 16, 30, 30] {
            back_off.end(now);
            let at = back_off.start(now);
            assert_eq!(at, now + Duration::from_secs(wait));
            now = at + Duration::from_millis(10);
        }
        assert_eq!(back_off.restarts, 8);
        now = now + STEADY;
        back_off.end(now);
        assert_eq!(back_off.start(now), now);
    }

    #[test]
    fn a_wait_that_has_passed_is_none() {
        let mut back_off = BackOff::default();
        back_off.start(Instant::ORIGIN);
        back_off.end(Instant::ORIGIN);
        back_off.start(Instant::ORIGIN);
        back_off.end(Instant::ORIGIN);
        let later = Instant::ORIGIN + Duration::from_secs(9);
        assert_eq!(back_off.start(later), later);
    }
}
