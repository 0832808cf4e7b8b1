//! One measurement of anything that keeps requests.

use std::alloc::System;
use std::time::{Duration, Instant};

use serde::Serialize;
use stats_alloc::StatsAlloc;

use crate::lines::{Kind, Lines};

/// A prime that divides no number of requests asked for here: requests end in
/// another order than they began.
const STRIDE: usize = 7_368_787;

/// Something that keeps requests in flight.
pub(crate) trait Subject {
    fn take(&mut self, lines: &Lines);
    fn in_flight(&self) -> usize;
}

/// Nanoseconds and live heap bytes per request.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) ask_ns: f64,
    pub(crate) cancel_ns: f64,
    /// Absent where the ids that the server would answer are not the client's.
    pub(crate) answer_ns: Option<f64>,
    pub(crate) heap_bytes: f64,
    /// Bytes still live after all were cancelled.
    pub(crate) cancelled_bytes: f64,
}

/// What is measured, and how much of it.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: usize,
    pub(crate) repetitions: usize,
    pub(crate) has_answers: bool,
}

pub(crate) fn measure(
    make: impl Fn() -> Box<dyn Subject>,
    load: Load,
    heap: &StatsAlloc<System>,
) -> Result<Sample, String> {
    let mut lines = [Kind::Ask, Kind::Cancel, Kind::Answer].map(Lines::new);
    let [asks, cancels, answers] = &mut lines;
    let requests = load.requests;
    let (mut ask, mut cancel, mut answer) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut heap_bytes, mut cancelled_bytes) = (0.0, 0.0);
    for _ in 0..load.repetitions {
        let mut subject = make();
        let before = live(heap);
        ask += pass(&mut *subject, asks, requests, |count| count);
        expect(&*subject, "in flight", requests)?;
        heap_bytes = (live(heap) - before) as f64 / requests as f64;
        cancel += pass(&mut *subject, cancels, requests, |count| count * STRIDE % requests);
        expect(&*subject, "in flight after all were cancelled", 0)?;
        cancelled_bytes = (live(heap) - before) as f64 / requests as f64;
        drop(subject);
        if load.has_answers {
            let mut subject = make();
            pass(&mut *subject, asks, requests, |count| count);
            answer += pass(&mut *subject, answers, requests, |count| count * STRIDE % requests);
            expect(&*subject, "in flight after all were answered", 0)?;
        }
    }
    let each = |time: Duration| time.as_nanos() as f64 / (requests * load.repetitions) as f64;
    Ok(Sample {
        ask_ns: each(ask),
        cancel_ns: each(cancel),
        answer_ns: load.has_answers.then(|| each(answer)),
        heap_bytes,
        cancelled_bytes,
    })
}

/// Feeds one line for each request; the time without making the lines.
fn pass(subject: &mut dyn Subject, lines: &mut Lines, requests: usize, order: impl Fn(usize) -> usize) -> Duration {
    let mut took = Duration::ZERO;
    for first in (0..requests).step_by(Lines::AT_ONCE) {
        lines.fill((first..requests).map(&order));
        let began = Instant::now();
        subject.take(lines);
        took += began.elapsed();
    }
    took
}

fn expect(subject: &dyn Subject, what: &str, expected: usize) -> Result<(), String> {
    let found = subject.in_flight();
    if found == expected { Ok(()) } else { Err(format!("{what}: {found}, expected {expected}")) }
}

fn live(heap: &StatsAlloc<System>) -> isize {
    let stats = heap.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated).cast_signed()
}
