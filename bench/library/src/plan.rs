//! Everything that a run measures, in which order and how much of it.

use std::time::Duration;

use clap::ValueEnum;

use crate::cell::{Task, Threads};
use crate::contender::Contender;
use crate::wire::Wire;

/// One of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Round trips.
    Throughput,
    /// From a cancel to the handler.
    Cancels,
    /// Many waiting requests.
    Scale,
    /// Buffers of 4 KiB.
    SmallBuffers,
    /// Sessions on which nothing happens.
    Idle,
}

impl Part {
    pub(crate) const ALL: [Self; 5] = [Self::Throughput, Self::Cancels, Self::Scale, Self::SmallBuffers, Self::Idle];
}

/// Outstanding round trips.
pub(crate) const WINDOWS: [usize; 3] = [1, 64, 1024];
/// Where round trips are measured.
pub(crate) const SETTINGS: [(Wire, Threads); 3] =
    [(Wire::Duplex, Threads::One), (Wire::Unix, Threads::One), (Wire::Unix, Threads::Two)];
/// Where cancels are: the runtime, and whether it is busy.
pub(crate) const CANCEL_SETTINGS: [(Threads, bool); 4] =
    [(Threads::One, false), (Threads::One, true), (Threads::Two, false), (Threads::Two, true)];
/// What has 4 KiB each way.
pub(crate) const SMALL: [(Wire, Threads); 2] = [(Wire::SmallDuplex, Threads::One), (Wire::SmallUnix, Threads::Two)];

/// How much is done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Rounds that medians are taken of.
    pub(crate) rounds: usize,
    /// How long nothing may happen before a session is wedged.
    pub(crate) patience: Duration,
    /// Waiting requests.
    pub(crate) scales: Vec<usize>,
    milliseconds: u64,
    cancels: [usize; 2],
    small_requests: usize,
    sessions: usize,
}

impl Plan {
    pub(crate) fn full() -> Self {
        Self {
            rounds: 5,
            patience: Duration::from_secs(10),
            scales: vec![100_000, 1_000_000],
            milliseconds: 300,
            cancels: [1_000, 500],
            small_requests: 20_000,
            sessions: 1_000,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            patience: Duration::from_secs(2),
            scales: vec![1_000],
            milliseconds: 5,
            cancels: [20, 20],
            small_requests: 2_000,
            sessions: 10,
        }
    }

    pub(crate) const fn echoes(&self, (wire, threads): (Wire, Threads), window: usize) -> Task {
        Task::Echoes { wire, threads, window, milliseconds: self.milliseconds }
    }

    pub(crate) const fn cancels(&self, (threads, is_busy): (Threads, bool)) -> Task {
        Task::Cancels { threads, is_busy, samples: self.cancels[is_busy as usize] }
    }

    pub(crate) const fn small_buffers(&self, (wire, threads): (Wire, Threads)) -> Task {
        Task::SmallBuffers { wire, threads, requests: self.small_requests }
    }

    pub(crate) const fn idle(&self) -> Task {
        Task::Idle { sessions: self.sessions }
    }

    /// What a part measures.
    pub(crate) fn tasks(&self, part: Part) -> Vec<Task> {
        match part {
            Part::Throughput => {
                let of = |setting| WINDOWS.into_iter().map(move |window| self.echoes(setting, window));
                SETTINGS.into_iter().flat_map(of).collect()
            }
            Part::Cancels => CANCEL_SETTINGS.into_iter().map(|setting| self.cancels(setting)).collect(),
            Part::Scale => self.scales.iter().map(|&requests| Task::Scale { requests }).collect(),
            Part::SmallBuffers => SMALL.into_iter().map(|setting| self.small_buffers(setting)).collect(),
            Part::Idle => vec![self.idle()],
        }
    }

    /// Whether `contender` does `task` in the round numbered `round`.
    pub(crate) const fn has(&self, contender: Contender, task: Task, round: usize) -> bool {
        match task {
            Task::Echoes { .. } => !contender.echoes_as_another(),
            Task::Cancels { .. } => contender.has_calls(),
            // A million requests of a library take a minute and gigabytes; nothing is promised relative to them.
            Task::Scale { requests } => {
                contender.has_calls() && (round == 0 || requests < 1_000_000 || contender.is_ours())
            }
            Task::Idle { .. } => round == 0 && contender.has_calls() && !contender.echoes_as_another(),
            // It finishes or it does not.
            Task::SmallBuffers { .. } => round == 0 && !contender.echoes_as_another(),
        }
    }
}
