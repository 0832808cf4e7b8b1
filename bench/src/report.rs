//! The figures of a run of `shim_bench`: medians, ratios to L0, promises.

use std::fmt;

use serde::Serialize;

use crate::contender::Contender;
use crate::floor::{Promise, Standing, Verdict};
use crate::machine::Machine;
use crate::statistics::median;

/// What one contender showed in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Median round trip with one outstanding, microseconds.
    pub p50_us: f64,
    /// 99th percentile of it.
    pub p99_us: f64,
    /// Round trips per second with 64 outstanding.
    pub messages_per_s: f64,
    /// Request megabytes (10^6) per second, 1 MiB messages holding one
    /// escaped string; each comes back as large.
    pub string_mb_per_s: f64,
    /// The same, 1 MiB of small objects.
    pub objects_mb_per_s: f64,
}

/// How a contender fared with full pipes of 4 KiB.
#[derive(Clone, Debug, Serialize)]
pub struct FullPipes {
    /// The contender.
    pub contender: &'static str,
    /// What was sent.
    pub payload: &'static str,
    /// Requests.
    pub requests: usize,
    /// Requests handed over before the first answer was read.
    pub outstanding_at_most: usize,
    /// Requests answered with something else than their result.
    pub refused: usize,
    /// Seconds from the first byte to the last answer.
    pub seconds: f64,
    /// Why it did not finish, if it did not.
    pub failed: Option<String>,
}

/// Every round of one contender.
#[derive(Clone, Debug, Serialize)]
pub struct Rounds {
    /// The contender.
    #[serde(serialize_with = "name")]
    pub contender: Contender,
    /// In the order they were run.
    pub samples: Vec<Sample>,
}

fn name<S: serde::Serializer>(contender: &Contender, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(contender.name())
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether this was a smoke run, whose figures mean nothing.
    pub is_quick: bool,
    /// Where and under which load.
    pub machine: Machine,
    /// Medians over the rounds.
    pub medians: Vec<Medians>,
    /// What the shim promises; empty without the shim.
    pub promises: Vec<Verdict>,
    /// The sessions with full pipes.
    pub full_pipes: Vec<FullPipes>,
    /// What the medians were taken of.
    pub rounds: Vec<Rounds>,
}

/// The middle of all rounds of one contender. "Added" is what is left after
/// the direct round trip of the same round; a ratio is the middle of the
/// ratios to L0 in the same round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Medians {
    /// The contender.
    pub contender: &'static str,
    /// The figures themselves.
    pub figures: Sample,
    /// Median round trip less the direct one's, microseconds.
    pub added_p50_us: f64,
    /// The same of the 99th percentiles.
    pub added_p99_us: f64,
    /// Each figure relative to L0's.
    pub to_level_zero: Ratios,
}

/// Ratios to L0.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Of the added medians.
    pub added_p50: f64,
    /// Of the added 99th percentiles.
    pub added_p99: f64,
    /// Of the messages per second.
    pub messages: f64,
    /// Of the rates with the escaped string.
    pub string: f64,
    /// Of the rates with the small objects.
    pub objects: f64,
}

impl Report {
    /// Sums up `rounds`, which must hold `Direct` and `LevelZero`, all of
    /// the same length.
    #[must_use]
    pub fn new(is_quick: bool, machine: Machine, rounds: Vec<Rounds>, full_pipes: Vec<FullPipes>) -> Self {
        let of = |wanted: Contender| {
            rounds.iter().find(|rounds| rounds.contender == wanted).map_or(&[][..], |rounds| &rounds.samples)
        };
        let (direct, zero) = (of(Contender::Direct), of(Contender::LevelZero));
        let medians: Vec<Medians> = rounds.iter().map(|rounds| Medians::of(rounds, direct, zero)).collect();
        let promises = medians
            .iter()
            .find(|medians| medians.contender == Contender::Rescind.name())
            .map_or_else(Vec::new, |shim| shim.to_level_zero.judge());
        Self { is_quick, machine, medians, promises, full_pipes, rounds }
    }

    /// Whether the shim, if it took part, wedged or lies below a floor.
    #[must_use]
    pub fn is_found_wanting(&self) -> bool {
        self.is_wedged() || self.promises.iter().any(|one| one.standing == Standing::Below)
    }

    /// Whether the shim did not finish with full pipes.
    #[must_use]
    pub fn is_wedged(&self) -> bool {
        self.full_pipes.iter().any(|one| one.contender == Contender::Rescind.name() && one.failed.is_some())
    }
}

impl Ratios {
    fn judge(&self) -> Vec<Verdict> {
        vec![
            Promise::at_most("added p50, times L0's", 1.5, 1.2).judge(self.added_p50),
            Promise::at_most("added p99, times L0's", 1.5, 1.2).judge(self.added_p99),
            Promise::at_least("messages/s, times L0's", 0.5, 0.75).judge(self.messages),
            Promise::at_least("1 MiB escaped string, times L0's", 0.5, 0.9).judge(self.string),
            Promise::at_least("1 MiB small objects, times L0's", 0.5, 0.9).judge(self.objects),
        ]
    }
}

impl Medians {
    fn of(rounds: &Rounds, direct: &[Sample], zero: &[Sample]) -> Self {
        let own = &rounds.samples;
        let middle = |figure: fn(&Sample) -> f64| median(&own.iter().map(figure).collect::<Vec<_>>());
        let added = |figure: fn(&Sample) -> f64| {
            let added = own.iter().zip(direct).map(|(a, b)| figure(a) - figure(b));
            median(&added.collect::<Vec<_>>())
        };
        let ratio = |figure: fn(&Sample) -> f64| {
            let ratios = own.iter().zip(zero).map(|(a, b)| figure(a) / figure(b));
            median(&ratios.collect::<Vec<_>>())
        };
        let added_ratio = |figure: fn(&Sample) -> f64| {
            let ratios = own
                .iter()
                .zip(zero)
                .zip(direct)
                .map(|((a, b), base)| (figure(a) - figure(base)) / (figure(b) - figure(base)));
            median(&ratios.collect::<Vec<_>>())
        };
        Self {
            contender: rounds.contender.name(),
            figures: Sample {
                p50_us: middle(|it| it.p50_us),
                p99_us: middle(|it| it.p99_us),
                messages_per_s: middle(|it| it.messages_per_s),
                string_mb_per_s: middle(|it| it.string_mb_per_s),
                objects_mb_per_s: middle(|it| it.objects_mb_per_s),
            },
            added_p50_us: added(|it| it.p50_us),
            added_p99_us: added(|it| it.p99_us),
            to_level_zero: Ratios {
                added_p50: added_ratio(|it| it.p50_us),
                added_p99: added_ratio(|it| it.p99_us),
                messages: ratio(|it| it.messages_per_s),
                string: ratio(|it| it.string_mb_per_s),
                objects: ratio(|it| it.objects_mb_per_s),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.machine)?;
        if self.is_quick {
            writeln!(out, "A smoke run: it proves that all run, its figures mean nothing.")?;
        }
        let rounds = self.rounds.first().map_or(0, |rounds| rounds.samples.len());
        writeln!(out, "Medians of {rounds} interleaved rounds; × is the ratio to L0.\n")?;
        writeln!(
            out,
            "{:<8} {:>13} {:>13} {:>11} {:>11} {:>5} {:>11} {:>5} {:>11} {:>5}",
            "", "round trip µs", "added µs", "×", "messages/s", "×", "string MB/s", "×", "objects MB/s", "×"
        )?;
        for one in &self.medians {
            let (figures, ratios) = (&one.figures, &one.to_level_zero);
            writeln!(
                out,
                "{:<8} {:>13} {:>13} {:>11} {:>11.0} {:>5.2} {:>11.0} {:>5.2} {:>12.0} {:>5.2}",
                one.contender,
                format!("{:.1}/{:.1}", figures.p50_us, figures.p99_us),
                format!("{:.1}/{:.1}", one.added_p50_us, one.added_p99_us),
                format!("{:.2}/{:.2}", ratios.added_p50, ratios.added_p99),
                figures.messages_per_s,
                ratios.messages,
                figures.string_mb_per_s,
                ratios.string,
                figures.objects_mb_per_s,
                ratios.objects,
            )?;
        }
        writeln!(out, "\nPipes of 4 KiB, nothing read until all is full:")?;
        for one in &self.full_pipes {
            let outcome = one
                .failed
                .as_ref()
                .map_or_else(|| format!("finished in {:.2} s", one.seconds), |why| format!("FAILED: {why}"));
            writeln!(
                out,
                "{:<8} {:>7} × {:<13} {:>7} outstanding, {} refused, {outcome}",
                one.contender, one.requests, one.payload, one.outstanding_at_most, one.refused
            )?;
        }
        if !self.promises.is_empty() {
            writeln!(out, "\nPromises of the shim:")?;
        }
        for promise in &self.promises {
            writeln!(out, "{}", promise.line())?;
        }
        Ok(())
    }
}
