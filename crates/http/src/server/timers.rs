//! When something is due: a lane for each kind of timer, all of one length.

use core::num::NonZero;
use std::{collections::VecDeque, time::Duration};

use rescind_proto::time::Instant;

use super::{
    config::HttpServerConfig,
    keys::{ReplyKey, SessionKey, StreamKey},
};

/// A keep-alive may come sooner by one in so many parts of its interval.
const KEEP_ALIVE_SLACK: u32 = 512;

/// How long the response to a cancel waits until something is known of it.
const FATE_WITHIN: Duration = Duration::from_secs(1);

/// Something that is due at a time. One of what is over stays until it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// The response of this stream may have to begin as one of events.
    Begin(StreamKey),
    /// The same, while the server has not accepted its client's credentials.
    Prove(StreamKey),
    /// Half a keep-alive of an open response has passed.
    KeepAlive(ReplyKey),
    /// A session is looked after.
    Session(SessionKey),
    /// A response has waited long enough for the fate of a cancel.
    Fate(ReplyKey),
    /// A body that is being read must have got on.
    Body(ReplyKey),
}

impl Timer {
    /// Its lane, and what it is for.
    const fn parts(self) -> (usize, NonZero<u64>) {
        match self {
            Self::Begin(StreamKey(key)) => (0, key),
            Self::Prove(StreamKey(key)) => (1, key),
            Self::KeepAlive(ReplyKey(key)) => (2, key),
            Self::Session(SessionKey(key)) => (3, key),
            Self::Fate(ReplyKey(key)) => (4, key),
            Self::Body(ReplyKey(key)) => (5, key),
        }
    }
}

/// What is due, and when.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// In the order of [`Timer::parts`].
    lanes: [Lane; 6],
}

/// Timers of one length: they become due in the order in which they were armed.
#[derive(Clone, Debug)]
struct Lane {
    length: Duration,
    /// How much sooner a timer may be due, so that it is due with the one before it. Without it, ten thousand keep-alives
    /// wake the driver ten thousand times.
    slack: Duration,
    timer: fn(NonZero<u64>) -> Timer,
    queue: VecDeque<(Instant, NonZero<u64>)>,
    /// How many were needed when that was looked at last, if no fewer are left.
    needed: usize,
}

impl Lane {
    const fn new(length: Duration, timer: fn(NonZero<u64>) -> Timer) -> Self {
        Self { length, slack: Duration::ZERO, timer, queue: VecDeque::new(), needed: 0 }
    }

    /// A lane of timers that are armed again when they are due: at once would be for ever.
    fn repeated(length: Duration, timer: fn(NonZero<u64>) -> Timer) -> Self {
        Self::new(length.max(Duration::from_millis(1)), timer)
    }

    fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }
}

impl Timers {
    pub(crate) fn new(config: &HttpServerConfig) -> Self {
        let upkeep = config.idle.min(config.resume_within) / 4;
        let keep_alive = Lane::repeated(config.keep_alive / 2, |key| Timer::KeepAlive(ReplyKey(key)));
        Self {
            lanes: [
                Lane::new(config.stream_after, |key| Timer::Begin(StreamKey(key))),
                Lane::new(config.prove_within, |key| Timer::Prove(StreamKey(key))),
                Lane { slack: config.keep_alive / KEEP_ALIVE_SLACK, ..keep_alive },
                Lane::repeated(upkeep, |key| Timer::Session(SessionKey(key))),
                Lane::new(FATE_WITHIN, |key| Timer::Fate(ReplyKey(key))),
                Lane::repeated(config.body_patience, |key| Timer::Body(ReplyKey(key))),
            ],
        }
    }

    pub(crate) fn arm(&mut self, now: Instant, timer: Timer) {
        let (lane, key) = timer.parts();
        let lane = &mut self.lanes[lane];
        let due = now + lane.length;
        // Time never runs backwards, so the queue stays in order.
        let last = lane.queue.back().map(|(last, _)| *last).filter(|last| due.since(*last) <= lane.slack);
        lane.queue.push_back((last.unwrap_or(due), key));
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(Lane::next).min()
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let lane = self.lanes.iter_mut().find(|lane| lane.next().is_some_and(|due| due <= now))?;
        let (_, key) = lane.queue.pop_front()?;
        if lane.queue.is_empty() {
            lane.queue = VecDeque::new();
        }
        lane.needed = lane.needed.min(lane.queue.len());
        Some((lane.timer)(key))
    }

    /// Drops timers in front that are not needed any more, so that the driver is not woken for them.
    pub(crate) fn skip(&mut self, is_needed: impl Fn(Timer) -> bool) {
        for lane in &mut self.lanes {
            while lane.queue.pop_front_if(|(_, key)| !is_needed((lane.timer)(*key))).is_some() {}
        }
    }

    /// Drops timers that are not needed any more, where they may be most of a lane.
    pub(crate) fn compact(&mut self, is_needed: impl Fn(Timer) -> bool) {
        for lane in &mut self.lanes {
            if lane.queue.len() > 2 * lane.needed + 64 {
                lane.queue.retain(|(_, key)| is_needed((lane.timer)(*key)));
                lane.needed = lane.queue.len();
            }
        }
    }

    /// What is armed, and for when.
    pub(crate) fn armed(&self) -> impl Iterator<Item = (Instant, Timer)> {
        self.lanes.iter().flat_map(|lane| lane.queue.iter().map(|(due, key)| (*due, (lane.timer)(*key))))
    }

    /// Bytes of memory that they hold.
    pub(crate) fn held(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.capacity() * size_of::<(Instant, NonZero<u64>)>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_comes_out_of_its_lane_as_it_went_in() {
        let mut timers = Timers::new(&HttpServerConfig::default());
        let all: Vec<Timer> = timers.lanes.iter().map(|lane| (lane.timer)(NonZero::<u64>::MIN)).collect();
        for (place, timer) in all.iter().enumerate() {
            assert_eq!(timer.parts(), (place, NonZero::<u64>::MIN));
            timers.arm(Instant::ORIGIN, *timer);
        }
        let end = Instant::ORIGIN + Duration::from_secs(24 * 60 * 60);
        assert_eq!(core::iter::from_fn(|| timers.pop(end)).collect::<Vec<_>>(), all);
        assert_eq!((timers.next(), timers.held()), (None, 0));
    }

    /// Ten thousand that are over leave no more behind than as many as are needed, and a few.
    #[test]
    fn timers_of_what_is_over_are_dropped_where_they_are_most() {
        let mut timers = Timers::new(&HttpServerConfig::default());
        let key = |number| StreamKey(NonZero::new(number).unwrap());
        for number in 1..=10_000 {
            timers.arm(Instant::ORIGIN, Timer::Begin(key(number)));
            timers.compact(|timer| timer == Timer::Begin(key(1)));
        }
        assert!(timers.armed().count() <= 2 + 64, "{}", timers.armed().count());
        assert_eq!(timers.armed().next().map(|(_, timer)| timer), Some(Timer::Begin(key(1))));
    }
}
