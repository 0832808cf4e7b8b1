//! All that a run has measured, and medians of it.

use rescind_bench::statistics::median;
use serde::Serialize;

use crate::cell::{Outcome, Task};
use crate::contender::Contender;

/// What one contender showed in one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    #[serde(serialize_with = "name")]
    contender: Contender,
    task: Task,
    round: usize,
    outcome: Outcome,
}

fn name<S: serde::Serializer>(contender: &Contender, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(contender.name())
}

/// One number of an outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figure {
    /// Round trips per second.
    PerSecond,
    /// Microseconds per round trip.
    RoundTrip,
    /// Microseconds from a cancel to the handler, the median.
    CancelP50,
    /// The 99th percentile of it.
    CancelP99,
    /// Resident bytes per waiting request.
    Bytes,
    /// Resident bytes per idle peer.
    IdleBytes,
    /// Microseconds per request, all cancelled.
    CancelAll,
    /// Microseconds per request, all answered.
    DrainAll,
    /// Cancels that no handler saw.
    Lost,
    /// Seconds to the last answer.
    Seconds,
}

impl Figure {
    fn of(self, outcome: &Outcome) -> Option<f64> {
        match (self, outcome) {
            (Self::PerSecond, Outcome::Echoes { per_s }) => Some(*per_s),
            (Self::RoundTrip, Outcome::Echoes { per_s }) => Some(1e6 / per_s),
            (Self::CancelP50, Outcome::Cancels { p50_us, .. }) => Some(*p50_us),
            (Self::CancelP99, Outcome::Cancels { p99_us, .. }) => Some(*p99_us),
            (Self::Bytes, Outcome::Scale { bytes, .. }) => Some(*bytes),
            (Self::IdleBytes, Outcome::Idle { bytes }) => Some(*bytes),
            (Self::CancelAll, Outcome::Scale { cancelled, .. }) => Some(cancelled.as_ref()?.us),
            (Self::DrainAll, Outcome::Scale { drain_us, .. }) => *drain_us,
            (Self::Lost, Outcome::Scale { cancelled, .. }) => Some(cancelled.as_ref()?.lost as f64),
            (Self::Lost, Outcome::Cancels { lost, .. }) => Some(*lost as f64),
            (Self::Seconds, Outcome::SmallBuffers { seconds }) => Some(*seconds),
            _ => None,
        }
    }
}

/// Every round of every contender.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Samples(Vec<Sample>);

impl Samples {
    pub(crate) fn add(&mut self, contender: Contender, task: Task, round: usize, outcome: Outcome) {
        self.0.push(Sample { contender, task, round, outcome });
    }

    /// What this contender showed in this task, round by round.
    pub(crate) fn of(&self, contender: Contender, task: Task) -> impl Iterator<Item = &Outcome> {
        self.rounds(contender, task).map(|sample| &sample.outcome)
    }

    /// The middle of all rounds.
    pub(crate) fn median(&self, contender: Contender, task: Task, figure: Figure) -> Option<f64> {
        middle(self.of(contender, task).filter_map(|outcome| figure.of(outcome)))
    }

    /// The middle of the ratios to `base` in the same round.
    pub(crate) fn ratio(&self, contender: Contender, base: Contender, task: Task, figure: Figure) -> Option<f64> {
        middle(self.rounds(contender, task).filter_map(|own| {
            let other = self.rounds(base, task).find(|other| other.round == own.round)?;
            Some(figure.of(&own.outcome)? / figure.of(&other.outcome)?)
        }))
    }

    /// The most of all rounds and tasks.
    pub(crate) fn most(&self, contender: Contender, figure: Figure) -> Option<f64> {
        let own = self.0.iter().filter(|sample| sample.contender == contender);
        own.filter_map(|sample| figure.of(&sample.outcome)).reduce(f64::max)
    }

    /// Contenders that wedged or failed, and what in.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Contender, Task, &Outcome)> {
        let failed =
            self.0.iter().filter(|sample| sample.outcome.is_wedged() || matches!(sample.outcome, Outcome::Failed(_)));
        failed.map(|sample| (sample.contender, sample.task, &sample.outcome))
    }

    fn rounds(&self, contender: Contender, task: Task) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| sample.contender == contender && sample.task == task)
    }
}

fn middle(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.collect();
    (!figures.is_empty()).then(|| median(&figures))
}
