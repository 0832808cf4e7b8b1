//! What was measured, as tables.

use std::fmt;

use rescind_bench::statistics::{median, percentile};
use serde::Serialize;

use crate::{rate::Contender, signal::Signal};

#[derive(Default)]
pub(crate) struct Report {
    /// A contender, so many callers, and its rate in each round.
    rates: Vec<(Contender, usize, Vec<f64>)>,
    quiet: Vec<Signal>,
    busy: Vec<Signal>,
}

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Figures {
    rates: Vec<Rate>,
    /// Microseconds from asking to the token of the work: median, 99th percentile, the longest.
    fired_us: [f64; 3],
    /// Microseconds from asking to the reply.
    answered_us: [f64; 3],
    fired_busy_us: [f64; 3],
    answered_busy_us: [f64; 3],
}

#[derive(Serialize)]
struct Rate {
    name: &'static str,
    callers: usize,
    per_second: f64,
    /// To plain transactions one by one, in the same round.
    ratio: f64,
    rounds: Vec<f64>,
}

impl Report {
    pub(crate) fn rate(&mut self, contender: Contender, callers: usize, rate: f64) {
        match self.rates.iter_mut().find(|(of, by, _)| (*of, *by) == (contender, callers)) {
            Some((_, _, rounds)) => rounds.push(rate),
            None => self.rates.push((contender, callers, vec![rate])),
        }
    }

    pub(crate) fn signals(&mut self, busy: bool, signals: Vec<Signal>) {
        if busy { &mut self.busy } else { &mut self.quiet }.extend(signals);
    }

    pub(crate) fn figures(&self) -> Figures {
        let rates = self.rates.iter().map(|(contender, callers, rounds)| {
            let plain = self.rates.iter().find(|(of, by, _)| (*of, by) == (Contender::Plain, callers));
            let plain = plain.map_or(&[][..], |(_, _, rounds)| rounds);
            let ratios: Vec<_> = rounds.iter().zip(plain).map(|(ours, plain)| ours / plain).collect();
            let (per_second, ratio) = (median(rounds), median(&ratios));
            Rate { name: contender.name(), callers: *callers, per_second, ratio, rounds: rounds.clone() }
        });
        let fired = |signals: &[Signal]| spread(signals.iter().map(|it| it.fired));
        let answered = |signals: &[Signal]| spread(signals.iter().map(|it| it.answered));
        Figures {
            rates: rates.collect(),
            fired_us: fired(&self.quiet),
            answered_us: answered(&self.quiet),
            fired_busy_us: fired(&self.busy),
            answered_busy_us: answered(&self.busy),
        }
    }
}

fn spread(times: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<_> = times.map(|time| time.max(0.0).round() as u32).collect();
    sorted.sort_unstable();
    [50, 99, 100].map(|percent| f64::from(percentile(&sorted, percent)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        writeln!(f, "{:<26} {:>8} {:>24} {:>10}", "create + cancel", "callers", "pairs per second", "ratio")?;
        for rate in &figures.rates {
            writeln!(f, "{:<26} {:>8} {:>24.0} {:>9.2}x", rate.name, rate.callers, rate.per_second, rate.ratio)?;
        }
        writeln!(f)?;
        writeln!(f, "{:<26} {:>8} {:>24} {:>10}", "cancel, microseconds", "median", "99th percentile", "longest")?;
        for (name, [middle, most, all]) in [
            ("fires in another process", figures.fired_us),
            ("is answered", figures.answered_us),
            ("busy, fires", figures.fired_busy_us),
            ("busy, is answered", figures.answered_busy_us),
        ] {
            writeln!(f, "{name:<26} {middle:>8} {most:>24} {all:>10}")?;
        }
        Ok(())
    }
}
