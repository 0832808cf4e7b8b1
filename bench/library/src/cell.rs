//! One measurement of one contender, made in a process of its own.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::contender::{
    Acp, AsyncLsp, Contender, Depth, Failure, L2, L2Inline, Library, Rescind, RescindInline, RescindTyped, Rmcp,
    RmcpDropped, Tarpc, TowerLsp, Wrapped,
};
use crate::measure;
use crate::watchdog;
use crate::wire::Wire;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Echoes with `window` outstanding, for about `milliseconds`.
    Echoes { wire: Wire, threads: Threads, window: usize, milliseconds: u64 },
    /// The time from a cancel to the handler, over a Unix socket; while 64 others call, if it is busy.
    Cancels { threads: Threads, is_busy: bool, samples: usize },
    /// Many waiting requests, over a Unix socket and on one thread: cancelled at once, and again answered at once.
    Scale { requests: usize },
    /// All requests outstanding at once, through next to no buffers.
    SmallBuffers { wire: Wire, threads: Threads, requests: usize },
    /// Sessions over Unix sockets on which nothing happens.
    Idle { sessions: usize },
}

/// The runtime that both ends share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Threads {
    /// The current thread, on one CPU.
    One,
    /// Two workers, on whichever CPUs.
    Two,
}

impl Threads {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::One => "one thread",
            Self::Two => "two workers",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Echoes {
        per_s: f64,
    },
    Cancels {
        p50_us: f64,
        p99_us: f64,
        lost: usize,
    },
    Scale {
        /// Resident bytes per request, both ends.
        bytes: f64,
        /// All of them cancelled; absent if the session wedged before the last was sent.
        cancelled: Option<Cancelled>,
        /// Microseconds per request until the last answer; absent if the session wedged before it.
        drain_us: Option<f64>,
    },
    SmallBuffers {
        seconds: f64,
    },
    Idle {
        /// Resident bytes per peer: half of a session.
        bytes: f64,
    },
    /// Nothing happened for as long as the watchdog waits.
    Wedged,
    /// It would not have fitted into the memory.
    LeftOut,
    Failed(String),
}

/// Many cancels at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cancelled {
    /// Microseconds per cancel that was seen, until the last was.
    pub(crate) us: f64,
    /// Cancels that no handler saw.
    pub(crate) lost: usize,
}

/// One measurement, as the process that makes it is told of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) contender: Contender,
    pub(crate) task: Task,
    pub(crate) cpu: usize,
    pub(crate) patience: Duration,
}

impl Cell {
    /// Measures in another process, so that none inherits the heap of the one before.
    pub(crate) fn measure(&self) -> Result<Outcome, Failure> {
        let child = Command::new(std::env::current_exe()?)
            .args(["--play", &serde_json::to_string(self)?])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        Ok(match child.status.code() {
            Some(0) => serde_json::from_slice(&child.stdout)?,
            Some(_) | None => Outcome::Failed(format!("{}, {}", child.status, String::from_utf8_lossy(&child.stdout))),
        })
    }

    /// Measures in this process.
    pub(crate) fn play(self) -> Result<Outcome, Failure> {
        watchdog::start(self.patience);
        match self.task.threads() {
            Threads::One => {
                rescind_bench::affinity::pin(self.cpu)?;
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(self.run())
            }
            Threads::Two => {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                // As a task: the thread that blocks is none of the workers.
                runtime.block_on(async { tokio::spawn(self.run()).await })?
            }
        }
    }

    async fn run(self) -> Result<Outcome, Failure> {
        match self.contender {
            Contender::L0 => lines(self.task, Depth::Line).await,
            Contender::L1 => lines(self.task, Depth::Envelope).await,
            Contender::L2 => calls::<L2>(self.task, self.patience).await,
            Contender::L2Inline => calls::<L2Inline>(self.task, self.patience).await,
            Contender::Rescind => calls::<Rescind>(self.task, self.patience).await,
            Contender::RescindInline => calls::<RescindInline>(self.task, self.patience).await,
            Contender::RescindTyped => calls::<RescindTyped>(self.task, self.patience).await,
            Contender::Rmcp => calls::<Rmcp>(self.task, self.patience).await,
            Contender::RmcpDropped => calls::<RmcpDropped>(self.task, self.patience).await,
            Contender::RmcpWrapped => calls::<Wrapped<Rmcp>>(self.task, self.patience).await,
            Contender::RmcpDroppedWrapped => calls::<Wrapped<RmcpDropped>>(self.task, self.patience).await,
            Contender::Acp => calls::<Acp>(self.task, self.patience).await,
            Contender::AcpWrapped => calls::<Wrapped<Acp>>(self.task, self.patience).await,
            Contender::AsyncLsp => calls::<AsyncLsp>(self.task, self.patience).await,
            Contender::TowerLsp => calls::<TowerLsp>(self.task, self.patience).await,
            Contender::Tarpc => calls::<Tarpc>(self.task, self.patience).await,
        }
    }
}

impl Outcome {
    /// Whether the session wedged, if only at the end.
    pub(crate) const fn is_wedged(&self) -> bool {
        matches!(self, Self::Wedged | Self::Scale { cancelled: None, .. } | Self::Scale { drain_us: None, .. })
    }
}

impl Task {
    const fn threads(self) -> Threads {
        match self {
            Self::Echoes { threads, .. } | Self::Cancels { threads, .. } | Self::SmallBuffers { threads, .. } => {
                threads
            }
            Self::Scale { .. } | Self::Idle { .. } => Threads::One,
        }
    }
}

async fn lines(task: Task, depth: Depth) -> Result<Outcome, Failure> {
    match task {
        Task::Echoes { wire, window, milliseconds, .. } => {
            measure::throughput::of_lines(wire, depth, window, Duration::from_millis(milliseconds)).await
        }
        Task::SmallBuffers { wire, requests, .. } => measure::small_buffers::of_lines(wire, depth, requests).await,
        Task::Cancels { .. } | Task::Scale { .. } | Task::Idle { .. } => {
            Err(io::Error::other("lines have no calls").into())
        }
    }
}

async fn calls<L: Library>(task: Task, patience: Duration) -> Result<Outcome, Failure> {
    match task {
        Task::Echoes { wire, window, milliseconds, .. } => {
            measure::throughput::of_calls::<L>(wire, window, Duration::from_millis(milliseconds)).await
        }
        Task::Cancels { is_busy, samples, .. } => measure::cancels::measure::<L>(is_busy, samples, patience / 2).await,
        Task::Scale { requests } => measure::scale::measure::<L>(requests, patience / 2).await,
        Task::SmallBuffers { wire, requests, .. } => measure::small_buffers::of_calls::<L>(wire, requests).await,
        Task::Idle { sessions } => measure::idle::measure::<L>(sessions).await,
    }
}
